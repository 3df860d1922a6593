"""Who may evict anybody: pods above the least important one that runs."""

from __future__ import annotations

from policy_sched.model.pod_info import PodInfo
from policy_sched.plugins.lowest_priority import LowestPriority
from policy_sched.testing import make_pod
from tests.plugins.volumes.world import World


def test_only_pods_above_the_lowest_may_evict() -> None:
    """The answer follows the pods on nodes; a policy of Never is respected."""
    world = World()
    may_evict = LowestPriority(world.handle)
    pod = PodInfo.of(make_pod("p", priority=5))
    assert not may_evict(pod)
    world.run("n0", "equal", priority=5)
    assert not may_evict(pod)
    low = world.run("n1", "low", priority=-1)
    assert may_evict(pod)
    assert not may_evict(PodInfo.of(make_pod("q", priority=5, preemption_policy="Never")))
    world.cache.remove_pod(low)
    assert not may_evict(pod)
