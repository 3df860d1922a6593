"""Which nodes a pod's node selector, node affinity and tolerations leave, over all rows at once.

Theory of operation: an answer is kept per different selector, or list of tolerations, until a
node's static fields change. The facts are those of component-helpers' ``nodeaffinity`` and of
kube-scheduler's podtopologyspread/common.go.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeTable
from policy_sched.model import (
    NAME_FIELD,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodInfo,
    Requirement,
    Taint,
    Toleration,
    node_term,
    requirement,
)

Mask: TypeAlias = NDArray[np.bool_]

#: How many different answers of each kind are kept.
KEPT: Final = 512
#: Effects that keep a pod off a node.
_KEEPS_OFF: Final = ("NoSchedule", "NoExecute")


class NodeInclusion:
    """Masks over the rows [0, n) of a node table; None is every row."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._version = -1
        self._affine: dict[tuple[object, NodeAffinity | None], Mask] = {}
        self._tolerated: dict[tuple[Toleration, ...], Mask | None] = {}

    def affinity(self, pod: PodInfo) -> Mask | None:
        """Return the rows that the pod's node selector and required node affinity allow."""
        affinity = pod.node_affinity
        required = affinity is not None and affinity.required is not None
        if not pod.node_selector and not required:
            return None
        self._renew()
        key = (pod.node_selector_key, affinity if required else None)
        mask = self._affine.get(key)
        if mask is None:
            mask = self._selected(pod)
            if affinity is not None and affinity.required is not None:
                mask &= self._terms(affinity.required.node_selector_terms)
            if len(self._affine) >= KEPT:
                self._affine.clear()
            self._affine[key] = mask
        return mask

    def taints(self, pod: PodInfo) -> Mask | None:
        """Return the rows without a taint that keeps the pod off."""
        self._renew()
        tolerations = pod.tolerations
        if tolerations not in self._tolerated:
            if len(self._tolerated) >= KEPT:
                self._tolerated.clear()
            self._tolerated[tolerations] = self._borne(tolerations)
        return self._tolerated[tolerations]

    def _renew(self) -> None:
        if self._version != self._table.static_version:
            self._affine.clear()
            self._tolerated.clear()
            self._version = self._table.static_version

    def _selected(self, pod: PodInfo) -> Mask:
        mask = np.ones(self._table.n, np.bool_)
        for key, value in pod.node_selector.items():
            mask &= self._codes(key) == self._table.strings.find(value)
        return mask

    def _terms(self, terms: tuple[NodeSelectorTerm, ...]) -> Mask:
        """Return the rows that one of the terms matches; empty and invalid terms match none."""
        found = np.zeros(self._table.n, np.bool_)
        for term in terms:
            try:
                valid = node_term(term) is not None
            except ValueError:
                continue
            if valid:
                mask = np.ones(self._table.n, np.bool_)
                for r in term.match_expressions:
                    mask &= self._meets(requirement(r.key, r.operator, r.values))
                for r in term.match_fields:
                    mask &= self._field(r)
                found |= mask
        return found

    def _meets(self, r: Requirement) -> Mask:
        codes = self._codes(r.key)
        if r.operator in ("In", "NotIn"):
            among = np.isin(codes, [self._table.strings.find(value) for value in r.values])
            return among if r.operator == "In" else ~among
        if r.operator in ("Exists", "DoesNotExist"):
            has: Mask = codes != 0
            return has if r.operator == "Exists" else ~has
        found, inverse = np.unique(codes, return_inverse=True)
        texts = [self._table.strings.text(code) for code in found.tolist()]
        met = np.array([r.matches({r.key: text}) for text in texts], np.bool_)
        met &= found != 0
        return met[inverse]

    def _field(self, r: NodeSelectorRequirement) -> Mask:
        wanted = r.operator == "In"
        if r.key != NAME_FIELD:
            return np.full(self._table.n, (r.values[0] == "") is wanted)
        names = self._table.lookup(("name",)).values[: self._table.n]
        same: Mask = names == self._table.strings.find(r.values[0])
        return same if wanted else ~same

    def _codes(self, key: str) -> NDArray[np.int32]:
        codes: NDArray[np.int32] = self._table.lookup(("label", key)).values[: self._table.n]
        return codes

    def _borne(self, tolerations: tuple[Toleration, ...]) -> Mask | None:
        table = self._table
        ids = table.lookup(("taints",)).values[: table.n]
        sets = table.taint_sets
        borne = np.array(
            [
                all(_bears(tolerations, taint) for taint in sets.members(number))
                for number in range(len(sets.sets))
            ],
            np.bool_,
        )
        return None if borne.all() else borne[ids]


def _bears(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    return taint.effect not in _KEEPS_OFF or any(
        toleration.tolerates(taint.key, taint.value, taint.effect) for toleration in tolerations
    )
