"""A policy whose matchConditions are false of a pod has no effect on the pod, in any section."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from policy_sched.client.memory import MemoryClient
from policy_sched.model.pod_group import POD_GROUP_LABEL
from policy_sched.model.pod_info import PodInfo, QueueState
from policy_sched.profiles.check.check import check_files
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.attempt import Preempt, Reject
from policy_sched.scheduler.scheduler import Outcome, Scheduler
from policy_sched.scheduler.setup.factory import build
from policy_sched.testing import FakeClock, make_node, make_pod

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: Batch}\nspec:\n"
BATCH = 'matchConditions: [\'pod.labels[?"tier"] == optional.of("batch")\']\n'
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {%s}}]
"""


class Cluster:
    """A scheduler with one policy over the nodes n1 and n2."""

    def __init__(self, folder: Path, spec: str, config: str | None = None) -> None:
        path = folder / "policy.yaml"
        path.write_text(HEAD + indent(spec, "  "))
        file = None
        if config is not None:
            file = str(folder / "config.yaml")
            Path(file).write_text(CONFIG % config)
        self.clock = FakeClock()
        self.client = MemoryClient()
        self.scheduler: Scheduler = build(file, [str(path)], client=self.client, now=self.clock)
        for name in ("n1", "n2"):
            event_handlers.node_seen(self.scheduler, make_node(name, labels={"name": name}))

    def add(self, name: str, **spec: Any) -> PodInfo:
        """Add a pod."""
        pod = PodInfo.of(make_pod(name, **spec))
        self.scheduler.add_pod(pod)
        return pod

    def decide(self, name: str, **spec: Any) -> Outcome:
        """Add a pod and decide it."""
        self.add(name, **spec)
        outcome = self.scheduler.schedule_one()
        assert outcome is not None, "the pod is gated"
        return outcome

    def place(self, name: str) -> QueueState:
        """Return the pod's queue."""
        queued = self.scheduler.queue.get(f"default/{name}")
        return QueueState.OUT if queued is None else queued.place


#: By section, a rule that rejects every pod it is evaluated for.
REJECTING = {
    "preEnqueue": "preEnqueue: [{expression: 'pod.priority > 9', message: gated}]\n",
    "preFilter": "preFilter: {nodeNames: 'pod.priority > 9 ? [\"n1\"] : []', message: none}\n",
    "filter": "filter: [{expression: 'pod.priority > 9', message: filtered}]\n",
    "reserve": "reserve: {expression: 'pod.priority > 9', message: kept off}\n",
    "permit": "permit: {allow: 'pod.priority > 9', message: not permitted}\n",
    "preBind": "preBind: {expression: 'pod.priority > 9', message: not bound}\n",
}


@pytest.mark.parametrize("section", list(REJECTING))
def test_a_rule_for_batch_pods_rejects_no_other_pod(tmp_path: Path, section: str) -> None:
    """A policy for batch pods rejected or gated every pod of the cluster."""
    cluster = Cluster(tmp_path, BATCH + REJECTING[section])
    assert cluster.decide("web", labels={"tier": "web"}).node
    assert cluster.decide("important", labels={"tier": "batch"}, priority=10).node
    cluster.add("batch", labels={"tier": "batch"})
    outcome = cluster.scheduler.schedule_one()
    assert outcome is None or not outcome.node
    assert cluster.place("batch") in (
        QueueState.GATED,
        QueueState.UNSCHEDULABLE,
        QueueState.BACKOFF,
    )


def test_a_gated_pod_is_freed_when_the_condition_becomes_false(tmp_path: Path) -> None:
    """A batch pod that is relabelled leaves the gate without any other change."""
    cluster = Cluster(tmp_path, BATCH + REJECTING["preEnqueue"])
    old = make_pod("p", labels={"tier": "batch"})
    event_handlers.pod_seen(cluster.scheduler, PodInfo.of(old))
    assert cluster.scheduler.schedule_one() is None
    event_handlers.pod_seen(cluster.scheduler, PodInfo.of(make_pod("p", labels={"tier": "web"})))
    outcome = cluster.scheduler.schedule_one()
    assert outcome is not None
    assert outcome.node


