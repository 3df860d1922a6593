"""Matching of labels and nodes: label selectors, node selector terms, node affinity.

The facts are those of apimachinery's ``labels`` and ``fields`` packages and of
component-helpers' ``nodeaffinity``. A selector is compiled once and evaluated for many nodes.

Label selectors in their text form (``app=web,tier in (a,b)``) follow the grammar of
apimachinery's ``labels.Parse``; a text is read once, from left to right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, repeat
from typing import Final

import msgspec

from policy_sched.model import meta
from policy_sched.model.formats import label_value, qualified, quoted

NAME_FIELD: Final = "metadata.name"
"""The only field of a node that a field requirement can read; any other is empty."""

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?")
_DOMAIN: Final = re.compile(
    r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*"
)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")

LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
NODE_OPERATORS: Final = (*LABEL_OPERATORS, "Gt", "Lt")
NOT_EMPTY: Final = "values set can't be empty"


def is_qualified_name(text: str) -> bool:
    """Return whether a text is a label key: a name of up to 63 characters, optional prefix."""
    domain, slash, name = text.rpartition("/")
    if slash and (len(domain) > 253 or not _DOMAIN.fullmatch(domain)):
        return False
    return len(name) <= 63 and _NAME.fullmatch(name) is not None


def int64(text: str) -> int | None:
    """Return a decimal integer as Go's ParseInt reads it, None if it is invalid or beyond int64."""
    if len(text) > 4096 or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One checked requirement on labels; see `requirement`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    bound: int = 0

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet the requirement; NotIn holds if the key is missing."""
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

    Raises ValueError, with Kubernetes' message, if key, operator and values are not valid together.
    """
    values = tuple(values)
    faults = requirement_faults(key, operator, values, operators=operators)
    if faults:
        raise ValueError(aggregate(faults))
    bound = int(values[0]) if operator in ("Gt", "Lt") else 0
    return Requirement(key, operator, values, bound)


def requirement_faults(
    key: str,
    operator: str,
    values: Sequence[str],
    at: str = "",
    operators: tuple[str, ...] = NODE_OPERATORS,
) -> list[str]:
    """Return the problems of key, operator and values, each with its path.

    ``at``: the path of the requirement, such as ``[0].matchExpressions[1].``.
    """
    if operator not in operators:
        supported = ", ".join(f'"{name}"' for name in sorted(operators))
        return [
            f"{at}operator: Unsupported value: {quoted(operator)}: supported values: {supported}"
        ]
    faults = [f"{at}key: Invalid value: {quoted(key)}: {why}" for why in joined(qualified(key))]
    if operator in ("In", "NotIn"):
        if not values:
            faults.append(_wrong_values(at, values, "for 'in', 'notin' operators, " + NOT_EMPTY))
    elif operator in ("Gt", "Lt"):
        words = "for 'Gt', 'Lt' operators, "
        if len(values) != 1:
            faults.append(_wrong_values(at, values, f"{words}exactly one value is required"))
        for i, value in enumerate(values):
            if int64(value) is None:
                place = f"{at}values[{i}]: Invalid value: {quoted(value)}: "
                faults.append(f"{place}{words}the value must be an integer")
    elif values:
        words = "values set must be empty for exists and does not exist"
        faults.append(_wrong_values(at, values, words))
    for i, value in enumerate(values):
        place = f"{at}values[{i}][{key}]: Invalid value: {quoted(value)}"
        faults += [f"{place}: {why}" for why in joined(label_value(value))]
    return faults


def _wrong_values(at: str, values: Sequence[str], why: str) -> str:
    shown = msgspec.json.encode(values).decode() if values else "null"
    return f"{at}values: Invalid value: {shown}: {why}"


def joined(faults: Iterable[str]) -> list[str]:
    """Return the problems of one value as one sentence, or nothing."""
    text = "; ".join(faults)
    return [text] if text else []


def aggregate(faults: Iterable[str]) -> str:
    """Return several errors in one text, each once, in the form of Go's aggregate errors."""
    once = list(dict.fromkeys(faults))
    return once[0] if len(once) == 1 else f"[{', '.join(once)}]"


