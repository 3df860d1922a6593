"""Server-side apply through the API: what is asked of a request, and what is stored."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from policy_sched.embedded.store import annotated
from tests.embedded.apiserver.security.guarded import RBAC, binding, guarded, make, role, rule, user
from tests.embedded.apiserver.world import SPEC, World, serving
from tests.fuzz.corpus import OBJECTS

APPLY = "application/apply-patch+yaml"
MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def config(**data: str) -> dict[str, Any]:
    """Return a config map."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


async def apply(world: World, path: str, data: Any, by: str = "me", **named: str) -> Any:
    """Apply; return the status code and the answer."""
    joint = "&" if "?" in path else "?"
    return await world.ask("PATCH", f"{path}{joint}fieldManager={by}", data, type=APPLY, **named)


def test_a_manifest_is_applied_changed_and_unapplied() -> None:
    """Created, then updated; YAML as well as JSON; other managers' fields stay."""

    async def run() -> None:
        async with serving() as world:
            path = f"{MAPS}/c"
            yaml = b"apiVersion: v1\nkind: ConfigMap\ndata: {a: '1', b: '2'}\n"
            assert (await apply(world, path, yaml))[0] == 201
            status, made = await apply(world, path, yaml)
            assert (status, made["metadata"]["name"]) == (200, "c")
            merge = "application/merge-patch+json"
            patch = {"data": {"c": "3", "a": "4"}}
            path_by = f"{path}?fieldManager=kubectl-edit"
            assert (await world.ask("PATCH", path_by, patch, type=merge))[0] == 200
            status, body = await apply(world, path, config(a="1"))
            assert (status, body["details"]["causes"][0]["field"]) == (409, ".data.a")
            status, body = await apply(world, f"{path}?force=true&dryRun=All", config(a="1"))
            assert (status, body["data"]) == (200, {"a": "1", "c": "3"})
            assert (await world.ask("GET", path))[1]["data"] == {"a": "4", "b": "2", "c": "3"}
            version = made["metadata"]["resourceVersion"]
            old = config(b="2") | {"metadata": {"name": "c", "resourceVersion": version}}
            assert (await apply(world, path, old))[0] == 409

    asyncio.run(run())


def test_a_scale_takes_the_replicas() -> None:
    """Applying another number then names the manager that set them."""

    async def run() -> None:
        async with serving() as world:
            template = {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}
            spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
            data = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
            path = f"{DEPLOYMENTS}/d"
            assert (await apply(world, path, {**data, "spec": spec}))[0] == 201
            scale = {"spec": {"replicas": 0}}
            merge = "application/merge-patch+json"
            by = f"{path}/scale?fieldManager=kubectl"
            assert (await world.ask("PATCH", by, scale, type=merge))[0] == 200
            status, body = await apply(world, path, {**data, "spec": spec})
            assert status == 409
            assert 'with subresource "scale" using apps/v1 at' in body["message"]
            status = {"conditions": [{"type": "X", "status": "True"}]}
            code, body = await apply(world, f"{path}/status", {**data, "status": status})
            assert (code, body["spec"]["replicas"]) == (200, 0)
            *own, applied = body["status"]["conditions"]
            assert [entry["type"] for entry in own] == ["Available", "Progressing"]
            assert applied == {
                **status["conditions"][0], "lastUpdateTime": None, "lastTransitionTime": None
            }  # fmt: skip
            parts = [entry.get("subresource") for entry in body["metadata"]["managedFields"]]
            assert parts == [None, "status", "scale"]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("query", "data", "code", "words"),
    [
        ("", config(), 422, "fieldManager: Required value: is required for apply patch"),
        (f"?fieldManager={'x' * 129}", config(), 422, "may not be more than 128 bytes"),
        ("?fieldManager=m", b"a: [", 400, "error converting YAML to JSON"),
        ("?fieldManager=m", b"- a", 400, "the patch is no object"),
        ("?fieldManager=m", {"metadata": {"managedFields": [{}]}}, 400, "must be nil"),
        ("?fieldManager=m", {"apiVersion": "v1", "kind": "Pod"}, 400, "cannot be handled as"),
        ("?fieldManager=m", {**config(), "metadata": {"name": "other"}}, 400, "does not match"),
        ("?fieldManager=m", {**config(), "metadata": {"uid": "u"}}, 409, "uid mismatch"),
    ],
)  # fmt: skip
def test_what_cannot_be_applied_is_refused(query: str, data: Any, code: int, words: str) -> None:
    """With the API server's words."""

    async def run() -> None:
        async with serving() as world:
            status, body = await world.ask("PATCH", f"{MAPS}/c{query}", data, type=APPLY)
            assert (status, words in body["message"]) == (code, True), body

    asyncio.run(run())


