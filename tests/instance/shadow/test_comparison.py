"""The shadow: it decides on what the other scheduler saw, says what differs, changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np

from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.hookspecs import hookimpl
from policy_sched.framework.results import FilterResult, Rows
from policy_sched.framework.status import Code, Status
from policy_sched.instance.shadow.comparison import (
    MOST_DOUBTED,
    MOST_KEPT,
    PATIENCE,
    SETTLING,
    Shadow,
)
from policy_sched.instance.shadow.log import Comparison, Result
from policy_sched.model.meta import Condition, ObjectMeta
from policy_sched.model.pod import Pod, PodResourceClaim
from policy_sched.model.pod_group import CoschedulingGroup, CoschedulingSpec
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from policy_sched.scheduler.event_handlers import node_seen, object_seen, pod_gone, pod_seen
from policy_sched.scheduler.scheduler import Scheduler
from policy_sched.scheduler.setup.factory import EPOCH, build
from policy_sched.testing import make_node, make_pod
from tests.plugins.dynamicresources.world import device_class, resource_claim, resource_slice
from tests.scheduler.shadow_run import agreement, play
from tests.scheduler.world import scheduler_of

Told = list[Comparison]


class Stage:
    """A cluster that another scheduler works on, and its shadow."""

    def __init__(
        self,
        *nodes: str,
        watching: bool = True,
        of: str = "default-scheduler",
        policies: tuple[str, ...] = (),
        scheduler: Scheduler | None = None,
    ) -> None:
        self.now = EPOCH
        self.scheduler = scheduler or build(policies=policies, now=lambda: self.now)
        self.told: Told = []
        self.shadow = Shadow(self.scheduler, of, self.told.append, Random(0))
        for name in nodes:
            node_seen(self.scheduler, make_node(name, cpu="4"))
        if watching:
            self.shadow.begin()

    def see(self, pod: Pod) -> None:
        """The watch shows a pod."""
        info = PodInfo.of(pod)
        self.shadow.pod_seen(info)
        if info.node_name:
            pod_seen(self.scheduler, info)

    def lose(self, pod: Pod) -> None:
        """The watch shows that a pod is gone."""
        info = PodInfo.of(pod)
        self.shadow.pod_gone(info.uid)
        pod_gone(self.scheduler, info)

    def bind(self, pod: Pod, node: str) -> None:
        """The watch shows a pod without a node, and then with one."""
        self.see(pod)
        self.see(bound(pod, node))

    def settle(self) -> None:
        """Bindings that were under way have come."""
        self.now += SETTLING
        self.shadow.overdue()

    @property
    def last(self) -> Comparison:
        """What was told last."""
        return self.told[-1]


def bound(pod: Pod, node: str) -> Pod:
    """Return the pod on a node."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))


def refused(pod: Pod, message: str = "0/1 nodes", nominated: str = "") -> Pod:
    """Return the pod as the other scheduler leaves it when it finds no node."""
    condition = Condition("PodScheduled", "False", "Unschedulable", message)
    status = msgspec.structs.replace(
        pod.status, conditions=(condition,), nominated_node_name=nominated
    )
    return msgspec.structs.replace(pod, status=status)


def nominated(pod: Pod, node: str) -> Pod:
    """Return the pod with a nomination, and no condition."""
    status = msgspec.structs.replace(pod.status, nominated_node_name=node)
    return msgspec.structs.replace(pod, status=status)


def results(stage: Stage) -> list[tuple[str, str]]:
    """Return pods and results in the order in which they were told."""
    return [(one.pod.removeprefix("default/"), one.result.value) for one in stage.told]


def test_the_same_node_and_one_that_is_as_good_are_agreement() -> None:
    """Breaking a tie in another way is not a difference."""
    stage = Stage("a", "b", "c")
    for name in ("a", "b", "c"):
        stage.bind(make_pod(f"p-{name}", cpu="1"), name)
    assert [result for _, result in results(stage)] == ["agree"] * 3
    assert stage.last.theirs.node == "c"
    assert stage.last.theirs.score == stage.last.ours.score


