"""Which nodes a pod may run on, and which plugin rejected the others, patched row by row.

Theory of operation. `codes[i]` is filter plugin i's own answer per row (None: passes everywhere);
`first` says which plugin rejected the row first, in profile order. `patch` runs only the plugins
that read the pods of a node, for the rows whose pods changed. Where pods are nominated, `first` is
the result with them, and `by_plugins` the result without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import PluginError
from policy_sched.framework import (
    EXTENDER,
    Code,
    Codes,
    CycleState,
    Describe,
    FilterResult,
    PreFilterResult,
    Rejections,
    Rows,
    Scope,
    Status,
)
from policy_sched.framework.evaluate.filter_dry_run import FilterDryRun
from policy_sched.framework.evaluate.pod_signature import Key
from policy_sched.framework.evaluate.static_cache import StaticResultCache
from policy_sched.framework.evaluate.status_cache import Explained, Explanations
from policy_sched.framework.runtime import Hook, Runner, broken
from policy_sched.model import PodInfo

FEASIBLE: Final = 0
NO_NODE: Final = -1
OUTSIDE: Final = -2
NOT_ASKED: Final = -3
"""Values of `first`: the row is feasible, is no live node, no PreFilter plugin named it, or it
was left out after the plugins: enough others were found before, or an extender turned it down.

