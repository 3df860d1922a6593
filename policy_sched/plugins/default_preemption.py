"""PostFilter of a policy's preemption section: finds a node and victims for an unschedulable pod.

The search is in the package ``preemption``, the eligibility rules in the policy (DefaultPreemption
in the default profile); this module chooses the nodes to search and writes kube-scheduler's
messages. Nothing is evicted here: the result names the node and the victims, and the scheduler
evicts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, Protocol

import msgspec
import numpy as np

from policy_sched.cluster.tables import PodRows
from policy_sched.framework import (
    SUCCESS,
    Code,
    CycleState,
    DeadlineExceeded,
    Diagnosis,
    Handle,
    NodeEviction,
    PodGroupCycle,
    PostFilterResult,
    Status,
    histogram,
    hookimpl,
    rows_with,
    tally,
)
from policy_sched.framework.evaluate import FilteredNodes, Nominations
from policy_sched.language import CompiledPolicy, RuleError
from policy_sched.language.runtime import Activation
from policy_sched.model import PodInfo
from policy_sched.preemption import (
    BoundPreemption,
    CandidateLimit,
    Eviction,
    PreemptionAttempt,
    PreemptionSearch,
    Taken,
    rules_of,
)


class Preempting:
    """Returns whether a pod may preempt others, or holds a nomination for which it did.

    An obsolete nomination reserves its node until the pod is tried again. The lowest
    priority of all pods on nodes is computed once per change.
    """

    def __init__(self, handle: Handle) -> None:
        self._pods = handle.pods
        self._nominator = handle.nominator
        self._version = -1
        self._lowest: int | None = None

    def __call__(self, pod: PodInfo) -> bool:
        """Return whether the pod is nominated, or may evict one of lower priority on a node."""
        if self._nominator.node_of(pod.uid):
            return True
        pods = self._pods
        if self._version != pods.version:
            self._version = pods.version
            there = pods.lookup(("node",)).values[: pods.n] >= 0
            priorities = pods.lookup(("priority",)).values[: pods.n][there]
            self._lowest = int(priorities.min()) if priorities.size else None
        lowest = self._lowest
        return pod.preemption_policy != "Never" and lowest is not None and pod.priority > lowest


NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NEVER: Final = "not eligible due to preemptionPolicy=Never."
RULED_OUT: Final = "not eligible due to a rule of {}."
TOO_LONG: Final = "the search for victims takes too long"
TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."

ASKED: Final = 500
"""Pods of which `refused` is told why they are no victims."""

#: Condition of a pod to be disrupted, and its reason where a scheduler set it.
DISRUPTION_TARGET: Final = "DisruptionTarget"
BY_SCHEDULER: Final = "PreemptionByScheduler"


class BoundRules(Protocol):
    """The part of a bound policy that preemption reads."""

    @property
    def preemption(self) -> BoundPreemption | None:
        """The policy's section of that name."""

    def matches(self, pod: PodInfo, cycle: Activation) -> bool:
        """Return whether the policy's matchConditions hold."""


