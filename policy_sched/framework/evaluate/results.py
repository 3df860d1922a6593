"""Results of an evaluation: the plugin that rejected each row, and the scores of the others.

Theory of operation. Results are immutable to everything but the Evaluator, which owns the arrays
and updates them in place; other code reads them through views that cannot be written to. So a
result that pods share is valid until the node table changes. There are three kinds of copies:

- ``restricted`` has other feasible rows or totals (a sample, an extender's response, one row);
- ``snapshot`` is not affected by later changes of the table;
- ``summary`` is a snapshot of the feasible rows and of one row's scores, a fraction of its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from policy_sched import framework
from policy_sched.errors import PluginError
from policy_sched.framework.evaluate.filter_dry_run import FilterDryRun
from policy_sched.framework.evaluate.pod_signature import Key
from policy_sched.framework.evaluate.totals import Totals
from policy_sched.framework.evaluate.views import FEASIBLE, OUTSIDE, FilterView, ScoreView
from policy_sched.framework.runtime import Hooks, Parts, Runner, broken

#: Total of a row on which the pod cannot run, where extenders may make a total negative.
NOWHERE: Final = -(2**63)

Explained: TypeAlias = Iterable[
    tuple[NDArray[np.intp], Sequence[framework.Status]] | tuple[NDArray[np.bool_], framework.Status]
]
"""See `Groups`."""
FatalCodes: TypeAlias = tuple[frozenset[int], bool]
"""A filter's codes of rows on which it broke, and whether the error names the node."""
Override: TypeAlias = tuple[int, framework.Status]
"""Another rejection of a row than the plugins': the number of a plugin, or NOT_ASKED, and why."""


class Explanations(msgspec.Struct, eq=False):
    """Statuses of rejected rows [0, n), kept between attempts: words cost more than codes.

    ``known``: what was explained so far, None if nothing was.
    """

    _n: int
    _table: framework.StatusTable | None = None
    known: framework.Rejections | None = None
    _stale: set[int] = msgspec.field(default_factory=set)

    def forget(self, rows: Sequence[int] | None = None) -> None:
        """Explain these rows anew, or all."""
        if rows is None:
            self.known = None
            self._stale.clear()
        elif self.known is not None:
            self._stale.update(rows)

    def of(
        self, explain: Callable[[NDArray[np.intp]], Explained], overrides: Mapping[int, Override]
    ) -> framework.Rejections:
        """Return the statuses; ``explain`` finds those of ascending rows, also the overridden."""
        if self._table is None:
            self._table = framework.StatusTable()
        if self.known is None:
            groups = list(explain(np.arange(self._n)))
            self.known = framework.Rejections.grouped(self._n, groups, self._table)
        elif self._stale:
            others = {row: overrides[row][1] for row in self._stale if row in overrides}
            rows = sorted(self._stale.difference(others))
            groups = list(explain(np.array(rows, np.intp))) if rows else []
            self.known = self.known.with_rows(rows, groups, others)
        self._stale.clear()
        return self.known


