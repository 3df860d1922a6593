"""Entry: an evaluation that is kept up to date, and the arrays behind it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from policy_sched import framework, thresholds
from policy_sched.cluster.overlay import NodeOverlay
from policy_sched.framework.evaluate import results
from policy_sched.framework.evaluate.nominated_pods import NominatedPods
from policy_sched.framework.evaluate.plugin_sets import ActivePlugins, Filters
from policy_sched.framework.evaluate.totals import Totals
from policy_sched.framework.evaluate.views import FEASIBLE, NOT_ASKED, FilterView, ScoreView
from policy_sched.framework.runtime import Hook
from policy_sched.model import PodInfo

T = TypeVar("T", bound=np.generic)


_LATER: Any = None  # what is set before it is read
_NO_STAMPS: Final = array("q")
NO_ROWS: Final = np.empty(0, np.intp)
#: About so many bytes are in the objects of an evaluation. On few nodes, that is most of it.
OBJECT_BYTES: Final = 8192


class Entry(msgspec.Struct, eq=False):
    """An evaluation, and the arrays behind it, which only the Evaluator's `Updates` write."""

    fixed: framework.Codes
    """int16, shape (n,): the rows that no filter looks at."""
    first: framework.Codes
    by_plugins: framework.Codes
    filters: Filters
    """The filters that take part."""
    active: ActivePlugins
    """The plugins that have anything to do with the pod."""
    nominated: NominatedPods | None = None
    version: int = 0
    """The journal's when the entry was up to date."""
    views: list[FilterView] = []
    fatal: dict[int, results.FatalCodes] = {}
    overrides: dict[int, results.Override] = {}
    stamps: array[int] = _NO_STAMPS
    """The journal's of the rows when the entry was up to date."""
    totals: Totals = _LATER
    pre_filter: tuple[Hook, ...] = ()
    """The hooks of PreFilter that run again after a change, as they read the whole cluster."""
    pre_score: tuple[Hook, ...] = ()
    """The hooks of PreScore that do."""
    incremental: Mapping[str, framework.Incremental] | None = None
    """What updates the results of plugins of the whole cluster, by name, in place of these
    hooks. None: not looked for yet."""
    row_functions: framework.RowFunctions | None = None
    """What runs for a row in place of the plugins that read no more than the row; None where
    these run one by one."""
    node_scores: list[ScoreView] = []
    cluster_scores: list[ScoreView] = []
    normalized: list[ScoreView] = []
    """Those of scope STATIC whose scores may change with the feasible rows."""
    shares_scores: bool = True
    """Whether scores may be arrays of a static part: not before the first update."""
    result: results.Evaluation = _LATER

    @property
    def nbytes(self) -> int:
        """Bytes that it takes: its arrays at most, its objects about."""
        scoring = self.result.scoring
        numbers = 0 if scoring is None else 2 * len(scoring.views) + 3  # totals and their groups
        each = 2 * (3 + len(self.views)) + 8 * numbers
        return OBJECT_BYTES + each * len(self.fixed)

    # Filters.

    def take(self, position: int, result: framework.FilterResult, rows: framework.Rows) -> None:
        """Write a filter's result for some rows, or for all (None), but not ``first``."""
        self.views[position].take(result, rows, len(self.fixed))
        if result.fatal:
            self.fatal[position] = result.fatal, result.names_node

    def put_rejections(
        self, rows: Sequence[int], rejections: Sequence[framework.Rejection]
    ) -> bool:
        """Write the codes that the filters of scope NODE have for rows, but not ``first``.

        ``rejections``: the first of them for each row. False, and nothing changed, where only a
        filter can tell its code, or describe it.
        """
        views = self.views
        for rejection in rejections:
            if rejection is not None:
                place, code = rejection
                if code == framework.NO_CODE or views[place].codes is None:
                    return False
        for place in self.filters.node_scoped:
            view = views[place]
            if view.codes is not None:
                for row, rejection in zip(rows, rejections, strict=True):
                    rejects = rejection is not None and rejection[0] == place
                    code = rejection[1] if rejects and rejection is not None else 0
                    if view.codes.item(row) != code:
                        view.own(len(self.fixed))[row] = code
        return True

    def combine(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Combine the filters of some rows, each once; return those opened, and those closed.

        Overrides are left out: `override` follows where rows have some.
        """
        first, by_plugins = self.first, self.by_plugins
        if rows.size > thresholds.LOOP_ROWS:
            was, number = by_plugins.take(rows) == FEASIBLE, self.rejecting(rows)
            first[rows] = by_plugins[rows] = number
            self.result.filtering.explanations.forget()
            now = number == FEASIBLE
            return rows[now > was], rows[was > now]
        opened, closed, few, places = list[int](), list[int](), rows.tolist(), self.filters.places
        for row in few:
            before, rejecting = by_plugins.item(row), self._rejecting_row(row, places)
            if rejecting != before:
                first[row] = by_plugins[row] = rejecting
                if rejecting == FEASIBLE:
                    opened.append(row)
                elif before == FEASIBLE:
                    closed.append(row)
        self.result.filtering.explanations.forget(few)
        return (
            np.array(opened, np.intp) if opened else NO_ROWS,
            np.array(closed, np.intp) if closed else NO_ROWS,
        )

    def _rejecting_row(self, row: int, places: Iterable[int]) -> int:
        """Return the number of the first filter whose codes reject a row, or why none looks."""
        number = self.fixed.item(row)
        if number == FEASIBLE:
            for place in places:
                codes = self.views[place].codes
                if codes is not None and codes.item(row):
                    return place + 1
        return number

    def passes_now(self, pod: PodInfo, row: int, overlay: NodeOverlay) -> bool:
        """Return whether a row passes all filters now, whatever is known of those that read pods.

        False where that is up to the plugins. Only pods changed since it was up to date.
        """
        if self.active.cluster_pre_filter or self._rejecting_row(row, self.filters.static):
            return False
        rejection = self.filters.dry_run.first_rejection(overlay)
        if rejection is None:
            return False
        try:
            with overlay:
                return rejection(pod, row) is None
        except Exception:  # noqa: BLE001 - the plugins, one by one, say which of them broke
            return False

    def rejecting(
        self, rows: framework.Rows, places: Sequence[int] | None = None
    ) -> framework.Codes:
        """Return the same of many rows; ``places``: of the filters that count, None: all."""
        fixed = self.fixed if rows is None else self.fixed.take(rows)
        first, asked = fixed.copy(), fixed == FEASIBLE
        for place in reversed(self.filters.places if places is None else places):
            codes = self.views[place].codes
            if codes is not None:
                codes = codes if rows is None else codes.take(rows)
                np.putmask(first, (codes != 0) & asked, place + 1)
        return first

    def override(self, pod: PodInfo, rows: Sequence[int] | None = None) -> None:
        """Reject the rows where the pod does not fit with the nominated pods.

        ``rows``: the rows whose overrides are replaced (None: all of them). Rows that no PreFilter
        plugin named are rejected for that.
        """
        nominated = self.nominated
        assert nominated is not None, "the pod gives way to nominated pods"
        pods_on, before = nominated.on(rows), list(self.overrides) if rows is None else rows
        if not pods_on and not self.overrides:
            return
        dry_run, state, overlay = self.filters.dry_run, self.result.state, nominated.overlay
        passed = {row: pods for row, pods in pods_on.items() if not self.by_plugins[row]}
        rejections = dry_run.rejections_with(overlay, state, pod, passed, passed=True)
        if len(passed) < len(pods_on):
            others = {row: pods for row, pods in pods_on.items() if row not in passed}
            rejections |= dry_run.rejections_with(overlay, state, pod, others)
        for row in before:
            self.overrides.pop(row, None)
            self.first[row] = self.by_plugins[row]
        for row, rejection in rejections.items():
            if not self.fixed[row]:
                self.overrides[row] = rejection
                self.first[row] = rejection[0]
        self.result.filtering.explanations.forget([*before, *rejections])

    def without(self, rows: NDArray[np.intp], stamps: array[int]) -> Entry:
        """Return a copy without some live rows; nothing is scored yet.

        It can be updated if there are no nominated pods.
        """
        filtering = self.result.filtering.snapshot()
        copy = replace(
            self,
            fixed=self.fixed.copy(),
            first=filtering.first,
            by_plugins=filtering.by_plugins,
            stamps=stamps[:],
            views=filtering.views,
            fatal=filtering.fatal,
            overrides=filtering.overrides,
        )
        copy.fixed[rows] = copy.first[rows] = copy.by_plugins[rows] = NOT_ASKED
        for row in copy.overrides.keys() & set(rows.tolist()):
            del copy.overrides[row]
        copy.result = results.Evaluation(
            self.result.state.clone(),
            replace(filtering, first=read_only(copy.first), by_plugins=read_only(copy.by_plugins)),
        )
        return copy

    # Scores.

    def own_scores(self) -> None:
        """Make scores its own, which can be changed; they are those of the feasible rows now."""
        self.shares_scores = False
        scoring = self.result.scoring
        if scoring is None:
            return
        views = tuple([view.copy() for view in scoring.views])
        self.result = replace(self.result, scoring=replace(scoring, views=views))
        node = framework.Scope.NODE
        self.node_scores = [view for view in views if view.plugin.durability is node]
        self.cluster_scores = [view for view in views if view.plugin.durability > node]
        self.normalized = []
        feasible = (self.first == FEASIBLE).nonzero()[0]
        for view in views:
            durability = view.plugin.durability
            if not view.plugin.plain and feasible.size:
                if durability is framework.Scope.STATIC:
                    raw = view.raw
                    if (
                        view.whole
                        and view.plugin.kernel.normalizes_by_extremes
                        and (raw == raw.item(0)).all()
                    ):
                        # All rows have one score, whichever of them are feasible.
                        assert view.part is not None, "it was normalised"
                        view.part = np.full(len(raw), view.part.item(feasible.item(0)), np.int64)
                        continue
                    self.normalized.append(view)
                view.find_bounds(feasible)


def read_only(array: NDArray[T]) -> NDArray[T]:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view
