"""Requests of up to 3 MB: those that would hold the server for long are refused with 413."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from policy_sched.embedded.apiserver.endpoints.negotiation import REREAD_BYTES, VALUES, check_values
from policy_sched.embedded.apiserver.endpoints.server import WARNING_BYTES
from policy_sched.embedded.store.patch import JSON as JSON_PATCH, MERGE, STRATEGIC
from tests.embedded.apiserver.world import JSON, PODS, pod, serving

Plain = dict[str, Any]
APPLY = "application/apply-patch+yaml"
MAPS = "/api/v1/namespaces/default/configmaps"


def config_map(keys: int, value: str = "v") -> Plain:
    """Return a config map of many keys."""
    data = {f"k{number}": value for number in range(keys)}
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    return {**head, "data": data}


def containers() -> list[Plain]:
    """Return more containers than an object may have values."""
    return [{"name": f"{number}"} for number in range(150_000)]


def texts() -> list[str]:
    """Return as many finalizers, or labels."""
    return [f"a/{number}" for number in range(150_000)]


ORDER = "$setElementOrder/containers"
LARGE: list[tuple[str, str, str, Callable[[], Any]]] = [
    ("POST", MAPS, JSON, lambda: config_map(75_000)),
    ("PUT", f"{PODS}/p", JSON, lambda: {**pod("p"), "spec": {"containers": containers()}}),
    ("PATCH", f"{PODS}/p", STRATEGIC, lambda: {"spec": {"containers": containers()}}),
    ("PATCH", f"{PODS}/p", STRATEGIC, lambda: {"metadata": {"finalizers": texts()}}),
    ("PATCH", f"{PODS}/p", STRATEGIC, lambda: {"spec": {ORDER: containers(), "containers": []}}),
    ("PATCH", f"{PODS}/p", MERGE, lambda: {"metadata": {"labels": dict.fromkeys(texts())}}),
    ("PATCH", f"{PODS}/p", JSON_PATCH, lambda: [{"op": "test", "path": "", "value": containers()}]),
    ("PATCH", f"{MAPS}/a?fieldManager=m", APPLY, lambda: config_map(60_000)),
]


@pytest.mark.parametrize(("method", "path", "kind", "large"), LARGE)
def test_objects_and_patches_of_very_many_values_are_refused(
    method: str, path: str, kind: str, large: Callable[[], Any]
) -> None:
    """One such request held the process for up to 2.8 s, and every other request with it."""

    async def scenario() -> None:
        async with serving() as world:
            await world.create(PODS, pod("p"))
            status, answer = await world.ask(method, path, large(), type=kind)
            assert (status, answer["reason"]) == (413, "RequestEntityTooLarge")
            assert f"limit of an object is {VALUES} values" in answer["message"]

    asyncio.run(scenario())


def test_a_patch_cannot_grow_an_object_beyond_the_limit() -> None:
    """Each patch is small enough; together they are not."""

    async def scenario() -> None:
        async with serving() as world:
            await world.create(MAPS, config_map(15_000))
            more = {f"x{number}": "" for number in range(15_000)}
            status, _ = await world.ask("PATCH", f"{MAPS}/a", {"data": more}, type=MERGE)
            assert status == 413
            copy = {"op": "copy", "from": "/data", "path": "/metadata/annotations"}
            status, _ = await world.ask("PATCH", f"{MAPS}/a", [copy], type=JSON_PATCH)
            assert status == 413

    asyncio.run(scenario())


def test_a_manager_may_drop_thousands_of_fields() -> None:
    """Server-side apply of 9,000 fields, and of none of them, is accepted."""

    async def scenario() -> None:
        async with serving() as world:
            path = f"{MAPS}/a?fieldManager=m"
            status, _ = await world.ask("PATCH", path, config_map(9_000), type=APPLY)
            assert status == 201
            status, left = await world.ask("PATCH", path, config_map(0), type=APPLY)
            assert (status, left.get("data")) == (200, None)

    asyncio.run(scenario())


def test_large_values_are_no_reason_to_refuse() -> None:
    """A config map may hold a file of a megabyte full of commas and braces."""

    async def scenario() -> None:
        async with serving() as world:
            text = "{[,]}" * 100_000
            made = await world.create(MAPS, config_map(2, text))
            assert made["data"]["k1"] == text

    asyncio.run(scenario())


def test_warnings_are_cut() -> None:
    """Thousands of unknown fields were as many headers, which no client reads."""

    async def scenario() -> None:
        async with serving() as world:
            url = f"{world.url}{MAPS}?fieldValidation=Warn"
            data = {**config_map(0), **{f"field{number}": 1 for number in range(9_000)}}
            async with world.session.post(url, json=data) as answer:
                assert answer.status == 201
                warnings = answer.headers.getall("Warning")
            assert warnings[0] == '299 - "unknown field \\"field0\\""'
            assert len(warnings) > 10
            assert sum(map(len, warnings)) <= WARNING_BYTES

    asyncio.run(scenario())


def test_yaml_with_mistakes_is_short() -> None:
    """It is read by a slower reader, which names the mistakes; plain YAML is not."""

    async def scenario() -> None:
        async with serving() as world:
            lines = "".join(f"  k{number}: v\n" for number in range(2_000))
            head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
            body = f"{head}data:\n{lines}".encode()
            assert len(body) > REREAD_BYTES
            path = f"{MAPS}/a?fieldManager=m"
            status, answer = await world.ask("PATCH", path, body + b"  k1: w\n", type=APPLY)
            assert status == 413
            assert "YAML with duplicate keys" in answer["message"]
            status, made = await world.ask("PATCH", path, body, type=APPLY)
            assert (status, len(made["data"])) == (201, 2_000)

    asyncio.run(scenario())


@pytest.mark.parametrize("data", [{"a": [1] * VALUES}, [[]] * (VALUES + 1), [{"a": 1}] * VALUES])
def test_values_are_counted_wherever_they_are(data: Any) -> None:
    """In lists, in maps, and in each other."""
    with pytest.raises(Exception, match=f"limit of an object is {VALUES} values"):
        check_values(data)
