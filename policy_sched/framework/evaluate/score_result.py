"""How good each feasible node is for a pod: arrays that can be patched row by row.

Theory of operation. `PluginScores` are one score plugin's raw scores, and its part of the total:
the raw scores normalised and weighted. `total` is the sum of the parts, -1 where the pod cannot
run. Only feasible rows are meaningful. A plugin that normalises may depend on every
feasible row's score, so when one of them changes, or the set of feasible rows does, its
normalisation runs again over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from policy_sched.errors import PluginError
from policy_sched.framework import (
    Code,
    CycleState,
    Feasible,
    RawScores,
    Rows,
    Scope,
    Scores,
    Status,
)
from policy_sched.framework.evaluate.static_cache import StaticResultCache
from policy_sched.framework.runtime import Hook, Runner
from policy_sched.model import PodInfo

MAX_NODE_SCORE: Final = 100
#: Below this share of feasible rows they are gathered first instead of scoring every row.
GATHER_BELOW: Final = 0.25
#: Total of a row on which the pod cannot run, where shares may make a total negative.
NOWHERE: Final = -(2**63)
_NOTHING: Final = np.empty(0, np.int64)


class PluginScores:
    """One score plugin's scores, shape (n,): int64, or raw float64 that is normalised.

    ``raw`` is shared with the static result cache until it is patched. ``part`` is None where it is
    just ``raw`` times the weight.
    """

    __slots__ = ("by_row", "hook", "normalizer", "part", "proved", "raw", "scope", "shared")

    def __init__(self, hook: Hook, normalizer: Hook | None, runner: Runner) -> None:
        self.hook = hook
        self.normalizer = normalizer
        signature = runner.pipeline.signatures.get(hook.plugin)
        self.scope = Scope.VOLATILE if signature is None else signature.scope
        self.proved = signature is not None and signature.proved
        self.by_row = signature is not None and signature.normalizes_by_row
        self.raw: RawScores = _NOTHING
        self.part: Scores | None = None
        self.shared = False

    def weighted(self) -> Scores:
        """Return the plugin's share of the total, row by row."""
        if self.part is not None:
            return self.part
        return self.raw if self.hook.weight == 1 else self.raw * self.hook.weight

    def snapshot(self) -> PluginScores:
        """Return a copy-on-write copy."""
        self.shared = True
        return copy(self)

    def share(self, row: int) -> int:
        """Return the plugin's share of one row's total."""
        if self.part is not None:
            return int(self.part[row])
        return int(self.raw[row]) * self.hook.weight

    def put(self, rows: NDArray[np.intp], fresh: RawScores) -> RawScores:
        """Write fresh raw scores of `rows`; return by how much they rose."""
        if self.shared:
            self.raw, self.shared = self.raw.copy(), False
        gain: RawScores = fresh - self.raw[rows]
        self.raw[rows] = fresh
        return gain


