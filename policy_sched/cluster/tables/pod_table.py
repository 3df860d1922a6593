"""The pods of the cache as columns: one row per pod that is bound or assumed.

Theory of operation: rows are taken and freed as in the node table, and columns come into
being when first asked for. The column ``node`` is always there and joins a pod to its node's row:
-1 on free rows and while the node is not known, so that a reduction over nodes drops both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from copy import copy
from functools import cached_property
from itertools import count
from operator import attrgetter
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import schema
from policy_sched.cluster.tables.column import FIRST_CAPACITY, NO_VERSION, Column, Eviction
from policy_sched.cluster.tables.interning import Strings
from policy_sched.model import PodInfo

Reader: TypeAlias = Callable[[PodInfo], int]

NO_NODE: Final = -1
MANY_LABELS: Final = 4096
"""Number of keys of labels from which on a table looks for those that no pod has."""

TEXT_ATTRIBUTES: Final = {
    "name": "name",
    "namespace": "namespace",
    "uid": "uid",
    "nodeName": "node_name",
    "nominatedNodeName": "nominated_node_name",
    "schedulerName": "scheduler_name",
    "priorityClassName": "priority_class_name",
    "preemptionPolicy": "preemption_policy",
    "qosClass": "qos_class",
    "serviceAccountName": "service_account_name",
    "runtimeClassName": "runtime_class_name",
    "ownerKind": "owner_kind",
    "ownerName": "owner_name",
    "ownerUID": "owner_uid",
    "podGroup": "pod_group",
}
"""Attribute of PodInfo by column name."""

_FLAGS: Final[Mapping[str, Reader]] = {
    "terminating": lambda info: info.terminating,
    "hostNetwork": lambda info: info.host_network,
    "hostPorts": lambda info: bool(info.host_ports),
}
"""How a bool column is read, by name."""


class PodTable:
    """Columns over the pod rows ``[0, n)``; ``infos[row]`` is None on a free row.

    ``version`` rises with every change. Change it through the Cache.
    """

    def __init__(self, strings: Strings) -> None:
        self.strings = strings
        self.infos: list[PodInfo | None] = []
        self.version = 0
        self.with_affinity: dict[str, PodInfo] = {}
        """The pods that have pod affinity or anti-affinity, by uid."""
        self._capacity = FIRST_CAPACITY
        self._free: list[int] = []
        self.node = Column(("node",), schema.POD_COLUMNS["node"], self._capacity, NO_NODE)
        self.arrival: NDArray[np.int64] = np.zeros(self._capacity, np.int64)
        """By row, the number of the pod in the order in which they came; rows are used again."""
        self._arrivals = count(1)
        self._columns: dict[schema.Key, Column] = {("node",): self.node}
        self._readers: list[tuple[Column, Reader]] = []
        self.eviction = Eviction()
        self._labels: set[str] = set()
        """Keys of labels that pods have, or had when they were last counted."""
        self.many_labels = self._labels_due = MANY_LABELS
        family = schema.family_of(("label", ""), schema.POD_COLUMNS)
        self._no_label = Column(("label",), family, self._capacity)
        self._no_label.version = NO_VERSION

    @property
    def n(self) -> int:
        """High-water mark: every row that ever had a pod is below it; never falls."""
        return len(self.infos)

    def column(self, key: schema.Key) -> Column:
        """Return a column to be held: it is kept up to date for good. See `lookup`."""
        column = self._columns.get(key) or self._materialise(key)
        column.held = True
        return column

    def lookup(self, key: schema.Key) -> Column:
        """Return a column to be used now, created and filled on first use.

        It is given up when it is not looked up for long. The columns of labels that no pod has are
        the same column of zeros. Raises KeyError if no family of columns.POD_COLUMNS allows the
        key.
        """
        column = self._columns.get(key)
        if column is not None:
            column.referenced = True
            return column
        if key[0] == "label" and key[1] not in self._labels:
            return self._no_label
        return self._materialise(key)

    def _materialise(self, key: schema.Key) -> Column:
        column = Column(key, schema.family_of(key, schema.POD_COLUMNS), self._capacity)
        self.eviction.numbered(column)
        read = pod_table_reader(key, self.strings)
        values = [0 if info is None else read(info) for info in self.infos]
        column.values[: len(values)] = values
        self._columns[key] = column
        self._readers.append((column, read))
        return column

    def tidy(self) -> None:
        """Evict idle columns if there are many; called between two decisions."""
        if len(self._labels) >= self._labels_due:
            self._count_labels()
        eviction = self.eviction
        if not eviction.due(self._columns):
            return
        idle = eviction.idle(self._columns, ("node",))
        self._readers = [reader for reader in self._readers if reader[0].key not in idle]
        for key in idle:
            del self._columns[key]
        eviction.ended(self._columns)

    def _count_labels(self) -> None:
        self._labels = {key for info in self.infos if info is not None for key in info.labels}
        self._labels_due = max(self.many_labels, 2 * len(self._labels))

    @property
    def materialised(self) -> Mapping[schema.Key, Column]:
        """The columns that are there, by key."""
        return self._columns

    def add(self, info: PodInfo, node_row: int) -> int:
        """Give a pod a row and return it; ``node_row`` is -1 while its node is not known."""
        if self._free:
            row = self._free.pop()
            self.infos[row] = info
        else:
            row = len(self.infos)
            if row == self._capacity:
                self._grow()
            self.infos.append(info)
        self.node.view[row] = node_row
        self.arrival[row] = next(self._arrivals)
        for column, read in self._readers:
            column.view[row] = read(info)
        self._labels.update(info.labels)
        if info.has_pod_affinity:
            self.with_affinity[info.uid] = info
        self.version += 1
        return row

    def replace(self, row: int, info: PodInfo, node_row: int) -> None:
        """Put a newer form of a pod in its row."""
        self.infos[row] = info
        self.node.view[row] = node_row
        for column, read in self._readers:
            column.view[row] = read(info)
        self._labels.update(info.labels)
        if info.has_pod_affinity:
            self.with_affinity[info.uid] = info
        else:
            self.with_affinity.pop(info.uid, None)
        self.version += 1

    def exchange(self, row: int, info: PodInfo) -> None:
        """Put a form of a pod in its row that has the same values in all columns."""
        self.infos[row] = info
        if info.has_pod_affinity:
            self.with_affinity[info.uid] = info
        self.version += 1

    def move(self, row: int, node_row: int) -> None:
        """Say that the pod's node has come (its row) or gone (-1)."""
        self.node.view[row] = node_row
        self.version += 1

    def remove(self, row: int) -> None:
        """Free a pod's row."""
        info = self.infos[row]
        assert info is not None, "only rows in use are freed"
        if info.has_pod_affinity:
            del self.with_affinity[info.uid]
        self.infos[row] = None
        self.node.view[row] = NO_NODE
        for column, _ in self._readers:
            column.view[row] = 0
        self._free.append(row)
        self.version += 1

    def _grow(self) -> None:
        self.arrival = np.concatenate([self.arrival, np.zeros_like(self.arrival)])
        self._capacity *= 2
        for column in self._columns.values():
            column.grow(self._capacity, NO_NODE if column is self.node else 0)
        self._no_label.grow(self._capacity)


