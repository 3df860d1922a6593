"""From text to results in three ways: the vector function, the scalar function, and the oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from policy_sched.cluster.cache import Cache
from policy_sched.cluster.tables import InputTable, NodeTable, QuotaKind, Quotas
from policy_sched.errors import Diagnostic, Severity
from policy_sched.language.check.policy import check_expression
from policy_sched.language.expression import (
    FIRST_ERROR,
    BoundExpression,
    Expression,
    compile_expression,
)
from policy_sched.language.lower.context import Refusal
from policy_sched.language.runtime.activation import Activation
from policy_sched.language.syntax import ast as typed
from policy_sched.language.values import types
from policy_sched.language.values.limits import KINDS, Some
from policy_sched.language.values.records import AllocationFacts
from policy_sched.language.values.types import params_type
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_pod

from .cel_spec import same
from .oracle import Oracle
from .oracle_values import Optional, OracleError
from .oracle_world import GRANTS, ClusterRecord, NamespaceRecord, NodeRecord, World, quota_of

NOTHING: Final = World([], [])
#: The type of the variable `quota` over a table with `add_quotas`.
QUOTA: Final = types.QuotaType("Quota", (), "grants#tree")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A value, or the kind of the error that took its place ("" where there is none)."""

    value: Any
    error: str = ""


def agree(one: Outcome, other: Outcome) -> bool:
    """Tell whether two outcomes are the same value or the same kind of error."""
    return one.error == other.error and (bool(one.error) or same(one.value, other.value))


def cache_of(world: World) -> Cache:
    """Return a cache that holds a world's nodes, in row order, and its pods."""
    cache = Cache()
    for namespace in world.namespaces.values():
        cache.set_namespace(namespace)
    for node in world.nodes:
        cache.add_node(node)
    for pod in world.pods:
        cache.add_pod(pod)
    return cache


def add_quotas(nodes: NodeTable) -> None:
    """Let a table have the quotas that the variable `quota` reads."""
    objects = InputTable()
    for key, grant in GRANTS.items():
        objects.put(key, grant)
    kind = QuotaKind("grants", objects, lambda grant: grant)
    quotas = Quotas(lambda pod: pod.namespace, [kind], nodes.total_allocatable)
    nodes.aggregates.add(QUOTA.identity, quotas.used)
    quotas.count = lambda wanted: nodes.aggregates.add("demand", wanted)
    nodes.quotas = {QUOTA.identity: quotas}  # type: ignore[assignment] # no policy keeps them


def names_of(world: World, pod: PodInfo, row: int) -> dict[str, object]:
    """Return what the variables of an expression mean on one row; parameters apart."""
    return {
        "pod": pod,
        "node": NodeRecord(world, world.nodes[row]),
        "cluster": ClusterRecord(world),
        "namespaceObject": NamespaceRecord(world, pod.namespace),
        "podGroup": world.group,
        "quota": quota_of(world, pod),
        "now": world.now,
        "allocation": AllocationFacts(),  # the worlds have no devices
    }


def cycle_of(world: World) -> Activation:
    """Return what the attempt of a world's pod knows."""
    return Activation(now=world.now, pod_group=world.group)


def oracle_outcome(tree: typed.Core, names: dict[str, object]) -> Outcome:
    """Return what the oracle makes of a tree."""
    try:
        return Outcome(Oracle(names).value(tree))
    except OracleError as error:
        return Outcome(None, error.kind)


def checked(
    text: str, section: str = "any", params: Mapping[str, Any] | None = None
) -> tuple[typed.Core | None, list[Diagnostic]]:
    """Check one expression; it has either a tree or problems, each with a code and a place.

    Warnings are left out.
    """
    tree, found = check_expression(text, section, params)
    problems = [p for p in found if p.severity is Severity.ERROR]
    assert (tree is None) == bool(problems)
    for problem in problems:
        assert problem.code.startswith("PS")
        assert problem.line >= 1
        assert problem.column >= 1
    return tree, problems


def compiled(tree: typed.Core, params: Mapping[str, Any] | None = None) -> Expression | None:
    """Compile a tree; None where the compiler refuses it, with a code and a place."""
    given = params or {}
    try:
        return compile_expression(tree, given, params_type(given))
    except Refusal as problem:
        refusal = problem
    assert refusal.code.startswith("PS")
    assert 0 <= refusal.span.start < refusal.span.end
    return None


