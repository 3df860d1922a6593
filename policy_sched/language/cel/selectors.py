"""Selectors over devices: the environment of ``device``, compiling, and asking about one device.

Expressions of other variables, whose types are given: the rules of custom resources. The checker of
types is imported for the first: few clusters have selectors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import msgspec

from policy_sched.language.cel.costs import MAX_COST, Shape, estimated_cost
from policy_sched.language.cel.evaluator import Evaluation
from policy_sched.language.cel.library_kubernetes import read_version
from policy_sched.language.cel.values import CelError, CelMap, Record, type_name
from policy_sched.language.diagnostics import Problem, did_you_mean
from policy_sched.language.stdlib import ANY, Environment, Section, Variable, selector_environment
from policy_sched.language.syntax import Span, ast, parse_cel, walk
from policy_sched.language.values import types
from policy_sched.model import Amount, quantity

#: Expressions that are kept compiled.
_KEPT: Final = 4096
_NATIVE: Final = {
    "string": "unsupported native conversion from string to 'bool'",
    "int": "unsupported type conversion from 'int' to bool",
    "double": "type conversion error from Double to 'bool'",
    "uint": "unsupported type conversion from 'uint' to bool",
    "bytes": "type conversion error from Bytes to 'bool'",
    "kubernetes.Semver": "type conversion error from 'Semver' to 'bool'",
}


class Selector(msgspec.Struct, frozen=True):
    """A compiled selector; ``error`` is upstream's reason why it is none.

    It has a tree unless a part of it is wrong. ``problems``: what is wrong with it in the words of
    the language, also what upstream accepts and what fails for every device.
    """

    text: str
    tree: ast.Node | None
    result: types.Type | None
    error: str = ""
    problems: tuple[Problem, ...] = ()
    too_complex: bool = False
    """It may take more work than kube-apiserver admits in a new object."""

    @property
    def result_type(self) -> str:
        """The checker's result type as upstream shows it."""
        assert self.result is not None, "it compiled"
        unknown = self.result in (types.DYN, types.UNKNOWN)
        return "google.protobuf.Any" if unknown else types.cel_name(self.result)

    def evaluate(self, device: Record, evaluation: Evaluation | None = None) -> tuple[bool, int]:
        """Return whether the device is selected, and the cost. Raises CelError."""
        result, cost = self.value(device, evaluation)
        if not isinstance(result, bool):
            name = type_name(result)
            why = _NATIVE.get(name, f"type conversion error from '{name}' to 'bool'")
            raise CelError(f"CEL result of type {name} could not be converted to bool: {why}")
        return result, cost

    def value(self, device: Record, evaluation: Evaluation | None = None) -> tuple[Any, int]:
        """Return the value for a device, of any type, and the cost. Raises CelError."""
        assert self.tree is not None, "it compiled"
        evaluation = Evaluation() if evaluation is None else evaluation
        return evaluation.value(self.tree, {"device": device}), int(evaluation.cost)


def check_selector(text: str) -> tuple[Problem, ...]:
    """Return what is wrong with a selector of an object that is about to be created."""
    selector: Selector = compile_selector(text, new=True)
    return selector.problems


def selector_type(text: str) -> types.Type | None:
    """Return the type of an expression over a device, of any type; None after a mistake."""
    tree, _ = parse_cel(text)
    if tree is None:
        return None
    from policy_sched.language.check import check_selector as checked  # noqa: PLC0415 - see above

    kind, unit = checked(tree, selector_environment())
    return None if unit.refusals else kind


@lru_cache(maxsize=_KEPT)
def compile_selector(text: str, *, new: bool = False) -> Selector:
    """Compile a selector over a device; of a ``new`` object as kube-apiserver admits it."""
    tree, problems = parse_cel(text)
    if tree is None:
        syntax = [(p.start, f"Syntax error: {p.message}") for p in problems]
        problems_of_text = tuple(map(_of_selector, problems))
        return Selector(text, None, None, compilation_failed(text, syntax), problems_of_text)
    from policy_sched.language.check import check_selector as checked  # noqa: PLC0415 - see above

    result, unit = checked(tree, selector_environment(new=new))
    problems_of_text = tuple(unit.problems)
    if unit.refusals:
        return Selector(text, None, None, compilation_failed(text, unit.refusals), problems_of_text)
    if result not in (types.BOOL, types.DYN, types.UNKNOWN):
        message = f"must evaluate to bool or the unknown type, not {types.cel_name(result)}"
        return Selector(text, tree, result, message, problems_of_text)
    cost = estimated_cost(tree) if new else 0
    if cost > MAX_COST:
        problems_of_text = (*problems_of_text, _cost_problem(text, cost))
    return Selector(text, tree, result, "", problems_of_text, cost > MAX_COST)


