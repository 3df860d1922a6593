"""Matching of labels and nodes: label selectors, node selector terms, node affinity.

The facts are those of apimachinery's ``labels`` and ``fields`` packages and of
component-helpers' ``nodeaffinity``. A selector is compiled once and then asked for many nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from policy_sched.model.affinity import (
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
)
from policy_sched.model.meta import LabelSelector

NAME_FIELD: Final = "metadata.name"
"""The only field of a node that a field requirement can read; any other is empty."""

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_DOMAIN: Final = re.compile(
    r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*"
)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")

LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
NODE_OPERATORS: Final = (*LABEL_OPERATORS, "Gt", "Lt")


def is_qualified_name(text: str) -> bool:
    """Tell whether a text is a label key: a name of up to 63 characters, perhaps with domain/."""
    domain, slash, name = text.rpartition("/")
    if slash and (len(domain) > 253 or not _DOMAIN.fullmatch(domain)):
        return False
    return len(name) <= 63 and _NAME.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """Tell whether a text can be the value of a label: empty, or a name of up to 63 characters."""
    return not text or (len(text) <= 63 and _NAME.fullmatch(text) is not None)


def int64(text: str) -> int | None:
    """Return a decimal integer as Go's ParseInt reads it, None if it is none or beyond int64."""
    if len(text) > 4096 or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One checked requirement on labels; make it with `requirement`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    bound: int = 0

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether labels meet the requirement; NotIn holds where the key is missing."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        number = None if value is None else int64(value)
        if number is None:
            return False
        return number > self.bound if self.operator == "Gt" else number < self.bound


def requirement(
    key: str,
    operator: str,
    values: Collection[str] = (),
    operators: tuple[str, ...] = NODE_OPERATORS,
) -> Requirement:
    """Return a checked requirement.

    Raises ValueError, in Kubernetes' words where it has some, if key, operator or values are
    not valid together.
    """
    if operator not in operators:
        known = ", ".join(f'"{name}"' for name in sorted(operators))
        raise ValueError(f'operator: Unsupported value: "{operator}": supported values: {known}')
    if not is_qualified_name(key):
        raise ValueError(f'key: Invalid value: "{key}": not a label key')
    values, bound = tuple(values), 0
    if operator in ("In", "NotIn"):
        if not values:
            raise ValueError("values: for 'in', 'notin' operators, values set can't be empty")
    elif operator in ("Gt", "Lt"):
        if len(values) != 1:
            raise ValueError("values: for 'Gt', 'Lt' operators, exactly one value is required")
        number = int64(values[0])
        if number is None:
            raise ValueError("values: for 'Gt', 'Lt' operators, the value must be an integer")
        bound = number
    elif values:
        raise ValueError("values: values set must be empty for exists and does not exist")
    for value in values:
        if not is_label_value(value):
            raise ValueError(f'values: Invalid value: "{value}": not a label value')
    return Requirement(key, operator, values, bound)


class Selector(msgspec.Struct, frozen=True):
    """Requirements that must all hold; ``nothing`` matches no labels at all."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether labels are selected."""
        if self.nothing:
            return False
        return all(requirement.matches(labels) for requirement in self.requirements)


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(nothing=True)


def label_selector(selector: LabelSelector | None) -> Selector:
    """Compile a label selector; none selects nothing, an empty one everything.

    Raises ValueError if a requirement is not valid.
    """
    if selector is None:
        return NOTHING
    found = [requirement(key, "In", (value,)) for key, value in selector.match_labels.items()]
    found += [
        requirement(r.key, r.operator, r.values, LABEL_OPERATORS)
        for r in selector.match_expressions
    ]
    return Selector(tuple(sorted(found, key=lambda r: r.key)))


def equality_selector(labels: Mapping[str, str]) -> Selector:
    """Compile a map of labels which must all be there with these values (nodeSelector)."""
    return Selector(tuple(Requirement(k, "In", (v,)) for k, v in sorted(labels.items())))


NodePredicate = Callable[[Mapping[str, str], str], bool]
"""Whether a node with these labels and this name matches."""


