"""The server against what a kube-apiserver 1.36 answered to the same requests.

recorded_reads.jsonl: lists, tables and discovery, without managedFields and descriptions; the
writes are those that the store is tested with.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest

from policy_sched.http.access import Access
from tests.embedded.apiserver.world import World, serving
from tests.embedded.test_recorded import NODE_CREATED, RECORDED, Server, _stable

READS = {
    one["name"]: one
    for one in map(
        json.loads,
        Path(__file__).with_name("recorded_reads.jsonl").read_text(encoding="utf-8").splitlines(),
    )
}
WRITES = [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]
NOT_SERVED = {
    "bindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
}  # fmt: skip
READ: Final = {"subresources": [], "verbs": ["get", "list"]}
"""How API services differ: they are those of this server, which forwards no requests."""
PARTS_NOT_SERVED = {
    "approval", "proxy", "resize",
}  # fmt: skip


async def same_as_recorded(world: World, name: str) -> None:
    """Ask what was asked, and compare."""
    wanted = READS[name]
    accept = wanted["accept"]
    status, body = await world.ask("GET", wanted["path"], accept=accept)
    assert status == wanted["status"]
    assert _stable(_timeless(body)) == _stable(_timeless(wanted["body"])), name


def _timeless(value: Any) -> Any:
    """Return a value without what depends on where and when the recording was made."""
    if isinstance(value, dict):
        kept = {k: _timeless(v) for k, v in value.items()}
        if "continue" in kept:
            kept["continue"] = "continued"
        return kept
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


def test_writes_are_answered_as_recorded() -> None:
    """The same status codes, reasons, messages and objects, request after request."""

    async def run() -> None:
        async with serving() as world:
            memory = Server()
            for request in WRITES:
                body = memory._mapped(request["body"]) if request["body"] is not None else None
                named = {"type": request["type"]} if request.get("type") else {}
                status, answer = await world.ask(request["method"], request["path"], body, **named)
                wanted = request["answer"]
                if status < 300:
                    memory.learn(wanted, answer)
                assert (request["name"], status) == (request["name"], request["status"])
                if request["name"] != NODE_CREATED:
                    assert _stable(answer) == _stable(memory._mapped(wanted)), request["name"]

    asyncio.run(run())


def test_lists_and_tables_are_answered_as_recorded() -> None:
    """Pages, tables, selectors: the same items without their kind, the same cells."""

    async def run() -> None:
        async with serving() as world:
            for node in READS["nodes-list"]["body"]["items"]:
                await world.create("/api/v1/nodes", node | {"metadata": _named(node)})
            for request in WRITES:
                if request["name"].startswith(("priorityclass", "pod-create")):
                    await world.ask(request["method"], request["path"], request["body"])
            names = ("nodes-list", "nodes-table", "pods-list", "pods-list-page", "pods-table")
            for name in (*names, "pod-get-missing", "healthz"):
                await same_as_recorded(world, name)

    asyncio.run(run())


def _named(node: dict[str, Any]) -> dict[str, Any]:
    return {key: node["metadata"][key] for key in ("name", "labels")}


def test_a_wrong_token_is_unauthorized(tmp_path: Path) -> None:
    """With the recorded words; the right one is let in, and health needs none."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("secret,admin,1\n", encoding="utf-8")

    async def run() -> None:
        async with serving(Access(tokens=str(tokens))) as world:
            status, body = await world.ask("GET", "/api/v1/nodes", token="wrong")
            assert (status, body) == (401, UNAUTHORIZED)
            assert (await world.ask("GET", "/api/v1/nodes"))[0] == 401
            assert (await world.ask("GET", "/api/v1/nodes", token="secret"))[0] == 200
            assert await world.ask("GET", "/healthz") == (200, "ok")

    asyncio.run(run())


UNAUTHORIZED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "Unauthorized",
    "reason": "Unauthorized",
    "code": 401,
}


@pytest.mark.parametrize("name", [name for name in READS if name.endswith("v1")])
def test_classic_discovery_is_as_recorded(name: str) -> None:
    """Each resource with its verbs, short names, categories and hash; what is missing is known."""
    wanted = READS[name]

    async def run() -> Any:
        async with serving() as world:
            return await world.ask("GET", wanted["path"])

    status, body = asyncio.run(run())
    assert status == 200
    theirs = {item["name"]: item for item in wanted["body"].pop("resources")}
    ours = {item["name"]: item for item in body.pop("resources")}
    assert body == wanted["body"]
    for resource, our in ours.items():
        assert our == theirs[resource]
    missing = theirs.keys() - ours.keys()
    assert all(n in NOT_SERVED or n.partition("/")[2] in PARTS_NOT_SERVED for n in missing)


def test_aggregated_discovery_is_as_recorded() -> None:
    """One document for all groups, in the recorded order; what is missing is known."""
    wanted = READS["discovery-aggregated"]

    async def run() -> tuple[Any, Any]:
        async with serving() as world:
            core = await world.ask("GET", "/api", accept=wanted["accept"])
            async with world.session.get(
                world.url + "/apis", headers={"Accept": wanted["accept"]}
            ) as answer:
                assert answer.headers["Content-Type"] == wanted["type"]
                return core[1], await answer.json()

    core, body = asyncio.run(run())
    assert core["items"][0]["metadata"] == {}
    assert body["metadata"] == wanted["body"]["metadata"] == {}
    theirs, ours = (_by_name(item) for item in (wanted["body"], body))
    order = [key for key in theirs if key in ours]
    assert [key for key in ours if key in theirs] == order
    for key in order:
        read_only = READ if key[2] == "apiservices" else {}
        assert _without_parts(ours[key]) == {**_without_parts(theirs[key]), **read_only}
    missing = {resource for _, _, resource in theirs.keys() - ours.keys()}
    assert missing <= NOT_SERVED | {"horizontalpodautoscalers"}  # the older version of these


def _by_name(body: dict[str, Any]) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {
        (group["metadata"].get("name", ""), version["version"], resource["resource"]): resource
        for group in body["items"]
        for version in group["versions"]
        for resource in version["resources"]
    }


def _without_parts(resource: dict[str, Any]) -> dict[str, Any]:
    parts = resource.get("subresources", [])
    kept = [part for part in parts if part["subresource"] not in PARTS_NOT_SERVED]
    return {**resource, "subresources": kept}


def test_the_version_is_that_of_the_recorded_api() -> None:
    """Clients that look for features find those of 1.36."""

    async def run() -> Any:
        async with serving() as world:
            return (await world.ask("GET", "/version"))[1]

    body, wanted = asyncio.run(run()), READS["version"]["body"]
    assert body.keys() == wanted.keys()
    for field in ("major", "minor", "emulationMinor", "minCompatibilityMinor"):
        assert body[field] == wanted[field]
