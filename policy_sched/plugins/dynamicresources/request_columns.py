"""Requests as columns: which devices a request can have as far as the device alone decides.

Theory of operation. Selectors, tolerations and capacities say that of each device by itself; what
other requests take, constraints and counters are the allocator's. So the number of devices that a
node has for a request is a bound: fewer than it wants, and nothing is found there.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.framework import AttemptBudget
from policy_sched.plugins.dynamicresources.device_table import DeviceTable
from policy_sched.plugins.dynamicresources.devices import DeviceView, consumption
from policy_sched.plugins.dynamicresources.pools import AllocatedState
from policy_sched.plugins.dynamicresources.requests import Request
from policy_sched.plugins.dynamicresources.selector_columns import (
    FAILS,
    UNKNOWN,
    YES,
    SelectorColumn,
    SelectorResults,
)

Flags = NDArray[np.bool_]
_FEW: Final = 8
_MOST_REQUESTS: Final = 256
_NOTHING: Final[Mapping[str, int]] = {}


class RequestColumn:
    """Columns over devices for requests that are alike.

    ``offered``: the devices that are worth trying. ``suits``: those of them that the request gets
    if counters suffice. Neither says whether a device is taken as a whole; see `free`.
    ``failing``: those for which a selector fails, or may fail, as evaluating it for all takes too
    much work; ``fails`` is whether there are any.
    ``exclusive`` is whether one that is taken is taken for all other requests, too.
    ``counts``: whether some of the offered devices consume counters.
    """

    def __init__(
        self,
        request: Request,
        table: DeviceTable,
        state: AllocatedState,
        selectors: Mapping[str, SelectorColumn],
        budget: AttemptBudget,
    ) -> None:
        self._request = request
        self._table = table
        self._state = state
        self._selectors, self._budget = selectors, budget
        self.shares_seen = table.share_version
        """The table's share_version that the columns are up to date with."""
        self._fits: dict[Hashable, bool] = {}
        self._sharing = False
        self._selected: Flags = np.empty(0, np.bool_)
        self._tolerated: Flags = np.empty(0, np.bool_)
        self.offered: Flags = np.empty(0, np.bool_)
        self.suits: Flags = np.empty(0, np.bool_)
        self.failing: Flags = np.empty(0, np.bool_)
        self.fails = False
        self.counts = False
        self.exclusive = not request.admin_access

    def refresh(self) -> None:
        """Bring the columns up to date with the table. Raises DeadlineExceeded."""
        table = self._table
        new = len(table.views) - len(self.offered)
        if new > 0:
            self._extend()
            self._budget.charge(new)
        if self.shares_seen == table.share_version:
            return
        changed = table.shares_changed_since(self.shares_seen)
        self.shares_seen = table.share_version
        if not self._sharing:
            return
        if changed is None:
            changed = [view.number for view in table.views if view.shareable]
        for number in changed:
            if self._selected[number]:
                self._set(number, fits=self._has_room(table.views[number]))

    def _set(self, number: int, *, fits: bool) -> None:
        self.offered[number] = fits and (self._tolerated[number] or self._table.counting[number])
        self.suits[number] = fits and self._tolerated[number]

    def _extend(self) -> None:
        """Fill the columns for devices that are new."""
        table, request, first = self._table, self._request, len(self.offered)
        new = np.arange(first, len(table.views), dtype=np.intp)
        results = np.full(new.size, YES, np.int8)
        for _, expression in request.expressions:
            selected = np.flatnonzero(results == YES)
            results[selected] = self._selectors[expression].of(table.views, new[selected])
        selected = results == YES
        views = table.views[first:]
        tolerated = ~table.blocked[first:]
        for at in np.flatnonzero(selected & table.blocked[first:]).tolist():
            tolerated[at] = request.tolerates(views[at])
        fits = selected.copy()
        for at in np.flatnonzero(selected).tolist():
            view = views[at]
            if view.capacity or request.capacity:
                self._sharing = self._sharing or view.shareable
                fits[at] = self._has_room(view)
        self._selected = np.concatenate((self._selected, selected))
        self._tolerated = np.concatenate((self._tolerated, tolerated))
        counting = table.counting[first:]
        shared = any(views[at].shareable for at in np.flatnonzero(selected).tolist())
        self.exclusive = self.exclusive and not shared
        self.offered = np.concatenate((self.offered, fits & (tolerated | counting)))
        self.suits = np.concatenate((self.suits, fits & tolerated))
        failing = (results == FAILS) | (results == UNKNOWN)
        self.failing = np.concatenate((self.failing, failing))
        self.fails = bool(self.failing.any())
        self.counts = bool((self.offered & table.counting).any())

    def _has_room(self, device: DeviceView) -> bool:
        """Tell whether the device has what is left of its capacities."""
        used = self._state.consumed.get(device.id, _NOTHING)
        key = (tuple(device.capacity.items()), tuple(used.items()))
        known = self._fits.get(key)
        if known is None:
            if len(self._fits) >= _MOST_REQUESTS:
                self._fits.clear()
            known = consumption(device, self._request.capacity, used) is not None
            self._fits[key] = known
        return known

    def free(self, devices: Flags) -> Flags:
        """Return which of the devices no other claim has as a whole, where that matters."""
        return devices if self._request.admin_access else devices & self._table.free

    def count(self, devices: Flags, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return how many such devices that no other claim has rows may try."""
        if rows.size > _FEW:
            return self._table.count(self.free(devices), rows)
        return np.array([self.on(row, devices).size for row in rows.tolist()], np.intp)

    def on(self, row: int, devices: Flags) -> NDArray[np.intp]:
        """Return the numbers of such devices that a row may try, in upstream's order."""
        table, admin = self._table, self._request.admin_access
        numbers = table.candidates[row]
        chosen = devices[numbers]
        return numbers[chosen if admin else chosen & table.free[numbers]]

    def places(self, row: int, devices: Flags) -> Flags:
        """Return which of a row's candidates are among such devices."""
        numbers = self._table.candidates[row]
        chosen = devices[numbers]
        if not self._request.admin_access:
            chosen &= self._table.free[numbers]
        return chosen


class RequestColumns:
    """The columns of requests that were looked up, kept as long as the table's numbers."""

    def __init__(
        self,
        table: DeviceTable,
        state: AllocatedState,
        results: SelectorResults,
        budget: AttemptBudget,
    ) -> None:
        self._table = table
        self._state = state
        self._results = results
        self._budget = budget
        self._epoch = table.epoch
        self._columns: dict[Hashable, RequestColumn] = {}
        self._selectors: dict[str, SelectorColumn] = {}

    def of(self, request: Request) -> RequestColumn:
        """Return the columns of a request, up to date; the table must be.

        Raises DeadlineExceeded.
        """
        if self._epoch != self._table.epoch or len(self._columns) > _MOST_REQUESTS:
            self._columns.clear()
            self._selectors.clear()
            self._epoch = self._table.epoch
        found = self._columns.get(request.key)
        if found is None:
            found = self._columns[request.key] = RequestColumn(
                request, self._table, self._state, self._selectors, self._budget
            )
            for _, text in request.expressions:
                if text not in self._selectors:
                    self._selectors[text] = SelectorColumn(text, self._results)
        found.refresh()
        return found
