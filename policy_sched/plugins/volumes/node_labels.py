"""The nodes with the labels that volumes and topologies require, for all rows at once.

Theory of operation: a requirement is one comparison of a label column. The rows that reach free
volumes are cached until a node changes, since every search for a volume reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched import model
from policy_sched.cluster.tables import NodeTable

Mask = NDArray[np.bool_]
"""One truth value per row [0, n) of the node table; undefined for dead rows."""

#: The most rows that are cached for all affinities together, 8 bytes each.
KEPT_ROWS: Final = 4_000_000


class NodeLabels:
    """Evaluates labels for all rows of a node table, shape (n,). Results must not be changed."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._version = -1
        self._kept: dict[model.NodeSelector | None, NDArray[np.intp]] = {}
        self._kept_rows = 0

    def codes(self, key: str) -> NDArray[np.int32]:
        """Return the codes of a label's values, 0 where a node lacks it."""
        codes: NDArray[np.int32] = self._table.lookup(("label", key)).values[: self._table.n]
        return codes

    def has_value(self, codes: NDArray[np.int32], values: Iterable[str]) -> Mask:
        """Return the rows whose label has one of some values; ``codes`` as of `codes`."""
        matching = [code for value in values if (code := self._table.strings.find(value)) >= 0]
        mask: Mask = codes == matching[0] if len(matching) == 1 else np.isin(codes, matching)
        return mask

    def match(self, requirements: Iterable[model.Requirement]) -> Mask:
        """Return the rows that meet all requirements on labels."""
        mask = np.ones(self._table.n, np.bool_)
        for requirement in requirements:
            mask &= self._meet(requirement)
        return mask

    @property
    def n(self) -> int:
        """The number of rows."""
        return self._table.n

    def rows(self, selector: model.NodeSelector | None) -> NDArray[np.intp]:
        """Return the rows from which a volume with this node affinity can be reached, ascending.

        Cached until a node changes: a cluster of local disks has an affinity for each of them.
        """
        if self._version != self._table.journal.nodes_version or self._kept_rows > KEPT_ROWS:
            self._kept.clear()
            self._kept_rows = 0
            self._version = self._table.journal.nodes_version
        rows = self._kept.get(selector)
        if rows is None:
            rows = self._kept[selector] = np.flatnonzero(self.affinity(selector))
            self._kept_rows += rows.size
        return rows

    def affinity(self, selector: model.NodeSelector | None) -> Mask:
        """Return the rows from which a volume with this node affinity can be reached.

        An invalid term matches nothing, nor does an empty one. Every node has the fields that a
        term requires: kube-scheduler passes labels only, and looks at no field of such a node.
        """
        if selector is None:
            return np.ones(self._table.n, np.bool_)
        mask = np.zeros(self._table.n, np.bool_)
        for term in selector.node_selector_terms:
            mask |= self._term(term)
        return mask

    def topologies(self, terms: Sequence[model.TopologySelectorTerm]) -> Mask:
        """Return the rows that a storage class allows; all rows if it has no terms."""
        if not terms:
            return np.ones(self._table.n, np.bool_)
        mask = np.zeros(self._table.n, np.bool_)
        for term in terms:
            if term.match_label_expressions:  # an empty term selects nothing
                mask |= self.match(
                    model.Requirement(r.key, "In", r.values) for r in term.match_label_expressions
                )
        return mask

    def selected(self, selector: model.LabelSelector | None) -> Mask:
        """Return the rows that a label selector selects; none if it is invalid."""
        try:
            compiled = model.label_selector(selector)
        except ValueError:
            return np.zeros(self._table.n, np.bool_)
        if compiled.nothing:
            return np.zeros(self._table.n, np.bool_)
        return self.match(compiled.requirements)

    def _term(self, term: model.NodeSelectorTerm) -> Mask:
        try:
            if model.node_term(term) is not None:
                return self.match(
                    model.requirement(r.key, r.operator, r.values) for r in term.match_expressions
                )
        except ValueError:
            pass
        return np.zeros(self._table.n, np.bool_)

    def _meet(self, requirement: model.Requirement) -> Mask:
        codes = self.codes(requirement.key)
        match requirement.operator:
            case "In":
                return self.has_value(codes, requirement.values)
            case "NotIn":
                return ~self.has_value(codes, requirement.values)
            case "Exists":
                return codes.astype(np.bool_)
            case "DoesNotExist":
                return ~codes.astype(np.bool_)
        different, places = np.unique(codes, return_inverse=True)
        texts = self._table.strings.texts
        met = [
            code > 0 and requirement.matches({requirement.key: texts[code]})
            for code in different.tolist()
        ]
        mask: Mask = np.array(met, np.bool_)[places]
        return mask
