"""Claims as columns: Filter's result for claims of one shape on every node.

Theory of operation. A result holds as long as the generation of its row (`DeviceTable`), so pods
whose claims are alike share it, whatever else they differ in. Rows whose result is out of date are
evaluated together: where a node has fewer devices for a request than that wants, nothing is found
there; where no two requests want one device and neither constraints nor counters matter, enough
devices are a result, too. Only the other rows are searched. Of a node that was not searched the
devices are chosen when a pod goes there.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import combinations
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched import thresholds
from policy_sched.framework import SUCCESS, Code, Codes, DeadlineExceeded, Rows, Status
from policy_sched.model import NodeSelector, NodeSelectorTerm, ResourceClaim
from policy_sched.plugins.dynamicresources.claim_store import ClaimStore
from policy_sched.plugins.dynamicresources.devices import NodeView, selects
from policy_sched.plugins.dynamicresources.node_search import (
    INVALID,
    NOT_ALLOCATED,
    UNAVAILABLE,
    NodeAllocation,
    NodeSearch,
    PodSearch,
)
from policy_sched.plugins.dynamicresources.request_columns import RequestColumn
from policy_sched.plugins.dynamicresources.requests import EXACT_COUNT, MAX_DEVICES, AllocationError
from policy_sched.plugins.dynamicresources.resource_claims import uid_of

_MOST_SHAPES: Final = 64
#: Statuses of rows that have a number; those of errors come behind these, and are used again.
_MAX_CODES: Final = 30_000
#: So many rows are looked at for one unit.
_ROWS_PER_UNIT: Final = 8
_NEVER: Final = -1
#: A row has had all units of an attempt if it had all but one part of so many.
_ALL: Final = 10
Alternatives = Sequence[tuple[RequestColumn, int]]
"""The columns of alternatives, and how many devices each wants."""
Flags = NDArray[np.bool_]
Numbers = NDArray[np.intp]


class Statuses(msgspec.Struct):
    """The statuses of rows by number."""

    code_of: dict[Status, int] = msgspec.field(default_factory=dict)
    listed: list[Status] = msgspec.field(default_factory=lambda: [SUCCESS])
    epoch: int = 0
    """Rises when numbers get other meanings."""

    def number(self, status: Status) -> int:
        """Return the number of a status."""
        code = self.code_of.get(status)
        if code is None:
            if len(self.listed) >= _MAX_CODES:
                self.code_of.clear()
                del self.listed[1:]
                self.epoch += 1
            code = self.code_of[status] = len(self.listed)
            self.listed.append(status)
        return code

    def describe(self, _rows: NDArray[np.intp], codes: Codes) -> list[Status]:
        """Return the statuses of numbers."""
        return [self.listed[code] for code in codes.tolist()]


class _Bounds(msgspec.Struct, frozen=True):
    """How many devices claims of a shape need at least."""

    columns: tuple[RequestColumn, ...]
    wanted: tuple[tuple[RequestColumn, int], ...]
    """Columns, each with how many of its devices."""
    alternatives: tuple[tuple[tuple[RequestColumn, int], ...], ...]
    """The same where one of several is enough."""
    failing: tuple[RequestColumn, ...]
    """The columns of selectors that fail somewhere."""
    simple: bool
    """Whether enough devices are a result."""
    only: RequestColumn | None
    """The only request where there is one alone, and enough devices are a result."""


class _Column:
    """Values of rows, each with the generation of its row for which it is."""

    __slots__ = ("seen", "values")

    def __init__(self, dtype: type[np.generic]) -> None:
        self.values: NDArray[Any] = np.empty(0, dtype)
        self.seen: NDArray[np.int64] = np.empty(0, np.int64)

    def fit(self, rows: int) -> None:
        """Make room for so many rows."""
        missing = rows - len(self.seen)
        self.values = np.concatenate((self.values, np.zeros(missing, self.values.dtype)))
        self.seen = np.concatenate((self.seen, np.full(missing, _NEVER, np.int64)))


class _Shape(_Column):
    """The results for claims of one shape: the number of a status by row."""

    __slots__ = ("allocations", "bounds", "hopeless", "late", "layout")

    def __init__(self) -> None:
        super().__init__(np.int16)
        self.allocations: dict[int, tuple[int, NodeAllocation]] = {}
        """By row, the generation at which a search succeeded, and its result."""
        self.late: dict[int, int] = {}
        """By row, the generation at which a search took more than was left."""
        self.hopeless: dict[int, int] = {}
        """By row, the generation at which a search took all that an attempt has."""
        self.bounds: _Bounds | None = None
        self.layout: Hashable = None
        """The epoch and the number of devices that ``bounds`` are for."""


class ClaimColumns:
    """The results for all shapes of claims."""

    def __init__(self, search: NodeSearch, statuses: Statuses) -> None:
        self._search = search
        self._statuses = statuses
        self._devices = search.claims.devices
        self._table = search.handle.nodes
        self._shapes: dict[Hashable, _Shape] = {}
        self._reached: dict[NodeSelector, _Column] = {}
        self._epoch = 0
        rules = search.rules
        self._ruled = rules is not None
        self._steady = rules is None or rules.steady
        self._must_search = rules is not None and (rules.refuse or not rules.steady)
        """Whether rules may refuse devices, or see a node otherwise once the pod is on it."""

    # Filter.

    def codes(self, store: ClaimStore, rows: Rows, unavailable: set[str] | None = None) -> Codes:
        """Return the numbers of Filter's statuses, of all rows or of some.

        ``unavailable`` takes the UIDs of allocated claims that keep the pod from a node.
        """
        table = self._table
        self._devices.sync()
        searched = np.flatnonzero(table.live.values[: table.n]) if rows is None else rows
        begun = self._search.begin(store)
        codes = self._allocated(begun, store, searched)
        for claim in store.user:
            if claim.status.allocation is None:
                continue
            kept_off = (codes == 0) & ~self._usable(begun, claim, searched)
            if unavailable is not None and kept_off.any():
                unavailable.add(uid_of(claim))
            if kept_off.any():
                codes = np.where(kept_off, self._statuses.number(UNAVAILABLE), codes)
        if rows is not None:
            return codes
        spread = np.zeros(table.n, np.int16)
        spread[searched] = codes
        return spread

    def _allocated(self, begun: PodSearch, store: ClaimStore, searched: Numbers) -> Codes:
        """Return the numbers of the statuses as far as claims are to be allocated."""
        if not store.plans and store.extended_claim is None:
            return np.zeros(searched.size, np.int16)
        column = self._column(self._shape(store) if self._ruled else store.plans_shape)
        generation = self._devices.generation
        stale = searched
        if self._steady:
            stale = searched[column.seen[searched] != generation[searched]]
        if stale.size:
            self._refresh(column, begun, store, stale)
        return column.values[searched]

    def _shape(self, store: ClaimStore) -> Hashable:
        """Return what results depend on besides nodes and devices; None where nothing is kept."""
        rules = self._search.rules
        if rules is None or store.plans_shape is None:
            return store.plans_shape
        return store.plans_shape, rules.key(store.pod)

    def _column(self, shape: Hashable) -> _Shape:
        """Return what is kept for a shape; of None nothing is."""
        if self._epoch != self._statuses.epoch or len(self._shapes) > _MOST_SHAPES:
            self._shapes.clear()
            self._epoch = self._statuses.epoch
        column = self._shapes.get(shape) if shape is not None else None
        if column is None:
            column = _Shape()
            if shape is not None:
                self._shapes[shape] = column
        if len(column.seen) < len(self._table.names):  # a call less for each pod
            column.fit(self._table.n)
        return column

    def _refresh(self, column: _Shape, begun: PodSearch, store: ClaimStore, stale: Numbers) -> None:
        """Evaluate rows anew."""
        budget, cancelled = self._search.budget, bool(self._search.cancelled())
        try:
            budget.spend(1 + stale.size // _ROWS_PER_UNIT)
            bounds = self._bounds(column, store)
        except DeadlineExceeded:
            bounds = None  # no row can be paid for
        if bounds is None or stale.size <= thresholds.LOOP_ROWS:
            rows = stale
            if bounds is not None and not cancelled:
                done = [self._evaluate_row(column, bounds, row) for row in stale.tolist()]
                rows = stale[~np.array(done, np.bool_)]
            self._search_rows(column, begun, rows)
            return
        enough, sure = self._enough(bounds, stale)
        devices, statuses = self._devices, self._statuses
        if cancelled:
            sure[:] = False
        invalid = devices.invalid[stale]
        codes = np.where(invalid, statuses.number(INVALID), statuses.number(NOT_ALLOCATED))
        column.values[stale] = np.where(enough, 0, codes)
        column.seen[stale[sure]] = devices.generation[stale[sure]]
        self._search_rows(column, begun, stale[~sure])

    def _search_rows(self, column: _Shape, begun: PodSearch, rows: Numbers) -> None:
        """Search rows until the attempt cannot pay for more; what is found is kept for the next.

        Rows that took too much in an earlier attempt come last, so that each attempt gets further;
        those that took all that an attempt has are not searched again.
        """
        generation, budget = self._devices.generation, self._search.budget
        ordered = [r for r in rows.tolist() if column.hopeless.get(r) != generation.item(r)]
        if column.late:
            ordered.sort(key=lambda row: column.late.get(row) == generation.item(row))
        for number, row in enumerate(ordered):
            before, work = budget.left, self._search.claims.selectors.work
            self._search_row(column, begun, row)
            if budget.exceeded:
                column.late[row] = generation.item(row)
                alone = _ALL * before >= (_ALL - 1) * budget.whole and budget.spent
                if alone and work == self._search.claims.selectors.work:
                    column.hopeless[row] = generation.item(row)
                left = ordered[number + 1 :]
                column.values[left] = column.values[row]
                column.seen[left] = _NEVER
                break

    def _search_row(self, column: _Shape, begun: PodSearch, row: int) -> None:
        status, got = begun.allocation(row)
        column.values[row] = self._statuses.number(status) if not status.ok else 0
        generation = int(self._devices.generation[row])
        column.seen[row] = _NEVER if status.code is Code.ERROR else generation
        if got is not None:
            column.allocations[row] = generation, got

    # Without a search.

    def _bounds(self, column: _Shape, store: ClaimStore) -> _Bounds | None:
        """Return how many devices a node needs; None where a claim is more than that."""
        devices = self._devices
        layout = devices.epoch, len(devices.views)
        if column.layout != layout:
            requests = self._requests(store)
            column.bounds = None if requests is None else _bounds(requests, store)
            column.layout = layout
        if column.bounds is not None:
            for requested in column.bounds.columns:
                if requested.version != devices.capacities.version:
                    requested.refresh()
        return column.bounds

    def _requests(self, store: ClaimStore) -> list[Alternatives] | None:
        """Return the alternatives of each request with their columns.

        None where there is more to a claim than so many devices for each request.
        """
        if store.extended_claim is not None or self._must_search:
            return None
        requests: list[Alternatives] = []
        for plan in store.plans:
            if plan.fixed is None or plan.fixed > MAX_DEVICES:
                return None
            for alternatives in plan.requests:
                columns = []
                for request in alternatives:
                    if isinstance(request, AllocationError) or request.mode != EXACT_COUNT:
                        return None
                    columns.append((self._search.requests.of(request), request.count))
                requests.append(columns)
        return requests

    def _enough(self, bounds: _Bounds, rows: Numbers) -> tuple[Flags, Flags]:
        """Return on which rows there are enough devices, and of which rows that is the result."""
        devices = self._devices
        unsure = devices.searched[rows]
        for column in bounds.failing:
            unsure |= devices.partial[rows] | (column.count(column.failing, rows) > 0)
        enough = np.ones(rows.size, np.bool_)
        for column, count in bounds.wanted:
            enough &= column.count(column.suits, rows) >= count
        for alternatives in bounds.alternatives:
            fits = [column.count(column.suits, rows) >= count for column, count in alternatives]
            enough &= np.logical_or.reduce(fits)
        return enough, ~unsure if bounds.simple else ~unsure & ~enough

    def _evaluate_row(self, column: _Shape, bounds: _Bounds, row: int) -> bool:
        """Evaluate one row, if that can be done without a search; return whether it can."""
        devices = self._devices
        if devices.searched[row]:
            return False
        for requested in bounds.failing:
            if devices.partial[row] or requested.on(row, requested.failing).size:
                return False
        enough = True
        for requested, count in bounds.wanted:
            if requested.on(row, requested.suits).size < count:
                enough = False
        for alternatives in bounds.alternatives:
            enough = enough and any(c.on(row, c.suits).size >= count for c, count in alternatives)
        if enough and not bounds.simple:
            return False
        code = 0
        if not enough:
            code = self._statuses.number(INVALID if devices.invalid[row] else NOT_ALLOCATED)
        column.values[row] = code
        column.seen[row] = devices.generation[row]
        return True

    def passes(self, store: ClaimStore, row: int) -> bool:
        """Return whether Filter accepts a row."""
        search = self._search
        search.budget.enter(len(search.row_of), search.filter_timeout)
        if store.shape is None:
            return not self.codes(store, np.array([row], np.intp)).any()
        devices = self._devices
        devices.sync()
        column = self._column(self._shape(store) if self._ruled else store.plans_shape)
        if not self._steady or column.seen[row] != devices.generation[row]:
            bounds = self._bounds(column, store)
            if bounds is None or not self._evaluate_row(column, bounds, row):
                self._search_row(column, PodSearch(self._search, store), row)
        return not column.values[row]

    # Allocated claims.

    def _usable(self, begun: PodSearch, claim: ResourceClaim, searched: Numbers) -> Flags:
        """Return on which rows an allocated claim can be used."""
        allocation = claim.status.allocation
        assert allocation is not None, "the claim is allocated"
        if not begun.ready(claim):
            return np.zeros(searched.size, np.bool_)
        selector = allocation.node_selector
        if selector is None:
            return np.ones(searched.size, np.bool_)
        names = named_nodes(selector)
        if names is not None:
            row_of = self._table.row_of
            return np.isin(searched, [row_of[name] for name in names if name in row_of])
        return self._selected(selector)[searched]

    def _selected(self, selector: NodeSelector) -> Flags:
        """Return which rows a node selector takes."""
        column = self._reached.get(selector)
        if column is None:
            if len(self._reached) >= _MOST_SHAPES:
                self._reached.clear()
            column = self._reached[selector] = _Column(np.bool_)
        column.fit(self._table.n)
        generation = self._devices.generation
        stale = np.flatnonzero(column.seen != generation)
        for row in stale.tolist():
            node = self._table.nodes[row]
            view = None if node is None else NodeView(node.metadata.name, node.metadata.labels)
            column.values[row] = view is not None and selects(selector, view)
        column.seen[stale] = generation[stale]
        return column.values

    # One node.

    def find(self, store: ClaimStore, row: int, *, anew: bool = False) -> NodeAllocation | None:
        """Return what a node gives, None if it has not enough; ``anew``: as the node is now.

        Raises AllocationError, DeadlineExceeded and ExtendedResourceError.
        """
        search = self._search
        search.budget.enter(len(search.row_of), search.filter_timeout)
        self._devices.sync()
        column = self._column(self._shape(store) if self._ruled else store.plans_shape)
        generation = int(self._devices.generation[row])
        kept = None if anew else column.allocations.get(row)
        if kept is not None and kept[0] == generation and kept[1].variant is None:
            return NodeAllocation([plan.claim for plan in store.plans], kept[1].devices)
        bounds = None if self._search.rules is not None else self._bounds(column, store)
        got = None
        if bounds is not None and bounds.only is not None and not bounds.failing:
            got = self._search.first(store.plans[0], bounds.only, row)
        if got is None:
            got = PodSearch(self._search, store).find(row)
        if got is not None:
            column.allocations[row] = generation, got
        return got

    def names(self, store: ClaimStore, row: int) -> list[frozenset[str]]:
        """Return of each of the user's claims the requests with devices on a node, in order.

        Raises AllocationError and ExtendedResourceError where the node does not suit.
        """
        got = self.find(store, row)
        fresh = iter([] if got is None else got.devices)
        names = []
        for claim in store.user:
            allocation = claim.status.allocation
            if allocation is not None:
                names.append(frozenset(device.request for device in allocation.devices.results))
            else:
                names.append(frozenset(device.request.full_name for device in next(fresh, [])))
        return names

    def keeping_from(self, store: ClaimStore, rows: Sequence[int]) -> set[str]:
        """Return the UIDs of the allocated claims that some of these nodes cannot use."""
        self._devices.sync()
        begun, searched = self._search.begin(store), np.array(rows, np.intp)
        allocated = (claim for claim in store.user if claim.status.allocation is not None)
        return {
            uid_of(user_claim)
            for user_claim in allocated
            if not self._usable(begun, user_claim, searched).all()
        }


def _bounds(requests: Sequence[Alternatives], store: ClaimStore) -> _Bounds:
    """Return the bounds of requests.

    Enough devices are a result where no two requests want one device, whatever is taken.
    """
    alike: dict[Hashable, list[tuple[RequestColumn, int]]] = {}
    several = []
    for alternatives in requests:
        if len(alternatives) > 1:
            several.append(tuple(alternatives))
        else:
            alike.setdefault(id(alternatives[0][0]), []).append(alternatives[0])
    wanted = []
    simple = not several and not any(p.claim.spec.devices.constraints for p in store.plans)
    for group in alike.values():
        column, counts = group[0][0], [count for _, count in group]
        simple = simple and not column.counts and (len(group) == 1 or column.exclusive)
        wanted.append((column, sum(counts) if column.exclusive else max(counts)))
    for first, other in combinations([column for column, _ in wanted], 2):
        simple = simple and not (first.selected & other.selected).any()
    columns = tuple(
        {id(column): column for alternatives in requests for column, _ in alternatives}.values()
    )
    return _Bounds(
        columns,
        tuple(wanted),
        tuple(several),
        tuple(column for column in columns if column.fails),
        simple,
        columns[0] if simple and len(requests) == 1 else None,
    )


def named_nodes(selector: NodeSelector) -> tuple[str, ...] | None:
    """Return the nodes that a selector names, None where it says something else."""
    match selector.node_selector_terms:
        case (NodeSelectorTerm(match_expressions=(), match_fields=(requirement,)),):
            if requirement.key == "metadata.name" and requirement.operator == "In":
                return requirement.values
    return None
