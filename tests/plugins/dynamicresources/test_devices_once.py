"""No device is given out twice, whatever happens to pods, claims, nodes, slices and scheduler."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from policy_sched.client import Done, MemoryClient, ObjectRequest, ObjectResponse
from policy_sched.errors import ClusterError
from policy_sched.model import ApiObject, DeviceClass, PodInfo, ResourceClaim, ResourceSlice
from policy_sched.scheduler import Scheduler, node_seen, object_gone, object_seen, pod_gone
from policy_sched.testing import make_node
from tests.examples import scaled

from .world import (
    device_class,
    exactly,
    pod_with,
    resource_claim,
    resource_slice,
    schedule,
    scheduler_with,
)

NODES: Final = ("n0", "n1", "n2")
STEPS: Final = (
    *("one", "one", "two", "shared", "unbound", "refused", "conflict"),
    *("gone", "free", "restart", "relabel", "republish"),
)


class Unreliable(MemoryClient):
    """Refuses the next binding, or the next so many patches of claims, when it is told to."""

    refuses_binding = False
    refuses_patches = 0
    writes_left = 1000
    """After so many writes nothing is answered any more: the scheduler has ended."""

    def bind(self, pod: PodInfo, node: str, done: Done) -> None:
        """Bind a pod."""
        if not self.writes_left:
            return
        if self.refuses_binding:
            self.refuses_binding = False
            done(ClusterError("no"))
            return
        super().bind(pod, node, done)

    def send(self, request: ObjectRequest, done: ObjectResponse | None = None) -> None:
        """Carry a request out."""
        if done is None:
            super().send(request)
            return
        if not self.writes_left:
            return
        self.writes_left -= 1
        if self.refuses_patches and request.verb == "patch":
            self.refuses_patches -= 1
            done(None, ClusterError("not now"))
            return
        super().send(request, done)


class Cluster:
    """A cluster of three nodes with three devices each, and two devices that all nodes reach."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.placed: dict[str, PodInfo] = {}
        self.generation = 1
        slices = [resource_slice(node, [f"d{i}" for i in range(3)]) for node in NODES]
        network = resource_slice("net", ["x0", "x1"], allNodes=True)
        self.scheduler, self.client = self._started([device_class(), *slices, network])

    def _started(self, objects: Sequence[ApiObject]) -> tuple[Scheduler, Unreliable]:
        client = Unreliable()
        scheduler = scheduler_with(NODES, objects, client=client)
        client.objects = scheduler.handle.objects
        return scheduler, client

    def all(self, kind: type[ApiObject]) -> Sequence[ApiObject]:
        """Return the objects of a kind."""
        return self.scheduler.handle.objects.of(kind)

    def step(self, number: int, step: str) -> None:
        """Let something happen."""
        match step:
            case "gone" if self.placed:
                pod_gone(self.scheduler, self.placed.pop(self.rng.choice(sorted(self.placed))))
            case "free" if self.all(ResourceClaim):
                object_gone(self.scheduler, self.rng.choice(self.all(ResourceClaim)))
            case "restart":
                kinds = (DeviceClass, ResourceSlice, ResourceClaim)
                objects = [one for kind in kinds for one in self.all(kind)]
                self.scheduler, self.client = self._started(objects)
            case "relabel":
                name = self.rng.choice(NODES)
                node_seen(self.scheduler, make_node(name, cpu="8", labels={"at": str(number)}))
            case "republish":
                self._republish(self.rng.choice(self.all(ResourceSlice)))
            case "one" | "two" | "shared" | "unbound" | "refused" | "conflict":
                self._pods(number, step)

    def _pods(self, number: int, step: str) -> None:
        name = f"c{number}"
        object_seen(
            self.scheduler, None, resource_claim(name, exactly("r", 2 if step == "two" else 1))
        )
        self.client.refuses_binding = step == "unbound"
        self.client.refuses_patches = {"refused": 1, "conflict": 2}.get(step, 0)
        for one in ("p", "q") if step == "shared" else ("p",):
            pod = pod_with(f"{one}{number}", name)
            if schedule(self.scheduler, pod) != [""]:
                self.placed[pod.uid] = pod
        self.client.refuses_binding, self.client.refuses_patches = False, 0

    def _republish(self, before: ApiObject) -> None:
        assert isinstance(before, ResourceSlice)
        self.generation += 1
        pool = before.spec.pool
        changed = {"name": pool.name, "generation": self.generation, "resource_slice_count": 1}
        spec = replace(before.spec, pool=type(pool)(**changed))
        object_seen(self.scheduler, before, replace(before, spec=spec))

    def taken(self) -> Iterator[tuple[str, str, str]]:
        """Yield the devices of all claims, as often as they were given out."""
        for claim in self.all(ResourceClaim):
            assert isinstance(claim, ResourceClaim)
            allocation = claim.status.allocation
            for one in () if allocation is None else allocation.devices.results:
                yield one.driver, one.pool, one.device


@settings(max_examples=scaled(60), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.lists(st.sampled_from(STEPS), max_size=30))
def test_no_device_is_given_out_twice(seed: int, steps: list[str]) -> None:
    """Over any sequence of decisions, failures, deletions, changes and restarts."""
    cluster = Cluster(seed)
    for number, step in enumerate(steps):
        cluster.step(number, step)
        taken = list(cluster.taken())
        assert len(taken) == len(set(taken)), step


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_an_end_between_the_writes_loses_nothing(writes: int) -> None:
    """Before the finalizer, before the allocation, before the binding: the next scheduler binds."""
    cluster = Cluster(0)
    object_seen(cluster.scheduler, None, resource_claim("a"))
    cluster.client.writes_left = writes
    pod = pod_with("p", "a")
    schedule(cluster.scheduler, pod)
    assert not cluster.client.bindings
    before = list(cluster.taken())
    assert len(before) == (writes == 2)
    cluster.step(0, "restart")
    (node,) = schedule(cluster.scheduler, pod_with("p", "a"))
    assert node
    after = list(cluster.taken())
    assert len(after) == 1
    assert not before or before == after, "an allocation that was written stays"
    (claim,) = cluster.all(ResourceClaim)
    assert isinstance(claim, ResourceClaim)
    assert [one.uid for one in claim.status.reserved_for] == [pod.uid]
    assert schedule(cluster.scheduler, pod_with("q")) != [""]