def test_a_gate_follows_a_condition_about_the_cluster(tmp_path: Path) -> None:
    """A gate whose matchConditions count nodes opens when a node is added."""
    cluster = Cluster(
        tmp_path, "matchConditions: [cluster.nodeCount < 3]\n" + REJECTING["preEnqueue"]
    )
    cluster.add("p")
    assert cluster.scheduler.schedule_one() is None
    event_handlers.node_seen(cluster.scheduler, make_node("n3"))
    outcome = cluster.scheduler.schedule_one()
    assert outcome is not None
    assert outcome.node


def test_a_condition_that_fails_gates_the_pod_with_the_error(tmp_path: Path) -> None:
    """The reason names the rule and the condition; onError: Allow lets the pod pass."""
    gate = 'matchConditions: [\'pod.labels["tier"] == "batch"\']\npreEnqueue:\n- %s\n'
    rule = "{expression: 'pod.priority > 9', message: gated%s}"
    cluster = Cluster(tmp_path, gate % (rule % ""))
    profile = cluster.scheduler.profiles["default-scheduler"]
    pod = cluster.add("p")
    assert cluster.place("p") is QueueState.GATED
    status = profile.runner.run("pre_enqueue", pod).status
    assert status.reasons == ("rule Batch.preEnqueue[0]: matchConditions[0]: no such key 'tier'",)
    lenient = Cluster(tmp_path, gate % (rule % ", onError: Allow"))
    lenient.add("p")
    assert lenient.place("p") is QueueState.ACTIVE


@pytest.mark.parametrize("normalize", ["", "  normalize: MinMax\n"])
def test_a_score_for_batch_pods_moves_no_other_pod(tmp_path: Path, normalize: str) -> None:
    """Neither the raw score nor its normalised form counts for other pods."""
    spec = BATCH + "score:\n  expression: 'node.name == \"n2\" ? 100 : 0'\n" + normalize
    cluster = Cluster(tmp_path, spec, "multiPoint: {enabled: [{name: Batch, weight: 100}]}")
    event_handlers.node_seen(cluster.scheduler, make_node("n2", labels={"name": "n2"}, cpu="1"))
    assert cluster.decide("web", labels={"tier": "web"}, cpu="500m").node == "n1"
    assert cluster.decide("batch", labels={"tier": "batch"}, cpu="500m").node == "n2"


def test_a_preemption_for_batch_pods_evicts_for_no_other_pod(tmp_path: Path) -> None:
    """A pod to which the policy does not apply does not preempt by it."""
    config = "multiPoint: {enabled: [{name: Batch}], disabled: [{name: DefaultPreemption}]}"
    cluster = Cluster(tmp_path, BATCH + "preemption: {victim: 'true'}\n", config)
    for name in ("n1", "n2"):
        event_handlers.node_seen(cluster.scheduler, make_node(name, cpu="1"))
        running = PodInfo.of(make_pod(f"on-{name}", node_name=name, cpu="1"))
        event_handlers.pod_seen(cluster.scheduler, running)
    web = cluster.decide("web", labels={"tier": "web"}, cpu="1", priority=9)
    assert isinstance(web.decision, Reject)
    batch = cluster.decide("batch", labels={"tier": "batch"}, cpu="1", priority=9)
    assert isinstance(batch.decision, Preempt)


def test_bind_and_post_bind_leave_other_pods_to_the_next_plugin(tmp_path: Path) -> None:
    """The event of postBind is written for batch pods alone."""
    cluster = Cluster(tmp_path, BATCH + "bind: true\npostBind: '\"bound\"'\n")
    cluster.decide("web", labels={"tier": "web"})
    assert [event.reason for event in cluster.client.events] == ["Scheduled"]
    cluster.decide("batch", labels={"tier": "batch"})
    assert "Batch" in [event.reason for event in cluster.client.events]


