"""Workloads of very many pods: created in rounds, whose work is bounded."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from policy_sched.client.apimachinery.resources import POD
from policy_sched.embedded.controllers.pod_control import BURST
from policy_sched.manifests import workload_expansion as expansion
from tests.embedded.world import World, pod, pod_spec, workload

MOST = 2**31 - 1


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Deployment", {"replicas": MOST}),
        ("ReplicaSet", {"replicas": MOST}),
        ("StatefulSet", {"replicas": MOST, "podManagementPolicy": "Parallel"}),
        ("Job", {"parallelism": MOST, "completions": MOST}),
        ("Job", {"parallelism": MOST, "completions": MOST, "completionMode": "Indexed"}),
    ],
)
def test_endless_replicas_are_created_in_batches(kind: str, spec: dict[str, Any]) -> None:
    """``replicas: 2147483647`` was one turn of the event loop, without an end."""
    world = World(nodes=0)
    template = pod_spec(restartPolicy="Never") if kind == "Job" else None
    world.cluster.apply(workload(kind, template=template, **spec))
    before, grown = 0, []
    for _ in range(24):
        world.cluster.step(lambda: True)
        count = len(world.store.select(POD))
        grown.append(count - before)
        before = count
    assert max(grown) == BURST
    assert before >= 4 * BURST
    assert not world.store.sync_errors


def test_one_step_without_time_does_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step over fifteen workloads of 2147483647 replicas took 1.8 s: time counted by rounds only.

    When the time is over a step ends with the object that it is at, and the next step begins with
    the next component, so that all of them grow.
    """
    monkeypatch.setattr("policy_sched.embedded.controllers.pod_control.BURST", 10)
    world = World(nodes=0)
    world.cluster.step()
    for number in range(5):
        for kind in ("ReplicaSet", "StatefulSet"):
            more = {"podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
            name = f"{kind.lower()}{number}"
            world.cluster.apply(workload(kind, name, replicas=MOST, **more))
        job = pod_spec(restartPolicy="Never")
        world.cluster.apply(
            workload("Job", f"job{number}", template=job, parallelism=MOST, completions=MOST)
        )
    steps = []
    for _ in range(200):
        before = world.store.version
        world.cluster.step(lambda: True)
        steps.append(world.store.version - before)
        assert world.cluster.next_wakeup() is not None
    assert max(steps) <= 10 + 2
    owners = Counter(other.name.rpartition("-")[0] for other in world.store.select(POD))
    assert len(owners) == 15
    assert min(owners.values()) >= 50


def test_large_pods_are_created_one_by_one() -> None:
    """A round of a hundred pods of a megabyte each would hold everything up."""
    world = World(nodes=0)
    world.cluster.step()
    template = pod_spec()
    template["containers"][0]["args"] = ["x" * 600_000]
    world.cluster.apply(workload("ReplicaSet", template=template, replicas=10))
    world.cluster.step(lambda: True)
    assert len(world.store.select(POD)) == 1


def test_a_cluster_has_its_limit_of_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    """More are refused, and come when others have gone."""
    monkeypatch.setattr("policy_sched.embedded.store.store.MOST_PODS", 5)
    assert expansion.MOST_PODS == 150_000
    world = World(nodes=0)
    world.cluster.apply(workload("ReplicaSet", replicas=MOST))
    world.run(30)
    assert len(world.store.select(POD)) == 5
    with pytest.raises(Exception, match=r'pods "p" is forbidden: the cluster has 5 pods'):
        world.store.create(pod("p"))


def test_many_workloads_have_their_turns() -> None:
    """Each of many deployments is finished in steps that change next to nothing."""
    world = World(nodes=0)
    world.cluster.step()
    for number in range(100):
        world.store.create(workload("Deployment", f"d{number}", replicas=1))
    before, changes = world.store.version, []
    while world.cluster.next_wakeup() is not None and len(changes) < 2_000:
        world.cluster.step(lambda: True)
        changes.append(world.store.version - before)
        before = world.store.version
    assert max(changes) <= 4
    assert len(world.store.select(POD)) == 100
