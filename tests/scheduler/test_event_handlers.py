"""Event handlers raise the cluster events that may make a rejected pod schedulable."""

from __future__ import annotations

from policy_sched.model.pod_info import QueueState
from tests.scheduler.life import Life


def test_a_pod_bound_elsewhere_frees_the_node_it_was_assumed_on() -> None:
    """A pod rejected for lack of room is tried again without waiting for the periodic flush."""
    life = Life()
    life.node("n0", cpu=2)
    life.chaos.faults["permit"] = "slow"
    life.pod("waits", 2, high=False, gated=False)
    life.go_on()
    life.node("n1", closed=True)
    life.pod("rejected", 2, high=False, gated=False)
    life.go_on()
    (rejected,) = (pod for pod in life.pods() if pod.metadata.name == "rejected")
    queued = life.scheduler.queue.get(rejected.metadata.uid)
    assert queued is not None
    assert queued.place is QueueState.UNSCHEDULABLE

    life.bind_elsewhere(0, 1, careful=False)
    life.hear()
    assert queued.place is QueueState.BACKOFF
    life.settle()
    nodes = {pod.metadata.name: pod.spec.node_name for pod in life.pods()}
    assert nodes == {"waits": "n1", "rejected": "n0"}
