"""The shadow: it decides on the state that the other scheduler used, and writes nothing."""

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
from policy_sched.instance.shadow import comparison
from policy_sched.instance.shadow.log import Agreement, Comparison
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

Reported = list[Comparison]


class Shadowed:
    """A cluster of another scheduler, and its shadow."""

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
        self.recorded: Reported = []
        self.shadow = comparison.Shadow(self.scheduler, of, self.recorded.append, Random(0))
        for name in nodes:
            node_seen(self.scheduler, make_node(name, cpu="4"))
        if watching:
            self.shadow.begin()

    def see(self, pod: Pod) -> None:
        """Deliver a pod by the watch."""
        info = PodInfo.of(pod)
        self.shadow.pod_seen(info)
        if info.node_name:
            pod_seen(self.scheduler, info)

    def lose(self, pod: Pod) -> None:
        """Deliver the deletion of a pod."""
        info = PodInfo.of(pod)
        self.shadow.pod_gone(info.uid)
        pod_gone(self.scheduler, info)

    def bind(self, pod: Pod, node: str) -> None:
        """Deliver a pod without a node, and then with one."""
        self.see(pod)
        self.see(bound(pod, node))

    def settle(self) -> None:
        """Deliver the bindings that are under way."""
        self.now += comparison.SETTLING
        self.shadow.overdue()

    @property
    def last(self) -> Comparison:
        """The last comparison."""
        return self.recorded[-1]


def bound(pod: Pod, node: str) -> Pod:
    """Return the pod on a node."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))


def refused(pod: Pod, message: str = "0/1 nodes", nominated: str = "") -> Pod:
    """Return the pod after the other scheduler found no node."""
    condition = Condition("PodScheduled", "False", "Unschedulable", message)
    status = msgspec.structs.replace(
        pod.status, conditions=(condition,), nominated_node_name=nominated
    )
    return msgspec.structs.replace(pod, status=status)


def nominated(pod: Pod, node: str) -> Pod:
    """Return the pod with a nomination, and no condition."""
    status = msgspec.structs.replace(pod.status, nominated_node_name=node)
    return msgspec.structs.replace(pod, status=status)


def results(cluster: Shadowed) -> list[tuple[str, str]]:
    """Return pods and results in the order of the reports."""
    return [(one.pod.removeprefix("default/"), one.result.value) for one in cluster.recorded]


def test_the_same_node_and_one_that_is_as_good_are_agreement() -> None:
    """Breaking a tie in another way is not a difference."""
    cluster = Shadowed("a", "b", "c")
    for name in ("a", "b", "c"):
        cluster.bind(make_pod(f"p-{name}", cpu="1"), name)
    assert [result for _, result in results(cluster)] == ["agree"] * 3
    assert cluster.last.theirs.node == "c"
    assert cluster.last.theirs.score == cluster.last.ours.score


def test_a_worse_node_is_reported_with_both_scores_and_their_difference() -> None:
    """The pod goes where usage is higher: the scores differ by plugin, and add up."""
    cluster = Shadowed("a", "b")
    cluster.bind(make_pod("first", cpu="2"), "a")
    cluster.bind(make_pod("second", cpu="1"), "a")
    found = cluster.last
    assert (found.result, found.theirs.node, found.ours.node) == (Agreement.DIFFER, "a", "b")
    assert found.ours.score is not None
    assert found.theirs.score is not None
    assert sum(found.difference.values()) == found.ours.score - found.theirs.score > 0
    assert found.difference["NodeResourcesFit"] > 0
    assert (found.feasible_nodes, found.evaluated_nodes) == (2, 2)
    assert found.requests == {"cpu": 1000}


def test_a_node_that_the_shadow_rejects_is_reported_with_the_reason() -> None:
    """Plugin and reason, as in an explanation."""
    cluster = Shadowed("a")
    node_seen(cluster.scheduler, make_node("t", taints=[{"key": "k", "effect": "NoSchedule"}]))
    cluster.bind(make_pod("p", cpu="1"), "t")
    found = cluster.last
    assert (found.result, found.ours.node) == (Agreement.DIFFER, "a")
    assert found.theirs.rejected_by == "TaintToleration"
    assert found.theirs.reasons == ("node(s) had untolerated taint(s)",)
    assert found.theirs.score is None
    assert found.difference == {}


def test_a_pod_counts_where_it_really_is() -> None:
    """The shadow's choice is not assumed: the next pod is decided beside the real placement."""
    cluster = Shadowed("a", "b")
    cluster.bind(make_pod("first", cpu="3"), "a")
    cluster.bind(make_pod("second", cpu="3"), "a")  # the other scheduler overcommits
    assert cluster.last.ours.node == "b"
    assert cluster.last.theirs.rejected_by == "NodeResourcesFit"
    cluster.bind(make_pod("third", cpu="3"), "b")
    assert cluster.last.result is Agreement.AGREE
    assert cluster.scheduler.cache.check() == []
    assert cluster.scheduler.queue.lengths() == {
        "active": 0,
        "backoff": 0,
        "unschedulable": 0,
        "gated": 0,
    }


