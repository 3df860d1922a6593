"""The pod group cycle: the pods of a group are taken out of the queue and decided together.

Theory of operation. A group is scheduled when its first pod is popped. All its pods in the queue
are popped with it, except gated ones. The decision is a `GroupDecision`, which the scheduler
executes; it has an outcome for each pod. Two things begin the cycle: the
feature gate GenericWorkload, for pods with a ``spec.schedulingGroup``, as in kube-scheduler; or a
policy whose ``placement`` section says where groups go, for pods of any group. With the gate,
PostFilter plugins run for the pods, and each is retried after a backoff. Without it no pod is
evicted for a group, and what rejected a pod is waited for.

What follows for each pod from what was decided about the group:

| group | pod | outcome |
|---|---|---|
| Success | fits | it is bound |
| waits for preemption | fits | it is nominated to its node, with the group's message |
| waits for preemption | preempts | it is nominated to its node, with its own message |
| Unschedulable | fits or preempts | it has the group's message and the reasons of Permit plugins |
| Error | | it has its own message if that is an error, else the group's |
| any | else | it is rejected with its own message |

A pod without a decision has the group's message. Where the group failed, nominations are cleared.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from random import Random
from typing import Final

import msgspec
from msgspec.structs import replace

from policy_sched.errors import ClusterError, PluginError
from policy_sched.framework import Code, CycleState, Handle, Status
from policy_sched.framework.runtime import Pipeline, Runner
from policy_sched.model import NO_PLUGINS, SCHEDULED, PodGroup, PodInfo, QueuedPod, QueueState
from policy_sched.queue import SCHEDULABLE_WITH_GROUP, SchedulingQueue
from policy_sched.scheduler.api_calls import group_scheduled
from policy_sched.scheduler.attempt import Attempt, Bind, Decision, Preempt, Profile, Reject
from policy_sched.scheduler.failure import rejectors
from policy_sched.scheduler.placement_search import (
    Domains,
    GroupPlan,
    Rejectors,
    domains,
    rejectors_of,
    try_all_nodes,
    try_placements,
)
from policy_sched.scheduler.pod_group_algorithm import UNSCHEDULABLE, GroupTrial, Member
from policy_sched.scheduler.pod_group_preemption import with_victims
from policy_sched.scheduler.queueing_hints import first_objection
from policy_sched.scheduler.scheduling_cycle import Ties

#: The pod is tried again after a backoff, as after an error: no plugin rejected it.
NO_REJECTORS: Final[Rejectors] = (NO_PLUGINS, NO_PLUGINS)


class MemberDecision(msgspec.Struct, frozen=True):
    """The decision for one pod of a group, and its failure unless it is bound.

    ``nominated``: the node that it is nominated to from now on, empty for none, None where that
    stays as it is. ``rejected_by``: the plugins that rejected it. The victims of a `Preempt` are
    evicted, whatever becomes of the group.
    """

    attempt: Attempt
    decision: Decision
    status: Status
    message: str = ""
    nominated: str | None = None
    rejected_by: Rejectors = NO_REJECTORS


def member_decisions(plan: GroupPlan) -> Iterator[MemberDecision]:
    """Yield what becomes of each pod under a plan, in their order."""
    shown = plan.best
    if shown is None and plan.tried:
        shown = plan.tried[-1 if plan.status.code is Code.ERROR else 0]
    members = {} if shown is None else {id(placed.attempt): placed for placed in shown.members}
    early = plan.gated and _asks_to_wait(plan)
    for attempt in plan.attempts:
        member = members.get(id(attempt))
        if member is None:
            yield _of_the_group(attempt, plan)
        else:
            yield _of_member(member, plan, early=early)


def member_decision(plan: GroupPlan, uid: str) -> MemberDecision:
    """Return what becomes of the pod with that UID under a plan that it is in."""
    return next(
        member for member in member_decisions(plan) if member.attempt.queued.info.uid == uid
    )


def _of_the_group(attempt: Attempt, plan: GroupPlan) -> MemberDecision:
    """Return what becomes of a pod of which nothing was decided."""
    return _failed(attempt, Reject(plan.status, plan.status.message()), plan)


def _of_member(member: Member, plan: GroupPlan, *, early: bool) -> MemberDecision:
    attempt, decision, status = member.attempt, member.decision, plan.status
    if isinstance(decision, Reject):
        if status.code is Code.ERROR and decision.status.code is not Code.ERROR:
            return _of_the_group(attempt, plan)
        # Upstream's gangs activate the pods that they wait for, and so the group is tried again at
        # once, for ever if the pod is rejected each time: here it is once.
        attempt.early = early and attempt.queued.attempts == 1
        return _rejected(attempt, decision, plan)
    if status.ok and isinstance(decision, Bind):
        attempt.state = decision.evaluation.state
        return MemberDecision(attempt, decision, status)
    if plan.waiting or status.ok:
        return _waiting(member, plan)
    if status.code is not Code.ERROR and plan.gated:
        reasons = () if member.permit is None else member.permit.reasons
        status = Status(Code.UNSCHEDULABLE, (UNSCHEDULABLE, *reasons))
    return _failed(attempt, _instead(decision, status, status.message()), plan)


def _waiting(member: Member, plan: GroupPlan) -> MemberDecision:
    """Return what becomes of a pod that has a node when victims are gone."""
    attempt, decision = member.attempt, member.decision
    if isinstance(decision, Preempt):
        own = rejectors(decision)
        return MemberDecision(
            attempt, decision, decision.status, decision.message, decision.node, own
        )
    message = plan.status.message()
    verdict = Reject(plan.status, message)
    return MemberDecision(attempt, verdict, plan.status, message, member.node)


def _rejected(attempt: Attempt, decision: Reject, plan: GroupPlan) -> MemberDecision:
    """Return what becomes of a pod that found no node."""
    broke = plan.status.code is Code.ERROR
    node = None if decision.nominated and not broke else ""
    by = rejectors_of(decision)
    if not plan.gated:
        by = (by[0] | plan.plugins, by[1]) if plan.best is not None else plan.rejected_by
    return MemberDecision(attempt, decision, decision.status, decision.message, node, by)


def _asks_to_wait(plan: GroupPlan) -> bool:
    """Return whether a pod of a group without enough nodes has to wait for others."""
    if plan.best is not None or not plan.tried:
        return False
    permits = (member.permit for member in plan.tried[0].members)
    return any(status is not None and status.code is Code.WAIT for status in permits)


def _failed(attempt: Attempt, decision: Reject | Preempt, plan: GroupPlan) -> MemberDecision:
    """Return what becomes of a pod that failed with its group."""
    by = NO_REJECTORS if plan.gated else plan.rejected_by
    return MemberDecision(attempt, decision, decision.status, decision.message, "", by)


def _instead(decision: Decision, status: Status, message: str) -> Reject | Preempt:
    """Return the decision for a pod that had a node, now that the group has none."""
    if not isinstance(decision, Preempt):
        return Reject(status, message)
    return Preempt(
        status, message, decision.diagnosis, decision.node, decision.victims, decision.plugin
    )


LOG: Final = logging.getLogger(__name__)

WORKLOAD: Final = "GenericWorkload"
"""The feature gate of the pod group cycle."""
TOPOLOGY: Final = "TopologyAwareWorkloadScheduling"
"""The feature gate of placements."""
GROUP_PREEMPTION: Final = "WorkloadAwarePreemption"
"""The feature gate of preemption for a group as a whole."""
BY_GROUP: Final = "not eligible due to workload aware preemption enabled"
NO_GROUP: Final = "pod group for pod not found"
PLACED: Final = "not eligible due to placement-based pod group scheduling limitation"


class GroupDecision(msgspec.Struct, frozen=True):
    """The decisions for a group's pods, and the status of the group.

    ``waiting``: it fits when victims are gone. ``victims``: they are evicted for the group.
    """

    members: tuple[MemberDecision, ...]
    status: Status
    waiting: bool = False
    victims: tuple[PodInfo, ...] = ()


def decided_together(pod: PodInfo, pipeline: Pipeline) -> bool:
    """Return whether a pod may be decided with its group."""
    if not pod.pod_group:
        return False
    return gated(pod, pipeline) or bool(pipeline.at("placement_generate"))


def gated(pod: PodInfo, pipeline: Pipeline) -> bool:
    """Return whether kube-scheduler's pod group cycle decides a pod."""
    return WORKLOAD in pipeline.feature_gates and pod.pod.spec.scheduling_group is not None


