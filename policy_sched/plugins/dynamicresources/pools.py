"""Pools: which devices of the cluster a node reaches, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from policy_sched.model import ResourceSlice, nanos
from policy_sched.plugins.dynamicresources.devices import (
    DeviceId,
    DeviceView,
    NodeView,
    parsed,
    selects,
)

PoolId = tuple[str, str]
"""Driver and name of a pool."""


class PoolError(Exception):
    """The pools of a node cannot be told."""


@dataclass(slots=True)
class Pool:
    """A pool as one node sees it.

    ``elsewhere``: slices of the pool that the node does not reach, where those are known.
    ``invalid`` says why no device of the pool may be taken.
    """

    id: PoolId
    slices: list[SliceView] = field(default_factory=list)
    elsewhere: list[SliceView] = field(default_factory=list)
    incomplete: bool = False
    invalid: str = ""
    _counters: dict[str, dict[str, int]] | None = None

    def __str__(self) -> str:
        return "/".join(self.id)

    def devices(self) -> Iterator[DeviceView]:
        """Yield the devices that the node may reach."""
        for one in self.slices:
            yield from one.devices

    def everywhere(self) -> Iterator[DeviceView]:
        """Yield all devices of the pool that are known."""
        yield from self.devices()
        for one in self.elsewhere:
            yield from one.devices

    def counters(self) -> dict[str, dict[str, int]]:
        """Return the amounts of the shared counters, by set and name."""
        if self._counters is None:
            self._counters = {
                one.name: {name: nanos(c.value) for name, c in one.counters.items()}
                for view in (*self.slices, *self.elsewhere)
                for one in view.slice.spec.shared_counters
            }
        return self._counters


@dataclass(slots=True)
class SliceView:
    """A slice and its devices."""

    slice: ResourceSlice
    devices: tuple[DeviceView, ...]

    @property
    def pool(self) -> PoolId:
        """The pool's driver and name."""
        return self.slice.spec.driver, self.slice.spec.pool.name

    def reached_from(self, node: NodeView) -> bool:
        """Tell whether a slice that names no node matters for one. Raises ValueError."""
        spec = self.slice.spec
        if spec.all_nodes:
            return True
        if spec.node_selector is not None:
            return selects(spec.node_selector, node)
        return spec.per_device_node_selection and any(one.on_node(node) for one in self.devices)


class NodePools(list[Pool]):
    """The pools that a node reaches, in order."""

    _usable: list[tuple[DeviceView, Pool]] | None = None

    @property
    def usable(self) -> list[tuple[DeviceView, Pool]]:
        """The devices of the pools that are whole, in the order in which they are tried."""
        if self._usable is None:
            self._usable = [
                (device, pool)
                for pool in self
                if not pool.incomplete and not pool.invalid
                for device in pool.devices()
            ]
        return self._usable


