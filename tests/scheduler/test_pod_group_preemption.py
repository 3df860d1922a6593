"""Preemption for a group as a whole: who goes, who is put back, and what everybody is told."""

from __future__ import annotations

from typing import Final

from policy_sched.scheduler import event_handlers
from tests.scheduler.pod_groups import FAILED, GANG, Groups, member, pod_group

WHOLE: Final = {**GANG, "WorkloadAwarePreemption": True}


def test_victims_are_as_few_as_the_gang_needs() -> None:
    """The least important ones; the group is bound when they are gone."""
    run = Groups(pod_group(count=2, priority=9), gates=WHOLE, a=1, b=1, c=1)
    pods = {node: run.run(f"v{node}", node, priority=i) for i, node in enumerate("abc")}
    run.add(member("x", priority=9), member("y", priority=9), member("z", priority=9))
    run.go()
    assert run.client.deleted == ["default/vb", "default/va"]
    assert run.condition() == ("Unschedulable", FAILED)
    assert run.client.disruptions["default/va"] == (
        "default-scheduler: preempting to accommodate a higher priority podgroup"
    )
    for node in "ab":
        event_handlers.pod_gone(run.scheduler, pods[node])
    run.clock.advance(2)
    run.go()
    assert set(run.bound.values()) == {"a", "b"}
    assert run.scheduler.cache.check() == []


def test_everything_is_as_before_afterwards() -> None:
    """Pods that were taken off for the trial are on their nodes, in the state that they had."""
    run = Groups(pod_group(count=2, priority=9), gates=WHOLE, a=2, b=2)
    before = [run.run(f"v{i}", "ab"[i % 2], priority=i) for i in range(4)]
    states = {pod.uid: run.scheduler.cache.state(pod.uid) for pod in before}
    arrival = run.scheduler.cache.pods.arrival.tolist()
    run.add(member("x", cpu="9"), member("y", cpu="9"))
    run.go()
    assert run.client.deleted == []
    assert run.condition() == ("Unschedulable", f"{FAILED}, {FAILED}")
    assert {pod.uid: run.scheduler.cache.state(pod.uid) for pod in before} == states
    assert sorted(run.scheduler.cache.pods.arrival.tolist()) == sorted(arrival)
    assert run.scheduler.cache.check() == []


def test_with_placements_the_reason_is_that_of_the_placements() -> None:
    """The second half of the message was that of a group whose nodes are not parted."""
    gates = {**WHOLE, "TopologyAwareWorkloadScheduling": True}
    run = Groups(pod_group(count=2, priority=9), gates=gates, a=2, b=2)
    run.run("v", "a", priority=1)
    run.add(member("x", cpu="9"), member("y", cpu="9"))
    run.go()
    words = f"0/1 placements are available, first placement status: {FAILED}"
    assert run.condition() == ("Unschedulable", f"{words}, {words}")
    run = Groups(pod_group(count=2, priority=9), gates=gates, a=1, b=1)
    for node in "ab":
        run.run(f"v{node}", node, priority=1)
    run.add(member("x", priority=9), member("y", priority=9))
    run.go()
    assert sorted(run.client.deleted) == ["default/va", "default/vb"]
    assert run.condition() == ("Unschedulable", words)


def test_a_whole_group_goes_together() -> None:
    """Where its disruptionMode says so, at the priority of the group."""
    other = pod_group("old", priority=1, disruption_mode="PodGroup")
    run = Groups(other, gates=WHOLE, a=1, b=1)
    run.add(member("v", of="old"), member("w", of="old"))
    run.go()
    for name, node in run.bound.items():
        pod = member(name, of="old", node_name=node)
        event_handlers.pod_seen(run.scheduler, pod)
    event_handlers.object_seen(run.scheduler, None, pod_group(count=1, priority=9))
    run.add(member("x", priority=9))
    run.go()
    assert sorted(run.client.deleted) == ["default/v", "default/w"]


def test_its_reasons_stand_behind_the_groups() -> None:
    """Never, no plugin, no victims, a constraint."""
    run = Groups(pod_group(count=1, priority=9), gates=WHOLE, a=1)
    run.run("v", "a", priority=1)
    run.add(member("x", priority=9, preemption_policy="Never"))
    run.go()
    assert run.condition() == (
        "Unschedulable",
        f"{FAILED}, not eligible due to preemptionPolicy=Never.",
    )
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    plugins = {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}
    config = {**head, "profiles": [{"plugins": plugins}]}
    run = Groups(pod_group(count=1, priority=9), gates=WHOLE, config=config, a=1)
    run.run("v", "a", priority=1)
    run.add(member("x", priority=9))
    run.go()
    words = "default preemption plugin is not registered, workload aware preemption is disabled"
    assert run.condition() == ("Unschedulable", f"{FAILED}, {words}")
