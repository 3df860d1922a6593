"""Rule coverage: which rules, and which conditions within them, tests have seen both ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.policytest.coverage import (
    LocationCoverage,
    RuleCoverage,
    coverage_data,
    coverage_lines,
    percent,
)
from policy_sched.policytest.runner import ScenarioRun, run_files
from policy_sched.profiles.models.defaults import policies_directory

POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Odd}
spec:
  preEnqueue:
  - {expression: pod.name != "held", message: held}
  filter:
  - {expression: node.name != "n1" || pod.priority > 5, message: first}
  - {expression: node.name != "n1", message: never reached}
  score: {expression: 'node.labels["zone"] == "a" ? 10 : 20', onError: Zero}
"""


def covered(
    folder: Path, pending: str, nodes: str = "{node: n1}, {node: n2}"
) -> list[LocationCoverage]:
    """Run one scenario of the policy and return its coverage."""
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "tests.yaml").write_text(
        f"{{name: x, policies: [policy.yaml], objects: [{nodes}], pending: [{pending}]}}"
    )
    coverage = RuleCoverage()
    problems = run_files([str(folder / "tests.yaml")], ScenarioRun(coverage)).problems
    assert [one.message for one in problems] == ["the test expects nothing"]
    return coverage.report()


def test_a_rule_is_covered_when_it_was_true_and_false(tmp_path: Path) -> None:
    """Each rule with its place, what was seen and what was not; failing is neither."""
    found = [one for one in covered(tmp_path, "a") if one.location.is_rule]
    assert [(one.location.line, one.location.path, one.seen, one.missing) for one in found] == [
        (6, "preEnqueue[0]", ("true",), ("false",)),
        (8, "filter[0]", ("false", "true"), ()),
        (9, "filter[1]", ("true",), ("false",)),
        (10, "score", ("error",), ("a value",)),
    ]
    assert percent(found) == 25.0


def test_conditions_count_where_they_are_reached(tmp_path: Path) -> None:
    """The right side of || counts only where the left side is false."""
    found = {
        one.location.text: one.missing for one in covered(tmp_path, "a") if not one.location.is_rule
    }
    assert found['node.name != "n1"'] == ()
    assert found["pod.priority > 5"] == ("true",)


def test_a_rule_that_said_everything_it_can_is_covered(tmp_path: Path) -> None:
    """Pods and nodes that make every rule say everything it can."""
    zones = {"n1": "a", "n2": "a", "n3": "b"}
    nodes = ", ".join(f"{{node: {name}, labels: {{zone: {zone}}}}}" for name, zone in zones.items())
    found = covered(tmp_path, "a, held, {pod: high, priority: 9}", nodes)
    assert [one.location.text for one in found if not one.covered] == []
    assert list(coverage_lines(found))[-1] == (
        "rule coverage 100.0 %: 4 of 4 rules, 3 of 3 conditions within rules"
    )
    assert coverage_data(found)["percent"] == 100.0


def conditions(folder: Path, spec: str, rest: str) -> dict[str, tuple[str, ...]]:
    """Run a scenario of a policy; return what was not seen, by the text of a rule or condition."""
    head = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: Odd}\n"
    (folder / "policy.yaml").write_text(f"{head}spec: {spec}\n")
    (folder / "tests.yaml").write_text(f"{{name: x, policies: [policy.yaml], {rest}}}")
    coverage = RuleCoverage()
    problems = run_files([str(folder / "tests.yaml")], ScenarioRun(coverage)).problems
    assert [one.message for one in problems] == ["the test expects nothing"]
    return {one.location.text: one.missing for one in coverage.report()}


