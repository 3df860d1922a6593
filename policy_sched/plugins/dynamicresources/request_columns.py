"""Requests as columns: which devices a request can have as far as the device alone decides.

Theory of operation. Selectors, tolerations and capacities say that of each device by itself; what
other requests take, constraints and counters are the allocator's. So the number of devices that a
node has for a request is a bound: fewer than it wants, and nothing is found there. Columns are
filled at once as long as selectors are cheap. Where they are not, the devices that are left are
evaluated when a search comes to them: the first that fails may end it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched import thresholds
from policy_sched.framework import AttemptBudget
from policy_sched.plugins.dynamicresources.device_table import DeviceTable
from policy_sched.plugins.dynamicresources.devices import (
    DeviceView,
    SelectorError,
    SelectorResults,
    consumption,
)
from policy_sched.plugins.dynamicresources.pools import AllocatedState
from policy_sched.plugins.dynamicresources.requests import Request

Flags = NDArray[np.bool_]
_MOST_REQUESTS: Final = 256
#: Filling a column may take one part of so many of an attempt's units at once.
_FILL_SHARE: Final = 25
_NOTHING: Final[Mapping[str, int]] = {}
_NO_FLAGS: Final[Flags] = np.empty(0, np.bool_)


class RequestColumn:
    """Columns over devices, by their number, for requests that are alike.

    None of them says whether a device is taken as a whole; see `on`.
    """

    def __init__(self, request: Request, columns: RequestColumns) -> None:
        self._request = request
        self._columns = columns
        self._table = columns.table
        self.version = columns.table.capacities.version
        """The version of the table's ``capacities`` that the columns are up to date with."""
        self._fits: dict[Hashable, bool] = {}
        self.selected: Flags = _NO_FLAGS
        self.offered: Flags = _NO_FLAGS
        """The devices that are worth trying."""
        self.suits: Flags = _NO_FLAGS
        """Those of them that the request gets if counters suffice."""
        self.failing: Flags = _NO_FLAGS
        """The devices for which a selector fails, or is not evaluated as that takes too much."""
        self.fails = False
        """Whether there are failing ones."""
        self.counts = False
        """Whether some of the selected devices consume counters."""
        self.exclusive = not request.admin_access
        """Whether a device that is taken is taken for all other requests, too."""

    def refresh(self) -> None:
        """Bring the columns up to date with the table. Raises DeadlineExceeded."""
        table, filled = self._table, len(self.selected)
        if self.version != table.capacities.version:
            changes = table.capacities.since(self.version)
            for number in range(filled) if changes is None else changes.rows:
                if number < filled and self.selected[number]:
                    self._fit(number, table.views[number])
            self.version = table.capacities.version
        if filled < len(table.views):
            self._extend(filled)

    def _extend(self, filled: int) -> None:
        """Fill the columns for devices that are new."""
        new = self._table.views[filled:]
        selected, failing = np.zeros((2, len(new)), np.bool_)
        work = self._columns.results.work + self._columns.results.units // _FILL_SHARE
        for at, device in enumerate(new):
            result = self._selects(device, work)
            selected[at], failing[at] = result or False, result is None
        none = np.zeros(len(new), np.bool_)
        self.offered, self.suits = (np.concatenate((c, none)) for c in (self.offered, self.suits))
        self.selected = np.concatenate((self.selected, selected))
        self.failing = np.concatenate((self.failing, failing))
        self.fails = self.fails or bool(failing.any())
        for at in np.flatnonzero(selected).tolist():
            self._fit(filled + at, new[at])
            self.exclusive = self.exclusive and not new[at].shareable
        self.counts = bool((self.selected & self._table.counting).any())
        self._columns.budget.charge(len(new))

    def _selects(self, device: DeviceView, most: int) -> bool | None:
        """Tell whether the selectors take a device; None where one fails, or is not evaluated.

        ``most``: units of work after which only results that are kept count.
        """
        results = self._columns.results
        for _, expression in self._request.expressions:
            result = device.selected.get(expression)
            if result is None:
                if results.work > most:
                    return None
                try:
                    result = results.selected(expression, device)
                except SelectorError:
                    return None
            if result is not True:
                return None if isinstance(result, str) else False
        return True

    def _fit(self, number: int, device: DeviceView) -> None:
        """Note whether a selected device has room for the request, which tolerates it."""
        sized = device.capacity or self._request.capacity
        fits = not sized or self._has_room(device)
        tolerated = not device.blocking or self._request.tolerates(device)
        self.suits[number] = fits and tolerated
        self.offered[number] = fits and (tolerated or self._table.counting[number])

    def _has_room(self, device: DeviceView) -> bool:
        """Tell whether the device has what is left of its capacities."""
        used = self._columns.state.consumed.get(device.id, _NOTHING)
        key = (tuple(device.capacity.items()), tuple(used.items()))
        fits = self._fits.get(key)
        if fits is None:
            if len(self._fits) >= _MOST_REQUESTS:
                self._fits.clear()
            fits = consumption(device, self._request.capacity, used) is not None
            self._fits[key] = fits
        return fits

    def count(self, devices: Flags, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return how many such devices that no other claim has rows may try."""
        if rows.size <= thresholds.LOOP_ROWS:
            return np.array([self.on(row, devices).size for row in rows.tolist()], np.intp)
        if not self._request.admin_access:
            devices = devices & self._table.free
        return self._table.count(devices, rows)

    def on(self, row: int, devices: Flags) -> NDArray[np.intp]:
        """Return the numbers of such devices that a row may try, in upstream's order."""
        table = self._table
        numbers = table.candidates[row]
        chosen = devices[numbers]
        return numbers[chosen if self._request.admin_access else chosen & table.free[numbers]]

    def places(self, row: int, devices: Flags) -> Flags:
        """Return which of a row's candidates are among such devices, and no other claim's."""
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
        self.table = table
        self.state = state
        self.results = results
        self.budget = budget
        self._epoch = table.epoch
        self._kept: dict[Hashable, RequestColumn] = {}

    def of(self, request: Request) -> RequestColumn:
        """Return the columns of a request, up to date; the table must be.

        Raises DeadlineExceeded.
        """
        if self._epoch != self.table.epoch or len(self._kept) > _MOST_REQUESTS:
            self._kept.clear()
            self._epoch = self.table.epoch
        column = self._kept.get(request.key)
        if column is None:
            column = self._kept[request.key] = RequestColumn(request, self)
        column.refresh()
        return column
