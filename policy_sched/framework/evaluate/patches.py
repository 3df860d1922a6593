"""Patches: brings an evaluation up to date after changes of some rows, by calling plugins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from policy_sched.errors import PluginError
from policy_sched.framework import (
    SAME_CODES,
    Code,
    Feasible,
    FilterResult,
    GroupedScores,
    Incremental,
    PreFilterResult,
    RawScores,
    Rescored,
    Scope,
    Status,
)
from policy_sched.framework.evaluate.entry import Entry
from policy_sched.framework.evaluate.passes import Passes, of_all_rows
from policy_sched.framework.evaluate.plugin_sets import NONE
from policy_sched.framework.evaluate.ranking import MANY
from policy_sched.framework.evaluate.results import FEASIBLE, PluginScores
from policy_sched.framework.runtime import Hook
from policy_sched.model import PodInfo

#: Up to this many changed raw scores are normalised without the others.
FEW_NORMALIZED: Final = 8
_NO_ROWS: Final = np.empty(0, np.intp)


class Patches(Passes):
    """The plugins of one pipeline over one node table, over all rows or over changed ones."""

    def pre_filter_unchanged(self, entry: Entry, pod: PodInfo) -> bool:
        """Run PreFilter of plugins that read the whole cluster; False if a result changed.

        Those that update results need not run as long as they would return the same.
        """
        if entry.incremental:
            for incremental in entry.incremental.values():
                if not incremental.holds():
                    entry.call_all_plugins()
                    break
        runner, hooks = self.runner, entry.wide_pre_filter
        if not hooks:
            return True
        filtering = entry.result.filtering
        returned = runner.call_all("pre_filter", hooks, entry.result.state, pod)
        for hook, one in zip(hooks, returned, strict=True):
            result = cast("PreFilterResult", one)
            code, skipped = result.status.code, hook.plugin in filtering.skipped
            if code is not (Code.SKIP if skipped else Code.SUCCESS):
                return False
            if result.node_names is not None or hook.plugin in filtering.narrowing:
                return False
        return True

    def pre_score_unchanged(self, entry: Entry, pod: PodInfo) -> bool:
        """Run PreScore of plugins that read the whole cluster; False if a result changed.

        The state has the feasible rows.
        """
        runner, state, hooks = self.runner, entry.result.state, entry.wide_pre_score
        scoring = entry.result.scoring
        skipped = NONE if scoring is None else scoring.skipped or NONE
        returned = runner.call_all("pre_score", hooks, state, pod)
        for hook, one in zip(hooks, returned, strict=True):
            expected = Code.SKIP if hook.plugin in skipped else Code.SUCCESS
            if cast("Status", one).code is not expected:
                return False
        return True

    def update_with(self, entry: Entry, pod: PodInfo) -> None:
        """Look for what updates the results of plugins of the whole cluster from now on."""
        scoring, found = entry.result.scoring, dict[str, Incremental]()
        if entry.nominated is not None or scoring is None or scoring.skipped is None:
            return
        signatures, hooks = self.runner.pipeline.signatures, entry.wide_pre_filter
        for plugin in {hook.plugin: None for hook in (*hooks, *entry.wide_pre_score)}:
            signature = signatures.get(plugin)
            if signature is not None and signature.incremental is not None:
                incremental = signature.incremental(entry.result.state, pod)
                if incremental is not None:
                    found[plugin] = incremental
        entry.update_with(found)
        for one in entry.wide_scores if found else ():
            update = found.get(one.hook.plugin)
            if update is not None and update.scores is not None:
                one.group(update.scores)
        if not found or not entry.wide or entry.wide_scores or entry.outdated is not None:
            return
        if all(one.whole and (one.part is None or one.flat) for one in scoring.plugins):
            entry.unshut = np.zeros(len(entry.fixed), np.int64)
            for one in scoring.plugins:
                entry.unshut += one.weighted()

    def filter_wide(
        self, entry: Entry, pod: PodInfo, touched: Sequence[int]
    ) -> NDArray[np.intp] | None:
        """Run the filters that read the whole cluster; return the rows whose codes differ.

        ``touched``: the rows that were changed. None if PreFilter must run again.
        """
        filtering, state = entry.result.filtering, entry.result.state
        changed, incremental = _NO_ROWS, entry.incremental or {}
        for index in entry.wide:
            hook = filtering.plugins[index]
            update = incremental.get(hook.plugin)
            if update is not None:
                try:
                    if self.runner.sampling:
                        measured = Hook(hook.plugin, update.filter)
                        refiltered = self.runner.call("filter", measured, state, touched)
                    else:
                        refiltered = update.filter(state, touched)
                except Exception:  # noqa: BLE001 - the plugin is foreign code; its filter says why
                    return None
                if refiltered is SAME_CODES:
                    continue
                if refiltered is None:
                    return None
                rows, verdict = refiltered.rows, refiltered.result
                entry.put_codes(index, rows, verdict.codes)
                if verdict.codes is not None:
                    entry.describes[index] = verdict.describe
            else:
                verdict = self.ask_filter(hook, state, pod, None)
                fresh, kept = verdict.codes, entry.codes[index]
                if fresh is kept and (fresh is None or not fresh.flags.writeable):
                    continue
                self._put_verdict(entry, index, verdict)
                if kept is None or fresh is None:
                    differs = kept if fresh is None else fresh
                else:
                    differs = kept != fresh
                if differs is None:
                    continue
                (rows,) = differs.nonzero()
            changed = np.union1d(changed, rows) if changed.size else rows
        return changed

    def _put_verdict(self, entry: Entry, index: int, verdict: FilterResult) -> None:
        """Write a filter's codes of all rows."""
        if verdict.codes is not None:
            entry.describes[index] = verdict.describe
            if verdict.fatal:
                entry.fatal[index] = verdict.fatal, verdict.names_node
        entry.codes[index] = of_all_rows(verdict.codes, None, len(entry.fixed))

    def update_scores(
        self, entry: Entry, plugin: PluginScores, grouped: GroupedScores, rescored: Rescored
    ) -> None:
        """Add to the total what has changed of a plugin's scores.

        The totals of rows that are not feasible are wrong where a group has gained.
        """
        gains, weight = rescored.gains, plugin.hook.weight
        total, first = entry.total, entry.first
        plugin.group(grouped)
        if gains is not None:
            gain = np.array(gains, np.int64)
            gain *= weight
            added = gain.take(grouped.groups, mode="clip")
            if np.count_nonzero(first):
                added[first != FEASIBLE] = 0
            total += added
            entry.ranking.forget()
        for row, more in rescored.moved:
            if first.item(row) == FEASIBLE:
                own = more if gains is None else more - gains[grouped.groups.item(row)]
                total[row] += own * weight
        if gains is None and rescored.moved:
            entry.ranking.changed([row for row, _ in rescored.moved])

    def score_again(self, entry: Entry, plugin: PluginScores, pod: PodInfo, *, moved: bool) -> bool:
        """Run a normalised score plugin for all rows, and add what it changes to the total.

        False if it may have written to the array that it returned before. ``moved``: whether other
        rows than before are feasible; the state has them. The totals of rows that are not any more
        are wrong then.
        """
        before, raw, state = plugin.part, plugin.raw, entry.result.state
        plugin.raw = self.runner.call("score", plugin.hook, state, pod, None)
        if plugin.raw is raw:
            if raw.flags.writeable:
                return False
            if not (plugin.facts.by_row or moved):
                return True
        feasible = state.read(Feasible)
        assert feasible is not None, "it is there from PreScore on"
        if not moved and self._normalize_few(entry, plugin, pod, raw, feasible.rows):
            return True
        self.normalize(entry, plugin, pod, feasible.rows, moved=moved)
        after = plugin.part
        if before is None or after is None:
            return False
        if after is not before:
            gain = after - before
            (rows,) = (gain != 0).nonzero()
            if rows.size > MANY:
                entry.total += gain
                entry.ranking.forget()
            else:
                entry.total[rows] += gain[rows]
                entry.ranking.changed(rows.tolist())
        return True

    def _normalize_few(
        self,
        entry: Entry,
        plugin: PluginScores,
        pod: PodInfo,
        before: RawScores,
        feasible: NDArray[np.intp],
    ) -> bool:
        """Normalise the raw scores that are others than ``before``, if they are few.

        False, and nothing changed, if others may have another normalised score, too.
        """
        facts, part, raw = plugin.facts, plugin.part, plugin.raw
        if not facts.by_extremes or facts.normalizer is None or part is None or not facts.proved:
            return False
        (changed,) = (raw != before).nonzero()
        rows = changed[entry.first[changed] == FEASIBLE]
        if rows.size > FEW_NORMALIZED or rows.size + 2 == feasible.size:
            return False
        if plugin.extreme_rows is None:
            some = before if feasible.size == before.size else before[feasible]
            plugin.extreme_rows = feasible.item(some.argmin()), feasible.item(some.argmax())
        lowest, highest = plugin.extreme_rows
        low, high, scores = raw[lowest], raw[highest], raw[rows]
        if low != before[lowest] or high != before[highest]:
            return False
        if not rows.size:
            return True
        if np.minimum.reduce(scores) < low or np.maximum.reduce(scores) > high:
            return False
        scores = np.append(scores, (low, high))
        state = entry.result.state
        found = self.runner.call("normalize_score", facts.normalizer, state, pod, scores)
        fresh = found[:-2] * plugin.hook.weight
        entry.total[rows] += fresh - part[rows]
        plugin.part, plugin.normalized = part.copy(), None
        plugin.part[rows] = fresh
        entry.ranking.changed(rows.tolist())
        return True

    def patch(self, entry: Entry, pod: PodInfo, rows: list[int]) -> bool:
        """Update rows by calling the plugins; False if the pod must be evaluated anew."""
        runner, filtering = self.runner, entry.result.filtering
        entry.call_all_plugins()
        touched = np.array(rows, np.intp)
        before = entry.first == FEASIBLE
        everywhere = runner.measure("filter", self._patch_filters, entry, pod, touched)
        if entry.nominated is not None:
            self.override(entry, pod, None if everywhere else rows)
        if everywhere:
            changed = before != (entry.first == FEASIBLE)
            changed[touched] = True
            touched = np.flatnonzero(changed)
        scoring = entry.result.scoring
        if scoring is None or scoring.skipped is None or not filtering.any_feasible():
            self.score_all(entry, pod)
            return entry.result.broken is None
        return self.rescore(entry, pod, touched, before[touched])

    def rescore(
        self, entry: Entry, pod: PodInfo, touched: NDArray[np.intp], before: NDArray[np.bool_]
    ) -> bool:
        """Score filtered rows by calling the plugins; False if the pod must be evaluated anew.

        ``before``: whether each row was feasible. The entry was scored before.
        """
        entry.call_all_plugins()
        try:
            entry.result.state.write(Feasible(first=entry.first))
            if entry.wide_pre_score and not self.pre_score_unchanged(entry, pod):
                return False
            self.runner.measure("score", self._patch_scores, entry, pod, touched, before)
            entry.ranking.changed(touched.tolist())
        except PluginError:
            return False
        return True

    def _patch_filters(self, entry: Entry, pod: PodInfo, touched: NDArray[np.intp]) -> bool:
        """Run the moving filters again; return whether other rows may have changed, too."""
        everywhere = False
        filtering, state = entry.result.filtering, entry.result.state
        for index in entry.moving:
            near = entry.scopes[index] is Scope.NODE
            verdict = self.ask_filter(
                filtering.plugins[index], state, pod, touched if near else None
            )
            if near:
                if verdict.codes is not None:
                    entry.describes[index] = verdict.describe
                    if verdict.fatal:
                        entry.fatal[index] = verdict.fatal, verdict.names_node
                entry.put_codes(index, touched, verdict.codes)
            else:
                self._put_verdict(entry, index, verdict)
                everywhere = True
        if everywhere:
            entry.combine()
            filtering.explanations.forget()
        else:
            entry.combine_rows(touched)
            filtering.explanations.forget(touched.tolist())
        return everywhere

    def _patch_scores(
        self,
        entry: Entry,
        pod: PodInfo,
        touched: NDArray[np.intp],
        before: NDArray[np.bool_],
    ) -> None:
        """Score touched rows again; ``before``: whether each of them was feasible."""
        now = entry.first[touched] == FEASIBLE
        rows = touched[now]
        if entry.wide:
            entry.note_scored(rows, touched[~now])
        if not entry.wide_scores and before.tobytes() == now.tobytes():
            self._patch_moving(entry, pod, rows)
            return
        if entry.borrowed:
            entry.own_scores()
        newly = touched[now > before]
        if not entry.wide_scores and entry.separate_rows:
            self._patch_rows(entry, pod, rows, newly)
            entry.total[touched[~now]] = -1
        else:
            self._patch_all(entry, pod, rows, newly)

    def _patch_moving(self, entry: Entry, pod: PodInfo, rows: NDArray[np.intp]) -> None:
        """Score feasible rows that stay feasible."""
        if not rows.size:
            return
        runner, state, whole = self.runner, entry.result.state, False
        for plugin in entry.moving_scores:
            fresh: RawScores = runner.call("score", plugin.hook, state, pod, rows)
            gain = entry.put_scores(plugin, rows, fresh)
            if plugin.part is None:
                entry.total[rows] += gain * plugin.hook.weight
            elif plugin.facts.by_row or gain.any():
                self.normalize(entry, plugin, pod, np.flatnonzero(entry.first == FEASIBLE))
                whole = True
        if whole:
            entry.add_up(np.flatnonzero(entry.first == FEASIBLE))

    def _patch_rows(
        self, entry: Entry, pod: PodInfo, rows: NDArray[np.intp], newly: NDArray[np.intp]
    ) -> None:
        """Score feasible `rows`, of which `newly` were not feasible before; the others stay."""
        scoring, state = entry.result.scoring, entry.result.state
        assert scoring is not None, "it was scored before"
        if not rows.size:
            return
        total = np.zeros(rows.size, np.int64)
        for plugin in scoring.plugins:
            searched = newly if plugin.facts.scope is Scope.STATIC else rows
            if searched.size:
                fresh = self.runner.call("score", plugin.hook, state, pod, searched)
                entry.put_scores(plugin, searched, fresh)
            total += plugin.raw[rows] * plugin.hook.weight
        entry.total[rows] = total

    def _patch_all(
        self, entry: Entry, pod: PodInfo, rows: NDArray[np.intp], newly: NDArray[np.intp]
    ) -> None:
        """Score feasible `rows`, of which `newly` were not feasible before."""
        scoring, state, n = entry.result.scoring, entry.result.state, len(entry.fixed)
        known = state.read(Feasible)
        assert scoring is not None, "it was scored before"
        assert known is not None, "it is there from PreScore on"
        feasible = known.rows
        for plugin in scoring.plugins:
            if plugin.facts.scope > Scope.NODE:
                self.ask_score(plugin, state, pod, None, n)
            else:
                searched = newly if plugin.facts.scope is Scope.STATIC else rows
                if searched.size:
                    fresh = self.runner.call("score", plugin.hook, state, pod, searched)
                    entry.put_scores(plugin, searched, fresh)
            self.normalize(entry, plugin, pod, feasible)
        entry.add_up(feasible)
