"""Lints of a policy: what is well formed and still not what its author can have meant.

Theory of operation. Each lint looks at the typed trees of a checked policy, where names and
overloads are settled; constant conditions and failures come from the compiler, which knows the
ranges of columns. A value that depends on a parameter is left alone: another value changes it.
This module has unused names (PS404), suffixes (PS406), time and pod identity (PS420, PS421), and
constant names that a snapshot of a cluster does not have (PS410), for kinds that it has objects of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from policy_sched.errors import Diagnostic
from policy_sched.language.check import URL_PARAM, Checked, CheckedPolicy, diagnostic, walk
from policy_sched.language.diagnostics import PolicySource, Problem, Text, did_you_mean
from policy_sched.language.lint.conditions import (
    VARIABLES,
    Finding,
    Trees,
    conditions,
    expressions,
    filter_order,
    possible_errors,
)
from policy_sched.language.stdlib import selector
from policy_sched.language.syntax import ast
from policy_sched.language.values import types

UNKNOWN: Final = "PS410"
_KINDS: Final = {"Node": "node", "Pod": "pod", "Namespace": "namespace"}
_WELL_KNOWN_TAINTS: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that Kubernetes puts on nodes that are not well: rarely there in a snapshot."""


class Vocabulary(msgspec.Struct, frozen=True):
    """The names of a snapshot. ``labels`` and ``annotations`` are by kind: Node, Pod, Namespace.

    If a kind is missing or None, the snapshot has no such names, and none is checked.
    """

    labels: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict)
    annotations: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict)
    resources: frozenset[str] | None = None
    taints: frozenset[str] | None = None
    priority_classes: frozenset[str] | None = None
    attributes: frozenset[str] | None = None
    """Attributes of devices, in every spelling."""
    capacities: frozenset[str] | None = None
    """Capacities of devices, in every spelling."""


class _Name(msgspec.Struct, frozen=True):
    """A constant that names something, what it names, and the names that there are.

    ``word``: the name, where the constant holds more than that.
    """

    constant: ast.Const
    missing: str
    known: frozenset[str] | None
    word: str = ""


def unknown_names(
    source: PolicySource, policy: CheckedPolicy, vocabulary: Vocabulary
) -> list[Diagnostic]:
    """Return a warning for each name in a policy's rules that the snapshot has not."""
    checked = [expression for expression, _ in expressions(policy)]
    for function in source.functions:
        declared = policy.functions.get(function.name)
        if declared is not None:
            checked.append(Checked(declared.body, function.expression))
    diagnostics_of_names = []
    for expression in checked:
        context = _context(policy.name, expression.text)
        problems = _problems(expression.core, vocabulary, expression.text.text)
        diagnostics_of_names += [diagnostic(it, expression.text, context) for it in problems]
    return sorted(set(diagnostics_of_names))


def _problems(tree: ast.Core, vocabulary: Vocabulary, written: str) -> Iterator[Problem]:
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


def _names(part: ast.Core, vocabulary: Vocabulary) -> Iterator[_Name]:
    """Yield the names that one part of a tree reads by a constant."""
    match part:
        case (
            ast.Index(operand=operand, index=ast.Const() as key)
            | ast.Has(operand=operand, key=ast.Const() as key)
        ):
            yield from _entry(operand, key, vocabulary)
        case ast.Call(
            overload="in_any_map" | "in_string_resources", args=(ast.Const() as key, operand)
        ):
            yield from _entry(operand, key, vocabulary)
        case ast.Call(overload="domain_string" | "domains_string", args=(ast.Const() as key,)):
            yield _label("Node", key, vocabulary)
        case ast.Call(overload="matches_selector_map", args=(chosen, operand)):
            yield from _selected(chosen, operand, vocabulary)
        case ast.Call(overload="taint_string_string_string", args=(ast.Const() as key, *_)):
            yield from _taint(key, vocabulary)
        case ast.Call(overload="eq_any_any" | "ne_any_any" | "in_any_list", args=(side, other)):
            yield from _compared(side, other, vocabulary)
            yield from _compared(other, side, vocabulary)


