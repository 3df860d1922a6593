"""Policies after the choice of a node, each in a scheduler of its own."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from policy_sched.client.memory import MemoryClient
from policy_sched.model.cluster_event import NODE_ADD, ActionType, ClusterEvent, EventResource
from policy_sched.model.cluster_objects import Node
from policy_sched.model.pod_info import PodInfo, QueueState
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.scheduler import Outcome, Scheduler
from policy_sched.scheduler.setup.factory import build
from policy_sched.testing import FakeClock, make_node, make_pod

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: %s}\nspec:\n"


class Run:
    """A scheduler with one policy, one node, and a clock."""

    def __init__(self, folder: Path, spec: str, name: str = "Rules", **node: Any) -> None:
        path = folder / "policy.yaml"
        path.write_text(HEAD % name + indent(spec, "  "))
        self.clock = FakeClock()
        self.client = MemoryClient()
        self.scheduler: Scheduler = build(None, [str(path)], client=self.client, now=self.clock)
        self.node(**node)

    def node(self, **node: Any) -> None:
        """Add or change the node."""
        event_handlers.node_seen(self.scheduler, make_node("n1", **node))

    def pod(self, name: str = "p", **spec: Any) -> Outcome:
        """Schedule a pod."""
        self.scheduler.add_pod(PodInfo.of(make_pod(name, **spec)))
        outcome = self.scheduler.schedule_one()
        assert outcome is not None
        return outcome

    def place(self, name: str = "p") -> QueueState:
        """Return the pod's queue."""
        queued = self.scheduler.queue.get(f"default/{name}")
        return QueueState.OUT if queued is None else queued.place

    @property
    def free(self) -> bool:
        """Return whether the node has no assumed pods."""
        return not self.scheduler.cache.nodes.pods_on(0)


class TestVetoes:
    """reserve and preBind reject pods."""

    @pytest.mark.parametrize("section", ["reserve", "preBind"])
    def test_a_veto_undoes_the_choice(self, tmp_path: Path, section: str) -> None:
        """The node is free again, and the pod names the plugin that rejected it."""
        rule = f"{section}:\n  expression: pod.priority > 0\n  message: not important enough\n"
        run = Run(tmp_path, rule)
        outcome = run.pod()
        assert "not important enough" in outcome.message
        assert outcome.status.plugin == "Rules"
        assert (run.client.bindings, run.free) == ({}, True)
        assert run.pod("q", priority=1).node == "n1"

    def test_a_rule_alone_is_a_section(self, tmp_path: Path) -> None:
        """Its name replaces the message."""
        run = Run(tmp_path, 'reserve: node.labels[?"a"].hasValue()\n')
        assert run.pod().status.reasons == ("rule Rules.reserve",)

    def test_the_chosen_node_counts_the_pod(self, tmp_path: Path) -> None:
        """Pods and free resources of the node include the pod."""
        run = Run(tmp_path, 'reserve: node.podCount == 1 && node.free["cpu"] == quantity("3")\n')
        assert run.pod(cpu="1").node == "n1"

    def test_conditions_leave_a_pod_out(self, tmp_path: Path) -> None:
        """None of the policy's sections applies to such a pod."""
        spec = (
            'matchConditions: [pod.namespace == "team"]\nreserve: false\npreBind: false\n'
            "permit: {allow: false}\nbind: false\npostBind: '\"bound\"'\n"
        )
        run = Run(tmp_path, spec)
        assert run.pod().node == "n1"
        assert [event.reason for event in run.client.events] == ["Scheduled"]

    def test_an_error_ends_the_attempt(self, tmp_path: Path) -> None:
        """onError defaults to Abort."""
        run = Run(tmp_path, "reserve: pod.labels['wanted'] == 'x'\n")
        outcome = run.pod()
        assert outcome.status.code.value == "Error"
        assert "rule Rules.reserve: no such key 'wanted'" in outcome.message
        assert run.free
        assert run.place() is QueueState.BACKOFF

    @pytest.mark.parametrize(("on_error", "node"), [("Allow", "n1"), ("Reject", "")])
    def test_an_error_can_mean_yes_or_no(self, tmp_path: Path, on_error: str, node: str) -> None:
        """As the policy sets it."""
        rule = f"reserve:\n  expression: pod.labels['a'] == 'x'\n  onError: {on_error}\n"
        assert Run(tmp_path, rule).pod().node == node


