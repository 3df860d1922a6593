"""The costs that `check --nodes` prints."""

from __future__ import annotations

import re
from pathlib import Path

from policy_sched.language.ir.code_motion import Cost
from policy_sched.profiles.check.cost_report import CostEstimate, CostReport, cost_report
from policy_sched.profiles.load import load_policies
from policy_sched.profiles.models.defaults import policies_directory


def test_a_table_of_microseconds() -> None:
    """A line for each section, and their sum; fixed work does not grow with the nodes."""
    estimates = (
        CostEstimate("Spread", "filter", Cost(1.0, 2_000.0), Cost(10.0, 3_000.0)),
        CostEstimate("Spread", "score", Cost(0.5, 0.0), Cost(40.0, 0.0)),
    )
    found = CostReport(estimates, 100_000)
    assert list(found.text_lines()) == [
        "estimate for 100,000 nodes, in microseconds per pod",
        "POLICY  SECTION  USUALLY  ALL CHANGED",
        "Spread  filter       102        1,003",
        "Spread  score         50        4,000",
        "        all          152        5,003",
    ]
    assert found.total()[0] == Cost(1.5, 2_000.0)
    assert found.document()["sections"][1] == {
        "policy": "Spread",
        "section": "score",
        "usually": 50.0,
        "allChanged": 4000.0,
    }


def test_nothing_costs_nothing() -> None:
    """Without rules over nodes there is a sum all the same."""
    assert list(CostReport((), 10).text_lines())[-1].split() == ["all", "0", "0"]


def test_more_nodes_cost_more() -> None:
    """The estimates of what ships are positive, and grow."""
    loaded, _ = load_policies([str(policies_directory())])
    found = cost_report(loaded, 1)
    assert {one.section for one in found.estimates} == {"filter", "score"}
    for nodes in (1, 5_000, 100_000):
        assert all(one.kept.nanoseconds(nodes) >= 0 for one in found.estimates)
        _, total = found.total()
        assert 0 < total.nanoseconds(nodes) < total.nanoseconds(2 * nodes)


def test_a_policy_that_does_not_compile_is_left_out(tmp_path: Path) -> None:
    """`check` reports its problem in place of a cost."""
    file = tmp_path / "policy.yaml"
    text = (policies_directory() / "rack-spread" / "policy.yaml").read_text(encoding="utf-8")
    file.write_text(re.sub(r"normalize: \w+", "normalize: None", text), encoding="utf-8")
    assert not cost_report(load_policies([str(file)])[0], 1).estimates
