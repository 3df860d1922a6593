"""Names that a policy reads and that a snapshot of a cluster does not have (PS410).

Only constants are compared: what a parameter names is set per cluster. If the snapshot has no
object of a kind, its names are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from policy_sched.errors import Diagnostic
from policy_sched.language.check import Checked, CheckedPolicy, diagnostic
from policy_sched.language.diagnostics import PolicySource, Problem, did_you_mean
from policy_sched.language.lint.visitor import expressions, walk
from policy_sched.language.stdlib import selector
from policy_sched.language.syntax import Call, Const, Core, Field, Has, Index, ListLit
from policy_sched.language.values import RESOURCES

UNKNOWN: Final = "PS410"
_KINDS: Final = {"Node": "node", "Pod": "pod", "Namespace": "namespace"}
_WELL_KNOWN_TAINTS: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that Kubernetes puts on nodes that are not well: rarely there in a snapshot."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The names of a snapshot. ``labels`` and ``annotations`` are by kind: Node, Pod, Namespace.

    A kind that is not there, and None, mean that the snapshot says nothing of such names.
    """

    labels: Mapping[str, frozenset[str]] = field(default_factory=dict)
    annotations: Mapping[str, frozenset[str]] = field(default_factory=dict)
    resources: frozenset[str] | None = None
    taints: frozenset[str] | None = None
    priority_classes: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class _Name:
    """A constant that names something, what it names, and the names that there are.

    ``word``: the name, where the constant holds more than that.
    """

    constant: Const
    missing: str
    known: frozenset[str] | None
    word: str = ""


def unknown_names(
    source: PolicySource, policy: CheckedPolicy, vocabulary: Vocabulary
) -> list[Diagnostic]:
    """Return a warning for each name in a policy's rules that the snapshot has not."""
    checked = [one for one, _ in expressions(policy)]
    for function in source.functions:
        known = policy.functions.get(function.name)
        if known is not None:
            checked.append(Checked(known.body, function.expression))
    found = []
    for one in checked:
        context = f"policy {policy.name}" + (f", {one.text.path}" if one.text.path else "")
        problems = _problems(one.core, vocabulary, one.text.text)
        found += [diagnostic(it, one.text, context) for it in problems]
    return sorted(set(found))


def _problems(tree: Core, vocabulary: Vocabulary, written: str) -> Iterator[Problem]:
    for part in walk(tree):
        for name in _names(part, vocabulary):
            text = name.word or str(name.constant.value)
            if name.known is None or text in name.known:
                continue
            start, end = _place(name, written)
            message = f"{name.missing} '{text}'{did_you_mean(text, name.known)}"
            yield Problem(start, end, UNKNOWN, message, "")


def _place(name: _Name, written: str) -> tuple[int, int]:
    """Return the span of a name: the constant, or the word in it if that is found there."""
    span = name.constant.span
    word = re.escape(name.word)
    inside = re.search(rf"(?<![\w./-]){word}(?![\w./-])", written[span.start : span.end])
    if not name.word or inside is None:
        return span.start, span.end
    return span.start + inside.start(), span.start + inside.end()


def _names(part: Core, vocabulary: Vocabulary) -> Iterator[_Name]:
    """Yield the names that one part of a tree reads by a constant."""
    match part:
        case (
            Index(operand=operand, index=Const() as key) | Has(operand=operand, key=Const() as key)
        ):
            yield from _entry(operand, key, vocabulary)
        case Call(overload="in_any_map" | "in_string_resources", args=(Const() as key, operand)):
            yield from _entry(operand, key, vocabulary)
        case Call(overload="domain_string" | "domains_string", args=(Const() as key,)):
            yield _label("Node", key, vocabulary)
        case Call(overload="matches_selector_map", args=(chosen, operand)):
            yield from _selected(chosen, operand, vocabulary)
        case Call(overload="taint_string_string_string", args=(Const() as key, *_)):
            yield from _taint(key, vocabulary)
        case Call(overload="eq_any_any" | "ne_any_any" | "in_any_list", args=(one, other)):
            yield from _compared(one, other, vocabulary)
            yield from _compared(other, one, vocabulary)


def _entry(operand: Core, key: Const, vocabulary: Vocabulary) -> Iterator[_Name]:
    """Yield a label, an annotation or a resource, if that is what the entry of a map is."""
    if operand.type == RESOURCES:
        yield _Name(key, "no node or pod of the snapshot has the resource", vocabulary.resources)
        return
    for part in walk(operand):  # under an optional there is a call around the field
        match part:
            case Field(name="labels", operand=owner) if owner.type.name in _KINDS:
                yield _label(owner.type.name, key, vocabulary)
            case Field(name="annotations", operand=owner) if owner.type.name in _KINDS:
                kind = owner.type.name
                missing = f"no {_KINDS[kind]} of the snapshot has the annotation"
                yield _Name(key, missing, vocabulary.annotations.get(kind))


def _selected(chosen: Core, operand: Core, vocabulary: Vocabulary) -> Iterator[_Name]:
    """Yield the keys of a constant selector that is held against labels or annotations."""
    match chosen:
        case Call(overload="selector_string", args=(Const(value=str() as text) as constant,)):
            for one in selector(text).requirements:
                for name in _entry(operand, constant, vocabulary):
                    yield replace(name, word=one.key)


def _label(kind: str, key: Const, vocabulary: Vocabulary) -> _Name:
    missing = f"no {_KINDS[kind]} of the snapshot has the label"
    return _Name(key, missing, vocabulary.labels.get(kind))


def _taint(key: Const, vocabulary: Vocabulary) -> Iterator[_Name]:
    if not str(key.value).startswith(_WELL_KNOWN_TAINTS):
        yield _Name(key, "no node of the snapshot has a taint", vocabulary.taints)


def _compared(one: Core, other: Core, vocabulary: Vocabulary) -> Iterator[_Name]:
    """Yield what a field is compared with: a taint's key, or a pod's priority class."""
    if not isinstance(one, Field):
        return
    constants = other.elements if isinstance(other, ListLit) else (other,)
    for constant in constants:
        if not isinstance(constant, Const) or not constant.value:
            continue
        if one.name == "key" and one.operand.type.name == "Taint":
            yield from _taint(constant, vocabulary)
        elif one.name == "priorityClassName":
            yield _Name(
                constant, "no priority class of the snapshot is", vocabulary.priority_classes
            )