class SliceIndex:
    """All slices by what reaches them, and the pools of each node.

    Counters matter for every node, but a pool of which a node reaches nothing else has no device
    there: only if it is incomplete or invalid does it matter, and then for all such nodes alike.
    """

    def __init__(self, slices: Sequence[ResourceSlice], before: SliceIndex | None = None) -> None:
        """``before``: an older index, whose slices need not be parsed again."""
        known = {} if before is None else before.views
        self.views: dict[int, SliceView] = {}
        self.pools: dict[PoolId, list[SliceView]] = {}
        self._on: dict[str, list[SliceView]] = {}
        self._shared: list[SliceView] = []
        self._counters: dict[PoolId, list[SliceView]] = {}
        self._gathered: dict[str, tuple[Mapping[str, str], NodePools]] = {}
        for one in slices:
            view = known.get(id(one))
            if view is None or view.slice is not one:
                view = SliceView(one, parsed(one))
            self.views[id(one)] = view
            spec = one.spec
            if spec.shared_counters:
                self._counters.setdefault(view.pool, []).append(view)
            elif spec.node_name is not None:
                self._on.setdefault(spec.node_name, []).append(view)
            else:
                self._shared.append(view)
            self.pools.setdefault(view.pool, []).append(view)
        self._flagged = self._counters_alone()

    def _counters_alone(self) -> dict[PoolId, Pool]:
        """Return the pools that are not whole for nodes that reach only their counters."""
        found = {}
        for pool_id, views in self._counters.items():
            pool = self._pool(pool_id, views)
            if pool is not None and (pool.incomplete or pool.invalid):
                found[pool_id] = pool
        return found

    def reached(self, node: NodeView) -> Iterator[DeviceView]:
        """Yield the devices of all slices that a node reaches, whatever their generation."""
        for view in (*self._on.get(node.name, ()), *self._shared):
            spec = view.slice.spec
            try:
                if spec.node_name is not None or view.reached_from(node):
                    for device in view.devices:
                        if not spec.per_device_node_selection or device.on_node(node):
                            yield device
            except ValueError:
                continue  # a node selector that cannot be read takes no node

    def gather(self, node: NodeView) -> NodePools:
        """Return the pools that a node reaches, in order. Raises PoolError."""
        known = self._gathered.get(node.name)
        if known is not None and known[0] is node.labels:
            return known[1]
        found = self._gather(node)
        self._gathered[node.name] = node.labels, found
        return found

    def _gather(self, node: NodeView) -> NodePools:
        pools: dict[PoolId, list[SliceView]] = {}
        for view in self._on.get(node.name, ()):
            pools.setdefault(view.pool, []).append(view)
        for view in self._shared:
            try:
                if view.reached_from(node):
                    pools.setdefault(view.pool, []).append(view)
            except ValueError as error:
                name = view.slice.metadata.name
                raise PoolError(
                    f"failed to perform node selection for slice {name}: "
                    f"failed to parse node selector: {error}"
                ) from None
        found = NodePools(p for pool_id, p in self._flagged.items() if pool_id not in pools)
        for pool_id, views in pools.items():
            pool = self._pool(pool_id, [*views, *self._counters.get(pool_id, ())])
            if pool is not None:
                found.append(pool)
        found.sort(key=_order)
        return found

    def _pool(self, pool_id: PoolId, views: list[SliceView]) -> Pool | None:
        newest = max(view.slice.spec.pool.generation for view in views)
        slices = [view for view in views if view.slice.spec.pool.generation == newest]
        want = slices[0].slice.spec.pool.resource_slice_count
        slices.sort(key=lambda view: view.slice.metadata.name)
        pool = Pool(pool_id, slices)
        if len(slices) != want:
            everywhere = self.pools[pool_id]
            if any(view.slice.spec.pool.generation > newest for view in everywhere):
                return None
            same = [view for view in everywhere if view.slice.spec.pool.generation == newest]
            if len(same) != want:
                pool.incomplete = True
                return pool
            reached = {id(view) for view in slices}
            pool.elsewhere = [view for view in same if id(view) not in reached]
        pool.invalid = _invalid(pool)
        return pool

    def only_node(self, pool_id: PoolId) -> str | None:
        """Return the only node that reaches devices of a pool; None if there may be several."""
        nodes = {view.slice.spec.node_name for view in self.pools.get(pool_id, ()) if view.devices}
        return nodes.pop() if len(nodes) == 1 else None


def _order(pool: Pool) -> tuple[bool, bytes, bytes]:
    waits = any(one.device.binding_conditions for one in pool.devices())
    return waits, pool.id[0].encode(), pool.id[1].encode()


def _invalid(pool: Pool) -> str:
    """Return why a pool cannot be used, "" if it can."""
    names: set[str] = set()
    for one in pool.devices():
        if one.id.device in names:
            return f"duplicate device name {one.id.device}"
        names.add(one.id.device)
    sets: set[str] = set()
    for view in (*pool.slices, *pool.elsewhere):
        for counters in view.slice.spec.shared_counters:
            if counters.name in sets:
                return f"duplicate counter set name {counters.name}"
            sets.add(counters.name)
    known = pool.counters()
    for one in pool.everywhere():
        for consumed in one.device.consumes_counters:
            if consumed.counter_set not in known:
                return f"counter set {consumed.counter_set} not found"
            for name in consumed.counters:
                if name not in known[consumed.counter_set]:
                    return f"counter {name} not found in counter set {consumed.counter_set}"
    return ""


@dataclass(slots=True)
class AllocatedState:
    """Devices that are in use.

    ``devices`` are taken as a whole; ``shared`` counts the shares of devices that may have
    several; ``consumed`` are the amounts taken of their capacities, in nano-units.
    """

    devices: Container[DeviceId] = frozenset()
    shared: Mapping[DeviceId, int] = field(default_factory=dict)
    consumed: Mapping[DeviceId, Mapping[str, int]] = field(default_factory=dict)

    def uses(self, device: DeviceId) -> bool:
        """Tell whether a device is in use in any way."""
        return device in self.devices or bool(self.shared.get(device)) or device in self.consumed
