"""Pod affinity and topology spread constraints of a pod, compiled.

Theory of operation: equal affinities of one namespace are compiled once and share one PodTerms,
and equal lists of constraints one SpreadConstraints; both compare by identity and are
therefore cheap as keys. The facts are those of ``AffinityTerm`` in kube-scheduler's
framework/types.go and of ``topologySpreadConstraint`` in its podtopologyspread/common.go. Fields
that the API server merges into a selector (matchLabelKeys, mismatchLabelKeys) are not read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from policy_sched.model import meta, selectors


class AffinityTerm(msgspec.Struct, frozen=True):
    """The pods with certain labels in certain namespaces, and the topology label.

    A namespace matches if it is in ``namespaces`` or ``namespace_selector`` selects its labels.
    """

    namespaces: frozenset[str]
    namespace_selector: selectors.Selector
    selector: selectors.Selector
    topology_key: str

    def matches(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]
    ) -> bool:
        """Return whether the term selects a pod with these labels in a namespace."""
        if namespace in self.namespaces or self.namespace_selector.matches(namespace_labels):
            return self.selector.matches(labels)
        return False


Weighted: TypeAlias = tuple[tuple[int, AffinityTerm], ...]
"""Terms with their weights."""


class PodTerms(msgspec.Struct, frozen=True, eq=False):
    """All terms of one pod. ``error``: the invalid selector; there are no terms then."""

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: Weighted = ()
    """Preferred terms; those of anti-affinity have negative weights."""
    error: str = ""

    def __bool__(self) -> bool:
        """Return whether there is any term, valid or not."""
        return bool(self.affinity or self.anti_affinity or self.preferred or self.error)


NO_TERMS: Final = PodTerms()

_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_DECODER: Final = msgspec.json.Decoder(tuple[meta.PodAffinity | None, meta.PodAffinity | None])


def pod_terms(affinity: meta.Affinity | None, namespace: str) -> PodTerms:
    """Return the compiled terms of a pod in ``namespace``."""
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    return _compiled(
        _ENCODER.encode((affinity.pod_affinity, affinity.pod_anti_affinity)), namespace
    )


@lru_cache(maxsize=8192)
def _compiled(encoded: bytes, namespace: str) -> PodTerms:
    near, away = _DECODER.decode(encoded)
    near, away = near or meta.PodAffinity(), away or meta.PodAffinity()
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
    terms: tuple[meta.WeightedPodAffinityTerm, ...], namespace: str, sign: int
) -> tuple[tuple[int, AffinityTerm], ...]:
    return tuple((sign * t.weight, _term(t.pod_affinity_term, namespace)) for t in terms)


def _term(term: meta.PodAffinityTerm, namespace: str) -> AffinityTerm:
    """Compile a term; without namespaces and namespaceSelector it uses the pod's namespace."""
    own = not term.namespaces and term.namespace_selector is None
    return AffinityTerm(
        namespaces=frozenset((namespace,) if own else term.namespaces),
        namespace_selector=selectors.NOTHING
        if term.namespace_selector is None
        else selectors.label_selector(term.namespace_selector),
        selector=selectors.label_selector(term.label_selector),
        topology_key=term.topology_key,
    )


DO_NOT_SCHEDULE: Final = "DoNotSchedule"
HONOR: Final = "Honor"


class SpreadConstraint(msgspec.Struct, frozen=True):
    """The allowed imbalance of the pods of ``selector`` over the values of a node label.

    ``hard``: a node that violates it is rejected, else its score is lower. The ``honor`` fields:
    whether nodes excluded by the pod's node affinity or by untolerated taints are left out.
    """

    max_skew: int
    topology_key: str
    hard: bool
    selector: selectors.Selector
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False
    match_label_keys: tuple[str, ...] = ()

    def for_labels(self, labels: Mapping[str, str]) -> SpreadConstraint:
        """Return the constraint with the pod's values of matchLabelKeys added to the selector."""
        pairs = {key: labels[key] for key in self.match_label_keys if key in labels}
        if not pairs or self.selector.nothing:
            return self
        merged = selectors.equality_selector(pairs).requirements + self.selector.requirements
        return msgspec.structs.replace(self, selector=selectors.Selector(merged))


class SpreadConstraints(msgspec.Struct, frozen=True, eq=False):
    """A pod's hard and soft constraints; ``error`` is the reason if one is invalid."""

    hard: tuple[SpreadConstraint, ...] = ()
    soft: tuple[SpreadConstraint, ...] = ()
    error: str = ""

    def __bool__(self) -> bool:
        """Return whether the pod has its own constraints, so that defaults do not apply."""
        return bool(self.hard or self.soft or self.error)


NO_CONSTRAINTS: Final = SpreadConstraints()

_SPREAD_ENCODER: Final = msgspec.json.Encoder(order="deterministic")
_SPREAD_DECODER: Final = msgspec.json.Decoder(tuple[meta.TopologySpreadConstraint, ...])


def spread_constraints(constraints: tuple[meta.TopologySpreadConstraint, ...]) -> SpreadConstraints:
    """Return the compiled constraints of a pod, or of a profile's defaults."""
    return (
        _compiled_constraints(_SPREAD_ENCODER.encode(constraints))
        if constraints
        else NO_CONSTRAINTS
    )


@lru_cache(maxsize=8192)
def _compiled_constraints(encoded: bytes) -> SpreadConstraints:
    try:
        constraints = [_constraint(c) for c in _SPREAD_DECODER.decode(encoded)]
    except ValueError as error:
        return SpreadConstraints(error=str(error))
    return SpreadConstraints(
        hard=tuple(c for c in constraints if c.hard),
        soft=tuple(c for c in constraints if not c.hard),
    )


def _constraint(c: meta.TopologySpreadConstraint) -> SpreadConstraint:
    return SpreadConstraint(
        max_skew=c.max_skew,
        topology_key=c.topology_key,
        hard=c.when_unsatisfiable == DO_NOT_SCHEDULE,
        selector=selectors.label_selector(c.label_selector),
        min_domains=1 if c.min_domains is None else c.min_domains,
        honor_affinity=c.node_affinity_policy in (None, HONOR),
        honor_taints=c.node_taints_policy == HONOR,
        match_label_keys=c.match_label_keys,
    )
