"""The devices of nodes as rules see them; facts stay the same object until their device changes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import msgspec

from policy_sched.language.values import AttributeFacts, DeviceFacts, QualifiedNames
from policy_sched.model import MICRO, NANO, Amount, DeviceAttribute, nanos, units_of_nanos
from policy_sched.plugins.dynamicresources.device_table import DeviceTable
from policy_sched.plugins.dynamicresources.devices import DeviceView
from policy_sched.plugins.dynamicresources.pools import AllocatedState, Pool


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
        self._epoch = -1
        self._found: dict[int, tuple[int, tuple[NodeDevice, ...]]] = {}

    def on(self, row: int) -> tuple[NodeDevice, ...]:
        """Return the devices of a row's node; none where its pools cannot be gathered."""
        table = self._table
        table.sync()
        if self._epoch != table.epoch:
            self._epoch = table.epoch
            self._found.clear()
        known = self._found.get(row)
        generation = int(table.generation[row])
        if known is not None and known[0] == generation:
            return known[1]
        pools = table.pools(row)
        views = [table.views[number] for number in table.candidates[row].tolist()]
        before = () if known is None else known[1]
        found = _devices([(view, pools.of(view)) for view in views], self._state, before)
        self._found[row] = generation, found
        return found


def _devices(
    candidates: Sequence[tuple[DeviceView, Pool]],
    state: AllocatedState,
    before: Sequence[NodeDevice],
) -> tuple[NodeDevice, ...]:
    """Return devices; the facts of one that is as it was ``before`` are taken over."""
    known = {id(one.view): one for one in before}
    found: list[NodeDevice] = []
    for index, (view, pool) in enumerate(candidates):
        old = known.get(id(view))
        whole, shares = view.id in state.devices, state.shared.get(view.id, 0)
        used = state.consumed.get(view.id, {})
        use = (index, whole, shares, tuple(sorted(used.items())))
        if old is not None and old.view is view and old.use == use:
            facts = old.facts
        else:
            facts = _facts(view, index, whole=whole, shares=shares, used=used)
        found.append(NodeDevice(view, pool, use, facts))
    return tuple(found)


def _facts(
    view: DeviceView, index: int, *, whole: bool, shares: int, used: Mapping[str, int]
) -> DeviceFacts:
    driver = view.id.driver
    capacity = {name: _nanos(one.value) for name, one in view.capacity.items()}
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
            {name: _down(name, one - consumed.get(name, 0)) for name, one in capacity.items()},
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
            one.string or "", one.int_value or 0, bool(one.bool_value), one.version or ""
        )
        for name, one in given.items()
    }
