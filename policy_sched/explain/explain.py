"""Explains a decision: what each filter and score did, and what would change the result.

Theory of operation. The pod is decided as usual; then its filters run once more one by one,
each over all nodes, to find what each removes by itself and what it leaves of the others. To find
what would change the decision, it is made again without one rule or one score.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Final, cast

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from policy_sched import framework
from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import PluginError
from policy_sched.explain import report
from policy_sched.explain.claims import explain_claims
from policy_sched.explain.devices import rated_steps
from policy_sched.framework.evaluate import Evaluation, Evaluator, skipped
from policy_sched.framework.runtime import Hook, Pipeline, Runner
from policy_sched.language import RuleError
from policy_sched.model import PodInfo, QueuedPod
from policy_sched.plugins import Preemption
from policy_sched.plugins.dynamicresources import Allocations
from policy_sched.scheduler import (
    Attempt,
    Bind,
    Decision,
    GroupPlan,
    Preempt,
    Profile,
    Scheduler,
    decide,
    dry_run_group,
    member_decision,
)


@dataclass(frozen=True, slots=True)
class FilterPart:
    """One filter plugin, or one rule of a policy: its codes over all rows, None if all pass."""

    plugin: str
    name: str
    codes: framework.Codes | None
    describe: framework.Describe | None = None

    def rejected(self, n: int) -> NDArray[np.bool_]:
        """Return which of the rows [0, n) it rejects."""
        if self.codes is None:
            return np.zeros(n, np.bool_)
        rejecting: NDArray[np.bool_] = self.codes != 0
        return rejecting


def filter_parts(runner: Runner, table: NodeTable, pod: PodInfo) -> list[FilterPart]:
    """Run every filter on every row. PreFilter plugins that name nodes are parts of their own.

    Raises PluginError if a plugin fails.
    """
    state = framework.CycleState()
    result = runner.run("pre_filter", state, pod)
    parts = [
        _narrowing(runner, hook, table, pod)
        for hook in runner.pipeline.at("pre_filter")
        if hook.plugin in result.narrowed_by
    ]
    for hook in runner.active("filter", result.skipped):
        verdict = cast(
            "framework.FilterResult", runner.call("filter", hook, state, pod, None, table)
        )
        pieces: Sequence[tuple[str, framework.Codes | None]] = ((hook.plugin, verdict.codes),)
        if verdict.parts is not None:
            pieces = runner.call("filter", replace(hook, function=verdict.parts))
        parts += [FilterPart(hook.plugin, name, codes, verdict.describe) for name, codes in pieces]
    return parts


def _narrowing(runner: Runner, hook: Hook, table: NodeTable, pod: PodInfo) -> FilterPart:
    """Return the part of a PreFilter plugin that returned a subset of the nodes."""
    result = cast(
        "framework.PreFilterResult", runner.call("pre_filter", hook, framework.CycleState(), pod)
    )
    codes = np.ones(table.n, np.int16)
    for name in result.node_names or ():
        if name in table.row_of:
            codes[table.row_of[name]] = 0
    status = framework.Status(
        framework.Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        (f"node(s) didn't satisfy plugin(s) [{hook.plugin}]",),
        hook.plugin,
    )
    return FilterPart(
        hook.plugin,
        f"{hook.plugin} (preFilter)",
        codes,
        framework.FilterResult.of(codes, status).describe,
    )


#: The plugin that compares requests with free resources.
FIT: Final = "NodeResourcesFit"
#: The plugin that finds devices for claims.
DEVICES: Final = "DynamicResources"
#: The most nodes that an alternative lists.
NAMED: Final = 3
_SCORING: Final = ("pre_score", "score", "normalize_score")
_FILTERING: Final = ("pre_filter", "filter")
Mask = NDArray[np.bool_]


def alternatives(
    profile: Profile,
    table: NodeTable,
    pod: PodInfo,
    evaluation: Evaluation,
    parts: Sequence[FilterPart],
) -> list[report.Alternative]:
    """Return changes with which the pod would fit, or would get another node."""
    sole = _rejected_by_one_only(table, evaluation, parts)
    changes = [
        *_without_filters(profile, table, pod, evaluation, parts, sole),
        *_without_scores(profile, table, pod, evaluation),
    ]
    if not evaluation.filtering.any_feasible():
        changes += _with_smaller_requests(table, pod, parts, sole)
    return changes


def _rejected_by_one_only(
    table: NodeTable, evaluation: Evaluation, parts: Sequence[FilterPart]
) -> list[Mask]:
    """Return for each part the rows that no other part rejects."""
    n = table.n
    rejected = np.array([part.rejected(n) for part in parts], np.bool_).reshape(len(parts), n)
    live = table.live.values[:n] & True
    for row in evaluation.filtering.overrides:
        live[row] = False
    once = live & (rejected.sum(axis=0) == 1)
    return [once & rejected_rows for rejected_rows in rejected]


def _without_filters(
    profile: Profile,
    table: NodeTable,
    pod: PodInfo,
    evaluation: Evaluation,
    parts: Sequence[FilterPart],
    sole: Sequence[Mask],
) -> Iterator[report.Alternative]:
    before = {int(row) for row in evaluation.best()}
    for part, rows in zip(parts, sole, strict=True):
        if not rows.any():
            continue
        pipeline = _without_part(profile.runner.pipeline, part)
        other = _evaluated(pipeline, table, pod)
        best = {int(row) for row in other.best()}
        if best and not best & before:
            yield _alternative("filter", part.name, other, best, table)


def _without_scores(
    profile: Profile, table: NodeTable, pod: PodInfo, evaluation: Evaluation
) -> Iterator[report.Alternative]:
    """Leave out each score plugin, if several nodes are feasible."""
    before = {int(row) for row in evaluation.best()}
    if evaluation.scoring is None or evaluation.filtering.feasible_rows().size < 2:
        return
    for hook in profile.runner.pipeline.at("score"):
        pipeline = _without(profile.runner.pipeline, hook.plugin, _SCORING)
        other = _evaluated(pipeline, table, pod)
        best = {int(row) for row in other.best()}
        if best and not best & before:
            yield _alternative("score", hook.plugin, other, best, table)


def _with_smaller_requests(
    table: NodeTable, pod: PodInfo, parts: Sequence[FilterPart], sole: Sequence[Mask]
) -> Iterator[report.Alternative]:
    """Find nodes that lack a single resource, and the smallest amount missing."""
    for part, rows in zip(parts, sole, strict=True):
        if part.plugin != FIT or not rows.any():
            continue
        candidates = np.flatnonzero(rows)
        missing = {
            name: amount - table.lookup(("free", name)).values[candidates]
            for name, amount in pod.requests.items()
            if amount > 0
        }
        vacant = table.lookup(("podCount",)).values < table.lookup(("allocatable", "pods")).values
        lacking = sum((short > 0).astype(np.int64) for short in missing.values())
        for name, short in missing.items():
            only = (short > 0) & (lacking == 1) & vacant[candidates]
            if not only.any():
                continue
            least = int(short[only].min())
            fits = candidates[only & (short == least)].tolist()
            names = tuple(sorted(table.names[row] for row in fits))
            yield report.Alternative("resource", name, len(fits), names[:NAMED], str(least))


def _alternative(
    kind: str, name: str, other: Evaluation, best: set[int], table: NodeTable
) -> report.Alternative:
    names = tuple(sorted(table.names[row] for row in best))
    return report.Alternative(kind, name, int(other.filtering.feasible_rows().size), names[:NAMED])


def _evaluated(pipeline: Pipeline, table: NodeTable, pod: PodInfo) -> Evaluation:
    return Evaluator(Runner(pipeline), table, cached=False).evaluate(pod)


def _without(pipeline: Pipeline, plugin: str, points: Sequence[str]) -> Pipeline:
    """Return a pipeline in which a plugin is disabled at some points."""
    hooks = {
        point: tuple(h for h in chain if point not in points or h.plugin != plugin)
        for point, chain in pipeline.hooks.items()
    }
    return replace(pipeline, hooks=MappingProxyType(hooks))


def _without_part(pipeline: Pipeline, part: FilterPart) -> Pipeline:
    """Return a pipeline without a filter, or with a filter of which one rule is left out."""
    if part.name.startswith(part.plugin) and part.name in (
        part.plugin,
        f"{part.plugin} (preFilter)",
    ):
        return _without(pipeline, part.plugin, _FILTERING)
    chain = tuple(
        replace(hook, function=_rest(hook, part.name)) if hook.plugin == part.plugin else hook
        for hook in pipeline.at("filter")
    )
    return replace(pipeline, hooks=MappingProxyType({**pipeline.hooks, "filter": chain}))


def _rest(hook: Hook, left_out: str) -> Callable[..., object]:
    """Return a filter in which the rule of that name rejects nothing."""

    def filter_without(*given: object) -> framework.FilterResult:
        verdict = cast("framework.FilterResult", hook.function(*given))
        if verdict.codes is None or verdict.parts is None:
            return verdict
        codes = np.zeros_like(verdict.codes)
        for name, own in verdict.parts():
            if name != left_out and own is not None:
                codes = np.where(codes, codes, own)
        return framework.FilterResult(codes, verdict.describe)

    return filter_without


#: Sources of rejections of rows that pass every filter plugin.
OTHER_SOURCES: Final = "nominated pods and extenders"


def explain(
    scheduler: Scheduler, pod: PodInfo, *, top: int = 5, by: str = ""
) -> report.Explanation:
    """Explain the decision for `pod` on the current cluster, without effects.

    ``top``: the number of best nodes whose scores are listed. ``by``: the profile that decides, if
    it is not the pod's own.
    """
    name = by or pod.scheduler_name
    profile = scheduler.profiles.get(name)
    if name == pod.scheduler_name:
        profile = scheduler.profile_of(pod)
    before = skipped(profile.extenders) if profile is not None else {}
    random = scheduler.handle.random
    state = random.getstate()  # plugins choose among equals, and are to choose so afterwards, too
    try:
        explanation = _explained(scheduler, profile, pod, name, top)
    finally:
        random.setstate(state)
    if not pod.pod.spec.node_name:
        _add_queue(explanation, scheduler, pod)
    if not explanation.ignored:
        explanation.quotas = _quotas(scheduler.handle.nodes, pod)
    if profile is not None:
        explanation.skipped_extenders = {
            extender: error
            for extender, (count, error) in skipped(profile.extenders).items()
            if extender not in before or count > before[extender][0]
        }
    return explanation


def _add_queue(explanation: report.Explanation, scheduler: Scheduler, pod: PodInfo) -> None:
    """Add in which of several queues a pod waits, behind which pods, and which one holds it."""
    name, holding = scheduler.queue.queue_of(pod.uid)
    if name or holding:
        keys = [queued.info.key for queued in scheduler.queue.active() if queued.queue == name]
        ahead = keys.index(pod.key) if pod.key in keys else 0
        explanation.queue = report.QueuePosition(name, ahead, keys[0] if ahead else "", holding)


def _quotas(table: NodeTable, pod: PodInfo) -> list[report.QuotaStep]:
    """Return the quotas that a pod counts to."""
    steps = []
    for quotas in table.quotas.values():
        state, tree = quotas.state(quotas.key_of(pod), pod), quotas.tree_of(pod)
        if not state.exists:
            continue
        borrowers = {}
        for key in sorted(quotas.objects.by_key):
            other = quotas.state(key, pod)
            if other.borrowed and (not quotas.nested or quotas.tree_of_key(key) == tree):
                borrowers[key] = dict(other.borrowed)
        used, nominal, limit = dict(state.used), dict(state.nominal), dict(state.limit)
        available = dict(state.available) if quotas.nested else {}
        steps.append(report.QuotaStep(state.name, used, nominal, limit, available, borrowers))
    return sorted(steps, key=lambda step: step.name)


def _explained(
    scheduler: Scheduler, profile: Profile | None, pod: PodInfo, name: str, top: int
) -> report.Explanation:
    """Explain the decision of the profile with a name."""
    table = scheduler.handle.nodes
    explanation = report.Explanation(pod.key, name, nodes=table.live_count)
    if profile is None:
        explanation.message, explanation.ignored = f'no profile has schedulerName "{name}"', True
        return explanation
    gate = profile.runner.run("pre_enqueue", pod).status
    if not gate.ok:
        explanation.message, explanation.gated_by = gate.message(), gate.plugin
        return explanation
    explanation.content_hash = profile.pipeline.content_hash
    try:
        plan = dry_run_group(pod, profile, scheduler.handle)
    except PluginError as error:
        explanation.message, explanation.failed = str(error), True
        return explanation
    if plan is not None:
        _add_together(explanation, profile, table, pod, plan, top)
        return explanation
    attempt = Attempt(QueuedPod(pod), profile)
    # Ties are reported, not broken.
    decision = decide(attempt, table, Random(0))  # noqa: S311 - no secret
    explanation.message = "" if isinstance(decision, Bind) else decision.message
    if not isinstance(decision, Bind) and decision.diagnosis is None:
        explanation.failed = True
        if pod.pod.spec.resource_claims:
            rows = np.flatnonzero(table.live.values[: table.n])
            _add_devices(explanation, scheduler, pod, rows, rows)
        return explanation
    _add_victims(explanation, decision)
    if not isinstance(decision, Bind):
        explanation.not_victims = _not_victims(profile, pod)
    evaluation = (
        decision.evaluation if isinstance(decision, Bind) else profile.evaluator.evaluate(pod)
    )
    if evaluation.rejection is not None:
        explanation.rejected_by = evaluation.rejection.plugin
        return explanation
    parts = filter_parts(profile.runner, table, pod)
    _add_filters(explanation, table, evaluation, parts)
    _add_scores(explanation, table, evaluation, top)
    explanation.alternatives = alternatives(profile, table, pod, evaluation, parts)
    if explanation.best:
        _add_rated(explanation, scheduler, pod)
    if not evaluation.filtering.any_feasible():
        _add_claims(explanation, scheduler, pod, evaluation, parts)
    return explanation


def _add_claims(
    explanation: report.Explanation,
    scheduler: Scheduler,
    pod: PodInfo,
    evaluation: Evaluation,
    parts: Sequence[FilterPart],
) -> None:
    """Add why the devices of nodes do not suffice for the pod's claims."""
    table = scheduler.handle.nodes
    sole = _rejected_by_one_only(table, evaluation, parts)
    for part, alone in zip(parts, sole, strict=True):
        if part.plugin == DEVICES:
            rejected = np.flatnonzero(part.rejected(table.n) & table.live.values[: table.n])
            _add_devices(explanation, scheduler, pod, rejected, np.flatnonzero(alone))
            # A pod cannot do without its devices.
            explanation.alternatives = [
                alternative
                for alternative in explanation.alternatives
                if alternative.name != DEVICES
            ]