def test_a_worse_node_is_reported_with_both_scores_and_their_difference() -> None:
    """The pod goes where it is fuller: by plugin how much better ours is; it adds up."""
    stage = Stage("a", "b")
    stage.bind(make_pod("first", cpu="2"), "a")
    stage.bind(make_pod("second", cpu="1"), "a")
    found = stage.last
    assert (found.result, found.theirs.node, found.ours.node) == (Result.DIFFER, "a", "b")
    assert found.ours.score is not None
    assert found.theirs.score is not None
    assert sum(found.difference.values()) == found.ours.score - found.theirs.score > 0
    assert found.difference["NodeResourcesFit"] > 0
    assert (found.feasible_nodes, found.evaluated_nodes) == (2, 2)
    assert found.requests == {"cpu": 1000}


def test_a_node_that_our_filter_rejects_is_reported_with_the_reason() -> None:
    """Plugin and words, as explain has them."""
    stage = Stage("a")
    node_seen(stage.scheduler, make_node("t", taints=[{"key": "k", "effect": "NoSchedule"}]))
    stage.bind(make_pod("p", cpu="1"), "t")
    found = stage.last
    assert (found.result, found.ours.node) == (Result.DIFFER, "a")
    assert found.theirs.rejected_by == "TaintToleration"
    assert found.theirs.reasons == ("node(s) had untolerated taint(s)",)
    assert found.theirs.score is None
    assert found.difference == {}


def test_a_pod_counts_where_it_really_is() -> None:
    """Our own choice is not assumed: the next pod is decided beside the real placement."""
    stage = Stage("a", "b")
    stage.bind(make_pod("first", cpu="3"), "a")
    stage.bind(make_pod("second", cpu="3"), "a")  # the other one overcommits
    assert stage.last.ours.node == "b"
    assert stage.last.theirs.rejected_by == "NodeResourcesFit"
    stage.bind(make_pod("third", cpu="3"), "b")
    assert stage.last.result is Result.AGREE
    assert stage.scheduler.cache.check() == []
    assert stage.scheduler.queue.lengths() == {
        "active": 0,
        "backoff": 0,
        "unschedulable": 0,
        "gated": 0,
    }


def test_a_burst_is_decided_in_the_order_of_the_bindings() -> None:
    """All pods come first: each is decided beside those that were bound before it."""
    stage = Stage("a", "b", "c")
    pods = [make_pod(f"p{i}", cpu="4") for i in range(3)]
    for pod in pods:
        stage.see(pod)
    for pod, node in zip(reversed(pods), "cab", strict=True):
        stage.see(bound(pod, node))
    assert results(stage) == [("p2", "agree"), ("p1", "agree"), ("p0", "agree")]
    assert [one.feasible_nodes for one in stage.told] == [3, 2, 1]


def test_pods_that_one_of_us_cannot_place() -> None:
    """They bind what we would not; we would place what they cannot; both cannot."""
    stage = Stage("a")
    stage.bind(make_pod("first", cpu="3"), "a")
    stage.bind(make_pod("second", cpu="3"), "a")
    assert stage.last.result is Result.UNSCHEDULABLE
    assert stage.last.ours.message.startswith("0/1 nodes are available: 1 Insufficient cpu")
    stage.see(refused(make_pod("third", cpu="3")))
    assert stage.last.result is Result.AGREE
    node_seen(stage.scheduler, make_node("b"))
    stage.see(refused(make_pod("fourth", cpu="1"), "0/2 nodes"))
    stage.settle()
    assert stage.last.result is Result.SCHEDULABLE
    assert (stage.last.theirs.message, stage.last.ours.node) == ("0/2 nodes", "b")


def test_a_repeated_disagreement_is_reported_once_and_a_new_one_again() -> None:
    """The other one's retries are no news, what comes of them is."""
    stage = Stage()
    pod = make_pod("p", cpu="1")
    stage.see(pod)
    for message in ("0/0 nodes", "0/0 nodes", "no nodes at all"):
        stage.see(refused(pod, message))
    assert results(stage) == [("p", "agree")]
    node_seen(stage.scheduler, make_node("a"))
    stage.see(refused(pod, "still none"))
    stage.settle()
    assert results(stage)[1:] == [("p", "schedulable")]
    stage.see(bound(pod, "a"))
    assert results(stage)[2:] == [("p", "agree")]
    stage.see(bound(pod, "a"))
    assert len(stage.told) == 3
    assert len(stage.shadow) == 0


