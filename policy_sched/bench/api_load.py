"""Load of ``bench API``: nodes and pods, created through the API side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator
from typing import Final

from policy_sched.bench.manifests import Manifest, node, node_name, pod
from policy_sched.client.apimachinery import NODE, POD
from policy_sched.client.kube.rest import Api, collection_path

TOGETHER: Final = 32
"""Requests that are under way at the same time."""


async def create(api: Api, path: str, things: Iterable[Manifest]) -> None:
    """Create objects, several at a time, in this order. Raises ClusterError."""
    await side_by_side(api.request("POST", path, thing) for thing in things)


async def side_by_side(requests: Iterable[Awaitable[object]]) -> None:
    """Wait for requests, several at a time, in this order. Raises ClusterError."""
    rest = iter(requests)

    async def some() -> None:
        for request in rest:
            await request

    async with asyncio.TaskGroup() as tasks:
        for _ in range(TOGETHER):
            tasks.create_task(some())


async def create_nodes(api: Api, count: int) -> None:
    """Create nodes of scheduler_perf, with a status as kubelets report it."""
    await create(api, collection_path(NODE), (named(node(i)) for i in range(count)))


async def create_bound(api: Api, count: int, nodes: int) -> None:
    """Create pods that are bound already, to the nodes in turn."""
    made = (named(pod("there", i, {"nodeName": node_name(i % nodes)})) for i in range(count))
    await create(api, collection_path(POD, "default"), made)


async def create_pending(api: Api, first: int, count: int) -> None:
    """Create pods that wait for a node."""
    await create(api, collection_path(POD, "default"), pending(first, count))


def pending(first: int, count: int) -> Iterator[Manifest]:
    """Yield the pods of SchedulingBasic from a number on."""
    return (named(pod("pod", first + i)) for i in range(count))


def named(manifest: Manifest) -> Manifest:
    """Return a manifest as a client sends it: the UID is the server's to give."""
    metadata = manifest["metadata"]
    assert isinstance(metadata, dict)
    del metadata["uid"]
    return manifest
