"""Decides every pending pod of a cluster, once each, in the order of the scheduling queue.

Theory of operation. Pods enter the queue in input order and leave it in the order of the profile's
queue sort. Only the decisions change the cluster, so an unschedulable pod is not retried. On
preemption, the pod is nominated and its victims are deleted; they keep their resources, as in a
cluster, where victims are still terminating when the next pod is decided. A pod that waits in
Permit holds its node, and is bound if a later pod allows it. Pods that never enter a cycle (gated,
terminating, another scheduler's) get their message at once, those that a strict queue holds at the
end.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from policy_sched.cluster.tables import NodeTable
from policy_sched.framework import WaitingPod, tally
from policy_sched.framework.evaluate import FEASIBLE, skipped
from policy_sched.model import Pod, PodCondition, PodInfo, counted, datetime_of, quantity_text
from policy_sched.report import Advance, unshown
from policy_sched.scheduler import (
    Attempt,
    Bind,
    GroupDecision,
    Outcome,
    Preempt,
    Scheduler,
    single_pass,
)
from policy_sched.simulate import report

if TYPE_CHECKING:
    from policy_sched.explain import Explanation

_DISRUPTED: Final = PodCondition("DisruptionTarget", "True", "PreemptionByScheduler")


@dataclass(slots=True)
class VirtualClock:
    """Nanoseconds since 1970; it advances only when it is set."""

    ns: int

    def __call__(self) -> int:
        """Return the time."""
        return self.ns


def created_form(pod: Pod, time: int) -> Pod:
    """Return a new pod, created at a time."""
    if pod.metadata.creation_timestamp is not None:
        return pod
    return replace(pod, metadata=replace(pod.metadata, creation_timestamp=datetime_of(time)))


def nominated_form(pod: Pod, node: str) -> Pod:
    """Return a pod that is nominated to a node, or to none."""
    return replace(pod, status=replace(pod.status, nominated_node_name=node))


def leaving_form(pod: Pod, time: int) -> Pod:
    """Return a pod that the scheduler has deleted and that is terminating."""
    status = replace(pod.status, conditions=(*pod.status.conditions, _DISRUPTED))
    return replace(terminating_form(pod, time), status=status)


def terminating_form(pod: Pod, time: int) -> Pod:
    """Return a pod that was deleted and is terminating."""
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=datetime_of(time)))


def next_form(pod: Pod, name: str, time: int) -> Pod:
    """Return the pod that a controller creates for an evicted one."""
    metadata = replace(
        pod.metadata,
        name=name,
        uid="",
        creation_timestamp=datetime_of(time),
        deletion_timestamp=None,
    )
    spec = replace(pod.spec, node_name="")
    return replace(pod, metadata=metadata, spec=spec, status=type(pod.status)())


MAIN_RESOURCES: Final[tuple[str, ...]] = ("cpu", "memory", "ephemeral-storage", "pods")
"""Shown first in the allocation; extended resources follow by name."""

PROGRESS_EVERY: Final = 64
"""Decisions between two updates of the progress bar."""


def run_queue(
    scheduler: Scheduler, infos: Sequence[PodInfo], advance: Advance
) -> report.OneShotRun:
    """Decide pending pods; ``advance`` is called with the number of further decisions.

    Raises PolicySchedError if a decision cannot be executed.
    """
    started = time.perf_counter()
    placements: dict[str, report.PodPlacement] = {}
    for info in infos:
        status = enqueue(scheduler, info)
        if status is not None:
            placements[info.uid] = _placement(info, None, status, (status,))
    preemptions: list[report.PreemptionRecord] = []
    for done, outcome in enumerate(single_pass(scheduler), start=1):
        placements[outcome.pod.uid] = _placed(outcome)
        if isinstance(outcome.decision, Preempt):
            preemptions.append(_preemption(outcome.pod, outcome.decision))
        if done % PROGRESS_EVERY == 0:
            advance(PROGRESS_EVERY)
    for outcome in scheduler.run_due():
        placements[outcome.pod.uid] = _placed(outcome)
    for waiting in scheduler.handle.waiting_pods:
        placements[waiting.pod.uid] = _still_waiting(waiting)
    for info in infos:
        if info.uid not in placements:
            held = (scheduler.queue.why_held(info.uid),)
            placements[info.uid] = _placement(info, None, held[0], held)
    seconds = time.perf_counter() - started
    ordered = tuple(placements[info.uid] for info in infos)
    reasons = Counter(reason for p in ordered if p.node is None for reason in p.reasons)
    return report.OneShotRun(
        nodes=scheduler.cache.nodes.live_count,
        placements=ordered,
        unschedulable_by=dict(reasons),
        preemptions=tuple(preemptions),
        allocation=tuple(allocations(scheduler)),
        seconds=seconds,
        skipped_extenders={
            name: skips
            for profile in scheduler.profiles.values()
            for name, skips in skipped(profile.extenders).items()
        },
    )


def enqueue(scheduler: Scheduler, info: PodInfo) -> str | None:
    """Queue the pod, or return why it does not enter the queue."""
    if info.scheduler_name not in scheduler.profiles:
        return f'no profile has schedulerName "{info.scheduler_name}"'
    if info.terminating:
        return f"skip schedule deleting pod: {info.key}"
    gated = scheduler.add_pod(info)
    return None if gated is None else gated.message


def _placed(outcome: Outcome) -> report.PodPlacement:
    decision = outcome.decision
    if isinstance(decision, Bind) and outcome.node:
        evaluation = decision.evaluation
        feasible = int(np.count_nonzero(evaluation.filtering.first == FEASIBLE))
        score = None if evaluation.scoring is None else evaluation.scoring.total.item(decision.row)
        return _placement(outcome.pod, outcome.node, "", (), feasible, score)
    return _placement(outcome.pod, None, outcome.message, _reasons(outcome))


def _still_waiting(waiting: WaitingPod) -> report.PodPlacement:
    """Return the placement of a pod that holds a node, and waits for a permission in vain."""
    by = ", ".join(waiting.pending_plugins)
    reasons = waiting.reasons or (f"waiting for permission of {by}",)
    message = f"held on {waiting.node} by {by}: {', '.join(reasons)}"
    return _placement(waiting.pod, None, message, reasons)


def _preemption(pod: PodInfo, decision: Preempt) -> report.PreemptionRecord:
    victims = tuple(sorted(victim.key for victim in decision.victims))
    return report.PreemptionRecord(pod.key, decision.node, victims)


def _reasons(outcome: Outcome) -> tuple[str, ...]:
    """Return the reasons that the summary counts for a pod: each once, that of most nodes first."""
    decision = outcome.decision
    if decision is None or isinstance(decision, Bind) or decision.diagnosis is None:
        return (outcome.message,)
    diagnosis = decision.diagnosis
    nodes_by_reason: Counter[str] = Counter()
    statuses = {diagnosis.pre_filter: 1} if diagnosis.pre_filter else tally(diagnosis.statuses)
    for status, nodes in statuses.items():
        for reason in status.reasons:
            nodes_by_reason[reason] += nodes
    return tuple(
        sorted(
            nodes_by_reason, key=lambda reason_text: (-nodes_by_reason[reason_text], reason_text)
        )
    ) or (outcome.message,)


def _placement(
    info: PodInfo,
    node: str | None,
    message: str,
    reasons: tuple[str, ...],
    feasible: int = 0,
    score: int | None = None,
) -> report.PodPlacement:
    requests = info.requests
    return report.PodPlacement(
        pod=info.key,
        node=node,
        message=message,
        feasible=feasible,
        score=score,
        cpu=quantity_text("cpu", requests.get("cpu", 0)),
        memory=quantity_text("memory", requests.get("memory", 0)),
        reasons=reasons,
    )


def allocations(scheduler: Scheduler) -> Iterator[report.Allocation]:
    """Yield the requested and allocatable amount of every resource that a node has."""
    table = scheduler.cache.nodes
    for name in resource_names(table):
        requested = table.pod_total if name == "pods" else table.total_requested(name)
        yield report.Allocation(name, requested, table.total_allocatable(name))


def node_usages(table: NodeTable) -> list[report.NodeUsage]:
    """Return what is requested of each node, in the order of their names."""
    columns = {
        name: (
            table.lookup(("requested", name)).values.tolist(),
            table.lookup(("allocatable", name)).values.tolist(),
        )
        for name in resource_names(table)
        if name != "pods"
    }
    usages = []
    for node, row in sorted(table.row_of.items()):
        amounts = {name: (used[row], given[row]) for name, (used, given) in columns.items()}
        had = {name: pair for name, pair in amounts.items() if pair[1] > 0}
        usages.append(report.NodeUsage(node, len(table.pods_on(row)), had))
    return usages


def resource_names(table: NodeTable) -> list[str]:
    """Return every resource that a node has, the main ones first."""
    names = {name for node in table.nodes if node is not None for name in node.status.allocatable}
    ordered = [name for name in MAIN_RESOURCES if name in names]
    return ordered + sorted(names.difference(MAIN_RESOURCES))


def waiting_with(pod: Pod, pods: Sequence[Pod], pending: Sequence[Pod]) -> list[PodInfo]:
    """Return the pending pods and `pod`, as if it had no node yet, in the order of `pods`.

    ``pending``: those of ``pods`` that have no node.
    """
    waiting = {id(other) for other in pending}
    infos = [PodInfo.of(other) for other in pods if other is pod or id(other) in waiting]
    for info in infos:
        info.node_name = ""
    return infos


def explain_now(scheduler: Scheduler, infos: Sequence[PodInfo], uid: str, top: int) -> Explanation:
    """Explain a pod on the current cluster, and count the pods ahead of it in the queue.

    No pod is ahead of one that has a node already.
    """
    for info in infos:
        enqueue(scheduler, info)
    scheduler.run_due()
    return explain_queued(scheduler, next(info for info in infos if info.uid == uid), top)


def explain_queued(scheduler: Scheduler, pod: PodInfo, top: int) -> Explanation:
    """Explain a pod as `explain_now` does; the pods of the cluster are in the queue already."""
    from policy_sched.explain import explain  # noqa: PLC0415  few commands explain

    explanation = explain(scheduler, pod, top=top)
    if not pod.pod.spec.node_name:
        order = [queued.info.uid for queued in scheduler.queue.active()]
        explanation.ahead = order.index(pod.uid) if pod.uid in order else 0
    return explanation


def add_policies(
    explanation: Explanation, applied: Sequence[report.AppliedPolicy], profile: str
) -> None:
    """Add policies of the pod's profile that do not match it, score in vain or have no answer."""
    for policy in applied:
        if policy.profile != profile:
            continue
        if not policy.matched:
            explanation.unmatched.append(policy.policy)
        if policy.unanswered:
            explanation.unanswered[policy.policy] = ", ".join(policy.unanswered)
        if policy.failed:
            nodes = counted(policy.nodes, "node")
            explanation.failed_scores[policy.policy] = (
                f"fails on {policy.failed:,} of {nodes}, which score 0: {policy.error}"
            )


