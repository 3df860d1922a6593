"""How good each feasible node is for a pod: arrays that can be patched row by row.

Theory of operation. `raw[j]` is score plugin j's answer, `parts[j]` the same normalised and
weighted, `total` their sum, -1 where the pod cannot run. Only feasible rows mean anything in
`raw` and `parts`. A plugin that normalises may depend on every feasible row's score, so when one
of them changes, or the set of feasible rows does, its normalisation runs again over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from policy_sched.errors import PluginError
from policy_sched.framework.answers import Answers
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.pipeline import Hook
from policy_sched.framework.results import Feasible, Rows, Scope, Scores
from policy_sched.framework.runner import Runner
from policy_sched.framework.status import Code, Status
from policy_sched.model.pod_info import PodInfo

MAX_NODE_SCORE: Final = 100
#: Below this share of feasible rows they are gathered first instead of scoring every row.
GATHER_BELOW: Final = 0.25


class Scoring:
    """The score plugins' answers for one pod over all rows [0, n).

    ``total``: int64, shape (n,), sum of weighted scores, -1 where not feasible. ``plugins``: the
    hooks that were not skipped. ``parts[j]``: int64, shape (n,), weighted score of plugins[j].
    """

    def __init__(
        self,
        runner: Runner,
        state: CycleState,
        pod: PodInfo,
        feasible: NDArray[np.intp],
        answers: Answers,
    ) -> None:
        self._runner = runner
        self._answers = answers
        self.n = n = answers.table.n
        state.write(Feasible(feasible))
        status, self._skipped = runner.pre_score(state, pod)
        if not status.ok:
            raise PluginError(f'running PreScore plugin "{status.plugin}": {status.message()}')
        self.plugins = runner.active("score", self._skipped)
        normalizers = {hook.plugin: hook for hook in runner.pipeline.at("normalize_score")}
        self._normalizers = [normalizers.get(hook.plugin) for hook in self.plugins]
        signatures = runner.pipeline.signatures
        self._signed = [signatures.get(hook.plugin) for hook in self.plugins]
        self._scopes = [runner.pipeline.scope(hook.plugin) for hook in self.plugins]
        self._moving = [j for j, scope in enumerate(self._scopes) if scope is Scope.NODE]
        self._wide = bool(runner.wide["pre_score"]) or max(self._scopes, default=0) > Scope.NODE
        rows = None if feasible.size >= GATHER_BELOW * n else feasible
        self._raw = [self._ask(hook, state, pod, rows) for hook in self.plugins]
        self.parts = [self._part(j, state, pod, raw, feasible) for j, raw in enumerate(self._raw)]
        self._sum(feasible)

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return 8 * self.n * (2 * len(self.plugins) + 1)

    def ties(self) -> NDArray[np.intp]:
        """Return the rows with the highest total, ascending, shape (k,)."""
        return np.flatnonzero(self.total == self.total.max())

    def narrowed(self, row: int) -> Scoring:
        """Return the answer of somebody who looked at one row only; it cannot be patched."""
        twin = copy(self)
        twin.total = np.full(self.n, -1, np.int64)
        twin.total[row] = self.total[row]
        return twin

    def weighted(self, rows: NDArray[np.intp]) -> dict[str, list[int]]:
        """Return each plugin's normalised and weighted score of `rows`, by plugin."""
        return {
            hook.plugin: part[rows].tolist()
            for hook, part in zip(self.plugins, self.parts, strict=True)
        }

    def patch(
        self,
        state: CycleState,
        pod: PodInfo,
        touched: NDArray[np.intp],
        before: Sequence[bool],
        first: NDArray[np.int16],
    ) -> bool:
        """Ask again about rows on which pods came or went.

        ``before``: whether each touched row was feasible. ``first``: the filters' answer now;
        no other row's feasibility may have changed. Returns False if a PreScore plugin that
        reads the whole cluster no longer answers as it did: then score anew.
        """
        now = [value == 0 for value in first[touched].tolist()]
        flipped = list(before) != now
        if self._wide:
            state.write(Feasible(first=first))
            if not self._still_scores_the_same(state, pod):
                return False
        elif not flipped:
            self._patch_moving(state, pod, touched if all(now) else touched[now], first)
            return True
        open_rows = touched[now]
        newly = touched[[is_open and not was for was, is_open in zip(before, now, strict=True)]]
        whole = False
        for j, scope in enumerate(self._scopes):
            if scope > Scope.NODE:
                self._raw[j] = self._ask(self.plugins[j], state, pod, None)
                changed = True
            else:
                rows = newly if scope is Scope.STATIC else open_rows
                changed = self._patch_raw(j, state, pod, rows)
            if changed or flipped:
                whole |= self._patch_part(j, state, pod, open_rows, first)
        if whole:
            self.total.fill(-1)
            self._sum(np.flatnonzero(first == 0))
            return True
        for row, is_open in zip(touched.tolist(), now, strict=True):
            self.total[row] = sum(part.item(row) for part in self.parts) if is_open else -1
        return True

    def _patch_moving(
        self, state: CycleState, pod: PodInfo, rows: NDArray[np.intp], first: NDArray[np.int16]
    ) -> None:
        """Ask again about feasible rows that stay feasible, the most frequent change of all."""
        if not rows.size:
            return
        whole = False
        for j in self._moving:
            hook, raw = self.plugins[j], self._raw[j]
            fresh = cast("Scores", self._runner.call("score", hook, state, pod, rows))
            gain = fresh - raw[rows]
            raw[rows] = fresh
            if self._normalizers[j] is None:
                gain *= hook.weight
                self.parts[j][rows] += gain
                self.total[rows] += gain
            elif gain.any():
                whole |= self._patch_part(j, state, pod, rows, first)
        if whole:
            self._sum(np.flatnonzero(first == 0))

    def _still_scores_the_same(self, state: CycleState, pod: PodInfo) -> bool:
        for hook in self._runner.wide["pre_score"]:
            status = cast("Status", self._runner.call("pre_score", hook, state, pod))
            skips = status.code is Code.SKIP
            if not (skips or status.ok) or skips != (hook.plugin in self._skipped):
                return False
        return True

    def _patch_raw(self, j: int, state: CycleState, pod: PodInfo, rows: NDArray[np.intp]) -> bool:
        if not rows.size:
            return False
        fresh = cast("Scores", self._runner.call("score", self.plugins[j], state, pod, rows))
        old = self._raw[j][rows]
        if (fresh == old).all():
            return False
        self._raw[j][rows] = fresh
        return True

    def _patch_part(
        self,
        j: int,
        state: CycleState,
        pod: PodInfo,
        rows: NDArray[np.intp],
        first: NDArray[np.int16],
    ) -> bool:
        """Bring `parts[j]` up to date; True if other rows than `rows` may have changed."""
        if self._scopes[j] > Scope.NODE or self._normalizers[j] is not None:
            feasible = np.flatnonzero(first == 0)
            self.parts[j] = self._part(j, state, pod, self._raw[j], feasible)
            return True
        self.parts[j][rows] = self._raw[j][rows] * self.plugins[j].weight
        return False

    def _ask(self, hook: Hook, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        if rows is None:
            shared = cast("Scores", self._answers.ask("score", hook, state, pod))
            return shared.copy()  # it is patched from now on
        answer = cast("Scores", self._runner.call("score", hook, state, pod, rows))
        full = np.zeros(self.n, np.int64)
        full[rows] = answer
        return full

    def _part(
        self,
        j: int,
        state: CycleState,
        pod: PodInfo,
        raw: Scores,
        feasible: NDArray[np.intp],
    ) -> Scores:
        """Normalise and weight one plugin's scores."""
        hook, normalizer = self.plugins[j], self._normalizers[j]
        signed = self._signed[j]
        if normalizer is None and signed is not None and signed.proved:
            return raw * hook.weight
        everyone = feasible.size == self.n
        scores = raw if everyone else raw[feasible]
        if normalizer is not None and feasible.size:
            scores = cast(
                "Scores", self._runner.call("normalize_score", normalizer, state, pod, scores)
            )
        if signed is None or not signed.proved:
            _check_range(hook.plugin, scores)
        if everyone:
            return scores * hook.weight
        part = np.zeros(self.n, np.int64)
        part[feasible] = scores * hook.weight
        return part

    def _sum(self, feasible: NDArray[np.intp]) -> None:
        total = np.zeros(self.n, np.int64)
        for part in self.parts:
            total += part
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
            f'plugin "{plugin}" returns an invalid score {wrong}, it should in the range of '
            f"[0, {MAX_NODE_SCORE}] after normalizing"
        )