def compilation_failed(text: str, refusals: Sequence[tuple[int, str]]) -> str:
    """Return the message of an expression with mistakes, each at a character of it."""
    lines = []
    for at, message in refusals:
        start = text.rfind("\n", 0, at) + 1
        line, column = text.count("\n", 0, at) + 1, at - start
        end = text.find("\n", start)
        shown = text[start : len(text) if end < 0 else end].replace("\t", " ")
        lines.append(f"ERROR: <input>:{line}:{column + 1}: {message}")
        lines.append(f" | {shown}")
        lines.append(f" | {'.' * column}^")
    return "compilation failed: " + "\n".join(lines)


class Expression(msgspec.Struct, frozen=True):
    """A compiled expression over other variables; ``error`` is upstream's reason why it is none.

    ``cost``: units that it takes at most. ``reads``: the variables that it names.
    """

    tree: ast.Node | None = None
    result: types.Type | None = None
    error: str = ""
    cost: float = 0
    reads: frozenset[str] = frozenset()

    def value(self, scope: Mapping[str, Any], allowed: float) -> tuple[Any, int]:
        """Return the value, and the cost. Raises CelError, also beyond the ``allowed`` units."""
        assert self.tree is not None, "it compiled"
        evaluation = Evaluation(allowed)
        return evaluation.value(self.tree, scope), int(evaluation.cost)


def compile_expression(
    text: str, variables: Mapping[str, types.Type], shapes: Mapping[str, Shape]
) -> Expression:
    """Compile an expression over variables of some types; ``shapes``: how large they may be."""
    tree, problems = parse_cel(text)
    if tree is None:
        syntax = [(p.start, f"Syntax error: {p.message}") for p in problems]
        return Expression(error=compilation_failed(text, syntax))
    from policy_sched.language.check import check_selector as checked  # noqa: PLC0415 - see above

    result, unit = checked(tree, _environment_of(tuple(variables.items())))
    if unit.refusals:
        return Expression(error=compilation_failed(text, unit.refusals))
    if result == types.ERROR:
        return Expression(error="; ".join(problem.message for problem in unit.problems))
    return Expression(tree, result, "", estimated_cost(tree, shapes), frozenset(unit.reads))


@lru_cache(maxsize=256)
def _environment_of(variables: tuple[tuple[str, types.Type], ...]) -> Environment:
    return replace(
        selector_environment(new=True),
        variables={name: Variable(name, kind, "S", "") for name, kind in variables},
        sections={"selector": Section(ANY, frozenset(name for name, _ in variables), (), "")},
        habits={},
        elsewhere={},
    )


def _of_selector(problem: Problem) -> Problem:
    """Return a problem of the text with a way out that selectors have."""
    if problem.code != "PS501":
        return problem
    return replace(problem, hint="divide it into several selectors: all of them must be true")


def _cost_problem(text: str, cost: float) -> Problem:
    much = f"{cost:,.0f} units of cost" if math.isfinite(cost) else "work without a limit"
    message = f"a selector may take {MAX_COST:,} units of cost at most; this one may take {much}"
    hint = "loop over fewer attributes, or divide it into several selectors"
    return Problem(0, len(text), "PS503", message, hint)


def device_record(
    driver: str,
    attributes: Mapping[str, Any],
    capacity: Mapping[str, Amount],
    *,
    allow_multiple_allocations: bool,
) -> Record:
    """Return a device as selectors see it.

    ``attributes``: by name a bool, int, string, a version as ``("version", text)``, or None where
    the value is of a kind that selectors do not know. Raises CelError for what cannot be read.
    """
    by_domain: dict[str, dict[str, Any]] = {}
    for name, value in attributes.items():
        domain, short = _domain(name, driver)
        by_domain.setdefault(domain, {})[short] = _attribute(name, value)
    sizes: dict[str, dict[str, Any]] = {}
    for name, amount in capacity.items():
        domain, short = _domain(name, driver)
        sizes.setdefault(domain, {})[short] = quantity(amount)
    return Record(
        {
            "driver": driver,
            "allowMultipleAllocations": allow_multiple_allocations,
            "attributes": _domains(by_domain),
            "capacity": _domains(sizes),
        }
    )