def test_a_burst_is_decided_in_the_order_of_the_bindings() -> None:
    """All pods arrive first: each is decided beside those that were bound before it."""
    cluster = Shadowed("a", "b", "c")
    pods = [make_pod(f"p{i}", cpu="4") for i in range(3)]
    for pod in pods:
        cluster.see(pod)
    for pod, node in zip(reversed(pods), "cab", strict=True):
        cluster.see(bound(pod, node))
    assert results(cluster) == [("p2", "agree"), ("p1", "agree"), ("p0", "agree")]
    assert [one.feasible_nodes for one in cluster.recorded] == [3, 2, 1]


def test_pods_that_one_scheduler_cannot_place() -> None:
    """A binding that the shadow rejects, a node only the shadow finds, and no node for both."""
    cluster = Shadowed("a")
    cluster.bind(make_pod("first", cpu="3"), "a")
    cluster.bind(make_pod("second", cpu="3"), "a")
    assert cluster.last.result is Agreement.UNSCHEDULABLE
    assert cluster.last.ours.message.startswith("0/1 nodes are available: 1 Insufficient cpu")
    cluster.see(refused(make_pod("third", cpu="3")))
    assert cluster.last.result is Agreement.AGREE
    node_seen(cluster.scheduler, make_node("b"))
    cluster.see(refused(make_pod("fourth", cpu="1"), "0/2 nodes"))
    cluster.settle()
    assert cluster.last.result is Agreement.SCHEDULABLE
    assert (cluster.last.theirs.message, cluster.last.ours.node) == ("0/2 nodes", "b")


def test_a_repeated_disagreement_is_reported_once_and_a_new_one_again() -> None:
    """Retries of the other scheduler are not reported; their results are."""
    cluster = Shadowed()
    pod = make_pod("p", cpu="1")
    cluster.see(pod)
    for message in ("0/0 nodes", "0/0 nodes", "no nodes at all"):
        cluster.see(refused(pod, message))
    assert results(cluster) == [("p", "agree")]
    node_seen(cluster.scheduler, make_node("a"))
    cluster.see(refused(pod, "still none"))
    cluster.settle()
    assert results(cluster)[1:] == [("p", "schedulable")]
    cluster.see(bound(pod, "a"))
    assert results(cluster)[2:] == [("p", "agree")]
    cluster.see(bound(pod, "a"))
    assert len(cluster.recorded) == 3
    assert len(cluster.shadow) == 0


def test_preemptions_are_compared() -> None:
    """Both preempt: the same node agrees; the victims are listed, and no pod is evicted."""
    cluster = Shadowed("a")
    cluster.bind(make_pod("small", cpu="3", priority=1), "a")
    pod = make_pod("big", cpu="3", priority=9)
    cluster.see(refused(pod, nominated="a"))
    found = cluster.last
    assert found.result is Agreement.AGREE
    assert found.ours.victims == ("default/small",)
    assert found.theirs.preempts
    assert found.ours.preempts
    cluster.lose(bound(make_pod("small", cpu="3", priority=1), "a"))
    cluster.see(bound(refused(pod, nominated="a"), "a"))
    assert results(cluster)[1:] == [("big", "agree"), ("big", "agree")]