@pytest.mark.parametrize(
    ("section", "rule"),
    [
        ("filter", "filter: [{expression: 'node.name == \"n2\"', message: filtered}]"),
        ("score", "score: {expression: 'node.name == \"n2\" ? 100 : 0'}"),
    ],
)
def test_conditions_hold_where_one_point_alone_enables_the_policy(
    tmp_path: Path, section: str, rule: str
) -> None:
    """Conditions were ignored where the configuration named a policy under one point only."""
    config = f"{section}: {{enabled: [{{name: Batch, weight: 100}}]}}"
    cluster = Cluster(tmp_path, BATCH + rule + "\n", config)
    event_handlers.node_seen(cluster.scheduler, make_node("n2", labels={"name": "n2"}, cpu="1"))
    assert cluster.decide("web", labels={"tier": "web"}, cpu="500m").node == "n1"
    assert cluster.decide("batch", labels={"tier": "batch"}, cpu="500m").node == "n2"


def test_a_failed_member_without_the_policy_rejects_no_other_member(tmp_path: Path) -> None:
    """A group's pods wait for a policy; one of the group to which it does not apply is undone."""
    permit = "permit: {allow: 'pod.priority > 9', timeout: 10m, message: waits}\n"
    cluster = Cluster(tmp_path, BATCH + permit)
    cluster.decide("batch", labels={"tier": "batch", POD_GROUP_LABEL: "ring"})
    waiting = cluster.scheduler.handle.waiting_pods
    assert len(tuple(waiting)) == 1
    web = PodInfo.of(make_pod("web", labels={"tier": "web", POD_GROUP_LABEL: "ring"}))
    cluster.scheduler.add_pod(web)
    cluster.client.bindings[web.uid] = "elsewhere"  # so the API server refuses to bind it
    outcome = cluster.scheduler.schedule_one()
    assert outcome is not None
    assert not outcome.node
    assert len(tuple(waiting)) == 1


def test_a_waiting_pod_is_released_when_the_condition_becomes_false(tmp_path: Path) -> None:
    """A pod waits in Permit while its policy applies; the cluster grows beyond that."""
    spec = """
    matchConditions: [cluster.nodeCount < 3]
    permit: {allow: pod.priority > 9, timeout: 10m, message: waits}
    """
    cluster = Cluster(tmp_path, dedent(spec))
    cluster.decide("p")
    assert not cluster.client.bindings
    event_handlers.node_seen(cluster.scheduler, make_node("n3"))
    cluster.scheduler.schedule_one()
    cluster.scheduler.run_due()
    assert cluster.client.bindings


def test_a_hint_counts_only_while_the_condition_holds(tmp_path: Path) -> None:
    """A pod that a policy rejected and no longer applies to is retried at any event."""
    hint = "requeue: {hint: 'event.kind == \"Namespace\"'}\n"
    cluster = Cluster(tmp_path, BATCH + REJECTING["filter"] + hint)
    event_handlers.pod_seen(cluster.scheduler, PodInfo.of(make_pod("p", labels={"tier": "batch"})))
    cluster.scheduler.schedule_one()
    event_handlers.node_seen(cluster.scheduler, make_node("n3"))
    assert cluster.place("p") is QueueState.UNSCHEDULABLE
    event_handlers.pod_seen(cluster.scheduler, PodInfo.of(make_pod("p", labels={"tier": "web"})))
    assert cluster.place("p") in (QueueState.ACTIVE, QueueState.BACKOFF)


def test_an_order_of_the_queue_has_no_conditions(tmp_path: Path) -> None:
    """The order of the queue applies to all pods, so conditions beside queueSort are rejected."""
    path = tmp_path / "policy.yaml"
    path.write_text(HEAD + indent(BATCH + "queueSort: [{expression: pod.priority}]\n", "  "))
    (problem,) = check_files([str(path)])
    assert (problem.code, problem.line, problem.column) == ("PS312", 5, 22)
    assert problem.message.startswith("queueSort orders every pod")
