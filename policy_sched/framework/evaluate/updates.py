"""Updates: brings a kept evaluation up to date after changes of some rows.

Theory of operation. Each view says on which rows its result is another one now, and only that is
combined with the others:

- Filters and scores of scope STATIC are as before.
- Those of scope NODE are worked out for the changed rows: for a few rows by the compiled functions
  of `FusedRules.rows`, otherwise by calling the plugins.
- Plugins of scope CLUSTER say themselves which results change with these rows (`Incremental`), or
  run again for all rows and are compared. The same read-only array again is no change.
- Rows that the filters open or close get their totals from what is known of their scores, which is
  worked out on all changed rows that the filters of scope NODE pass.
- A normalised score is worked out for the rows whose raw score changed, as long as the bounds stay;
  otherwise for all rows.

Where anything else happens the evaluation is made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from policy_sched import framework, thresholds
from policy_sched.errors import PluginError
from policy_sched.framework.evaluate.entry import NO_ROWS, Entry
from policy_sched.framework.evaluate.passes import Passes
from policy_sched.framework.evaluate.plugin_sets import NONE
from policy_sched.framework.evaluate.views import CLOSED, FEASIBLE, ScoreView
from policy_sched.framework.runtime import Hook, Runner
from policy_sched.model import PodInfo

_ALL_PASS: Final = ()

Moves: TypeAlias = tuple[list[int], NDArray[np.intp], NDArray[np.intp]]
"""The changed rows that filters of scope NODE pass, the rows that became feasible, and those that
became infeasible."""


class Updates:
    """Updates the entries of one pipeline."""

    def __init__(self, runner: Runner, passes: Passes) -> None:
        self._runner = runner
        self._passes = passes

    def update(self, entry: Entry, pod: PodInfo, rows: list[int]) -> bool:  # noqa: C901, PLR0912 - it runs for every pod, and a call less is worth it
        """Bring the entry up to date after a change of ``rows``; False if it must be made anew.

        Raises PluginError if a filter breaks.
        """
        runner = self._runner
        if entry.shares_scores:
            entry.own_scores()
            scoring = entry.result.scoring
            skipped = None if scoring is None else scoring.skipped
            entry.row_functions = self._passes.sets.row_functions(entry.filters, skipped)
        functions = entry.row_functions
        start = 0.0 if runner.recorder is None else runner.recorder.timer()
        rejections: Sequence[framework.Rejection] | None = None
        scores: Sequence[Sequence[int]] | None = None
        if functions is not None and len(rows) <= thresholds.FEW_ROWS and not runner.sampling:
            rejections, scores = functions.update(pod, rows, entry.by_plugins)
        scored, opened, closed = rows, NO_ROWS, NO_ROWS
        nominated = entry.nominated is not None and (
            entry.filters.dry_run.node_by_node
            or not entry.overrides.keys().isdisjoint(rows)
            or entry.nominated.any_on(rows)
        )
        if rejections != _ALL_PASS or entry.filters.changing or nominated:
            moves = self._refilter(entry, pod, rows, rejections, nominated=nominated)
            if moves is None:
                return False
            scored, opened, closed = moves
        if runner.recorder is not None:
            runner.ended("filter", framework.Code.SUCCESS, start)
            start = runner.recorder.timer()
        if scores is None and functions and rejections is not None and functions.score:
            scores = functions.score(pod, scored, entry.first)[1]
        scoring = entry.result.scoring
        none_left = closed.size and np.count_nonzero(entry.first) == entry.first.size
        if scoring is None or scoring.skipped is None or none_left:
            if scoring is not None or opened.size:
                self._passes.score_all(entry, pod)
            return entry.result.broken is None
        try:
            more = opened if opened.size or closed.size else None
            if more is not None:
                self._reopen(entry, pod, opened, closed)
            if scores is None:
                self._score_rows(entry, pod, scored, more)
            else:
                gains = []
                for row, fresh in zip(scored, scores, strict=True):
                    gain = 0
                    for view, score in zip(entry.node_scores, fresh, strict=True):
                        gain += (score - view.raw.item(row)) * view.weight
                        view.raw[row] = score
                    gains.append(gain)
                entry.totals.add(scored, gains)
            wide = entry.cluster_scores or entry.pre_score
            if wide and not self._score_cluster(entry, pod, rows, more):
                return False
        except PluginError:
            return False  # a fresh evaluation says which plugin breaks, and whether it matters
        if runner.recorder is not None:
            runner.ended("score", framework.Code.SUCCESS, start)
        return True

    # Filters.

    def unchanged(
        self,
        entry: Entry,
        pod: PodInfo,
        point: str,
        hooks: tuple[Hook, ...],
        skipped: Container[str],
    ) -> bool:
        """Run PreFilter or PreScore again; False if a result is another one.

        ``skipped``: the plugins that it left out before.
        """
        narrowing = entry.result.filtering.narrowed_by
        results = self._runner.call_all(point, hooks, entry.result.state, pod)
        for hook, result in zip(hooks, results, strict=True):
            status = result
            if isinstance(result, framework.PreFilterResult):
                status = result.status
                if result.node_names is not None or hook.plugin in narrowing:
                    return False
            assert isinstance(status, framework.Status), "both points return one"
            skips = hook.plugin in skipped
            if status.code is not (framework.Code.SKIP if skips else framework.Code.SUCCESS):
                return False
        return True

    def _refilter(
        self,
        entry: Entry,
        pod: PodInfo,
        rows: list[int],
        rejections: Sequence[framework.Rejection] | None,
        *,
        nominated: bool,
    ) -> Moves | None:
        """Bring the filters up to date after a change of ``rows``; None: PreFilter must run again.

        ``rejections``: of the filters of scope NODE, None if only they can tell. ``nominated``:
        whether nominated pods have to do with one of the rows.
        """
        runner, table, filters = self._runner, self._passes.table, entry.filters
        passed, changed = rows, NO_ROWS
        if rejections != _ALL_PASS:
            changed = np.array(rows, np.intp)
            if rejections is not None and entry.put_rejections(rows, rejections):
                passed = [
                    row
                    for row, rejection in zip(rows, rejections, strict=True)
                    if rejection is None
                ]
            else:
                for place in filters.node_scoped:
                    hook = entry.views[place].hook
                    result = runner.filter(hook, entry.result.state, pod, changed, table)
                    entry.take(place, result, changed)
                passing = entry.rejecting(changed, filters.node_scoped) == FEASIBLE
                passed = changed[passing].tolist()
        if filters.changing:
            differ = self._refilter_cluster(entry, pod, rows)
            if differ is None:
                return None
            changed = np.union1d(changed, differ) if changed.size else differ
        if nominated:
            # What pods fit with the nominated ones may change elsewhere, too.
            before = entry.first == FEASIBLE
            entry.combine(changed)
            entry.override(pod, None if filters.dry_run.node_by_node else rows)
            now = entry.first == FEASIBLE
            opened, closed = (now & ~before).nonzero()[0], (before & ~now).nonzero()[0]
        elif changed.size:
            opened, closed = entry.combine(changed)
        else:
            return passed, NO_ROWS, NO_ROWS
        if opened.size or closed.size:
            entry.result.state.write(framework.Feasible(first=entry.first))
        return passed, opened, closed

    def _refilter_cluster(
        self, entry: Entry, pod: PodInfo, rows: Sequence[int]
    ) -> NDArray[np.intp] | None:
        """Run the filters that read the whole cluster; return the rows whose codes differ.

        ``rows``: those that were changed. None if PreFilter must run again.
        """
        runner, state, incremental = self._runner, entry.result.state, entry.incremental
        changed = NO_ROWS
        for place in entry.filters.changing:
            view = entry.views[place]
            update = incremental.get(view.hook.plugin) if incremental else None
            if update is not None:
                refilter: Callable[..., framework.Refiltered | None] = update.filter
                if runner.sampling:
                    refilter = partial(runner.call, "filter", Hook(view.hook.plugin, refilter))
                try:
                    refiltered = refilter(state, rows)
                except Exception:  # noqa: BLE001 - the plugin is foreign code; its filter says why
                    return None
                if refiltered is framework.SAME_CODES:
                    continue
                if refiltered is None:
                    return None
                differ = refiltered.rows
                entry.take(place, refiltered.result, differ)
            else:
                result = runner.filter(view.hook, state, pod, None, self._passes.table)
                if result.codes is view.codes:
                    continue
                before, now = (
                    0 if codes is None else codes for codes in (view.codes, result.codes)
                )
                differ = np.not_equal(before, now).nonzero()[0]
                entry.take(place, result, None)
            changed = np.union1d(changed, differ) if changed.size else differ
        return changed

    # Scores.

    def _reopen(
        self, entry: Entry, pod: PodInfo, opened: NDArray[np.intp], closed: NDArray[np.intp]
    ) -> None:
        """Write the totals of rows that became feasible, or are no longer."""
        scoring, state = entry.result.scoring, entry.result.state
        assert scoring is not None, "it was scored before"
        if closed.size:
            entry.totals.put(closed, CLOSED)
        if opened.size:
            total = np.zeros(opened.size, np.int64)
            for view in scoring.views:
                if not view.whole and view.grouped is None:
                    hook = view.plugin.hook
                    view.put(opened, self._runner.call("score", hook, state, pod, opened))
                total += view.weighted(opened)
            entry.totals.put(opened, total)
        for view in entry.normalized:
            self._renormalize(entry, view, pod, opened)

    def _score_rows(
        self, entry: Entry, pod: PodInfo, rows: Sequence[int], opened: NDArray[np.intp] | None
    ) -> None:
        """Run the plugins of scope NODE for rows; ``opened`` as in `_gained`."""
        touched, state = np.array(rows, np.intp), entry.result.state
        for view in entry.node_scores:
            gain: framework.RawScores = NO_ROWS
            if touched.size:
                raw = self._runner.call("score", view.plugin.hook, state, pod, touched)
                gain = view.put(touched, raw)
            self._gained(entry, view, pod, touched, gain, opened)

    def _score_cluster(
        self, entry: Entry, pod: PodInfo, rows: Sequence[int], opened: NDArray[np.intp] | None
    ) -> bool:
        """Bring the scores up to date that read the whole cluster; False if that is not possible.

        ``rows``: those that were changed. ``opened`` as in `_gained`.
        """
        runner, state, scoring = self._runner, entry.result.state, entry.result.scoring
        skipped = NONE if scoring is None else scoring.skipped or NONE
        if entry.pre_score and not self.unchanged(
            entry, pod, "pre_score", entry.pre_score, skipped
        ):
            return False
        for view in entry.cluster_scores:
            plugin, before = view.plugin, view.raw
            update = entry.incremental.get(plugin.hook.plugin) if entry.incremental else None
            if update is not None:
                grouped = update.scores
                if grouped is None:
                    return False
                rescore: Callable[..., framework.Rescored | None] = grouped.update
                if runner.sampling:
                    rescore = partial(runner.call, "score", Hook(plugin.hook.plugin, rescore))
                try:
                    rescored = rescore(state, rows)
                except Exception:  # noqa: BLE001 - the plugin is foreign code; its score says why
                    return False
                if rescored is None:
                    return False
                entry.totals.add_groups(grouped, rescored, view.weight)
                continue
            raw: framework.RawScores = runner.call("score", plugin.hook, state, pod, None)
            changed = NO_ROWS
            if raw is not before:
                changed = (raw != before).nonzero()[0]
                view.take(raw)
            elif raw.flags.writeable:
                return False  # it may have written to what it returned before
            self._gained(entry, view, pod, changed, raw[changed] - before[changed], opened)
        return True

    def _gained(
        self,
        entry: Entry,
        view: ScoreView,
        pod: PodInfo,
        rows: NDArray[np.intp],
        gain: framework.RawScores,
        opened: NDArray[np.intp] | None,
    ) -> None:
        """Add to the totals what follows from higher or lower raw scores of rows.

        ``opened``: the rows that became feasible; None if the same rows are feasible as before.
        """
        if view.plugin.plain:
            entry.totals.add_some(rows, gain * view.weight)
            return
        changed = rows[(gain != 0) & (entry.first[rows] == FEASIBLE)]
        if opened is not None:
            self._renormalize(entry, view, pod, np.union1d(changed, opened))
        elif changed.size or view.plugin.kernel.normalizes_by_row:
            self._renormalize(entry, view, pod, changed)

    def _renormalize(
        self, entry: Entry, view: ScoreView, pod: PodInfo, rows: NDArray[np.intp]
    ) -> None:
        """Normalise a plugin's scores again.

        ``rows``: the feasible ones that have another raw score or were not feasible before.
        """
        state = entry.result.state
        before, feasible = view.part, state.read(framework.Feasible)
        assert before is not None, "it was normalised before"
        assert feasible is not None, "it is there from PreScore on"
        alone = self._normalized_alone(entry, view, pod, rows, feasible.rows.size)
        if alone is None:
            self._passes.normalize(state, view, pod, feasible.rows)
            view.find_bounds(feasible.rows)
            entry.totals.add_all(view.weighted() - before)
        else:
            part = view.part = before.copy() if view.shared else before
            gain = alone * view.weight - part[rows]
            part[rows] += gain
            entry.totals.add_some(rows, gain)

    def _normalized_alone(
        self, entry: Entry, view: ScoreView, pod: PodInfo, rows: NDArray[np.intp], feasible: int
    ) -> framework.Scores | None:
        """Return the normalised scores of rows; None if other rows may have another one, too."""
        plugin, bounds, raw = view.plugin, view.bounds, view.raw[rows]
        state = entry.result.state
        if plugin.normalizer is None:
            return self._passes.normalized(state, view, pod, raw)
        # A plugin may keep what it returned for as many rows as there are feasible ones.
        if plugin.kernel.normalizes_by_row or rows.size + 2 == feasible:
            return None
        if bounds is None or not view.same_bounds(entry.first):
            return None
        if rows.size and (raw.min() < bounds[0] or raw.max() > bounds[1]):
            return None
        if not rows.size:
            return np.empty(0, np.int64)
        return self._passes.normalized(state, view, pod, np.append(raw, bounds[:2]))[:-2]

    # Plugins that update results themselves.

    def find_incremental(self, entry: Entry, pod: PodInfo) -> None:
        """Look for what updates the results of plugins of the whole cluster from now on."""
        scoring, incremental = entry.result.scoring, dict[str, framework.Incremental]()
        if entry.nominated is not None or scoring is None or scoring.skipped is None:
            return
        signatures = self._runner.pipeline.signatures
        for plugin in {hook.plugin: None for hook in (*entry.pre_filter, *entry.pre_score)}:
            signature = signatures.get(plugin)
            if signature is not None and signature.incremental is not None:
                update = signature.incremental(entry.result.state, pod)
                if update is not None:
                    incremental[plugin] = update
        entry.incremental = incremental
        if incremental:
            if entry.shares_scores:
                entry.own_scores()
            entry.pre_filter = tuple(h for h in entry.pre_filter if h.plugin not in incremental)
            entry.pre_score = tuple(h for h in entry.pre_score if h.plugin not in incremental)
            for view in entry.cluster_scores:
                if view.name in incremental:
                    view.grouped = incremental[view.name].scores
