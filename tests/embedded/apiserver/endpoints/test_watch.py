"""Watches over a socket: what is told, in which order, and how they end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from tests.embedded.apiserver.world import PODS, Plain, World, pod, serving

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
STREAMING = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


async def take(lines: AsyncIterator[Plain], count: int) -> list[Plain]:
    """Return the next lines."""
    return [await anext(lines) for _ in range(count)]


def told(lines: list[Plain]) -> list[tuple[str, str]]:
    """Return type and name of each line."""
    return [(line["type"], line["object"]["metadata"].get("name", "")) for line in lines]


async def version(world: World) -> str:
    """Return the present version."""
    resource_version: str = (await world.ask("GET", PODS))[1]["metadata"]["resourceVersion"]
    return resource_version


def test_a_streaming_list_ends_with_a_bookmark_and_continues() -> None:
    """What is there, in order of names; the mark; then what happens, as recorded."""

    async def run() -> None:
        async with serving() as world:
            for name in ("web-2", "web-1"):
                await world.create(PODS, pod(name, app="web"))
            async with world.watch(f"{PODS}?{STREAMING}") as lines:
                first = await take(lines, 3)
                assert told(first) == [("ADDED", "web-1"), ("ADDED", "web-2"), ("BOOKMARK", "")]
                mark = first[2]["object"]
                assert mark == {
                    "kind": "Pod",
                    "apiVersion": "v1",
                    "metadata": {
                        "resourceVersion": await version(world),
                        "annotations": {"k8s.io/initial-events-end": "true"},
                    },
                    "spec": {"containers": None},
                    "status": {},
                }
                await world.create(PODS, pod("web-4"))
                patch = {"metadata": {"labels": {"app": "api"}}}
                merge = "application/merge-patch+json"
                await world.ask("PATCH", f"{PODS}/web-4", patch, type=merge)
                await world.ask("DELETE", f"{PODS}/web-4")
                types = ("ADDED", "MODIFIED", "MODIFIED", "DELETED")
                assert told(await take(lines, 4)) == [(kind, "web-4") for kind in types]

    asyncio.run(run())


def test_without_a_version_a_watch_begins_with_everything() -> None:
    """As ADDED; with a version only what came after it."""

    async def run() -> None:
        async with serving() as world:
            await world.create(PODS, pod("a"))
            since = await version(world)
            await world.create(PODS, pod("b"))
            async with world.watch(PODS) as lines:
                assert told(await take(lines, 2)) == [("ADDED", "a"), ("ADDED", "b")]
            async with world.watch(f"{PODS}?resourceVersion={since}") as lines:
                assert told(await take(lines, 1)) == [("ADDED", "b")]

    asyncio.run(run())


def test_objects_enter_and_leave_a_selector() -> None:
    """A pod that is labelled comes as ADDED, and goes as DELETED."""

    async def run() -> None:
        async with serving() as world:
            await world.create(PODS, pod("a", app="x"))
            path = f"{PODS}?labelSelector=app%3Dweb&fieldSelector=metadata.name%3Da"
            async with world.watch(f"{path}&resourceVersion={await version(world)}") as lines:
                for value in ("web", "x"):
                    patch = {"metadata": {"labels": {"app": value}}}
                    merge = "application/merge-patch+json"
                    await world.ask("PATCH", f"{PODS}/a", patch, type=merge)
                assert told(await take(lines, 2)) == [("ADDED", "a"), ("DELETED", "a")]

    asyncio.run(run())


def test_a_watch_ends_after_its_time_with_a_bookmark() -> None:
    """timeoutSeconds closes it; one of a version that lies ahead says nothing until then."""

    async def run() -> None:
        async with serving() as world:
            now = await version(world)
            query = f"timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion={now}"
            ahead = "timeoutSeconds=1&resourceVersion=1000000"
            async with (
                world.watch(f"{PODS}?{query}") as lines,
                world.watch(f"{PODS}?{ahead}") as empty_watch,
            ):
                sent = [line async for line in lines]
                assert [item["type"] for item in sent] == ["BOOKMARK"]
                assert sent[0]["object"]["metadata"] == {"resourceVersion": now}
                assert [line async for line in empty_watch] == []

    asyncio.run(run())


def test_a_version_that_is_forgotten_is_an_error_in_the_stream() -> None:
    """One line, as a Status with code 410; the request itself succeeds."""

    async def run() -> None:
        async with serving(history=4) as world:
            for index in range(20):
                await world.create(PODS, pod(f"p{index}"))
            async with world.watch(f"{PODS}?resourceVersion=1") as lines:
                (only,) = [line async for line in lines]
        assert only["type"] == "ERROR"
        oldest = only["object"].pop("message")
        assert oldest.startswith("too old resource version: 1 (")
        assert only["object"] == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "reason": "Expired",
            "code": 410,
        }

    asyncio.run(run())


def test_a_slow_reader_blocks_no_other_and_misses_nothing() -> None:
    """It reads 600 changes of 20 KB long after they were made; others were answered meanwhile."""

    async def run() -> None:
        async with serving() as world:
            host, port = "127.0.0.1", world.server.address.port
            reader, writer = await asyncio.open_connection(host, port, limit=2**20)
            path = f"{PODS}?watch=true&resourceVersion={await version(world)}"
            writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            await reader.readuntil(b"\r\n\r\n")
            big = {"padding": "x" * 20_000}
            for index in range(600):
                other = pod(f"p{index}")
                other["metadata"]["annotations"] = big
                world.cluster.store.create(other)
                if index % 100 == 0:
                    assert (await world.ask("GET", f"{PODS}/p{index}"))[0] == 200
            seen = []
            while len(seen) < 600:
                line = json.loads(await reader.readline())
                seen.append(line["object"]["metadata"]["name"])
            assert seen == [f"p{index}" for index in range(600)]
            writer.close()

    asyncio.run(run())


def test_a_watch_behind_the_history_gets_410() -> None:
    """It is not kept up to date from memory of its own."""

    async def run() -> None:
        async with serving(history=50) as world:
            host, port = "127.0.0.1", world.server.address.port
            reader, writer = await asyncio.open_connection(host, port, limit=2**16)
            path = f"{PODS}?watch=true&resourceVersion={await version(world)}"
            writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            await reader.readuntil(b"\r\n\r\n")
            for index in range(1500):
                other = pod(f"p{index}")
                other["metadata"]["annotations"] = {"padding": "x" * 20_000}
                world.cluster.store.create(other)
                if index % 10 == 0:
                    await world.ask("GET", "/healthz")
            raw = await reader.read()
            last = json.loads(raw.splitlines()[-1])
            assert (last["type"], last["object"]["reason"]) == ("ERROR", "Expired")
            writer.close()

    asyncio.run(run())


def test_a_watch_of_a_rare_kind_does_not_expire() -> None:
    """However much happens to other kinds meanwhile, a version that was passed is not too old."""

    async def run() -> None:
        async with serving(history=10) as world:
            since = await version(world)
            async with world.watch(f"/api/v1/nodes?resourceVersion={since}") as lines:
                await world.create("/api/v1/nodes", {"metadata": {"name": "n"}})
                assert told(await take(lines, 1)) == [("ADDED", "n")]
                for index in range(50):
                    world.cluster.store.create(pod(f"p{index}"))
                await world.create("/api/v1/nodes", {"metadata": {"name": "m"}})
                assert told(await take(lines, 1)) == [("ADDED", "m")]

    asyncio.run(run())


def test_a_watch_of_a_table_names_the_columns_once() -> None:
    """As kubectl get -w reads it."""

    async def run() -> None:
        async with serving() as world:
            for name in ("a", "b"):
                await world.create(PODS, pod(name))
            async with world.watch(PODS, accept=TABLE) as lines:
                first, second = await take(lines, 2)
        assert [column["name"] for column in first["object"]["columnDefinitions"]][:2] == [
            "Name",
            "Ready",
        ]
        assert second["object"]["columnDefinitions"] is None
        assert [column["object"]["rows"][0]["cells"][0] for column in (first, second)] == ["a", "b"]

    asyncio.run(run())


def test_what_does_not_go_together_is_refused() -> None:
    """With the API server's words."""

    async def run() -> dict[str, Any]:
        async with serving() as world:
            queries = ("sendInitialEvents=true", "resourceVersionMatch=NotOlderThan")
            asked = {query: await world.ask("GET", f"{PODS}?watch=1&{query}") for query in queries}
            asked["rv"] = await world.ask("GET", f"{PODS}?watch=1&resourceVersion=x")
            return asked

    results = asyncio.run(run())
    status, body = results["sendInitialEvents=true"]
    what = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    refused = f'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: {what}'
    assert (status, body["message"]) == (422, refused)
    assert results["resourceVersionMatch=NotOlderThan"][0] == 422
    status, body = results["rv"]
    assert (status, body["reason"]) == (400, "BadRequest")


def test_the_end_of_the_server_ends_its_watches() -> None:
    """Without waiting for their time."""

    async def run() -> None:
        async with serving() as world:
            async with world.watch(PODS) as lines:
                await world.create(PODS, pod("a"))
                await take(lines, 1)
                await world.server.__aexit__(None, None, None)
                assert [line async for line in lines] == []
            await world.server.__aenter__()

    asyncio.run(run())
