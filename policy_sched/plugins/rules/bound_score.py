"""The score of a policy over a table: raw scores, what failed, and what normalisation makes of it.

Theory of operation. Raw scores may cover rows on which the pod cannot run, and kept for other
pods, so a rule that fails only marks its row: whether that ends the attempt is known when the
scores of the feasible rows are normalised. Raw scores are int64, or float64 where a rule that is a
double is normalised. A normalize expression is computed over those rows,
each with its own raw score, and statistics over all of them that did not fail.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from policy_sched import thresholds
from policy_sched.cluster.tables import NodeTable
from policy_sched.framework import RowRule
from policy_sched.language import BoundUnit, Score
from policy_sched.language.runtime import (
    FAILED,
    Activation,
    RawScores,
    Runtime,
    failures,
    normalized,
)
from policy_sched.language.values import Failure, LimitError, RuleError, one_evaluation
from policy_sched.model import PodInfo
from policy_sched.plugins.rules.kept_rows import KeptRows

_OF_THE_CYCLE: Final = Activation.__struct_fields__


class Scored(Activation, frozen=True):
    """A cycle with the least, the greatest, the total, the average and the number of raw scores.

    ``score``: the raw scores, one for each node under evaluation. The numbers are doubles where
    the raw scores are.
    """

    min: float = 0
    max: float = 0
    sum: float = 0
    mean: float = 0.0
    count: int = 0
    score: RawScores = msgspec.field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def scores(self) -> Scored:
        """The statistics, by the name that an expression has for them."""
        return self

    @classmethod
    def of(cls, scores: RawScores, cycle: Activation) -> Scored:
        """Return what is seen of raw scores in a cycle."""
        known = {name: getattr(cycle, name) for name in _OF_THE_CYCLE}
        if not len(scores):
            return cls(**known, score=scores)
        values = scores.tolist()
        total = math.fsum(values) if scores.dtype == np.float64 else sum(values)
        count = len(values)
        return cls(
            **known,
            min=min(values),
            max=max(values),
            sum=total,
            mean=total / count,
            count=count,
            score=scores,
        )


Rows = npt.NDArray[np.intp] | None
NO_CYCLE: Final = Activation()
"""Of rules that read nothing of an attempt."""
Scores = npt.NDArray[np.int64]


class BoundScore:
    """The ``score`` section of the policy ``name`` over one cluster's tables."""

    def __init__(self, name: str, score: Score, table: NodeTable, runtime: Runtime) -> None:
        self._name = name
        self._score = score
        self._table = table
        self._unit = BoundUnit(score.unit, runtime)
        expression = score.expression
        self._normalizer = None if expression is None else BoundUnit(expression, runtime)
        self._dtype: type[np.float64 | np.int64] = np.float64 if score.double else np.int64
        self._failed: float = np.nan if score.double else FAILED
        self.kept: KeptRows | None = None
        """Raw scores by row, where pods on the nodes change none."""

    def row_rule(self, cycle: Activation) -> RowRule | None:
        """Return the score as a function of one row; None where it is no integer."""
        bound = self._unit
        if self._score.double:
            return None

        def computed(pod: PodInfo, row: int) -> int:
            value: int | Failure = bound.evaluate(0, pod, cycle, row)
            if isinstance(value, Failure):
                raise RuleError(value.message)
            return value

        def score(pod: PodInfo, row: int) -> int:
            if self.kept is None:
                return computed(pod, row)
            return self.kept.of_row(pod, row, lambda: computed(pod, row))

        return RowRule(score, one_evaluation if bound.unit.program.metered else None)

    def raw(
        self, pod: PodInfo, cycle: Activation, rows: Rows = None, *, marked: bool = False
    ) -> RawScores:
        """Return the raw score per row; where the rule failed, 0 or, if marked, FAILED.

        ``marked``: mark failures even if nothing that scores needs to see them.
        """
        if self.kept is not None and not marked:
            return self.kept.of_rows(pod, rows, lambda new: self._fresh(pod, cycle, new))
        return self._fresh(pod, cycle, rows, marked=marked)

    def _fresh(
        self, pod: PodInfo, cycle: Activation, rows: Rows = None, *, marked: bool = False
    ) -> RawScores:
        """Do as `raw`, whatever is kept."""
        bound = self._unit
        instead = self._failed if marked or self._score.marks_failures else 0
        if rows is not None and len(rows) <= thresholds.LOOP_ROWS:
            values = []
            for row in rows.tolist():
                value = bound.evaluate(0, pod, cycle, row)
                values.append(instead if isinstance(value, Failure) else value)
            return np.array(values, dtype=self._dtype)
        n = self._table.n if rows is None else len(rows)
        try:
            out = bound.vector(pod, cycle, rows, n)
        except LimitError as error:
            if error.whole:
                raise
            each = range(n) if rows is None else rows.tolist()
            return self._row_by_row(pod, cycle, each, instead)
        return self.scores_of(out, n, instead)

    @property
    def only_value(self) -> int | None:
        """The place of the values of the rule, among those of its roots, if it cannot fail."""
        root = self._unit.unit.roots[0]
        return root.value if root.error is None and not self._score.double else None

    def scores_of(self, out: Sequence[Any], n: int, instead: float | None = None) -> RawScores:
        """Return raw scores of the values of the rule's root for ``n`` rows.

        ``instead``: the score where the rule failed; None: as `raw` has it if nothing is marked.
        """
        root = self._unit.unit.roots[0]
        result = out[root.value]
        if not isinstance(result, np.ndarray) or result.ndim == 0:
            result = np.full(n, result, dtype=self._dtype)
        if root.error is not None:
            errors = out[root.error]
            if np.any(errors):
                if instead is None:
                    instead = self._failed if self._score.marks_failures else 0
                result = np.where(errors, instead, result)
        # A column of the table, or one that is kept for all pods, changes with the nodes.
        owned = result.base is None and result.flags.writeable
        scores: RawScores = result.astype(self._dtype, copy=not owned)
        return scores

    def _row_by_row(
        self, pod: PodInfo, cycle: Activation, rows: Iterable[int], instead: float
    ) -> RawScores:
        """Return what `raw` does where the rule takes too much work of some rows."""
        root = self._unit.unit.roots[0]
        values = []
        with one_evaluation():
            for row in rows:
                try:
                    out = self._unit.functions.scalar(pod, cycle, row)
                except LimitError as error:
                    if error.whole:
                        raise
                    values.append(instead)
                    continue
                failed = root.error is not None and out[root.error]
                values.append(instead if failed else out[root.value])
        return np.array(values, dtype=self._dtype)

    def failure(
        self, pod: PodInfo, cycle: Activation, scores: RawScores, rows: npt.NDArray[np.intp]
    ) -> str | None:
        """Return why the attempt ends: what failed on the first of the feasible rows that did.

        None if no rule failed there, or if that ends nothing.
        """
        if not self._score.aborts:
            return None
        places = np.flatnonzero(failures(scores))
        if not len(places):
            return None
        row = int(rows[places[0]])
        return self._failure_text("score", self._unit.evaluate(0, pod, cycle, row), row)

    def failed(
        self, pod: PodInfo, cycle: Activation, rows: npt.NDArray[np.intp]
    ) -> tuple[npt.NDArray[np.intp], str]:
        """Return the feasible rows whose score is 0 as a rule fails, and why on the first of them.

        A double that no int64 is near, an infinity and NaN fail, too.
        """
        unit = self._unit.unit
        scores = np.zeros(len(rows), self._dtype)
        if unit.can_fail or unit.program.metered or self._normalizer is not None:
            scores = self.raw(pod, cycle, rows, marked=True)
        places = np.flatnonzero(failures(scores))
        if len(places):
            try:
                error = self._unit.evaluate(0, pod, cycle, int(rows[places[0]]))
            except LimitError as limit:
                return rows[places], str(limit)
            return rows[places], error.message if isinstance(error, Failure) else "error"
        if self._normalizer is None:
            return rows[:0], ""
        _, errors = self._computed(self._normalizer, scores, pod, cycle, rows)
        places = np.flatnonzero(errors)
        why = self._normalizer.unit.words(int(errors[places[0]])) if len(places) else ""
        return rows[places], why

    def _failure_text(self, part: str, error: Any, row: int) -> str:
        words = error.message if isinstance(error, Failure) else "error"
        return f"rule {self._name}.{part}: {words} (node {self._table.names[row]})"

    def normalize(
        self,
        scores: RawScores,
        pod: PodInfo | None = None,
        cycle: Activation = NO_CYCLE,
        rows: Rows = None,
    ) -> Scores:
        """Return the scores of the feasible rows within 0..100; failed ones are 0.

        ``rows``: the feasible rows; None: all of them. Raises RuleError where a normalize
        expression fails and the policy has Abort.
        """
        if self._normalizer is None:
            name = self._score.normalizer
            return scores if name is None else normalized(name, scores)
        failed = failures(scores)
        if not failed.any():
            return self._expressed(self._normalizer, scores, pod, cycle, rows)
        good = np.flatnonzero(~failed)
        result = np.zeros(len(scores), np.int64)
        left = good if rows is None else rows[good]
        result[good] = self._expressed(self._normalizer, scores[good], pod, cycle, left)
        return result

    def _expressed(
        self,
        bound: BoundUnit,
        scores: RawScores,
        pod: PodInfo | None,
        cycle: Activation,
        rows: Rows,
    ) -> Scores:
        """Return what the normalize expression makes of scores none of which failed."""
        value, errors = self._computed(bound, scores, pod, cycle, rows)
        if self._score.aborts and np.any(errors):
            place = int(np.flatnonzero(errors)[0])
            failure = Failure("", bound.unit.words(int(errors[place])))
            row = place if rows is None else int(rows[place])
            raise RuleError(self._failure_text("score.normalize", failure, row))
        result: Scores = np.where(errors, 0, value)
        return result

    def _computed(
        self,
        bound: BoundUnit,
        scores: RawScores,
        pod: PodInfo | None,
        cycle: Activation,
        rows: Rows,
    ) -> tuple[Scores, npt.NDArray[np.int64]]:
        """Return the value and the error of the normalize expression for each score."""
        n = len(scores)
        seen = Scored.of(scores, cycle)
        out = bound.vector(pod, seen, slice(0, n) if rows is None else rows, n)
        root = bound.unit.roots[0]
        value, errors = (
            np.broadcast_to(np.asarray(part, dtype=np.int64), scores.shape)
            for part in (out[root.value], 0 if root.error is None else out[root.error])
        )
        return value, errors
