"""What a scenario can state of decisions, of claims and of groups, as it is observed.

The first pod of a group stands for the whole group, which is decided at its turn, where a feature
gate decides its pods together: those that are let through, by priority, then in the scenario's
order. What became of the others is kept for their steps. As for single pods, what is expected is
then done: pods are assumed and nominated where the scenario has them, so that later steps see its
cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count, groupby
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import structs

from policy_sched.client import MemoryClient
from policy_sched.cluster import ApiObjects
from policy_sched.cluster.tables import NodeTable
from policy_sched.framework import Code, Handle, Status
from policy_sched.framework.evaluate import NOT_ASKED
from policy_sched.model import GroupKey, Pod, PodInfo, QueuedPod, ResourceClaim
from policy_sched.policytest.expectations import (
    ExpectedEviction,
    ExpectedOutcome,
    ExpectedScore,
    GroupCondition,
    GroupOutcome,
    PluginOutcome,
)
from policy_sched.policytest.scenario import Scenario
from policy_sched.queue import QueueHeap
from policy_sched.scheduler import (
    Bind,
    Decision,
    GroupPlan,
    Member,
    MemberDecision,
    Preempt,
    Profile,
    Reject,
    Scheduler,
    clear_lower_nominations,
    condition_reason,
    dry_run_members,
    first_objection,
    gated,
    member_decisions,
    queue_order,
    queue_sort,
)


def plugin_outcome(status: Status) -> PluginOutcome:
    """Return a status as a plugin's outcome."""
    return PluginOutcome(status.code.value, "" if status.ok else status.plugin, status.reasons)


_NOT_ASKED: Final = PluginOutcome(Code.UNSCHEDULABLE_AND_UNRESOLVABLE.value, "", ())
"""The outcome of a node that was not looked at, as kube-scheduler reports it."""


def outcome_of(
    info: PodInfo, decision: Decision, table: NodeTable, *, scored: bool = True
) -> ExpectedOutcome:
    """Return the outcome of a pod that was decided, on the nodes of a table.

    ``scored``: False where no plugin scores: the total is 1 then.
    """
    if isinstance(decision, Bind):
        return _placed(info, decision, table, 0 if scored else 1)
    diagnosis = decision.diagnosis
    if diagnosis is None:
        return ExpectedOutcome(info.key, feasible=(), message=decision.message)
    names = table.names
    pre_filter, post_filter = diagnosis.pre_filter, diagnosis.post_filter
    rejected = {} if pre_filter else diagnosis.statuses
    return ExpectedOutcome(
        info.key,
        pre_filter=plugin_outcome(pre_filter) if pre_filter else None,
        rejected={names[row]: plugin_outcome(status) for row, status in rejected.items()},
        feasible=(),
        message=decision.message,
        post_filter=plugin_outcome(post_filter) if post_filter else None,
        preemption=_eviction(decision),
        nominated=_nominated(decision),
    )


def _placed(info: PodInfo, decision: Bind, table: NodeTable, unscored: int) -> ExpectedOutcome:
    """Return the outcome of a pod that has feasible nodes; ``unscored`` is in every total."""
    evaluation, names = decision.evaluation, table.names
    rows = evaluation.filtering.feasible_rows()
    feasible = [names[row] for row in rows.tolist()]
    scoring = evaluation.scoring
    assert scoring is not None, "a feasible node was scored"
    totals = scoring.total[rows].tolist()
    weighted = scoring.weighted(rows)
    scores = {
        name: ExpectedScore(
            total + unscored, {plugin: part[i] for plugin, part in weighted.items()}
        )
        for i, (name, total) in enumerate(zip(feasible, totals, strict=True))
    }
    statuses = evaluation.filtering.statuses()
    rejected = {names[row]: plugin_outcome(status) for row, status in statuses.items()}
    if scoring.only is None:  # not the nominated node alone
        passed_over = np.flatnonzero(evaluation.filtering.first == NOT_ASKED)
        rejected |= {names[row]: _NOT_ASKED for row in passed_over.tolist()}
    return ExpectedOutcome(
        info.key,
        rejected=rejected,
        feasible=tuple(sorted(feasible)),
        scores=scores,
        best=tuple(sorted(names[row] for row in evaluation.best().tolist())),
    )


def raw_scores(decision: Decision, plugin: str, table: NodeTable) -> dict[str, int | float] | None:
    """Return a plugin's score of each feasible node before normalisation, by node.

    None where it did not score.
    """
    scoring = decision.evaluation.scoring if isinstance(decision, Bind) else None
    if scoring is None or not isinstance(decision, Bind):
        return None
    rows = decision.evaluation.filtering.feasible_rows()
    scores = scoring.raw(rows).get(plugin)
    if scores is None:
        return None
    return {table.names[row]: score for row, score in zip(rows.tolist(), scores, strict=True)}