def schedule_group(
    first: Attempt,
    queue: SchedulingQueue,
    handle: Handle,
    rng: Random | None,
    watched: Collection[str] = (),
) -> GroupDecision | None:
    """Decide all pods of a popped pod's group, one at a time; they are in flight then, too.

    None if the pod is to be decided by itself: it has no group, or no plugin generates placements
    for it. ``rng`` and ``watched``: see `_plan`.
    """
    pod, profile = first.queued.info, first.profile
    if not decided_together(pod, profile.pipeline):
        return None
    if gated(pod, profile.pipeline):
        _activate_siblings(pod, queue, handle)
    members = in_order([first.queued, *_siblings(first.queued, queue, handle)])
    choice = _choice(members, profile, handle)
    if choice is None:
        return None
    attempts = []
    for queued in members:
        if queued is not first.queued:
            queue.pop_member(queued.info.uid)
        attempts.append(first if queued is first.queued else Attempt(queued, first.profile))
    return decision_of(_plan(attempts, choice, handle, rng, watched))


class _Choice(msgspec.Struct, frozen=True):
    """What a group's pods choose from: placements, or all nodes; or the error that prevents it."""

    placements: Domains | None
    error: str = ""


def _plan(
    attempts: Sequence[Attempt],
    choice: _Choice,
    handle: Handle,
    rng: Random | None,
    watched: Collection[str] = (),
) -> GroupPlan:
    """Find out where the pods of a group go; nothing is changed in the end.

    ``attempts``: its pods, in the order in which they are decided. ``rng`` breaks ties, among nodes
    and among placements; without it the first is taken. ``watched``: the UIDs of pods of which also
    is kept why they were not for other nodes.
    """
    by_gate = gated(attempts[0].queued.info, attempts[0].profile.pipeline)
    candidates = choice.placements
    if choice.error:
        status = Status(Code.ERROR, (choice.error,))
        return GroupPlan(tuple(attempts), NO_PLUGINS, (), None, status, gated=by_gate)
    ineligible = _no_preemption(attempts[0], handle) if by_gate else ""
    trial = GroupTrial(handle, rng, by_gate, ineligible, watched)
    if candidates is not None:
        plan = replace(try_placements(attempts, candidates, trial, rng), gated=by_gate)
    else:
        result = try_all_nodes(attempts, trial)
        best = result if result.feasible else None
        plan = GroupPlan(tuple(attempts), NO_PLUGINS, (result,), best, result.status, gated=True)
    if by_gate and plan.best is None and plan.status.rejected and _preempts(attempts[0]):
        return with_victims(plan, handle, candidates)
    return plan


