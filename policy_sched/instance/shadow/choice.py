"""The shadow's decision for a pod, and its evaluation of any node.

Theory of operation. The decision is made as usual and not executed: the pod is not assumed, and
Reserve, Permit and binding plugins are not called. An evaluation is valid until the table
changes, so what is needed later is copied (`ShadowDecision.keep`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np
from numpy.typing import NDArray

from policy_sched import scheduler
from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import PluginError
from policy_sched.framework import Elsewhere, Handle, NodeEviction, Status
from policy_sched.framework.evaluate import Evaluation
from policy_sched.instance.observability import difference
from policy_sched.instance.shadow.log import LoggedDecision
from policy_sched.model import PodInfo, QueuedPod


@dataclass(slots=True)
class ShadowDecision:
    """The shadow's decision for one pod: a node, or the reason for none; and its evaluation.

    ``broken``: the decision failed with an error. ``kept`` replaces the evaluation once the
    table may have changed. ``evictions``: what was found on other nodes, for a pod that preempts.
    """

    profile: scheduler.Profile
    side: LoggedDecision
    nodes: int = 0
    feasible: int = 0
    broken: bool = False
    evaluation: Evaluation | None = None
    kept: Rows | None = None
    elsewhere: Elsewhere | None = None
    evictions: dict[str, NodeEviction | None] = field(default_factory=dict)

    def eviction(self, node: str) -> NodeEviction | None:
        """Return what evicting on another node would be; None if it would not help."""
        if node not in self.evictions and self.elsewhere is not None:
            self.evictions[node] = self.elsewhere(node)
        return self.evictions.get(node)

    def keep(self, row_of: Mapping[str, int]) -> ShadowDecision:
        """Return the choice with a copy of its evaluation; ``row_of``: current rows of nodes."""
        self.elsewhere = None
        if self.evaluation is None:
            return self  # decided with its group: nodes have no scores
        live = Rows.of(self.evaluation, row_of)
        totals = None if live.totals is None else live.totals.copy()
        statuses = live.statuses()
        kept = Rows(row_of, live.first.copy(), totals, lambda: statuses)
        return replace(self, evaluation=None, kept=kept)

    def of_node(self, name: str, table: NodeTable) -> LoggedDecision:
        """Return the evaluation of a node: its score, or its rejection."""
        rows = self.kept
        if rows is None and self.evaluation is not None:
            rows = Rows.of(self.evaluation, table.row_of)
        return LoggedDecision(name) if rows is None else rows.of_node(name)

    def difference(self, theirs: LoggedDecision, table: NodeTable) -> dict[str, int]:
        """Return each plugin's score of the node minus that of another, where both have one."""
        row, there = (table.row_of.get(side.node or "") for side in (self.side, theirs))
        scored = self.side.score is not None and theirs.score is not None
        if self.evaluation is None or row is None or there is None or row == there or not scored:
            return {}
        return difference(self.evaluation, row, there)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of an evaluation, or a copy; ``row_of`` maps the nodes of that time to them."""

    row_of: Mapping[str, int] = field(repr=False)
    first: NDArray[np.int16] = field(repr=False)
    """The plugin that rejects a node; 0 for none."""
    totals: NDArray[np.int64] | None = field(repr=False)
    statuses: Callable[[], Mapping[int, Status]] = field(repr=False)

    @classmethod
    def of(cls, evaluation: Evaluation, row_of: Mapping[str, int]) -> Rows:
        """Return the rows of an evaluation as they are now."""
        filtering, scoring = evaluation.filtering, evaluation.scoring
        totals = None if scoring is None else scoring.total
        return cls(row_of, filtering.first, totals, filtering.statuses)

    def of_node(self, name: str) -> LoggedDecision:
        """Return the evaluation of a node: its score, or its rejection."""
        row, totals = self.row_of.get(name), self.totals
        if row is None:
            return LoggedDecision(name)
        if totals is not None and row < totals.size and not self.first[row]:
            return LoggedDecision(name, score=totals.item(row))
        status = self.statuses().get(row)
        if status is None:
            return LoggedDecision(name)
        return LoggedDecision(name, rejected_by=status.plugin, reasons=status.reasons)


def choose(pod: PodInfo, profile: scheduler.Profile, handle: Handle, rng: Random) -> ShadowDecision:
    """Return the decision of `profile` for a pod now; ``rng`` breaks ties."""
    gate = scheduler.first_objection(profile.runner, pod)
    if not gate.ok:
        return ShadowDecision(profile, LoggedDecision(None, gate.message()))
    try:
        plan = scheduler.dry_run_group(pod, profile, handle)
    except PluginError as error:
        return ShadowDecision(profile, LoggedDecision(None, str(error)), broken=True)
    table = handle.nodes
    if plan is not None:
        return decision_with_group(pod, profile, plan, table)
    attempt = scheduler.Attempt(QueuedPod(pod), profile)
    return described(pod, profile, scheduler.decide(attempt, table, rng), table)


def described(
    pod: PodInfo, profile: scheduler.Profile, decision: scheduler.Decision, table: NodeTable
) -> ShadowDecision:
    """Return a decision that was just made for a pod by itself."""
    nodes = table.live_count
    if isinstance(decision, scheduler.Bind):
        evaluation = decision.evaluation
        feasible = int(evaluation.filtering.feasible_rows().size)
        scoring = evaluation.scoring
        assert scoring is not None, "a node was chosen"
        side = LoggedDecision(decision.node, score=scoring.total.item(decision.row))
        return ShadowDecision(profile, side, nodes, feasible, evaluation=evaluation)
    side, elsewhere = LoggedDecision(None, decision.message), None
    if isinstance(decision, scheduler.Preempt):
        side, elsewhere = _preempting(decision), decision.elsewhere
    broken = isinstance(decision, scheduler.Reject) and not decision.status.rejected
    evaluation_ = None if broken else _again(profile, pod)
    return ShadowDecision(
        profile, side, nodes, broken=broken, evaluation=evaluation_, elsewhere=elsewhere
    )


def _preempting(decision: scheduler.Preempt) -> LoggedDecision:
    victims = names_of(decision.victims)
    return LoggedDecision(decision.node, decision.message, preempts=True, victims=victims)


def names_of(pods: Iterable[PodInfo]) -> tuple[str, ...]:
    """Return namespace and name of pods, in order."""
    return tuple(sorted(pod.key for pod in pods))


def decision_with_group(
    pod: PodInfo, profile: scheduler.Profile, plan: scheduler.GroupPlan, table: NodeTable
) -> ShadowDecision:
    """Return the decision of a pod that is placed with its group; nodes have no scores."""
    decision = scheduler.member_decision(plan, pod.uid).decision
    if isinstance(decision, scheduler.Bind):
        return ShadowDecision(profile, LoggedDecision(decision.node), table.live_count)
    if isinstance(decision, scheduler.Preempt):
        return ShadowDecision(profile, _preempting(decision), table.live_count)
    broken = not decision.status.rejected
    return ShadowDecision(
        profile, LoggedDecision(None, decision.message), table.live_count, broken=broken
    )


def _again(profile: scheduler.Profile, pod: PodInfo) -> Evaluation | None:
    """Return the evaluation behind a rejection; equal pods share it."""
    try:
        evaluation = profile.evaluator.evaluate(pod)
    except PluginError:
        return None
    return None if evaluation.rejection is not None else evaluation
