"""Groups in scenarios: where a feature gate decides the pods of a group together, so do tests.

The first pod of a group stands for the whole group, which is decided at its turn: the pods that
are let through, by priority, then in the scenario's order. What became of the others is kept for
their steps. As for single pods, what is expected is then done: pods are assumed and nominated
where the scenario has them, so that later steps see its cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from msgspec import structs

from policy_sched.framework import Code, Status
from policy_sched.model import GroupKey, PodInfo, QueuedPod
from policy_sched.policytest.expectations import (
    ExpectedOutcome,
    GroupCondition,
    GroupOutcome,
    PluginOutcome,
)
from policy_sched.policytest.observed import outcome_of, plugin_outcome
from policy_sched.policytest.scenario import Scenario
from policy_sched.scheduler import (
    Bind,
    GroupPlan,
    Member,
    MemberDecision,
    Preempt,
    Profile,
    Scheduler,
    clear_lower_nominations,
    condition_reason,
    dry_run_members,
    first_objection,
    gated,
    member_decisions,
)


class GroupSteps:
    """Decides the groups of a scenario.

    In recorded scenarios a pod that a group's pod preempts for does not withdraw nominations.
    """

    def __init__(self, scheduler: Scheduler, scenario: Scenario) -> None:
        self._scheduler = scheduler
        self._recorded = scenario.complete
        self._pods = [PodInfo.of(pod) for pod in scenario.pending]
        self._expect = scenario.expect
        self._found: dict[str, ExpectedOutcome] = {}
        self._groups: set[GroupKey] = set()
        self._seen: set[str] = set()

    def decided(self, pod: PodInfo) -> bool:
        """Return whether a pod was decided with its group, and its step is yet to come."""
        return pod.uid in self._found

    def decide(self, pod: PodInfo) -> ExpectedOutcome | None:
        """Return what became of a pod; None if it is decided by itself."""
        profile = self._scheduler.profiles.get(pod.scheduler_name)
        if profile is None or not gated(pod, profile.pipeline):
            return None
        key = pod.namespace, pod.pod_group
        if pod.uid in self._seen or key not in self._groups:
            self._groups.add(key)
            self._seen.clear()
            self._decide_group(pod, profile)
        self._seen.add(pod.uid)
        outcome = self._found.pop(pod.uid, None)
        if outcome is None:
            gate = first_objection(profile.runner, pod)
            outcome = ExpectedOutcome(pod.key, pre_enqueue=plugin_outcome(gate))
        return outcome

    def _decide_group(self, pod: PodInfo, profile: Profile) -> None:
        """Decide the pods of a pod's group that no PreEnqueue plugin holds."""
        members = [
            QueuedPod(other, first_enqueued_at=i)
            for i, other in enumerate(self._pods)
            if self._may_be_tried(other, pod)
        ]
        if not members:
            return
        uids = {queued.info.uid for queued in members}
        plan = dry_run_members(members, profile, self._scheduler.handle, uids)
        assert plan is not None, "the gate has the group decided together"
        for outcome, decision in self._outcomes(self._shown(plan, pod), pod):
            self._found[decision.attempt.queued.info.uid] = outcome
            self._execute(decision, self._expect.get(outcome.pod), outcome)

    def _shown(self, plan: GroupPlan, pod: PodInfo) -> GroupPlan:
        """Return the plan with the placement first whose messages are the recorded ones.

        kube-scheduler tries placements in random order, and pods of a group that fits in none have
        the messages of the first one.
        """
        if not self._recorded or plan.best is not None or not plan.status.rejected:
            return plan
        for result in plan.tried:
            turned = structs.replace(plan, tried=(result, *plan.tried))
            pairs = ((self._expect.get(o.pod), o) for o, _ in self._outcomes(turned, pod))
            if all(expected and expected.message == got.message for expected, got in pairs):
                return turned
        return plan

    def _may_be_tried(self, other: PodInfo, pod: PodInfo) -> bool:
        profile = self._scheduler.profiles.get(other.scheduler_name)
        return (
            (other.namespace, other.pod_group) == (pod.namespace, pod.pod_group)
            and other.uid not in self._found
            and not self._scheduler.cache.node_of(other.uid)
            and profile is not None
            and first_objection(profile.runner, other).ok
        )

    def _outcomes(
        self, plan: GroupPlan, pod: PodInfo
    ) -> Iterator[tuple[ExpectedOutcome, MemberDecision]]:
        """Yield the outcome of each pod, the first one with that of the group."""
        decisions = list(member_decisions(plan))
        shown = plan.best or next(iter(plan.tried), None)
        members = {
            id(decided.attempt): decided for decided in (() if shown is None else shown.members)
        }
        victims = list(plan.victims)
        for member in decisions:
            if isinstance(member.decision, Preempt):
                victims += member.decision.victims
        status = plan.status
        group = GroupOutcome(
            f"{pod.namespace}/{pod.pod_group}",
            tuple(decided.attempt.queued.info.key for decided in decisions),
            status.code.value,
            plan.waiting,
            tuple(dict.fromkeys(victim.key for victim in victims)),
            GroupCondition(str(status.ok), condition_reason(status), status.message()),
        )
        for i, decision in enumerate(decisions):
            outcome = self._outcome(decision, members.get(id(decision.attempt)))
            yield (replace(outcome, group=group) if i == 0 else outcome), decision

    def _outcome(self, decision: MemberDecision, member: Member | None) -> ExpectedOutcome:
        info, table = decision.attempt.queued.info, self._scheduler.handle.nodes
        if member is None:
            outcome = ExpectedOutcome(info.key, feasible=())
        else:
            outcome = outcome_of(info, member.decision, table)
            outcome = replace(outcome, post_filter=None, preemption=None, nominated=None)
            waits = member.permit is not None and not member.permit.ok
            if member.permit is not None and (waits or isinstance(member.decision, Bind)):
                outcome = replace(outcome, permit=_permit(member.permit))
        if isinstance(decision.decision, Bind):
            return replace(outcome, chosen=decision.decision.node)
        return replace(outcome, message=decision.message, nominated=decision.nominated)

    def _execute(
        self, decision: MemberDecision, expected: ExpectedOutcome | None, got: ExpectedOutcome
    ) -> None:
        """Assume a pod on the expected node, else on ours; or nominate it."""
        handle, info = self._scheduler.handle, decision.attempt.queued.info
        node = got.chosen if expected is None else expected.chosen
        if node:
            handle.cache.assume(info, node)
            handle.nominator.clear(info.uid)
            profile: Profile = decision.attempt.profile
            profile.runner.run("reserve", decision.attempt.state, info, node)
            return
        nominated = got.nominated if expected is None else expected.nominated
        if nominated:
            if isinstance(decision.decision, Preempt) and not self._recorded:
                clear_lower_nominations(info, nominated, handle)
            handle.nominator.nominate(info, nominated)
        elif nominated == "":
            handle.nominator.clear(info.uid)


def _permit(status: Status) -> PluginOutcome:
    plugin = "" if status.ok or status.code is Code.WAIT else status.plugin
    return PluginOutcome(status.code.value, plugin, status.reasons)


def as_recorded(got: ExpectedOutcome, expected: ExpectedOutcome | None) -> ExpectedOutcome:
    """Return an outcome without what a record leaves out: nodes and scores, where it does."""
    if expected is None or expected.feasible is not None or expected.pre_filter is not None:
        return got
    return replace(got, pre_filter=None, rejected=None, feasible=None, scores=None)