def _entry(operand: ast.Core, key: ast.Const, vocabulary: Vocabulary) -> Iterator[_Name]:
    """Yield a label, an annotation or a resource, if that is what the entry of a map is."""
    if operand.type == types.RESOURCES and _of_devices(operand):
        missing = "no device of the snapshot has the capacity"
        yield _Name(key, missing, vocabulary.capacities)
        return
    if operand.type == types.RESOURCES:
        yield _Name(key, "no node or pod of the snapshot has the resource", vocabulary.resources)
        return
    for part in walk(operand):  # under an optional there is a call around the field
        match part:
            case ast.Field(name="labels", operand=owner) if owner.type.name in _KINDS:
                yield _label(owner.type.name, key, vocabulary)
            case ast.Field(name="annotations", operand=owner) if owner.type.name in _KINDS:
                kind = owner.type.name
                missing = f"no {_KINDS[kind]} of the snapshot has the annotation"
                yield _Name(key, missing, vocabulary.annotations.get(kind))
            case ast.Field(name="attributes", operand=owner) if owner.type.name == "Device":
                missing = "no device of the snapshot has the attribute"
                yield _Name(key, missing, vocabulary.attributes)


def _of_devices(operand: ast.Core) -> bool:
    """Return whether amounts are those of a device, or what is asked of one."""
    owners = {"Device", "DeviceRequest", "AllocatedDevice"}
    return isinstance(operand, ast.Field) and operand.operand.type.name in owners


def _selected(chosen: ast.Core, operand: ast.Core, vocabulary: Vocabulary) -> Iterator[_Name]:
    """Yield the keys of a constant selector that is held against labels or annotations."""
    match chosen:
        case ast.Call(
            overload="selector_string", args=(ast.Const(value=str() as text) as constant,)
        ):
            for requirement in selector(text).requirements:
                for name in _entry(operand, constant, vocabulary):
                    yield replace(name, word=requirement.key)


def _label(kind: str, key: ast.Const, vocabulary: Vocabulary) -> _Name:
    missing = f"no {_KINDS[kind]} of the snapshot has the label"
    return _Name(key, missing, vocabulary.labels.get(kind))


def _taint(key: ast.Const, vocabulary: Vocabulary) -> Iterator[_Name]:
    if not str(key.value).startswith(_WELL_KNOWN_TAINTS):
        yield _Name(key, "no node of the snapshot has a taint", vocabulary.taints)


def _compared(compared: ast.Core, other: ast.Core, vocabulary: Vocabulary) -> Iterator[_Name]:
    """Yield what a field is compared with: a taint's key, or a pod's priority class."""
    if not isinstance(compared, ast.Field):
        return
    constants = other.elements if isinstance(other, ast.ListLit) else (other,)
    for constant in constants:
        if not isinstance(constant, ast.Const) or not constant.value:
            continue
        if compared.name == "key" and compared.operand.type.name == "Taint":
            yield from _taint(constant, vocabulary)
        elif compared.name == "priorityClassName":
            yield _Name(
                constant, "no priority class of the snapshot is", vocabulary.priority_classes
            )


SUFFIX: Final = "PS406"
_BINARY: Final = re.compile(r"[KMGTPE]i$")


def suffixes(tree: ast.Core) -> Iterator[Problem]:
    """Yield cpu with a suffix of bytes, and bytes with a suffix of cpu."""
    for part in walk(tree):
        match part:
            case ast.Call(
                overload="quantity_string",
                args=(ast.Const(value=str() as text, span=span),),
                type=types.QuantityType(dimension=dimension),
            ):
                message = _unsuited(text, dimension)
                if message:
                    yield Problem(span.start, span.end, SUFFIX, message, _way_out(text))


def _unsuited(text: str, dimension: str) -> str:
    if dimension == "cpu" and _BINARY.search(text):
        return f"{text} is an amount of bytes, and it meets cpu"
    if dimension == "bytes" and text.endswith("m"):
        return f"{text} is {text[:-1]} thousandths of a byte, and it meets an amount of bytes"
    return ""