def test_an_equal_preemption_on_another_node_is_a_tie() -> None:
    """Of 61 differences on a real cluster 49 were equal victims on another node."""
    cluster = Shadowed("a", "b", "c")
    for name in "ab":
        cluster.bind(make_pod(f"small-{name}", cpu="3", priority=1), name)
    cluster.bind(make_pod("important", cpu="3", priority=5), "c")
    choices = {}
    for node in "abc":
        pod = make_pod(f"big-{node}", cpu="3", priority=9)
        cluster.see(refused(pod, nominated=node))
        found = cluster.last
        choices[node] = found.result
        assert found.theirs.victims == (
            f"default/{'important' if node == 'c' else f'small-{node}'}",
        )
        assert found.ours.victims in {("default/small-a",), ("default/small-b",)}
        cluster.lose(pod)
    assert choices == {"a": Agreement.AGREE, "b": Agreement.AGREE, "c": Agreement.DIFFER}


def test_a_preemptor_that_is_tried_again_has_no_new_decision() -> None:
    """Its new condition was read as the nomination before its binding, and differed."""
    cluster = Shadowed("a")
    small = make_pod("small", cpu="3", priority=1)
    cluster.bind(small, "a")
    pod = make_pod("big", cpu="3", priority=9)
    cluster.see(refused(pod, nominated="a"))
    small.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    cluster.see(bound(small, "a"))
    message = (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: not"
        " eligible due to a terminating pod on the nominated node."
    )
    cluster.see(refused(pod, message, nominated="a"))
    cluster.lose(bound(small, "a"))
    cluster.see(bound(refused(pod, message, nominated="a"), "a"))
    assert results(cluster)[1:] == [("big", "agree"), ("big", "agree")]


def test_a_binding_that_was_overtaken_is_decided_without_what_came_in_between() -> None:
    """Bindings run side by side: one that was decided later may arrive first."""
    cluster = Shadowed("a", "b")
    cluster.bind(make_pod("there", cpu="100m"), "b")
    first, second = make_pod("first", cpu="2"), make_pod("second", cpu="2")
    for pod in (first, second):
        cluster.see(pod)
        cluster.now += 1000
    cluster.see(bound(second, "a"))
    cluster.see(bound(first, "a"))
    assert results(cluster)[-1] == ("first", "agree")
    assert cluster.scheduler.cache.pod(second.metadata.uid) is not None


def test_a_difference_has_a_cause_where_events_may_be_out_of_order() -> None:
    """A claim that has not arrived, another kind at the time, a deletion; otherwise none."""
    cluster = Shadowed("a", "b")
    cluster.bind(make_pod("there", cpu="3"), "b")
    for name in ("first", "second"):
        cluster.see(make_pod(name, cpu="1"))
        if name == "second":
            cluster.shadow.changes.note("PersistentVolume", "of others")
            cluster.shadow.changes.note("Node", "a")
        cluster.see(bound(make_pod(name, cpu="1"), "b"))
        assert cluster.last.result is Agreement.DIFFER
        cluster.lose(bound(make_pod(name, cpu="1"), "b"))
        cluster.now += comparison.SETTLING * 2
    causes = [one.cause for one in cluster.recorded if one.result is Agreement.DIFFER]
    assert causes == ["", "Node a changed at the time; watches of kinds have no common order"]


def test_a_node_that_needs_preemption_ranks_behind_one_that_does_not() -> None:
    """The shadow places at once a pod for which the other scheduler preempts."""
    cluster = Shadowed("a", "b")
    cluster.bind(make_pod("small", cpu="3", priority=1), "a")
    cluster.see(refused(make_pod("big", cpu="3", priority=9), nominated="a"))
    assert cluster.last.result is Agreement.SCHEDULABLE
    assert (cluster.last.ours.node, cluster.last.theirs.node) == ("b", "a")