def _add_rated(explanation: report.Explanation, scheduler: Scheduler, pod: PodInfo) -> None:
    """Add what rules say of the devices of the best node."""
    allocating = scheduler.handle.shared(Allocations).latest(explanation.profile)
    if allocating is not None:
        row = scheduler.handle.nodes.row_of[explanation.best[0]]
        explanation.rated = rated_steps(allocating.rated(pod, row))


def _add_devices(
    explanation: report.Explanation,
    scheduler: Scheduler,
    pod: PodInfo,
    rejected: NDArray[np.intp],
    alone: NDArray[np.intp],
) -> None:
    """Add the devices of the rows that reject the pod; ``alone``: that only its claims reject."""
    profile = explanation.profile
    explanation.claims = explain_claims(scheduler.handle, pod, profile, rejected, alone)


def _add_together(
    explanation: report.Explanation,
    profile: Profile,
    table: NodeTable,
    pod: PodInfo,
    plan: GroupPlan,
    top: int,
) -> None:
    """Add the placement of the pod's group, and the pod's node in it."""
    decision = member_decision(plan, pod.uid).decision
    for result in plan.tried if plan.plugins else ():
        placed, pods = result.placed, len(plan.attempts)
        scores = dict(result.scores)
        step = report.PlacementStep(
            result.name or "(all nodes)",
            result.nodes,
            placed,
            pods,
            result.feasible,
            result.total,
            scores,
        )
        explanation.placements.append(step)
    if not isinstance(decision, Bind):
        explanation.message = decision.message
        explanation.failed = decision.status.code is framework.Code.ERROR
        _add_victims(explanation, decision)
        return
    assert plan.best is not None, "the pod goes there"
    explanation.placement = plan.best.name
    evaluation = decision.evaluation
    late_by = f"placement by {', '.join(sorted(plan.plugins))}" if plan.plugins else OTHER_SOURCES
    _add_filters(explanation, table, evaluation, filter_parts(profile.runner, table, pod), late_by)
    _add_scores(explanation, table, evaluation, top)


