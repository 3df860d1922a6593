"""Views: the results of one plugin over all rows of the node table.

Theory of operation. A view is written where its plugin's result may be another one, and how far
that reaches is the plugin's scope, the view's durability: STATIC views hold until a node changes,
and evaluations share them; of a NODE view the rows hold on which no pod came or went; CLUSTER views
hold until anything changes. A result that equals the one before is no change (backdating).

A normalised score follows from the raw scores of all feasible rows. Where normalisation reads no
more of the others than the lowest and the highest, the scores of other rows stay as long as
feasible rows have these two and none is beyond (`ScoreView.same_bounds`).
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched import framework
from policy_sched.errors import PluginError
from policy_sched.framework.runtime import Hook, Runner

FEASIBLE: Final = 0
NO_NODE: Final = -1
OUTSIDE: Final = -2
NOT_ASKED: Final = -3
"""Values of `first`: the row is feasible, is no live node, no PreFilter plugin named it, or it
was left out after the plugins: enough others were found before, or an extender rejected it.

Positive values are one more than the index of the filter plugin that rejected the row.
"""
#: Total of a row that is not feasible.
CLOSED: Final = -1
MAX_NODE_SCORE: Final = 100
_NO_SCORES: Final = np.empty(0, np.int64)
_ALL: Final = slice(None)


class FilterView(msgspec.Struct, eq=False):
    """One filter's codes of all rows [0, n)."""

    hook: Hook
    codes: framework.Codes | None = None
    """None while it rejects no row."""
    describe: framework.Describe = framework.PASSES.describe

    def take(self, result: framework.FilterResult, rows: framework.Rows, n: int) -> None:
        """Write the filter's result for some rows, or for all n (None)."""
        fresh = result.codes
        if fresh is not None:
            self.describe = result.describe
        if rows is None:
            # A plugin may write again to an array that is not read-only.
            self.codes = fresh.copy() if fresh is not None and fresh.flags.writeable else fresh
        elif self.codes is not None or (fresh is not None and fresh.any()):
            codes = self.own(n)
            codes[rows] = 0 if fresh is None else fresh

    def copy(self) -> FilterView:
        """Return a copy that changes independently."""
        codes = None if self.codes is None else self.codes.copy()
        return FilterView(self.hook, codes, self.describe)

    def own(self, n: int) -> framework.Codes:
        """Return the codes as an array of its own, which can be changed."""
        if self.codes is None:
            self.codes = np.zeros(n, np.int16)
        elif not self.codes.flags.writeable:
            self.codes = self.codes.copy()
        return self.codes


class ScorePlugin(msgspec.Struct, frozen=True, eq=False):
    """What is known of a score plugin."""

    hook: Hook
    normalizer: Hook | None
    durability: framework.Scope
    proved: bool = False
    """Scores are within 0..100."""
    kernel: framework.RowKernel = framework.NO_KERNEL
    """Says what normalisation reads."""
    metered: bool = False
    """The rule runs loops row by row, so only feasible rows are worth it."""
    plain: bool = False
    """A row's part of the total is its raw score times the weight."""

    @staticmethod
    def of(hook: Hook, normalizer: Hook | None, runner: Runner) -> ScorePlugin:
        """Return what a pipeline knows of a plugin."""
        signature = runner.pipeline.signatures.get(hook.plugin)
        if signature is None:
            return ScorePlugin(hook, normalizer, framework.Scope.VOLATILE)
        kernel = signature.kernel
        return ScorePlugin(
            hook,
            normalizer,
            signature.scope,
            signature.proved,
            kernel,
            kernel.score is not None and kernel.score.limited is not None,
            normalizer is None and signature.proved,
        )