def test_room_that_is_made_is_compared() -> None:
    """Both make room: the same node agrees; the victims are named, and no pod is evicted."""
    stage = Stage("a")
    stage.bind(make_pod("small", cpu="3", priority=1), "a")
    pod = make_pod("big", cpu="3", priority=9)
    stage.see(refused(pod, nominated="a"))
    found = stage.last
    assert found.result is Result.AGREE
    assert found.ours.victims == ("default/small",)
    assert found.theirs.preempts
    assert found.ours.preempts
    stage.lose(bound(make_pod("small", cpu="3", priority=1), "a"))
    stage.see(bound(refused(pod, nominated="a"), "a"))
    assert results(stage)[1:] == [("big", "agree"), ("big", "agree")]


def test_a_node_that_needs_preemption_ranks_behind_one_that_does_not() -> None:
    """We would place at once what they evict others for."""
    stage = Stage("a", "b")
    stage.bind(make_pod("small", cpu="3", priority=1), "a")
    stage.see(refused(make_pod("big", cpu="3", priority=9), nominated="a"))
    assert stage.last.result is Result.SCHEDULABLE
    assert (stage.last.ours.node, stage.last.theirs.node) == ("b", "a")


def test_a_nomination_counts_as_the_binding_that_it_announces() -> None:
    """Decided as if there were no nomination, once; a binding elsewhere is compared again."""
    stage = Stage("a", "b")
    stage.bind(make_pod("first", cpu="2"), "a")
    pod = make_pod("slow", cpu="1")
    stage.see(pod)
    stage.see(nominated(pod, "a"))
    assert (stage.last.result, stage.last.ours.node) == (Result.DIFFER, "b")
    stage.see(bound(nominated(pod, "a"), "a"))
    assert results(stage) == [("first", "agree"), ("slow", "differ")]
    other = make_pod("turns", cpu="1")
    stage.see(nominated(other, "a"))
    stage.see(bound(nominated(other, "a"), "b"))
    assert results(stage)[2:] == [("turns", "differ"), ("turns", "differ")]
    assert (stage.last.theirs.node, stage.last.ours.node) == ("b", "a")  # as it was promised


def test_a_pod_that_was_refused_before_is_promised_and_not_to_make_room_for() -> None:
    """The nomination before PreBind was read as a preemption: the old condition is still there."""
    stage = Stage("a")
    stage.see(make_pod("full", cpu="4", node_name="a"))
    message = "0/1 nodes are available: 1 Insufficient cpu. preemption: no victims found"
    pod = make_pod("late", cpu="1")
    stage.see(refused(pod, message))
    node_seen(stage.scheduler, make_node("b", cpu="4"))
    stage.see(refused(pod, message, nominated="b"))
    found = stage.last
    assert (found.result, found.theirs.node, found.theirs.preempts) == (Result.AGREE, "b", False)
    stage.see(bound(pod, "b"))
    assert [result for _, result in results(stage)] == ["agree", "agree"]


def test_a_nomination_that_changes_alone_is_a_promise() -> None:
    """A preemption writes condition and nomination at once; PreBind moves the nomination alone."""
    stage = Stage("a")
    stage.see(make_pod("low", cpu="4", node_name="a"))
    pod = make_pod("high", cpu="1", priority=10)
    stage.see(pod)
    stage.see(refused(pod, "0/1 nodes are available", nominated="a"))
    assert stage.last.theirs.preempts
    node_seen(stage.scheduler, make_node("b", cpu="4"))
    stage.see(refused(pod, "0/1 nodes are available", nominated="b"))
    assert (stage.last.theirs.node, stage.last.theirs.preempts) == ("b", False)
    told = len(stage.told)
    same = make_pod("high", cpu="1", priority=10, annotations={"a": "b"})
    stage.see(refused(same, "0/1 nodes are available", nominated="b"))
    assert len(stage.told) == told


