"""Pods of a group that share a claim are decided together: the first one allocates it."""

from __future__ import annotations

from itertools import chain
from typing import Any

from policy_sched.model import Pod, PodInfo, PodResourceClaim
from tests.plugins.dynamicresources.world import (
    claim_of,
    device_class,
    devices_of,
    resource_claim,
    resource_slice,
)
from tests.scheduler.pod_groups import WORKLOAD, Groups, member, pod_group


def using(name: str, *claims: str, **spec: Any) -> PodInfo:
    """Return a pod of the group that uses claims."""
    pod: Pod = member(name, **spec).pod
    entries = tuple(PodResourceClaim(name=one, resource_claim_name=one) for one in claims)
    pod.spec.resource_claims = entries
    return PodInfo.of(pod)


def alone(name: str, *claims: str) -> PodInfo:
    """Return a pod of no group that uses claims."""
    pod = using(name, *claims).pod
    pod.spec.scheduling_group = None
    return PodInfo.of(pod)


def consumers(world: Groups, claim: str) -> list[str]:
    """Return the pods that a claim is reserved for."""
    return sorted(one.name for one in claim_of(world.scheduler, claim).status.reserved_for)


def test_pods_of_a_gang_share_one_claim() -> None:
    """All go where its device is, and all are in the claim's reservedFor."""
    devices = device_class(), resource_slice("b", ["d0"]), resource_claim("ring")
    world = Groups(pod_group(count=3), *devices, a=8, b=8)
    world.add(*(using(name, "ring") for name in "xyz"))
    world.go()
    assert world.bound == {"x": "b", "y": "b", "z": "b"}
    assert devices_of(world.scheduler, "ring") == ["b/d0"]
    assert consumers(world, "ring") == ["x", "y", "z"]


def test_a_gang_that_does_not_fit_leaves_the_claim_as_it_was() -> None:
    """The third pod finds no room on the node of the device; nothing is in flight then."""
    devices = device_class(), resource_slice("b", ["d0"]), resource_claim("ring")
    world = Groups(pod_group(count=3), *devices, a=8, b=2)
    world.add(*(using(name, "ring") for name in "xyz"))
    world.go()
    assert world.bound == {}
    assert devices_of(world.scheduler, "ring") == []
    world.add(alone("o", "ring"))
    world.go()
    assert world.bound == {"o": "b"}


def test_each_has_its_own_claim_besides() -> None:
    """A claim of a pod is allocated beside the shared one; no device is given twice."""
    own = [resource_claim(f"own-{name}") for name in "xy"]
    devices = [device_class(), resource_slice("b", ["d0", "d1", "d2"]), resource_claim("ring")]
    world = Groups(pod_group(count=2), *devices, *own, a=8, b=8)
    world.add(*(using(name, f"own-{name}", "ring") for name in "xy"))
    world.go()
    assert world.bound == {"x": "b", "y": "b"}
    given = [devices_of(world.scheduler, name) for name in ("ring", "own-x", "own-y")]
    assert sorted(chain(*given)) == ["b/d0", "b/d1", "b/d2"]
    assert consumers(world, "ring") == ["x", "y"]
    assert consumers(world, "own-x") == ["x"]


def test_pods_of_no_group_wait_for_each_other() -> None:
    """Without a group the second pod is rejected while the first has not written the claim."""
    world = Groups(
        device_class(), resource_slice("b", ["d0"]), resource_claim("ring"), gates=WORKLOAD, b=8
    )
    world.add(alone("x", "ring"), alone("y", "ring"))
    world.go()
    assert world.bound == {"x": "b", "y": "b"}
    assert consumers(world, "ring") == ["x", "y"]