def test_a_nomination_counts_as_the_binding_that_it_announces() -> None:
    """Decided once, as if there were no nomination; a binding elsewhere is compared again."""
    cluster = Shadowed("a", "b")
    cluster.bind(make_pod("first", cpu="2"), "a")
    pod = make_pod("slow", cpu="1")
    cluster.see(pod)
    cluster.see(nominated(pod, "a"))
    assert (cluster.last.result, cluster.last.ours.node) == (Agreement.DIFFER, "b")
    cluster.see(bound(nominated(pod, "a"), "a"))
    assert results(cluster) == [("first", "agree"), ("slow", "differ")]
    other = make_pod("turns", cpu="1")
    cluster.see(nominated(other, "a"))
    cluster.see(bound(nominated(other, "a"), "b"))
    assert results(cluster)[2:] == [("turns", "differ"), ("turns", "differ")]
    assert (cluster.last.theirs.node, cluster.last.ours.node) == ("b", "a")  # as nominated


def test_a_nomination_after_a_rejection_is_not_a_preemption() -> None:
    """The nomination before PreBind was read as a preemption: the old condition is still there."""
    cluster = Shadowed("a")
    cluster.see(make_pod("full", cpu="4", node_name="a"))
    message = "0/1 nodes are available: 1 Insufficient cpu. preemption: no victims found"
    pod = make_pod("late", cpu="1")
    cluster.see(refused(pod, message))
    node_seen(cluster.scheduler, make_node("b", cpu="4"))
    cluster.see(refused(pod, message, nominated="b"))
    found = cluster.last
    assert (found.result, found.theirs.node, found.theirs.preempts) == (Agreement.AGREE, "b", False)
    cluster.see(bound(pod, "b"))
    assert [result for _, result in results(cluster)] == ["agree", "agree"]


def test_a_nomination_that_changes_alone_is_not_a_preemption() -> None:
    """A preemption writes condition and nomination at once; PreBind the nomination alone."""
    cluster = Shadowed("a")
    cluster.see(make_pod("low", cpu="4", node_name="a"))
    pod = make_pod("high", cpu="1", priority=10)
    cluster.see(pod)
    cluster.see(refused(pod, "0/1 nodes are available", nominated="a"))
    assert cluster.last.theirs.preempts
    node_seen(cluster.scheduler, make_node("b", cpu="4"))
    cluster.see(refused(pod, "0/1 nodes are available", nominated="b"))
    assert (cluster.last.theirs.node, cluster.last.theirs.preempts) == ("b", False)
    recorded = len(cluster.recorded)
    same = make_pod("high", cpu="1", priority=10, annotations={"a": "b"})
    cluster.see(refused(same, "0/1 nodes are available", nominated="b"))
    assert len(cluster.recorded) == recorded


def test_a_nominated_pod_counts_on_its_node_like_a_bound_one() -> None:
    """It was assumed and not bound, and was ignored: the next pod was to go to the same node."""
    cluster = Shadowed("a", "b")
    slow = make_pod("slow", cpu="3")
    cluster.see(nominated(slow, "a"))
    cluster.bind(make_pod("next", cpu="1"), "b")
    assert (cluster.last.result, cluster.last.ours.node) == (Agreement.AGREE, "b")
    cluster.bind(make_pod("more", cpu="2"), "b")
    cluster.see(bound(slow, "a"))
    assert cluster.scheduler.cache.node_of(PodInfo.of(slow).uid) == "a"
    assert cluster.scheduler.cache.check() == []


def test_a_nominated_pod_that_is_deleted_counts_no_more() -> None:
    """Its resources are free, and nothing of it is left."""
    cluster = Shadowed("a")
    slow = make_pod("slow", cpu="4")
    cluster.see(nominated(slow, "a"))
    assert len(cluster.scheduler.cache) == 1
    cluster.lose(slow)
    assert len(cluster.scheduler.cache) == 0
    cluster.bind(make_pod("next", cpu="4"), "a")
    assert cluster.last.result is Agreement.AGREE


