"""Promises about the terms of rules: they are what the scalar and the vector program compute."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import z3
from hypothesis import assume, given, settings, strategies as st

from policy_sched.cluster.cache import Cache
from policy_sched.language import lower
from policy_sched.language.ir import ops
from policy_sched.language.values.types import params_type
from policy_sched.model.pod_info import PodInfo
from policy_sched.prove.printer import WITHOUT_TERM, Printer
from policy_sched.prove.terms import Code, Double, Terms, is_term, names_in
from policy_sched.prove.world import World
from tests.examples import scaled
from tests.language.harness import Outcome, cache_of, checked, evaluate
from tests.language.oracle_world import World as Cluster
from tests.language.strategies import PARAMS, rules, worlds

Situation = tuple[Cluster, PodInfo]
BOUND = 4
"""No list of the generated nodes and pods that is unrolled is longer."""


def test_every_operation_has_a_term_or_a_reason() -> None:
    """A new operation is given a term, or it is said why it has none."""
    for name, kind in ops.KINDS.items():
        assert bool(kind.smt) != bool(kind.opaque), name
    assert {kind.opaque for kind in ops.KINDS.values()} - {""} == set(WITHOUT_TERM)


def test_every_text_of_a_term_is_an_expression() -> None:
    """The texts of the column ``smt`` name only functions that the printer has."""
    printer = Printer(World(Terms(), 1))
    for name, kind in ops.KINDS.items():
        if kind.smt not in ("", "leaf"):
            known = {*printer.names, "op", "a", "Optional"}
            assert set(printer.code_of(kind).co_names) <= known | METHODS, name


METHODS = {
    *("data", "rep", "present", "text"),
    *("divided", "quotient", "remainder", "percent"),
    *("add", "subtract", "multiply", "divide", "of_int", "nearest"),
}


def leaf_value(
    key: tuple[Any, ...], info: PodInfo, cluster: Cluster, cache: Cache, row: int
) -> Any:
    """Return what a constant of the model is for a pod and a row; None is a missing text."""
    if key[0] == "pod":
        return _of_pod(key[1:], info)
    if key[0] == "others":
        rest = {n: a for n, a in info.requests.items() if n not in ("cpu", "memory") and a > 0}
        column = cache.nodes.lookup
        return all(amount <= column((key[1], name)).view[row] for name, amount in rest.items())
    family, *rest = key[1:]
    if family == "taints":
        taints = cluster.nodes[row].spec.taints
        return _of_list(rest, taints)
    if family == "pods":
        pods = list(cache.nodes.pods_on(row).values())
        if rest[0] == "length":
            return len(pods)
        return _of_pod(rest[1:], pods[rest[0]]) if rest[0] < len(pods) else None
    value = cache.nodes.lookup((family, *rest)).view[row]
    if family in ("label", "annotation"):
        return cache.nodes.strings.text(value) if value else None
    if family in ("name", "field"):
        return cache.nodes.strings.text(value)
    return bool(value) if family in ("unschedulable", "ready", "allocatable?") else int(value)


def _of_pod(key: Any, info: PodInfo) -> Any:
    if key[0] == "tolerations":
        return _of_list(key[1:], info.tolerations)
    value = getattr(info, key[0])
    if key[0] == "scheduling_gates":
        return len(value) if key[1] == "length" else dict(enumerate(value)).get(key[1])
    if len(key) == 1:
        return value
    return (
        value.get(key[1], 0)
        if key[0] in ("requests", "limits", "non_zero_requests")
        else (value.get(key[1]))
    )


def _of_list(key: Any, items: Any) -> Any:
    if key[0] == "length":
        return len(items)
    return getattr(items[key[0]], key[1]) if key[0] < len(items) else None


def stated(world: World, info: PodInfo, cluster: Cluster, row: int) -> list[Any]:
    """Return the equations that give each constant its value."""
    equations, cache = [], cache_of(cluster)
    for key, leaf in world.leaves.items():
        value = leaf_value(key, info, cluster, cache, row)
        if isinstance(leaf, Code):
            equations.append(leaf.present == (value is not None))
            leaf = leaf.text  # noqa: PLW2901  # the text of it
        if value is not None:
            equations.append(
                leaf == (z3.StringVal(spelt(value)) if isinstance(value, str) else value)
            )
    return equations


def spelt(text: str) -> str:
    """Return a text as z3 reads it."""
    return "".join(f"\\u{{{ord(c):x}}}" for c in text)


def is_the(value: Any, outcome: Outcome) -> Any:
    """Return the condition that a term is the value of an outcome."""
    if isinstance(value, Double):
        number = outcome.value
        if number != number or abs(number) == float("inf"):  # noqa: PLR0124
            return z3.Not(value.finite) if is_term(value.finite) else not value.finite
        exact = value.value if is_term(value.value) else z3.RealVal(str(Fraction(value.value)))
        finite = value.finite if is_term(value.finite) else z3.BoolVal(value.finite)
        return z3.And(finite, exact == z3.RealVal(str(Fraction(number))))
    if isinstance(outcome.value, str):
        text = value if is_term(value) else z3.StringVal(spelt(value))
        return text == z3.StringVal(spelt(outcome.value))
    if not isinstance(outcome.value, bool | int):
        return None
    return value == outcome.value


@pytest.mark.parametrize("section", ["filter", "score", "postBind"])
@settings(max_examples=scaled(60))
@given(data=st.data(), situation=worlds())
def test_terms_are_what_both_programs_compute(
    section: str, data: st.DataObject, situation: Situation
) -> None:
    """On each row the term can have the value of both programs, and no other where it is exact."""
    text = data.draw(rules(section))
    cluster, info = situation
    result = evaluate(text, cluster, info, section=section, params=PARAMS)
    assume(result is not None)
    assert result is not None
    vector = result.vector()
    for row in range(len(cluster.nodes)):
        outcome = result.scalar(row)
        assert outcome.error == vector[row].error
        agrees_with_program(text, section, situation, row, outcome)


def agrees_with_program(
    text: str, section: str, situation: Situation, row: int, outcome: Outcome
) -> None:
    """Assert that the term of a rule has the outcome of the program on a row."""
    cluster, info = situation
    tree, _ = checked(text, section, PARAMS)
    assert tree is not None
    made = Terms()
    world = World(made, BOUND)
    printer = Printer(world)
    low = lower.make_lowering(PARAMS, params_type(PARAMS), {})
    lowered = low.lower(tree, {})
    value = low.val(lowered) if isinstance(lowered, lower.Opt) else low.plain(lowered)
    term = printer.term(value.op)
    error = 0 if value.err is None else printer.term(value.err)
    right = error != 0 if outcome.error else error == 0
    if not outcome.error:
        if isinstance(term, Code):
            term = term.text
        same = is_the(term, outcome)
        if same is None or (isinstance(term, tuple) and not isinstance(term, Double)):
            return
        right = z3.And(right, same) if is_term(right) or is_term(same) else right and same
    right = right if is_term(right) else z3.BoolVal(bool(right))
    solver = z3.Solver()
    solver.set("timeout", 5000)
    facts = [*made.defined, *made.hints]
    solver.add(*facts, *stated(world, info, cluster, row))
    assert solver.check() != z3.unsat, (text, "the definitions contradict each other")
    solver.push()
    solver.add(right)
    assert solver.check() != z3.unsat, (text, row, outcome, term, error)
    solver.pop()
    inexact = {str(note) for note in made.notes} & names_in(z3.And(right, *facts))
    if not inexact:
        solver.add(z3.Not(right))
        assert solver.check() != z3.sat, (text, row, outcome, term, error)
