"""Logs, commands and ports: refused as on a cluster whose kubelets do not answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.embedded.apiserver.world import PODS, World, pod, serving
from tests.embedded.world import node


def _two() -> dict[str, Any]:
    data = pod("two")
    containers = [{"name": name, "image": "x"} for name in ("a", "b")]
    return {**data, "spec": {"containers": containers}}


async def _bound(world: World, name: str) -> None:
    target = {"kind": "Node", "name": "n"}
    await world.create(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})


CASES = [
    ("GET", "none/log", 404, 'pods "none" not found'),
    ("GET", "new/log", 400, "pod new does not have a host assigned"),
    ("GET", "one/log?container=x", 400, "container x is not valid for pod one"),
    ("POST", "two/exec", 400,
     "a container name must be specified for pod two, choose one of: [a b]"),
    ("GET", "one/log", 500,
     'Get "https://n:10250/containerLogs/default/one/c": dial tcp: lookup n: no such host'),
    ("POST", "two/exec?container=b", 500,
     'Post "https://n:10250/exec/default/two/b": dial tcp: lookup n: no such host'),
    ("POST", "two/portforward", 500,
     'Post "https://n:10250/portForward/default/two": dial tcp: lookup n: no such host'),
    ("DELETE", "one/log", 405, "the server does not allow this method on the requested resource"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "code", "words"), CASES)
def test_subresources_of_kubelets_are_rejected(
    method: str, path: str, code: int, words: str
) -> None:
    """First what the API server knows itself, then that the node does not answer."""

    async def run() -> None:
        async with serving() as world:
            await world.create("/api/v1/nodes", node("n"))
            for data in (pod("new"), pod("one"), _two()):
                await world.create(PODS, data)
            for name in ("one", "two"):
                await _bound(world, name)
            status, body = await world.ask(method, f"{PODS}/{path}")
            assert (status, body["message"]) == (code, words)

    asyncio.run(run())
