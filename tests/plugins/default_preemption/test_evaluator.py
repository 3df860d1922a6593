"""Pods whose attempts may change more than their own node."""

from __future__ import annotations

from policy_sched.model.pod_info import PodInfo
from policy_sched.plugins.default_preemption import Preempting
from policy_sched.testing import make_pod
from tests.plugins.volumes.world import World


def test_only_pods_above_the_lowest_may_evict() -> None:
    """The answer follows the pods on nodes; a policy of Never is respected."""
    world = World()
    preempting = Preempting(world.handle)
    pod = PodInfo.of(make_pod("p", priority=5))
    assert not preempting(pod)
    world.run("n0", "equal", priority=5)
    assert not preempting(pod)
    low = world.run("n1", "low", priority=-1)
    assert preempting(pod)
    assert not preempting(PodInfo.of(make_pod("q", priority=5, preemption_policy="Never")))
    world.cache.remove_pod(low)
    assert not preempting(pod)


def test_a_nominated_pod_is_retried_without_possible_victims() -> None:
    """Otherwise its nomination would reserve a node on which it does not fit any more."""
    world = World()
    preempting = Preempting(world.handle)
    pod = PodInfo.of(make_pod("p", priority=5))
    world.handle.nominator.nominate(pod, "n0")
    assert preempting(pod)
    world.handle.nominator.clear(pod.uid)
    assert not preempting(pod)