class TestBinding:
    """bind and postBind."""

    def test_a_policy_binds_or_leaves_it_to_the_next(self, tmp_path: Path) -> None:
        """Either way the pod is bound once."""
        run = Run(tmp_path, "bind: pod.priority > 0\n")
        assert run.pod("a").node == "n1"
        assert run.pod("b", priority=1).node == "n1"
        assert run.client.bindings == {"default/a": "n1", "default/b": "n1"}

    def test_the_note_is_an_event_of_the_policy(self, tmp_path: Path) -> None:
        """An empty note is none."""
        run = Run(tmp_path, 'postBind: \'pod.priority > 0 ? "on " + node.name : ""\'\n')
        run.pod("a")
        run.pod("b", priority=1)
        notes = [(e.pod, e.kind, e.note) for e in run.client.events if e.reason == "Rules"]
        assert notes == [("default/b", "Normal", "on n1")]


class TestPermit:
    """Waiting for what a rule reads."""

    def test_without_a_time_out_the_pod_is_rejected(self, tmp_path: Path) -> None:
        """It does not wait."""
        run = Run(tmp_path, "permit: {allow: false, message: never}\n")
        assert run.pod().message == "0/1 nodes are available: 1 never."
        assert run.free

    def test_a_change_of_the_node_calls_the_hook_again(self, tmp_path: Path) -> None:
        """A pod waits until its node is ready for it."""
        run = Run(tmp_path, "permit: {allow: '\"warm\" in node.labels', timeout: 10m}\n")
        assert run.pod().waiting
        run.scheduler.run_due()
        assert run.client.bindings == {}
        run.node(labels={"warm": "yes"})
        (outcome,) = run.scheduler.run_due()
        assert outcome.node == "n1"

    def test_what_runs_on_the_node_is_one_too(self, tmp_path: Path) -> None:
        """A pod that waits for another pod on the node is allowed when it arrives."""
        run = Run(tmp_path, "permit: {allow: node.podCount > 1, timeout: 10m}\n")
        assert run.pod("a").waiting
        assert run.pod("b").node == "n1"
        assert [outcome.node for outcome in run.scheduler.run_due()] == ["n1"]

    def test_the_time_is_one_too(self, tmp_path: Path) -> None:
        """A rule that reads the time is evaluated on every poll."""
        run = Run(tmp_path, "permit: {allow: now.getSeconds() >= 30, timeout: 10m}\n")
        assert run.pod().waiting
        run.clock.advance(31)
        assert [outcome.node for outcome in run.scheduler.run_due()] == ["n1"]

    def test_an_error_in_asking_again_sends_the_pod_back(self, tmp_path: Path) -> None:
        """As it would at the first evaluation."""
        run = Run(
            tmp_path,
            "permit:\n  allow: node.labels['a'] == 'y'\n  timeout: 10m\n",
            labels={"a": "x"},
        )
        assert run.pod().waiting
        run.node(labels={})
        (outcome,) = run.scheduler.run_due()
        assert "no such key 'a'" in outcome.message
        assert run.free