def _no_preemption(attempt: Attempt, handle: Handle) -> str:
    """Return why no pods may be evicted for single pods of a group; empty if they may be."""
    pod = attempt.queued.info
    if _preempts(attempt):
        return BY_GROUP
    if TOPOLOGY not in attempt.profile.pipeline.feature_gates:
        return ""
    group = handle.objects.named(PodGroup, pod.namespace, pod.pod_group)
    if group is None:
        return NO_GROUP
    return PLACED if group.spec.scheduling_constraints is not None else ""


def _preempts(attempt: Attempt) -> bool:
    """Return whether victims are looked for once for a group as a whole."""
    return GROUP_PREEMPTION in attempt.profile.pipeline.feature_gates


def decision_of(plan: GroupPlan) -> GroupDecision:
    """Return what is to be done about a plan."""
    return GroupDecision(tuple(member_decisions(plan)), plan.status, plan.waiting, plan.victims)


def dry_run_group(pod: PodInfo, profile: Profile, handle: Handle) -> GroupPlan | None:
    """Return where a pod's group would go now, the pod in it; ties go to the first.

    None if the pod would be decided by itself.
    """
    runner = profile.runner
    if not decided_together(pod, runner.pipeline):
        return None
    pending = handle.groups.pending(pod)
    if all(other.uid != pod.uid for other in pending):
        pending.append(pod)
    members = [
        QueuedPod(pod if other.uid == pod.uid else other, first_enqueued_at=i)
        for i, other in enumerate(pending)
        if other.uid == pod.uid or _comes_along(other, pod, runner)
    ]
    return dry_run_members(members, profile, handle, {pod.uid})


