"""What follows for each pod of a group from what was decided about the group.

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

from collections.abc import Iterator
from typing import Final

import msgspec

from policy_sched.framework import Code, Status
from policy_sched.model import NO_PLUGINS
from policy_sched.scheduler.attempt import Attempt, Bind, Decision, Preempt, Reject
from policy_sched.scheduler.failure import rejectors
from policy_sched.scheduler.placement_search import GroupPlan, Rejectors, rejectors_of
from policy_sched.scheduler.pod_group_algorithm import UNSCHEDULABLE, Member

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
    members = {} if shown is None else {id(one.attempt): one for one in shown.members}
    for attempt in plan.attempts:
        member = members.get(id(attempt))
        if member is None:
            yield _of_the_group(attempt, plan)
        else:
            yield _of_member(member, plan)


def member_decision(plan: GroupPlan, uid: str) -> MemberDecision:
    """Return what becomes of the pod with that UID under a plan that it is in."""
    return next(
        member for member in member_decisions(plan) if member.attempt.queued.info.uid == uid
    )


def _of_the_group(attempt: Attempt, plan: GroupPlan) -> MemberDecision:
    """Return what becomes of a pod of which nothing was decided."""
    return _failed(attempt, Reject(plan.status, plan.status.message()), plan)


def _of_member(member: Member, plan: GroupPlan) -> MemberDecision:
    attempt, decision, status = member.attempt, member.decision, plan.status
    if isinstance(decision, Reject):
        if status.code is Code.ERROR and decision.status.code is not Code.ERROR:
            return _of_the_group(attempt, plan)
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
    # Upstream's gangs activate the pods that they wait for, and so the group is tried again at
    # once, for ever if the pod is rejected each time: here it is once.
    attempt.early = plan.gated and _asks_to_wait(plan) and attempt.queued.attempts == 1
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
