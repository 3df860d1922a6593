"""What is wrong with a policy, and what it costs, without the code that runs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from policy_sched.language.check.policy import check_policy
from policy_sched.language.compile import PolicyCompiler, compile_policy, problems_of
from policy_sched.language.sections import Sections, Unit
from policy_sched.profiles.load import load_policies
from policy_sched.profiles.load.policy_source import policy_source
from policy_sched.profiles.models.defaults import default_policies

from .rule_files import policy

SHIPPED, _ = load_policies([str(default_policies().parent)])


def limited(sections: Sections) -> Iterator[Unit]:
    """Yield the units whose cost has a limit: filter, score and normalizer."""
    score = sections.score
    found = (sections.filter, score and score.unit, score and score.expression)
    yield from (unit for unit in found if unit is not None)


@pytest.mark.parametrize("loaded", SHIPPED, ids=lambda one: one.name)
def test_costs_and_reads_are_the_same_without_code(loaded: object) -> None:
    """A rule that is checked is over its budget exactly if one that is loaded is."""
    checked, _ = check_policy(policy_source(loaded))  # type: ignore[arg-type]
    assert checked is not None
    with_code = list(limited(PolicyCompiler(checked).compile()))
    without = list(limited(PolicyCompiler(checked, code=False).compile()))
    assert len(with_code) == len(without)
    for one, other in zip(with_code, without, strict=True):
        assert (one.program.full, one.program.kept) == (other.program.full, other.program.kept)
        assert (one.roots, one.reads, one.can_fail) == (other.roots, other.reads, other.can_fail)


@pytest.mark.parametrize("score", ["101", "node.podCount", "0", 'node.free["cpu"].units()'])
def test_problems_are_the_same_without_code(score: str) -> None:
    """Those of `compile_policy`, in its order."""
    checked, _ = check_policy(policy({"score": {"expression": score}}))
    assert checked is not None
    assert problems_of(checked) == compile_policy(checked)[1]
