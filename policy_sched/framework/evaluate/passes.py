"""Passes: runs filter and score plugins over all rows; updates.py does so for changed rows.

The results are written into an `Entry`. Static plugins are not run where a `StaticPart` has
their results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from policy_sched import thresholds
from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import PluginError
from policy_sched.framework import (
    PASSES,
    Code,
    Codes,
    CycleState,
    Feasible,
    RawScores,
    Rows,
    Scores,
)
from policy_sched.framework.evaluate import static_part
from policy_sched.framework.evaluate.entry import Entry, read_only
from policy_sched.framework.evaluate.nominated_pods import NominatedPods
from policy_sched.framework.evaluate.plugin_sets import NONE, ActivePlugins, PluginSets, Scorers
from policy_sched.framework.evaluate.pod_signature import Key
from policy_sched.framework.evaluate.results import Evaluation, Scoring
from policy_sched.framework.evaluate.totals import Totals
from policy_sched.framework.evaluate.views import (
    CLOSED,
    FEASIBLE,
    NO_NODE,
    OUTSIDE,
    FilterView,
    ScoreView,
    check_range,
)
from policy_sched.framework.runtime import Runner
from policy_sched.model import PodInfo

T = TypeVar("T")

_Pending: TypeAlias = tuple[Scorers, Sequence[ScoreView], Sequence[int], Scores]
"""What is left to score: the views in some places, which add to the total of the others."""


class Passes:
    """The plugins of one pipeline over one node table; static results are kept if ``cached``."""

    def __init__(self, runner: Runner, table: NodeTable, *, cached: bool) -> None:
        self._runner = runner
        self.table = table
        self.sets = PluginSets(runner)
        self._cached = cached
        self._parts = (
            static_part.StaticParts(runner, table)
            if cached and runner.pipeline.signature()
            else None
        )
        self._weights = [
            signature.weights
            for signature in runner.pipeline.signatures.values()
            if signature.weights is not None
        ]

    def fresh(self, pod: PodInfo, key: Key | None, nominated: NominatedPods | None) -> Entry:
        """Return the evaluation of a pod on all nodes.

        ``key``: the signature of the pods that share it, None where none do.
        """
        parts, part = self._parts, None
        if key is None:
            active = self.sets.active(NONE)
        else:
            active = self.sets.active_with(key)
            part = None if parts is None else parts.of(key, pod)
        entry = self._filter_all(pod, key, nominated, active, part)
        if entry.result.filtering.rejection is None:
            if nominated is not None:
                self.override(entry, pod)
            self.score_all(entry, pod, part)
            scored = entry.result.scoring is not None
            unknown = part is None or (part.scores is None and scored)
            if unknown and key is not None and parts is not None:
                parts.learn(key, entry, pod)
        return entry

    # Filters.

    def _filter_all(
        self,
        pod: PodInfo,
        key: Key | None,
        nominated: NominatedPods | None,
        active: ActivePlugins,
        part: static_part.StaticPart | None,
    ) -> Entry:
        runner, table, state = self._runner, self.table, CycleState()
        version = table.journal.version
        hooks = active.pre_filter if part is None else active.preparing_pre_filter
        result = runner.run("pre_filter", state, pod, hooks=hooks)
        rejected = result.status.code is not Code.SUCCESS
        if part is None:
            filters = self.sets.filters(result.skipped, active.inactive)
        else:
            before = part.skipped
            if result.plugin:
                before = part.skipped_before(result.plugin, active.pre_filter)
            filters = self.sets.filters(result.skipped | before, active.inactive)
        rows, last, places = None, 0, filters.dynamic
        if part is not None and not rejected and result.node_names is None:
            base = part.base(filters.plugins)
            entry = Entry.of(part.fixed, base.first.copy(), nominated, version)
            entry.fatal, last = {**base.fatal}, base.last
            static: Sequence[FilterView | None] = base.views
        else:
            rows = _named(table, result.node_names)
            fixed = self._fixed(rows, rejected=rejected)
            entry = Entry.of(fixed, fixed.copy(), nominated, version)
            static = [None] * len(filters.plugins)
            places = [] if rejected else list(range(len(static)))
        entry.filters, entry.active = filters, active
        for hook, scope, view in zip(filters.plugins, filters.scopes, static, strict=True):
            entry.views.append(FilterView(hook, scope) if view is None else view)
        entry.publish(state, result, key, table.names)
        if not rejected:
            runner.measure("filter", self._run_filters, entry, pod, rows, places, last)
        return entry

    def _fixed(self, named: Rows, *, rejected: bool) -> Codes:
        """Return which rows no filter looks at; ``named``: all that it does, None for all."""
        table = self.table
        fixed: Codes = table.live.values[: table.n].astype(np.int16) + np.int16(NO_NODE)
        if rejected:
            fixed[fixed == FEASIBLE] = OUTSIDE
        elif named is not None:
            outside = fixed == FEASIBLE
            outside[named] = False
            fixed[outside] = OUTSIDE
        return fixed

    def _run_filters(
        self, entry: Entry, pod: PodInfo, rows: Rows, places: Sequence[int], last: int
    ) -> None:
        """Run filters; ``last``: the number of the last other one that rejects a row."""
        runner, table, state = self._runner, self.table, entry.result.state
        fused = self._fused(entry.filters.fused, pod, rows)
        for position in places:
            hook = entry.views[position].hook
            result = fused.get(hook.plugin) or runner.filter(hook, state, pod, rows, table)
            if result is PASSES:
                continue
            entry.take(position, result, rows)
            if entry.views[position].codes is not None:
                entry.reject(position, last)
                last = max(last, position + 1)
        if entry.by_plugins is not entry.first:
            np.copyto(entry.by_plugins, entry.first)

    def _fused(
        self, fused: Callable[[PodInfo], Mapping[str, T]] | None, pod: PodInfo, rows: Rows
    ) -> Mapping[str, T]:
        """Return the results of the plugins that run as one; none of them for a part of all rows.

        Plugins are called where each is measured, and for results that kept ones are compared with.
        """
        if fused is None or rows is not None or self._runner.sampling or not self._cached:
            return {}
        try:
            return fused(pod)
        except Exception:  # noqa: BLE001 - calling the plugins one by one shows which one failed
            return {}

    def override(self, entry: Entry, pod: PodInfo, rows: Sequence[int] | None = None) -> None:
        """Reject the rows (None: of all) where the pod does not fit with the nominated pods."""
        nominated = entry.nominated
        assert nominated is not None, "the pod gives way to nominated pods"
        pods_on = nominated.on(rows)
        if pods_on or entry.overrides:
            result = entry.result
            dry_run, state, overlay = entry.filters.dry_run, result.state, nominated.overlay
            passed = {row: pods for row, pods in pods_on.items() if not entry.by_plugins[row]}
            rejections = dry_run.rejections_with(overlay, state, pod, passed, passed=True)
            if len(passed) < len(pods_on):
                others = {row: pods for row, pods in pods_on.items() if row not in passed}
                rejections |= dry_run.rejections_with(overlay, state, pod, others)
            entry.override(rejections, rows)

    # Scores.

    def score_all(
        self, entry: Entry, pod: PodInfo, part: static_part.StaticPart | None = None
    ) -> None:
        """Score all feasible rows.

        As upstream does not score where there is no choice, a plugin that fails then does no harm.
        """
        result = entry.result
        feasible = (entry.first == FEASIBLE).nonzero()[0]
        entry.call_all_plugins()
        if result.scoring is not None or result.broken is not None:
            entry.result = Evaluation(result.state, result.filtering)
        entry.shares_scores = True
        if not feasible.size:
            return
        try:
            self._score_rows(entry, pod, feasible, part)
        except PluginError as error:
            if feasible.size == 1:
                scoring = Scoring.of_one(feasible.item(), len(entry.fixed))
                entry.result = replace(result, scoring=scoring, broken=None)
            else:
                entry.result = replace(result, scoring=None, broken=error)

    def scored_again(self, result: Evaluation, pod: PodInfo) -> Evaluation:
        """Return a result with other feasible rows, which are scored anew."""
        entry = Entry.of(result.filtering.first, result.filtering.first)
        entry.result, entry.active = result, self.sets.active(NONE)
        self.score_all(entry, pod)
        return entry.result

    def _score_rows(
        self,
        entry: Entry,
        pod: PodInfo,
        feasible: NDArray[np.intp],
        part: static_part.StaticPart | None,
    ) -> None:
        runner, state, n, active = self._runner, entry.result.state, len(entry.fixed), entry.active
        static = None if part is None else part.scores
        state.write(Feasible(feasible))
        hooks = active.hooks["pre_score"] if static is None else active.preparing_pre_score
        result = runner.run("pre_score", state, pod, hooks=hooks)
        if result.status.code is not Code.SUCCESS:
            status = result.status
            raise PluginError(f'running PreScore plugin "{status.plugin}": {status.message()}')
        skipped = result.skipped | active.scores_nothing
        if static is not None:
            skipped |= static.skipped
        scorers, static_views = self.sets.scorers(skipped), {} if static is None else static.views
        weights: dict[str, int] = {}
        for weigh in self._weights:
            weights.update(weigh(pod) or ())
        views = [
            static_views.get(plugin.hook.plugin)
            or ScoreView(plugin, weights.get(plugin.hook.plugin, plugin.hook.weight))
            for plugin in scorers.plugins
        ]
        if static is not None and static.hold(entry.first, feasible.size):
            places, total = scorers.dynamic, static.total
        else:
            places, total = list(range(len(views))), np.zeros(n, np.int64)
            if static is not None:  # the raw scores are the same, but other rows are feasible
                views = [view.copy() for view in views]
        pending = scorers, views, places, total
        total = runner.measure("score", self._run_scores, entry, pod, pending, feasible)
        entry.totals = Totals(total, entry.first)
        scoring = Scoring(read_only(total), tuple(views), skipped, totals=entry.totals)
        entry.result = Evaluation(state, entry.result.filtering, scoring)

    def _run_scores(
        self,
        entry: Entry,
        pod: PodInfo,
        pending: _Pending,
        feasible: NDArray[np.intp],
    ) -> Scores:
        """Run the score plugins that are pending; return the whole total."""
        scorers, views, places, total = pending
        state, n = entry.result.state, len(entry.fixed)
        rows = None if feasible.size >= thresholds.SPARSE * n else feasible
        fused = self._fused(scorers.fused, pod, rows)
        added = False
        for position in places:
            view = views[position]
            plugin = view.plugin
            if not view.whole:
                raw = fused.get(plugin.hook.plugin)
                if raw is None:
                    own = feasible if plugin.metered and feasible.size < n else rows
                    self.run_score(view, state, pod, own, n)
                else:
                    view.raw, view.shared, view.whole = raw, True, True
            if not plugin.plain:
                self.normalize(entry, view, pod, feasible)
            weighted = view.raw if plugin.plain and view.weight == 1 else view.weighted()
            total = np.add(total, weighted, out=total if added else None)
            added = True
        if not added:
            total = total.copy()
        if feasible.size < n:
            np.putmask(total, entry.first != FEASIBLE, CLOSED)  # half the time of an assignment
        return total

    def run_score(
        self, view: ScoreView, state: CycleState, pod: PodInfo, rows: Rows, n: int
    ) -> None:
        """Write a plugin's raw scores of some rows, or of all (None)."""
        fresh: RawScores = self._runner.call("score", view.plugin.hook, state, pod, rows)
        if rows is None:
            view.take(fresh)
            return
        dtype = np.int64 if view.plugin.normalizer is None else fresh.dtype
        view.raw, view.shared, view.whole = np.zeros(n, dtype), False, rows.size == n
        view.raw[rows] = fresh

    def normalize(
        self, entry: Entry, view: ScoreView, pod: PodInfo, feasible: NDArray[np.intp]
    ) -> None:
        """Compute a plugin's part of the total from its raw scores of the feasible rows."""
        n = len(entry.fixed)
        everyone = feasible.size == n
        scores = view.raw if everyone else view.raw[feasible]
        if feasible.size:
            scores = self.normalized(entry, view, pod, scores)
        if everyone:
            view.part = scores * view.weight
        else:
            view.part = np.zeros(n, np.int64)
            view.part[feasible] = scores if view.weight == 1 else scores * view.weight

    def normalized(
        self, entry: Entry, view: ScoreView, pod: PodInfo, scores: RawScores
    ) -> RawScores:
        """Return raw scores normalised; the state has the feasible rows."""
        plugin = view.plugin
        if plugin.normalizer is not None:
            state = entry.result.state
            scores = self._runner.call("normalize_score", plugin.normalizer, state, pod, scores)
        if not plugin.proved:
            check_range(view.name, scores)
        return scores


def _named(table: NodeTable, names: frozenset[str] | None) -> Rows:
    """Return the rows of the nodes that PreFilter named; None where it named none."""
    if names is None:
        return None
    row_of = table.row_of
    return np.array(sorted(row_of[name] for name in names if name in row_of), np.intp)