class ScoreView(msgspec.Struct, eq=False):
    """One plugin's scores of all rows [0, n): int64, or raw float64 that is normalised."""

    plugin: ScorePlugin
    weight: int
    raw: framework.RawScores = _NO_SCORES
    """Only feasible rows are meaningful, or all live ones where it is ``whole``."""
    whole: bool = False
    part: framework.Scores | None = None
    """The plugin's part of the total, None where it is `raw` times the weight."""
    shared: bool = False
    """Whether the arrays are others', too: they are copied before they are changed."""
    bounds: tuple[float, float, int, int] | None = None
    """The lowest and the highest raw score that `part` was normalised by, and rows that have them;
    None where it is not known."""
    grouped: framework.GroupedSums | None = None
    """Scores by group, in place of `raw` and `part`, while the plugin updates them."""

    @property
    def name(self) -> str:
        """The name of the plugin."""
        return self.plugin.hook.plugin

    def weighted(self, rows: framework.Rows = None) -> framework.Scores:
        """Return the plugin's part of the total in some rows, or in all (None)."""
        if self.grouped is not None:
            groups = self.grouped.groups
            scores = np.array(self.grouped.normalized, np.int64) * self.weight
            return scores.take(groups if rows is None else groups.take(rows))
        scores = self.raw if self.part is None else self.part
        scores = scores if rows is None else scores.take(rows)
        return scores if self.weight == 1 or self.part is not None else scores * self.weight

    def weighted_of(self, row: int) -> int:
        """Return the plugin's part of the total in one row, without arrays: each pod is logged."""
        if self.grouped is not None:
            score = self.grouped.normalized[self.grouped.groups.item(row)]
            return int(score) * self.weight
        if self.part is not None:
            return self.part.item(row)
        return int(self.raw.item(row)) * self.weight

    def raw_at(self, rows: NDArray[np.intp] | slice) -> framework.RawScores:
        """Return the raw scores of some rows."""
        if self.grouped is not None:
            return np.array(self.grouped.raw, np.int64)[self.grouped.groups[rows]]
        return self.raw[rows]

    def take(self, raw: framework.RawScores) -> None:
        """Note the raw scores of all rows, which may be the plugin's own array."""
        self.raw, self.shared, self.whole = raw, True, True

    def put(self, rows: NDArray[np.intp], fresh: framework.RawScores) -> framework.RawScores:
        """Write raw scores of some rows; return by how much they rose."""
        self.own()
        gain: framework.RawScores = fresh - self.raw[rows]
        self.raw[rows] = fresh
        return gain

    def own(self) -> None:
        """Make the arrays its own, which can be changed."""
        if self.shared:
            self.raw = self.raw.copy()
            self.part = None if self.part is None else self.part.copy()
            self.shared = False

    def find_bounds(self, feasible: NDArray[np.intp]) -> None:
        """Note the bounds of rows, by which the scores were just normalised."""
        if self.plugin.kernel.normalizes_by_extremes and feasible.size:
            raw = self.raw[feasible]
            low, high = feasible.item(raw.argmin()), feasible.item(raw.argmax())
            self.bounds = self.raw.item(low), self.raw.item(high), low, high
        else:
            self.bounds = None

    def same_bounds(self, first: framework.Codes) -> bool:
        """Return whether feasible rows have the lowest and the highest score yet."""
        if self.bounds is None:
            return False
        bounds = self.bounds
        low, high = (
            self._row_with(score, row, first)
            for score, row in zip(bounds[:2], bounds[2:], strict=True)
        )
        if low is None or high is None:
            return False
        self.bounds = bounds[0], bounds[1], low, high
        return True

    def _row_with(self, score: float, row: int, first: framework.Codes) -> int | None:
        """Return a feasible row with a raw score, ``row`` if it has it yet."""
        if first.item(row) == FEASIBLE and self.raw.item(row) == score:
            return row
        rows = ((self.raw == score) & (first == FEASIBLE)).nonzero()[0]
        return rows.item(0) if rows.size else None

    def copy(self) -> ScoreView:
        """Return a copy that shares arrays until it changes them; this one must not change them."""
        copy = ScoreView(self.plugin, self.weight)
        if self.grouped is not None:
            copy.raw, copy.part = self.raw_at(_ALL), self.weighted()
        else:
            copy.raw, copy.part, copy.shared = self.raw, self.part, True
        copy.whole, copy.bounds = self.whole, self.bounds
        return copy


def check_range(plugin: str, scores: framework.Scores) -> None:
    """Refuse scores outside 0..100, as upstream does after normalisation."""
    if not scores.size:
        return
    low, high = int(scores.min()), int(scores.max())
    if low < 0 or high > MAX_NODE_SCORE:
        wrong = low if low < 0 else high
        raise PluginError(
            f'applying score defaultWeights on Score plugins: plugin "{plugin}" returns an invalid '
            f"score {wrong}, it should in the range of [0, {MAX_NODE_SCORE}] after normalizing"
        )
