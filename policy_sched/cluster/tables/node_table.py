"""The nodes of the cluster as columns: one row per node, one array per thing that is known of it.

Theory of operation: a live node has a row below ``n`` that stays its own while the node lives;
the row of a removed node is zeroed, freed and given to a later node. A column is created when its
key is first read, filled from the current nodes and pods, and updated from then on; only four exist
from the start (name, podCount, usedPorts, live). Static columns change with the node object and
raise their ``version``; dynamic ones change with pods. Every change of a row is appended to
``journal``, once per event.

Pods of an unknown node (not yet added, or removed) are in ``pods_without_node`` under its name.
They are not counted, and move to the row when the node is added: pods and nodes are watched
separately.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

from policy_sched.cluster.tables import schema
from policy_sched.cluster.tables.aggregates import Aggregates
from policy_sched.cluster.tables.column import FIRST_CAPACITY, NO_VERSION, Column, Eviction, sum_of
from policy_sched.cluster.tables.image_states import Images
from policy_sched.cluster.tables.inputs import NO_OBJECTS, InputTable
from policy_sched.cluster.tables.interning import Sets, Strings
from policy_sched.cluster.tables.journal import DYNAMIC, STATIC, STRUCTURE, Journal
from policy_sched.cluster.tables.node_readers import Reader, reader, visible
from policy_sched.cluster.tables.quotas import Quotas
from policy_sched.cluster.tables.requested import Usage
from policy_sched.model import HostPort, Namespace, Node, PodInfo, Taint

_ALWAYS: Final = frozenset({"live", "podCount", "usedPorts", "name", "taints"})
"""Families of columns that are never evicted."""
MANY_NAMED: Final = 4096
"""Number of keys of labels and the like from which on a table looks for those that no node has."""
DEVICE_FAMILIES: Final = ("deviceAllocatable", "deviceRequested")
"""Families of columns that change with resource slices, device classes and resource claims."""
IMAGE_FAMILIES: Final = ("imagePresent", "imageSize")
"""Families of columns over the nodes that have an image."""


class Devices:
    """The devices that nodes reach, as of resource slices and claims; here there are none."""

    resources: Collection[str] = ()
    """Extended resources that device classes serve: a node needs none of its own then."""

    def amount(self, family: str, resource: str, node: Node) -> int:
        """Return what a column of DEVICE_FAMILIES has of an extended resource on a node."""
        del family, resource, node
        return 0

    def facts_of(self, node: Node) -> Sequence[Any]:
        """Return the devices of a node as rules see them."""
        del node
        return ()


class NodeTable:
    """Columns over the rows ``[0, n)``; rows that are not ``live`` hold zeros.

    ``names[row]`` and ``nodes[row]`` are "" and None on a dead row; ``row_of`` has live nodes
    only. Change it through the Cache.
    """

    def __init__(self, strings: Strings | None = None) -> None:
        self.strings = Strings() if strings is None else strings
        self.journal = Journal()
        self.statuses_read = False
        """Whether a count that follows the journal reads what `exchange_pod` may change."""
        self.taint_sets: Sets[Taint] = Sets()
        self.port_sets: Sets[HostPort] = Sets()
        self.namespaces: dict[str, Namespace] = {}
        self.names: list[str] = []
        self.nodes: list[Node | None] = []
        self.row_of: dict[str, int] = {}
        self.pods_without_node: dict[str, dict[str, PodInfo]] = {}
        self.devices = Devices()
        """The devices of the cluster; the plugin that allocates them puts its own in place."""
        self.inputs: dict[str, InputTable] = {}
        """The inputs of policies, by identity; `Inputs` changes them."""
        self.aggregates = Aggregates(self)
        """What policies count of pods by key; the cache tells it of pods."""
        self.quotas: WeakValueDictionary[str, Quotas] = WeakValueDictionary()
        """The quotas of policies in use, by identity."""
        self.quota_problem: Callable[[str, str, str], None] = lambda _input, _key, _why: None
        """Told of an object of an input, by key, that is no node of the tree it says; "": it is."""
        self._pods: list[dict[str, PodInfo]] = []
        self.pods_on: Callable[[int], Mapping[str, PodInfo]] = self._pods.__getitem__
        """Returns the pods on a row by uid, in order of arrival; the mapping stays current."""
        self._capacity = FIRST_CAPACITY
        self._free: list[int] = []
        self._columns: dict[schema.Key, Column] = {}
        self._named: dict[str, set[str]] = {
            family: set() for family in ("label", "annotation", "allocatable", "capacity")
        }
        """By family of columns, what nodes have, or had when it was last counted."""
        self.many_named = self._named_due = MANY_NAMED
        self._zeros: dict[str, Column] = {}
        self.eviction = Eviction()
        self._readers: list[tuple[Column, Reader]] = []
        self._image_columns: list[tuple[Column, str]] = []
        self.images = Images()
        self._totals: dict[schema.Key, tuple[int, int]] = {}
        """Sums of columns, each with the version of the journal that it holds for."""
        self.live = self._new_column(("live",))
        pod_count, ports = self._new_column(("podCount",)), self._new_column(("usedPorts",))
        self.usage = Usage(pod_count, ports, self.port_sets)
        self.column(("name",))

    # What the table says.

    @property
    def table(self) -> NodeTable:
        """The table itself; see `NodeView`."""
        return self

    @property
    def n(self) -> int:
        """High-water mark: every row that ever had a node is below it; never falls."""
        return len(self.names)

    @property
    def live_count(self) -> int:
        """How many nodes there are."""
        return len(self.row_of)

    def column(self, key: schema.Key) -> Column:
        """Return a column to be held: it is kept up to date for good. See `lookup`."""
        column = self._columns.get(key) or self._materialise(key)
        column.held = True
        return column

    def lookup(self, key: schema.Key) -> Column:
        """Return a column to be used now, created and filled on first use.

        It is given up when it is not looked up for long. ``requested`` and ``free`` of a resource
        bring each other and ``allocatable`` along. The columns of a family that name what neither a
        node nor a pod on one has are the same column of zeros. Raises KeyError if no family of
        columns.NODE_COLUMNS allows the key.
        """
        column = self._columns.get(key)
        if column is None:
            return self._absent(key) if self._is_absent(key) else self._materialise(key)
        column.referenced = True
        return column

    @property
    def materialised(self) -> Mapping[schema.Key, Column]:
        """The columns that are there, by key."""
        return self._columns

    def differences(self) -> Iterator[tuple[int, PodInfo, int]]:
        """Yield nothing: no pod is added to the table or missing; see `NodeView`."""
        return iter(())

    def image_nodes(self, name: str) -> int:
        """Return how many nodes have an image; a change of it is a STRUCTURE change from now on."""
        return self.images.node_count(name)

    def total_allocatable(self, resource: str) -> int:
        """Return the sum of a resource's allocatable over all nodes."""
        return self._total(("allocatable", resource))

    def total_requested(self, resource: str) -> int:
        """Return the sum of a resource's requests over the pods on all nodes."""
        return self._total(("requested", resource))

    @property
    def pod_total(self) -> int:
        """The number of pods on all known nodes, including assumed ones."""
        return self._total(("podCount",))

    def _total(self, key: schema.Key) -> int:
        journal = self.journal
        version = journal.static_version if key[0] == "allocatable" else journal.version
        known = self._totals.get(key)
        if known is None or known[0] != version:
            known = self._totals[key] = version, sum_of(self.lookup(key).values)
        return known[1]

    # Nodes come, change and go.

    def add_node(self, node: Node) -> int:
        """Add a row for a node, with the pods that wait for it, and return the row."""
        name = node.metadata.name
        pods = self.pods_without_node.pop(name, {})
        if self._free:
            row = self._free.pop()
            self.names[row], self.nodes[row], self._pods[row] = name, node, pods
        else:
            row = len(self.names)
            if row == self._capacity:
                self._grow()
            self.names.append(name)
            self.nodes.append(node)
            self._pods.append(pods)
        self.row_of[name] = row
        self.live.put(row, True)
        self.images.add(row, node)
        self._write_static(row, node)
        self.usage.refill(row, pods.values())
        self.journal.append(row, STRUCTURE)
        return row

    def update_node(self, row: int, node: Node) -> None:
        """Replace the node of a row; a change that no decision can see is not noted."""
        old = self.nodes[row]
        assert old is not None, "only live rows are updated"
        self.nodes[row] = node
        same = old is node or visible(old) == visible(node)
        if same and not self.images.outdated(row, node):
            return
        shared = self.images.replace(row, old, node)
        self._write_static(row, node)
        kind = STATIC | (DYNAMIC if self.usage.refresh_free(row) else 0)
        self.journal.append(row, kind | STRUCTURE if shared else kind)

    def remove_node(self, row: int) -> dict[str, PodInfo]:
        """Free a row and return its pods, which are in `pods_without_node` now."""
        node, name, pods = self.nodes[row], self.names[row], self._pods[row]
        assert node is not None, "only live rows are removed"
        self.images.remove(row, node)
        for column in self._columns.values():
            if column.static:
                column.put(row, 0)
            else:
                column.view[row] = 0
        self.usage.forget_row(row)
        del self.row_of[name]
        self.names[row], self.nodes[row], self._pods[row] = "", None, {}
        if pods:
            self.pods_without_node[name] = pods
        self._free.append(row)
        self.journal.append(row, STRUCTURE)
        return pods

    # Pods come, change and go. The hot path: see Usage.

    def add_pod(self, row: int, info: PodInfo) -> None:
        """Put a pod on a live row."""
        pods = self._pods[row]
        pods[info.uid] = info
        self.usage.count(row, info, 1)
        self.journal.append(row, DYNAMIC, len(pods))

    def replace_pod(self, row: int, old: PodInfo, info: PodInfo) -> None:
        """Put a newer form of a pod in its old one's place on a live row."""
        pods = self._pods[row]
        pods[info.uid] = info
        # For speed: most changes leave what a pod takes, and equal requests are mostly shared.
        if old.requests is not info.requests or old.host_ports != info.host_ports:
            self.usage.count(row, old, -1)
            self.usage.count(row, info, 1)
        self.journal.append(row, DYNAMIC, len(pods))

    def exchange_pod(self, row: int, info: PodInfo) -> None:
        """Put another object for the same pod in its place: only rules can tell them apart."""
        pods = self._pods[row]
        pods[info.uid] = info
        if self.statuses_read:
            self.journal.append(row, DYNAMIC, len(pods))

    def restart_pod(self, row: int, info: PodInfo) -> None:
        """Put a pod in its place that has a start time now, by which victims are chosen."""
        pods = self._pods[row]
        pods[info.uid] = info
        self.journal.append(row, DYNAMIC, len(pods))

    def remove_pod(self, row: int, info: PodInfo) -> None:
        """Take a pod off a live row."""
        pods = self._pods[row]
        del pods[info.uid]
        self.usage.count(row, info, -1)
        self.journal.append(row, DYNAMIC, len(pods))

    # Columns.

    def tidy(self) -> None:
        """Give up what no node has any more, if it is much; called between two decisions."""
        if sum(map(len, self._named.values())) >= self._named_due:
            self._count_named()
        if self.eviction.due(self._columns):
            self._evict()
        self.usage.tidy(pod for _, pods in self._live_pods() for pod in pods.values())
        self.port_sets.tidy(self.usage.used_ports.values)
        taints = self._columns.get(("taints",))
        if taints is not None:
            self.taint_sets.tidy(taints.values)

    def _evict(self) -> None:
        idle = self.eviction.idle(self._columns, _ALWAYS)
        self.usage.forget(idle)
        self._readers = [reader for reader in self._readers if reader[0].key not in idle]
        self._image_columns = [
            reader for reader in self._image_columns if reader[0].key not in idle
        ]
        for key in idle:
            del self._columns[key]
        self.usage.rewire()
        self.eviction.ended(self._columns)
        named = {name for _, name in self._image_columns}
        if self.images.forget(named):
            self.note_all()  # readers that relied on notifications recompute

    def _is_absent(self, key: schema.Key) -> bool:
        """Return whether a column would hold zeros, as no object has what it names."""
        family, argument = key[0], key[-1]
        if family in ("free", "requested", "nonZeroRequested"):
            counted = self.usage.counts(argument, non_zero=family == "nonZeroRequested")
            return not counted and argument not in self._named["allocatable"]
        if family in IMAGE_FAMILIES:
            return not self.images.rows(argument)
        named = self._named.get(family.removesuffix("?"))
        return named is not None and argument not in named

    def _absent(self, key: schema.Key) -> Column:
        """Return the column of zeros of a family: a pod may name thousands of absent keys."""
        if key[0] in IMAGE_FAMILIES:
            self.images.watch(key[1])
        column = self._zeros.get(key[0])
        if column is None:
            column = Column(key[:1], schema.family_of(key, schema.NODE_COLUMNS), self._capacity)
            column.version = NO_VERSION
            self._zeros[key[0]] = column
        return column

    def _new_column(self, key: schema.Key) -> Column:
        column = Column(key, schema.family_of(key, schema.NODE_COLUMNS), self._capacity)
        self._columns[key] = self.eviction.numbered(column)
        return column

    def _materialise(self, key: schema.Key) -> Column:
        family = schema.family_of(key, schema.NODE_COLUMNS)
        name, argument = key[0], key[-1]
        if name in ("requested", "free"):
            free, requested = (
                self._new_column(("free", argument)),
                self._new_column(("requested", argument)),
            )
            there = ("allocatable", argument)
            allocatable = self._columns.get(there) or self._materialise(there)
            allocatable.referenced = True
            columns = requested, free, allocatable
            self.usage.add_amounts(argument, columns, self._live_pods())
            return self._columns[key]
        if name == "nonZeroRequested":
            column = self._new_column(key)
            self.usage.add_non_zero(argument, column, self._live_pods())
            return column
        if family.argument == "image name":
            return self._new_image_column(key)
        if name == "input":
            read: Reader = partial(self._input_number, argument)
        elif name in DEVICE_FAMILIES:
            read = partial(self._device_amount, name, argument)  # of the devices then
        else:
            read = reader(key, self.strings, self.taint_sets)
        column = self._new_column(key)
        self._readers.append((column, read))
        for row in self.row_of.values():
            node = self.nodes[row]
            assert node is not None, "row_of has live rows only"
            column.view[row] = read(node)
        return column

    def _new_image_column(self, key: schema.Key) -> Column:
        column = self._new_column(key)
        self.images.watch(key[1])
        self._image_columns.append((column, key[1]))
        for row in self.images.rows(key[1]):
            column.view[row] = self._image_value(key, row)
        return column

    def _image_value(self, key: schema.Key, row: int) -> int:
        size = self.images.size_on(key[1], row)
        if key[0] == "imagePresent":
            return size is not None
        return 0 if size is None else min(max(size, 0), schema.MAX_IMAGE)

    def _device_amount(self, family: str, resource: str, node: Node) -> int:
        return self.devices.amount(family, resource, node)

    def refresh_devices(self, rows: Iterable[int] | None = None) -> None:
        """Read the columns of DEVICE_FAMILIES anew, on some rows or on all; nothing is noted."""
        readers = [reader for reader in self._readers if reader[0].key[0] in DEVICE_FAMILIES]
        if not readers:
            return
        for row in self.row_of.values() if rows is None else rows:
            node = self.nodes[row]
            assert node is not None, "only live rows have devices"
            for column, read in readers:
                column.put(row, read(node))

    def input_table(self, identity: str) -> InputTable:
        """Return the objects of an input; none where it is not declared."""
        return self.inputs.get(identity, NO_OBJECTS)

    def drop_input(self, identity: str) -> None:
        """Forget an input: where its column is read yet, no node has an object."""
        del self.inputs[identity]
        column = self._columns.get(("input", identity))
        if column is not None:
            column.values[:] = 0

    def _input_number(self, identity: str, node: Node) -> int:
        return self.input_table(identity).number(node.metadata.name)

    def input_changed(self, identity: str, key: str, *, everywhere: bool) -> None:
        """Note that a key of an input has another object, or none any more.

        ``everywhere``: rules read it otherwise than by the name of the node.
        """
        column, row = self._columns.get(("input", identity)), self.row_of.get(key)
        if column is not None and row is not None:
            column.view[row] = self.inputs[identity].number(key)
            self.journal.append(row, DYNAMIC)
        if everywhere:
            self.journal.changed_everything()
        if self.aggregates.used:
            self.aggregates.input_changed(identity, key)
        if self.quotas:  # for speed: a walk over none of them takes as long as all else here
            for quotas in [*self.quotas.values()]:
                quotas.object_changed(identity, key)

    def cached_object_changed(self, name: str) -> None:
        """Note that a node or namespace, which inputs and quotas may be made of, changed."""
        for objects in self.inputs.values():
            if type(objects.by_key) is not dict:  # the cache has these objects
                objects.changed(name)
        for quotas in [*self.quotas.values()]:
            quotas.cached_object_changed(name)

    def _name(self, node: Node) -> None:
        self._named["label"].update(node.metadata.labels)
        self._named["annotation"].update(node.metadata.annotations)
        self._named["allocatable"].update(node.status.allocatable)
        self._named["capacity"].update(node.status.capacity)

    def _count_named(self) -> None:
        for names in self._named.values():
            names.clear()
        for row in self.row_of.values():
            node = self.nodes[row]
            assert node is not None, "row_of has live rows only"
            self._name(node)
        self._named_due = max(self.many_named, 2 * sum(map(len, self._named.values())))
        self.note_all()

    def note_all(self) -> None:
        """Note a change that every row shares: readers that keep results compute them again."""
        if self.n:
            self.journal.append(0, STRUCTURE)

    def _write_static(self, row: int, node: Node) -> None:
        self._name(node)
        for column, read in self._readers:
            column.put(row, read(node))
        for column, _ in self._image_columns:
            column.put(row, self._image_value(column.key, row))

    def _live_pods(self) -> Iterator[tuple[int, Mapping[str, PodInfo]]]:
        return ((row, self._pods[row]) for row in self.row_of.values())

    def _grow(self) -> None:
        self._capacity *= 2
        for column in (*self._columns.values(), *self._zeros.values()):
            column.grow(self._capacity)
        self.usage.rewire()
