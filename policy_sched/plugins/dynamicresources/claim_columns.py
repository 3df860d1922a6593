"""Claims as columns: Filter's answer for claims of one shape on every node.

Theory of operation. An answer holds as long as the generation of its row (`DeviceTable`), so pods
whose claims are alike share it, whatever else they differ in. Rows whose answer is out of date are
answered together: where a node has fewer devices for a request than that wants, nothing is found
there; where no two requests want one device and neither constraints nor counters matter, enough
devices are an answer, too. Only the other rows are searched. Of a node that was not searched the
devices are chosen when a pod goes there.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.framework import SUCCESS, Code, Codes, Rows, Status
from policy_sched.model import NodeSelector, NodeSelectorTerm, ResourceClaim
from policy_sched.plugins.dynamicresources.devices import NodeView, selects
from policy_sched.plugins.dynamicresources.gathered import Gathered
from policy_sched.plugins.dynamicresources.node_search import (
    INVALID,
    NOT_ALLOCATED,
    UNAVAILABLE,
    Found,
    NodeSearch,
    PodSearch,
)
from policy_sched.plugins.dynamicresources.request_columns import RequestColumn
from policy_sched.plugins.dynamicresources.requests import (
    EXACT_COUNT,
    MAX_DEVICES,
    AllocationError,
    Request,
)
from policy_sched.plugins.dynamicresources.resource_claims import uid_of

_MOST_SHAPES: Final = 64
#: Statuses of rows that have a number; those of errors come behind these, and are used again.
_MAX_CODES: Final = 30_000
_NEVER: Final = -1
Alternatives = Sequence[tuple[Request, RequestColumn]]
Flags = NDArray[np.bool_]
Numbers = NDArray[np.intp]


@dataclass(slots=True)
class Statuses:
    """The statuses of rows by number; a number keeps its meaning while answers with it live.

    ``epoch`` rises when numbers get other meanings.
    """

    known: dict[Status, int] = field(default_factory=dict)
    listed: list[Status] = field(default_factory=lambda: [SUCCESS])
    epoch: int = 0

    def number(self, status: Status) -> int:
        """Return the number of a status."""
        found = self.known.get(status)
        if found is None:
            if len(self.listed) >= _MAX_CODES:
                self.known.clear()
                del self.listed[1:]
                self.epoch += 1
            found = self.known[status] = len(self.listed)
            self.listed.append(status)
        return found

    def describe(self, _rows: NDArray[np.intp], codes: Codes) -> list[Status]:
        """Return the statuses of numbers."""
        return [self.listed[code] for code in codes.tolist()]


class _Column:
    """The answers for one shape: ``codes`` of rows at the generations ``seen``.

    ``found``: by row, the generation at which a search found something, and what.
    """

    __slots__ = ("codes", "found", "seen")

    def __init__(self) -> None:
        self.codes: Codes = np.empty(0, np.int16)
        self.seen: NDArray[np.int64] = np.empty(0, np.int64)
        self.found: dict[int, tuple[int, Found]] = {}

    def fit(self, rows: int) -> None:
        """Make room for so many rows."""
        missing = rows - len(self.seen)
        if missing > 0:
            self.codes = np.concatenate((self.codes, np.zeros(missing, np.int16)))
            self.seen = np.concatenate((self.seen, np.full(missing, _NEVER, np.int64)))


class ClaimColumns:
    """The answers for all shapes of claims."""

    def __init__(self, search: NodeSearch, statuses: Statuses) -> None:
        self._search = search
        self._statuses = statuses
        self._devices = search.claims.devices
        self._table = search.handle.nodes
        self._columns: dict[Hashable, _Column] = {}
        self._reached: dict[NodeSelector, tuple[Flags, NDArray[np.int64]]] = {}
        self._version = (0, 0)

    # Filter.

    def codes(self, found: Gathered, rows: Rows, unavailable: set[str] | None = None) -> Codes:
        """Return the numbers of Filter's statuses, of all rows or of some.

        ``unavailable`` takes the UIDs of allocated claims that keep the pod from a node.
        """
        table = self._table
        self._devices.sync()
        asked = np.flatnonzero(table.live.values[: table.n]) if rows is None else rows
        begun = self._search.begin(found)
        codes = self._allocated(begun, found, asked)
        for claim in found.user:
            if claim.status.allocation is None:
                continue
            kept_off = (codes == 0) & ~self._usable(begun, claim, asked)
            if unavailable is not None and kept_off.any():
                unavailable.add(uid_of(claim))
            if kept_off.any():
                codes = np.where(kept_off, self._statuses.number(UNAVAILABLE), codes)
        if rows is not None:
            return codes
        spread = np.zeros(table.n, np.int16)
        spread[asked] = codes
        return spread

    def _allocated(self, begun: PodSearch, found: Gathered, asked: Numbers) -> Codes:
        """Return the numbers of the statuses as far as claims are to be allocated."""
        if not found.plans and found.special is None:
            return np.zeros(asked.size, np.int16)
        column = self._column(found.plans_shape)
        generation = self._devices.generation
        stale = asked[column.seen[asked] != generation[asked]]
        if stale.size:
            self._refresh(column, begun, found, stale)
        return column.codes[asked]

    def _column(self, shape: Hashable) -> _Column:
        """Return what is kept for a shape; of None nothing is."""
        version = self._search.claims.classes_version, self._statuses.epoch
        if version != self._version or len(self._columns) > _MOST_SHAPES:
            self._columns.clear()
            self._version = version
        column = self._columns.get(shape) if shape is not None else None
        if column is None:
            column = _Column()
            if shape is not None:
                self._columns[shape] = column
        column.fit(self._table.n)
        return column

    def _refresh(self, column: _Column, begun: PodSearch, found: Gathered, stale: Numbers) -> None:
        """Answer rows anew."""
        searched, stop = stale, begun.stop()
        requests = self._requests(found)
        if requests is not None:
            enough, sure = self._enough(requests, found, stale)
            sure &= not stop()
            devices = self._devices
            codes = np.where(
                devices.invalid[stale],
                self._statuses.number(INVALID),
                self._statuses.number(NOT_ALLOCATED),
            )
            column.codes[stale] = np.where(enough, 0, codes)
            column.seen[stale[sure]] = devices.generation[stale[sure]]
            searched = stale[~sure]
        for row in searched.tolist():
            self._search_row(column, begun, row)

    def _search_row(self, column: _Column, begun: PodSearch, row: int) -> None:
        status, got = begun.allocation(row)
        column.codes[row] = self._statuses.number(status) if not status.ok else 0
        generation = int(self._devices.generation[row])
        column.seen[row] = _NEVER if status.code is Code.ERROR else generation
        if got is not None:
            column.found[row] = generation, got

    # Rows at once.

    def _requests(self, found: Gathered) -> list[Alternatives] | None:
        """Return the alternatives of each request with their columns.

        None where there is more to a claim than so many devices for each request.
        """
        if found.special is not None:
            return None
        requests: list[Alternatives] = []
        for plan in found.plans:
            if plan.fixed is None or plan.fixed > MAX_DEVICES:
                return None
            for alternatives in plan.requests:
                columns = []
                for request in alternatives:
                    if isinstance(request, AllocationError) or request.mode != EXACT_COUNT:
                        return None
                    columns.append((request, self._search.requests.of(request)))
                requests.append(columns)
        return requests

    def _enough(
        self, requests: Sequence[Alternatives], found: Gathered, rows: Numbers
    ) -> tuple[Flags, Flags]:
        """Return on which rows there are enough devices, and of which rows that is the answer."""
        devices = self._devices
        unsure = devices.searched[rows]
        enough = np.ones(rows.size, np.bool_)
        for alternatives in requests:
            fits = np.zeros(rows.size, np.bool_)
            for request, column in alternatives:
                if column.fails:
                    failing = column.count(column.failing, rows) > 0
                    unsure = unsure | failing | devices.partial[rows]
                if len(alternatives) > 1:
                    fits |= column.count(column.suits, rows) >= request.count
            if len(alternatives) > 1:
                enough &= fits
        single = [alternatives[0] for alternatives in requests if len(alternatives) == 1]
        alike: dict[Hashable, list[tuple[Request, RequestColumn]]] = {}
        for request, column in single:
            alike.setdefault(request.key, []).append((request, column))
        for group in alike.values():
            column, counts = group[0][1], [request.count for request, _ in group]
            wanted = sum(counts) if column.exclusive else max(counts)
            enough &= column.count(column.suits, rows) >= wanted
        simple = (
            len(single) == len(requests)
            and not any(plan.claim.spec.devices.constraints for plan in found.plans)
            and all(len(group) == 1 or group[0][1].exclusive for group in alike.values())
            and _independent([group[0][1] for group in alike.values()])
        )
        return enough, ~unsure if simple else ~unsure & ~enough

    # Allocated claims.

    def _usable(self, begun: PodSearch, claim: ResourceClaim, asked: Numbers) -> Flags:
        """Return on which rows an allocated claim can be used."""
        allocation = claim.status.allocation
        assert allocation is not None, "the claim is allocated"
        if not begun.ready(claim):
            return np.zeros(asked.size, np.bool_)
        selector = allocation.node_selector
        if selector is None:
            return np.ones(asked.size, np.bool_)
        names = named_nodes(selector)
        if names is not None:
            row_of = self._table.row_of
            return np.isin(asked, [row_of[name] for name in names if name in row_of])
        return self._selected(selector)[asked]

    def _selected(self, selector: NodeSelector) -> Flags:
        """Return which rows a node selector takes."""
        generation, n = self._devices.generation, self._table.n
        takes, seen = self._reached.get(selector, (_NO_FLAGS, _NO_GENERATIONS))
        if len(takes) < n:
            takes = np.concatenate((takes, np.zeros(n - len(takes), np.bool_)))
            seen = np.concatenate((seen, np.full(n - len(seen), _NEVER, np.int64)))
            if len(self._reached) >= _MOST_SHAPES:
                self._reached.clear()
            self._reached[selector] = takes, seen
        stale = np.flatnonzero(seen != generation)
        for row in stale.tolist():
            node = self._table.nodes[row]
            view = None if node is None else NodeView(node.metadata.name, node.metadata.labels)
            takes[row] = view is not None and selects(selector, view)
        seen[stale] = generation[stale]
        return takes

    # One node.

    def find(self, found: Gathered, row: int) -> Found | None:
        """Return what a node gives, None if it has not enough.

        Raises AllocationError and ExtendedResourceError.
        """
        self._devices.sync()
        column = self._column(found.plans_shape)
        generation = int(self._devices.generation[row])
        kept = column.found.get(row)
        if kept is not None and kept[0] == generation and kept[1].variant is None:
            return Found([plan.claim for plan in found.plans], kept[1].taken)
        got = self._search.begin(found).find(row)
        if got is not None:
            column.found[row] = generation, got
        return got

    def names(self, found: Gathered, row: int) -> list[frozenset[str]]:
        """Return of each of the user's claims the requests with devices on a node, in order.

        Raises AllocationError and ExtendedResourceError where the node does not suit.
        """
        got = self.find(found, row)
        fresh = iter([] if got is None else got.taken)
        names = []
        for claim in found.user:
            allocation = claim.status.allocation
            if allocation is not None:
                names.append(frozenset(one.request for one in allocation.devices.results))
            else:
                names.append(frozenset(one.request.full_name for one in next(fresh, [])))
        return names

    def keeping_from(self, found: Gathered, rows: Sequence[int]) -> set[str]:
        """Return the UIDs of the allocated claims that some of these nodes cannot use."""
        self._devices.sync()
        begun, asked = self._search.begin(found), np.array(rows, np.intp)
        allocated = (claim for claim in found.user if claim.status.allocation is not None)
        return {uid_of(one) for one in allocated if not self._usable(begun, one, asked).all()}


_NO_FLAGS: Final[Flags] = np.empty(0, np.bool_)
_NO_GENERATIONS: Final[NDArray[np.int64]] = np.empty(0, np.int64)


def _independent(columns: Sequence[RequestColumn]) -> bool:
    """Tell whether devices for one request are never devices for another, nor share counters."""
    if any(column.counts for column in columns):
        return False
    return not any(bool((one.suits & other.suits).any()) for one, other in combinations(columns, 2))


def named_nodes(selector: NodeSelector) -> tuple[str, ...] | None:
    """Return the nodes that a selector names, None where it says something else."""
    match selector.node_selector_terms:
        case (NodeSelectorTerm(match_expressions=(), match_fields=(one,)),):
            if one.key == "metadata.name" and one.operator == "In":
                return one.values
    return None