def dry_run_members(
    members_queued: Sequence[QueuedPod],
    profile: Profile,
    handle: Handle,
    watched: Collection[str],
    ties: Ties | None = None,
) -> GroupPlan | None:
    """Return where these pods of one group would go now; `watched`: those of which everything is
    kept.

    None if they would be decided one by one. ``ties`` breaks ties, which go to the first unless
    given.
    """
    members = in_order(members_queued)
    choice = _choice(members, profile, handle)
    if choice is None:
        return None
    return _plan([Attempt(queued, profile) for queued in members], choice, handle, ties, watched)


def in_order(members: Sequence[QueuedPod]) -> list[QueuedPod]:
    """Return the pods of a group as they are decided.

    By priority, then those that were tried before, then by when they came.
    """
    return sorted(
        members,
        key=lambda queued: (-queued.info.priority, queued.attempts == 0, queued.first_enqueued_at),
    )


def condition_reason(status: Status) -> str:
    """Return the reason of the condition PodGroupScheduled for a group's status."""
    if status.ok:
        return "Scheduled"
    return "Unschedulable" if status.rejected else "SchedulerError"


def update_group_condition(pod: PodInfo, decision: GroupDecision, handle: Handle) -> None:
    """Write the condition PodGroupScheduled of a pod's PodGroup, if it has one.

    As upstream has it, a group that was scheduled once stays so, whatever becomes of later pods.
    """
    group = handle.objects.named(PodGroup, pod.namespace, pod.pod_group)
    if group is None:
        return
    status, reason = decision.status, condition_reason(decision.status)
    before = next(
        (condition for condition in group.status.conditions if condition.type == SCHEDULED), None
    )
    if before is not None:
        last = (before.status, before.reason, before.message)
        if before.status == "True" or last == (str(status.ok), reason, status.message()):
            return
    request = group_scheduled(group, reason, status.message(), handle.now(), scheduled=status.ok)
    try:
        handle.client.send(request)
    except ClusterError as error:
        LOG.warning("cannot write the condition of pod group %s: %s", pod.pod_group, error)


def _choice(members: Sequence[QueuedPod], profile: Profile, handle: Handle) -> _Choice | None:
    """Return what a group's pods choose from; None if they are decided one by one."""
    infos = [queued.info for queued in members]
    mixed = _mixed_profiles(members)
    try:
        candidates = domains(profile.runner, CycleState(), infos, handle.nodes)
    except PluginError as error:
        return _Choice(None, mixed or str(error))
    if candidates is None and not gated(infos[0], profile.pipeline):
        return None
    return _Choice(candidates, mixed)


def _mixed_profiles(members: Sequence[QueuedPod]) -> str:
    """Return what is wrong if the pods are of several profiles, else an empty string."""
    names = list(dict.fromkeys(queued.info.scheduler_name for queued in members))
    if len(names) < 2:
        return ""
    return (
        "all pods in a single pod group should have the same .spec.schedulerName set, "
        f'got: "{names[0]}" and "{names[1]}"'
    )


def _comes_along(other: PodInfo, pod: PodInfo, runner: Runner) -> bool:
    """Tell whether another pod of a group would be tried now, too."""
    if other.scheduler_name != pod.scheduler_name or other.terminating:
        return False
    return first_objection(runner, other).ok


def _activate_siblings(pod: PodInfo, queue: SchedulingQueue, handle: Handle) -> None:
    """Make those pods of the group ready that no PreEnqueue plugin holds any more."""
    waiting = (QueueState.UNSCHEDULABLE, QueueState.GATED)
    siblings = (queue.get(uid) for uid in handle.groups.siblings(pod))
    queue.activate(
        [queued.info.uid for queued in siblings if queued is not None and queued.place in waiting]
    )


def _siblings(queued: QueuedPod, queue: SchedulingQueue, handle: Handle) -> Iterator[QueuedPod]:
    """Yield the other pods of the group that can be tried now."""
    for uid in handle.groups.siblings(queued.info):
        other = queue.get(uid)
        if other is None or other is queued or other.place not in SCHEDULABLE_WITH_GROUP:
            continue
        if not other.info.terminating:
            yield other