class FilteredNodes(msgspec.Struct, frozen=True, eq=False):
    """The results of the filter plugins for one pod over all rows [0, n) of the node table."""

    first: framework.Codes
    """int16, shape (n,): the plugin that rejected the row, with nominated pods and extenders."""
    by_plugins: framework.Codes
    """The same without them; ``overrides`` is the difference."""
    views: list[FilterView]
    """What each filter returned, in order."""
    fatal: dict[int, FatalCodes]
    """By the place of a filter, its codes of rows on which it broke."""
    overrides: dict[int, Override]
    filter_dry_run: FilterDryRun
    """The filters that took part, to run them again on hypothetical pods."""
    names: Sequence[str]
    explanations: Explanations
    rejection: framework.Status | None = None
    """Why the whole pod was rejected before any node was looked at."""
    skipped: frozenset[str] = frozenset()
    """The plugins that PreFilter left out."""
    narrowed_by: tuple[str, ...] = ()
    """The PreFilter plugins that left only some nodes to look at; EXTENDER if extenders did."""
    hooks: Hooks = msgspec.field(default_factory=dict)
    """The plugins of every point that have anything to do with the pod."""
    key: Key | None = None
    """The signature of the pods that get this result, None where only this one does."""

    def any_feasible(self) -> bool:
        """Return whether the pod can run anywhere."""
        return not bool(self.first.all())

    def feasible_rows(self) -> NDArray[np.intp]:
        """Return the rows on which the pod can run, ascending, shape (k,)."""
        return np.flatnonzero(self.first == FEASIBLE)

    def failure(self, runner: Runner) -> PluginError | None:
        """Return what ends the attempt: a plugin that broke on a row that no other had rejected."""
        for index, (fatal, names_node) in self.fatal.items():
            view = self.views[index]
            codes = view.codes
            if codes is None:
                continue
            where = (self.by_plugins == index + 1) & np.isin(codes, list(fatal))
            for place, (number, _) in self.overrides.items():
                # With the nominated pods, which upstream tries first, an earlier plugin rejects it.
                where[place] &= not FEASIBLE < number <= index
            if where.any():
                row = np.flatnonzero(where)[:1]
                (status,) = view.describe(row, codes[row])
                runner.count_failure("filter", view.hook)
                text = status.message()
                if names_node:
                    text = f"{text} (node {self.names[row.item()]})"
                return PluginError(broken("filter", view.hook.plugin, text))
        return None

    def statuses(self) -> framework.Rejections:
        """Return why rows were rejected; feasible and dead rows are left out."""
        return self.explanations.of(self._explain, self.overrides)

    def _explain(self, wanted: NDArray[np.intp]) -> Explained:
        overrides = self.overrides
        if overrides:
            late = np.array([row in overrides for row in wanted.tolist()], np.bool_)
            if late.any():
                yield wanted[late], [overrides[row][1] for row in wanted[late].tolist()]
                wanted = wanted[~late]
        everywhere = wanted.size == self.by_plugins.size
        firsts = self.by_plugins if everywhere else self.by_plugins[wanted]
        outside = wanted[firsts == OUTSIDE]
        if outside.size:
            yield outside, [self._outside()] * outside.size
        for number, view in enumerate(self.views, 1):
            codes, describe, plugin = view.codes, view.describe, view.hook.plugin
            if codes is None:
                continue
            mask = firsts == number
            if everywhere and isinstance(describe, framework.DescribeMasked):
                masked = describe.masked(mask, codes) if mask.any() else ()
                if masked is not None:  # it is not too much
                    for own, status in masked:
                        yield own, status.by(plugin)
                    continue
            group = wanted[mask]
            if group.size:
                yield group, _attributed(describe(group, codes[group]), plugin)

    def _outside(self) -> framework.Status:
        if self.rejection is not None:
            return self.rejection
        plugins = " ".join(sorted({*self.narrowed_by} - {framework.EXTENDER}))
        text = f"node(s) didn't satisfy plugin(s) [{plugins}]"
        return framework.Status(framework.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))

    def restricted(
        self,
        first: framework.Codes,
        by_plugins: framework.Codes | None = None,
        *,
        overrides: dict[int, Override],
    ) -> FilteredNodes:
        """Return a copy with other feasible rows."""
        return replace(
            self,
            first=first,
            by_plugins=first if by_plugins is None else by_plugins,
            overrides=overrides,
            explanations=Explanations(len(first)),
        )

    def snapshot(self) -> FilteredNodes:
        """Return a copy that shares no arrays."""
        return replace(
            self,
            first=self.first.copy(),
            by_plugins=self.by_plugins.copy(),
            views=[view.copy() for view in self.views],
            fatal=dict(self.fatal),
            overrides=dict(self.overrides),
            explanations=Explanations(len(self.first)),
        )