class Preemption:
    """Returns from PostFilter a node and its victims, or why preemption does not help.

    The policy's params minCandidateNodesPercentage and minCandidateNodesAbsolute bound the number
    of candidates, as the arguments of kube-scheduler's plugin do.
    """

    def __init__(
        self, policy: CompiledPolicy, bound: BoundRules, handle: Handle, profile: str
    ) -> None:
        assert bound.preemption is not None, "only policies with the section become this plugin"
        self._name = policy.name
        self._policy = bound
        self._cycle = Activation(profile=profile, preempting=True)
        self._handle = handle
        self._nominations = Nominations(handle.cache, handle.nominator)
        self._rules = rules_of(bound.preemption, handle.pods, handle.now)
        candidate_limit = CandidateLimit(
            _number(policy.params, "minCandidateNodesPercentage", 10),
            _number(policy.params, "minCandidateNodesAbsolute", 100),
        )
        self._search = PreemptionSearch(
            handle.cache, handle.objects, self._rules, candidate_limit, handle.extenders, handle
        )

    @hookimpl
    def post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        """Find the node where evictions do the least harm."""
        try:
            if not self._policy.matches(
                pod, msgspec.structs.replace(self._cycle, now=self._handle.now())
            ):
                return PostFilterResult(Status(Code.UNSCHEDULABLE))
            return self._result(state, pod, diagnosis)
        except RuleError as error:
            return PostFilterResult(_status(Code.ERROR, str(error)))
        except DeadlineExceeded:
            return PostFilterResult(_status(Code.UNSCHEDULABLE, TOO_LONG))

    def _result(self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis) -> PostFilterResult:
        group = state.read(PodGroupCycle)
        if group is not None and group.no_preemption:
            return PostFilterResult(_status(Code.UNSCHEDULABLE, group.no_preemption))
        refusal = self._refusal(pod, diagnosis)
        if refusal:
            return PostFilterResult(_status(Code.UNSCHEDULABLE, refusal))
        filtering = state.read(FilteredNodes)
        assert filtering is not None, "the failed attempt stored it in the state"
        dry_run, cache = filtering.filter_dry_run, self._handle.cache
        attempt = PreemptionAttempt(pod, state, dry_run, cache, self._nominations, filtering.key)
        result = self._find_node(attempt, diagnosis.statuses)
        if isinstance(result, Status):
            return PostFilterResult(_status(result.code, result.message()))
        if isinstance(result, Eviction):
            node = self._handle.cache.nodes.names[result.row]
            elsewhere = partial(self._elsewhere, attempt, result.row)
            return PostFilterResult(SUCCESS, node, result.victims, elsewhere=elsewhere)
        others = diagnosis.node_count - sum(result.values())
        rest = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (NOT_HELPFUL,))
        reasons = histogram({**result, rest: others} if others else result)
        text = f"0/{diagnosis.node_count} nodes are available: {reasons}."
        return PostFilterResult(_status(Code.UNSCHEDULABLE, text), nominated_node="")

    def refused(self, pod: PodInfo) -> dict[str, list[PodInfo]]:
        """Return pods that are no victims, by the part of ``victim`` that is false for them.

        Those of one node after the other are asked, the least important first, at most `ASKED`.
        """
        refused: dict[str, list[PodInfo]] = {}
        rules, nodes, asked = self._rules, self._handle.nodes, 0
        if not rules.eligible(pod):
            return refused
        for node in range(nodes.n):
            others = list(nodes.pods_on(node).values())
            stored = [self._handle.cache.pod_row(other.uid) for other in others]
            rows = np.array([row for row in stored if row is not None], np.intp)
            order = np.lexsort(rules.victim_order(pod)(rows)[::-1])[::-1] if rows.size else rows
            taken: list[Taken] = []
            for place in order.tolist():
                victim = self._handle.pods.infos[rows.item(place)]
                if victim is None or asked >= ASKED:
                    continue
                asked += 1
                part = rules.false_part(pod, (victim, node), taken)
                if not rules.takes(pod, [(victim, node)], taken) and part:
                    refused.setdefault(part, []).append(victim)
        return refused

    def _elsewhere(self, attempt: PreemptionAttempt, best: int, node: str) -> NodeEviction | None:
        """Return what evicting on another node would be."""
        row = self._handle.nodes.row_of.get(node)
        if row is None:
            return None
        next_best = self._search.elsewhere(attempt, best, row)
        return None if next_best is None else NodeEviction(*next_best)

    def _find_node(
        self, attempt: PreemptionAttempt, statuses: Mapping[int, Status]
    ) -> Eviction | Status | Mapping[Status, int]:
        """Return the best eviction; or what ends the search, or why how many nodes are no help."""
        search, random = self._search, self._handle.random
        helped = 0
        for status, count in tally(statuses).items():
            if status.code is Code.UNSCHEDULABLE:
                helped += count
        hopeless = search.nothing_anywhere(attempt, helped, random)
        if hopeless is not None:
            return hopeless
        result = search.search(attempt, rows_with(statuses, Code.UNSCHEDULABLE), random)
        if isinstance(result, (Eviction, Status)):
            return result
        reasons = tally(result)
        if any(status.code is Code.ERROR for status in reasons):
            broken = [result[row].message() for row in rows_with(result, Code.ERROR).tolist()]
            errors = list(dict.fromkeys(broken))
            text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
            return Status(Code.ERROR, (text,))
        return reasons

    def _refusal(self, pod: PodInfo, diagnosis: Diagnosis) -> str:
        """Return why the pod may not preempt others; empty if it may."""
        if not self._rules.eligible(pod):
            return NEVER if pod.preemption_policy == "Never" else RULED_OUT.format(self._name)
        row = self._nominations.row_of(pod)
        if row is None:
            return ""
        status = diagnosis.statuses.get(row)
        if status is not None and status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        return TERMINATING if self._waits_for_victims(pod, row) else ""

    def _waits_for_victims(self, pod: PodInfo, row: int) -> bool:
        """Return whether victims of the pod are terminating on its nominated node."""
        leaving = filter(_leaves_by_preemption, self._handle.nodes.pods_on(row).values())
        return bool(self._evictable(pod, leaving))

    def _evictable(self, pod: PodInfo, others: Iterable[PodInfo]) -> bool:
        rows = [self._handle.cache.pod_row(other.uid) for other in others]
        present = np.array([row for row in rows if row is not None], np.intp)
        return bool(self._rules.victim(pod, PodRows(self._handle.pods, present)).any())


def _leaves_by_preemption(pod: PodInfo) -> bool:
    if not pod.terminating:
        return False
    for condition in pod.pod.status.conditions:
        if condition.type == DISRUPTION_TARGET:
            return condition.status == "True" and condition.reason == BY_SCHEDULER
    return False


def _number(params: Mapping[str, object], name: str, default: int) -> int:
    value = params.get(name, default)
    return value if isinstance(value, int) else default


def _status(code: Code, text: str) -> Status:
    return Status(code, (f"preemption: {text}",))
