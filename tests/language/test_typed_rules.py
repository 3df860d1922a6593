"""Whatever the tables of functions and records allow is compiled, and means one thing.

Points 1 and 2 of the language's test plan, for all that the tables offer.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Final

import pytest
from hypothesis import Phase, given, settings, strategies as st

from policy_sched.errors import Severity
from policy_sched.language.check.expressions import check_tree
from policy_sched.language.check.scope import Counted, Definitions
from policy_sched.language.diagnostics import Problem
from policy_sched.language.expression import Expression, compile_expression
from policy_sched.language.lower.context import Refusal
from policy_sched.language.stdlib.environment import Overload, policy_environment
from policy_sched.language.syntax import ast, parse
from policy_sched.language.values import types
from policy_sched.language.values.limits import LimitError
from policy_sched.language.values.types import params_type
from policy_sched.model.pod_info import PodInfo
from tests.examples import scaled

from .harness import QUOTA, Evaluation, add_quotas, agree, cache_of
from .oracle_world import World
from .strategies import worlds
from .typed_leaves import PARAMS
from .typed_rules import Writer, shown, typed

#: Why an expression that is well typed may still be refused, by code. None of it is "not built".
REASONS: Final = {
    "PS012": "a literal that is none: of a shape's points",
    "PS102": "a key that is constant, of a parameter's map that does not have it",
    "PS207": "a quantity literal that no 64-bit int holds",
    "PS208": "a dimension that a parameter's value gives meets another",
    "PS211": "a resource, a label or a unit whose name is known too late",
    "PS506": "a pattern that differs from node to node",
    "PS509": "a predicate over a domain's pods that reads the node",
    "PS510": "the pods of the cluster in a list, or counted by what may fail",
}
#: Refused by the checker: a constant text that is no version; macros too deep or too many; a
#: resource's name that happens to be a constant, of the wrong dimension; `quota` where no rule of
#: the section reads it.
UNFIT: Final = {"PS012", "PS104", "PS208", "PS502"}
#: Functions with an argument that must be known before the node is, or when the rule is loaded.
KNOWN_BEFORE: Final = ("matches", "find", "domain", "domains", "selector")
ONE_TEXT: Final = ("fitsIn_resources_resources_string",)
"""Overloads that take one constant text only."""
RESULTS: Final[dict[str, tuple[types.Type, ...]]] = {
    "filter": (types.BOOL,),
    "score": (types.INT, types.DOUBLE),
    "filter.messageExpression": (types.STRING,),
    "filter.reasons": (types.list_of(types.STRING),),
}


def checked(text: str, section: str) -> tuple[ast.Core | None, list[Problem]]:
    """Check an expression that may read `quota`; it has either a tree or errors."""
    node, problems = parse(text)
    tree = None
    if node is not None:
        counted = Counted(quotas=types.RecordType("quotas", (("tree", QUOTA),)))
        definitions = Definitions(policy_environment(), params_type(PARAMS), counted=counted)
        of = definitions.environment.section(section)
        tree, unit = check_tree(node, of, definitions)
        problems = unit.problems
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    return (None if errors else tree), errors


def compiled(tree: ast.Core) -> Expression | Refusal:
    """Compile a tree, or return why it is refused."""
    try:
        return compile_expression(tree, PARAMS, params_type(PARAMS))
    except Refusal as refusal:
        return refusal


def evaluation(text: str, section: str, world: World, pod: PodInfo) -> Evaluation | None:
    """Make an expression ready; None where it is refused for one of the reasons."""
    tree, problems = checked(text, section)
    if tree is None:
        assert {p.code for p in problems} <= UNFIT, (text, problems)
        assert all("`quota`" in p.message for p in problems if p.code == "PS104"), problems
        return None
    expression = compiled(tree)
    if isinstance(expression, Refusal):
        assert expression.code in REASONS, (text, expression.message)
        assert 0 <= expression.span.start < expression.span.end <= len(text)
        return None
    nodes = cache_of(world).nodes
    add_quotas(nodes)
    bound = expression.bind(nodes)
    return Evaluation(tree, expression, bound, world, pod, PARAMS)


def check(text: str, found: Evaluation) -> None:
    """The vector function, the scalar function and the oracle agree; the range is right.

    A rule that makes more than a rule may has no meaning to compare.
    """
    try:
        vector = found.vector()
    except LimitError:
        return
    interval = found.expression.range
    for row, expected in enumerate(found.oracle()):
        assert agree(vector[row], expected), (text, row, vector[row], expected)
        scalar = found.scalar(row)
        assert agree(scalar, expected), (text, row, scalar, expected)
        assert found.expression.can_fail or not expected.error, text
        if interval is not None and not expected.error and expected.value == expected.value:
            assert interval.lo <= expected.value <= interval.hi, (text, interval)


@pytest.mark.parametrize("section", RESULTS)
@settings(max_examples=scaled(60))
@given(data=st.data(), situation=worlds())
def test_a_well_typed_rule_is_compiled_and_means_one_thing(
    section: str, data: st.DataObject, situation: tuple[World, PodInfo]
) -> None:
    """It is refused for a documented reason, or the three evaluations agree."""
    text = data.draw(typed(data.draw(st.sampled_from(RESULTS[section]))))
    found = evaluation(text, section, *situation)
    if found is not None:
        check(text, found)


WORLDS: Final[list[tuple[World, PodInfo]]] = []


@settings(max_examples=scaled(25), phases=[Phase.generate])
@given(worlds())
def _collect(situation: tuple[World, PodInfo]) -> None:
    WORLDS.append(situation)


@pytest.fixture(scope="module", autouse=True)
def some_worlds() -> None:
    """Draw the worlds that the calls below are evaluated in, the same ones every time."""
    WORLDS.clear()
    _collect()


@pytest.mark.parametrize("overload", policy_environment().overloads, ids=lambda o: o.signature)
def test_every_function_is_compiled_for_arguments_of_any_level(overload: Overload) -> None:
    """A call of it, over constants, pods, nodes and what was made of these, means one thing."""
    chooser = random.Random(overload.signature)
    accepted = 0
    for depth in (1, 1, 1, 2, 2):
        writer = Writer(chooser.choice)
        bound: dict[str, types.Type] = {}
        call = writer.call_of(overload, depth, bound=bound)
        tree, _ = checked(call, "any")
        text = call if tree is None else shown(call, tree.type)
        found = evaluation(text, "any", *chooser.choice(WORLDS))
        if found is not None:
            accepted += 1
            check(text, found)
    assert accepted or overload.name in KNOWN_BEFORE or overload.id in ONE_TEXT, overload


def test_little_is_refused() -> None:
    """Of hundreds of rules, at most one in twenty is refused, and each for its reason."""
    chooser = random.Random(4)
    found: Counter[str] = Counter()
    count = scaled(1000)
    for _ in range(count):
        tree, _ = checked(Writer(chooser.choice).write(types.BOOL, 3), "filter")
        if tree is None:
            continue
        expression = compiled(tree)
        if isinstance(expression, Refusal):
            found[expression.code] += 1
    assert found.keys() <= REASONS.keys()
    assert found.total() <= count // 20, found