def _domain(name: str, driver: str) -> tuple[str, str]:
    domain, slash, short = name.partition("/")
    return (domain, short) if slash else (driver, name)


def _domains(by_domain: Mapping[str, Mapping[str, Any]]) -> CelMap:
    return CelMap({domain: CelMap(entries) for domain, entries in by_domain.items()}, CelMap)


def _attribute(name: str, value: Any) -> Any:
    if isinstance(value, tuple):
        try:
            return read_version(value[1])
        except CelError as error:
            raise CelError(f"attribute {name}: parse semantic version: {error}") from None
    if value is None:
        raise CelError(f"attribute {name}: unsupported attribute value")
    return value


UNKNOWN: Final = "PS410"
_KINDS: Final = {"attributes": "attribute", "capacity": "capacity"}


class DeviceNames(msgspec.Struct, frozen=True):
    """The names of attributes and of capacities, by domain, that devices have."""

    attributes: Mapping[str, frozenset[str]]
    capacity: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, devices: Iterable[tuple[str, Iterable[str], Iterable[str]]]) -> DeviceNames:
        """Return the names of devices: of each its driver, its attributes and its capacities."""
        collected: tuple[dict[str, set[str]], dict[str, set[str]]] = ({}, {})
        for driver, *names in devices:
            for by_driver, listed in zip(collected, names, strict=True):
                by_driver.setdefault(driver, set())
                for name in listed:
                    domain, slash, short = name.partition("/")
                    by_driver.setdefault(domain if slash else driver, set()).add(
                        short if slash else name
                    )
        attributes, capacity = (
            {domain: frozenset(names) for domain, names in by_driver.items()}
            for by_driver in collected
        )
        return cls(attributes, capacity)


def unknown_attributes(text: str, known: DeviceNames) -> tuple[Problem, ...]:
    """Return a warning for each name in a selector that no device has."""
    tree, _ = parse_cel(text)
    return () if tree is None else tuple(sorted(set(_problems(tree, known))))


def _problems(tree: ast.Node, vocabulary: DeviceNames) -> Iterator[Problem]:
    for node, _ in walk(tree):
        step = _step(node)
        if step is None and isinstance(node, ast.Binary) and node.op == "in":
            left = node.left
            if isinstance(left, ast.Literal) and isinstance(left.value, str):
                step = node.right, left.value, left.span
        if step is None:
            continue
        operand, name, span = step
        kind = _field(operand)
        if kind and isinstance(node, ast.IndexExpr | ast.Select):
            domains = getattr(vocabulary, kind)
            if name not in domains:
                message = f"no device of the snapshot has {_KINDS[kind]} names of the domain"
                close = did_you_mean(name, domains)
                yield Problem(span.start, span.end, UNKNOWN, f"{message} '{name}'{close}")
            continue
        inner = _step(operand)
        kind = "" if inner is None else _field(inner[0])
        names = getattr(vocabulary, kind).get(inner[1]) if kind and inner is not None else None
        if names is not None and name not in names:
            message = f"no device of the snapshot has the {_KINDS[kind]} '{name}'"
            yield Problem(span.start, span.end, UNKNOWN, message + did_you_mean(name, names))


def _step(node: ast.Node) -> tuple[ast.Node, str, Span] | None:
    """Return operand, constant key and its place of ``operand.key`` or ``operand["key"]``."""
    match node:
        case ast.Select():
            return node.operand, node.name, node.name_span
        case ast.IndexExpr(index=ast.Literal(value=str() as key) as written):
            return node.operand, key, written.span
    return None


def _field(node: ast.Node) -> str:
    """Return "attributes" or "capacity" for that field of the device, "" for anything else."""
    match node:
        case ast.Select(operand=ast.Ident(name="device"), name=name) if name in _KINDS:
            return name
    return ""
