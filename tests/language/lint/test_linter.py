"""Promises of the lints: each warns at a place, and is silent about what almost deserves it."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.errors import Diagnostic, Severity
from policy_sched.language.check.policy import check_policy
from policy_sched.language.diagnostics import codes
from policy_sched.language.lint.linter import lint, unused_params
from tests.language.rule_files import documents, policy

ENTRIES = documents("lints.yaml")


def found(spec: dict[str, Any]) -> list[Diagnostic]:
    """Return what the lints say of a policy, which has no error."""
    source = policy(spec)
    checked, problems = check_policy(source)
    assert checked is not None, [problem.render() for problem in problems]
    return lint(source, checked)


def title(entry: dict[str, Any]) -> str:
    """Name a test after its entry."""
    return f"{entry['code']} {entry['title']}"


@pytest.mark.parametrize("entry", ENTRIES, ids=title)
def test_the_policy_is_warned_about_at_its_place(entry: dict[str, Any]) -> None:
    """A warning or a note marks the words that it is about; nothing else is reported."""
    told = found(entry["warns"])
    emitted = {one.code for one in told}
    assert emitted == {entry["code"], *entry.get("also", ())}, [one.render() for one in told]
    one = next(one for one in told if one.code == entry["code"])
    assert one.source_line[one.column - 1 :][: one.width] == entry["at"]
    assert one.severity is codes()[one.code].severity is not Severity.ERROR
    assert one.context.startswith("policy test, ")
    assert entry.get("hint", one.hint) == one.hint


@pytest.mark.parametrize("entry", ENTRIES, ids=title)
def test_the_near_miss_is_not_reported(entry: dict[str, Any]) -> None:
    """What almost deserves the warning does not get it."""
    told = [one for one in found(entry["passes"]) if one.code not in entry.get("also", ())]
    assert not told, [one.render() for one in told]


def test_every_lint_of_rules_is_shown() -> None:
    """No code of a lint lacks an example; those about files and snapshots are shown elsewhere."""
    elsewhere = {"PS109", "PS408", "PS410", "PS411", "PS712", "PS718", "PS719", "PS812"}
    elsewhere |= {"PS822", "PS902"}
    warnings = {name for name, code in codes().items() if code.severity is not Severity.ERROR}
    assert {entry["code"] for entry in ENTRIES} == warnings - elsewhere


@pytest.mark.parametrize(
    ("spec", "unused"),
    [
        ({"params": {"a": 1, "b": 2}, "filter": [{"expression": "params.a > 1"}]}, ["b"]),
        (
            {
                "params": {"a": 1},
                "functions": [{"name": "f", "params": {}, "expression": "params.a"}],
                "filter": [{"expression": "node.ready"}],
            },
            [],
        ),
        (
            {
                "params": {"a": {"b": 1}},
                "variables": [{"name": "v", "expression": "params.a.b"}],
                "filter": [{"expression": "variables.v > 0"}],
            },
            [],
        ),
    ],
)
def test_parameters_that_nothing_reads(spec: dict[str, Any], unused: list[str]) -> None:
    """Sections, variables and functions all count as readers."""
    source = policy(spec)
    checked, _ = check_policy(source)
    assert checked is not None
    assert unused_params(source, checked) == unused


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ('quantity(node.labels[?"a"].orValue("1")) > quantity("1")', "`quantity(...)`: no value"),
        ('int(node.labels[?"a"].orValue("1")) > 1', "`int(...)`: no value"),
        ('node.labels["a"] == "1"', "no such key 'a'"),
        ("size(node.name) / node.podCount > 1", "divide by zero"),
    ],
)
def test_a_rule_that_can_fail_names_the_call(rule: str, words: str) -> None:
    """The message of PS413 names the call that can fail."""
    messages = [
        one.message for one in found({"filter": [{"expression": rule}]}) if one.code == "PS413"
    ]
    assert [words in message for message in messages] == [True], messages