def explain_after_queue(
    scheduler: Scheduler, infos: Sequence[PodInfo], uid: str, top: int
) -> Explanation:
    """Decide all pending pods, as `simulate` does, and explain a pod at its decision.

    The explanation has the final result of the pod: its node, or why it has none.
    """
    from policy_sched.explain import explain  # noqa: PLC0415  as above

    pod = next(info for info in infos if info.uid == uid)
    turn = _Turn(scheduler, pod, top)
    run = run_queue(scheduler, infos, unshown)
    explanation = turn.explanation or explain(scheduler, pod, top=top)
    index = next(i for i, info in enumerate(infos) if info.uid == uid)
    placement = run.placements[index]
    explanation.ahead, explanation.after_queue = turn.ahead, True
    explanation.node, explanation.message = placement.node or "", placement.message
    return explanation


class _Turn:
    """Explains one pod at its decision."""

    def __init__(self, scheduler: Scheduler, pod: PodInfo, top: int) -> None:
        self.explanation: Explanation | None = None
        self.ahead = 0
        self._decided = 0
        self._scheduler, self._pod, self._top = scheduler, pod, top
        scheduler.observers.deciding.append(self._deciding)
        scheduler.observers.group_decided.append(self._group_decided)

    def _deciding(self, attempt: Attempt) -> None:
        self._count([attempt.queued.info.uid])

    def _group_decided(self, group: GroupDecision, _start: float) -> None:
        # Nothing is executed yet: the cluster is as it was when the decision began.
        self._count([member.attempt.queued.info.uid for member in group.members])

    def _count(self, uids: Sequence[str]) -> None:
        """Count pods that are decided, and explain the pod if it is one of them."""
        from policy_sched.explain import explain  # noqa: PLC0415  as above

        if self._pod.uid in uids:
            self.explanation = explain(self._scheduler, self._pod, top=self._top)
            self.ahead = self._decided
        self._decided += len(uids)
