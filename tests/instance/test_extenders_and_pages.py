"""Pages of a scheduler whose extenders are slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import aiohttp

from policy_sched.instance.app.cache_debugger import Comparer
from policy_sched.instance.app.cluster_instance import ClusterInstance
from policy_sched.instance.http.delegated_auth import AlwaysAllow
from policy_sched.instance.http.endpoints import Endpoints, Offered
from policy_sched.instance.http.listener import Listener
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.profiles.reload.store import Reload
from tests.instance.app.test_cluster_instance import World, acted, node, pod, until
from tests.instance.test_remote_extenders import FITS, configured, gated, scheduling, slow

Ask = Callable[[str], Coroutine[None, None, str]]


def test_requests_are_answered_during_an_extender_call() -> None:
    """Health at once; an explanation after the decision, since it calls the extender as well."""

    async def play(world: World) -> None:
        with gated({"filter": FITS}, "filter") as (gate, calls):
            world.policies = PolicyFiles(configured(calls, "filter"), ())
            world.apply(node("a"), slow("huge", cpu="64"), slow("p", cpu="3"))
            async with scheduling(world) as instance, asking(instance) as ask:
                world.apply(slow("q", cpu="3"))
                await until(gate.requested.is_set)
                assert await ask("/healthz") == "ok"
                explaining = asyncio.create_task(ask("/explain/default/huge"))
                for _ in range(3):
                    assert await ask("/readyz") == "ok"
                assert not explaining.done()
                gate.opened.set()
                assert "huge does not fit on the only node" in await explaining

    acted(play)


@asynccontextmanager
async def asking(instance: ClusterInstance) -> AsyncIterator[Ask]:
    """Serve an instance's endpoints; yield a function that reads a page."""

    async def nothing() -> Reload:
        raise AssertionError("nobody asks for it")

    settings = instance.reloader.store.current.settings
    offered = Offered(instance, nothing, lambda: settings)
    async with (
        Listener(Endpoints(offered, AlwaysAllow()).handle, ("127.0.0.1", 0), None) as listener,
        aiohttp.ClientSession() as client,
    ):

        async def ask(path: str) -> str:
            async with client.get(listener.url + path) as answered:
                return await answered.text()

        yield ask


def test_the_cache_is_compared_after_pending_changes_are_applied() -> None:
    """A change that waits for the end of a decision is not a mismatch."""

    async def play(world: World) -> None:
        with gated({"filter": FITS}, "filter") as (gate, calls):
            world.policies = PolicyFiles(configured(calls, "filter"), ())
            world.apply(node("a"))
            async with scheduling(world) as instance:
                world.apply(slow("p"))
                await until(gate.requested.is_set)
                world.apply(node("b"), pod("q"))
                nodes, pods = (instance.informers.reflectors[end].mirror for end in (0, -1))
                await until(lambda: len(nodes) == len(pods) == 2)
                assert instance.informers.behind
                comparer = Comparer(instance.scheduler, instance.log, pause=0)
                comparing = asyncio.create_task(comparer.run(instance.look))
                await until(lambda: "Cache comparer started" in messages(world))
                assert instance.deciding
                gate.opened.set()
                found = await comparing
                assert found is not None
                assert not found
        assert "Cache mismatch" not in messages(world)

    acted(play)


def messages(world: World) -> list[str]:
    """Return the messages of the log."""
    return [record["msg"] for record in world.records]
