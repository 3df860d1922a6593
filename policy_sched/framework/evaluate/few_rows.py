"""FewRows: updates an evaluation after a change of a few rows, the most frequent one.

Theory of operation. Filters and scores that read no more than a row run for these rows, as the
generated functions of row_functions.py, whether rows stay feasible or not; where a score is
normalised its plugin runs. Plugins that read more (scope CLUSTER) run for all rows. A plugin that
returns the read-only array that it returned before has changed nothing. Otherwise the difference of
a filter's codes is a few rows, or `Passes.patch` does the rest.

A row that stops being feasible changes no other row's normalised score if its raw score is neither
the lowest nor the highest and the normaliser reads only these (`Signature`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from policy_sched.errors import PluginError
from policy_sched.framework import Code, Feasible
from policy_sched.framework.evaluate.entry import UNKNOWN, Entry, Moves
from policy_sched.framework.evaluate.passes import Passes
from policy_sched.framework.evaluate.results import FEASIBLE
from policy_sched.framework.evaluate.row_functions import Answer, RowFunctionCache, RowFunctions
from policy_sched.framework.runtime import Runner
from policy_sched.model import PodInfo

#: Up to this many changed rows the generated functions run, row by row.
FEW_ROWS: Final = 16
#: Up to this many feasible rows they also score.
FEW_SCORED: Final = 8
_NO_ROWS: Final[Sequence[int]] = ()
_ALL_STAY: Final = ()


class FewRows:
    """Updates entries of one pipeline."""

    def __init__(self, runner: Runner, passes: Passes) -> None:
        self._runner = runner
        self._passes = passes
        self._made = RowFunctionCache(runner)
        self._functions: dict[
            tuple[frozenset[str], frozenset[str] | None], RowFunctions | None
        ] = {}

    def patch(self, entry: Entry, pod: PodInfo, rows: list[int]) -> bool | None:
        """Update the entry after a change of ``rows``; False if it must be made anew.

        None if that is up to `Passes.patch`.
        """
        functions, runner, passes = entry.row_functions, self._runner, self._passes
        if functions is UNKNOWN:
            functions = entry.row_functions = self._functions_of(entry)
        if functions is None or len(rows) > FEW_ROWS or runner.sampling:
            return None
        start = 0.0 if runner.recorder is None else runner.recorder.timer()
        answers = functions.rejections(pod, rows, entry.first)
        moves: Moves | None = (rows, _NO_ROWS, _NO_ROWS)
        shut = _NO_ROWS
        if answers != _ALL_STAY or entry.wide:
            moves, shut = self._filter(entry, pod, rows, answers)
        if moves is None:
            return None
        if runner.recorder is not None:
            runner.ended("filter", Code.SUCCESS, start)
            start = runner.recorder.timer()
        feasible, scoring = moves[0], entry.result.scoring
        if answers or scoring is None or scoring.skipped is None:
            ended = self._moved(entry, pod, moves)
            if ended is not None:
                return ended
            feasible = [*feasible, *moves[1]]
        score = functions.scores if len(feasible) <= FEW_SCORED else None
        fresh = None if score is None else score(pod, feasible)
        if fresh is None:
            return None if entry.wide else self._rescore(entry, pod, moves)
        if entry.wide_pre_score and not passes.pre_score_unchanged(entry, pod):
            return False
        total = entry.total
        for row, scores in zip(feasible, fresh, strict=True):
            for plugin, value in zip(entry.moving_scores, scores, strict=True):
                if plugin.shared:
                    plugin.raw, plugin.shared = plugin.raw.copy(), False
                total[row] += (value - plugin.raw.item(row)) * plugin.hook.weight
                plugin.raw[row] = value
        entry.ranking.changed(feasible)
        if entry.wide_scores and not self._score_wide(entry, pod, shut):
            return None
        if runner.recorder is not None:
            runner.ended("score", Code.SUCCESS, start)
        return True

    def _functions_of(self, entry: Entry) -> RowFunctions | None:
        """Return what updates a few rows; None where plugins run one by one."""
        if entry.nominated is not None:
            return None
        filtering, scoring = entry.result.filtering, entry.result.scoring
        key = filtering.skipped, None if scoring is None else scoring.skipped
        if key not in self._functions:
            moving = [(i, filtering.plugins[i]) for i in entry.moving if i not in entry.wide]
            scores = None  # where one of them is normalised
            if scoring is not None and all(one.part is None for one in entry.moving_scores):
                scores = [one.hook for one in entry.moving_scores]
            self._functions[key] = self._made.of(moving, scores)
        return self._functions[key]

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

    def _rescore(self, entry: Entry, pod: PodInfo, moves: Moves) -> bool:
        """Score filtered rows by calling the plugins; False if the entry must be made anew."""
        stay, come, gone = moves
        touched = np.array([*stay, *come, *gone], np.intp)
        before = np.ones(touched.size, np.bool_)
        before[len(stay) : len(stay) + len(come)] = False
        return self._passes.rescore(entry, pod, touched, before)

    def _filter(
        self, entry: Entry, pod: PodInfo, rows: list[int], answers: Sequence[Answer] | None
    ) -> tuple[Moves | None, Sequence[int]]:
        """Return how the rows moved, and all rows that a filter of the whole cluster shut.

        ``answers``: of the filters that read no more than the row. None if a plugin has to say
        more, and where there are filters of the whole cluster, if the answers are not all the same
        as before, or more rows changed than a few.
        """
        if answers is None:
            return None, _NO_ROWS
        if not entry.wide:
            return entry.put_rejections(rows, answers), _NO_ROWS
        first, scoring, left_out = entry.first, entry.result.scoring, False
        if scoring is None or scoring.skipped is None:
            return None, _NO_ROWS
        for row, answer in zip(rows, answers, strict=bool(answers)):
            if answer is not None:
                return None, _NO_ROWS
            if first[row] != FEASIBLE:
                if self._rejected_by_row(entry, row):
                    return None, _NO_ROWS
                left_out = True
        shut = self._filter_wide(entry, pod)
        if shut is None:
            return None, _NO_ROWS
        if shut or left_out:
            rows = [row for row in rows if first[row] == FEASIBLE]
        return (rows, _NO_ROWS, _NO_ROWS), shut

    def _rejected_by_row(self, entry: Entry, row: int) -> bool:
        """Return whether a filter of scope NODE rejected the row, or nothing may change it."""
        if entry.fixed[row] != FEASIBLE:
            return True
        for index in entry.moving:
            codes = entry.codes[index]
            if codes is not None and codes[row] and index not in entry.wide:
                return True
        return False

    def _filter_wide(self, entry: Entry, pod: PodInfo) -> Sequence[int] | None:
        """Run the filters that read the whole cluster; return the rows that they shut.

        None if more than a few rows differ, or one was opened; the codes are updated then, but
        ``first`` is not.
        """
        changed = self._passes.filter_wide(entry, pod)
        if not changed:
            return _NO_ROWS
        if len(changed) > FEW_ROWS:
            return None
        first = entry.first
        now = {row: entry.rejecting(row) for row in changed}
        shut = [row for row in now if first[row] == FEASIBLE != now[row]]
        if any(value == FEASIBLE != first[row] for row, value in now.items()):
            return None
        if shut and not self._others_score_alike(entry, shut):
            return None
        for row, value in now.items():
            first[row] = entry.by_plugins[row] = value
        entry.result.filtering.explanations.forget(changed)
        if shut:
            self._shut(entry, shut)
            entry.result.state.write(Feasible(first=first))
        return shut

    def _others_score_alike(self, entry: Entry, shut: Sequence[int]) -> bool:
        """Return whether the scores of other nodes stay the same if some rows are shut."""
        if entry.borrowed:
            entry.own_scores()
        first, scoring = entry.first, entry.result.scoring
        assert scoring is not None, "it was scored before"
        if first.size - np.count_nonzero(first) <= len(shut) + 1:
            return False
        return all(
            plugin.part is None or plugin in entry.wide_scores or plugin.is_between(shut, first)
            for plugin in scoring.plugins
        )

    def _score_wide(self, entry: Entry, pod: PodInfo, shut: Sequence[int]) -> bool:
        """Run the scores that read the whole cluster; False if one breaks."""
        try:
            for plugin in entry.wide_scores:
                if not self._passes.score_again(entry, plugin, pod, moved=bool(shut)):
                    return False
        except PluginError:
            return False
        if shut:
            self._shut(entry, shut)
        return True

    def _shut(self, entry: Entry, rows: Sequence[int]) -> None:
        for row in rows:
            entry.total[row] = -1
        entry.ranking.changed(rows)
