"""The benchmark of estimates: every rule is measured, and told with its ratio."""

from __future__ import annotations

from policy_sched.bench import rule_cost


def test_every_rule_is_measured() -> None:
    """Each rule has an estimate and a time, both above zero; JSON has the same numbers."""
    costs = rule_cost.run_rule_costs(50)
    assert [rule.rule for rule in costs.rules] == list(rule_cost.RULES)
    assert all(rule.estimate_us > 0 and rule.measured_us > 0 for rule in costs.rules)
    told = costs.document()
    assert told["workload"] == rule_cost.NAME
    assert told["nodes"] == 50


def test_large_deviations_are_marked() -> None:
    """A ratio beyond the bound, in either direction, is no good estimate."""
    items = [
        rule_cost.Measured("good", "true", 20.0, 10.0, 2.0),
        rule_cost.Measured("low", "true", 3.0, 10.0, 0.3),
        rule_cost.Measured("high", "true", 40.0, 10.0, 4.0),
    ]
    assert [item.within for item in items] == [True, False, False]
    lines = list(rule_cost.MeasuredRuleCosts(rule_cost.NAME, 5, 3.0, 1, items).text_lines())
    assert lines[-1] == "  1 of 3 within a factor of 3"
    assert [line.endswith("beyond a factor of 3") for line in lines[2:5]] == [False, True, True]