def _not_victims(profile: Profile, pod: PodInfo) -> list[report.NotVictims]:
    """Return pods that a policy with quotas refuses as victims, by what refuses them."""
    refused = []
    for hook in profile.pipeline.at("post_filter"):
        plugin = getattr(hook.function, "__self__", None)
        try:
            parts = plugin.refused(pod) if isinstance(plugin, Preemption) else {}
        except RuleError:  # which the message tells
            continue
        for part, pods in parts.items():
            keys = sorted(other.key for other in pods)
            refused.append(report.NotVictims(hook.plugin, part, keys))
    return refused


def _add_victims(explanation: report.Explanation, decision: Decision) -> None:
    if isinstance(decision, Preempt):
        explanation.nominated_node = decision.node
        explanation.victims = [victim.key for victim in decision.victims]


def _add_filters(
    explanation: report.Explanation,
    table: NodeTable,
    evaluation: Evaluation,
    parts: Sequence[FilterPart],
    late_by: str = OTHER_SOURCES,
) -> None:
    """Add the number of nodes that each filter removes, by itself and after the earlier ones.

    ``late_by``: the source of rejections of rows that pass every filter.
    """
    live = table.live.values[: table.n].copy()
    left = live.copy()
    feasible = np.zeros(table.n, np.bool_)
    feasible[evaluation.filtering.feasible_rows()] = True
    for part in parts:
        rejected = live & part.rejected(table.n)
        removed = left & rejected
        left &= ~removed
        step = report.FilterStep(
            part.plugin,
            part.name,
            int(np.count_nonzero(removed)),
            int(np.count_nonzero(rejected)),
            int(np.count_nonzero(left)),
            _reasons(part, removed),
        )
        explanation.filters.append(step)
    late = left & ~feasible
    if late.any():
        count = int(np.count_nonzero(late))
        left_over = int(np.count_nonzero(left & feasible))
        explanation.filters.append(report.FilterStep(late_by, late_by, count, count, left_over, {}))
    statuses = evaluation.filtering.statuses()
    explanation.rejections = {
        table.names[row]: (status.plugin, list(status.reasons)) for row, status in statuses.items()
    }
    explanation.feasible = int(np.count_nonzero(feasible))


