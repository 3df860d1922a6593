"""Groups of scheduling.k8s.io as kube-scheduler 1.36 schedules them, by its feature gates."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.errors import PolicyError
from policy_sched.framework.status import Code
from policy_sched.model.pod_info import QueueState
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.setup.factory import read
from policy_sched.testing import make_node
from tests.scheduler import pod_groups


class TestGang:
    """A gang is bound from minCount pods on, and not before."""

    def test_all_of_it_is_bound(self) -> None:
        """In one attempt; the condition says so."""
        run = pod_groups.Groups(pod_groups.pod_group(count=3), a=2, b=1)
        run.add(pod_groups.member("x"), pod_groups.member("y"), pod_groups.member("z"))
        run.go()
        assert set(run.bound) == {"x", "y", "z"}
        assert run.condition() == ("Scheduled", "")
        assert not len(run.scheduler.handle.waiting_pods)

    def test_none_of_it_is_bound_without_room_for_enough(self) -> None:
        """Pods that would fit say what they waited for; the one that does not fit says why."""
        run = pod_groups.Groups(pod_groups.pod_group(count=3), a=2)
        run.add(pod_groups.member("x"), pod_groups.member("y"), pod_groups.member("z"))
        run.go()
        assert run.bound == {}
        assert run.message("x") == run.message("y") == pod_groups.WAITS
        assert run.message("z").startswith("0/1 nodes are available: 1 Insufficient cpu.")
        assert run.condition() == ("Unschedulable", pod_groups.FAILED)
        assert run.scheduler.cache.nodes.pod_total == 0
        assert run.scheduler.cache.check() == []

    def test_a_failed_group_is_retried_after_a_backoff(self) -> None:
        """Whatever rejected its pods: no event is waited for."""
        run = pod_groups.Groups(pod_groups.pod_group(count=2), a=1)
        run.add(pod_groups.member("x"), pod_groups.member("y"))
        run.go()
        assert {run.place("x"), run.place("y")} == {QueueState.BACKOFF}
        run.node("b", 1)
        run.clock.advance(2)
        run.go()
        assert set(run.bound) == {"x", "y"}

    def test_more_pods_than_it_needs(self) -> None:
        """A surplus pod that does not fit fails alone."""
        run = pod_groups.Groups(pod_groups.pod_group(count=2), a=2)
        run.add(pod_groups.member("x"), pod_groups.member("y"), pod_groups.member("z"))
        run.go()
        assert set(run.bound) == {"x", "y"}
        assert run.message("z").startswith("0/1 nodes are available: 1 Insufficient cpu.")
        assert run.condition() == ("Scheduled", "")

    def test_pods_of_higher_priority_are_decided_first(self) -> None:
        """Whichever was popped."""
        run = pod_groups.Groups(pod_groups.pod_group(count=1), a=1)
        run.add(pod_groups.member("x"), pod_groups.member("y", priority=5))
        run.go()
        assert set(run.bound) == {"y"}

    def test_pods_that_are_bound_already_count(self) -> None:
        """A gang that runs takes another pod at once."""
        run = pod_groups.Groups(pod_groups.pod_group(count=2), a=2, b=1)
        run.add(pod_groups.member("x"), pod_groups.member("y"))
        run.go()
        run.add(pod_groups.member("z"))
        run.go()
        assert set(run.bound) == {"x", "y", "z"}

    def test_different_profiles(self) -> None:
        """All pods of a group need one schedulerName."""
        profiles = [{"schedulerName": "one"}, {"schedulerName": "two"}]
        head = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
        }
        run = pod_groups.Groups(
            pod_groups.pod_group(count=2), config={**head, "profiles": profiles}, a=2
        )
        run.add(
            pod_groups.member("x", scheduler_name="one"),
            pod_groups.member("y", scheduler_name="two"),
        )
        outcomes = run.go()
        words = (
            "all pods in a single pod group should have the same .spec.schedulerName set, "
            'got: "one" and "two"'
        )
        assert [outcome.message for outcome in outcomes] == [words, words]
        assert run.condition() == ("SchedulerError", words)


class TestPreemption:
    """Pods of a group preempt one by one, where no gate says otherwise."""

    def test_the_group_waits_for_victims(self) -> None:
        """All its pods are nominated, and bound when the victims are gone."""
        run = pod_groups.Groups(pod_groups.pod_group(count=2), a=1, b=1)
        victim = run.run("v", "a")
        run.add(pod_groups.member("x", priority=5), pod_groups.member("y", priority=5))
        run.go()
        assert run.bound == {}
        assert run.client.deleted == ["default/v"]
        assert run.condition() == ("Unschedulable", pod_groups.TO_COME)
        nominated = run.scheduler.handle.nominator.node_by_uid
        assert nominated == {"default/x": "b", "default/y": "a"}
        assert run.message("x") == pod_groups.TO_COME
        event_handlers.pod_gone(run.scheduler, victim)
        run.clock.advance(2)
        run.go()
        assert run.bound == {"x": "b", "y": "a"}
        assert run.condition() == ("Scheduled", "")

    def test_victims_of_a_group_that_fails_all_the_same(self) -> None:
        """They are evicted, as upstream does, and nothing is nominated.

        The group is tried again at once, when no watch has shown yet that they leave.
        """
        run = pod_groups.Groups(pod_groups.pod_group(count=2), a=1)
        run.run("v", "a")
        run.add(pod_groups.member("x", priority=5), pod_groups.member("y", priority=5, cpu="9"))
        run.go()
        assert {*run.client.deleted} == {"default/v"}
        assert run.scheduler.handle.nominator.node_by_uid == {}
        assert run.message("x") == pod_groups.WAITS

    def test_a_nominated_pod_counts_once(self) -> None:
        """Two pods that wait for one node both fit there when it is free."""
        run = pod_groups.Groups(pod_groups.pod_group(count=2), a=2)
        victims = [run.run("v", "a"), run.run("w", "a")]
        run.add(pod_groups.member("x", priority=5), pod_groups.member("y", priority=5))
        run.go()
        assert run.scheduler.handle.nominator.node_by_uid == {"default/x": "a", "default/y": "a"}
        for victim in victims:
            event_handlers.pod_gone(run.scheduler, victim)
        run.clock.advance(2)
        run.go()
        assert run.bound == {"x": "a", "y": "a"}


class TestBasic:
    """A basic group: its pods run each for itself, and are decided together."""

    def test_those_that_fit_are_bound(self) -> None:
        """One is enough for the group."""
        run = pod_groups.Groups(pod_groups.pod_group(), a=1)
        run.add(pod_groups.member("x"), pod_groups.member("y"))
        run.go()
        assert set(run.bound) == {"x"}
        assert run.condition() == ("Scheduled", "")

    def test_without_gang_scheduling_nothing_waits(self) -> None:
        """Then a gang is as good as a basic group."""
        run = pod_groups.Groups(pod_groups.pod_group(count=2), gates=pod_groups.WORKLOAD, a=1)
        run.add(pod_groups.member("x"), pod_groups.member("y"))
        run.go()
        assert set(run.bound) == {"x"}

    def test_without_the_gate_there_is_no_group(self) -> None:
        """Each pod is decided by itself, and no condition is written."""
        run = pod_groups.Groups(pod_groups.pod_group(count=2), gates={}, a=1)
        run.add(pod_groups.member("x"), pod_groups.member("y"))
        outcomes = run.go()
        assert set(run.bound) == {"x"}
        assert all(not outcome.others for outcome in outcomes)
        assert run.condition() is None


class TestAffinity:
    """Terms of pods that are tried are seen as kube-scheduler's snapshot shows them."""

    def apart(self, name: str) -> Any:
        """Return a pod that wants no other of its group on its node."""
        term = {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": "ring"}},
        }
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        return pod_groups.member(name, labels={"app": "ring"}, affinity=affinity)

    def test_anti_affinity_of_an_earlier_pod_is_not_seen(self) -> None:
        """On a node where no pod had such terms before, as upstream has it."""
        run = pod_groups.Groups(pod_groups.pod_group(count=2), a=2)
        run.add(self.apart("x"), pod_groups.member("y", labels={"app": "ring"}))
        run.go()
        assert run.bound == {"x": "a", "y": "a"}
        assert run.scheduler.cache.check() == []

    def test_the_own_terms_of_a_later_pod_are_respected(self) -> None:
        """It looks at all pods."""
        run = pod_groups.Groups(pod_groups.pod_group(count=2), a=2, b=1)
        run.add(
            pod_groups.member(
                "x", labels={"app": "ring"}, node_selector={"kubernetes.io/hostname": "a"}
            )
        )
        run.add(self.apart("y"))
        run.go()
        assert run.bound == {"x": "a", "y": "b"}


