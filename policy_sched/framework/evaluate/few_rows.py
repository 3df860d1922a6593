"""FewRows: updates an evaluation after a change of a few rows, the most frequent one.

Theory of operation. Filters and scores that read no more than a row run for these rows, as the
generated functions of row_functions.py. Plugins that read more (scope CLUSTER) run for all rows. A
plugin that returns the read-only array that it returned before has changed nothing. Otherwise the
difference of a filter's codes is a few rows, or `Passes.patch` does the rest.

A row that stops being feasible changes no other row's normalised score if its raw score is neither
the lowest nor the highest and the normaliser reads only these (`Signature`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import numpy as np

from policy_sched.errors import PluginError
from policy_sched.framework import Code, Feasible
from policy_sched.framework.evaluate.entry import UNKNOWN, Entry
from policy_sched.framework.evaluate.passes import Passes
from policy_sched.framework.evaluate.results import FEASIBLE
from policy_sched.framework.evaluate.row_functions import RowFunctions
from policy_sched.framework.runtime import Runner
from policy_sched.model import PodInfo

#: Up to this many changed rows the generated functions run, row by row.
FEW_ROWS: Final = 16
_NO_ROWS: Final[Sequence[int]] = ()


class FewRows:
    """Updates entries of one pipeline."""

    def __init__(self, runner: Runner, passes: Passes) -> None:
        self._runner = runner
        self._passes = passes

    def patch(self, entry: Entry, pod: PodInfo, rows: list[int]) -> bool:
        """Update the entry after a change of ``rows``; False if that is up to `Passes.patch`."""
        functions, scoring, runner = entry.row_functions, entry.result.scoring, self._runner
        if functions is UNKNOWN:
            functions = entry.row_functions = self._passes.functions_of_rows(entry)
        if functions is None or scoring is None or scoring.skipped is None:
            return False
        if len(rows) > (1 if functions.metered else FEW_ROWS) or runner.sampling:
            return False
        start = 0.0 if runner.recorder is None else runner.recorder.timer()
        found = self._filter(entry, pod, functions, rows)
        if found is None:
            return False
        rows, shut = found
        if runner.recorder is not None:
            runner.ended("filter", Code.SUCCESS, start)
            start = runner.recorder.timer()
        fresh = []
        try:
            for row in rows:
                fresh.append(functions.scores(pod, row))  # noqa: PERF401 - the hottest loop
            if entry.wide_pre_score and not self._passes.pre_score_unchanged(
                entry, pod, scoring.skipped
            ):
                return False
        except Exception:  # noqa: BLE001 - calling the plugins one by one shows which one failed
            return False
        if None in fresh:
            return False
        total = entry.total
        for row, scores in zip(rows, cast("list[tuple[int, ...]]", fresh), strict=True):
            for plugin, score in zip(entry.moving_scores, scores, strict=True):
                if plugin.shared:
                    plugin.raw, plugin.shared = plugin.raw.copy(), False
                total[row] += (score - plugin.raw.item(row)) * plugin.hook.weight
                plugin.raw[row] = score
        entry.ranking.changed(rows)
        if entry.wide_scores and not self._score_wide(entry, pod, shut):
            return False
        if runner.recorder is not None:
            runner.ended("score", Code.SUCCESS, start)
        return True

    def _filter(
        self, entry: Entry, pod: PodInfo, functions: RowFunctions, rows: list[int]
    ) -> tuple[list[int], Sequence[int]] | None:
        """Return which of the rows are feasible now, and all rows that are not any more.

        None if a filter of scope NODE rejects one of them, or more changed than a few rows.
        """
        first, left_out = entry.first, False
        try:
            for row in rows:
                if first[row] != FEASIBLE:
                    if self._rejected_by_row(entry, row):
                        return None
                    left_out = True
                if not functions.passes(pod, row):
                    return None
        except Exception:  # noqa: BLE001 - calling the plugins one by one shows which one failed
            return None
        shut = self._filter_wide(entry, pod) if entry.wide else _NO_ROWS
        if shut is None:
            return None
        if shut or left_out:
            rows = [row for row in rows if first[row] == FEASIBLE]
        return rows, shut

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
