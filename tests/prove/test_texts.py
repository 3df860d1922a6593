"""Promises about texts that are numbers for the solver: a question has the same answer."""

from __future__ import annotations

from typing import Any

import z3
from hypothesis import given, settings, strategies as st

from policy_sched.prove.solving import Texts
from policy_sched.prove.terms import text_of
from policy_sched.prove.world import FORMS
from tests.examples import scaled

CONSTANTS = [z3.String(name) for name in "xyz"]
WRITTEN = [text_of(text) for text in ("", "a", "B c", "-", "a.b", "é")]
FLAG = z3.Bool("flag")


def conditions(*, rich: bool) -> st.SearchStrategy[Any]:
    """Return conditions over texts; ``rich``: they also read their parts."""
    plain = st.sampled_from([*CONSTANTS, *WRITTEN])
    chosen = st.builds(lambda a, b: z3.If(FLAG, a, b), plain, plain)
    text = plain | chosen
    kinds = [
        st.builds(lambda a, b: a == b, text, text),
        st.builds(lambda a, b: a != b, text, text),
        st.builds(z3.InRe, st.sampled_from(CONSTANTS), st.sampled_from(FORMS)),
        st.just(z3.Distinct(*CONSTANTS)),
        st.just(FLAG),
    ]
    if rich:
        kinds.append(st.builds(lambda a: z3.PrefixOf(text_of("a"), a), text))
        kinds.append(st.builds(lambda a: z3.Length(a) > 2, text))
    simple = st.one_of(kinds)
    return st.recursive(
        simple,
        lambda inner: (
            st.builds(z3.And, inner, inner)
            | st.builds(z3.Or, inner, inner)
            | st.builds(z3.Not, inner)
        ),
        max_leaves=8,
    )


@settings(max_examples=scaled(100))
@given(st.lists(conditions(rich=False) | conditions(rich=True), min_size=1, max_size=4))
def test_numbers_and_texts_have_the_same_answer(stated: list[Any]) -> None:
    """What the solver finds of numbers are texts that meet the question; else no texts do."""
    texts = Texts(stated, ["a"])
    solver = z3.Solver()
    solver.add(*[texts.coded(part) for part in stated])
    answer = solver.check()
    assert answer != z3.unknown
    if answer == z3.unsat:
        plain = z3.Solver()
        plain.set("rlimit", 3_000_000)
        plain.add(*stated)
        assert plain.check() != z3.sat
        return
    model = solver.model()
    pairs = [(FLAG, model.eval(FLAG, model_completion=True))]
    for constant in CONSTANTS:
        value = constant
        if any(z3.eq(constant, part) for whole in stated for part in parts(whole)):
            value = model.eval(texts.coded(constant), model_completion=True)
        if z3.is_int(value):
            value = text_of(texts.text(value.as_long()))
        pairs.append((constant, value))
    assert z3.is_true(z3.simplify(z3.substitute(z3.And(*stated), *pairs)))


def parts(term: Any) -> list[Any]:
    """Return a term and all below it."""
    return [term, *(part for child in term.children() for part in parts(child))]