def test_a_pod_that_was_deleted_meanwhile_may_have_counted() -> None:
    """The decision preceded the deletion; 58 of 4,998 pods were reported as different."""
    cluster = Shadowed("a", "b")
    gone = make_pod("gone", cpu="2")
    cluster.bind(gone, "a")
    pods = [make_pod(f"p{index}", cpu="1") for index in range(2)]
    for pod in pods:
        cluster.see(pod)
    cluster.lose(bound(gone, "a"))
    for pod in pods:
        cluster.see(bound(pod, "b"))
    assert results(cluster) == [("gone", "agree"), ("p0", "agree"), ("p1", "agree")]
    assert cluster.scheduler.cache.check() == []
    assert len(cluster.scheduler.cache) == 2


def test_a_pod_that_was_deleted_long_ago_did_not_count() -> None:
    """A second later, and for a pod that arrived after it, the deletion is known."""
    cluster = Shadowed("a", "b")
    gone, late = make_pod("gone", cpu="2"), make_pod("late", cpu="1")
    cluster.bind(gone, "a")
    cluster.bind(make_pod("other", cpu="1"), "b")
    cluster.see(late)
    cluster.lose(bound(gone, "a"))
    cluster.bind(make_pod("new", cpu="1"), "b")
    assert cluster.last.result is Agreement.DIFFER
    cluster.now += comparison.SETTLING + 1
    cluster.see(bound(late, "b"))
    assert results(cluster)[-1] == ("late", "differ")


def test_a_rejection_because_of_a_pod_that_was_just_deleted_agrees() -> None:
    """The pod that used the node was deleted just before the rejection arrived."""
    cluster = Shadowed("a")
    gone, later = make_pod("gone", cpu="4"), make_pod("later", cpu="4")
    cluster.bind(gone, "a")
    cluster.see(later)
    cluster.lose(bound(gone, "a"))
    cluster.see(refused(later))
    assert results(cluster) == [("gone", "agree"), ("later", "agree")]


def test_a_rejection_is_compared_after_the_bindings_before_it() -> None:
    """It is written at once, bindings take a while: the free capacity was taken already."""
    cluster = Shadowed("a")
    first, second = make_pod("first", cpu="3"), make_pod("second", cpu="3")
    cluster.see(first)
    cluster.see(refused(second, "0/1 nodes"))
    assert cluster.recorded == []
    cluster.see(bound(first, "a"))
    cluster.shadow.overdue()
    assert results(cluster) == [("first", "agree"), ("second", "agree")]


def test_rejections_that_are_decided_again_are_bounded() -> None:
    """If there are more than 32, the oldest is reported at once."""
    cluster = Shadowed("a")
    for index in range(comparison.MOST_DOUBTED + 1):
        cluster.see(refused(make_pod(f"p{index}", cpu="1"), "0/1 nodes"))
    assert results(cluster) == [("p0", "schedulable")]
    due = cluster.shadow.next_time()
    assert due == cluster.now + comparison.SETTLING
    cluster.settle()
    assert len(cluster.recorded) == comparison.MOST_DOUBTED + 1
    assert cluster.shadow.next_time() is None


def test_a_mixed_load_is_decided_alike() -> None:
    """Of 600 pods, volumes and deletions among them, 99.5 % get the other scheduler's decision.

    It was 81 %: pods that were assumed and waited for their volumes did not count.
    """
    recorded = play(600)
    results, share = agreement(recorded)
    assert sum(results.values()) > 500
    assert share >= 0.995, [one for one in recorded if one.result is not Agreement.AGREE]


def test_other_pods_respect_nominations_of_the_other_scheduler() -> None:
    """Nominated resources are not free for pods of lower priority."""
    cluster = Shadowed("a")
    cluster.bind(make_pod("small", cpu="3", priority=1), "a")
    cluster.see(refused(make_pod("big", cpu="3", priority=9), nominated="a"))
    cluster.lose(bound(make_pod("small", cpu="3", priority=1), "a"))
    cluster.see(refused(make_pod("late", cpu="3", priority=1)))
    assert cluster.last.result is Agreement.AGREE
    cluster.lose(refused(make_pod("big", cpu="3", priority=9)))
    cluster.see(refused(make_pod("later", cpu="3", priority=1)))
    cluster.settle()
    assert cluster.last.result is Agreement.SCHEDULABLE


