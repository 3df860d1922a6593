"""Rules of several policies that run as one function of all rows.

The results are those that each policy's own functions give. Where one of the rules fails on a row,
the policies run one by one, which also tells which one failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from policy_sched.framework import PASSES, Codes, FilterResult, Fusable, RawScores, RowRule
from policy_sched.language.codegen import FusedFunctions, fuse, fuse_rows
from policy_sched.language.ir import Recording
from policy_sched.language.runtime import Activation
from policy_sched.model import PodInfo
from policy_sched.plugins.rules.bound_policy import BoundPolicy

_INT64: Final = np.dtype(np.int64)

Verdict: TypeAlias = Callable[[PodInfo, Codes], FilterResult]
"""From codes of all rows to the result that a policy's filter returns."""


class FusableRules(Fusable):
    """The filter and the score of a policy, which can be fused with those of others.

    ``cycle``: what its rules see of an attempt, which is the same for all attempts.
    """

    def __init__(self, bound: BoundPolicy, cycle: Activation, verdict: Verdict) -> None:
        self.bound = bound
        self.cycle = cycle
        self.verdict = verdict
        score = bound.score_rule
        self.filter_recording = _of_arrays(bound.filters().recording)
        self.score_recording = None if score is None else _of_arrays(score.recording)
        self.filters = self.filter_recording is not None
        self.scores = self.score_recording is not None

    def fused(self, filters: Sequence[Fusable], scores: Sequence[Fusable]) -> FusedRules | None:
        """Return the filters and scores of policies as one; None if one of them runs by itself."""
        filtering = [one for one in filters if isinstance(one, FusableRules)]
        scoring = [one for one in scores if isinstance(one, FusableRules)]
        if len(filtering) + len(scoring) < len(filters) + len(scores):
            return None
        found = _recordings([one.filter_recording for one in filtering])
        others = _recordings([one.score_recording for one in scoring])
        if found is None or others is None:
            return None
        functions = fuse(found, others).bind(self.bound.runtime)
        return FusedRules(self, filtering, scoring, functions)

    def fused_rows(
        self, filters: Sequence[tuple[int, RowRule]], scores: Sequence[RowRule] | None
    ) -> tuple[Any, Any, Any]:
        """Return numbered filters and scores of plugins as functions of a few rows."""
        return fuse_rows(filters, scores, self.cycle, self.bound.runtime)


class FusedRules:
    """The filters and the scores of some policies over the node table."""

    def __init__(
        self,
        one: FusableRules,
        filters: Sequence[FusableRules],
        scores: Sequence[FusableRules],
        functions: FusedFunctions,
    ) -> None:
        self._cycle = one.cycle
        self._functions = functions
        self._filters = []
        place = 0
        for rules in filters:
            assert rules.filter_recording is not None, "it was fused"
            end = place + len(rules.filter_recording.roots)
            bound = rules.bound.filters()
            value = bound.only_value
            only = None if value is None else place + value
            self._filters.append((bound, rules.verdict, slice(place, end), only))
            place = end
        self._scores = []
        place = 0
        for rules in scores:
            assert rules.bound.score_rule is not None, "it was fused"
            assert rules.score_recording is not None, "it was fused"
            end = place + len(rules.score_recording.roots)
            value = rules.bound.score_rule.only_value
            only = None if value is None else place + value
            self._scores.append((rules.bound.score_rule, slice(place, end), only))
            place = end

    def filter(self, pod: PodInfo) -> list[FilterResult] | None:
        """Return the results of the filters for all rows; None if they must run one by one."""
        out = self._functions.filters(pod, self._cycle)
        if out is None:
            return None
        found, n = [], self._functions.n
        for rules, verdict, places, only in self._filters:
            holds = None if only is None else out[only]
            # The least of them takes a quarter of the time of all().
            if isinstance(holds, np.ndarray) and holds.ndim and holds.item(holds.argmin()):
                found.append(PASSES)
                continue
            codes = rules.codes_of(out[places], n)
            found.append(PASSES if codes is None else verdict(pod, codes))
        return found

    def score(self, pod: PodInfo) -> list[RawScores] | None:
        """Return the raw scores of all rows; None if the plugins must run one by one."""
        out = self._functions.scores(pod, self._cycle)
        if out is None:
            return None
        n, found = self._functions.n, []
        for rule, places, only in self._scores:
            scores = None if only is None else out[only]
            if (
                isinstance(scores, np.ndarray)
                and scores.ndim
                and scores.dtype is _INT64
                and scores.base is None  # else it is a column, which changes with the nodes
                and scores.flags.writeable
            ):
                found.append(scores)
            else:
                found.append(rule.scores_of(out[places], n))
        return found


def _of_arrays(recording: Recording | None) -> Recording | None:
    """Return a recording if fusing it as a function of all rows costs nothing."""
    return None if recording is None or not recording.arrays else recording


def _recordings(found: Sequence[Recording | None]) -> list[Recording] | None:
    known = [one for one in found if one is not None]
    return known if len(known) == len(found) else None