class Scoring:
    """The scores of one pod over all rows [0, n).

    ``total``: int64, shape (n,), sum of weighted scores, below all others where not feasible.
    ``shares``: scores of extenders, by name. ``scored``: whether plugins were
    asked; they need not be where there is no choice.
    """

    note: Mapping[str, int] | None = None
    """By plugin, what one row got, where no more than that was kept."""

    def __init__(
        self,
        runner: Runner,
        state: CycleState,
        pod: PodInfo,
        feasible: NDArray[np.intp],
        static_results: StaticResultCache,
    ) -> None:
        self._runner = runner
        self._static_results = static_results
        self.n = n = static_results.table.n
        self.shares: Mapping[str, Scores] = {}
        self.scored = True
        state.write(Feasible(feasible))
        status, self._skipped = runner.pre_score(state, pod)
        if not status.ok:
            raise PluginError(f'running PreScore plugin "{status.plugin}": {status.message()}')
        normalizers = {hook.plugin: hook for hook in runner.pipeline.at("normalize_score")}
        self._plugin_scores = [
            PluginScores(hook, normalizers.get(hook.plugin), runner)
            for hook in runner.active("score", self._skipped)
        ]
        self._moving = [
            plugin_scores
            for plugin_scores in self._plugin_scores
            if plugin_scores.scope is Scope.NODE
        ]
        self._wide = any(plugin_scores.scope > Scope.NODE for plugin_scores in self._plugin_scores)
        rows = None if feasible.size >= GATHER_BELOW * n else feasible
        start = runner.began()
        try:
            for plugin_scores in self._plugin_scores:
                self._ask(plugin_scores, state, pod, rows)
                self._normalize(plugin_scores, state, pod, feasible)
        except PluginError:
            runner.ended("score", Code.ERROR, start)
            raise
        self._sum(feasible)
        runner.ended("score", Code.SUCCESS, start)

    @property
    def skipped(self) -> frozenset[str] | None:
        """The plugins that PreScore left out; None if no plugin ran."""
        return self._skipped if self.scored else None

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take, at most."""
        return 8 * self.n * (2 * len(self._plugin_scores) + 1)

    def best_rows(self) -> NDArray[np.intp]:
        """Return the rows with the highest total, ascending, shape (k,)."""
        return np.flatnonzero(self.total == self.total.max())

    def snapshot(self) -> Scoring:
        """Return the answer as it is now; it cannot be patched."""
        clone = copy(self)
        clone.total = self.total.copy()
        clone._plugin_scores = [plugin_scores.snapshot() for plugin_scores in self._plugin_scores]  # noqa: SLF001 - one of its own kind
        return clone

    def summary(self, row: int) -> Scoring:
        """Return a copy of one row's scores by plugin; it cannot be patched."""
        clone = self.only_row(row)
        clone.note = {
            plugin_scores.hook.plugin: plugin_scores.share(row)
            for plugin_scores in self._plugin_scores
        }
        clone._plugin_scores = []  # noqa: SLF001 - one of its own kind
        return clone

    def only_row(self, row: int) -> Scoring:
        """Return a copy in which only one row was scored; it cannot be patched."""
        clone = copy(self)
        clone.total = np.full(self.n, -1, np.int64)
        clone.total[row] = self.total[row]
        return clone

    @classmethod
    def of_one(cls, row: int, n: int) -> Scoring:
        """Return the result for a single feasible row, which is not scored."""
        found = cls.__new__(cls)
        found.n, found.shares, found._plugin_scores = n, {}, []  # noqa: SLF001 - one of its own kind
        found.scored = False
        found.total = np.full(n, -1, np.int64)
        found.total[row] = 0
        return found

    def with_extender_scores(self, shares: Mapping[str, Scores]) -> Scoring:
        """Return the answer with shares of the total that no plugin gave; it cannot be patched.

        ``shares``: int64, shape (n,), by extender; they may be negative.
        """
        clone = copy(self)
        clone.total = np.where(self.total < 0, NOWHERE, sum(shares.values(), self.total))
        clone.shares = shares
        return clone

    def weighted(self, rows: NDArray[np.intp]) -> dict[str, list[int]]:
        """Return each plugin's normalised and weighted score of `rows`, by plugin."""
        if self.note is not None:
            plugins = {plugin: [share] * rows.size for plugin, share in self.note.items()}
        else:
            plugins = {
                plugin_scores.hook.plugin: plugin_scores.weighted()[rows].tolist()
                for plugin_scores in self._plugin_scores
            }
        return plugins | {name: share[rows].tolist() for name, share in self.shares.items()}

    def raw(self, rows: NDArray[np.intp]) -> dict[str, list[float]]:
        """Return each plugin's raw scores of some rows."""
        return {
            plugin_scores.hook.plugin: plugin_scores.raw[rows].tolist()
            for plugin_scores in self._plugin_scores
        }

    def patch(
        self,
        state: CycleState,
        pod: PodInfo,
        touched: NDArray[np.intp],
        before: NDArray[np.bool_],
        first: NDArray[np.int16],
    ) -> bool:
        """Ask again about rows on which pods came or went, or that are feasible now or no longer.

        ``before``: whether each touched row was feasible. ``first``: the filters' answer now;
        no other row's feasibility may have changed. Returns False if a PreScore plugin that
        reads the whole cluster no longer answers as it did: then score anew.
        """
        if not self._still_scores_the_same(state, pod, first):
            return False
        now = first[touched] == 0
        start = self._runner.began()
        try:
            if not self._wide and not (before != now).any():
                self._patch_moving(state, pod, touched if now.all() else touched[now], first)
            else:
                self._patch_all(state, pod, touched[now], touched[now & ~before], first)
        except PluginError:
            self._runner.ended("score", Code.ERROR, start)
            raise
        self._runner.ended("score", Code.SUCCESS, start)
        return True

    def _still_scores_the_same(
        self, state: CycleState, pod: PodInfo, first: NDArray[np.int16]
    ) -> bool:
        runner, hooks = self._runner, self._runner.wide["pre_score"]
        if not hooks:
            return True
        state.write(Feasible(first=first))
        start = runner.began()
        same = True
        for hook in hooks:
            status = cast("Status", runner.call("pre_score", hook, state, pod))
            skips = status.code is Code.SKIP
            if not (skips or status.ok) or skips != (hook.plugin in self._skipped):
                same = False
                break
        runner.ended("pre_score", Code.SUCCESS, start)
        return same

    def _patch_moving(
        self, state: CycleState, pod: PodInfo, rows: NDArray[np.intp], first: NDArray[np.int16]
    ) -> None:
        """Ask again about feasible rows that stay feasible, the most frequent change of all."""
        if not rows.size:
            return
        whole = False
        for plugin_scores in self._moving:
            fresh = cast(
                "RawScores", self._runner.call("score", plugin_scores.hook, state, pod, rows)
            )
            gain = plugin_scores.put(rows, fresh)
            if plugin_scores.part is None:
                self.total[rows] += gain * plugin_scores.hook.weight
            elif plugin_scores.by_row or gain.any():
                self._normalize(plugin_scores, state, pod, np.flatnonzero(first == 0))
                whole = True
        if whole:
            self._sum(np.flatnonzero(first == 0))

    def _patch_all(
        self,
        state: CycleState,
        pod: PodInfo,
        rows: NDArray[np.intp],
        newly: NDArray[np.intp],
        first: NDArray[np.int16],
    ) -> None:
        """Ask again about feasible `rows`, of which `newly` were not feasible before."""
        feasible = np.flatnonzero(first == 0)
        for plugin_scores in self._plugin_scores:
            if plugin_scores.scope > Scope.NODE:
                self._ask(plugin_scores, state, pod, None)
            else:
                asked = newly if plugin_scores.scope is Scope.STATIC else rows
                if asked.size:
                    fresh = self._runner.call("score", plugin_scores.hook, state, pod, asked)
                    plugin_scores.put(asked, cast("RawScores", fresh))
            self._normalize(plugin_scores, state, pod, feasible)
        self._sum(feasible)

    def _ask(
        self, plugin_scores: PluginScores, state: CycleState, pod: PodInfo, rows: Rows
    ) -> None:
        if rows is None:
            plugin_scores.raw = cast(
                "RawScores", self._static_results.ask("score", plugin_scores.hook, state, pod)
            )
            plugin_scores.shared = True
            return
        fresh = cast("RawScores", self._runner.call("score", plugin_scores.hook, state, pod, rows))
        dtype = np.int64 if plugin_scores.normalizer is None else fresh.dtype
        plugin_scores.raw, plugin_scores.shared = np.zeros(self.n, dtype), False
        plugin_scores.raw[rows] = fresh

    def _normalize(
        self,
        plugin_scores: PluginScores,
        state: CycleState,
        pod: PodInfo,
        feasible: NDArray[np.intp],
    ) -> None:
        """Compute a plugin's part of the total from its raw scores."""
        if plugin_scores.normalizer is None and plugin_scores.proved:
            return
        everyone = feasible.size == self.n
        scores = plugin_scores.raw if everyone else plugin_scores.raw[feasible]
        if plugin_scores.normalizer is not None and feasible.size:
            state.write(Feasible(feasible))
            answer = self._runner.call(
                "normalize_score", plugin_scores.normalizer, state, pod, scores
            )
            scores = cast("Scores", answer)
        if not plugin_scores.proved:
            _check_range(plugin_scores.hook.plugin, scores)
        if everyone:
            plugin_scores.part = scores * plugin_scores.hook.weight
        else:
            plugin_scores.part = np.zeros(self.n, np.int64)
            plugin_scores.part[feasible] = scores * plugin_scores.hook.weight

    def _sum(self, feasible: NDArray[np.intp]) -> None:
        total = np.zeros(self.n, np.int64)
        for plugin_scores in self._plugin_scores:
            total += plugin_scores.weighted()
        if feasible.size < self.n:
            closed = np.ones(self.n, np.bool_)
            closed[feasible] = False
            total[closed] = -1
        self.total = total


def _check_range(plugin: str, scores: Scores) -> None:
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
