"""Hand-written cases in the order of cel-spec's sections, each run at every level."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod

from .cel_spec import same
from .harness import Outcome, checked, compiles, constant_outcome, oracle_outcome, rows_of
from .lifting import lifted
from .oracle_world import World

FILE: Final = Path(__file__).with_name("cel_cases.yaml")
Case = dict[str, Any]


@functools.cache
def all_cases() -> list[Case]:
    """Return the cases of the file, each with its section's name."""
    sections = yaml.load(FILE.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return [{**case, "section": name} for name, cases in sections.items() for case in cases]


def identity(case: Case) -> str:
    """Return the name of a case in a test report."""
    return f"{case['section']}: {case['expr']}"


def expect(case: Case, outcome: Outcome) -> None:
    """The outcome is the case's value, strictly of its type, or its kind of error."""
    assert outcome.error == case.get("error", ""), outcome
    assert outcome.error or same(outcome.value, case["value"]), outcome


REFUSED: Final = [c for c in all_cases() if "refused" in c]
RUNNING: Final = [c for c in all_cases() if "refused" not in c]


@pytest.mark.parametrize("case", REFUSED, ids=identity)
def test_what_the_dialect_leaves_out_is_refused(case: Case) -> None:
    """What the dialect leaves out, and what cannot be right, is refused with its code."""
    _, problems = checked(case["expr"])
    assert case["refused"] in {p.code for p in problems}


@pytest.mark.parametrize("case", RUNNING, ids=identity)
def test_a_case_of_constants_has_its_value(case: Case) -> None:
    """Folded at compile time, and in the oracle, a case has its value."""
    tree, problems = checked(case["expr"])
    assert tree is not None, problems
    expect(case, oracle_outcome(tree, {}))
    outcome = constant_outcome(tree)
    if outcome is not None:
        expect(case, outcome)


@pytest.mark.parametrize("owner", ["pod", "node"])
@pytest.mark.parametrize("case", RUNNING, ids=identity)
def test_a_case_with_constants_from_labels_has_its_value(case: Case, owner: str) -> None:
    """With its constants read from a pod's or a node's labels, a case has its value on each row."""
    text, labels = lifted(case["expr"], owner, compiles)
    world = World([make_node(f"n{i}", labels=labels) for i in range(3)], [])
    for outcome in rows_of(text, world, PodInfo.of(make_pod(labels=labels))):
        expect(case, outcome)