def test_a_pod_the_other_scheduler_does_not_decide_is_reported_once() -> None:
    """After the patience is over: with the shadow's decision at that time."""
    cluster = Shadowed("a")
    cluster.see(make_pod("p", cpu="1"))
    assert cluster.shadow.next_time() == EPOCH + comparison.PATIENCE
    cluster.shadow.overdue()
    assert cluster.recorded == []
    cluster.now += comparison.PATIENCE
    cluster.shadow.overdue()
    cluster.shadow.overdue()
    assert (cluster.last.result, cluster.last.ours.node) == (Agreement.UNDECIDED, "a")
    assert len(cluster.recorded) == 1
    assert cluster.shadow.next_time() is None
    cluster.see(bound(make_pod("p", cpu="1"), "a"))
    assert cluster.last.result is Agreement.AGREE


def test_pods_of_other_schedulers_are_left_alone() -> None:
    """Other schedulers' pods, gated and terminating ones, and those bound before."""
    cluster = Shadowed("a")
    cluster.bind(make_pod("theirs", cpu="1", scheduler_name="third"), "a")
    cluster.see(make_pod("gated", cpu="1", gates=["wait"]))
    cluster.see(bound(make_pod("direct", cpu="1"), "a"))
    assert cluster.recorded == []
    assert len(cluster.shadow) == 0
    pod = make_pod("leaves", cpu="1")
    cluster.see(pod)
    cluster.lose(pod)
    cluster.lose(pod)
    cluster.now += comparison.PATIENCE
    cluster.shadow.overdue()
    assert cluster.recorded == []


def test_nothing_is_compared_before_everything_was_read() -> None:
    """Then the other scheduler's earlier responses are compared."""
    cluster = Shadowed("a", watching=False)
    cluster.see(refused(make_pod("stuck", cpu="1")))
    cluster.bind(make_pod("quick", cpu="1"), "a")
    assert cluster.shadow.next_time() is None
    assert cluster.recorded == []
    cluster.shadow.begin()
    cluster.settle()
    assert results(cluster) == [("stuck", "schedulable")]


def test_the_only_profile_decides_whatever_its_name() -> None:
    """The profile need not have the other scheduler's name."""
    cluster = Shadowed("a", of="their-scheduler")
    cluster.bind(make_pod("p", cpu="1", scheduler_name="their-scheduler"), "a")
    found = cluster.last
    assert (found.scheduler, found.profile) == ("their-scheduler", "default-scheduler")
    assert found.result is Agreement.AGREE
    assert found.generation == 1


def test_a_decision_that_breaks_is_an_error() -> None:
    """A selector that fails for a device is not a rejection."""
    cluster = Shadowed("a")
    of_no_attribute = device_class("gpu", "device.attributes['gpu.example.com'].memory == 1")
    for one in (of_no_attribute, resource_slice("a", ["d0"]), resource_claim("g")):
        object_seen(cluster.scheduler, None, one)
    claims: Any = [PodResourceClaim(name="gpu", resource_claim_name="g")]
    cluster.bind(make_pod("p", resource_claims=claims), "a")
    assert cluster.last.result is Agreement.ERROR
    assert "no such key: memory" in cluster.last.ours.message


RACKS = str(Path(__file__).parents[3] / "policies" / "rack-gang" / "policy.yaml")