class Scoring(msgspec.Struct, frozen=True, eq=False):
    """The scores of one pod over all rows [0, n).

    ``total``: int64, shape (n,), the sum of weighted scores, below all others where not feasible.
    """

    total: framework.Scores
    views: tuple[ScoreView, ...] = ()
    skipped: frozenset[str] | None = None
    """The plugins that PreScore left out; None if no plugin ran, as there was no choice."""
    shares: Mapping[str, framework.Scores] = msgspec.field(default_factory=dict)
    """Scores of extenders by name; in a summary, those of plugins that one row has, for all."""
    totals: Totals | None = None
    """Ranks the rows, where ``total`` is the array that is kept up to date; no copy has it."""
    only: int | None = None
    """The single row of which something is known: of a summary, or feasible and so not scored."""

    @staticmethod
    def of_one(row: int, n: int) -> Scoring:
        """Return the result for a single feasible row, which is not scored."""
        total = np.full(n, -1, np.int64)
        total[row] = 0
        return Scoring(total, only=row)

    def weighted(self, rows: NDArray[np.intp]) -> dict[str, list[int]]:
        """Return each plugin's normalised and weighted score of `rows`, by plugin."""
        plugins = {view.name: view.weighted(rows).tolist() for view in self.views}
        return plugins | {name: share[rows].tolist() for name, share in self.shares.items()}

    def shares_of(self, row: int) -> dict[str, int]:
        """Return each plugin's normalised and weighted score of one row, as `weighted` does."""
        # each pod is logged: no call for the name
        scores = {view.plugin.hook.plugin: view.weighted_of(row) for view in self.views}
        scores.update((name, int(share.item(row))) for name, share in self.shares.items())
        return scores

    def raw(self, rows: NDArray[np.intp]) -> dict[str, list[float]]:
        """Return each plugin's raw scores of some rows."""
        return {view.name: view.raw_at(rows).tolist() for view in self.views}

    def restricted(self, row: int) -> Scoring:
        """Return a copy in which only one row was scored."""
        total = np.full(len(self.total), -1, np.int64)
        total[row] = self.total[row]
        return replace(self, total=total, totals=None)

    def snapshot(self) -> Scoring:
        """Return a copy that later changes do not affect."""
        views = tuple([view.copy() for view in self.views])
        for view in views:
            view.own()
        return replace(self, total=self.total.copy(), views=views, totals=None)

    def summary(self, row: int) -> Scoring:
        """Return one row's total and scores by plugin, which stand for all rows.

        It takes the same room however many nodes there are: of a large group all are kept.
        """
        n, shares = len(self.total), self.shares_of(row)
        by_plugin = {name: np.broadcast_to(np.int64(share), n) for name, share in shares.items()}
        total = np.broadcast_to(self.total[row], n)
        return Scoring(total, shares=by_plugin, skipped=self.skipped, only=row)


class Evaluation(msgspec.Struct, frozen=True, eq=False):
    """The results of a profile's plugins for one pod on every node.

    ``state``: what plugins wrote into the cycle state. ``scoring`` is None where no node is
    feasible, or where plugins failed to score several, which is ``broken`` then.
    """

    state: framework.CycleState
    filtering: FilteredNodes
    scoring: Scoring | None = None
    broken: PluginError | None = None

    @property
    def rejection(self) -> framework.Status | None:
        """Why the whole pod was rejected before any node was looked at."""
        return self.filtering.rejection

    @property
    def parts(self) -> Parts:
        """The plugins that took no part in it."""
        filtering, scoring = self.filtering, self.scoring
        rejected = "" if filtering.rejection is None else filtering.rejection.plugin
        return filtering.skipped, rejected, None if scoring is None else scoring.skipped

    def best(self) -> NDArray[np.intp]:
        """Return the rows with the highest total, ascending; empty if no node is feasible."""
        if self.scoring is None:
            return np.empty(0, np.intp)
        total = self.scoring.total
        rows: NDArray[np.intp] = (total == np.maximum.reduce(total)).nonzero()[0]
        return rows

    def snapshot(self) -> Evaluation:
        """Return a copy that later changes of the table do not affect."""
        scoring = None if self.scoring is None else self.scoring.snapshot()
        return Evaluation(self.state.clone(), self.filtering.snapshot(), scoring, self.broken)

    def summary(self, row: int, earlier: Evaluation | None) -> Evaluation:
        """Return a small copy of one row's result that later changes do not affect.

        ``earlier``: a summary, with which this one shares what is the same of every row.
        """
        scoring = None if self.scoring is None else self.scoring.summary(row)
        filtering = self.filtering
        first = None if earlier is None else earlier.filtering.first
        if first is None or not np.array_equal(first, filtering.first):
            first = filtering.first.copy()
        feasible = filtering.restricted(first, overrides={**filtering.overrides})
        return Evaluation(self.state.clone(), feasible, scoring, self.broken)


def _attributed(statuses: Sequence[framework.Status], plugin: str) -> Sequence[framework.Status]:
    """Return the statuses with the plugin's name; where two were one object, they still are."""
    if isinstance(statuses, framework.ByRow):
        return statuses.map(lambda status: status.by(plugin))
    distinct = {id(status): status for status in statuses}
    named = {key: status.by(plugin) for key, status in distinct.items()}
    return [named[id(status)] for status in statuses]