class TestGates:
    """What can be turned on, and what cannot."""

    def problems(self, gates: dict[str, bool]) -> list[str]:
        """Return the messages on a configuration with these gates."""
        head = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
        }
        with pytest.raises(PolicyError) as caught:
            read({**head, "featureGates": gates}, ())
        return [one.message for one in caught.value.diagnostics]

    def test_a_name_that_is_none(self) -> None:
        """In upstream's words."""
        assert self.problems({"GangSheduling": True}) == [
            "featureGates: unrecognized feature gate: GangSheduling"
        ]

    def test_a_gate_that_needs_another(self) -> None:
        """GangScheduling depends on GenericWorkload."""
        words = "GangScheduling is enabled, but depends on features that are disabled:"
        found = self.problems({"GangScheduling": True})
        assert found == [f"featureGates: {words} [GenericWorkload]"]

    def test_a_gate_that_cannot_be_set(self) -> None:
        """It is refused instead of being ignored; its own state may be stated."""
        text = "feature gate SchedulerQueueingHints is always on here"
        assert self.problems({"SchedulerQueueingHints": False}) == [f"featureGates: {text}"]
        assert read(None, (), feature_gates={"SchedulerQueueingHints": True})

    def test_the_plugin_needs_the_gate(self) -> None:
        """Enabling it without is an error that names the gate."""
        head = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
        }
        enabled = {"multiPoint": {"enabled": [{"name": "GangScheduling"}]}}
        with pytest.raises(PolicyError) as caught:
            read({**head, "profiles": [{"plugins": enabled}]}, ())
        words = 'plugin "GangScheduling" needs the feature gate GangScheduling'
        assert [one.message for one in caught.value.diagnostics] == [words]

    def test_the_plugin_follows_the_default_ones(self) -> None:
        """And can be disabled like them."""
        plan = read(None, (), feature_gates=pod_groups.GANG)[0][0].plan
        assert [name for name, _ in plan.points["preEnqueue"]][-1] == "GangScheduling"
        assert [name for name, _ in plan.points["permit"]] == ["GangScheduling"]
        off = read(None, ())[0][0].plan
        assert off.points["permit"] == ()


def test_an_unfinished_group_has_one_attempt_at_a_time() -> None:
    """Pods that are in the queue are taken along; what was decided holds for each of them."""
    run = pod_groups.Groups(pod_groups.pod_group(count=2), a=1)
    run.add(pod_groups.member("x"), pod_groups.member("y"))
    run.scheduler.run_due()
    outcome = run.scheduler.schedule_one()
    assert outcome is not None
    assert [one.pod.name for one in (outcome, *outcome.others)] == ["x", "y"]
    assert all(one.status.code is Code.UNSCHEDULABLE for one in (outcome, *outcome.others))
    event_handlers.node_seen(run.scheduler, make_node("b", cpu="4"))
    assert run.scheduler.schedule_one() is not None or run.place("x") is QueueState.BACKOFF