def test_a_promised_pod_counts_on_its_node_as_a_bound_one_does() -> None:
    """Assumed and not yet bound it was ignored: the next pod was to go to the same node."""
    stage = Stage("a", "b")
    slow = make_pod("slow", cpu="3")
    stage.see(nominated(slow, "a"))
    stage.bind(make_pod("next", cpu="1"), "b")
    assert (stage.last.result, stage.last.ours.node) == (Result.AGREE, "b")
    stage.bind(make_pod("more", cpu="2"), "b")
    stage.see(bound(slow, "a"))
    assert stage.scheduler.cache.node_of(PodInfo.of(slow).uid) == "a"
    assert stage.scheduler.cache.check() == []


def test_a_promised_pod_that_is_deleted_counts_no_more() -> None:
    """Its room is free, and nothing of it is left."""
    stage = Stage("a")
    slow = make_pod("slow", cpu="4")
    stage.see(nominated(slow, "a"))
    assert len(stage.scheduler.cache) == 1
    stage.lose(slow)
    assert len(stage.scheduler.cache) == 0
    stage.bind(make_pod("next", cpu="4"), "a")
    assert stage.last.result is Result.AGREE


def test_a_pod_that_was_deleted_meanwhile_may_have_counted() -> None:
    """The other one had decided before the deletion; 58 of 4,998 pods were told as different."""
    stage = Stage("a", "b")
    gone = make_pod("gone", cpu="2")
    stage.bind(gone, "a")
    pods = [make_pod(f"p{index}", cpu="1") for index in range(2)]
    for pod in pods:
        stage.see(pod)
    stage.lose(bound(gone, "a"))
    for pod in pods:
        stage.see(bound(pod, "b"))
    assert results(stage) == [("gone", "agree"), ("p0", "agree"), ("p1", "agree")]
    assert stage.scheduler.cache.check() == []
    assert len(stage.scheduler.cache) == 2


def test_a_pod_that_was_deleted_long_ago_did_not_count() -> None:
    """A second later, and for a pod that came after it, every decision knows of the deletion."""
    stage = Stage("a", "b")
    gone, late = make_pod("gone", cpu="2"), make_pod("late", cpu="1")
    stage.bind(gone, "a")
    stage.bind(make_pod("other", cpu="1"), "b")
    stage.see(late)
    stage.lose(bound(gone, "a"))
    stage.bind(make_pod("new", cpu="1"), "b")
    assert stage.last.result is Result.DIFFER
    stage.now += SETTLING + 1
    stage.see(bound(late, "b"))
    assert results(stage)[-1] == ("late", "differ")


def test_a_refusal_by_room_that_was_taken_until_a_moment_ago_agrees() -> None:
    """The pod that took it was deleted while the refusal was on its way."""
    stage = Stage("a")
    gone, later = make_pod("gone", cpu="4"), make_pod("later", cpu="4")
    stage.bind(gone, "a")
    stage.see(later)
    stage.lose(bound(gone, "a"))
    stage.see(refused(later))
    assert results(stage) == [("gone", "agree"), ("later", "agree")]


def test_a_refusal_is_compared_when_the_bindings_before_it_have_come() -> None:
    """It is written at once, they take a while: the room that we saw was taken already."""
    stage = Stage("a")
    first, second = make_pod("first", cpu="3"), make_pod("second", cpu="3")
    stage.see(first)
    stage.see(refused(second, "0/1 nodes"))
    assert stage.told == []
    stage.see(bound(first, "a"))
    stage.shadow.overdue()
    assert results(stage) == [("first", "agree"), ("second", "agree")]


def test_refusals_that_are_looked_at_again_are_bounded() -> None:
    """Of more than 32 the oldest is told at once."""
    stage = Stage("a")
    for index in range(MOST_DOUBTED + 1):
        stage.see(refused(make_pod(f"p{index}", cpu="1"), "0/1 nodes"))
    assert results(stage) == [("p0", "schedulable")]
    due = stage.shadow.next_time()
    assert due == stage.now + SETTLING
    stage.settle()
    assert len(stage.told) == MOST_DOUBTED + 1
    assert stage.shadow.next_time() is None


def test_a_mixed_load_is_decided_alike() -> None:
    """Of 600 pods, volumes and deletions among them, 99.5 % are decided as the other one did.

    It was 81 %: pods that were assumed and waited for their volumes did not count.
    """
    told = play(600)
    results, share = agreement(told)
    assert sum(results.values()) > 500
    assert share >= 0.995, [one for one in told if one.result is not Result.AGREE]