def test_a_pod_is_decided_with_its_group() -> None:
    """One rack for all of them: the other scheduler ignores racks and differs."""
    cluster = Shadowed(policies=(RACKS,))
    group = CoschedulingGroup(
        metadata=ObjectMeta(name="ring", namespace="default"),
        spec=CoschedulingSpec(min_member=2),
    )
    object_seen(cluster.scheduler, None, group)
    rack = {"topology.example.com/rack": "r"}
    node_seen(cluster.scheduler, make_node("r1", cpu="1", labels=rack))
    node_seen(cluster.scheduler, make_node("r2", cpu="1", labels=rack))
    node_seen(cluster.scheduler, make_node("big", cpu="90"))
    labels = {"scheduling.x-k8s.io/pod-group": "ring"}
    pods = [make_pod(name, cpu="1", labels=labels) for name in ("x", "y")]
    for pod in pods:
        cluster.see(pod)
    cluster.see(bound(pods[0], "big"))
    assert cluster.last.result is Agreement.DIFFER
    assert cluster.last.ours.node in {"r1", "r2"}
    huge = [make_pod(name, cpu="2", labels=labels) for name in ("u", "v")]
    cluster.lose(bound(pods[0], "big"))
    cluster.lose(pods[1])
    for pod in huge:
        cluster.see(pod)
    cluster.see(bound(huge[0], "big"))
    assert cluster.last.result is Agreement.UNSCHEDULABLE
    assert cluster.last.ours.message


class Fails:
    """Rejects every node once, and then fails, like a service that is gone."""

    def __init__(self) -> None:
        self.requested = 0

    @hookimpl
    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> FilterResult:
        self.requested += 1
        if self.requested > 1:
            raise ValueError("gone")
        codes = np.ones(1 if rows is None else rows.size, np.int16)
        return FilterResult.of(codes, Status(Code.UNSCHEDULABLE, ("no",)))


class Placeless:
    """Fails when a group's domains are generated."""

    @hookimpl
    def placement_generate(self, state: CycleState, pods: Sequence[PodInfo]) -> object:
        raise ValueError("no idea")


def test_a_plugin_that_breaks_later_leaves_the_decision_alone() -> None:
    """Only the evaluation of the other node is unknown."""
    cluster = Shadowed(scheduler=scheduler_of(Fails()))
    cluster.bind(make_pod("p"), "n0")
    assert cluster.last.result is Agreement.UNSCHEDULABLE
    assert cluster.last.theirs.rejected_by == ""


def test_a_group_without_placements_because_of_an_error_is_an_error() -> None:
    """And not a rejection."""
    cluster = Shadowed(scheduler=scheduler_of(Placeless()))
    cluster.bind(make_pod("p", labels={"scheduling.x-k8s.io/pod-group": "ring"}), "n0")
    assert cluster.last.result is Agreement.ERROR
    assert "no idea" in cluster.last.ours.message


def test_a_gated_pod_would_have_no_node(tmp_path: Path) -> None:
    """The message of the gate is the reason."""
    policy = tmp_path / "gate.yaml"
    policy.write_text(
        "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: Gate}\n"
        "spec: {preEnqueue: [{expression: 'pod.priority > 5', message: not important}]}\n"
    )
    cluster = Shadowed("a", policies=(str(policy),))
    cluster.bind(make_pod("p"), "a")
    assert cluster.last.result is Agreement.UNSCHEDULABLE
    assert cluster.last.ours.message == "not important"


def test_nominations_before_the_start_are_respected() -> None:
    """All nominations first; a pod's own is its response."""
    cluster = Shadowed("a", watching=False)
    cluster.see(refused(make_pod("late", cpu="3", priority=1)))
    cluster.see(refused(make_pod("big", cpu="3", priority=9), nominated="a"))
    cluster.shadow.begin()
    assert results(cluster) == [("late", "agree"), ("big", "schedulable")]


def test_a_cleared_nomination_counts_no_more() -> None:
    """Its resources are free for others again."""
    cluster = Shadowed("a")
    pod = make_pod("big", cpu="3", priority=9)
    cluster.see(nominated(pod, "a"))
    cluster.see(refused(make_pod("small", cpu="3")))
    assert cluster.last.result is Agreement.AGREE
    cluster.see(pod)
    cluster.see(refused(make_pod("other", cpu="3")))
    cluster.settle()
    assert cluster.last.result is Agreement.SCHEDULABLE