def queue_of(
    scheduler: Scheduler, pods: Iterable[PodInfo], *, gated: bool
) -> tuple[tuple[str, ...], ...]:
    """Return pods that have no node in the order of the queue, those of equal keys together.

    They are in the queue since they were created. ``gated``: also those that PreEnqueue rejects.
    Raises PluginError if QueueSort, or the order of queues, fails.
    """
    sort_key = queue_sort(scheduler.profiles, strict=True)
    order = queue_order(scheduler.profiles, strict=True)
    waiting: list[QueuedPod] = []
    for info in pods:
        profile = scheduler.profiles.get(info.scheduler_name)
        if scheduler.cache.node_of(info.uid) or profile is None:
            continue
        if gated or first_objection(profile.runner, info).ok:
            created = info.creation_time
            queued = QueuedPod(info, enqueued_at=created, first_enqueued_at=created)
            waiting.append(queued)
    if order is not None:
        heap = QueueHeap(sort_key, order, count())
        heap.push_all(waiting)
        waiting = heap.ordered()
    else:
        waiting.sort(key=sort_key)
    equal = groupby(waiting, key=lambda queued: (queued.queue, sort_key(queued)))
    return tuple(tuple(sorted(queued.info.key for queued in pods)) for _, pods in equal)


def _eviction(decision: Preempt | Reject) -> tuple[ExpectedEviction, ...] | None:
    if isinstance(decision, Reject):
        return None
    return (ExpectedEviction(decision.node, tuple(victim.key for victim in decision.victims)),)


def _nominated(decision: Preempt | Reject) -> str | None:
    if isinstance(decision, Preempt):
        return decision.node
    return None if decision.nominated else ""


SPECIAL: Final = "(extended resources)"
"""What the claim is called that is made for a pod's extended resources."""
MANY: Final = 8
"""Consumers of a claim that are named; of more there is only the number."""
_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"


def claims_of_cluster(objects: ApiObjects) -> dict[str, ResourceClaim]:
    """Return the claims by namespace/name."""
    return {
        f"{claim.metadata.namespace or 'default'}/{claim.metadata.name}": claim
        for claim in objects.of(ResourceClaim)
    }


def with_claims(
    outcome: ExpectedOutcome, pod: PodInfo, before: Mapping[str, ResourceClaim], handle: Handle
) -> ExpectedOutcome:
    """Return an outcome with the claims that are reserved for the pod, and those given back."""
    after = claims_of_cluster(handle.objects)
    written = {}
    for claim in after.values():
        if any(consumer.uid == pod.uid for consumer in claim.status.reserved_for):
            special = is_special(claim)
            name = SPECIAL if special else claim.metadata.name
            written[name] = _written(claim, pod, handle if special else None)
    gone = tuple(
        name
        for name, claim in before.items()
        if (name not in after or _given_back(claim, after[name])) and not outcome.feasible
    )
    return replace(outcome, claims=written or None, deallocated=gone or None)


def is_special(claim: ResourceClaim) -> bool:
    """Return whether a claim was made for a pod's extended resources."""
    return claim.metadata.annotations.get(_ANNOTATION) == "true"


def _given_back(before: ResourceClaim, after: ResourceClaim) -> bool:
    return before.status.allocation is not None and after.status.allocation is None


def _written(claim: ResourceClaim, pod: PodInfo, handle: Handle | None) -> dict[str, object]:
    allocation = _plain(claim.status.allocation)
    allocation.pop("allocationTimestamp", None)
    for result in allocation["devices"].get("results", ()):
        if "shareID" in result:
            result["shareID"] = "(random)"
    facts: dict[str, object] = {
        "allocation": allocation,
        "finalizers": list(claim.metadata.finalizers),
    }
    names = [consumer.name for consumer in claim.status.reserved_for]
    if len(names) > MANY:
        facts["reservedForCount"] = len(names)
    else:
        facts["reservedFor"] = names
    if handle is not None:
        facts["requests"] = _plain(claim.spec.devices.requests)
        facts["requestMappings"] = _mappings(pod, handle)
    return facts


def _mappings(pod: PodInfo, handle: Handle) -> object:
    client = handle.client
    assert isinstance(client, MemoryClient), "scenarios have no other cluster"
    for request in reversed(client.requests):
        if request.kind is Pod and (request.namespace, request.name) == (pod.namespace, pod.name):
            return request.body["status"]["extendedResourceClaimStatus"]["requestMappings"]
    return None


def _plain(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


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
