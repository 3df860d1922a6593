"""FewRows: updates an evaluation after a change of a few rows, the most frequent one.

Theory of operation. Filters and scores that read no more than a row run for these rows, as the
compiled functions of `FusedRules.rows`, whether rows stay feasible or not; where a score is
normalised its plugin runs. Plugins that read more (scope CLUSTER) run for all rows, unless they say
what changes with these rows (`Incremental`). A plugin that returns the read-only array that it
returned before has changed nothing. Otherwise rows whose codes differ are shut or opened:

- A row that is shut changes no other row's normalised score if its raw score is neither the lowest
  nor the highest and the normaliser reads only these (`Signature`), or all are equal.
- A row can be opened where its raw scores are known (``Entry.outdated``), and those that are
  normalised are equal on all rows.

`Patches.patch` does all that does not go this way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.errors import PluginError
from policy_sched.framework import Code, Feasible, Rejection, RowFunctions, Scope, Scores
from policy_sched.framework.evaluate.entry import UNKNOWN, Entry, Moves
from policy_sched.framework.evaluate.patches import Patches
from policy_sched.framework.evaluate.results import FEASIBLE
from policy_sched.framework.runtime import Hook, Runner
from policy_sched.model import PodInfo

#: Up to this many changed rows the functions of rows run.
FEW_ROWS: Final = 32
#: Up to this many feasible rows they also score.
FEW_SCORED: Final = 16
_NO_ROWS: Final[Sequence[int]] = ()
_ALL_STAY: Final = ()
_UNKNOWN: Final = None, None


class FewRows:
    """Updates entries of one pipeline."""

    def __init__(self, runner: Runner, passes: Patches) -> None:
        self._runner = runner
        self._passes = passes
        self._functions: dict[
            tuple[frozenset[str], frozenset[str] | None], RowFunctions | None
        ] = {}

    def patch(  # noqa: C901, PLR0912 - it runs for every pod, and a call less is worth it
        self, entry: Entry, pod: PodInfo, rows: list[int]
    ) -> bool | None:
        """Update the entry after a change of ``rows``; False if it must be made anew.

        None if that is up to `Patches.patch`.
        """
        functions, runner = entry.row_functions, self._runner
        if functions is UNKNOWN:
            functions = entry.row_functions = self._functions_of(entry)
        if functions is None or len(rows) > FEW_ROWS:
            return None
        if runner.sampling and not entry.incremental:
            return None  # the plugins are called one by one; computing updates anew costs more
        start = 0.0 if runner.recorder is None else runner.recorder.timer()
        moves: Moves | None = (rows, _NO_ROWS, _NO_ROWS)
        shut: NDArray[np.intp] | None = None
        promised = entry.nominated is not None and _concern_nominated_pods(entry, rows)
        rejections, fresh = _UNKNOWN if promised else functions.update(pod, rows, entry.first)
        if rejections != _ALL_STAY or entry.wide:
            moves, shut = self._filter(entry, pod, rows, rejections, promised=promised)
        if moves is None:
            return None
        if runner.recorder is not None:
            runner.ended("filter", Code.SUCCESS, start)
            start = runner.recorder.timer()
        feasible, scoring = moves[0], entry.result.scoring
        if rejections != _ALL_STAY or scoring is None or scoring.skipped is None:
            ended = self._moved(entry, pod, moves)
            if ended is not None:
                return ended
            feasible, fresh = [*feasible, *moves[1]], None
        if fresh is None and functions.score is not None and len(feasible) <= FEW_SCORED:
            fresh = functions.score(pod, feasible, entry.first)[1]
        if fresh is None:
            return None if entry.wide else self._rescore(entry, pod, moves)
        total, unshut, wide = entry.total, entry.unshut, bool(entry.wide)
        for row, scores in zip(feasible, fresh, strict=True):
            gain = 0
            for plugin, value in zip(entry.moving_scores, scores, strict=True):
                if plugin.shared:
                    plugin.raw, plugin.shared = plugin.raw.copy(), False
                gain += (value - plugin.raw.item(row)) * plugin.hook.weight
                plugin.raw[row] = value
            if unshut is not None:
                unshut[row] += gain
            if not wide or entry.first.item(row) == FEASIBLE:  # what is shut has no total
                total[row] += gain
        scored: bool | None = True
        if entry.wide_scores or entry.wide_pre_score:
            scored = self._score_wide(entry, pod, rows, shut)
        entry.ranking.changed(feasible)  # most rows have changed only once by then
        if scored and runner.recorder is not None:
            runner.ended("score", Code.SUCCESS, start)
            if runner.sampling:
                self._measure(entry, pod, rows)
        return scored

    def _measure(self, entry: Entry, pod: PodInfo, rows: list[int]) -> None:
        """Call the plugins that read no more than a row for updated rows, to measure each."""
        filtering, state = entry.result.filtering, entry.result.state
        touched = np.array(rows, np.intp)
        for index in entry.moving:
            if index not in entry.wide:
                self._passes.ask_filter(filtering.plugins[index], state, pod, touched)
        feasible = touched[entry.first[touched] == FEASIBLE]
        for plugin in entry.moving_scores if feasible.size else ():
            self._runner.call("score", plugin.hook, state, pod, feasible)

    def _functions_of(self, entry: Entry) -> RowFunctions | None:
        """Return what updates a few rows; None where plugins run one by one."""
        if entry.nominated is not None and (entry.wide or entry.wide_scores):
            return None  # they see the nominated pods of other rows
        filtering, scoring = entry.result.filtering, entry.result.scoring
        key = filtering.skipped, None if scoring is None else scoring.skipped
        rules = self._runner.pipeline.rules
        if rules is None:
            return None
        if key not in self._functions:
            moving = [(i, filtering.plugins[i].plugin) for i in entry.moving if i not in entry.wide]
            scores = None  # where one of them is normalised
            if scoring is not None and all(one.part is None for one in entry.moving_scores):
                scores = [one.hook.plugin for one in entry.moving_scores]
            self._functions[key] = rules.rows(moving, scores)
        return self._functions[key]

    def passes(self, entry: Entry, pod: PodInfo, row: int) -> bool:
        """Return whether a row passes all filters now, whatever the entry knows of it.

        False where that is up to the plugins. Nothing but pods changed since the entry's version.
        """
        if entry.wide or entry.wide_pre_filter or entry.incremental:
            return False
        if entry.result.filtering.rejection is not None:
            return False
        functions = entry.row_functions
        if functions is UNKNOWN:
            functions = entry.row_functions = self._functions_of(entry)
        if functions is None or entry.static_rejections().item(row) != FEASIBLE:
            return False
        rejections = functions.filter(pod, [row], entry.first)[0]
        return rejections is not None and not any(rejections)

    def _filter_with_nominated_pods(
        self, entry: Entry, pod: PodInfo, rows: list[int]
    ) -> Moves | None:
        """Return how the rows moved, with and without nominated pods; see `_filter`."""
        functions = entry.row_functions
        assert isinstance(functions, RowFunctions), "they have been found"
        first, overrides = entry.first, entry.overrides
        before = [row for row in rows if first.item(row) == FEASIBLE]
        overridden = {row: overrides[row] for row in rows if row in overrides}
        entry.override({}, rows)
        rejections = functions.filter(pod, rows, first)[0]
        if rejections is None or (rejections and entry.put_rejections(rows, rejections) is None):
            entry.override(overridden, rows)
            return None
        self._passes.override(entry, pod, rows)
        now = [row for row in rows if first.item(row) == FEASIBLE]
        return (
            [row for row in now if row in before],
            [row for row in now if row not in before],
            [row for row in before if first.item(row) != FEASIBLE],
        )

    def _moved(self, entry: Entry, pod: PodInfo, moves: Moves) -> bool | None:
        """Prepare the totals of rows that have become feasible, or are no longer.

        None if the functions of rows can score what is feasible; otherwise it is done, and False if
        the entry must be made anew.
        """
        _, come, gone = moves
        result, scoring = entry.result, entry.result.scoring
        if scoring is None and not come:
            return True
        unscored = scoring is None or scoring.skipped is None
        if not (unscored or come or gone):
            return None
        if scoring is None or unscored or not result.filtering.any_feasible():
            self._passes.score_all(entry, pod)
            return entry.result.broken is None
        if entry.wide_scores and self._opened_and_shut(entry, come, gone):
            return None
        if not entry.separate_rows or entry.wide_scores:
            return self._rescore(entry, pod, moves)
        if come and not all(one.whole or one in entry.moving_scores for one in scoring.plugins):
            return self._rescore(entry, pod, moves)  # not all of them have a score of what came
        for row in gone:
            entry.total[row] = -1
        for row in come:
            entry.total[row] = sum(one.raw.item(row) * one.hook.weight for one in scoring.plugins)
        entry.ranking.changed(gone)
        result.state.write(Feasible(first=entry.first))
        return None

    def _opened_and_shut(self, entry: Entry, come: Sequence[int], gone: Sequence[int]) -> bool:
        """Prepare the totals for scores that are updated; False if rows have to be scored again."""
        incremental = entry.incremental
        if not incremental or any(p.hook.plugin not in incremental for p in entry.wide_scores):
            return False
        opened, shut = np.array(come, np.intp), np.array(gone, np.intp)
        if not (self._may_shut(entry, shut) and self._may_open(entry, opened)):
            return False
        entry.total[opened] = self._total(entry, opened)
        self._shut(entry, shut)
        entry.result.state.write(Feasible(first=entry.first))
        return True

    def _rescore(self, entry: Entry, pod: PodInfo, moves: Moves) -> bool:
        """Score filtered rows by calling the plugins; False if the entry must be made anew."""
        stay, come, gone = moves
        touched = np.array([*stay, *come, *gone], np.intp)
        before = np.ones(touched.size, np.bool_)
        before[len(stay) : len(stay) + len(come)] = False
        return self._passes.rescore(entry, pod, touched, before)

    def _filter(
        self,
        entry: Entry,
        pod: PodInfo,
        rows: list[int],
        rejections: Sequence[Rejection] | None,
        *,
        promised: bool,
    ) -> tuple[Moves | None, NDArray[np.intp] | None]:
        """Return how the rows moved, and all rows that a filter of the whole cluster shut.

        ``rejections``: of the filters that read no more than the row. None if a plugin has to say
        more, or if the rows that are opened and shut are up to `Patches.patch`. Where there are
        filters of the whole cluster, the rows that stay are those that the others pass. For the
        rows that are shut, None says that the same rows are feasible as before. ``promised``:
        nominated pods concern one of the rows; the rejections are not known yet.
        """
        if promised:
            return self._filter_with_nominated_pods(entry, pod, rows), None
        if rejections is None:
            return None, None
        if not entry.wide:
            return entry.put_rejections(rows, rejections), None
        scoring, scored = entry.result.scoring, rows
        if scoring is None or scoring.skipped is None:
            return None, None
        if rejections:
            if not entry.put_row_codes(rows, rejections):
                return None, None
            scored = [row for row, one in zip(rows, rejections, strict=True) if one is None]
            if entry.outdated is not None:
                entry.outdated[scored] = False
        changed = self._passes.filter_wide(entry, pod, rows)
        if changed is None:
            return None, None
        if rejections:  # some of the rows are not feasible, or were not
            changed = np.union1d(changed, np.array(rows, np.intp))
        moves: Moves = (scored, _NO_ROWS, _NO_ROWS)
        if not changed.size:
            return moves, None
        shut = self._move(entry, changed)
        return (None if shut is None else moves), shut

    def _move(self, entry: Entry, changed: NDArray[np.intp]) -> NDArray[np.intp] | None:
        """Open and shut rows of which a filter has changed its codes; return those shut.

        None if that changes the scores of other rows; nothing is changed then.
        """
        first, unshut = entry.first, entry.unshut
        now = entry.rejecting(changed)
        if unshut is not None:
            rejected = np.count_nonzero(now)
            if rejected and first.size - np.count_nonzero(first) <= rejected + 1:
                return None
            if changed.size == 1:
                row = changed.item()
                first[row] = entry.by_plugins[row] = now.item()
                entry.total[row] = -1 if rejected else unshut.item(row)
            else:
                first[changed] = entry.by_plugins[changed] = now
                total = -1 if rejected == now.size else unshut[changed]
                mixed = 0 < rejected < now.size
                entry.total[changed] = np.where(now, -1, total) if mixed else total
            few = changed.tolist() if changed.size <= FEW_ROWS else None
            entry.ranking.changed(few)
            entry.result.filtering.explanations.forget(few)
            entry.result.state.write(Feasible(first=first))
            return changed
        was, opens = first[changed] == FEASIBLE, now == FEASIBLE
        shut: NDArray[np.intp] = changed[was & ~opens]
        opened: NDArray[np.intp] = changed[opens & ~was]
        if not (self._may_shut(entry, shut) and self._may_open(entry, opened)):
            return None
        first[changed] = entry.by_plugins[changed] = now
        forget = changed.tolist() if changed.size <= FEW_ROWS else None
        entry.result.filtering.explanations.forget(forget)
        if opened.size:
            entry.total[opened] = self._total(entry, opened)
            entry.ranking.changed(opened.tolist() if opened.size <= FEW_ROWS else None)
        self._shut(entry, shut)
        entry.result.state.write(Feasible(first=first))
        return shut

    def _may_shut(self, entry: Entry, rows: NDArray[np.intp]) -> bool:
        """Return whether the scores of other rows stay the same if some are shut."""
        if entry.borrowed:
            entry.own_scores()
        first, scoring = entry.first, entry.result.scoring
        assert scoring is not None, "it was scored before"
        if first.size - np.count_nonzero(first) <= rows.size + 1:
            return False
        return not rows.size or all(
            plugin.part is None or plugin.facts.scope > Scope.NODE or plugin.is_between(rows, first)
            for plugin in scoring.plugins
        )

    def _may_open(self, entry: Entry, rows: NDArray[np.intp]) -> bool:
        """Return whether rows can be opened without a look at their scores and those of others."""
        scoring = entry.result.scoring
        assert scoring is not None, "it was scored before"
        if not rows.size:
            return True
        if entry.outdated is not None and entry.outdated[rows].any():
            return False
        return all(
            plugin.facts.scope > Scope.NODE
            or (plugin.whole and (plugin.part is None or plugin.flat))
            for plugin in scoring.plugins
        )

    def _total(self, entry: Entry, rows: NDArray[np.intp]) -> Scores:
        """Return the total of rows; what plugins add that read the whole cluster comes later.

        Where their scores are updated, what they have added to other rows is in it.
        """
        scoring = entry.result.scoring
        assert scoring is not None, "it was scored before"
        total = np.zeros(rows.size, np.int64)
        incremental = entry.incremental or {}
        for plugin in scoring.plugins:
            if plugin.facts.scope <= Scope.NODE or plugin.hook.plugin in incremental:
                total += plugin.weighted_at(rows)
        return total

    def _score_wide(
        self, entry: Entry, pod: PodInfo, rows: Sequence[int], shut: NDArray[np.intp] | None
    ) -> bool | None:
        """Run the scores that read the whole cluster; see `patch` for what is returned.

        ``rows``: those that were changed. ``shut``: the rows that were shut, None if other rows are
        feasible as before.
        """
        passes, incremental = self._passes, entry.incremental or {}
        if entry.wide_pre_score and not passes.pre_score_unchanged(entry, pod):
            return False
        try:
            for plugin in entry.wide_scores:
                update = incremental.get(plugin.hook.plugin)
                if update is None:
                    if not passes.score_again(entry, plugin, pod, moved=shut is not None):
                        return None
                    continue
                try:
                    state = entry.result.state
                    if self._runner.sampling:
                        hook = Hook(plugin.hook.plugin, update.score)
                        rescored = self._runner.call("score", hook, state, rows)
                    else:
                        rescored = update.score(state, rows)
                except Exception:  # noqa: BLE001 - the plugin is foreign code; its score says why
                    return None
                if rescored is None or update.scores is None:
                    return None
                passes.update_scores(entry, plugin, update.scores, rescored)
        except PluginError:
            return None
        if shut is not None:
            self._shut(entry, shut)
        return True

    def _shut(self, entry: Entry, rows: NDArray[np.intp]) -> None:
        entry.total[rows] = -1
        entry.ranking.changed(rows.tolist() if rows.size <= FEW_ROWS else None)


def _concern_nominated_pods(entry: Entry, rows: list[int]) -> bool:
    """Return whether there are nominated pods on one of the rows, or it was rejected for some."""
    overrides, nominated = entry.overrides, entry.nominated
    if overrides and not overrides.keys().isdisjoint(rows):
        return True
    return nominated is not None and nominated.any_on(rows)