class PodRows:
    """Rows of the pod table, -1 for no pod, and the columns at them; each is read once.

    ``rows``: of any shape. Where there is no pod a column has 0. Not to be changed, and not to be
    used after a pod changed.
    """

    def __init__(self, pods: PodTable, rows: NDArray[np.intp] | None = None) -> None:
        self.pods = pods
        self.is_part = False
        """Whether there is no pod at some places that have a row."""
        self._columns: dict[schema.Key, NDArray[Any]] = {}
        if rows is not None:
            self.__dict__["rows"] = rows

    @cached_property
    def rows(self) -> NDArray[np.intp]:
        """The rows, where these were not given."""
        raise NotImplementedError

    @cached_property
    def there(self) -> NDArray[np.bool_]:
        """Return where there is a pod."""
        present: NDArray[np.bool_] = self.rows >= 0
        return present

    def of(self, key: schema.Key) -> NDArray[Any]:
        """Return a column of the pod table at the rows."""
        values = self._columns.get(key)
        if values is None:
            values = self._columns[key] = self.pods.lookup(key).values[self.rows]
            values[self.rows < 0] = 0
        return values

    def derived(
        self,
        key: Hashable,  # noqa: ARG002 - for those that are kept
        source: object,  # noqa: ARG002
        read: Callable[[NDArray[np.intp]], NDArray[Any]],
    ) -> NDArray[Any]:
        """Return what ``read`` makes of rows: for each by itself, from the pod alone.

        What is kept under the key (see `PodOrder`) holds for one and the same ``source``.
        """
        values = read(self.rows)
        values[self.rows < 0] = 0
        return values

    def at(self, places: NDArray[np.intp]) -> PodRows:
        """Return some columns of rows of shape (depth, m)."""
        part = PodRows(self.pods, self.rows.take(places, axis=1))
        part.__dict__["there"] = self.there.take(places, axis=1)
        part.is_part = self.is_part
        return part

    def holding(self, there: NDArray[np.bool_]) -> PodRows:
        """Return the same rows with no pods but some; the columns are as they were."""
        part = copy(self)
        part.__dict__["there"] = there
        part.is_part = True
        return part


def pod_table_reader(key: schema.Key, strings: Strings) -> Reader:
    """Return the function that reads the column ``key`` from a pod."""
    code = strings.code
    name, argument = key[0], key[-1]
    if name in schema.POD_TEXTS:
        text: Callable[[PodInfo], str] = attrgetter(TEXT_ATTRIBUTES[name])
        return lambda info: code(text(info))
    if name in _FLAGS:
        return _FLAGS[name]
    match name:
        case "label":
            return lambda info: code(info.labels[argument]) if argument in info.labels else 0
        case "annotation":
            return lambda info: (
                code(info.annotations[argument]) if argument in info.annotations else 0
            )
        case "priority":
            return lambda info: info.priority
        case "creationTime":
            return lambda info: min(max(info.creation_time, 0), schema.MAX_TIME)
        case "startTime":
            return lambda info: min(max(info.start_time, 0), schema.MAX_TIME)
        case "request":
            return lambda info: info.requests.get(argument, 0)
        case "nonZeroRequest":
            return lambda info: info.non_zero_requests.get(argument, 0)
        case "nonZeroAdded":
            return lambda info: info.non_zero_added.get(argument, 0)
        case "limit":
            return lambda info: info.limits.get(argument, 0)
    raise KeyError(f"no pod column {key!r}")
