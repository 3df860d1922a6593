"""A scheduler in the manner of kube-scheduler, from its first request to the last pod's node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import cycle
from pathlib import Path

from tests.embedded.apiserver import test_kube_scheduler_as_client
from tests.embedded.apiserver.go_client import WATCH_LIST, GoClient, Plain, initial
from tests.embedded.apiserver.world import PODS, World, pod

COUNT = 30


async def _follow(client: GoClient, path: str, query: str, told: asyncio.Queue[Plain]) -> None:
    """Be an informer: tell of what is there, then of that it is all, then of what changes."""
    async with client.watch(path, query) as events:
        for thing in await initial(events):
            told.put_nowait(thing)
        told.put_nowait({"synced": path})
        async for event in events:
            if event["type"] in ("ADDED", "MODIFIED"):
                told.put_nowait(event["object"])


async def _pods(told: asyncio.Queue[Plain]) -> AsyncIterator[Plain]:
    while True:
        thing = await told.get()
        if thing.get("kind") == "Pod":
            yield thing


def test_every_pod_gets_a_node(tmp_path: Path) -> None:
    """All informers sync; then it binds what has no node, also what comes later, side by side."""

    async def story(world: World, client: GoClient) -> None:
        told: asyncio.Queue[Plain] = asyncio.Queue()
        nodes = cycle(("n0", "n1"))
        async with asyncio.TaskGroup() as tasks:
            informers = [
                tasks.create_task(_follow(client, path, selector + WATCH_LIST, told))
                for path, _, selector in test_kube_scheduler_as_client.INFORMERS
                if path != "/api/v1/pods"
            ]
            missing = {path for path, _, _ in test_kube_scheduler_as_client.INFORMERS} - {
                "/api/v1/pods"
            }
            while missing:
                missing.discard((await told.get()).get("synced", ""))
            query = test_kube_scheduler_as_client.LIVING + WATCH_LIST
            informers.append(tasks.create_task(_follow(client, "/api/v1/pods", query, told)))
            for number in range(COUNT):
                await test_kube_scheduler_as_client.make(world, PODS, pod(f"more-{number}"))
            bindings: dict[str, asyncio.Task[tuple[int, Plain]]] = {}
            bound: set[str] = set()
            async for other in _pods(told):
                name = other["metadata"]["name"]
                if "nodeName" in other["spec"]:
                    bound.add(name)
                elif name not in bindings:
                    bindings[name] = tasks.create_task(
                        test_kube_scheduler_as_client.bind(client, name, next(nodes))
                    )
                if len(bound) == COUNT + 2:
                    break
            assert {(await binding)[0] for binding in bindings.values()} == {201}
            assert bindings.keys() == bound
            for informer in informers:
                informer.cancel()

    test_kube_scheduler_as_client.tell(tmp_path, story)
