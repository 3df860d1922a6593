"""Each pass of the compiler, left out by itself, changes no value: it only saves time.

Point 1 of the language's test plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.language.codegen import module as generate
from policy_sched.language.expression import compile_expression
from policy_sched.language.ir.graph import MIXED, Builder
from policy_sched.language.lower import comprehensions as lower_lists
from policy_sched.language.lower.context import Constant, Lowering, Value
from policy_sched.language.values.intervals import DOUBLES, INT64, Interval
from policy_sched.language.values.types import params_type
from policy_sched.model.pod_info import PodInfo
from tests.examples import scaled

from .harness import Evaluation, agree, cache_of, checked, compiled
from .oracle_world import World
from .strategies import PARAMS, rules, worlds


@contextmanager
def _no_facts(_self: Lowering, *_tests: object) -> Iterator[None]:
    yield


def _wide_open(_self: Lowering, value: Constant | Value) -> Interval:
    return INT64 if isinstance(value, Value) and value.op.rep == "i" else DOUBLES


def leave_out(patch: pytest.MonkeyPatch, name: str) -> None:
    """Switch a pass off."""
    match name:
        case "what tests say where they guard":
            patch.setattr(Lowering, "assuming", _no_facts)
        case "ranges of numbers":
            patch.setattr(Lowering, "range", _wide_open)
        case "constant lists written out":
            patch.setattr(lower_lists, "MAX_UNROLLED", -1)
        case "once per distinct value":
            patch.setattr(Builder, "_key_of", staticmethod(lambda _op: MIXED))
        case "counts of pods":
            patch.setattr(generate.CountPass, "_count", lambda *_: None)
        case "materialized columns":
            none = generate.PodInvariants((), ())
            patch.setattr(generate.ir, "find_pod_invariants", lambda *_: none)


PASSES: Final = (
    "what tests say where they guard",
    "ranges of numbers",
    "constant lists written out",
    "once per distinct value",
    "counts of pods",
    "materialized columns",
)


@pytest.mark.parametrize("name", PASSES)
@settings(max_examples=scaled(50))
@given(data=st.data(), situation=worlds())
def test_a_pass_changes_no_value(
    name: str, data: st.DataObject, situation: tuple[World, PodInfo]
) -> None:
    """With and without it each row has the same value or error, at once and by itself."""
    section = data.draw(st.sampled_from(["filter", "score"]))
    text = data.draw(rules(section))
    tree, _ = checked(text, section, PARAMS)
    usual = None if tree is None else compiled(tree, PARAMS)
    if tree is None or usual is None:
        return
    with pytest.MonkeyPatch.context() as patch:
        leave_out(patch, name)
        other = compile_expression(tree, PARAMS, params_type(PARAMS))
    world, pod = situation
    table = cache_of(world).nodes
    one, two = (Evaluation(tree, e, e.bind(table), world, pod, PARAMS) for e in (usual, other))
    whole = two.vector()
    for row, expected in enumerate(one.vector()):
        assert agree(whole[row], expected), (text, row, "vector")
        assert agree(two.scalar(row), expected), (text, row, "scalar")


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_does_something(name: str) -> None:
    """Without it the program of one of these rules is another: the test above is not empty."""
    texts = (
        "node.podCount > 0 && 100 / node.podCount > 7",
        "node.podCount > 0 ? node.podCount * 4611686018427387904 > 0 : node.podCount + 1 > 0",
        "[1, 2, 3].exists(n, n == node.podCount)",
        'node.labels[?"zone"].orValue("x").startsWith("a")',
        'node.pods.exists(p, p.namespace == "a")',
        'percent(node.requested["cpu"], node.allocatable["cpu"]) > pod.priority',
    )
    differ = False
    for text in texts:
        tree, _ = checked(text, "filter", PARAMS)
        assert tree is not None
        usual = compile_expression(tree, PARAMS, params_type(PARAMS))
        with pytest.MonkeyPatch.context() as patch:
            leave_out(patch, name)
            other = compile_expression(tree, PARAMS, params_type(PARAMS))
        differ = differ or usual.program.text != other.program.text
    assert differ
