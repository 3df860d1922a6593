"""The domains of a label: the groups of nodes that share its value, with totals on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from policy_sched.cluster.tables import NodeTable, sum_of
from policy_sched.model import PodInfo


class Amounts(Mapping[str, int]):
    """Resources of many nodes together: a total by name, computed when it is read.

    It has the names that one of the nodes has.
    """

    __slots__ = ("_names", "_total")

    def __init__(self, total: Callable[[str], int], names: Callable[[], set[str]]) -> None:
        self._total = total
        self._names = names

    def get(self, name: str, default: int = 0) -> int:  # type: ignore[override]  # none is 0
        """Return the total of a resource; ``default`` is what a total of none is, too."""
        return self._total(name) or default

    def __getitem__(self, name: str) -> int:
        """Return the total of a resource that one of the nodes has."""
        if name not in self._names():
            raise KeyError(name)
        return self._total(name)

    def __iter__(self) -> Iterator[str]:
        """Yield the names in order."""
        return iter(sorted(self._names()))

    def __len__(self) -> int:
        """Return how many names there are."""
        return len(self._names())


def names_of(table: NodeTable, rows: npt.NDArray[np.intp], family: str) -> set[str]:
    """Return the names of the resources that nodes have (`allocatable`), use, or both (`free`)."""
    names: set[str] = set()
    for row in rows.tolist():
        node = table.nodes[row]
        if family != "requested" and node is not None:
            names.update(node.status.allocatable)
        if family != "allocatable":
            names.update(*(pod.requests for pod in table.pods_on(row).values()))
    return names


class Domain:
    """The nodes that share a label's value."""

    __slots__ = ("_rows", "_table", "value")

    def __init__(self, table: NodeTable, value: str, rows: npt.NDArray[np.intp]) -> None:
        self._table = table
        self.value = value
        self._rows = rows

    @property
    def row(self) -> int:
        """One of its rows, if it has any."""
        return int(self._rows[0])

    @property
    def node_count(self) -> int:
        """How many nodes it has."""
        return len(self._rows)

    @property
    def pod_count(self) -> int:
        """How many pods run in it."""
        return int(self._table.column(("podCount",)).values[self._rows].sum())

    @property
    def pods(self) -> list[PodInfo]:
        """The pods in it, by row."""
        return list(self._pods())

    def _pods(self) -> Iterator[PodInfo]:
        for row in self._rows.tolist():
            yield from self._table.pods_on(row).values()

    def _amounts(self, family: str) -> Amounts:
        table, rows = self._table, self._rows

        def total(name: str) -> int:
            return sum_of(table.column((family, name)).values[rows])

        return Amounts(total, lambda: names_of(table, rows, family))

    @property
    def allocatable(self) -> Amounts:
        """Totals of what its nodes have."""
        return self._amounts("allocatable")

    @property
    def requested(self) -> Amounts:
        """Totals of what its pods request."""
        return self._amounts("requested")

    @property
    def free(self) -> Amounts:
        """Totals of what is left."""
        return self._amounts("free")


class Domains:
    """All domains of one label, by the code of its value."""

    __slots__ = ("_by_code", "_nowhere", "all")

    def __init__(self, table: NodeTable, key: str) -> None:
        codes = table.column(("label", key)).values[: table.n]
        live = table.live.values[: table.n]
        rows = np.flatnonzero((codes > 0) & live)
        order = rows[np.argsort(codes[rows], kind="stable")]
        found, starts = np.unique(codes[order], return_index=True)
        groups = np.split(order, starts[1:])
        self._by_code = {
            code: Domain(table, table.strings.text(code), group)
            for code, group in zip(found.tolist(), groups, strict=False)
        }
        self._nowhere = Domain(table, "", np.empty(0, dtype=np.intp))
        self.all = sorted(self._by_code.values(), key=lambda domain: domain.value)
        """The domains in order of their values."""

    def at(self, code: int) -> Domain:
        """Return the domain of a value's code; an empty one for code 0."""
        return self._by_code.get(code, self._nowhere)


NO_DOMAIN: Final = Domain(NodeTable(), "", np.empty(0, dtype=np.intp))
"""A domain without any node."""