def test_conditions_that_are_no_answer_are_none() -> None:
    """A gate of the other scheduler, an error, other conditions."""
    cluster = Shadowed("a")
    pod = make_pod("p")
    for condition in (
        Condition("PodScheduled", "False", "SchedulerError", "broke"),
        Condition("PodScheduled", "True"),
        Condition("Ready", "False", "Unschedulable"),
    ):
        status = msgspec.structs.replace(pod.status, conditions=(condition,))
        cluster.see(msgspec.structs.replace(pod, status=status))
    assert cluster.recorded == []


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


def test_a_pod_with_an_unbound_volume_is_decided_when_it_arrives() -> None:
    """Later only the selected node has the volume, and the shadow could only agree."""
    cluster = Shadowed("a", "b")
    object_seen(cluster.scheduler, None, ZONAL)
    object_seen(cluster.scheduler, None, CLAIM)
    cluster.bind(make_pod("load", cpu="2"), "a")
    volumes: Any = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    pod = make_pod("db", cpu="1", volumes=volumes)
    cluster.see(pod)
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]
    made = msgspec.convert(
        {
            "kind": "PersistentVolume",
            "metadata": {"name": "v"},
            "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}},
        },
        PersistentVolume,
    )
    object_seen(cluster.scheduler, None, made)
    spec = msgspec.structs.replace(CLAIM.spec, volume_name="v")
    object_seen(cluster.scheduler, CLAIM, msgspec.structs.replace(CLAIM, spec=spec))
    cluster.see(bound(pod, "a"))
    found = cluster.last
    assert (found.result, found.ours.node, found.beforehand) == (Agreement.DIFFER, "b", True)
    assert found.theirs.score is not None
    assert found.difference == {}


def test_a_node_added_later_has_no_earlier_evaluation() -> None:
    """It has neither a score nor a reason."""
    cluster = Shadowed("a")
    object_seen(cluster.scheduler, None, ZONAL)
    object_seen(cluster.scheduler, None, CLAIM)
    volumes: Any = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    pod = make_pod("p", volumes=volumes)
    cluster.see(pod)
    node_seen(cluster.scheduler, make_node("new"))
    cluster.see(bound(pod, "new"))
    found = cluster.last
    assert (found.result, found.beforehand) == (Agreement.DIFFER, True)
    assert (found.theirs.score, found.theirs.rejected_by) == (None, "")


def test_a_claim_that_comes_after_its_pod_is_waited_for() -> None:
    """As for an ephemeral volume: a decision needs the claim."""
    cluster = Shadowed("a", "b")
    object_seen(cluster.scheduler, None, ZONAL)
    cluster.bind(make_pod("load", cpu="2"), "a")
    volumes: Any = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    pods = [make_pod(name, cpu="1", volumes=volumes) for name in ("first", "second")]
    other = make_pod("other", namespace="elsewhere", volumes=volumes)
    for pod in (*pods, other):
        cluster.see(pod)
    object_seen(cluster.scheduler, None, CLAIM)
    cluster.shadow.claim_seen(CLAIM)
    cluster.shadow.claim_seen(CLAIM)
    cluster.see(bound(pods[0], "a"))
    assert (cluster.last.ours.node, cluster.last.beforehand) == ("b", True)
    cluster.see(bound(other, "a"))
    assert (cluster.last.result, cluster.last.beforehand) == (Agreement.UNSCHEDULABLE, False)


def test_decisions_made_beforehand_are_bounded() -> None:
    """If there are more than 256, the oldest is decided at its binding."""
    cluster = Shadowed("a")
    object_seen(cluster.scheduler, None, ZONAL)
    object_seen(cluster.scheduler, None, CLAIM)
    volumes: Any = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    pods = [make_pod(f"p{i}", volumes=volumes) for i in range(comparison.MOST_KEPT + 1)]
    for pod in pods:
        cluster.see(pod)
    cluster.see(bound(pods[0], "a"))
    cluster.see(bound(pods[-1], "a"))
    assert [one.beforehand for one in cluster.recorded] == [False, True]
