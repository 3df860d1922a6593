"""The benchmark of estimates: every rule is measured, and told with its ratio."""

from __future__ import annotations

from policy_sched.bench import rule_cost


def test_every_rule_is_measured() -> None:
    """Each rule has an estimate and a time, both above zero; JSON has the same numbers."""
    found = rule_cost.run_rule_costs(50)
    assert [one.rule for one in found.rules] == list(rule_cost.RULES)
    assert all(one.estimate_us > 0 and one.measured_us > 0 for one in found.rules)
    told = found.document()
    assert told["workload"] == rule_cost.NAME
    assert told["nodes"] == 50


def test_large_deviations_are_marked() -> None:
    """A ratio beyond the bound, in either direction, is no good estimate."""
    found = [
        rule_cost.Measured("good", "true", 20.0, 10.0, 2.0),
        rule_cost.Measured("low", "true", 3.0, 10.0, 0.3),
        rule_cost.Measured("high", "true", 40.0, 10.0, 4.0),
    ]
    assert [one.within for one in found] == [True, False, False]
    lines = list(rule_cost.RuleCosts(rule_cost.NAME, 5, 3.0, 1, found).text_lines())
    assert lines[-1] == "  1 of 3 within a factor of 3"
    assert [line.endswith("beyond a factor of 3") for line in lines[2:5]] == [False, True, True]
