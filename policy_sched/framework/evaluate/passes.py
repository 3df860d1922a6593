"""Passes: runs filter and score plugins over all rows; updates.py does so for changed rows.

The results are written into an `Entry`. Static plugins are not run where a `StaticPart` has
their results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import TypeVar

import numpy as np
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
    Scope,
    Scores,
)
from policy_sched.framework.evaluate.entry import Entry, read_only
from policy_sched.framework.evaluate.nominated_pods import NominatedPods
from policy_sched.framework.evaluate.plugin_sets import NONE, ActivePlugins, FusedScores, PluginSets
from policy_sched.framework.evaluate.pod_signature import Key
from policy_sched.framework.evaluate.results import Evaluation, Explanations, FilteredNodes, Scoring
from policy_sched.framework.evaluate.static_part import StaticPart, StaticParts, StaticScores
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


class Passes:
    """The plugins of one pipeline over one node table; static results are kept if ``cached``."""

    def __init__(self, runner: Runner, table: NodeTable, *, cached: bool) -> None:
        self._runner = runner
        self.table = table
        self.sets = PluginSets(runner)
        self._cached = cached
        signed = cached and runner.pipeline.signature()
        self._parts = StaticParts(runner, table) if signed else None
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
                entry.override(pod)
            self.score_all(entry, pod, part)
            if key is not None and parts is not None and (part is None or part.scores is None):
                part = part or parts.learn(key, entry, pod)
                if part is not None:
                    part.scores = self._static_scores(parts.plugins, entry, pod)
        return entry

    # Filters.

    def _filter_all(
        self,
        pod: PodInfo,
        key: Key | None,
        nominated: NominatedPods | None,
        active: ActivePlugins,
        part: StaticPart | None,
    ) -> Entry:
        runner, table, state = self._runner, self.table, CycleState()
        version = table.journal.version
        hooks = active.pre_filter if part is None else active.preparing_pre_filter
        result = runner.run("pre_filter", state, pod, hooks=hooks)
        rejected = result.status.code is not Code.SUCCESS
        skipped = NONE if part is None else part.skipped
        if result.plugin:  # it rejects the pod, and no plugin after it would have run
            before = takewhile(lambda hook: hook.plugin != result.plugin, active.pre_filter)
            skipped = skipped.intersection([hook.plugin for hook in before])
        filters = self.sets.filters(result.skipped | skipped, active.inactive)
        rows, places = None, filters.dynamic
        if part is None or rejected or result.node_names is not None:
            rows = _named(table, NONE if rejected else result.node_names)
            places = [] if rejected else filters.places
            part = StaticPart(_fixed(table, rows), [None] * len(filters.hooks))
        fixed, fatal, dry_run = part.fixed, {**part.fatal}, filters.dry_run
        known = zip(filters.hooks, part.views, strict=True)
        views = [view or FilterView(hook) for hook, view in known]
        entry = Entry(fixed, fixed, fixed, filters, active, nominated, version, views, fatal)
        if not rejected:
            runner.measure("filter", self._run_filters, entry, state, pod, rows, places)
        first = entry.first = entry.rejecting(None)
        entry.by_plugins = first.copy()
        filtering = FilteredNodes(
            read_only(first),
            read_only(entry.by_plugins),
            views,
            fatal,
            entry.overrides,
            dry_run,
            table.names,
            Explanations(len(first)),
            result.status if rejected else None,
            dry_run.skipped,
            result.narrowed_by,
            active.hooks,
            key=key,
        )
        entry.result = Evaluation(state, filtering)
        return entry

    def _run_filters(
        self, entry: Entry, state: CycleState, pod: PodInfo, rows: Rows, places: Sequence[int]
    ) -> None:
        runner, fused = self._runner, self._fused(entry.filters.fused, pod, rows)
        for place in places:
            hook = entry.views[place].hook
            result = fused.get(hook.plugin) or runner.filter(hook, state, pod, rows, self.table)
            if result is not PASSES:
                entry.take(place, result, rows)

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

    # Scores.

    def score_all(self, entry: Entry, pod: PodInfo, part: StaticPart | None = None) -> None:
        """Score all feasible rows.

        As upstream does not score where there is no choice, a plugin that fails then does no harm.
        """
        result, scoring, broken = entry.result, None, None
        feasible = (entry.first == FEASIBLE).nonzero()[0]
        entry.incremental, entry.shares_scores = None, True
        entry.pre_filter = entry.active.changing_pre_filter
        entry.pre_score = entry.active.cluster_pre_score
        if feasible.size:
            try:
                scoring = self._scored(entry, pod, feasible, None if part is None else part.scores)
            except PluginError as error:
                if feasible.size == 1:
                    scoring = Scoring.of_one(feasible.item(), len(entry.fixed))
                else:
                    broken = error
        entry.result = Evaluation(result.state, result.filtering, scoring, broken)

    def scored_again(self, result: Evaluation, pod: PodInfo) -> Evaluation:
        """Return a result with other feasible rows, which are scored anew."""
        first = result.filtering.first
        filters, active = self.sets.filters(NONE, NONE), self.sets.active(NONE)
        entry = Entry(first, first, first, filters, active)
        entry.result = result
        self.score_all(entry, pod)
        return entry.result

    def _scored(
        self, entry: Entry, pod: PodInfo, feasible: NDArray[np.intp], static: StaticScores | None
    ) -> Scoring:
        runner, state, active = self._runner, entry.result.state, entry.active
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
            pending, total = [views[place] for place in scorers.dynamic], static.total
        else:
            if static is not None:  # the raw scores are the same, but other rows are feasible
                views = [view.copy() for view in views]
            pending, total = views, np.zeros(len(entry.fixed), np.int64)
        fused = scorers.fused
        total = runner.measure("score", self._sum, total, entry, pod, feasible, pending, fused)
        entry.totals = Totals(total, entry.first)
        return Scoring(read_only(total), tuple(views), skipped, totals=entry.totals)

    def _sum(
        self,
        total: Scores,
        entry: Entry,
        pod: PodInfo,
        feasible: NDArray[np.intp],
        views: Sequence[ScoreView],
        fused: FusedScores | None,
    ) -> Scores:
        """Run score plugins; return the total, to which it adds what their views then have."""
        state, n = entry.result.state, len(total)
        rows = None if feasible.size >= thresholds.SPARSE * n else feasible
        raw_of = self._fused(fused, pod, rows)
        for view in views:
            plugin = view.plugin
            if not view.whole:
                raw, asked = raw_of.get(plugin.hook.plugin), rows
                if raw is None:
                    asked = feasible if plugin.metered and feasible.size < n else rows
                    raw = self._runner.call("score", plugin.hook, state, pod, asked)
                if asked is None:
                    view.raw, view.shared, view.whole = raw, True, True
                else:
                    dtype = np.int64 if plugin.normalizer is None else raw.dtype
                    view.raw, view.shared = np.zeros(n, dtype), False
                    view.raw[asked] = raw
            if not plugin.plain:
                self.normalize(state, view, pod, feasible)
            part = view.raw if plugin.plain and view.weight == 1 else view.weighted()
            total = np.add(total, part, out=total if total.flags.writeable else None)
        if not total.flags.writeable:  # it is a static part's
            total = total.copy()
        if feasible.size < n:
            np.putmask(total, entry.first != FEASIBLE, CLOSED)  # half the time of an assignment
        return total

    def normalize(
        self, state: CycleState, view: ScoreView, pod: PodInfo, feasible: NDArray[np.intp]
    ) -> None:
        """Compute a plugin's part of the total from its raw scores of the feasible rows."""
        everyone = feasible.size == len(view.raw)
        scores = self.normalized(state, view, pod, view.raw if everyone else view.raw[feasible])
        if everyone:
            view.part = scores * view.weight
        else:
            view.part = np.zeros(len(view.raw), np.int64)
            view.part[feasible] = scores if view.weight == 1 else scores * view.weight

    def normalized(
        self, state: CycleState, view: ScoreView, pod: PodInfo, scores: RawScores
    ) -> RawScores:
        """Return raw scores normalised; the state has the feasible rows."""
        plugin = view.plugin
        if plugin.normalizer is not None:
            scores = self._runner.call("normalize_score", plugin.normalizer, state, pod, scores)
        if not plugin.proved:
            check_range(view.name, scores)
        return scores

    def _static_scores(
        self, plugins: frozenset[str], entry: Entry, pod: PodInfo
    ) -> StaticScores | None:
        """Return the static scores of an evaluation; None if some cannot be kept.

        ``plugins``: the static ones. Scores of some rows alone are not kept, nor those that
        normalisation makes of more than the least and the greatest.
        """
        scoring = entry.result.scoring
        if scoring is None or scoring.skipped is None:
            return None
        rows = np.flatnonzero(entry.rejecting(None, entry.filters.static) == FEASIBLE)
        state = entry.result.state.clone()
        state.write(Feasible(rows))
        views, total = dict[str, ScoreView](), np.zeros(len(entry.fixed), np.int64)
        for view in scoring.views:
            plugin = view.plugin
            if plugin.durability is not Scope.STATIC:
                continue
            if not view.whole or (
                plugin.normalizer is not None and not plugin.kernel.normalizes_by_extremes
            ):
                return None
            static = views[view.name] = ScoreView(plugin, view.weight)
            static.take(view.raw)
            if not plugin.plain:
                try:
                    self.normalize(state, static, pod, rows)
                except PluginError:
                    return None
                static.find_bounds(rows)
            total += static.weighted()
        total.flags.writeable = False
        return StaticScores(views, scoring.skipped & plugins, total, rows.size)


def _fixed(table: NodeTable, named: Rows) -> Codes:
    """Return which rows no filter looks at; ``named``: all that it does, None for all."""
    fixed: Codes = table.live.values[: table.n].astype(np.int16) + np.int16(NO_NODE)
    if named is not None:
        outside = fixed == FEASIBLE
        outside[named] = False
        fixed[outside] = OUTSIDE
    return fixed


def _named(table: NodeTable, names: frozenset[str] | None) -> Rows:
    """Return the rows of the nodes that PreFilter named; None where it named none."""
    if names is None:
        return None
    row_of = table.row_of
    return np.array(sorted(row_of[name] for name in names if name in row_of), np.intp)