def test_other_pods_respect_the_other_schedulers_promises() -> None:
    """Room that it promised is not free for less important pods."""
    stage = Stage("a")
    stage.bind(make_pod("small", cpu="3", priority=1), "a")
    stage.see(refused(make_pod("big", cpu="3", priority=9), nominated="a"))
    stage.lose(bound(make_pod("small", cpu="3", priority=1), "a"))
    stage.see(refused(make_pod("late", cpu="3", priority=1)))
    assert stage.last.result is Result.AGREE
    stage.lose(refused(make_pod("big", cpu="3", priority=9)))
    stage.see(refused(make_pod("later", cpu="3", priority=1)))
    stage.settle()
    assert stage.last.result is Result.SCHEDULABLE


def test_a_pod_the_other_scheduler_does_not_decide_is_reported_once() -> None:
    """After the patience is over: what we would do meanwhile."""
    stage = Stage("a")
    stage.see(make_pod("p", cpu="1"))
    assert stage.shadow.next_time() == EPOCH + PATIENCE
    stage.shadow.overdue()
    assert stage.told == []
    stage.now += PATIENCE
    stage.shadow.overdue()
    stage.shadow.overdue()
    assert (stage.last.result, stage.last.ours.node) == (Result.UNDECIDED, "a")
    assert len(stage.told) == 1
    assert stage.shadow.next_time() is None
    stage.see(bound(make_pod("p", cpu="1"), "a"))
    assert stage.last.result is Result.AGREE


def test_pods_of_other_schedulers_are_left_alone() -> None:
    """Other schedulers' pods, gated ones, those on their way out, and those bound before."""
    stage = Stage("a")
    stage.bind(make_pod("theirs", cpu="1", scheduler_name="third"), "a")
    stage.see(make_pod("gated", cpu="1", gates=["wait"]))
    stage.see(bound(make_pod("direct", cpu="1"), "a"))
    assert stage.told == []
    assert len(stage.shadow) == 0
    pod = make_pod("leaves", cpu="1")
    stage.see(pod)
    stage.lose(pod)
    stage.lose(pod)
    stage.now += PATIENCE
    stage.shadow.overdue()
    assert stage.told == []


def test_nothing_is_compared_before_everything_was_read() -> None:
    """Then what the other one said already is."""
    stage = Stage("a", watching=False)
    stage.see(refused(make_pod("stuck", cpu="1")))
    stage.bind(make_pod("quick", cpu="1"), "a")
    assert stage.shadow.next_time() is None
    assert stage.told == []
    stage.shadow.begin()
    stage.settle()
    assert results(stage) == [("stuck", "schedulable")]


def test_another_schedulers_pods_are_decided_by_our_only_profile() -> None:
    """The profile need not have the other one's name."""
    stage = Stage("a", of="their-scheduler")
    stage.bind(make_pod("p", cpu="1", scheduler_name="their-scheduler"), "a")
    found = stage.last
    assert (found.scheduler, found.profile) == ("their-scheduler", "default-scheduler")
    assert found.result is Result.AGREE
    assert found.generation == 1


def test_a_decision_that_breaks_is_an_error() -> None:
    """A selector that fails for a device is no rejection."""
    stage = Stage("a")
    of_no_attribute = device_class("gpu", "device.attributes['gpu.example.com'].memory == 1")
    for one in (of_no_attribute, resource_slice("a", ["d0"]), resource_claim("g")):
        object_seen(stage.scheduler, None, one)
    claims: Any = [PodResourceClaim(name="gpu", resource_claim_name="g")]
    stage.bind(make_pod("p", resource_claims=claims), "a")
    assert stage.last.result is Result.ERROR
    assert "no such key: memory" in stage.last.ours.message


RACKS = str(Path(__file__).parents[3] / "policies" / "rack-gang" / "policy.yaml")