def test_force_is_for_applying_only() -> None:
    """And the uid of what is there has to be right."""

    async def run() -> None:
        async with serving() as world:
            await world.create(MAPS, config())
            merge = "application/merge-patch+json"
            status, body = await world.ask("PATCH", f"{MAPS}/c?force=true", {}, type=merge)
            assert (status, "may not be specified for non-apply" in body["message"]) == (422, True)
            other = {**config(), "metadata": {"uid": "other"}}
            assert (await apply(world, f"{MAPS}/c", other))[0] == 422
            gone = await apply(world, f"{DEPLOYMENTS}/d/status", {
                "apiVersion": "apps/v1", "kind": "Deployment",
            })  # fmt: skip
            assert gone[0] == 404

    asyncio.run(run())


def test_a_user_that_may_only_patch_creates_nothing(tmp_path: Path) -> None:
    """Applying what is not there needs the right to create it."""

    async def run() -> None:
        async with guarded(tmp_path) as world:
            patches = role("p", rule("patch", "configmaps"))
            await make(world, f"{RBAC}/namespaces/default/roles", patches)
            given = binding("p", "Role", "p", user("joe"))
            await make(world, f"{RBAC}/namespaces/default/rolebindings", given)
            status, body = await apply(world, f"{MAPS}/c", config(), token="joe-token")
            assert (status, "cannot create resource" in body["message"]) == (403, True)
            await make(world, MAPS, config())
            assert (await apply(world, f"{MAPS}/c", config(), token="joe-token"))[0] == 200

    asyncio.run(run())


def test_a_file_that_drops_thousands_of_fields_is_applied() -> None:
    """9,000 fields that a file did not name any more kept the API server busy for minutes."""

    async def run() -> None:
        async with serving() as world:
            path = "/api/v1/namespaces/default/configmaps/c?fieldManager=m"
            head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
            many = {f"k{number}": "v" for number in range(9_000)}
            kept = {"k1": "v", "k2": "w"}
            assert (await world.ask("PATCH", path, {**head, "data": many}, type=APPLY))[0] == 201
            status, body = await world.ask("PATCH", path, {**head, "data": kept}, type=APPLY)
            assert (status, body["data"]) == (200, kept)
            status, body = await world.ask("PATCH", path, head, type=APPLY)
            assert (status, "data" in body) == (200, False)

    asyncio.run(run())


def test_an_object_of_too_many_fields_is_not_applied() -> None:
    """The paths of its fields would take hundreds of megabytes."""

    async def run() -> None:
        async with serving() as world:
            deep: Any = {f"k{number}": 1 for number in range(20_000)}
            for _ in range(90):
                deep = {"a": deep}
            path = "/api/v1/namespaces/default/configmaps/c?fieldManager=m"
            head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
            status, body = await world.ask("PATCH", path, {**head, "x": deep}, type=APPLY)
            assert (status, body["reason"]) == (413, "RequestEntityTooLarge")

    asyncio.run(run())


@pytest.mark.parametrize("path", sorted(OBJECTS))
def test_what_kubectl_has_applied_can_be_applied_by_the_server(path: str) -> None:
    """As ``kubectl apply`` and twice ``kubectl apply --server-side``: nothing else changes.

    The second one dropped the selector that the server had given a Job.
    """

    async def run() -> None:
        async with serving() as world:
            given = json.loads(json.dumps(OBJECTS[path]))
            given["metadata"].pop("resourceVersion", None)
            first = annotated(given)
            made = await world.create(path, first)
            name = made["metadata"]["name"]
            for _ in range(2):
                status, body = await apply(world, f"{path}/{name}?force=true", given, "kubectl")
                assert status == 200, body
            for field in made.keys() - {"metadata", "status"}:
                assert body[field] == made[field]

    asyncio.run(run())
