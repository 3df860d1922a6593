"""Promises about whole policies: the specification's and the shipped ones, against the oracle."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import yaml
from hypothesis import given, settings

from policy_sched.language.check.policy import CheckedPolicy, check_policy
from policy_sched.language.compile import compile_policy
from policy_sched.language.runtime.activation import FAILED
from policy_sched.language.sections import CompiledPolicy
from policy_sched.model.pod_info import PodInfo
from policy_sched.plugins.rules.bound_policy import bind
from policy_sched.thresholds import LOOP_ROWS
from tests.examples import scaled

from .harness import cache_of, cycle_of, names_of
from .oracle_policy import PolicyOracle, normalized
from .oracle_world import World
from .rule_files import documents, policy
from .strategies import worlds

SHIPPED: Final = Path(__file__).parents[2] / "policies"


def shipped() -> list[dict[str, Any]]:
    """Return the shipped policies in the form of the specification's list."""
    found = []
    for path in sorted(SHIPPED.glob("*/policy.yaml")):
        for document in yaml.load_all(path.read_text(encoding="utf-8"), yaml.CSafeLoader):
            name = f"{path.parent.name}/{document['metadata']['name']}"
            found.append({**document["spec"], "name": name})
    return found


SPECS: Final = {str(spec["name"]): spec for spec in [*documents("specification.yaml"), *shipped()]}
APART: Final = {"FragmentationGradient", "DeviceLocality"}
"""Policies that need the annotation of their file about costs, or a profile that has devices."""
COUNTING: Final = {"inputs", "aggregates", "quotas"}
"""Sections that the oracle lacks; recorded decisions judge policies that have them."""
PLACING: Final = sorted(
    name
    for name, spec in SPECS.items()
    if {"filter", "score"} & set(spec)
    and name.split("/")[-1] not in APART
    and not COUNTING & set(spec)
)
"""Policies that place pods by rules."""


@functools.cache
def compiled_policy(name: str) -> tuple[CheckedPolicy, CompiledPolicy | None]:
    """Return a policy, checked and compiled."""
    checked, problems = check_policy(policy(SPECS[name]))
    assert checked is not None, problems
    return checked, compile_policy(checked)[0]


def oracles(checked: CheckedPolicy, world: World, pod: PodInfo) -> list[PolicyOracle]:
    """Return the oracle of each row."""
    rows = range(len(world.nodes))
    return [PolicyOracle(checked, names_of(world, pod, row)) for row in rows]


def test_the_specifications_policies_compile() -> None:
    """All but the policies of sections that are not built compile, with their proofs."""
    placing = []
    for name in sorted(name for name, spec in SPECS.items() if not COUNTING & set(spec)):
        _, compiled = compiled_policy(name)
        if compiled is not None and (compiled.sections.filter or compiled.sections.score):
            placing.append(name)
    assert sorted(placing) == PLACING
    assert len(placing) >= 30


@pytest.mark.parametrize("name", PLACING)
@settings(max_examples=scaled(40))
@given(situation=worlds())
def test_verdicts_and_scores_are_those_of_the_oracle(
    name: str, situation: tuple[World, PodInfo]
) -> None:
    """Conditions, verdicts and raw and final scores are the oracle's, for all rows and for few."""
    checked, compiled = compiled_policy(name)
    assert compiled is not None
    world, pod = situation
    bound = bind(compiled, cache_of(world).nodes)
    cycle = cycle_of(world)
    judges = oracles(checked, world, pod)
    rows = np.arange(len(world.nodes), dtype=np.intp)
    many = np.resize(rows[::-1], LOOP_ROWS + 3)
    assert bound.matches(pod, cycle) is judges[0].matches(checked.match_conditions)
    if compiled.sections.filter is not None:
        expected = np.array([judge.verdict() for judge in judges])
        for chosen in (None, rows, many):
            codes = bound.filters().codes(pod, cycle, chosen)
            wanted = expected if chosen is None else expected[chosen]
            assert (codes if codes is not None else 0 * wanted).tolist() == wanted.tolist()
    if checked.score is not None:
        scores = [judge.score() for judge in judges]
        missing = FAILED if compiled.has_normalize else 0
        raw = [missing if s is None else s for s in scores]
        assert bound.score.raw(pod, cycle).tolist() == raw
        assert bound.score.raw(pod, cycle, rows).tolist() == raw
        assert bound.score.raw(pod, cycle, many).tolist() == [raw[row] for row in many.tolist()]
        if isinstance(checked.score.normalize, str):
            final = normalized(checked.score.normalize, scores)
            assert bound.score.normalize(np.array(raw, dtype=np.int64)).tolist() == final
            assert all(0 <= s <= 100 for s in final)
        elif checked.score.normalize is None:
            assert all(0 <= s <= 100 for s in raw)