def test_a_pod_whose_group_is_placed_together_is_decided_with_it() -> None:
    """One rack for all of them: the other scheduler, which knows nothing of racks, differs."""
    stage = Stage(policies=(RACKS,))
    group = CoschedulingGroup(
        metadata=ObjectMeta(name="ring", namespace="default"),
        spec=CoschedulingSpec(min_member=2),
    )
    object_seen(stage.scheduler, None, group)
    rack = {"topology.example.com/rack": "r"}
    node_seen(stage.scheduler, make_node("r1", cpu="1", labels=rack))
    node_seen(stage.scheduler, make_node("r2", cpu="1", labels=rack))
    node_seen(stage.scheduler, make_node("big", cpu="90"))
    labels = {"scheduling.x-k8s.io/pod-group": "ring"}
    pods = [make_pod(name, cpu="1", labels=labels) for name in ("x", "y")]
    for pod in pods:
        stage.see(pod)
    stage.see(bound(pods[0], "big"))
    assert stage.last.result is Result.DIFFER
    assert stage.last.ours.node in {"r1", "r2"}
    huge = [make_pod(name, cpu="2", labels=labels) for name in ("u", "v")]
    stage.lose(bound(pods[0], "big"))
    stage.lose(pods[1])
    for pod in huge:
        stage.see(pod)
    stage.see(bound(huge[0], "big"))
    assert stage.last.result is Result.UNSCHEDULABLE
    assert stage.last.ours.message


class Fails:
    """Rejects every node once, and then breaks, as a service that is not there any more."""

    def __init__(self) -> None:
        self.asked = 0

    @hookimpl
    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> FilterResult:
        self.asked += 1
        if self.asked > 1:
            raise ValueError("gone")
        codes = np.ones(1 if rows is None else rows.size, np.int16)
        return FilterResult.of(codes, Status(Code.UNSCHEDULABLE, ("no",)))


class Placeless:
    """Breaks where a group's domains are asked for."""

    @hookimpl
    def placement_generate(self, state: CycleState, pods: Sequence[PodInfo]) -> object:
        raise ValueError("no idea")


def test_a_plugin_that_breaks_later_leaves_the_decision_alone() -> None:
    """What it said of their node is not known, that is all."""
    stage = Stage(scheduler=scheduler_of(Fails()))
    stage.bind(make_pod("p"), "n0")
    assert stage.last.result is Result.UNSCHEDULABLE
    assert stage.last.theirs.rejected_by == ""


def test_a_group_whose_place_cannot_be_found_is_an_error() -> None:
    """And no rejection."""
    stage = Stage(scheduler=scheduler_of(Placeless()))
    stage.bind(make_pod("p", labels={"scheduling.x-k8s.io/pod-group": "ring"}), "n0")
    assert stage.last.result is Result.ERROR
    assert "no idea" in stage.last.ours.message


def test_a_pod_that_our_gate_keeps_out_would_have_no_node(tmp_path: Path) -> None:
    """The words of the gate are the reason."""
    policy = tmp_path / "gate.yaml"
    policy.write_text(
        "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: Gate}\n"
        "spec: {preEnqueue: [{expression: 'pod.priority > 5', message: not important}]}\n"
    )
    stage = Stage("a", policies=(str(policy),))
    stage.bind(make_pod("p"), "a")
    assert stage.last.result is Result.UNSCHEDULABLE
    assert stage.last.ours.message == "not important"


def test_what_was_promised_before_we_came_is_respected() -> None:
    """All promises first; a pod's own is its answer."""
    stage = Stage("a", watching=False)
    stage.see(refused(make_pod("late", cpu="3", priority=1)))
    stage.see(refused(make_pod("big", cpu="3", priority=9), nominated="a"))
    stage.shadow.begin()
    assert results(stage) == [("late", "agree"), ("big", "schedulable")]


def test_a_promise_that_is_taken_back_counts_no_more() -> None:
    """The room is free for others again."""
    stage = Stage("a")
    pod = make_pod("big", cpu="3", priority=9)
    stage.see(nominated(pod, "a"))
    stage.see(refused(make_pod("small", cpu="3")))
    assert stage.last.result is Result.AGREE
    stage.see(pod)
    stage.see(refused(make_pod("other", cpu="3")))
    stage.settle()
    assert stage.last.result is Result.SCHEDULABLE


