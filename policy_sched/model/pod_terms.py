"""Pod affinity and anti-affinity, compiled: which pods a term means, and what it is worth.

Theory of operation: equal affinities of one namespace are compiled once and share one PodTerms,
which is equal to nothing but itself and therefore cheap as a key. The facts are those of
``AffinityTerm`` in kube-scheduler's framework/types.go; what the API server has merged into a
selector already (matchLabelKeys, mismatchLabelKeys) is not looked at again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from policy_sched.model.affinity import (
    Affinity,
    PodAffinity,
    PodAffinityTerm,
    WeightedPodAffinityTerm,
)
from policy_sched.model.selectors import NOTHING, Selector, label_selector


class AffinityTerm(msgspec.Struct, frozen=True):
    """The pods with certain labels in certain namespaces, and the label that says what near is.

    A namespace is meant if it is in ``namespaces`` or ``namespace_selector`` selects its labels.
    """

    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector
    topology_key: str

    def matches(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> bool:
        """Tell whether a pod with these labels in that namespace is meant."""
        if namespace in self.namespaces or self.namespace_selector.matches(namespace_labels):
            return self.selector.matches(labels)
        return False


Weighted: TypeAlias = tuple[tuple[int, AffinityTerm], ...]
"""Terms with their weights."""


class PodTerms(msgspec.Struct, frozen=True, eq=False):
    """All terms of one pod. ``error`` says which selector is not valid: then there are no terms."""

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: Weighted = ()
    """Preferred terms; those of anti-affinity have negative weights."""
    error: str = ""

    def __bool__(self) -> bool:
        """Tell whether there is any term, valid or not."""
        return bool(self.affinity or self.anti_affinity or self.preferred or self.error)


NO_TERMS: Final = PodTerms()

_ENCODER: Final = msgspec.json.Encoder(order="sorted")
_DECODER: Final = msgspec.json.Decoder(Affinity)


def pod_terms(affinity: Affinity | None, namespace: str) -> PodTerms:
    """Return the compiled terms of a pod in ``namespace``."""
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    return _compiled(
        _ENCODER.encode(
            Affinity(
                pod_affinity=affinity.pod_affinity, pod_anti_affinity=affinity.pod_anti_affinity
            )
        ),
        namespace,
    )


@lru_cache(maxsize=8192)
def _compiled(encoded: bytes, namespace: str) -> PodTerms:
    affinity = _DECODER.decode(encoded)
    near = affinity.pod_affinity or PodAffinity()
    away = affinity.pod_anti_affinity or PodAffinity()
    try:
        return PodTerms(
            affinity=tuple(_term(t, namespace) for t in near.required),
            anti_affinity=tuple(_term(t, namespace) for t in away.required),
            preferred=_weighted(near.preferred, namespace, 1)
            + _weighted(away.preferred, namespace, -1),
        )
    except ValueError as error:
        return PodTerms(error=str(error))


def _weighted(
    terms: tuple[WeightedPodAffinityTerm, ...], namespace: str, sign: int
) -> tuple[tuple[int, AffinityTerm], ...]:
    return tuple((sign * t.weight, _term(t.pod_affinity_term, namespace)) for t in terms)


def _term(term: PodAffinityTerm, namespace: str) -> AffinityTerm:
    """Compile a term; without namespaces and namespaceSelector it means the pod's own namespace."""
    own = not term.namespaces and term.namespace_selector is None
    return AffinityTerm(
        namespaces=frozenset((namespace,) if own else term.namespaces),
        namespace_selector=NOTHING
        if term.namespace_selector is None
        else label_selector(term.namespace_selector),
        selector=label_selector(term.label_selector),
        topology_key=term.topology_key,
    )