def _way_out(text: str) -> str:
    if text.endswith("m"):
        return f'write "{text[:-1]}M" or "{text[:-1]}Mi" for megabytes or mebibytes'
    return f'cpu is counted in cores: "{text.rstrip("KMGTPEi")}", or in thousandths: "500m"'


ORDERED: Final = "PS414"
_ORDERS: Final = frozenset(
    {"lt_string_string", "le_string_string", "gt_string_string", "ge_string_string"}
)
_NUMBER: Final = re.compile(r"[-+]?\d+(\.\d+)?")


def ordered_texts(tree: ast.Core) -> Iterator[Problem]:
    """Yield orders of texts where one of the texts is that of a number."""
    for part in walk(tree):
        if not isinstance(part, ast.Call) or part.overload not in _ORDERS:
            continue
        texts = [arg for arg in part.args if _number_text(arg)]
        if texts:
            span = texts[0].span
            message = 'numbers as texts are ordered by their characters: "9" is more than "10"'
            hint = (
                "compare numbers: int(...) or double(...) of a text, a number without string(...)"
            )
            yield Problem(span.start, span.end, ORDERED, message, hint)


def _number_text(tree: ast.Core) -> bool:
    """Return whether a text is that of a number: made of one, or written so."""
    match tree:
        case ast.Const(value=str() as text):
            return _NUMBER.fullmatch(text) is not None
        case ast.Call(overload=overload):
            return overload in ("string_int", "string_double")
    return False


TIME: Final = "PS420"
NO_BATCH: Final = "PS421"
_OWN: Final = ("pod.uid", "pod.name", "now", "queue")
"""What no two pods share: their evaluations cannot be shared either."""


def time_that_passes(trees: Trees, policy: CheckedPolicy) -> Iterator[Finding]:
    """Yield rules that read the time otherwise than by comparing it, without `requeue.every`."""
    if policy.requeue is not None and policy.requeue.every is not None:
        return
    for checked in policy.rejecting:
        if "now" in trees.reads(checked.core) and not _is_timed(trees, policy, checked):
            message = "this rule reads `now`, and no event reports that time has passed"
            hint = "set when rejected pods are retried: requeue: {every: 1m}; a comparison of `now`"
            hint += " with what is known of the pod, such as now - pod.creationTime, needs none"
            yield Finding.of_all(checked.text, TIME, message, hint)


def _is_timed(trees: Trees, policy: CheckedPolicy, checked: Checked) -> bool:
    """Return whether the moments are known at which a rule changes by itself."""
    moments = policy.moments(checked)
    terms = [term for moment in moments.stated for _, term in moment.terms]
    reads = {name.partition(".")[0] for term in terms for name in trees.reads(term)}
    return moments.complete and "node" not in reads


def pods_that_differ(trees: Trees, policy: CheckedPolicy) -> Iterator[Finding]:
    """Yield rules over all nodes that must be evaluated for every pod."""
    score = (
        () if policy.score is None else (policy.score.expression, *policy.score.match_conditions)
    )
    for checked in (*_rejecting(policy), *score):
        reads = trees.reads(checked.core)
        names = [name for name in _OWN if any(r == name or r.startswith(f"{name}.") for r in reads)]
        if names:
            message = f"pods cannot share the work of this rule: it reads {', '.join(names)}"
            yield Finding.of_all(checked.text, NO_BATCH, message, "harmless if intended")


def _rejecting(policy: CheckedPolicy) -> Iterator[Checked]:
    yield from policy.match_conditions
    if policy.pre_filter is not None and policy.pre_filter.node_names is not None:
        yield policy.pre_filter.node_names
    for rule in policy.filter:
        yield rule.expression


UNUSED = "PS404"
_READ_BY_EXPERIMENTS: Final = "devices"
"""A variable that says what a bound pod gets of each device of its node."""


def _used(trees: Trees) -> frozenset[str]:
    """Return what the sections and experiments read, through variables and functions."""
    own = {id(tree) for name, tree in trees.policy.variables if name != _READ_BY_EXPERIMENTS}
    used = frozenset(
        name
        for checked, _ in trees.expressions
        if id(checked) not in own
        for name in trees.reads(checked.core)
    )
    return used | {VARIABLES + _READ_BY_EXPERIMENTS}