def test_conditions_that_are_no_answer_are_none() -> None:
    """A gate of the other scheduler, an error of it, other conditions."""
    stage = Stage("a")
    pod = make_pod("p")
    for condition in (
        Condition("PodScheduled", "False", "SchedulerError", "broke"),
        Condition("PodScheduled", "True"),
        Condition("Ready", "False", "Unschedulable"),
    ):
        status = msgspec.structs.replace(pod.status, conditions=(condition,))
        stage.see(msgspec.structs.replace(pod, status=status))
    assert stage.told == []


CLAIM = msgspec.convert(
    {
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {"storageClassName": "zonal", "accessModes": ["ReadWriteOnce"]},
    },
    PersistentVolumeClaim,
)
ZONAL = msgspec.convert(
    {
        "kind": "StorageClass",
        "metadata": {"name": "zonal"},
        "provisioner": "p",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
    StorageClass,
)


def test_a_pod_whose_volume_is_yet_to_be_made_is_decided_when_it_comes() -> None:
    """Later the volume is where the other one wants the pod, and we could only agree."""
    stage = Stage("a", "b")
    object_seen(stage.scheduler, None, ZONAL)
    object_seen(stage.scheduler, None, CLAIM)
    stage.bind(make_pod("load", cpu="2"), "a")
    volumes: Any = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    pod = make_pod("db", cpu="1", volumes=volumes)
    stage.see(pod)
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]
    made = msgspec.convert(
        {
            "kind": "PersistentVolume",
            "metadata": {"name": "v"},
            "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}},
        },
        PersistentVolume,
    )
    object_seen(stage.scheduler, None, made)
    spec = msgspec.structs.replace(CLAIM.spec, volume_name="v")
    object_seen(stage.scheduler, CLAIM, msgspec.structs.replace(CLAIM, spec=spec))
    stage.see(bound(pod, "a"))
    found = stage.last
    assert (found.result, found.ours.node, found.beforehand) == (Result.DIFFER, "b", True)
    assert found.theirs.score is not None
    assert found.difference == {}


def test_of_a_node_that_came_later_nothing_was_thought_before() -> None:
    """Neither a score nor a reason."""
    stage = Stage("a")
    object_seen(stage.scheduler, None, ZONAL)
    object_seen(stage.scheduler, None, CLAIM)
    volumes: Any = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    pod = make_pod("p", volumes=volumes)
    stage.see(pod)
    node_seen(stage.scheduler, make_node("new"))
    stage.see(bound(pod, "new"))
    found = stage.last
    assert (found.result, found.beforehand) == (Result.DIFFER, True)
    assert (found.theirs.score, found.theirs.rejected_by) == (None, "")


def test_a_claim_that_comes_after_its_pod_is_waited_for() -> None:
    """As that of an ephemeral volume: without it there is no decision yet, with it there is."""
    stage = Stage("a", "b")
    object_seen(stage.scheduler, None, ZONAL)
    stage.bind(make_pod("load", cpu="2"), "a")
    volumes: Any = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    pods = [make_pod(name, cpu="1", volumes=volumes) for name in ("first", "second")]
    other = make_pod("other", namespace="elsewhere", volumes=volumes)
    for pod in (*pods, other):
        stage.see(pod)
    object_seen(stage.scheduler, None, CLAIM)
    stage.shadow.claim_seen(CLAIM)
    stage.shadow.claim_seen(CLAIM)
    stage.see(bound(pods[0], "a"))
    assert (stage.last.ours.node, stage.last.beforehand) == ("b", True)
    stage.see(bound(other, "a"))
    assert (stage.last.result, stage.last.beforehand) == (Result.UNSCHEDULABLE, False)


def test_decisions_made_beforehand_are_bounded() -> None:
    """Of more than 256 the oldest is decided when its binding comes."""
    stage = Stage("a")
    object_seen(stage.scheduler, None, ZONAL)
    object_seen(stage.scheduler, None, CLAIM)
    volumes: Any = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    pods = [make_pod(f"p{i}", volumes=volumes) for i in range(MOST_KEPT + 1)]
    for pod in pods:
        stage.see(pod)
    stage.see(bound(pods[0], "a"))
    stage.see(bound(pods[-1], "a"))
    assert [one.beforehand for one in stage.told] == [False, True]