Positive values are one more than the index of the filter plugin that rejected the row.
"""


class FilteredNodes:
    """The results of the filter plugins for one pod over all rows [0, n) of the node table.

    ``first``: int16, shape (n,). ``rejection``: why the whole pod was rejected before any node
    was looked at, or None. ``key``: the signature of the pods that share this answer, None where
    none do.
    """

    def __init__(
        self,
        runner: Runner,
        state: CycleState,
        pod: PodInfo,
        static_results: StaticResultCache,
        key: Key | None = None,
    ) -> None:
        self._runner = runner
        self._static_results = static_results
        table = static_results.table
        self.n = table.n
        self._codes: list[Codes | None] = []
        self._describes: list[Describe] = []
        self._fatal: dict[int, frozenset[int]] = {}
        """By plugin, the codes of rows on which it broke."""
        self.promised: dict[int, tuple[int, Status]] = {}
        """Rows that are rejected because of nominated pods or by extenders: plugin number and
        status."""
        self.explanations = Explanations(self.n)
        self.extended = False
        """Whether extenders took feasible rows away."""
        self._fixed = static_results.live().astype(np.int16) + np.int16(NO_NODE)
        status, self._skipped, names, self._narrowing = runner.pre_filter(state, pod)
        self.rejection = None if status.ok else status
        self.plugins = runner.active("filter", self._skipped)
        self._scopes = [runner.pipeline.scope(hook.plugin) for hook in self.plugins]
        self._moving = [i for i, scope in enumerate(self._scopes) if scope is not Scope.STATIC]
        self._filter_dry_run = FilterDryRun(runner, self.plugins, self._skipped, key)
        if self.rejection is not None:
            self._fixed[self._fixed == FEASIBLE] = OUTSIDE
            self.first: Codes = self._fixed
            self.by_plugins: Codes = self._fixed
            return
        rows = None if names is None else self._named_rows(table, names)
        start = runner.began()
        try:
            for hook in self.plugins:
                verdict = self._ask(hook, state, pod, rows)
                self._codes.append(self._spread(verdict.codes, rows))
                self._describes.append(verdict.describe)
                if verdict.fatal:
                    self._fatal[len(self._codes) - 1] = verdict.fatal
        except PluginError:
            runner.ended("filter", Code.ERROR, start)
            raise
        self._combine()
        runner.ended("filter", Code.SUCCESS, start)

    @property
    def skipped(self) -> frozenset[str]:
        """The plugins that PreFilter left out."""
        return self._skipped

    @property
    def narrowed_by(self) -> tuple[str, ...]:
        """The PreFilter plugins that left only some nodes to look at; EXTENDER if extenders did."""
        return (*self._narrowing, EXTENDER) if self.extended else self._narrowing

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return 2 * self.n * (2 + sum(codes is not None for codes in self._codes))

    def any_feasible(self) -> bool:
        """Tell whether the pod can run anywhere."""
        return not bool(self.first.all())

    def failure(self) -> PluginError | None:
        """Return what ends the attempt: a plugin that broke on a row that no other had rejected."""
        for index, fatal in self._fatal.items():
            codes = self._codes[index]
            if codes is None:
                continue
            where = (self.by_plugins == index + 1) & np.isin(codes, list(fatal))
            if where.any():
                row = np.flatnonzero(where)[:1]
                (status,) = self._describes[index](row, codes[row])
                hook, name = self.plugins[index], self._static_results.table.names[row.item()]
                self._runner.broke("filter", hook)
                text = f"{status.message()} (node {name})"
                return PluginError(broken("filter", hook.plugin, text))
        return None

    def feasible_rows(self) -> NDArray[np.intp]:
        """Return the rows on which the pod can run, ascending, shape (k,)."""
        return np.flatnonzero(self.first == FEASIBLE)

    def statuses(self) -> Rejections:
        """Return why rows were rejected; feasible and dead rows are left out."""
        return self.explanations.of(self._explain)

    def _explain(self, wanted: NDArray[np.intp]) -> Explained:
        promised = self.promised
        if promised:
            late = np.array([row in promised for row in wanted.tolist()], np.bool_)
            if late.any():
                yield wanted[late], [promised[row][1] for row in wanted[late].tolist()]
                wanted = wanted[~late]
        firsts = self.by_plugins[wanted]
        for value in np.unique(firsts).tolist():
            group = wanted[firsts == value]
            if value == OUTSIDE:
                yield group, [self._outside()] * group.size
            elif value > FEASIBLE:
                codes = cast("Codes", self._codes[value - 1])[group]
                found = self._describes[value - 1](group, codes)
                yield group, _attributed(found, self.plugins[value - 1].plugin)

    def filter_dry_run(self) -> FilterDryRun:
        """Return the dry run of the same filter plugins."""
        return self._filter_dry_run

    def only_row(self, row: int) -> FilteredNodes:
        """Return a copy in which only `row` was evaluated."""
        clone = copy(self)
        clone.first = np.where(self._fixed == NO_NODE, NO_NODE, NOT_ASKED).astype(np.int16)
        clone.first[row] = FEASIBLE
        clone.by_plugins, clone.promised = clone.first, {}
        clone.explanations = Explanations(self.n)
        return clone

    def promise(
        self, rejections: Mapping[int, tuple[int, Status]], rows: Sequence[int] | None = None
    ) -> None:
        """Reject rows because of nominated pods; see `FilterDryRun.rejections`.

        ``rows``: the evaluated rows; other rows keep their rejections. None: all rows.
        Rows that no PreFilter plugin named are rejected for that.
        """
        before = list(self.promised) if rows is None else rows
        self._reject(before, {r: said for r, said in rejections.items() if not self._fixed[r]})

    def _reject(self, before: Sequence[int], rejections: Mapping[int, tuple[int, Status]]) -> None:
        """Replace the rejections of the rows ``before``."""
        for row in before:
            self.promised.pop(row, None)
        if rejections and self.first is self.by_plugins:
            self.first = self.by_plugins.copy()
        if self.first is not self.by_plugins:
            self.first[before] = self.by_plugins[before]
        for row, found in rejections.items():
            self.promised[row] = found
            self.first[row] = found[0]
        self.explanations.forget(np.array([*before, *rejections], np.intp))

    def with_row(self, row: int, rejection: tuple[int, Status] | None) -> FilteredNodes:
        """Return a copy with another rejection of one row, whatever PreFilter returned.

        It cannot be patched.
        """
        clone = copy(self)
        clone.promised = dict(self.promised)
        clone.first = self.first.copy()
        clone.explanations = self.explanations.clone([row])
        said = {} if rejection is None else {row: rejection}
        clone._reject([row], said)  # noqa: SLF001 - one of its own kind
        return clone

    def excluding(self, rows: NDArray[np.intp]) -> FilteredNodes:
        """Return a copy in which these rows were not evaluated; it cannot be patched."""
        clone = copy(self)
        clone.first, clone.by_plugins = self.first.copy(), self.by_plugins.copy()
        clone.first[rows] = clone.by_plugins[rows] = NOT_ASKED
        if self.promised:
            unseen = set(rows.tolist())
            clone.promised = {r: said for r, said in self.promised.items() if r not in unseen}
        else:
            clone.promised = {}
        clone.explanations = Explanations(self.n)
        return clone

    def scoped_to(self, outside: NDArray[np.intp]) -> FilteredNodes:
        """Return an unshared copy without these live rows; it can be patched."""
        clone = self.snapshot()
        clone.exclude(outside)
        return clone

    def exclude(self, rows: NDArray[np.intp]) -> None:
        """Exclude these live rows from now on; the result must not be shared."""
        self._fixed = self._fixed.copy()
        self._fixed[rows] = self.first[rows] = self.by_plugins[rows] = NOT_ASKED
        if self.promised:
            for row in rows.tolist():
                self.promised.pop(row, None)

    def snapshot(self) -> FilteredNodes:
        """Return a copy that shares no arrays: patches do not affect the other."""
        clone = copy(self)
        clone.unshare()
        return clone

    def summary(self) -> FilteredNodes:
        """Return a copy of only the feasible rows; it cannot be patched."""
        clone = copy(self)
        clone.first = clone.by_plugins = self.first.copy()
        clone.explanations = Explanations(self.n)
        return clone

    def unshare(self) -> None:
        """Copy everything that patches change."""
        alike = self.first is self.by_plugins
        self.by_plugins = self.by_plugins.copy()
        self.first = self.by_plugins if alike else self.first.copy()
        self._codes = [None if codes is None else codes.copy() for codes in self._codes]
        self._describes, self._fatal = list(self._describes), dict(self._fatal)
        self.promised = dict(self.promised)
        self.explanations = Explanations(self.n)

    def with_extender_result(
        self, rows: NDArray[np.intp], statuses: Mapping[int, Status]
    ) -> FilteredNodes:
        """Return a copy with only these feasible rows left; it cannot be patched.

        ``statuses``: the new statuses of other rows; a removed row without a status has no reason.
        """
        clone = copy(self)
        clone.extended = True
        clone.first = np.where(self.first == FEASIBLE, NOT_ASKED, self.first).astype(np.int16)
        clone.first[rows] = FEASIBLE
        late = {row: (NOT_ASKED, said) for row, said in statuses.items() if clone.first[row]}
        clone.promised = {**self.promised, **late}
        clone.explanations = self.explanations.clone(late)
        return clone

    def pre_filter_unchanged(self, state: CycleState, pod: PodInfo) -> bool:
        """Run PreFilter again where it may look beyond the pod; False if its answer changed.

        Only plugins that read the whole cluster run, and they update their `state`. A pod that was
        rejected as a whole is always evaluated again.
        """
        if self.rejection is not None:
            return False
        hooks = self._runner.wide["pre_filter"]
        if not hooks:
            return True
        start = self._runner.began()
        same = all(self._same_pre_filter(hook, state, pod) for hook in hooks)
        self._runner.ended("pre_filter", Code.SUCCESS, start)
        return same

    def _same_pre_filter(self, hook: Hook, state: CycleState, pod: PodInfo) -> bool:
        result = cast("PreFilterResult", self._runner.call("pre_filter", hook, state, pod))
        skips = result.status.code is Code.SKIP
        if not (skips or result.status.ok) or skips != (hook.plugin in self._skipped):
            return False
        return result.node_names is None and hook.plugin not in self._narrowing

    def patch(self, state: CycleState, pod: PodInfo, touched: NDArray[np.intp]) -> bool:
        """Run the filters again for rows whose pods changed.

        Returns whether rows other than `touched` may have changed, too.
        """
        runner = self._runner
        start = runner.began()
        try:
            everywhere = self._ask_again(state, pod, touched)
        except PluginError:
            runner.ended("filter", Code.ERROR, start)
            raise
        if everywhere:
            self._combine()
            self.explanations.forget()
        else:
            self._patch_first(touched)
            self.explanations.forget(touched)
        runner.ended("filter", Code.SUCCESS, start)
        return everywhere

    def _ask_again(self, state: CycleState, pod: PodInfo, touched: NDArray[np.intp]) -> bool:
        """Ask the plugins that read what runs on nodes; tell whether about other rows, too."""
        everywhere = False
        for index in self._moving:
            scope = self._scopes[index]
            verdict = self._ask(
                self.plugins[index], state, pod, touched if scope is Scope.NODE else None
            )
            if verdict.codes is not None:
                self._describes[index] = verdict.describe
                if verdict.fatal:
                    self._fatal[index] = verdict.fatal
            if scope is Scope.NODE:
                self._patch_codes(index, touched, verdict.codes)
            else:
                self._codes[index] = self._spread(verdict.codes, None)
                everywhere = True
        return everywhere

    def _named_rows(self, table: NodeTable, names: frozenset[str]) -> NDArray[np.intp]:
        row_of = table.row_of
        rows = np.array(sorted(row_of[name] for name in names if name in row_of), np.intp)
        outside = self._fixed == FEASIBLE
        outside[rows] = False
        self._fixed[outside] = OUTSIDE
        return rows

    def _outside(self) -> Status:
        if self.rejection is not None:
            return self.rejection
        text = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self._narrowing))}]"
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))

    def _ask(self, hook: Hook, state: CycleState, pod: PodInfo, rows: Rows) -> FilterResult:
        answer = (
            self._static_results.ask("filter", hook, state, pod)
            if rows is None
            else self._runner.call("filter", hook, state, pod, rows)
        )
        verdict = cast("FilterResult", answer)
        if verdict.error is not None:
            raise PluginError(f'running "{hook.plugin}" filter plugin: {verdict.error}')
        return verdict

    def _spread(self, codes: Codes | None, rows: Rows) -> Codes | None:
        """Return the codes of `rows` as codes of all rows."""
        if codes is None or rows is None:
            return codes if codes is None else codes.copy()  # patched from now on
        full = np.zeros(self.n, np.int16)
        full[rows] = codes
        return full

    def _combine(self) -> None:
        """Work out `first` from all plugins' codes."""
        first = self._fixed.copy()
        for index, codes in enumerate(self._codes):
            if codes is not None and codes.any():
                first[(codes != 0) & (first == FEASIBLE)] = index + 1
        self.first = self.by_plugins = first

    def _patch_codes(self, index: int, touched: NDArray[np.intp], fresh: Codes | None) -> None:
        codes = self._codes[index]
        if codes is None:
            if fresh is None or not fresh.any():
                return
            codes = self._codes[index] = np.zeros(self.n, np.int16)
        codes[touched] = 0 if fresh is None else fresh

    def _patch_first(self, touched: NDArray[np.intp]) -> None:
        by_plugins = self.by_plugins
        for row in touched.tolist():
            if self._fixed[row] != FEASIBLE:
                continue
            value = FEASIBLE
            for index, codes in enumerate(self._codes):
                if codes is not None and codes[row]:
                    value = index + 1
                    break
            by_plugins[row] = value
        if self.first is not by_plugins:
            self.first[touched] = by_plugins[touched]


def _attributed(statuses: list[Status], plugin: str) -> list[Status]:
    """Return the statuses with the plugin's name; where two were one object, they still are."""
    named = {id(status): status.by(plugin) for status in statuses}
    return [named[id(status)] for status in statuses]
