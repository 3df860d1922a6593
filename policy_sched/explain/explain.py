"""Why a pod goes where it goes, or nowhere: its decision taken apart, and what would change it.

Theory of operation. The pod is decided as usual; then its filters run once more one by one,
each over all nodes, which tells what each removes alone and what is left after it. What would
change the decision is found by deciding again without one rule or one score.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import PluginError
from policy_sched.explain.counterfactuals import Part, alternatives, filter_parts
from policy_sched.explain.report import (
    Explanation,
    FilterStep,
    NodeScore,
    PlacementStep,
)
from policy_sched.framework import Code, Codes
from policy_sched.framework.evaluate import Evaluation, skipped
from policy_sched.model import PodInfo, QueuedPod
from policy_sched.scheduler import (
    Attempt,
    Bind,
    Decision,
    GroupPlan,
    Preempt,
    Profile,
    Reject,
    Scheduler,
    decide,
    dry_run_group,
    verdicts,
)

#: Sources of rejections of rows that pass every filter plugin.
PROMISES: Final = "nominated pods and extenders"
Mask = NDArray[np.bool_]


def explain(scheduler: Scheduler, pod: PodInfo, *, top: int = 5, by: str = "") -> Explanation:
    """Explain the decision for `pod` on the current cluster; nothing is changed.

    ``top``: how many of the best nodes have their scores listed. ``by``: the profile that decides,
    unless it is the pod's own.
    """
    name = by or pod.scheduler_name
    profile = scheduler.profiles.get(name)
    before = skipped(profile.extenders) if profile is not None else {}
    found = _explained(scheduler, profile, pod, name, top)
    if profile is not None:
        found.skipped_extenders = {
            extender: error
            for extender, (count, error) in skipped(profile.extenders).items()
            if extender not in before or count > before[extender][0]
        }
    return found


def _explained(
    scheduler: Scheduler, profile: Profile | None, pod: PodInfo, name: str, top: int
) -> Explanation:
    """Return why the profile of a name decides as it does."""
    table = scheduler.handle.nodes
    found = Explanation(pod.key, name, nodes=table.live_count)
    if profile is None:
        found.message, found.ignored = f'no profile has schedulerName "{name}"', True
        return found
    gate = profile.runner.run("pre_enqueue", pod).status
    if not gate.ok:
        found.message, found.gated_by = gate.message(), gate.plugin
        return found
    found.content_hash = profile.pipeline.content_hash
    try:
        plan = dry_run_group(pod, profile, scheduler.handle)
    except PluginError as error:
        found.message, found.failed = str(error), True
        return found
    if plan is not None:
        _add_together(found, profile, table, pod, plan, top)
        return found
    attempt = Attempt(QueuedPod(pod), profile)
    # Ties are reported, not broken.
    decision = decide(attempt, table, Random(0))  # noqa: S311 - no secret
    found.message = "" if isinstance(decision, Bind) else decision.message
    if not isinstance(decision, Bind) and decision.diagnosis is None:
        found.failed = True
        return found
    _add_victims(found, decision)
    evaluation = (
        decision.evaluation if isinstance(decision, Bind) else profile.evaluator.evaluate(pod)
    )
    if evaluation.rejection is not None:
        found.rejected_by = evaluation.rejection.plugin
        return found
    parts = filter_parts(profile.runner, table, pod)
    _add_filters(found, table, evaluation, parts)
    _add_scores(found, table, evaluation, top)
    found.alternatives = alternatives(profile, table, pod, evaluation, parts)
    return found


def _add_together(
    found: Explanation,
    profile: Profile,
    table: NodeTable,
    pod: PodInfo,
    plan: GroupPlan,
    top: int,
) -> None:
    """Tell where the pod's whole group goes, and the pod with it."""
    decision = next(
        verdict.decision for verdict in verdicts(plan) if verdict.attempt.queued.info.uid == pod.uid
    )
    for one in plan.tried:
        placed, pods = one.placed, len(plan.attempts)
        scores = dict(one.scores)
        step = PlacementStep(one.name, one.nodes, placed, pods, one.status.ok, one.total, scores)
        found.placements.append(step)
    if isinstance(decision, Reject):
        found.message = decision.message
        found.failed = decision.status.code is Code.ERROR
        return
    assert plan.best is not None, "the pod goes there"
    found.placement = plan.best.name
    evaluation = decision.evaluation
    by = ", ".join(sorted(plan.plugins))
    _add_filters(
        found, table, evaluation, filter_parts(profile.runner, table, pod), f"placement by {by}"
    )
    _add_scores(found, table, evaluation, top)


def _add_victims(found: Explanation, decision: Decision) -> None:
    if isinstance(decision, Preempt):
        found.nominated_node = decision.node
        found.victims = [victim.key for victim in decision.victims]


def _add_filters(
    found: Explanation,
    table: NodeTable,
    evaluation: Evaluation,
    parts: Sequence[Part],
    late_by: str = PROMISES,
) -> None:
    """Tell of each filter how many nodes it removes, by itself and after those before it.

    ``late_by``: what rejected rows that pass every filter.
    """
    live = table.live.values[: table.n].copy()
    left = live.copy()
    feasible = np.zeros(table.n, np.bool_)
    feasible[evaluation.filtering.feasible_rows()] = True
    for part in parts:
        rejected = live & part.rejected(table.n)
        removed = left & rejected
        left &= ~removed
        step = FilterStep(
            part.plugin,
            part.name,
            int(np.count_nonzero(removed)),
            int(np.count_nonzero(rejected)),
            int(np.count_nonzero(left)),
            _reasons(part, removed),
        )
        found.filters.append(step)
    late = left & ~feasible
    if late.any():
        count = int(np.count_nonzero(late))
        left_over = int(np.count_nonzero(left & feasible))
        found.filters.append(FilterStep(late_by, late_by, count, count, left_over, {}))
    statuses = evaluation.filtering.statuses()
    found.rejections = {
        table.names[row]: (status.plugin, list(status.reasons)) for row, status in statuses.items()
    }
    found.feasible = int(np.count_nonzero(feasible))


def _reasons(part: Part, removed: Mask) -> dict[str, int]:
    """Return how often a filter gives each reason, the most frequent first."""
    rows = np.flatnonzero(removed)
    counts: Counter[str] = Counter()
    if rows.size and part.describe is not None and part.codes is not None:
        codes: Codes = part.codes[rows]
        for status in part.describe(rows, codes):
            counts.update(status.reasons)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _add_scores(found: Explanation, table: NodeTable, evaluation: Evaluation, top: int) -> None:
    """Tell the totals of the best nodes, and each plugin's share of them."""
    if evaluation.scoring is None:
        return
    names = table.names
    total = evaluation.scoring.total
    rows = evaluation.filtering.feasible_rows()
    order = sorted(rows.tolist(), key=lambda row: (-int(total[row]), names[row]))
    best = evaluation.best().tolist()
    found.best = sorted(names[row] for row in best)
    shown = np.array(order[:top], np.intp)
    shares, said = evaluation.scoring.weighted(shown), evaluation.scoring.raw(shown)
    for i, row in enumerate(shown.tolist()):
        parts = {plugin: values[i] for plugin, values in shares.items()}
        raw = {plugin: values[i] for plugin, values in said.items()}
        found.scores.append(NodeScore(names[row], int(total[row]), parts, raw))
