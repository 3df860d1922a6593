"""A rule that counts pods of the whole cluster: decisions, wake-ups, preemption, nominations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from policy_sched.client.memory import MemoryClient
from policy_sched.explain.explain import explain
from policy_sched.model.pod_info import PodInfo, QueueState
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.scheduler import Outcome
from policy_sched.scheduler.setup.factory import build
from policy_sched.testing import FakeClock, make_node, make_pod

POLICY = """
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Quota}
spec:
  filter:
  - expression: cluster.pods.filter(p, p.namespace == pod.namespace).size() < 2
    message: node(s) were closed, since the namespace has two pods
"""
REASON = "node(s) were closed, since the namespace has two pods"


class Cluster:
    """A scheduler with two nodes and a policy that allows two pods in a namespace."""

    def __init__(self, folder: Path) -> None:
        path = folder / "policy.yaml"
        path.write_text(POLICY)
        self.client = MemoryClient()
        self.clock = FakeClock()
        self.scheduler = build(None, [str(path)], client=self.client, now=self.clock)
        for name in ("n1", "n2"):
            event_handlers.node_seen(self.scheduler, make_node(name))

    def decide(self, name: str, **spec: Any) -> Outcome:
        """Schedule a pod."""
        self.scheduler.add_pod(PodInfo.of(make_pod(name, **spec)))
        outcome = self.scheduler.schedule_one()
        assert outcome is not None
        return outcome

    def run(self, name: str, node: str, **spec: Any) -> PodInfo:
        """A pod runs on a node."""
        pod = PodInfo.of(make_pod(name, node_name=node, **spec))
        event_handlers.pod_seen(self.scheduler, pod)
        return pod


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path) -> Cluster:
    """Return the cluster."""
    return Cluster(tmp_path)


def test_pods_on_all_nodes_count(cluster: Cluster) -> None:
    """A namespace gets its two pods, wherever they run; another one has its own."""
    cluster.run("a", "n1")
    assert cluster.decide("b").node
    outcome = cluster.decide("c")
    assert outcome.message.startswith(f"0/2 nodes are available: 2 {REASON}.")
    assert cluster.decide("d", namespace="other").node


def test_a_pod_that_goes_anywhere_wakes_those_that_wait(cluster: Cluster) -> None:
    """The policy registers for the events that its count depends on."""
    first = cluster.run("a", "n1")
    cluster.run("b", "n2")
    cluster.decide("c")
    assert cluster.scheduler.queue.get("default/c").place is QueueState.UNSCHEDULABLE
    event_handlers.pod_gone(cluster.scheduler, first)
    assert cluster.scheduler.queue.get("default/c").place is not QueueState.UNSCHEDULABLE


def test_victims_do_not_count_in_the_dry_run(cluster: Cluster) -> None:
    """Preemption finds one victim in the namespace, and evicts no more."""
    cluster.run("a", "n1")
    cluster.run("b", "n1", priority=5)
    cluster.decide("c", priority=10)
    assert list(cluster.client.nominations.values()) == ["n1"]
    assert len(cluster.client.deleted) == 1
    assert "default/a" in str(cluster.client.deleted)


def test_a_nominated_pod_counts_on_its_node(cluster: Cluster) -> None:
    """As with the pods of a node or a domain: it counts on its nominated node."""
    victim = cluster.run("a", "n1")
    cluster.run("b", "n1", priority=50)
    cluster.decide("c", priority=10)
    assert list(cluster.client.nominations.values()) == ["n1"]
    event_handlers.pod_gone(cluster.scheduler, victim)
    found = explain(cluster.scheduler, PodInfo.of(make_pod("late")))
    assert found.best == ["n2"]
    assert found.rejections["n1"][1] == [REASON]
