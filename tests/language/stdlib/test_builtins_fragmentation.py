"""Fragmentation: what is of no use to the usual pods, and what is kept of it."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from policy_sched.language.stdlib.builtins_fragmentation import fragmentation, fragmentations
from policy_sched.language.values import OUT_OF_RANGE, Fault
from tests.language import oracle_fragmentation as oracle

KINDS = [[4000, 1, 500], [8000, 1, 1000], [2000, 0, 0], [1000, 2, 1000]]
MODELS = ["", "T4|P100", "", "T4"]
WEIGHTS = [0.4, 0.3, 0.2, 0.1]
NODES = st.tuples(
    st.integers(0, 9000),
    st.lists(st.sampled_from([0, 200, 500, 700, 1000]), max_size=8),
    st.sampled_from(["", "T4", "P100", "V100"]),
)


def test_each_reason_counts() -> None:
    """Without cpu all is of no use, with cpu what is too small, on other models all."""
    usual = (KINDS, MODELS, WEIGHTS)
    assert fragmentation(0, [1000, 400], "T4", *usual) == pytest.approx(1400)
    # 400 for the first two, all for the third, all for the fourth: it wants two whole ones.
    assert fragmentation(9000, [1000, 400], "T4", *usual) == pytest.approx(0.7 * 400 + 0.3 * 1400)
    assert fragmentation(9000, [1000, 400], "V100", *usual) == pytest.approx(0.4 * 400 + 0.6 * 1400)


@given(st.lists(NODES, max_size=20), st.integers(-1, 3), st.sampled_from([1, 200, 700, 1000]))
def test_kept_values_are_those_of_the_definition(
    nodes: list[tuple[int, list[int], str]], count: int, amount: int
) -> None:
    """To the last bit, however often and in whichever order nodes are asked for."""
    usual = (KINDS, MODELS, WEIGHTS)
    for cpu, devices, model in nodes:
        assert fragmentation(cpu, devices, model, *usual) == oracle.fragmentation(
            cpu, devices, model, *usual
        )
        assert fragmentations(cpu, devices, model, *usual, count, amount) == oracle.fragmentations(
            cpu, devices, model, *usual, count, amount
        )


@given(st.lists(st.tuples(NODES, st.integers(0, 2)), max_size=20))
def test_rules_with_equal_lists_share_values_and_others_do_not(
    asked: list[tuple[tuple[int, list[int], str], int]],
) -> None:
    """Each call has the value of its own lists, whichever lists were given before."""
    lists = [(KINDS, MODELS, WEIGHTS), ([*KINDS], [*MODELS], [*WEIGHTS])]
    lists.append(([*KINDS], [*MODELS], WEIGHTS[::-1]))
    for (cpu, devices, model), number in asked:
        usual = lists[number]
        wanted = oracle.fragmentation(cpu, devices, model, *usual)
        assert fragmentation(cpu, devices, model, *usual) == wanted


def test_lists_of_different_lengths_are_an_error() -> None:
    """Every pod has a kind, models and a weight, and a kind has three numbers."""
    for usual in ((KINDS, MODELS, [1.0]), (KINDS, [""], WEIGHTS), ([[1, 2]], [""], [1.0])):
        with pytest.raises(Fault) as caught:
            fragmentation(0, [1], "", *usual)
        assert caught.value.args[0] == OUT_OF_RANGE