def _reasons(part: FilterPart, removed: Mask) -> dict[str, int]:
    """Return the number of nodes with each of a filter's reasons, the most frequent first."""
    rows = np.flatnonzero(removed)
    counts: Counter[str] = Counter()
    if rows.size and part.describe is not None and part.codes is not None:
        codes: framework.Codes = part.codes[rows]
        for status in part.describe(rows, codes):
            counts.update(status.reasons)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _add_scores(
    explanation: report.Explanation, table: NodeTable, evaluation: Evaluation, top: int
) -> None:
    """Add the totals of the best nodes, and each plugin's part."""
    if evaluation.scoring is None:
        return
    names = table.names
    total = evaluation.scoring.total
    rows = evaluation.filtering.feasible_rows()
    order = sorted(rows.tolist(), key=lambda row: (-int(total[row]), names[row]))
    best = evaluation.best().tolist()
    explanation.best = sorted(names[row] for row in best)
    shown = np.array(order[:top], np.intp)
    explanation.weights = {
        view.name: view.weight
        for view in evaluation.scoring.views
        if view.weight != view.plugin.hook.weight
    }
    shares, raw_scores = evaluation.scoring.weighted(shown), evaluation.scoring.raw(shown)
    for i, row in enumerate(shown.tolist()):
        parts = {plugin: values[i] for plugin, values in shares.items()}
        raw = {plugin: values[i] for plugin, values in raw_scores.items()}
        explanation.scores.append(report.NodeScore(names[row], int(total[row]), parts, raw))