def unused_variables(trees: Trees, source: PolicySource) -> Iterator[Finding]:
    """Yield variables that no section reads, not even through others."""
    used = _used(trees)
    for variable in source.variables:
        if VARIABLES + variable.name not in used:
            message = f"no rule reads variables.{variable.name}"
            yield Finding.of_all(variable.expression, UNUSED, message, "remove it, or use it")


def unused_inputs(trees: Trees, source: PolicySource) -> Iterator[Finding]:
    """Yield inputs that no rule, no aggregate and no quota reads."""
    kinds = [kind for quota in source.quotas for kind in (quota.objects, quota.parents)]
    used = _used(trees) | {kind.of.text for kind in kinds if kind is not None}
    if "inputs" not in used:
        for given in source.inputs:
            if f"inputs.{given.name.text}" not in used:
                message = f"no rule reads inputs.{given.name.text}"
                hint = "remove it: its objects are followed in vain"
                yield Finding.of_all(given.name, UNUSED, message, hint)


def unused_functions(trees: Trees, source: PolicySource) -> Iterator[Finding]:
    """Yield functions that no section calls, and parameters that a function does not read."""
    used = _used(trees)
    for function in source.functions:
        text = function.expression
        if f"{function.name}()" not in used:
            message = f"no rule calls {function.name}()"
            yield Finding.of_all(text, UNUSED, message, "remove it, or use it")
        declared = trees.policy.functions.get(function.name)
        if declared is None:
            continue
        read = {part.name for part in walk(declared.body) if isinstance(part, ast.Var)}
        for unique, (name, _) in zip(declared.params, function.params, strict=True):
            if unique not in read:
                message = f"{function.name}() does not read its parameter {name}"
                yield Finding.of_all(text, UNUSED, message, "remove it")


def unused_params(source: PolicySource, policy: CheckedPolicy) -> list[str]:
    """Return the parameters of a policy that nothing reads."""
    trees = Trees(source, policy)
    bodies = [function.body for function in policy.functions.values()]
    bodies += [checked.core for checked, _ in trees.expressions]
    names = frozenset(name for body in bodies for name in trees.reads(body))
    names |= {f"params.{name}" for i in source.inputs for name in URL_PARAM.findall(i.url)}
    if "params" in names:  # by a name that is known only at run time
        return []
    return [name for name in policy.params if f"params.{name}" not in names]


def lint(source: PolicySource, policy: CheckedPolicy) -> list[Diagnostic]:
    """Return the warnings and notes about a policy without errors, in the order of their places.

    Parameters that nothing reads have no place here: see `unused_params`.
    """
    trees = Trees(source, policy)
    findings = [
        *_in_definitions(trees, source),
        *(
            finding
            for checked, rule in trees.expressions
            for finding in _anywhere(trees, checked, rule=rule)
        ),
        *filter_order(trees, policy),
        *possible_errors(trees, policy),
        *time_that_passes(trees, policy),
        *pods_that_differ(trees, policy),
    ]
    shown = [
        diagnostic(finding.problem, finding.text, _context(policy.name, finding.text))
        for finding in findings
    ]
    return sorted(set(shown))


def _context(policy: str, text: Text) -> str:
    return f"policy {policy}, {text.path}" if text.path else f"policy {policy}"


def _in_definitions(trees: Trees, source: PolicySource) -> Iterator[Finding]:
    yield from unused_variables(trees, source)
    yield from unused_inputs(trees, source)
    yield from unused_functions(trees, source)
    for function in source.functions:
        declared = trees.policy.functions.get(function.name)
        if declared is not None:
            yield from _anywhere(trees, Checked(declared.body, function.expression), rule=False)


def _anywhere(trees: Trees, checked: Checked, *, rule: bool) -> Iterator[Finding]:
    tree = checked.core
    problems = (*conditions(trees, tree, rule=rule), *suffixes(tree), *ordered_texts(tree))
    return (Finding(problem, checked.text) for problem in problems)