class Selector(msgspec.Struct, frozen=True):
    """Requirements that must all hold; ``nothing`` matches no labels at all."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels are selected."""
        if self.nothing:
            return False
        return all(requirement.matches(labels) for requirement in self.requirements)


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(nothing=True)


def label_selector(selector: meta.LabelSelector | None) -> Selector:
    """Compile a label selector; None selects nothing, an empty one everything.

    Raises ValueError if a requirement is not valid.
    """
    if selector is None:
        return NOTHING
    requirements = [
        requirement(key, "In", (value,)) for key, value in selector.match_labels.items()
    ]
    requirements += [
        requirement(r.key, r.operator, r.values, LABEL_OPERATORS)
        for r in selector.match_expressions
    ]
    return Selector(tuple(sorted(requirements, key=lambda r: r.key)))


def equality_selector(labels: Mapping[str, str]) -> Selector:
    """Compile a map of labels that must all have these values (nodeSelector)."""
    return Selector(tuple(Requirement(k, "In", (v,)) for k, v in sorted(labels.items())))


NodePredicate = Callable[[Mapping[str, str], str], bool]
"""Whether a node with these labels and this name matches."""


def node_term(term: meta.NodeSelectorTerm) -> NodePredicate | None:
    """Compile a node selector term; None if it is empty, which matches no node.

    Raises ValueError if a requirement is not valid.
    """
    if not term.match_expressions and not term.match_fields:
        return None
    faults = term_faults(term)
    if faults:
        raise ValueError(aggregate(faults))
    labels = Selector(
        tuple(requirement(r.key, r.operator, r.values) for r in term.match_expressions)
    )
    fields = [(r.key, r.values[0], r.operator == "In") for r in term.match_fields]

    def matches(node_labels: Mapping[str, str], name: str) -> bool:
        return labels.matches(node_labels) and all(
            ((name if key == NAME_FIELD else "") == value) is wanted
            for key, value, wanted in fields
        )

    return matches


def term_faults(term: meta.NodeSelectorTerm, at: str = "") -> list[str]:
    """Return the problems of a node selector term, each with its path."""
    faults: list[str] = []
    for i, r in enumerate(term.match_expressions):
        faults += requirement_faults(r.key, r.operator, r.values, f"{at}matchExpressions[{i}].")
    for i, r in enumerate(term.match_fields):
        here = f"{at}matchFields[{i}]."
        if r.operator not in ("In", "NotIn"):
            words = f"Unsupported value: {quoted(r.operator)}"
            faults.append(f'{here}operator: {words}: supported values: "In", "NotIn"')
        elif len(r.values) != 1:
            faults.append(_wrong_values(here, r.values, "must have one element"))
    return faults


class NodeMatcher:
    """A compiled node affinity.

    A required term that is not valid matches no node. ``error`` lists the preferred terms that are
    not valid: kube-scheduler fails such a pod when it scores nodes.
    """

    __slots__ = ("_preferred", "_required", "error")

    def __init__(self, affinity: meta.NodeAffinity | None) -> None:
        required = affinity.required if affinity else None
        preferred = affinity.preferred if affinity else ()
        self._required = None if required is None else _required_terms(required)
        self._preferred, self.error = _preferred_terms(preferred)

    @property
    def has_required(self) -> bool:
        """Whether there is a required part; with no terms in it, it matches no node."""
        return self._required is not None

    @property
    def has_preferred(self) -> bool:
        """Whether a preferred term can give a score."""
        return bool(self._preferred)

    def required_matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Return whether one required term matches; true if nothing is required."""
        if self._required is None:
            return True
        return any(term(labels, name) for term in self._required)

    def preferred_score(self, labels: Mapping[str, str], name: str) -> int:
        """Return the sum of the weights of the preferred terms that match; 0 without any."""
        return sum(weight for weight, term in self._preferred if term(labels, name))


def _required_terms(selector: meta.NodeSelector) -> tuple[NodePredicate, ...]:
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
    preferred: tuple[meta.PreferredSchedulingTerm, ...],
) -> tuple[tuple[tuple[int, NodePredicate], ...], str]:
    terms, faults = [], []
    for index, term in enumerate(preferred):
        if term.weight == 0:
            continue
        wrong = term_faults(term.preference, f"[{index}].")
        compiled = None if wrong else node_term(term.preference)
        if compiled is not None:
            terms.append((term.weight, compiled))
        faults += wrong
    return tuple(terms), aggregate(faults) if faults else ""


@lru_cache(maxsize=4096)
def node_matcher(affinity: meta.NodeAffinity | None) -> NodeMatcher:
    """Return the compiled form of a node affinity; equal affinities share it."""
    return NodeMatcher(affinity)


def required_matches(
    affinity: meta.NodeAffinity | None, labels: Mapping[str, str], name: str
) -> bool:
    """Return whether a node meets the required part; true without one."""
    return node_matcher(affinity).required_matches(labels, name)


def preferred_score(
    affinity: meta.NodeAffinity | None, labels: Mapping[str, str], name: str
) -> int:
    """Return the sum of the weights of the preferred terms that a node matches."""
    return node_matcher(affinity).preferred_score(labels, name)


def required_node_names(affinity: meta.NodeAffinity | None) -> frozenset[str] | None:
    """Return the only nodes that the required terms allow by name; None if they name none.

    The PreFilter result of NodeAffinity: within a term the ``metadata.name In`` lists intersect,
    across terms they unite, and one term without such a list allows every node. An empty set
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


