"""What a scenario can state of a decision: outcomes as they are observed."""

from __future__ import annotations

from typing import Final

import numpy as np

from policy_sched.cluster.tables import NodeTable
from policy_sched.framework import Code, Status
from policy_sched.framework.evaluate import NOT_ASKED
from policy_sched.model import PodInfo
from policy_sched.policytest.expectations import (
    ExpectedEviction,
    ExpectedOutcome,
    ExpectedScore,
    PluginOutcome,
)
from policy_sched.scheduler import Bind, Decision, Preempt, Reject


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


def _eviction(decision: Preempt | Reject) -> tuple[ExpectedEviction, ...] | None:
    if isinstance(decision, Reject):
        return None
    return (ExpectedEviction(decision.node, tuple(victim.key for victim in decision.victims)),)


def _nominated(decision: Preempt | Reject) -> str | None:
    if isinstance(decision, Preempt):
        return decision.node
    return None if decision.nominated else ""
