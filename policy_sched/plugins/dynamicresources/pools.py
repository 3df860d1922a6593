"""Pools: which devices of the cluster a node reaches, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

import msgspec

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
CounterId = tuple[str, str]
"""Set and name of a shared counter."""


class PoolError(Exception):
    """The pools of a node cannot be gathered."""


class Pool(msgspec.Struct):
    """A pool as one node sees it."""

    id: PoolId
    slices: list[SliceView] = msgspec.field(default_factory=list)
    elsewhere: list[SliceView] = msgspec.field(default_factory=list)
    """Slices of the pool that the node does not reach, where those are known."""
    incomplete: bool = False
    invalid: str = ""
    """Why no device of the pool may be taken, "" if they may."""
    _counters: dict[str, dict[str, int]] | None = None
    _limits: dict[CounterId, int] | None = None
    _consumers: list[DeviceView] | None = None

    def __str__(self) -> str:
        return "/".join(self.id)

    def devices(self) -> Iterator[DeviceView]:
        """Yield the devices that the node may reach."""
        for slice_view in self.slices:
            yield from slice_view.devices

    def everywhere(self) -> Iterator[DeviceView]:
        """Yield all devices of the pool that are known."""
        yield from self.devices()
        for slice_view in self.elsewhere:
            yield from slice_view.devices

    def counters(self) -> dict[str, dict[str, int]]:
        """Return the amounts of the shared counters, by set and name."""
        if self._counters is None:
            self._counters = {
                counter_set.name: {name: nanos(c.value) for name, c in counter_set.counters.items()}
                for view in (*self.slices, *self.elsewhere)
                for counter_set in view.slice.spec.shared_counters
            }
        return self._counters

    def counters_left(self, state: AllocatedState) -> dict[CounterId, int]:
        """Return what devices in use leave of the shared counters."""
        if self._limits is None or self._consumers is None:
            self._limits = {
                (counters, name): amount
                for counters, amounts in self.counters().items()
                for name, amount in amounts.items()
            }
            self._consumers = [
                consumer for consumer in self.everywhere() if consumer.consumed_counters
            ]
        left = self._limits.copy()
        whole, shared, consumed = state.devices, state.shared, state.consumed
        for device in self._consumers:
            device_id = device.id
            if device_id in whole or shared.get(device_id) or device_id in consumed:
                for counters, name, amount in device.consumed_counters:
                    if (counters, name) in left:
                        left[counters, name] -= amount
        return left


class SliceView(msgspec.Struct):
    """A slice and its devices."""

    slice: ResourceSlice
    devices: tuple[DeviceView, ...]
    first: int = -1
    """The number of the first device in the `DeviceTable`; the others follow."""

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
        return spec.per_device_node_selection and any(
            device.on_node(node) for device in self.devices
        )


class NodePools(list[Pool]):
    """The pools that a node reaches, in order."""

    _usable: list[tuple[DeviceView, Pool]] | None = None
    _by_id: dict[PoolId, Pool] | None = None

    def of(self, device: DeviceView) -> Pool:
        """Return the pool of a device."""
        if self._by_id is None:
            self._by_id = {pool.id: pool for pool in self}
        return self._by_id[device.id.driver, device.id.pool]

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

    def __init__(self, slices: Iterable[ResourceSlice]) -> None:
        self.views: dict[int, SliceView] = {}
        self.pools: dict[PoolId, list[SliceView]] = {}
        self._on: dict[str, list[SliceView]] = {}
        self._shared: list[SliceView] = []
        self._counters: dict[PoolId, list[SliceView]] = {}
        self._gathered: dict[str, tuple[Mapping[str, str], NodePools, tuple[PoolId, ...]]] = {}
        """By name of a node, its labels, the pools that it reaches, and where it has slices."""
        self._nodes_of: dict[PoolId, set[str]] = {}
        """By pool, the nodes in `_gathered` that have slices of it."""
        self._only_node: dict[PoolId, str | None] = {}
        for resource_slice in slices:
            self._add(SliceView(resource_slice, parsed(resource_slice)), None)
        self._flagged: dict[PoolId, Pool] = {}
        for pool_id in self._counters:
            self._flag(pool_id)

    def change(
        self, old: ResourceSlice | None, new: ResourceSlice | None
    ) -> tuple[set[str] | None, SliceView | None]:
        """Replace a slice by its newer form; None where there was, or is, none.

        Returns the names of the nodes whose pools may have changed, None for all, and the view of
        the old slice.
        """
        before = None if old is None else self.views.pop(id(old), None)
        after = None if new is None else SliceView(new, parsed(new))
        if after is not None:
            self._add(after, before)
        if before is not None:
            self._remove(before)
        self._only_node.clear()
        views = [view for view in (before, after) if view is not None]
        flags = [self._flag(pool_id) for pool_id in {view.pool for view in views}]
        if any(flags) or any(map(_is_wide, views)):
            self._gathered.clear()
            self._nodes_of.clear()
            return None, before
        names = {view.slice.spec.node_name or "" for view in views}
        names.update(*(self._nodes_of.get(view.pool, ()) for view in views))
        self.forget_nodes(names)
        return names, before

    def forget_nodes(self, names: Iterable[str]) -> None:
        """Forget which pools nodes reach: something has changed, or they are gone."""
        for name in names:
            entry = self._gathered.pop(name, None)
            for pool_id in () if entry is None else entry[2]:
                nodes = self._nodes_of[pool_id]
                nodes.discard(name)
                if not nodes:
                    del self._nodes_of[pool_id]

    def known_nodes(self) -> list[str]:
        """Return the nodes of which it is known which pools they reach."""
        return list(self._gathered)

    def _places(self, view: SliceView) -> list[list[SliceView]]:
        """Return the lists that a slice belongs to."""
        spec = view.slice.spec
        if spec.shared_counters:
            reached = self._counters.setdefault(view.pool, [])
        elif spec.node_name is not None:
            reached = self._on.setdefault(spec.node_name, [])
        else:
            reached = self._shared
        return [reached, self.pools.setdefault(view.pool, [])]

    def _add(self, view: SliceView, before: SliceView | None) -> None:
        """Add a slice, in the place of its older form where both belong to one list."""
        self.views[id(view.slice)] = view
        for views in self._places(view):
            present = before is not None and any(other is before for other in views)
            at = [other is before for other in views].index(True) if present else len(views)
            views.insert(at, view)

    def _remove(self, view: SliceView) -> None:
        for views in self._places(view):
            views[:] = [other for other in views if other is not view]
        for views_by_pool in (self.pools, self._counters):
            if not views_by_pool.get(view.pool, [view]):
                del views_by_pool[view.pool]
        node = view.slice.spec.node_name
        if node is not None and not self._on.get(node, [view]):
            del self._on[node]

    def _flag(self, pool_id: PoolId) -> bool:
        """Note a pool that is not whole for nodes that reach only its counters.

        Returns whether it is one, or was.
        """
        was = self._flagged.pop(pool_id, None)
        views = self._counters.get(pool_id)
        pool = self._pool(pool_id, views) if views else None
        if pool is None or not (pool.incomplete or pool.invalid):
            return was is not None
        self._flagged[pool_id] = pool
        return True

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
        entry = self._gathered.get(node.name)
        if entry is not None and entry[0] is node.labels:
            return entry[1]
        self.forget_nodes((node.name,))
        return self._gather(node)

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
        gathered = NodePools(p for pool_id, p in self._flagged.items() if pool_id not in pools)
        for pool_id, views in pools.items():
            pool = self._pool(pool_id, [*views, *self._counters.get(pool_id, ())])
            if pool is not None:
                gathered.append(pool)
        gathered.sort(key=_order)
        self._gathered[node.name] = node.labels, gathered, tuple(pools)
        for pool_id in pools:
            self._nodes_of.setdefault(pool_id, set()).add(node.name)
        return gathered

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
        if pool_id not in self._only_node:
            views = self.pools.get(pool_id, ())
            nodes = {view.slice.spec.node_name for view in views if view.devices}
            self._only_node[pool_id] = nodes.pop() if len(nodes) == 1 else None
        return self._only_node[pool_id]


def _is_wide(view: SliceView) -> bool:
    """Tell whether a slice may matter for nodes that do not know its pool yet."""
    spec = view.slice.spec
    return spec.node_name is None and not spec.shared_counters


def _order(pool: Pool) -> tuple[bool, bytes, bytes]:
    waits = any(device.device.binding_conditions for device in pool.devices())
    return waits, pool.id[0].encode(), pool.id[1].encode()


def _invalid(pool: Pool) -> str:
    """Return why a pool cannot be used, "" if it can."""
    names: set[str] = set()
    for device in pool.devices():
        if device.id.device in names:
            return f"duplicate device name {device.id.device}"
        names.add(device.id.device)
    sets: set[str] = set()
    for view in (*pool.slices, *pool.elsewhere):
        for counters in view.slice.spec.shared_counters:
            if counters.name in sets:
                return f"duplicate counter set name {counters.name}"
            sets.add(counters.name)
    counter_sets = pool.counters()
    for device in pool.everywhere():
        for consumed in device.device.consumes_counters:
            if consumed.counter_set not in counter_sets:
                return f"counter set {consumed.counter_set} not found"
            for name in consumed.counters:
                if name not in counter_sets[consumed.counter_set]:
                    return f"counter {name} not found in counter set {consumed.counter_set}"
    return ""


class AllocatedState(msgspec.Struct):
    """Devices that are in use."""

    devices: Container[DeviceId] = frozenset()
    """Those that are taken as a whole."""
    shared: Mapping[DeviceId, int] = msgspec.field(default_factory=dict)
    """How many shares of a device are taken, where it may have several."""
    consumed: Mapping[DeviceId, Mapping[str, int]] = msgspec.field(default_factory=dict)
    """What is taken of the capacities of such devices, in nano-units."""

    def uses(self, device: DeviceId) -> bool:
        """Tell whether a device is in use in any way."""
        return device in self.devices or bool(self.shared.get(device)) or device in self.consumed
