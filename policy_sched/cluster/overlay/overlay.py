"""NodeOverlay: a view of the node table with other pods on some rows.

Theory of operation. An overlay shares the static columns with the table and has copies of the
dynamic ones. It follows the table's journal: at the beginning of an outermost ``with`` block it
copies the rows that changed since the last one. Within the block pods are added and removed in the
copies, and the end of the block restores them. Blocks nest; each undoes its own changes. The table
itself never changes, so whatever is cached for it stays right. Evaluation takes the overlay as an
argument; the caller does not change the cache within a block.

Pods change in three ways. `add` and `remove` move one pod. `add_all` adds prepared pods to many
rows. `remove_block` removes a column of pods from each of many rows, and `put_back` and `take_off`
move one line of that block; each step is a few operations on arrays.

Where two pods hold one host port, it is free as soon as one of them is removed: kube-scheduler's
dry runs keep a set of ports, too, and not a count. Rows with requests beyond `SMALL`, whose sums
the table saturates, are summed anew after each change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Self, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched import thresholds
from policy_sched.cluster.overlay.amounts import (
    AddedPods,
    Block,
    ByAmount,
    Copy,
    amount_of,
    is_large,
)
from policy_sched.cluster.tables import Column, Key, NodeTable, PodRows, sum_of, total
from policy_sched.model import PodInfo

Places: TypeAlias = NDArray[np.bool_] | None
"""Flags of places in the list of a block's rows, shape (m,), or None for all of them."""

_PORTS: Final[Key] = ("usedPorts",)
_COUNT: Final[Key] = ("podCount",)


class _Level(msgspec.Struct):
    """One ``with`` block: what its changes replaced."""

    added: int
    saved: list[tuple[Any, list[tuple[Column, Any]]]] = msgspec.field(default_factory=list)
    rows: set[int] = msgspec.field(default_factory=set)
    moved: dict[int, dict[str, PodInfo | None] | None] = msgspec.field(default_factory=dict)
    block: bool = False


