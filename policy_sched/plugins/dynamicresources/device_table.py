"""The devices of the cluster as columns, and which of them each node reaches.

Theory of operation. A device has a number, which stays its own until the table is made anew
(``epoch`` rises then). Columns over devices are indexed by number, those over nodes by row of the
node table. Changes are noted as they come and taken over by `sync`, so a change costs the devices
and rows that it concerns: claims change devices, slices and nodes change what rows reach.
``generation`` of a row rises whenever anything about its node or the devices that it reaches has
changed: a result that was made at a generation holds while the row has it.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import DYNAMIC, Journal, NodeTable
from policy_sched.language.values import AttributeFacts, DeviceFacts, QualifiedNames
from policy_sched.model import MICRO, NANO, Amount, DeviceAttribute, Node, nanos, units_of_nanos
from policy_sched.plugins.dynamicresources.devices import DeviceId, DeviceView, NodeView
from policy_sched.plugins.dynamicresources.pools import (
    AllocatedState,
    NodePools,
    Pool,
    PoolError,
    PoolId,
    SliceIndex,
    SliceView,
)

NO_ROW: Final = -1
_NONE: Final[NDArray[np.intp]] = np.empty(0, np.intp)
_MOST_NOTED: Final = 10_000


class DeviceTable:
    """Columns over devices, by number, and over rows; call `sync` before reading."""

    def __init__(self, nodes: NodeTable, slices: SliceIndex, allocated: AllocatedState) -> None:
        self._nodes = nodes
        self._slices = slices
        self._allocated = allocated
        self.epoch = 0
        self._generation = 0
        self._reset()

    def _reset(self) -> None:
        self.epoch += 1
        for view in self._slices.views.values():
            view.first = NO_ROW
        # Over devices.
        self.views: list[DeviceView] = []
        self.free: NDArray[np.bool_] = np.empty(0, np.bool_)
        """Whether no claim has the device as a whole."""
        self.blocked: NDArray[np.bool_] = np.empty(0, np.bool_)
        """Whether a taint keeps claims away that do not tolerate it."""
        self.counting: NDArray[np.bool_] = np.empty(0, np.bool_)
        """Whether it consumes counters."""
        self.row: NDArray[np.intp] = np.empty(0, np.intp)
        """The only row that reaches it, NO_ROW where there may be several."""
        self.capacities = Journal()
        """Which devices have other capacities left than before."""
        # Over rows.
        self.generation: NDArray[np.int64] = np.empty(0, np.int64)
        self.candidates: list[NDArray[np.intp]] = []
        """The numbers of the devices that may be tried there, in upstream's order."""
        self.searched: NDArray[np.bool_] = np.empty(0, np.bool_)
        """Whether gathering the node's pools fails, so that it must be searched for the error."""
        self.invalid: NDArray[np.bool_] = np.empty(0, np.bool_)
        """Whether one of its pools is invalid."""
        self.partial: NDArray[np.bool_] = np.empty(0, np.bool_)
        """Whether it reaches a slice with devices of other nodes, for which a selector may fail."""
        self._numbers: dict[DeviceId, tuple[int, ...]] = {}
        self._nodes_seen: list[Node | None] = []
        self._pools: list[NodePools] = []
        self._rows_of_pool: dict[PoolId, set[int]] = {}
        self._flat: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None
        self._version = -1
        self._gone = 0
        self._noted: list[DeviceId] = []
        self._stale_names: set[str] = set()
        self._ready = False

    # What changed.

    def devices_changed(self, devices: Iterable[DeviceId]) -> None:
        """Note devices that were taken or given back."""
        if self._ready:
            self._noted += devices
            self._ready = len(self._noted) < _MOST_NOTED

    def slices_changed(self, names: Collection[str] | None, gone: SliceView | None) -> None:
        """Note the nodes whose pools changed, None for all, and the slice that is no more."""
        self._gone += 0 if gone is None else len(gone.devices)
        if names is None or 2 * self._gone > len(self.views):
            self._ready = False
        else:
            self._stale_names.update(names)

    def sync(self) -> None:
        """Take over what was noted, and what the node table's journal says."""
        if not self._ready:
            self._reset()
            self._ready = True
            gone = self._slices.known_nodes()
            self._slices.forget_nodes(name for name in gone if name not in self._nodes.row_of)
        nodes, journal = self._nodes, self._nodes.journal
        moved: set[int] = set()
        if self._version < journal.static_version:
            moved = self._changed_nodes()
        self._version = journal.version
        if self._stale_names:
            row_of = nodes.row_of
            moved.update(row_of[name] for name in self._stale_names if name in row_of)
            self._stale_names.clear()
        if moved:
            self._reach_again(sorted(moved))
        if self._noted:
            self._take_over(self._noted)
            self._noted = []

    # Nodes.

    def _changed_nodes(self) -> set[int]:
        """Compare the nodes with those that are known; return the rows to be looked at again."""
        nodes = self._nodes
        changes = nodes.journal.since(self._version) if self._version >= 0 else None
        missing = nodes.n - len(self._nodes_seen)
        if missing:
            self._nodes_seen += [None] * missing
            self.candidates += [_NONE] * missing
            self._pools += [NodePools() for _ in range(missing)]
            self.generation = np.concatenate((self.generation, np.zeros(missing, np.int64)))
            self.searched = np.concatenate((self.searched, np.zeros(missing, np.bool_)))
            self.invalid = np.concatenate((self.invalid, np.zeros(missing, np.bool_)))
            self.partial = np.concatenate((self.partial, np.zeros(missing, np.bool_)))
        self._generation += 1
        moved = set()
        for row in range(nodes.n) if changes is None else changes.rows:
            if row >= nodes.n:
                continue
            before, node = self._nodes_seen[row], nodes.nodes[row]
            if before is node:
                continue
            self._nodes_seen[row] = node
            self.generation[row] = self._generation
            if before is not None and before.metadata.name not in nodes.row_of:
                self._slices.forget_nodes((before.metadata.name,))
            if (
                before is None
                or node is None
                or before.metadata.name != node.metadata.name
                or before.metadata.labels != node.metadata.labels
            ):
                moved.add(row)
        return moved

    def _reach_again(self, rows: Sequence[int]) -> None:
        """Work out which devices rows reach."""
        self._generation += 1
        self._flat = None
        fresh: list[SliceView] = []
        for row in rows:
            for pool in self._pools[row]:
                self._rows_of_pool.get(pool.id, set()).discard(row)
            before = self.candidates[row]
            self.row[before[self.row[before] == row]] = NO_ROW
            self.generation[row] = self._generation
            self._pools[row], self.candidates[row] = self._reached(row, fresh)
        if fresh:
            self._extend()
        for row in rows:
            for pool in self._pools[row]:
                self._rows_of_pool.setdefault(pool.id, set()).add(row)
            for view in (view for pool in self._pools[row] for view in pool.slices):
                if view.slice.spec.node_name is not None and view.first >= 0:
                    self.row[view.first : view.first + len(view.devices)] = row

    def _reached(self, row: int, fresh: list[SliceView]) -> tuple[NodePools, NDArray[np.intp]]:
        """Return the pools of a row, and the numbers of the devices that may be tried there.

        ``fresh`` takes the slices that got numbers.
        """
        self.searched[row] = self.invalid[row] = self.partial[row] = False
        node = self._nodes_seen[row]
        if node is None:
            return NodePools(), _NONE
        view = NodeView(node.metadata.name, node.metadata.labels)
        try:
            pools = self._slices.gather(view)
        except PoolError:
            self.searched[row] = True
            return NodePools(), _NONE
        parts = []
        for pool in pools:
            self.invalid[row] |= bool(pool.invalid)
            if pool.incomplete or pool.invalid:
                continue
            for slice_view in pool.slices:
                if not slice_view.devices:
                    continue
                if slice_view.first < 0:
                    self._number(slice_view)
                    fresh.append(slice_view)
                part = np.arange(
                    slice_view.first, slice_view.first + len(slice_view.devices), dtype=np.intp
                )
                if slice_view.slice.spec.per_device_node_selection:
                    self.partial[row] = True
                    try:
                        part = part[[device.on_node(view) for device in slice_view.devices]]
                    except ValueError:
                        self.searched[row] = True
                parts.append(part)
        if len(parts) < 2:
            return pools, parts[0] if parts else _NONE
        return pools, np.concatenate(parts)

    # Devices.

    def _number(self, whole: SliceView) -> None:
        whole.first = len(self.views)
        for number, device in enumerate(whole.devices, start=whole.first):
            device.number = number
            same = self._numbers.get(device.id, ())
            self._numbers[device.id] = (*same, number)
        self.views += whole.devices

    def _extend(self) -> None:
        """Fill the columns of devices that are new."""
        new = self.views[len(self.free) :]
        allocated = self._allocated
        free = [view.id not in allocated.devices for view in new]
        blocked = [bool(view.blocking) for view in new]
        counting = [bool(view.consumed_counters) for view in new]
        self.free = np.concatenate((self.free, np.array(free, np.bool_)))
        self.blocked = np.concatenate((self.blocked, np.array(blocked, np.bool_)))
        self.counting = np.concatenate((self.counting, np.array(counting, np.bool_)))
        self.row = np.concatenate((self.row, np.full(len(new), NO_ROW, np.intp)))

    def _take_over(self, devices: Iterable[DeviceId]) -> None:
        """Read anew what claims take of devices."""
        self._generation += 1
        allocated = self._allocated
        for device in devices:
            for number in self._numbers.get(device, ()):
                self.free[number] = device not in allocated.devices
                if self.views[number].capacity:
                    self.capacities.append(number, DYNAMIC)
            rows = self._rows_of_pool.get((device.driver, device.pool))
            if rows:
                self.generation[list(rows)] = self._generation

    # What rows reach.

    def pools(self, row: int) -> NodePools:
        """Return the pools that a row reaches; none where ``searched`` says so."""
        return self._pools[row]

    def offered(self, row: int) -> list[tuple[DeviceView, Pool]]:
        """Return a row's candidates with their pools."""
        pools = self._pools[row]
        if not self.partial[row]:
            return pools.usable
        views = [self.views[number] for number in self.candidates[row].tolist()]
        return [(view, pools.of(view)) for view in views]

    def rows_of(self, pool: PoolId) -> Collection[int]:
        """Return the rows that reach a pool."""
        return self._rows_of_pool.get(pool, ())

    def count(self, devices: NDArray[np.bool_], rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return how many of the devices (by number) rows may try."""
        if self._flat is None:
            lengths = [part.size for part in self.candidates]
            ends = np.concatenate((_ZERO, np.cumsum(lengths, dtype=np.intp)))
            self._flat = np.concatenate(self.candidates), ends
        numbers, ends = self._flat
        sums = np.concatenate((_ZERO, np.cumsum(devices[numbers], dtype=np.intp)))
        counts: NDArray[np.intp] = (sums[ends[1:]] - sums[ends[:-1]])[rows]
        return counts


_ZERO: Final = np.zeros(1, np.intp)


class NodeDevice(msgspec.Struct, frozen=True):
    """A device that a node reaches, in a pool that is whole; ``use`` is what of it is in use."""

    view: DeviceView
    pool: Pool
    use: Hashable
    facts: DeviceFacts


class NodeDevices:
    """The devices of each row's node, in the order in which they are tried."""

    def __init__(self, table: DeviceTable, state: AllocatedState) -> None:
        self._table = table
        self._state = state
        self._by_row: dict[int, tuple[int, tuple[NodeDevice, ...]]] = {}

    def on(self, row: int) -> tuple[NodeDevice, ...]:
        """Return the devices of a row's node; none where its pools cannot be gathered."""
        table = self._table
        table.sync()
        entry = self._by_row.get(row)
        generation = int(table.generation[row])
        if entry is not None and entry[0] == generation:
            return entry[1]
        pools = table.pools(row)
        views = [table.views[number] for number in table.candidates[row].tolist()]
        before = () if entry is None else entry[1]
        devices = _devices([(view, pools.of(view)) for view in views], self._state, before)
        self._by_row[row] = generation, devices
        return devices


def _devices(
    candidates: Sequence[tuple[DeviceView, Pool]],
    state: AllocatedState,
    before: Sequence[NodeDevice],
) -> tuple[NodeDevice, ...]:
    """Return devices; the facts of one that is as it was ``before`` are taken over."""
    by_view = {id(device.view): device for device in before}
    devices: list[NodeDevice] = []
    for index, (view, pool) in enumerate(candidates):
        old = by_view.get(id(view))
        whole, shares = view.id in state.devices, state.shared.get(view.id, 0)
        used = state.consumed.get(view.id, {})
        use = (index, whole, shares, tuple(sorted(used.items())))
        if old is not None and old.view is view and old.use == use:
            facts = old.facts
        else:
            facts = _facts(view, index, whole=whole, shares=shares, used=used)
        devices.append(NodeDevice(view, pool, use, facts))
    return tuple(devices)


def _facts(
    view: DeviceView, index: int, *, whole: bool, shares: int, used: Mapping[str, int]
) -> DeviceFacts:
    driver = view.id.driver
    capacity = {name: _nanos(amount.value) for name, amount in view.capacity.items()}
    consumed = capacity if whole else used
    return DeviceFacts(
        driver=driver,
        pool=view.id.pool,
        name=view.id.device,
        index=index,
        attributes=QualifiedNames(driver, _attributes(view.device.attributes)),
        capacity=QualifiedNames(driver, _rounded_up(capacity)),
        free=QualifiedNames(
            driver,
            {
                name: _down(name, amount - consumed.get(name, 0))
                for name, amount in capacity.items()
            },
        ),
        consumed=QualifiedNames(driver, _rounded_up(consumed)),
        allow_multiple_allocations=view.shareable,
        allocated=whole or bool(shares) or bool(used),
        shares=shares,
        taints=view.device.taints,
    )


def _nanos(amount: Amount) -> int:
    """Return an amount in nano-units, 0 for one that is no quantity."""
    try:
        return nanos(amount)
    except ValueError:
        return 0


def _rounded_up(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: units_of_nanos(name, amount) for name, amount in amounts.items()}


def _down(name: str, amount: int) -> int:
    """Return what is left in scheduler units: a part of one is none."""
    return amount // (MICRO if name == "cpu" else NANO)


def _attributes(given: Mapping[str, DeviceAttribute]) -> dict[str, AttributeFacts]:
    return {
        name: AttributeFacts(
            value.string or "", value.int_value or 0, bool(value.bool_value), value.version or ""
        )
        for name, value in given.items()
    }