@lru_cache(maxsize=4)
def _made(text: str, section: str) -> tuple[typed.Core | None, Expression | None]:
    """Check and compile a text without parameters; the last ones are kept."""
    tree, _ = checked(text, section)
    return tree, None if tree is None else compiled(tree)


def compiles(text: str, section: str = "any", params: Mapping[str, Any] | None = None) -> bool:
    """Tell whether checker and compiler take a text."""
    if params is None:
        return _made(text, section)[1] is not None
    tree, _ = checked(text, section, params)
    return tree is not None and compiled(tree, params) is not None


def plain(value: Any) -> Any:
    """Return a compiled expression's value as the oracle has it."""
    match value:
        case Some():
            return Optional(present=True, value=plain(value.value))
        case list() | tuple():
            return [plain(item) for item in value]
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case np.generic():
            return value.item()
    return value


def simple(value: Any) -> Any:
    """Return an oracle's value in plain data: quantities in their units, absent as None."""
    match value:
        case Optional():
            return plain(Some(simple(value.value))) if value.present else None
        case list():
            return [simple(item) for item in value]
        case dict():
            return {key: simple(item) for key, item in value.items()}
    return getattr(value, "units", value)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One expression over one world and pod, ready to be evaluated in each way."""

    tree: typed.Core
    expression: Expression
    bound: BoundExpression
    world: World
    pod: PodInfo
    params: Mapping[str, Any]

    def _outcome(self, value: Any, number: int) -> Outcome:
        if number:
            return _failed(number)
        if self.tree.type == types.STRING and isinstance(value, int):
            value = self.bound.table.strings.text(value)
        return Outcome(plain(value))

    def vector(self, rows: Sequence[int] | None = None) -> list[Outcome]:
        """Evaluate all rows, or some, at once."""
        chosen = None if rows is None else np.array(rows, dtype=np.intp)
        cycle = cycle_of(self.world)
        values, numbers = self.bound.vector(self.pod, cycle, chosen)
        return [self._outcome(*pair) for pair in zip(values, numbers, strict=True)]

    def scalar(self, row: int) -> Outcome:
        """Evaluate one row by itself."""
        return self._outcome(*self.bound.scalar(self.pod, cycle_of(self.world), row))

    def oracle(self) -> list[Outcome]:
        """Evaluate all rows by the oracle."""
        found = []
        for row in range(len(self.world.nodes)):
            names = {**names_of(self.world, self.pod, row), "params": dict(self.params)}
            outcome = oracle_outcome(self.tree, names)
            found.append(Outcome(simple(outcome.value), outcome.error))
        return found


def evaluate(
    text: str,
    world: World,
    pod: PodInfo,
    section: str = "any",
    params: Mapping[str, Any] | None = None,
) -> Evaluation | None:
    """Make an expression ready; None where checker or compiler refuses it."""
    if params is None:
        tree, expression = _made(text, section)
    else:
        tree, _ = checked(text, section, params)
        expression = None if tree is None else compiled(tree, params)
    if tree is None or expression is None:
        return None
    bound = expression.bind(cache_of(world).nodes)
    return Evaluation(tree, expression, bound, world, pod, params or {})


def rows_of(
    text: str, world: World, pod: PodInfo, params: Mapping[str, Any] | None = None
) -> list[Outcome]:
    """Evaluate a text that must compile on each row; the three ways must agree."""
    result = evaluate(text, world, pod, params=params)
    assert result is not None, text
    expected = result.oracle()
    vector = result.vector()
    for row, outcome in enumerate(expected):
        assert agree(vector[row], outcome), (text, row, "vector", vector[row], outcome)
        scalar = result.scalar(row)
        assert agree(scalar, outcome), (text, row, "scalar", scalar, outcome)
    return expected


def constant_outcome(tree: typed.Core) -> Outcome | None:
    """Return what the compiler folds a tree to; None where it refuses it."""
    expression = compiled(tree)
    if expression is None:
        return None
    bound = expression.bind(cache_of(NOTHING).nodes)
    value, number = bound.scalar(PodInfo.of(make_pod()), Activation(), 0)
    return _failed(number) if number else Outcome(plain(value))


def _failed(number: int) -> Outcome:
    """Return the outcome of an error by its number in the catalogue."""
    return Outcome(None, KINDS[number - FIRST_ERROR])
