"""A domain as a record: what rules read of the nodes that a pod group may be placed on."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from policy_sched.cluster.tables import NodeTable, sum_of
from policy_sched.language.values.node_record import NodeFacts
from policy_sched.model import PodInfo


class PlacementFacts:
    """The record `Placement` under its Python names, computed from the table when read.

    ``rows``: the domain's nodes, shape (k,). ``assigned``: the group's pods in it.
    """

    def __init__(
        self,
        domain: str,
        rows: npt.NDArray[np.intp],
        assigned: tuple[PodInfo, ...] = (),
        table: NodeTable | None = None,
    ) -> None:
        self.domain = domain
        self.assigned = assigned
        self._rows = rows
        self._table = table

    @cached_property
    def nodes(self) -> tuple[NodeFacts, ...]:
        """Its nodes."""
        table = self._table
        if table is None:
            return ()
        found = (table.nodes[row] for row in self._rows.tolist())
        return tuple(NodeFacts(node, table) for node in found if node is not None)

    @cached_property
    def allocatable(self) -> dict[str, int]:
        """What pods may use of its nodes, in scheduler units."""
        return self._sums("allocatable")

    @cached_property
    def requested(self) -> dict[str, int]:
        """What the pods on its nodes request."""
        return self._sums("requested")

    @property
    def free(self) -> dict[str, int]:
        """What may be used less what is requested; may be below zero."""
        return self._sums("free")

    def _sums(self, family: str) -> dict[str, int]:
        table = self._table
        if table is None:
            return {}
        names = {
            name
            for row in self._rows.tolist()
            if (node := table.nodes[row]) is not None
            for name in node.status.allocatable
        }
        return {
            name: sum_of(table.column((family, name)).values[self._rows]) for name in sorted(names)
        }


NOWHERE: Final = PlacementFacts("", np.zeros(0, np.intp))
"""No domain at all."""
