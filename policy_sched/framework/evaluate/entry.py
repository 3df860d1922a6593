"""Entry: an evaluation and the arrays behind it, with every way in which they are written."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, TypeAlias, TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from policy_sched.framework import (
    NO_CODE,
    Code,
    Codes,
    CycleState,
    Describe,
    Incremental,
    RawScores,
    Rejection,
    RowFunctions,
    Scope,
    Scores,
)
from policy_sched.framework.evaluate.filter_dry_run import FilterDryRun
from policy_sched.framework.evaluate.nominated_pods import NominatedPods
from policy_sched.framework.evaluate.pod_signature import Key
from policy_sched.framework.evaluate.ranking import Ranking
from policy_sched.framework.evaluate.results import (
    FEASIBLE,
    NOT_ASKED,
    Evaluation,
    Explanations,
    FilteredNodes,
    Override,
    PluginScores,
)
from policy_sched.framework.runtime import Hook, Hooks, PointResult

T = TypeVar("T", bound=np.generic)
Moves: TypeAlias = tuple[Sequence[int], Sequence[int], Sequence[int]]
"""Rows that stay feasible, those that have become feasible, and those that are no longer."""


class Unknown(Enum):
    """The type of UNKNOWN."""

    UNKNOWN = 0


UNKNOWN: Final = Unknown.UNKNOWN
_NO_TOTAL: Final = np.empty(0, np.int64)
_NO_RANKING: Final = Ranking(_NO_TOTAL)

#: Up to this many rows a loop over them is faster than operations on arrays.
FEW_ROWS: Final = 8

_NO_STAMPS: Final = array("q")
#: About so many bytes are in the objects of an evaluation. On few nodes, that is most of it.
OBJECT_BYTES: Final = 8192


class Entry:
    """An evaluation, and the arrays behind it, which only the Evaluator writes.

    ``fixed``: int16, shape (n,), rows that no filter looks at. ``filters``: those that take part,
    None where they are not known. ``moving``: the filters that read more than static fields;
    ``wide``: those of them that read more than the row. ``moving_scores``: the score plugins of
    scope NODE; ``wide_scores``: those that read more. ``wide_pre_filter`` and ``wide_pre_score``:
    the plugins whose result there may depend on the whole cluster. ``row_functions``: what runs for
    a row in place of the plugins that read no more than the row, None where plugins run one by one,
    UNKNOWN before the first change; it writes no ``codes`` of filters after the first that rejects
    a row, so ``first`` says whose code of a row counts. ``borrowed``: whether scores may belong to
    a static part. ``rejects``: False only while all rows are feasible. ``outdated``: rows for which
    the raw scores of scope NODE are not up to date, None if all are; noted where a filter is wide.
    ``ranking``: of ``total``, and told of each change. ``version``: the journal's when it was up to
    date, and ``stamps`` those of the rows then. Without nominated pods ``by_plugins`` is the same
    array as ``first``. ``incremental``: what updates the results of plugins of the whole cluster,
    by name; their hooks are not among ``wide_pre_filter`` and ``wide_pre_score`` meanwhile. None:
    not looked for yet. ``unshut``: meanwhile, the totals that rows would have if all wide filters
    passed them; None where other rows' scores may depend on that.
    """

    __slots__ = (
        "_by_static",
        "_wide_hooks",
        "borrowed",
        "by_plugins",
        "codes",
        "describes",
        "fatal",
        "first",
        "fixed",
        "incremental",
        "moving",
        "moving_scores",
        "nominated",
        "outdated",
        "overrides",
        "ranking",
        "rejects",
        "result",
        "row_functions",
        "scopes",
        "stamps",
        "total",
        "unshut",
        "version",
        "wide",
        "wide_pre_filter",
        "wide_pre_score",
        "wide_scores",
    )

    def __init__(
        self,
        fixed: Codes,
        nominated: NominatedPods | None = None,
        version: int = 0,
        first: Codes | None = None,
    ) -> None:
        self.fixed = fixed
        self.borrowed = first is not None
        self.rejects = True
        self.first: Codes = fixed.copy() if first is None else first
        self.by_plugins: Codes = self.first if nominated is None else self.first.copy()
        self.codes: list[Codes | None] = []
        self.describes: list[Describe] = []
        self.fatal: dict[int, tuple[frozenset[int], bool]] = {}
        self.overrides: dict[int, Override] = {}
        self.scopes: list[Scope] = []
        self.moving: list[int] = []
        self.wide: list[int] = []
        self.total: Scores = _NO_TOTAL
        self.ranking = _NO_RANKING
        self.outdated: NDArray[np.bool_] | None = None
        self.moving_scores: list[PluginScores] = []
        self.wide_scores: list[PluginScores] = []
        self.wide_pre_filter: tuple[Hook, ...] = ()
        self.wide_pre_score: tuple[Hook, ...] = ()
        self.incremental: Mapping[str, Incremental] | None = None
        self.unshut: Scores | None = None
        self._wide_hooks: tuple[tuple[Hook, ...], tuple[Hook, ...]] | None = None
        self.row_functions: RowFunctions | Unknown | None = None
        self.nominated = nominated
        self.version = version
        self.stamps = _NO_STAMPS
        self._by_static: Codes | None = None
        self.result: Evaluation

    @property
    def separate_rows(self) -> bool:
        """Whether a row's total follows from the raw scores of the row: nothing is normalised."""
        scoring = self.result.scoring
        return scoring is not None and all(one.part is None for one in scoring.plugins)

    @property
    def nbytes(self) -> int:
        """Bytes that it takes: its arrays at most, its objects about."""
        scoring = self.result.scoring
        numbers = 0 if scoring is None else 2 * len(scoring.plugins) + 1
        each = 2 * (2 + len(self.codes)) + 8 * numbers
        return OBJECT_BYTES + each * len(self.fixed) + self.ranking.nbytes

    def update_with(self, incremental: Mapping[str, Incremental]) -> None:
        """Update the results of these plugins by what they gave for it."""
        self.incremental = incremental
        if incremental:
            pre_filter, pre_score = self._wide_hooks = self.wide_pre_filter, self.wide_pre_score
            self.wide_pre_filter = tuple(h for h in pre_filter if h.plugin not in incremental)
            self.wide_pre_score = tuple(h for h in pre_score if h.plugin not in incremental)

    @property
    def wide_hooks(self) -> tuple[tuple[Hook, ...], tuple[Hook, ...]]:
        """``wide_pre_filter`` and ``wide_pre_score`` with the hooks that `update_with` left out."""
        return self._wide_hooks or (self.wide_pre_filter, self.wide_pre_score)

    def call_all_plugins(self) -> None:
        """Give up `update_with`: results are written that its objects do not see."""
        if self._wide_hooks is not None:
            self.wide_pre_filter, self.wide_pre_score = self._wide_hooks
            self.incremental = self._wide_hooks = self.unshut = None
            for one in self.wide_scores:
                one.ungroup(self.first)

    def publish(
        self,
        state: CycleState,
        pre_filter: PointResult,
        dry_run: FilterDryRun,
        key: Key | None,
        names: Sequence[str],
        hooks: Hooks,
    ) -> None:
        """Make the result that reads the arrays; nothing is scored yet."""
        status = pre_filter.status
        first = read_only(self.first)
        filtering = FilteredNodes(
            first,
            first if self.by_plugins is self.first else read_only(self.by_plugins),
            dry_run.plugins,
            self.codes,
            self.describes,
            self.fatal,
            self.overrides,
            dry_run,
            names,
            Explanations(len(first)),
            None if status.code is Code.SUCCESS else status,
            dry_run.skipped,
            pre_filter.narrowed_by,
            hooks,
            False,
            key,
        )
        self.result = Evaluation(state, filtering)

    def reject(self, index: int, codes: Codes, last: int) -> None:
        """Add the codes of a filter to what those up to number ``last`` and earlier ones found."""
        self.codes[index] = codes
        self.rejects = True
        number, first = np.int16(index + 1), self.first
        rejects = codes != 0
        if last <= index:
            rejects &= first == FEASIBLE
            first += rejects * number  # FEASIBLE is 0; a masked assignment takes several times that
        else:
            rejects &= (first == FEASIBLE) | (first > number)
            first[rejects] = number
        if self.by_plugins is not first:
            np.copyto(self.by_plugins, first)

    def combine(self) -> None:
        """Work out ``first`` from all plugins' codes."""
        first = self.first
        np.copyto(first, self.fixed)
        for number, codes in enumerate(self.codes, start=1):
            if codes is not None and np.count_nonzero(codes):
                # FEASIBLE is 0; a masked assignment takes several times as long.
                first += ((codes != 0) & (first == FEASIBLE)) * np.int16(number)
        if self.by_plugins is not first:
            np.copyto(self.by_plugins, first)

    def combine_rows(self, rows: NDArray[np.intp]) -> None:
        """Work out ``first`` of some rows."""
        if rows.size <= FEW_ROWS:
            self._combine_few(rows.tolist())
            return
        self.first[rows] = self.by_plugins[rows] = self.rejecting(rows)

    def _combine_few(self, rows: Sequence[int]) -> None:
        for row in rows:
            if self.fixed[row] == FEASIBLE:
                self.first[row] = self.by_plugins[row] = self._rejecting_row(row)

    def _rejecting_row(self, row: int) -> int:
        if (number := self.fixed.item(row)) == FEASIBLE:
            for index, codes in enumerate(self.codes):
                if codes is not None and codes.item(row):
                    return index + 1
        return number

    def rejecting(self, rows: NDArray[np.intp]) -> Codes:
        """Return the number of the first plugin whose codes reject each row."""
        if rows.size == 1:
            return np.array((self._rejecting_row(rows.item()),), np.int16)
        first: Codes = self.fixed[rows]
        for index, codes in enumerate(self.codes):
            if codes is not None:
                first[(codes[rows] != 0) & (first == FEASIBLE)] = index + 1
        return first

    def note_scored(self, rows: NDArray[np.intp], others: NDArray[np.intp]) -> None:
        """Note which changed rows are scored again, and which are not: they are not feasible."""
        if others.size and self.outdated is None:
            self.outdated = np.zeros(len(self.fixed), np.bool_)
        if self.outdated is not None:
            self.outdated[others] = True
            self.outdated[rows] = False

    def put_rejections(self, rows: list[int], rejections: Sequence[Rejection]) -> Moves | None:
        """Write the moving filters' rejections of rows: the first that rejects it, and its code.

        None, and nothing changed, where only a filter can tell its code, or describe it.
        """
        first, codes, static = self.first, self.codes, self.static_rejections()
        stay: list[int] = []
        changed: list[tuple[int, int, int, int]] = []
        for row, rejection in zip(rows, rejections, strict=True):
            was, number, code = first.item(row), static.item(row), 0
            if rejection is not None and (number == FEASIBLE or number > rejection[0]):
                if rejection[1] == NO_CODE or codes[rejection[0]] is None:
                    return None
                number, code = rejection[0] + 1, rejection[1]
            if was != number or code:
                changed.append((row, was, number, code))
            elif number == FEASIBLE:
                stay.append(row)
        come, gone = [], []
        for row, was, number, code in changed:
            if number == FEASIBLE:
                come.append(row)
            elif was == FEASIBLE:
                gone.append(row)
            if was != number:
                first[row] = self.by_plugins[row] = number
            if code:
                self._put_code(number - 1, row, code)
        self.result.filtering.explanations.forget([one[0] for one in changed])
        return stay, come, gone

    def put_row_codes(self, rows: list[int], rejections: Sequence[Rejection]) -> bool:
        """Write the codes of the filters that read no more than a row, but not ``first``.

        False, and nothing changed, where only a filter can tell its code, or describe it.
        """
        for rejection in rejections:
            if rejection is not None:
                index, code = rejection
                if code == NO_CODE or self.codes[index] is None:
                    return False
        own = [i for i in self.moving if i not in self.wide and self.codes[i] is not None]
        for row, rejection in zip(rows, rejections, strict=True):
            for index in own:
                code = rejection[1] if rejection is not None and rejection[0] == index else 0
                codes = self.codes[index]
                if codes is not None and codes.item(row) != code:
                    self._put_code(index, row, code)
        return True

    def static_rejections(self) -> Codes:
        """Return which of the filters that do not move rejects each row, or ``fixed``."""
        if self._by_static is None:
            found = self.fixed
            for index, codes in enumerate(self.codes):
                if codes is not None and index not in self.moving and codes.any():
                    found = np.where((found == FEASIBLE) & (codes != 0), np.int16(index + 1), found)
            self._by_static = found
        return self._by_static

    def _put_code(self, index: int, row: int, code: int) -> None:
        codes = self.codes[index]
        assert codes is not None, "the filter has rejected a row before"
        if not codes.flags.writeable:
            codes = self.codes[index] = codes.copy()
        codes[row] = code

    def put_codes(self, index: int, rows: NDArray[np.intp], fresh: Codes | None) -> None:
        """Write a filter's codes of some rows."""
        codes = self.codes[index]
        if codes is None:
            if fresh is None or not fresh.any():
                return
            codes = self.codes[index] = np.zeros(len(self.fixed), np.int16)
        elif not codes.flags.writeable:
            codes = self.codes[index] = codes.copy()
        codes[rows] = 0 if fresh is None else fresh

    def override(
        self, rejections: Mapping[int, Override], rows: Sequence[int] | None = None
    ) -> None:
        """Reject rows that the plugins accept; see `FilterDryRun.rejections`.

        ``rows``: the rows whose overrides are replaced (None: all of them). Rows that no PreFilter
        plugin named are rejected for that.
        """
        before = list(self.overrides) if rows is None else rows
        for row in before:
            self.overrides.pop(row, None)
            self.first[row] = self.by_plugins[row]
        self.rejects = True
        for row, found in rejections.items():
            if not self.fixed[row]:
                self.overrides[row] = found
                self.first[row] = found[0]
        self.result.filtering.explanations.forget([*before, *rejections])

    def exclude(self, rows: NDArray[np.intp]) -> None:
        """Exclude live rows from now on."""
        self._by_static = None
        self.fixed[rows] = self.first[rows] = self.by_plugins[rows] = NOT_ASKED
        if self.overrides:
            gone = np.isin(np.fromiter(self.overrides, np.intp, len(self.overrides)), rows)
            for row, out in zip(list(self.overrides), gone.tolist(), strict=True):
                if out:
                    del self.overrides[row]

    def own_scores(self) -> None:
        """Make scores of a static part its own, which can be changed."""
        scoring = self.result.scoring
        if scoring is not None:
            plugins = tuple([one.snapshot() for one in scoring.plugins])
            self.moving_scores = [one for one in plugins if one.facts.scope is Scope.NODE]
            self.wide_scores = [one for one in plugins if one.facts.scope > Scope.NODE]
            self.result = replace(self.result, scoring=replace(scoring, plugins=plugins))
            self.borrowed = False

    def put_scores(
        self, plugin: PluginScores, rows: NDArray[np.intp], fresh: RawScores
    ) -> RawScores:
        """Write fresh raw scores of some rows; return by how much they rose."""
        if plugin.shared:
            plugin.raw, plugin.shared = plugin.raw.copy(), False
        gain: RawScores = fresh - plugin.raw[rows]
        plugin.raw[rows] = fresh
        return gain

    def add_up(self, feasible: NDArray[np.intp]) -> None:
        """Work out the total of all rows from the plugins' parts."""
        scoring = self.result.scoring
        assert scoring is not None, "it was scored"
        total, first = self.total, True
        for plugin in scoring.plugins:
            if first:
                np.copyto(total, plugin.weighted())
                first = False
            else:
                total += plugin.weighted()
        if first:
            total[:] = 0
        if feasible.size < len(total):
            np.putmask(total, self.first != FEASIBLE, -1)
        self.ranking.forget()


def read_only(array: NDArray[T]) -> NDArray[T]:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view