class NodeOverlay:
    """A `NodeView` in which pods can be added and removed; see above."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.strings = table.strings
        self.taint_sets = table.taint_sets
        self.port_sets = table.port_sets
        self.images = table.images
        self.namespaces = table.namespaces
        self.names = table.names
        self.nodes = table.nodes
        self.row_of = table.row_of
        self.live = table.live
        self._copies: dict[Key, Copy] = {}
        self._sums: list[Copy] = []
        self._by_amount: ByAmount | None = None
        """The same by what they sum; None where that is to be worked out again."""
        self._new: list[Copy] = []
        """Copies made within the open blocks."""
        self._version = -1
        self._columns_made = -1
        self._levels: list[_Level] = []
        self._moved: dict[int, dict[str, PodInfo | None]] = {}
        """By row, the pods that were added, and None for those that were removed."""
        self._added: list[Mapping[int, Sequence[PodInfo]]] = []
        self._block: Block | None = None
        self._large: set[int] = set()
        """Rows whose sums are not simply added up."""

    # A NodeView.

    @property
    def n(self) -> int:
        """Number of rows, dead ones included."""
        return self.table.n

    @property
    def live_count(self) -> int:
        """Number of nodes."""
        return self.table.live_count

    @property
    def materialised(self) -> Mapping[Key, Column]:
        """The columns that exist, by key."""
        return {key: self.lookup(key) for key in list(self.table.materialised)}

    def column(self, key: Key) -> Column:
        """Return a column to be held; the table holds its own, too."""
        column = self.table.column(key)
        return column if column.shared else self._copy(key, column)

    def lookup(self, key: Key) -> Column:
        """Return a column to be used now; see `NodeTable.lookup`."""
        column = self.table.lookup(key)
        if column.shared:
            return column
        entry = self._copies.get(key)
        if entry is not None and entry.source is column:
            return entry.column
        return self._copy(key, column)

    def pods_on(self, row: int) -> Mapping[str, PodInfo]:
        """Return the pods on a row by uid; the mapping does not follow later changes."""
        pods = self.table.pods_on(row)
        gone = set() if self._block is None else self._block.gone_from(row)
        added = [pods[row] for pods in self._added if row in pods]
        moved = self._moved.get(row)
        if not (gone or added or moved):
            return pods
        on_row = {uid: pod for uid, pod in pods.items() if uid not in gone}
        for some in added:
            on_row |= {pod.uid: pod for pod in some}
        for uid, pod in (moved or {}).items():
            if pod is None:
                on_row.pop(uid, None)
            else:
                on_row[uid] = pod
        return on_row

    def differences(self) -> Iterator[tuple[int, PodInfo, int]]:
        """Yield 1 and each pod that only this view has, -1 and each that only the table has.

        With each comes its row.
        """
        rows = set(self._moved).union(*self._added)
        if self._block is not None:
            rows.update(self._block.rows[self._block.there.any(axis=0)].tolist())
        for row in sorted(rows):
            before, now = self.table.pods_on(row), self.pods_on(row)
            yield from ((-1, pod, row) for uid, pod in before.items() if uid not in now)
            yield from ((1, pod, row) for uid, pod in now.items() if uid not in before)

    def image_nodes(self, name: str) -> int:
        """Return how many nodes have an image."""
        return self.table.image_nodes(name)

    def total_allocatable(self, resource: str) -> int:
        """Return the sum of a resource's allocatable over all nodes."""
        return self.table.total_allocatable(resource)

    def total_requested(self, resource: str) -> int:
        """Return the sum of a resource's requests over the pods on all nodes."""
        return sum_of(self.lookup(("requested", resource)).values)

    @property
    def pod_total(self) -> int:
        """Number of pods on all nodes."""
        return sum_of(self.lookup(_COUNT).values)

    # Blocks.

    def __enter__(self) -> Self:
        if not self._levels:
            self._follow()
        self._levels.append(_Level(len(self._added)))
        return self

    def __exit__(self, *_: object) -> None:
        level = self._levels.pop()
        for rows, values in reversed(level.saved):
            if type(rows) is int:
                for column, before in values:
                    column.view[rows] = before
            else:
                for column, before in values:
                    column.values[rows] = before
        for row, moved in level.moved.items():
            if moved is None:
                self._moved.pop(row, None)
            else:
                self._moved[row] = moved
        del self._added[level.added :]
        if level.block:
            self._block = None
        if self._new:
            self._sum_new(self._touched([level]))
            if not self._levels:
                self._new.clear()

    def _follow(self) -> None:
        """Copy what changed in the table."""
        table = self.table
        self._large = table.usage.large_rows()
        if self._columns_made != table.eviction.made:
            self._renew_copies()
            return
        version = table.journal.version
        if self._version == version:
            return
        changes = table.journal.since(self._version)
        self._version = version
        if changes is None or table.live.values.size != self._copies[_COUNT].column.values.size:
            self._renew_copies()
        elif len(changes.rows) <= thresholds.LOOP_ROWS:
            for copy in self._copies.values():
                mine, its = copy.column.view, copy.source.view
                for row in changes.rows:
                    mine[row] = its[row]
        else:
            rows = np.array(changes.rows, np.intp)
            for copy in self._copies.values():
                copy.column.values[rows] = copy.source.values[rows]

    def _renew_copies(self) -> None:
        """Copy all dynamic columns; drop the copies of evicted ones."""
        there = self.table.materialised
        for key in [k for k, c in self._copies.items() if there.get(k) is not c.source]:
            self._sums.remove(self._copies[key])
            del self._copies[key]
            self._by_amount = None
        for key, column in there.items():
            if not column.shared:
                self._copy(key, column)
        for copy in self._copies.values():
            if copy.column.values.size != copy.source.values.size:
                copy.column.grow(copy.source.values.size)
            copy.column.values[:] = copy.source.values
        self._version = self.table.journal.version
        self._columns_made = self.table.eviction.made

    def _copy(self, key: Key, source: Column) -> Column:
        """Return the copy of a dynamic column, made if there is none."""
        entry = self._copies.get(key)
        if entry is not None:
            if entry.source is source:
                return entry.column
            self._sums.remove(entry)
        column = Column(key, source.family, source.values.size)
        column.values[:] = source.values
        amount = {"podCount": (), "nonZeroRequested": ("nonZeroAdded", key[-1])}
        copy = Copy(
            column,
            source,
            amount.get(key[0], ("request", key[-1])),
            -1 if key[0] == "free" else 1,
        )
        self._copies[key] = copy
        self._by_amount = None
        if key != _PORTS:
            self._sums.append(copy)
            if self._block is not None:
                self._block.follow(copy)
        if self._levels:
            self._new.append(copy)
            self._sum_new(self._touched(self._levels))
        return column

    # Changes.

    def add(self, row: int, pod: PodInfo) -> None:
        """Add a pod to a live row."""
        self._move(row, pod, 1)

    def remove(self, row: int, pod: PodInfo) -> None:
        """Remove a pod from a live row."""
        self._move(row, pod, -1)

    def _move(self, row: int, pod: PodInfo, sign: int) -> None:
        self._save_row(row)
        moved = self._moved.get(row)
        if moved is None:
            moved = self._moved[row] = {}
        moved[pod.uid] = pod if sign > 0 else None
        if is_large(pod):
            self._large.add(row)
        if row not in self._large:
            self._count(row, pod, sign)
        if pod.host_ports:
            self._move_ports(row, pod, sign)
        if self._large:
            self._sum_large((row,))

    def _count(self, row: int, pod: PodInfo, sign: int) -> None:
        """Add a pod's amounts to a row's sums, or subtract them."""
        by_amount = self._by_amount or self._known_copies()
        for column in by_amount.counts:
            column.view[row] += sign
        for name, amount in pod.requests.items():
            for column, own in by_amount.requests.get(name, ()):
                column.view[row] += amount * own * sign
        for name, amount in pod.non_zero_added.items():
            for column, own in by_amount.non_zero.get(name, ()):
                column.view[row] += amount * own * sign

    def _known_copies(self) -> ByAmount:
        self._by_amount = ByAmount(self._copies.values(), self._sums)
        return self._by_amount

    def add_all(self, added: AddedPods) -> None:
        """Add pods to many live rows."""
        if len(added.pods) <= thresholds.LOOP_ROWS:
            for row, pods in added.pods.items():
                for pod in pods:
                    self._move(row, pod, 1)
            return
        rows = added.rows
        self._large.update(added.large)
        for row in self._moved.keys() & added.pods.keys():  # a pod that was removed may come back
            self._save_row(row)
            self._moved[row] |= {pod.uid: pod for pod in added.pods[row]}
        self._save(rows, added, ports=bool(added.ports))
        self._added.append(added.pods)
        for copy in self._sums:
            amounts = added.amounts(copy.amount)
            if amounts is not None:
                copy.column.values[rows] += amounts * copy.sign
        for row in added.ports:
            for pod in added.pods[row]:
                self._move_ports(row, pod, 1)
        self._sum_large(added.pods)

    def remove_block(
        self,
        rows: NDArray[np.intp],
        pods: PodRows,
        reads: Callable[[Key], bool] | None = None,
    ) -> None:
        """Remove a column of pods from each of many rows.

        ``rows``: live rows, each once, shape (m,); all rows of the table may be dead ones, too.
        ``pods``: shape (depth, m): column i holds pods that run on ``rows[i]``. ``reads``: whether
        a column is read while the block lasts; None: any may be.
        """
        assert self._block is None, "one block at a time"
        copies = [c for c in self._sums if reads is None or reads(c.column.key)]
        block = self._block = Block(self.table, rows, pods, copies)
        self._levels[-1].block = True
        self._save(block.where, block, ports=bool(block.ports))
        for copy in block.copies:
            amounts = block.amounts(copy.amount)
            if amounts is not None:
                copy.column.values[block.where] -= amounts[1] * copy.sign
        for step, places in block.ports.items():
            self._move_ports_at(step, places, -1)
        if self._large:
            self._sum_large(rows.tolist())

    @property
    def covers_all_rows(self) -> bool:
        """Whether the block's rows are all rows of the table, in order."""
        return self._block is not None and self._block.whole

    def put_back(self, step: int, places: Places = None) -> None:
        """Put the pods of one line of the block back, at some places or all."""
        self._shift(step, places, 1)

    def take_off(self, step: int, places: Places = None) -> None:
        """Remove the pods of one line of the block again, at some places or all."""
        self._shift(step, places, -1)

    def _shift(self, step: int, places: Places, sign: int) -> None:
        block = self._block
        assert block is not None, "a block was removed"
        times = None if places is None else places.astype(np.int64)
        for copy, amounts in block.moving():
            change = amounts[step] if times is None else amounts[step] * times
            move = np.add if sign == copy.sign else np.subtract
            values = copy.column.values
            if block.whole:
                own = values[: block.rows.size]
                move(own, change, out=own)
            else:
                values[block.rows] = move(values[block.rows], change)
        there, here = block.there[step], block.here[step]
        if places is None:
            here[:] = there if sign > 0 else False
        elif sign > 0:
            here |= there & places
        else:
            here &= ~places
        if step in block.ports:
            holders = block.ports[step]
            self._move_ports_at(step, holders if places is None else holders & places, sign)
        if self._large:
            self._sum_large((block.rows if places is None else block.rows[places]).tolist())

    def _move_ports_at(self, step: int, places: NDArray[np.bool_], sign: int) -> None:
        block = self._block
        assert block is not None, "a block was removed"
        for column in np.flatnonzero(places).tolist():
            self._move_ports(block.rows.item(column), block.pod(step, column), sign)

    def _move_ports(self, row: int, pod: PodInfo, sign: int) -> None:
        sets = self.port_sets
        column = self._copies[_PORTS].column
        held = set(sets.sets[column.view[row]])
        if sign > 0:
            held.update(pod.host_ports)
        else:
            held.difference_update(pod.host_ports)
        column.view[row] = sets.set_id(tuple(sorted(held)))

    def _sum_large(self, rows: Iterable[int]) -> None:
        """Sum those of the rows anew whose amounts are not simply added up."""
        for row in self._large.intersection(rows):
            self._sum_row(row, self._sums)

    # Rows.

    def _save_row(self, row: int) -> None:
        """Save a row's values and changes once per block."""
        level = self._levels[-1]
        if row in level.rows:
            return
        level.rows.add(row)
        columns = (self._by_amount or self._known_copies()).columns
        level.saved.append((row, [(column, column.view[row]) for column in columns]))
        moved = self._moved.get(row)
        level.moved[row] = None if moved is None else dict(moved)

    def _save(
        self, rows: NDArray[np.intp] | slice, pods: AddedPods | Block, *, ports: bool
    ) -> None:
        """Save the values of rows that are about to change."""
        wide = bool(self._large)  # rows that are summed anew change in every column
        copies = pods.copies if isinstance(pods, Block) and not wide else self._sums
        columns = [c.column for c in copies if wide or pods.amounts(c.amount) is not None]
        if ports:
            columns.append(self._copies[_PORTS].column)
        saved = [(c, c.values[rows].copy()) for c in columns]
        self._levels[-1].saved.append((rows, saved))

    def _touched(self, levels: Iterable[_Level]) -> set[int]:
        """Return the rows that the blocks changed."""
        touched: set[int] = set()
        for level in levels:
            for rows, _ in level.saved:
                touched.update(np.atleast_1d(np.arange(self.n)[rows]).tolist())
        return touched

    def _sum_new(self, rows: Iterable[int]) -> None:
        for row in rows:
            self._sum_row(row, self._new)

    def _sum_row(self, row: int, copies: Sequence[Copy]) -> None:
        """Set the values of a row from its pods."""
        pods = self.pods_on(row).values()
        for copy in copies:
            value = total(amount_of(pod, copy.amount) for pod in pods)
            if copy.sign < 0:
                allocatable = self.table.lookup(("allocatable", copy.column.key[-1]))
                value = allocatable.view[row] - value
            copy.column.view[row] = value