TAINTS = "objects: [{node: n1, taints: ['a=1:NoSchedule', 'b=2:NoExecute']}], pending: [p]"


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            "node.taints.all(t, t.key == 'a' || t.value == '2')",
            {"t.key == 'a'": (), "t.value == '2'": ("false",)},
        ),
        (
            "node.taints.exists(t, t.key != 'c' && t.value == '9')",
            {"t.key != 'c'": ("false",), "t.value == '9'": ("true",)},
        ),
        (
            "node.taints.filter(t, t.key == 'a').map(t, t.value == '1' ? 1 : 2).sum() == 1",
            {"t.key == 'a'": (), "t.value == '1'": ("false",)},
        ),
        (
            "node.taints.all(t, pod.tolerations.exists(o, o.key == t.key))",
            {
                "pod.tolerations.exists(o, o.key == t.key)": ("true",),
                "o.key == t.key": ("true", "false"),
            },
        ),
        (
            "cel.bind(n, node.podCount, n > 3 || n > 7)",
            {"n > 3": ("true",), "n > 7": ("true",)},
        ),
    ],
)
def test_conditions_in_loops_are_evaluated_for_elements(
    rule: str, expected: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    """True for some element and false for some, of those for which it is reached."""
    spec = f'{{filter: [{{expression: "{rule}", message: m}}]}}'
    found = conditions(tmp_path, spec, TAINTS)
    assert expected.items() <= found.items()


def test_normalizers_see_raw_scores(tmp_path: Path) -> None:
    """An expression of `normalize` is a rule: two values cover it, and its conditions count."""
    normalize = "scores.max == 0 ? 0 : clamp(100 * score / scores.max, 0, 100)"
    spec = f"{{score: {{expression: node.podCount, normalize: {{expression: '{normalize}'}}}}}}"
    nodes = "objects: [{node: n1}, {node: n2}, {pod: old, node: n1}], pending: [p]"
    found = conditions(tmp_path, spec, nodes)
    assert (found[normalize], found["scores.max == 0"]) == ((), ("true",))
    empty = conditions(tmp_path, spec, "objects: [{node: n1}], pending: [p]")
    assert (empty[normalize], empty["scores.max == 0"]) == (("a second value",), ("false",))


ORDER = """
{preemption: {victim: victim.priority < pod.priority, nodeOrder: [
  {expression: pdbViolations}, {expression: "victims.exists(v, v.priority > 3) ? 1 : 0"}]}}
"""
FULL = "{{node: {0}, cpu: 1}}, {{pod: on-{0}, node: {0}, cpu: 1, priority: {1}}}"


@pytest.mark.parametrize(
    ("priorities", "missing"),
    [((1, 5), ()), ((1, 2), ("a second value",)), ((1,), ("a value",)), ((), ("a value",))],
)
def test_orders_of_nodes_are_evaluated_by_the_search(
    priorities: tuple[int, ...], missing: tuple[str, ...], tmp_path: Path
) -> None:
    """Of candidates, with their victims; with one candidate nothing has to be ordered."""
    objects = ", ".join(FULL.format(f"n{i}", one) for i, one in enumerate(priorities))
    rest = f"objects: [{objects}], pending: [{{pod: p, cpu: 1, priority: 9}}]"
    policy = "'victims.exists(v, v.priority > 3) ? 1 : 0'"
    found = conditions(tmp_path, " ".join(ORDER.split()), rest.replace("objects: [],", ""))
    assert found[policy.strip("'")] == missing


def test_domains_of_placements_are_rules(tmp_path: Path) -> None:
    """Two domains cover the rule; a node without one counts for nothing."""
    spec = "{placement: {domain: 'node.labels[\"rack\"]'}}"
    nodes = "objects: [{node: n1, labels: {rack: a}}, {node: n2, labels: {rack: RACK}}, n3]"
    nodes = nodes.replace("n3", "{node: n3}") + ", pending: [p]"
    assert conditions(tmp_path, spec, nodes.replace("RACK", "b")) == {'node.labels["rack"]': ()}
    one = conditions(tmp_path, spec, nodes.replace("RACK", "a"))
    assert one == {'node.labels["rack"]': ("a second value",)}


def test_rules_about_the_pod_are_rules(tmp_path: Path) -> None:
    """Coverage of 100 % was stated for a policy whose rules of preFilter no test had seen."""
    rule = "pod.priority > 5"
    rules = f"{{rules: [{{expression: '{rule}'}}]}}"
    spec = f"{{preFilter: {rules}, filter: [{{expression: node.ready}}]}}"
    found = conditions(tmp_path, spec, "objects: [{node: n1}], pending: [p]")
    assert found == {rule: ("true",), "node.ready": ("true", "false")}


def test_time_outs_are_rules(tmp_path: Path) -> None:
    """One that reads the pod wants two values, a constant one none beyond itself."""
    timeout = "pod.priority > 5 ? duration('1m') : duration('2m')"
    spec = f'{{permit: {{allow: "false", timeout: "{timeout}"}}}}'
    found = conditions(tmp_path, spec, "objects: [{node: n1}], pending: [p]")
    assert found[timeout] == ("a second value",)
    assert found["pod.priority > 5"] == ("true",)


EVICTING = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Odd}
spec:
  evict:
    every: 1m
    victim: pod.namespace == "a" && pod.priority < 5
    order: [{expression: pod.priority}]
"""


def test_rules_that_evict_are_rules(tmp_path: Path) -> None:
    """They are evaluated for running pods, where a test looks at these; keys for those that go."""
    (tmp_path / "policy.yaml").write_text(EVICTING)
    (tmp_path / "tests.yaml").write_text(
        "{name: x, policies: [policy.yaml], ops: [{evict: true}], expect: [{evicted: [a/x]}],"
        " objects: [{node: n1}, {pod: a/x, node: n1}, {pod: b/y, node: n1},"
        " {pod: a/z, node: n1, priority: 7}]}"
    )
    coverage = RuleCoverage()
    assert not run_files([str(tmp_path / "tests.yaml")], ScenarioRun(coverage)).problems
    report = coverage.report()
    assert [(one.location.path, one.location.text, one.missing) for one in report] == [
        ("evict.victim", 'pod.namespace == "a"', ()),
        ("evict.victim", 'pod.namespace == "a" && pod.priority < 5', ()),
        ("evict.victim", "pod.priority < 5", ()),
        ("evict.order[0]", "pod.priority", ("a second value",)),
    ]


def test_the_shipped_policies_pass_their_tests_and_are_covered_whole() -> None:
    """Each step is as expected, and each rule that we ship is seen in all that it can say."""
    coverage = RuleCoverage()
    files = [str(one) for one in sorted(policies_directory().glob("*/tests.yaml"))]
    assert len(files) == len([*policies_directory().glob("*/policy.yaml")]) > 5
    found = run_files(files, ScenarioRun(coverage))
    assert not found.problems
    assert not [result for result in found.results if result.differences]
    lines = [
        f"{one.location.policy}.{one.location.path}: never {' or '.join(one.missing)}"
        for one in coverage.report()
        if one.location.is_rule and not one.covered
    ]
    assert lines == []
