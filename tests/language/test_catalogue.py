"""Promises of the catalogue of problems: each code fails, almost fails, and says the same words.

Point 8 of the language's test plan: each code of a policy's texts.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

import pytest

from policy_sched.errors import Severity
from policy_sched.language.check.policy import check_policy
from policy_sched.language.diagnostics import codes

from .rule_files import documents, policy

ENTRIES = documents("catalogue.yaml")
#: The packages of the front end: what emits the codes that this catalogue shows.
PACKAGES = ("policy_sched.language.check", "policy_sched.language.syntax")


def title(entry: dict[str, Any]) -> str:
    """Name a test after its entry."""
    return f"{entry['code']} {entry['title']}"


@pytest.mark.parametrize("entry", ENTRIES, ids=title)
def test_the_failing_policy_gets_exactly_these_words(entry: dict[str, Any]) -> None:
    """A mistake is one diagnostic, with place, caret, context and hint."""
    checked, diagnostics = check_policy(policy(entry["fails"]))
    assert "\n".join(d.render() for d in diagnostics) + "\n" == entry["says"]
    assert {d.code for d in diagnostics} == {entry["code"]}
    assert (checked is None) == any(d.severity is Severity.ERROR for d in diagnostics)


@pytest.mark.parametrize("entry", ENTRIES, ids=title)
def test_the_near_miss_passes_without_a_word(entry: dict[str, Any]) -> None:
    """What almost makes the mistake is accepted in silence."""
    checked, diagnostics = check_policy(policy(entry["passes"]))
    assert [d.render() for d in diagnostics] == []
    assert checked is not None


def test_every_code_that_the_front_end_emits_is_shown() -> None:
    """No code is emitted that the catalogue lacks, and none is undocumented.

    Those of inputs, aggregates and files are in tests/profiles/problems.yaml.
    """
    files = [file for package in PACKAGES for file in resources.files(package).iterdir()]
    texts = [file.read_text(encoding="utf-8") for file in files if file.name.endswith(".py")]
    emitted = {code for text in texts for code in re.findall(r'"(PS\d{3})"', text)}
    of_rules = {code for code in emitted if code < "PS700"}
    assert of_rules == {entry["code"] for entry in ENTRIES}
    assert emitted <= set(codes())
