"""Results of scenarios as text, JSON and JUnit XML."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from policy_sched.cli.output.junit_tap_sarif import as_junit
from policy_sched.policytest.comparison import Deviation
from policy_sched.policytest.report import ScenarioReport, StepResult

RESULTS = [
    StepResult("a.jsonl", "one", "default/p", ()),
    StepResult("a.jsonl", "two", "default/q", (Deviation("best", ["n1"], ["n2", "n3"]),)),
    StepResult("b.yaml", 'three <&> "', "default/r", (Deviation("message", "x", "<y>"),)),
]


def test_text_shows_every_difference_and_ends_with_the_count() -> None:
    """Scenario, pod, field, expected and got; a line per file; the sentence that all wait for."""
    assert list(ScenarioReport(RESULTS).text_lines()) == [
        "a.jsonl: two",
        "  default/q",
        "    best",
        "      expected n1",
        "      got      n2, n3",
        "a.jsonl: 1 of 2",
        'b.yaml: three <&> "',
        "  default/r",
        "    message",
        "      expected x",
        "      got      <y>",
        "b.yaml: 0 of 1",
        "1 of 3 steps as expected",
    ]


def test_nothing_to_run_is_reported() -> None:
    """No steps are no failure, and no silence."""
    assert list(ScenarioReport([]).text_lines()) == ["0 of 0 steps as expected"]


def test_json_keeps_the_types_of_values() -> None:
    """Lists stay lists, so that a program can work with them."""
    document = ScenarioReport(RESULTS).document()
    assert document["steps"] == 3
    assert document["asExpected"] == 1
    assert document["differences"][0]["got"] == ["n2", "n3"]


def test_junit_has_a_suite_per_file_and_a_case_per_step() -> None:
    """Counts are right, and names survive as they are."""
    root = ET.fromstring(as_junit(ScenarioReport(RESULTS).cases()))
    assert root.attrib == {"tests": "3", "failures": "2", "errors": "0", "time": "0.000"}
    assert [case.get("file") for case in root.iter("testcase")] == [one.file for one in RESULTS]
    assert [suite.get("name") for suite in root] == ["a.jsonl", "b.yaml"]
    case = root[1][0]
    assert case.get("classname") == 'three <&> "'
    failure = case.find("failure")
    assert failure is not None
    assert failure.text == "message: expected x, got <y>"
