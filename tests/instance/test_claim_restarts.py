"""A scheduler that ends between two of PreBind's writes loses nothing, and no device."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, create_subprocess_exec
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from policy_sched.embedded.apiserver.security.authentication import kubeconfig
from policy_sched.http.access import Access
from policy_sched.instance.app.cluster_instance import ClusterInstance
from policy_sched.model import ResourceClaim
from tests.instance.app.test_cluster_instance import World, acted, node, pod, until
from tests.instance.claims_world import (
    Claims,
    Plain,
    claim,
    device_class,
    pod_with,
    resource_slice,
    template,
    two_nodes,
)


class Ends:
    """Holds a write of a claim or a binding until its scheduler has ended: it gets no answer.

    ``number``: which write of each scheduler, from 0. ``handled``: the write is carried out.
    """

    def __init__(self, world: World, number: int, *, handled: bool) -> None:
        self._number = number
        self._count = 0
        self._ended = asyncio.Event()
        self.reached = False
        if handled:
            world.after = self._hold
        else:
            world.before = self._hold

    async def _hold(self, method: str, path: str) -> None:
        if method == "GET" or not ("/resourceclaims" in path or path.endswith("/binding")):
            return
        self._count += 1
        if self._count == self._number + 1:
            self.reached = True
            await self._ended.wait()
            raise web.HTTPServiceUnavailable

    def next(self) -> None:
        """The scheduler has ended, and another will start."""
        self._ended.set()
        self._ended = asyncio.Event()
        self._count = 0
        self.reached = False

    def never(self) -> None:
        """From now on no scheduler ends at a write."""
        self.next()
        self._number = -2


def _own_claim() -> Iterator[Plain]:
    yield template("gpu")
    yield pod_with("p", resourceClaimTemplateName="gpu")


def _shared_claim() -> Iterator[Plain]:
    yield claim("c")
    yield from (pod_with(name, resourceClaimName="c") for name in ("p", "q"))


def _extended_resource() -> Iterator[Plain]:
    asked = pod("p")
    asked["spec"]["containers"][0]["resources"] = {
        kind: {"example.com/gpu": "1"} for kind in ("requests", "limits")
    }
    yield asked


SETTINGS = {
    "template": (_own_claim, 3),
    "shared": (_shared_claim, 5),
    "extended": (_extended_resource, 3),
}
"""By name, the objects, and the number of writes until every pod is bound."""


@pytest.mark.parametrize("handled", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("setting", "number"),
    [(name, number) for name, (_, writes) in SETTINGS.items() for number in range(writes)],
)
def test_an_end_at_any_write_loses_nothing(setting: str, number: int, handled: bool) -> None:
    """The next scheduler binds every pod, and every device is in use once.

    A claim that was left over of an extended resource is deleted, and its pod waits for an event,
    as with kube-scheduler.
    """

    async def play(world: World) -> None:
        claims, ends = Claims(world), Ends(world, number, handled=handled)
        things = list(SETTINGS[setting][0]())
        pods = {one["metadata"]["name"] for one in things if one["kind"] == "Pod"}
        world.apply(node("a"), device_class(extendedResourceName="example.com/gpu"))
        world.apply(resource_slice("a", "d0"), *things)
        async with world.served():
            async with world.scheduler():
                await until(lambda: ends.reached)
            ends.never()
            async with world.scheduler() as instance:
                if setting == "extended":
                    await until(lambda: "p" in world.bound() or _without_claims(world, instance))
                    world.apply(node("b"))
                await until(lambda: world.bound().keys() == pods)
                await until(lambda: not instance.scheduler.in_flight)
        assert claims.taken() == ["a/d0"]
        name = "c" if setting == "shared" else "p"
        assert sorted(claims.pods(name)) == sorted(pods)

    acted(play)


def _without_claims(world: World, instance: ClusterInstance) -> bool:
    """Return whether the pod waits, and the scheduler sees no claim."""
    waits = world.condition("p", "PodScheduled")
    return waits is not None and not instance.scheduler.handle.objects.of(ResourceClaim)


@pytest.mark.parametrize("handled", [False, True], ids=["before", "after"])
def test_schedulers_that_end_again_and_again_bind_every_pod(handled: bool) -> None:
    """Each ends at its third write, or after its first; no device is given out twice."""

    async def play(world: World) -> None:
        claims, ends = Claims(world), Ends(world, 0 if handled else 2, handled=handled)
        world.apply(*two_nodes("d0", "d1"), template("gpu"), claim("c"))
        world.apply(*(pod_with(f"p{i}", resourceClaimTemplateName="gpu") for i in range(3)))
        world.apply(*(pod_with(f"s{i}", resourceClaimName="c") for i in range(2)))
        started = 0
        async with world.served():
            while len(world.bound()) < 5:
                started += 1
                async with world.scheduler():
                    await until(lambda: ends.reached or len(world.bound()) == 5)
                taken = claims.taken()
                assert len(taken) == len(set(taken))
                ends.next()
        assert started > 1
        assert claims.taken() == ["a/d0", "a/d1", "b/d0", "b/d1"]
        assert sorted(claims.pods("c")) == ["s0", "s1"]

    acted(play)


@pytest.mark.parametrize("number", [1, 2])
def test_a_process_that_is_killed_loses_nothing(number: int, tmp_path: Path) -> None:
    """SIGKILL before the allocation is written, or before the pod is bound."""

    async def play(world: World) -> None:
        claims, ends = Claims(world), Ends(world, number, handled=False)
        world.apply(*two_nodes("d0"), claim("c"), pod_with("p", resourceClaimName="c"))
        config, access = tmp_path / "config.json", tmp_path / "kubeconfig"
        config.write_text(json.dumps(_alone()), encoding="utf-8")
        async with world.served():
            access.write_text(kubeconfig(world.address, Access(), None), encoding="utf-8")
            words = ["run", "--kubeconfig", str(access), "--config", str(config)]
            words += ["--secure-port", "0"]
            process = await create_subprocess_exec(
                sys.executable, "-m", "policy_sched", *words, stdout=DEVNULL, stderr=DEVNULL
            )
            await until(lambda: ends.reached)
            process.kill()
            assert await process.wait() == -9
            before = claims.taken()
            assert len(before) == number - 1
            ends.never()
            async with world.scheduler():
                await until(lambda: "p" in world.bound())
        assert len(claims.taken()) == 1
        assert before in ([], claims.taken())
        assert claims.pods("c") == ["p"]

    acted(play)


def _alone() -> Plain:
    """Return the configuration of a scheduler without a lease."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
    }