_TOKEN: Final = re.compile(r"\s*(==|!=|[=!<>(),]|[^\s=!<>(),]+)")
_SPECIAL: Final = frozenset(("==", "!=", *"=!<>(),"))
_END: Final = ""
_OPERATORS: Final = {
    "in": "In",
    "notin": "NotIn",
    "=": "In",
    "==": "In",
    "!=": "NotIn",
    ">": "Gt",
    "<": "Lt",
}
#: Characters of a token that an error shows.
_SHOWN: Final = 40


def parse_selector(text: str, operators: tuple[str, ...] = NODE_OPERATORS) -> Selector:
    """Parse a selector; an empty text selects everything.

    Raises ValueError if the text is not a selector, or uses other operators.
    """
    return Selector(tuple(_Parser(text, operators).requirements()))


class _Parser:
    """Parses one text token by token."""

    def __init__(self, text: str, operators: tuple[str, ...]) -> None:
        self._tokens = chain(_tokens(text), repeat(_END))
        self._next = next(self._tokens)
        self._allowed = operators

    def _take(self) -> str:
        token, self._next = self._next, next(self._tokens)
        return token

    def _name(self, wanted: str) -> str:
        if self._next in _SPECIAL or self._next == _END:
            raise _unexpected(self._next, wanted)
        return self._take()

    def requirements(self) -> Iterator[Requirement]:
        """Yield the requirements between commas."""
        if self._next == _END:
            return
        while True:
            yield self._requirement()
            if self._next == _END:
                return
            if self._next != ",":
                raise _unexpected(self._next, "',' or the end")
            self._take()

    def _requirement(self) -> Requirement:
        if self._next == "!":
            self._take()
            return requirement(self._name("a key"), "DoesNotExist", (), self._allowed)
        key = self._name("a key")
        if self._next in (",", _END):
            return requirement(key, "Exists", (), self._allowed)
        word = self._take()
        if word not in _OPERATORS:
            raise _unexpected(word, "an operator")
        values = self._set() if word in ("in", "notin") else (self._value(),)
        return requirement(key, _OPERATORS[word], values, self._allowed)

    def _value(self) -> str:
        return "" if self._next in (",", _END) else self._name("a value")

    def _set(self) -> tuple[str, ...]:
        if self._next != "(":
            raise _unexpected(self._next, "'('")
        self._take()
        if self._next == ")":
            self._take()
            return ()
        values: dict[str, None] = {}
        while True:
            value = "" if self._next in (",", ")") else self._name("a value")
            values[value] = None
            if (after := self._take()) == ")":
                return tuple(values)
            if after != ",":
                raise _unexpected(after, "',' or ')'")


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while token := _TOKEN.match(text, at):
        yield token[1]
        at = token.end()


def _unexpected(token: str, wanted: str) -> ValueError:
    if token == _END:
        return ValueError(f"found the end, expected {wanted}")
    shown = token if len(token) <= _SHOWN else f"{token[:_SHOWN]}..."
    return ValueError(f"found '{shown}', expected {wanted}")
