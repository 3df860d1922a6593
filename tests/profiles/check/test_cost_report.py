"""What `check --nodes` tells of costs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from policy_sched.language.ir.code_motion import Cost
from policy_sched.profiles.check.cost_report import Estimate, estimates, sum_of, text_lines
from policy_sched.profiles.load.policies import load_policies
from policy_sched.profiles.models.defaults import policies_directory


def test_a_table_of_microseconds() -> None:
    """A line for each section, and their sum; fixed work does not grow with the nodes."""
    found = [
        Estimate("Spread", "filter", Cost(1.0, 2_000.0), Cost(10.0, 3_000.0)),
        Estimate("Spread", "score", Cost(0.5, 0.0), Cost(40.0, 0.0)),
    ]
    assert list(text_lines(found, 100_000)) == [
        "estimate for 100,000 nodes, in microseconds per pod",
        "POLICY  SECTION  USUALLY  ALL CHANGED",
        "Spread  filter       102        1,003",
        "Spread  score         50        4,000",
        "        all          152        5,003",
    ]
    assert sum_of(found, "kept") == Cost(1.5, 2_000.0)


def test_nothing_costs_nothing() -> None:
    """Without rules over nodes there is a sum all the same."""
    assert list(text_lines([], 10))[-1].split() == ["all", "0", "0"]


@pytest.mark.parametrize("nodes", [1, 5_000, 100_000])
def test_more_nodes_cost_more(nodes: int) -> None:
    """The estimates of what ships are positive, and grow."""
    loaded, _ = load_policies([str(policies_directory())])
    found = list(estimates(loaded))
    assert {one.section for one in found} == {"filter", "score"}
    assert all(one.kept.nanoseconds(nodes) >= 0 for one in found)
    total = sum_of(found, "full")
    assert 0 < total.nanoseconds(nodes) < total.nanoseconds(2 * nodes)


def test_a_policy_that_does_not_compile_is_left_out(tmp_path: Path) -> None:
    """`check` tells what is wrong with it, in place of a cost."""
    file = tmp_path / "policy.yaml"
    text = (policies_directory() / "rack-spread" / "policy.yaml").read_text(encoding="utf-8")
    file.write_text(re.sub(r"normalize: \w+", "normalize: None", text), encoding="utf-8")
    assert len(list(estimates(load_policies([str(file)])[0]))) == 0
