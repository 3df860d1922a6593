"""Passes: runs filter and score plugins over all rows; patches.py does for those that changed.

The results are written into an `Entry`; whether a pass is needed at all is up to the Evaluator,
whose table of changes says which one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, cast

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import PluginError
from policy_sched.framework import (
    PASSES,
    Code,
    Codes,
    CycleState,
    Feasible,
    FilterResult,
    RawScores,
    Rows,
    Scores,
)
from policy_sched.framework.evaluate import static_part
from policy_sched.framework.evaluate.entry import UNKNOWN, Entry, read_only
from policy_sched.framework.evaluate.nominated_pods import NominatedPods
from policy_sched.framework.evaluate.plugin_sets import NONE, Busy, Filters, PluginSets, Scorers
from policy_sched.framework.evaluate.pod_signature import Key
from policy_sched.framework.evaluate.ranking import Ranking
from policy_sched.framework.evaluate.results import (
    FEASIBLE,
    NO_NODE,
    OUTSIDE,
    Evaluation,
    PluginScores,
    Scoring,
    check_range,
)
from policy_sched.framework.runtime import Hook, Runner
from policy_sched.model import PodInfo

#: Below this share of feasible rows they are gathered first instead of scoring every row.
GATHER_BELOW: Final = 0.25
_NO_RESULTS: Final[Mapping[str, FilterResult]] = MappingProxyType({})
_NO_SCORES: Final[Mapping[str, RawScores]] = MappingProxyType({})


class Passes:
    """The plugins of one pipeline over one node table; results are cached if ``cached``."""

    def __init__(self, runner: Runner, table: NodeTable, *, cached: bool) -> None:
        self.runner = runner
        self._table = table
        self._sets = PluginSets(runner)
        self._cached = cached
        self._parts = (
            static_part.StaticParts(runner, table)
            if cached and runner.pipeline.signature()
            else None
        )
        self._everywhere: NDArray[np.intp] = np.empty(0, np.intp)

    # All rows.

    def fresh(self, pod: PodInfo, key: Key | None, nominated: NominatedPods | None) -> Entry:
        """Return the evaluation of a pod on all nodes.

        ``key``: the signature of the pods that share it, None where none do.
        """
        state, parts, part = CycleState(), self._parts, None
        if key is None:
            busy = self._sets.busy(NONE)
        else:
            busy = self._sets.busy_with(key)
            part = None if parts is None else parts.of(key, pod)
        entry = self._filter_all(state, pod, key, nominated, busy, part)
        if entry.result.filtering.rejection is None:
            if nominated is not None:
                self.override(entry, pod)
            self.score_all(entry, pod, busy, part)
            scored = entry.result.scoring is not None
            unknown = part is None or (part.scores is None and scored)
            if unknown and key is not None and parts is not None:
                parts.learn(key, entry, pod)
        return entry

    def _filter_all(
        self,
        state: CycleState,
        pod: PodInfo,
        key: Key | None,
        nominated: NominatedPods | None,
        busy: Busy,
        part: static_part.StaticPart | None,
    ) -> Entry:
        runner, table = self.runner, self._table
        version = table.journal.version
        hooks = busy.pre_filter if part is None else busy.preparing_pre_filter
        found = runner.run("pre_filter", state, pod, hooks=hooks)
        rejected = found.status.code is not Code.SUCCESS
        rows: Rows = None
        base: static_part.StaticFilters | None = None
        if part is None:
            filters = self._sets.filters(found.skipped, busy.idle)
        else:
            filters = part.filters(found, busy, self._sets)
        if part is not None and not rejected and found.node_names is None:
            base = part.base(filters.plugins)
            entry = Entry(part.fixed, nominated, version, base.first.copy())
            entry.rejects = base.rejects
            entry.codes, entry.describes = base.codes.copy(), base.describes.copy()
            if base.fatal:
                entry.fatal = base.fatal.copy()
        else:
            rows = _named(table, found.node_names)
            entry = Entry(self._fixed(rows, rejected=rejected), nominated, version)
        entry.publish(state, found, filters.dry_run, key, table.names, busy.hooks)
        entry.wide_pre_filter, entry.wide_pre_score = busy.wide_pre_filter, busy.wide_pre_score
        entry.scopes, entry.moving, entry.wide = filters.scopes, filters.moving, filters.wide
        if base is not None:
            runner.measure("filter", self._ask_moving_filters, entry, pod, base.last, filters)
        elif not rejected:
            runner.measure("filter", self._ask_filters, entry, pod, rows, filters)
        return entry

    def _fixed(self, named: Rows, *, rejected: bool) -> Codes:
        """Return which rows no filter looks at; ``named``: all that it does, None for all."""
        table = self._table
        fixed: Codes = table.live.values[: table.n].astype(np.int16) + np.int16(NO_NODE)
        if rejected:
            fixed[fixed == FEASIBLE] = OUTSIDE
        elif named is not None:
            outside = fixed == FEASIBLE
            outside[named] = False
            fixed[outside] = OUTSIDE
        return fixed

    def _ask_moving_filters(self, entry: Entry, pod: PodInfo, last: int, filters: Filters) -> None:
        """Run the filters that a static part has no results of."""
        plugins, state = filters.plugins, entry.result.state
        fused = self._fused_filters(pod, filters)
        for index in entry.moving:
            hook = plugins[index]
            verdict = fused.get(hook.plugin) or self.ask_filter(hook, state, pod, None)
            if verdict is PASSES:
                continue
            entry.describes[index] = verdict.describe
            if verdict.fatal:
                entry.fatal[index] = verdict.fatal, verdict.names_node
            if verdict.codes is not None:
                codes = of_all_rows(verdict.codes, None, len(entry.fixed))
                assert codes is not None, "the filter rejects rows"
                entry.reject(index, codes, last)
                last = max(last, index + 1)

    def _fused_filters(self, pod: PodInfo, filters: Filters) -> Mapping[str, FilterResult]:
        """Return the results of the filters that run as one, for all rows; none are left out.

        Plugins are called where each is measured, and for results that kept ones are compared with.
        """
        fused = filters.fused
        if fused is None or self.runner.sampling or not self._cached:
            return _NO_RESULTS
        try:
            return fused(pod)
        except Exception:  # noqa: BLE001 - calling the plugins one by one shows which one failed
            return _NO_RESULTS

    def _ask_filters(self, entry: Entry, pod: PodInfo, rows: Rows, filters: Filters) -> None:
        fused = self._fused_filters(pod, filters) if rows is None else _NO_RESULTS
        for index, hook in enumerate(filters.plugins):
            verdict = fused.get(hook.plugin) or self.ask_filter(hook, entry.result.state, pod, rows)
            entry.codes.append(of_all_rows(verdict.codes, rows, len(entry.fixed)))
            entry.describes.append(verdict.describe)
            if verdict.fatal:
                entry.fatal[index] = verdict.fatal, verdict.names_node
        entry.combine()

    def ask_filter(self, hook: Hook, state: CycleState, pod: PodInfo, rows: Rows) -> FilterResult:
        """Return a filter's result for some rows, or all (None). PluginError if it breaks."""
        verdict: FilterResult = self.runner.call("filter", hook, state, pod, rows, self._table)
        if verdict.error is not None:
            raise PluginError(f'running "{hook.plugin}" filter plugin: {verdict.error}')
        return verdict

    def override(self, entry: Entry, pod: PodInfo, rows: Sequence[int] | None = None) -> None:
        """Reject the rows (None: of all) where the pod does not fit with the nominated pods."""
        nominated = entry.nominated
        assert nominated is not None, "the pod gives way to nominated pods"
        there = nominated.on(rows)
        if there or entry.overrides:
            found = entry.result
            dry_run, state = found.filtering.filter_dry_run, found.state
            passed = {row: pods for row, pods in there.items() if not entry.by_plugins[row]}
            rejections = nominated.rejections(dry_run, state, pod, passed, passed=True)
            if len(passed) < len(there):
                others = {row: pods for row, pods in there.items() if row not in passed}
                rejections |= nominated.rejections(dry_run, state, pod, others)
            entry.override(rejections, rows)

    def score_all(
        self,
        entry: Entry,
        pod: PodInfo,
        busy: Busy | None = None,
        part: static_part.StaticPart | None = None,
    ) -> None:
        """Score all feasible rows; ``busy``: the plugins that have to do with the pod, None: all.

        As upstream does not score where there is no choice, a plugin that fails then does no harm.
        """
        result = entry.result
        feasible = self._feasible(entry)
        entry.call_all_plugins()
        entry.rejects = True  # rows may be shut from now on
        if result.scoring is not None or result.broken is not None:
            entry.result = Evaluation(result.state, result.filtering)
        entry.moving_scores, entry.wide_scores, entry.row_functions = [], [], UNKNOWN
        entry.outdated = None
        if not feasible.size:
            return
        try:
            static = None if part is None else part.scores
            self._score_rows(entry, pod, feasible, busy or self._sets.busy(NONE), static)
        except PluginError as error:
            if feasible.size == 1:
                scoring = Scoring.of_one(feasible.item(), len(entry.fixed))
                entry.result = replace(result, scoring=scoring, broken=None)
            else:
                entry.result = replace(result, scoring=None, broken=error)

    def _feasible(self, entry: Entry) -> NDArray[np.intp]:
        """Return the feasible rows, which may be shared by evaluations."""
        first = entry.first
        if entry.rejects and np.count_nonzero(first):
            feasible: NDArray[np.intp] = (first == FEASIBLE).nonzero()[0]
            return feasible
        if self._everywhere.size != first.size:
            self._everywhere = np.arange(first.size)
            self._everywhere.flags.writeable = False
        return self._everywhere

    def _score_rows(
        self,
        entry: Entry,
        pod: PodInfo,
        feasible: NDArray[np.intp],
        busy: Busy,
        static: static_part.StaticScores | None,
    ) -> None:
        runner, state = self.runner, entry.result.state
        state.write(Feasible(feasible))
        hooks = busy.hooks["pre_score"] if static is None else busy.preparing_pre_score
        found = runner.run("pre_score", state, pod, hooks=hooks)
        if found.status.code is not Code.SUCCESS:
            status = found.status
            raise PluginError(f'running PreScore plugin "{status.plugin}": {status.message()}')
        if static is None:
            skipped = found.skipped | busy.scores_nothing
            scorers = self._sets.scorers(skipped)
            plugins = tuple([PluginScores(one) for one in scorers.plugins])
        else:
            placed = static.placed(found.skipped, busy, self._sets)
            skipped, scorers = placed.skipped, placed.scorers
            each = [*placed.known]
            for place in scorers.changing:
                each[place] = PluginScores(scorers.plugins[place])
            plugins = tuple(cast("list[PluginScores]", each))
        entry.moving_scores = [plugins[place] for place in scorers.moving]
        if scorers.wide:
            entry.wide_scores = [plugins[place] for place in scorers.wide]
        if static is not None and static.hold(entry.first, feasible.size):
            args = (entry, scorers, plugins, pod, feasible, static.total)
            entry.total = runner.measure("score", self._ask_moving_scores, *args)
            entry.ranking = Ranking(entry.total)
            scoring = Scoring(read_only(entry.total), plugins, skipped, ranking=entry.ranking)
            entry.result = Evaluation(state, entry.result.filtering, scoring)
            return
        entry.total = np.zeros(len(entry.fixed), np.int64)
        entry.ranking = Ranking(entry.total)
        scoring = Scoring(read_only(entry.total), plugins, skipped, ranking=entry.ranking)
        entry.result = replace(entry.result, scoring=scoring)
        if static is not None:
            entry.own_scores()
        runner.measure("score", self._ask_scores, entry, scorers, pod, feasible)

    def _ask_moving_scores(
        self,
        entry: Entry,
        scorers: Scorers,
        plugins: tuple[PluginScores, ...],
        pod: PodInfo,
        feasible: NDArray[np.intp],
        total: Scores,
    ) -> Scores:
        """Run the score plugins that a static part has no scores of; return the whole total.

        ``total``: that of the part, which is not changed.
        """
        state, n = entry.result.state, len(entry.fixed)
        rows = None if feasible.size >= GATHER_BELOW * n else feasible
        fused = self._fused_scores(scorers, pod, rows)
        added = False
        for place in scorers.changing:
            plugin = plugins[place]
            raw, facts = fused.get(plugin.hook.plugin), plugin.facts
            if raw is None:
                own = feasible if facts.metered and feasible.size < n else rows
                self.ask_score(plugin, state, pod, own, n)
            else:
                plugin.raw, plugin.shared, plugin.whole = raw, True, True
            if facts.normalizer is not None or not facts.proved:
                self.normalize(entry, plugin, pod, feasible)
            plain = plugin.part is None and plugin.hook.weight == 1
            own_part = plugin.raw if plain else plugin.weighted()
            total = np.add(total, own_part, out=total if added else None)
            added = True
        if not added:
            total = total.copy()
        if feasible.size < n:
            np.putmask(total, entry.first != FEASIBLE, -1)  # half the time of an assignment
        return total

    def _fused_scores(self, scorers: Scorers, pod: PodInfo, rows: Rows) -> Mapping[str, RawScores]:
        """Return the scores of the plugins that run as one; none of them for a part of all rows."""
        fused = scorers.fused
        if fused is None or rows is not None or self.runner.sampling or not self._cached:
            return _NO_SCORES
        try:
            return fused(pod)
        except Exception:  # noqa: BLE001 - calling the plugins one by one shows which one failed
            return _NO_SCORES

    def _ask_scores(
        self, entry: Entry, scorers: Scorers, pod: PodInfo, feasible: NDArray[np.intp]
    ) -> None:
        scoring, state, n = entry.result.scoring, entry.result.state, len(entry.fixed)
        assert scoring is not None, "it is being made"
        rows = None if feasible.size >= GATHER_BELOW * n else feasible
        fused = self._fused_scores(scorers, pod, rows)
        for plugin in scoring.plugins:
            own = feasible if plugin.facts.metered and feasible.size < n else rows
            raw = fused.get(plugin.hook.plugin)
            if raw is not None:
                plugin.raw, plugin.shared, plugin.whole = raw, True, True
                plugin.known_flat = None
            elif not plugin.whole:
                self.ask_score(plugin, state, pod, own, n)
            self.normalize(entry, plugin, pod, feasible)
        entry.add_up(feasible)

    def ask_score(
        self, plugin: PluginScores, state: CycleState, pod: PodInfo, rows: Rows, n: int
    ) -> None:
        """Write a plugin's raw scores of some rows, or of all (None)."""
        plugin.known_flat = None
        if rows is None:
            plugin.raw = self.runner.call("score", plugin.hook, state, pod, None)
            plugin.shared = plugin.whole = True
            return
        fresh: RawScores = self.runner.call("score", plugin.hook, state, pod, rows)
        dtype = np.int64 if plugin.facts.normalizer is None else fresh.dtype
        plugin.raw, plugin.shared, plugin.whole = np.zeros(n, dtype), False, rows.size == n
        plugin.raw[rows] = fresh

    def normalize(
        self,
        entry: Entry,
        plugin: PluginScores,
        pod: PodInfo,
        feasible: NDArray[np.intp],
        *,
        moved: bool = True,
    ) -> None:
        """Compute a plugin's part of the total from its raw scores.

        ``moved``: whether other rows may be feasible than when it was computed the last time.
        """
        facts = plugin.facts
        plugin.extremes = plugin.extreme_rows = None
        if facts.normalizer is None and facts.proved:
            return
        n, state = len(entry.fixed), entry.result.state
        everyone = feasible.size == n
        scores = plugin.raw if everyone else plugin.raw[feasible]
        if facts.normalizer is not None and feasible.size:
            known = state.read(Feasible)
            if known is None or not known.holds(feasible):
                state.write(Feasible(feasible))
            scores = self.runner.call("normalize_score", facts.normalizer, state, pod, scores)
            if scores is plugin.normalized and not (moved or scores.flags.writeable):
                return
            plugin.normalized = scores
        if not facts.proved:
            check_range(plugin.hook.plugin, scores)
        if everyone:
            plugin.part = scores * plugin.hook.weight
        else:
            weight = plugin.hook.weight
            if feasible.size and plugin.flat:
                plugin.part = np.full(n, scores.item(0) * weight, np.int64)
            else:
                plugin.part = np.zeros(n, np.int64)
                plugin.part[feasible] = scores if weight == 1 else scores * weight


def of_all_rows(codes: Codes | None, rows: Rows, n: int) -> Codes | None:
    """Return the codes of `rows` as codes of all rows; the plugin's own only if it is read-only."""
    if codes is None or rows is None:
        return codes.copy() if codes is not None and codes.flags.writeable else codes
    full = np.zeros(n, np.int16)
    full[rows] = codes
    return full


def _named(table: NodeTable, names: frozenset[str] | None) -> Rows:
    """Return the rows of the nodes that PreFilter named; None where it named none."""
    if names is None:
        return None
    row_of = table.row_of
    return np.array(sorted(row_of[name] for name in names if name in row_of), np.intp)
