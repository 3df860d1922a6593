"""What generated functions ask of the node table: distinct values, rows, pods, domains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from policy_sched.cluster.tables import Column, NodeTable, PodTable, distinct
from policy_sched.language.runtime.domains import Amounts, Domains, names_of
from policy_sched.language.runtime.incremental_counts import IncrementalCounts
from policy_sched.language.values import NodeFacts
from policy_sched.model import Namespace, Node, ObjectMeta, PodInfo

#: The rows of a vector function: all of them as a slice, or row numbers.
RowSet = slice | npt.NDArray[np.intp]
Function = Callable[..., Any]
#: A function of all distinct values at once: a list with the result for each.
OfEach = Callable[[list[Any]], list[Any]]

_DTYPES: Final = {
    "b": np.bool_,
    "i": np.int64,
    "f": np.float64,
    "c": np.int64,
    "k": np.intp,
    "e": np.int16,
}
MOST: Final = 2**63 - 1
_NO_NODE: Final = Node(metadata=ObjectMeta(name=""))


def _array(rep: str, values: Sequence[Any]) -> Any:
    """Return values in the array form of ``rep``; a list where it has none."""
    dtype = _DTYPES.get(rep)
    if dtype is None:
        return list(values)
    try:
        return np.array(values, dtype=dtype)
    except OverflowError:  # a timestamp outside of the years that int64 nanoseconds reach
        return np.array(values, dtype=np.object_)


class Runtime:
    """One node table, as generated functions see it."""

    def __init__(self, table: NodeTable, pods: PodTable | None = None) -> None:
        self.table = table
        self.pods = pods
        self.tallies = IncrementalCounts(table, pods)
        self._domains: dict[str, tuple[tuple[int, int, int], Domains]] = {}
        self._ends: dict[Column, tuple[int, int, tuple[int, int]]] = {}

    # Nodes and what runs on them.

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return self.table.live_count

    @property
    def pod_count(self) -> int:
        """How many pods are on all nodes."""
        return self.table.pod_total

    @property
    def allocatable(self) -> Amounts:
        """Totals of allocatable over all nodes."""
        return Amounts(self.table.total_allocatable, lambda: self._names("allocatable"))

    @property
    def requested(self) -> Amounts:
        """Totals of requested over all nodes."""
        return Amounts(self.table.total_requested, lambda: self._names("requested"))

    def _names(self, family: str) -> set[str]:
        rows = np.flatnonzero(self.table.live.values[: self.table.n])
        return names_of(self.table, rows, family)

    def node(self, row: int) -> Node:
        """Return the node of a row; one without any content for a dead row."""
        return self.table.nodes[row] or _NO_NODE

    def facts(self, row: int) -> NodeFacts:
        """Return the node of a row as a record by itself, with what runs on it now."""
        return NodeFacts(self.node(row), self.table)

    def pods_at(self, row: int) -> list[PodInfo]:
        """Return the pods on a row."""
        return list(self.table.pods_on(row).values())

    def domains(self, key: str) -> Domains:
        """Return the domains of a label, the same ones until nodes change."""
        table = self.table
        version = table.n, table.live.version, table.column(("label", key)).version
        known = self._domains.get(key)
        if known is None or known[0] != version:
            known = self._domains[key] = version, Domains(table, key)
        return known[1]

    @property
    def supposing(self) -> bool:
        """Whether something is tried out on the tables that the journal does not tell."""
        return self.table.supposing > 0 or self.table.hypothesis is not None

    def image_nodes(self, name: str) -> int:
        """Return how many nodes have an image."""
        return self.table.image_nodes(name)

    def namespace(self, name: str) -> Namespace:
        """Return a namespace; one without labels if it is not known."""
        found = self.table.namespaces.get(name)
        return Namespace(metadata=ObjectMeta(name=name)) if found is None else found

    # Rows.

    def row_numbers(self, rows: RowSet) -> npt.NDArray[np.intp]:
        """Return the rows as numbers."""
        if isinstance(rows, slice):
            return np.arange(self.table.n, dtype=np.intp)
        return rows

    def distinct_one(self, rep: str, function: OfEach, column: Column, rows: RowSet) -> Any:
        """Call ``function`` with the distinct values of a column; return the result per row."""
        values, positions = self._values(column, rows)
        if len(values) == 1 and rep in "bife":
            return function(values)[0]
        results = _array(rep, function(values))
        if isinstance(results, list):
            return [results[i] for i in positions.tolist()]
        return results.take(positions)

    def distinct_pair(
        self, rep: str, function: OfEach, column: Column, rows: RowSet
    ) -> tuple[Any, Any]:
        """Do as `distinct_one` for a function that returns a (value, error) for each value."""
        values, positions = self._values(column, rows)
        pairs = function(values)
        if len(values) == 1 and rep in "bife":
            value, error = pairs[0]
            return value, error
        errors = np.array([e for _, e in pairs], dtype=np.int16).take(positions)
        results = _array(rep, [v for v, _ in pairs])
        if isinstance(results, list):
            return [results[i] for i in positions.tolist()], errors
        return results.take(positions), errors

    def _values(self, column: Column, rows: RowSet) -> tuple[list[int], Any]:
        """Return a column's distinct values, and for each row the position of its value."""
        if not column.static:
            return distinct(column.values[rows])
        values, positions = column.distinct(self.table.n)
        return values, positions if isinstance(rows, slice) else positions[rows]

    def ends(self, column: Column) -> tuple[int, int]:
        """Return the least and the greatest value of a static column, over all rows."""
        n = self.table.n
        known = self._ends.get(column)
        if known is None or known[0] != column.version or known[1] != n:
            values = column.values[:n]
            least, most = int(values.min(initial=0 if n == 0 else MOST)), int(values.max(initial=0))
            known = self._ends[column] = (column.version, n, (least, most))
        return known[2]

    def by_row_one(self, rep: str, function: Function, n: int, *inputs: Any) -> Any:
        """Call ``function`` for each row with the row's inputs; return its results."""
        return _array(rep, [function(*row) for row in _transposed(n, inputs)])

    def by_row_pair(self, rep: str, function: Function, n: int, *inputs: Any) -> tuple[Any, Any]:
        """Do as `by_row_one` for a function that returns (value, error)."""
        pairs = [function(*row) for row in _transposed(n, inputs)]
        errors = np.array([e for _, e in pairs], dtype=np.int16)
        return _array(rep, [v for v, _ in pairs]), errors


def each(function: Function) -> OfEach:
    """Return a function of one value as a function of many."""
    return lambda values: [function(value) for value in values]


def _transposed(n: int, inputs: Sequence[Any]) -> Any:
    if not inputs:
        return [()] * n
    return zip(*(_per_row(n, values) for values in inputs), strict=True)


def _per_row(n: int, values: Any) -> list[Any]:
    if isinstance(values, np.ndarray):
        listed: list[Any] = values.tolist()
        return listed if values.ndim else [listed] * n
    if isinstance(values, np.generic):
        values = values.item()
    return values if isinstance(values, list) else [values] * n