class TestRequeue:
    """When rejected pods are retried."""

    def test_permit_is_evaluated_again_once_per_interval(self, tmp_path: Path) -> None:
        """Without any event, once per interval of the policy."""
        spec = (
            "filter: [{expression: now.getMinutes() > 2, message: early}]\nrequeue: {every: 1m}\n"
        )
        run = Run(tmp_path, spec)
        assert run.pod().node == ""
        assert run.place() is QueueState.UNSCHEDULABLE
        for _ in range(3):
            assert run.scheduler.next_wakeup() == run.clock() + 60 * 1_000_000_000
            run.clock.advance(60)
            run.scheduler.run_due()
            outcome = run.scheduler.schedule_one()
        assert outcome is not None
        assert outcome.node == "n1"

    def test_a_hint_decides_alone(self, tmp_path: Path) -> None:
        """Only events that it matches requeue the pod; it reads the object before and after."""
        hint = (
            'event.kind == "Node" && event.action == "UpdateNodeLabel"'
            ' && event.newNode.optMap(n, n.labels[?"tier"] == optional.of("gold")).orValue(false)'
            " && !event.oldNode.optMap(n, n.labels.size() > 5).orValue(true)"
        )
        run = Run(
            tmp_path,
            f"filter: [{{expression: false, message: never}}]\nrequeue:\n  hint: '{hint}'\n",
        )
        run.pod()
        before, silver, gold = (
            make_node("n1", labels=labels) for labels in ({}, {"tier": "silver"}, {"tier": "gold"})
        )
        run.scheduler.queue.move_all_to_active_or_backoff(NODE_ADD, None, gold)
        self.update(run, before, silver)
        assert run.place() is QueueState.UNSCHEDULABLE
        self.update(run, silver, gold)
        assert run.place() is QueueState.BACKOFF

    @staticmethod
    def update(run: Run, old: Node, new: Node) -> None:
        """A node's labels change."""
        event = ClusterEvent(EventResource.NODE, ActionType.UPDATE_NODE_LABEL)
        run.scheduler.queue.move_all_to_active_or_backoff(event, old, new)

    def test_a_hint_that_fails_wakes_the_pod(self, tmp_path: Path) -> None:
        """One attempt too many is better than a missed one."""
        hint = "requeue:\n  hint: pod.labels['a'] == 'x'\n"
        spec = "filter: [{expression: false, message: never}]\n" + hint
        run = Run(tmp_path, spec)
        run.pod()
        run.node(labels={"a": "b"})
        assert run.place() is QueueState.BACKOFF

    def test_what_a_veto_reads_wakes_the_pod(self, tmp_path: Path) -> None:
        """A node's label for a rule that reads labels, and no other change."""
        run = Run(tmp_path, "reserve: '\"warm\" in node.labels'\n")
        run.pod()
        run.node(annotations={"a": "b"})
        assert run.place() is QueueState.UNSCHEDULABLE
        run.node(labels={"warm": "yes"}, annotations={"a": "b"})
        assert run.place() is QueueState.BACKOFF


def test_a_gate_reads_the_group(tmp_path: Path) -> None:
    """preEnqueue counts the existing members; a new one releases the others."""
    run = Run(tmp_path, "preEnqueue: [{expression: podGroup.members >= 2, message: alone}]\n")
    labels = {"scheduling.x-k8s.io/pod-group": "pair"}
    run.scheduler.add_pod(PodInfo.of(make_pod("a", labels=labels)))
    assert run.place("a") is QueueState.GATED
    run.scheduler.add_pod(PodInfo.of(make_pod("b", labels=labels)))
    run.scheduler.run_due()
    assert run.place("a") is QueueState.ACTIVE


def test_the_queue_is_sorted_by_groups(tmp_path: Path) -> None:
    """A sort key may read the name of the group."""
    run = Run(
        tmp_path,
        "queueSort:\n- {expression: podGroup.name, order: Descending}\n- expression: pod.name\n",
        "PrioritySort",
    )
    for name, group in (("a", "x"), ("b", "y"), ("c", "x")):
        labels = {"scheduling.x-k8s.io/pod-group": group}
        run.scheduler.add_pod(PodInfo.of(make_pod(name, labels=labels)))
    assert [queued.info.name for queued in run.scheduler.queue.active()] == ["b", "a", "c"]
