"""A pod group's turn: its pods taken out of the queue together, and what becomes of each.

A group is scheduled when its first pod is popped. All its pods in the queue are popped with it,
except gated ones; the others are scheduled when they are popped themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from policy_sched.errors import ClusterError, PluginError
from policy_sched.framework import Code, CycleState, Handle, Status
from policy_sched.framework.evaluate import domains
from policy_sched.framework.runtime import Runner
from policy_sched.model import NO_PLUGINS, SCHEDULED, PodGroup, PodInfo, QueuedPod
from policy_sched.queue import TAKEN_ALONG, SchedulingQueue
from policy_sched.scheduler.attempt import Attempt, Bind, Profile, Reject
from policy_sched.scheduler.placement_search import (
    GroupPlan,
    Member,
    Rejectors,
    plan_group,
    rejectors_of,
)
from policy_sched.scheduler.queueing_hints import first_objection

LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MemberDecision:
    """The decision for one pod of a group; ``rejected_by``: the plugins that rejected it."""

    attempt: Attempt
    decision: Bind | Reject
    rejected_by: Rejectors = (NO_PLUGINS, NO_PLUGINS)


@dataclass(frozen=True, slots=True)
class GroupTurn:
    """The decisions for a group's pods, and the status of the group."""

    verdicts: tuple[MemberDecision, ...]
    status: Status


def schedule_group(
    first: Attempt, queue: SchedulingQueue, handle: Handle, rng: Random
) -> GroupTurn | None:
    """Decide all pods of a popped pod's group, one at a time; they are in flight then, too.

    None if the pod is to be decided by itself: it has no group, or no plugin generates placements
    for it.
    """
    runner = first.profile.runner
    if not first.queued.info.pod_group or not runner.pipeline.at("placement_generate"):
        return None
    members = in_order([first.queued, *_siblings(first.queued, queue, handle)])
    try:
        found = domains(runner, CycleState(), [one.info for one in members], handle.nodes)
    except PluginError as error:
        return _all_broken(_taken(members, first, queue), str(error))
    if found is None:
        return None
    attempts = _taken(members, first, queue)
    names = list(dict.fromkeys(one.info.scheduler_name for one in members))
    if len(names) > 1:
        text = (
            "all pods in a single pod group should have the same .spec.schedulerName set, "
            f'got: "{names[0]}" and "{names[1]}"'
        )
        return _all_broken(attempts, text)
    plan = plan_group(attempts, found, handle, rng)
    return GroupTurn(tuple(verdicts(plan)), plan.status)


def tell_group(pod: PodInfo, status: Status, handle: Handle) -> None:
    """Write what became of a pod's group into the condition of its PodGroup, if it has one.

    As upstream has it, a group that was scheduled once stays so, whatever becomes of later pods.
    """
    group = handle.objects.named(PodGroup, pod.namespace, pod.pod_group)
    if group is None:
        return
    reason = "Scheduled" if status.ok else "Unschedulable" if status.rejected else "SchedulerError"
    before = next((one for one in group.status.conditions if one.type == SCHEDULED), None)
    if before is not None:
        known = (before.status, before.reason, before.message)
        if before.status == "True" or known == (str(status.ok), reason, status.message()):
            return
    try:
        handle.client.set_group_scheduled(group, reason, status.message(), scheduled=status.ok)
    except ClusterError as error:
        LOG.warning("cannot write the condition of pod group %s: %s", pod.pod_group, error)


def dry_run_group(pod: PodInfo, profile: Profile, handle: Handle) -> GroupPlan | None:
    """Return where a pod's group would go now, the pod in it; ties go to the first.

    None if the pod would be decided by itself. Raises PluginError if a plugin breaks.
    """
    runner = profile.runner
    if not pod.pod_group or not runner.pipeline.at("placement_generate"):
        return None
    pending = handle.groups.pending(pod)
    if all(other.uid != pod.uid for other in pending):
        pending.append(pod)
    known = [
        QueuedPod(pod if other.uid == pod.uid else other, first_enqueued_at=i)
        for i, other in enumerate(pending)
        if other.uid == pod.uid or _comes_along(other, pod, runner)
    ]
    members = in_order(known)
    found = domains(runner, CycleState(), [one.info for one in members], handle.nodes)
    if found is None:
        return None
    attempts = [Attempt(one, profile) for one in members]
    return plan_group(attempts, found, handle, None, pod.uid)


def _comes_along(other: PodInfo, pod: PodInfo, runner: Runner) -> bool:
    """Tell whether another pod of a group would be tried now, too."""
    if other.scheduler_name != pod.scheduler_name or other.terminating:
        return False
    return first_objection(runner, other).ok


def in_order(members: Sequence[QueuedPod]) -> list[QueuedPod]:
    """Return the pods of a group as they are decided: by priority, then by when they came."""
    return sorted(members, key=lambda one: (-one.info.priority, one.first_enqueued_at))


def _siblings(queued: QueuedPod, queue: SchedulingQueue, handle: Handle) -> Iterator[QueuedPod]:
    """Yield the other pods of the group that can be tried now."""
    for uid in handle.groups.siblings(queued.info):
        other = queue.get(uid)
        if other is None or other is queued or other.place not in TAKEN_ALONG:
            continue
        if not other.info.terminating:
            yield other


def _taken(members: Sequence[QueuedPod], first: Attempt, queue: SchedulingQueue) -> list[Attempt]:
    """Take the pods out of the queue; return an attempt for each."""
    attempts = []
    for queued in members:
        if queued is not first.queued:
            queue.pop_member(queued.info.uid)
        attempts.append(first if queued is first.queued else Attempt(queued, first.profile))
    return attempts


def _all_broken(attempts: Sequence[Attempt], message: str) -> GroupTurn:
    status = Status(Code.ERROR, (message,))
    found = (MemberDecision(attempt, Reject(status, message)) for attempt in attempts)
    return GroupTurn(tuple(found), status)


def verdicts(plan: GroupPlan) -> Iterator[MemberDecision]:
    """Yield what becomes of each pod under a plan, in their order."""
    if plan.best is not None:
        yield from (_in_the_best(member, plan) for member in plan.best.members)
        return
    broke = plan.status.code is Code.ERROR
    shown = plan.tried[-1 if broke else 0].members if plan.tried else ()
    decided = {id(one.attempt): one.decision for one in shown}
    message = plan.status.message()
    for attempt in plan.attempts:
        own = decided.get(id(attempt))
        counts = isinstance(own, Reject) and (own.status.code is Code.ERROR or not broke)
        rejection = own if counts and isinstance(own, Reject) else Reject(plan.status, message)
        yield MemberDecision(attempt, rejection, plan.rejected_by)


def _in_the_best(member: Member, plan: GroupPlan) -> MemberDecision:
    """Return what becomes of a pod of a group that has room; it may have none itself."""
    if isinstance(member.decision, Bind):
        member.attempt.state = member.decision.evaluation.state
        return MemberDecision(member.attempt, member.decision)
    rejected, pending = rejectors_of(member.decision)
    return MemberDecision(member.attempt, member.decision, (rejected | plan.plugins, pending))