def node_term(term: NodeSelectorTerm) -> NodePredicate | None:
    """Compile a node selector term; None if it is empty, which matches no node.

    Raises ValueError if a requirement is not valid.
    """
    if not term.match_expressions and not term.match_fields:
        return None
    labels = Selector(
        tuple(requirement(r.key, r.operator, r.values) for r in term.match_expressions)
    )
    fields = [_field_requirement(r) for r in term.match_fields]

    def matches(node_labels: Mapping[str, str], name: str) -> bool:
        return labels.matches(node_labels) and all(
            ((name if key == NAME_FIELD else "") == value) is wanted
            for key, value, wanted in fields
        )

    return matches


def _field_requirement(r: NodeSelectorRequirement) -> tuple[str, str, bool]:
    """Return field, value and whether they must be equal."""
    if r.operator not in ("In", "NotIn"):
        raise ValueError(
            f'operator: Unsupported value: "{r.operator}": supported values: "In", "NotIn"'
        )
    if len(r.values) != 1:
        raise ValueError("values: must have one element")
    return r.key, r.values[0], r.operator == "In"


class NodeMatcher:
    """A node affinity, compiled: asks for many nodes.

    A required term that is not valid matches no node, as in Kubernetes, where only creating the
    pod would have refused it. Preferred terms that are not valid are listed in ``errors``:
    kube-scheduler fails such a pod when it scores nodes.
    """

    __slots__ = ("_preferred", "_required", "errors")

    def __init__(self, affinity: NodeAffinity | None) -> None:
        required = affinity.required if affinity else None
        preferred = affinity.preferred if affinity else ()
        self._required = None if required is None else _required_terms(required)
        self._preferred, self.errors = _preferred_terms(preferred)

    @property
    def has_required(self) -> bool:
        """Whether there is a required part; with no terms in it, it matches no node."""
        return self._required is not None

    @property
    def has_preferred(self) -> bool:
        """Whether a preferred term can give a score."""
        return bool(self._preferred)

    def required_matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Tell whether one required term matches; true if nothing is required."""
        if self._required is None:
            return True
        return any(term(labels, name) for term in self._required)

    def preferred_score(self, labels: Mapping[str, str], name: str) -> int:
        """Return the sum of the weights of the preferred terms that match; 0 without any."""
        return sum(weight for weight, term in self._preferred if term(labels, name))


def _required_terms(selector: NodeSelector) -> tuple[NodePredicate, ...]:
    terms = []
    for term in selector.node_selector_terms:
        try:
            compiled = node_term(term)
        except ValueError:
            continue  # a term that is not valid matches no node
        if compiled is not None:
            terms.append(compiled)
    return tuple(terms)


def _preferred_terms(
    preferred: tuple[PreferredSchedulingTerm, ...],
) -> tuple[tuple[tuple[int, NodePredicate], ...], tuple[str, ...]]:
    terms, errors = [], []
    for index, term in enumerate(preferred):
        if term.weight == 0:
            continue
        try:
            compiled = node_term(term.preference)
        except ValueError as error:
            errors.append(f"[{index}].{error}")
            continue
        if compiled is not None:
            terms.append((term.weight, compiled))
    return tuple(terms), tuple(errors)


@lru_cache(maxsize=4096)
def node_matcher(affinity: NodeAffinity | None) -> NodeMatcher:
    """Return the compiled form of a node affinity; equal affinities share it."""
    return NodeMatcher(affinity)


def required_matches(affinity: NodeAffinity | None, labels: Mapping[str, str], name: str) -> bool:
    """Tell whether a node meets the required part; true without one."""
    return node_matcher(affinity).required_matches(labels, name)


def preferred_score(affinity: NodeAffinity | None, labels: Mapping[str, str], name: str) -> int:
    """Return the sum of the weights of the preferred terms that a node matches."""
    return node_matcher(affinity).preferred_score(labels, name)


def required_node_names(affinity: NodeAffinity | None) -> frozenset[str] | None:
    """Return the only nodes that the required terms allow by name; None if they name none.

    The PreFilter result of NodeAffinity: inside a term the ``metadata.name In`` lists intersect,
    over the terms they unite, and one term without such a list allows every node. An empty set
    means that every term contradicts itself.
    """
    if affinity is None or affinity.required is None:
        return None
    names: frozenset[str] | None = None
    for term in affinity.required.node_selector_terms:
        lists = [
            frozenset(r.values)
            for r in term.match_fields
            if r.key == NAME_FIELD and r.operator == "In"
        ]
        if not lists:
            return None
        names = (names or frozenset()) | frozenset.intersection(*lists)
    return names
