"""Lints of files: parameters at their keys, and comments that silence warnings."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.errors import Severity
from policy_sched.profiles.check.check import check_files

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: A}\nspec:\n"


def told(tmp_path: Path, body: str) -> list[tuple[int, int, str]]:
    """Return line, column and code of the problems of a policy with these sections."""
    file = tmp_path / "policy.yaml"
    file.write_text(HEAD + body, encoding="utf-8")
    found = check_files([str(file)])
    assert not any(one.severity is Severity.ERROR for one in found), found
    return [(one.line, one.column, one.code) for one in found]


def test_a_parameter_that_nothing_reads_is_reported_at_its_key(tmp_path: Path) -> None:
    """The others are read."""
    filters = "  filter: [{expression: node.podCount > params.used}]\n"
    body = f"  params:\n    used: 1\n    unused: 2\n{filters}"
    assert told(tmp_path, body) == [(7, 5, "PS404")]


RULE = "node.podCount >= 0"
FOR_SHOW = "policy-sched: ignore[PS401] for show"


@pytest.mark.parametrize(
    "rules",
    [
        f"  - expression: {RULE} # {FOR_SHOW}\n",
        f"  # {FOR_SHOW}\n  - expression: {RULE}\n",
        f"  # {FOR_SHOW}\n  - expression: |-\n      {RULE}\n",
        f"  - expression: |-\n      // {FOR_SHOW}\n      {RULE}\n",
        (
            f"  # {FOR_SHOW}\n  # policy-sched: ignore[PS405,PS402] so\n"
            "  - expression: node.ready && node.ready || 1 < 2 || 2 < 1\n"
        ),
    ],
)
def test_a_comment_silences_what_is_on_its_line_or_below(tmp_path: Path, rules: str) -> None:
    """With the code that it names."""
    assert told(tmp_path, f"  filter:\n{rules}") == []


@pytest.mark.parametrize(
    ("comment", "codes"),
    [
        ("ignore[PS402] other code", ["PS401", "PS408"]),
        ("ignore[PS401]", ["PS408"]),
        ("ignore everything", ["PS401", "PS408"]),
    ],
)
def test_a_suppression_has_a_code_a_reason_and_an_effect(
    tmp_path: Path, comment: str, codes: list[str]
) -> None:
    """Otherwise it is reported itself."""
    body = f"  filter:\n  - expression: node.podCount >= 0 # policy-sched: {comment}\n"
    assert [code for _, _, code in told(tmp_path, body)] == codes


def test_errors_cannot_be_silenced(tmp_path: Path) -> None:
    """A policy that cannot be loaded is not made loadable by a comment."""
    file = tmp_path / "policy.yaml"
    text = "  filter:\n  - expression: node.nane # policy-sched: ignore[PS102] never mind\n"
    file.write_text(HEAD + text, encoding="utf-8")
    assert [one.code for one in check_files([str(file)])] == ["PS102", "PS408"]


def test_parameters_of_the_search_for_victims_count_as_read(tmp_path: Path) -> None:
    """The machinery behind a preemption section reads them."""
    body = (
        "  params: {minCandidateNodesPercentage: 10, other: 1}\n"
        "  preemption: {eligible: 'true', victim: victim.priority < pod.priority}\n"
    )
    assert [code for _, _, code in told(tmp_path, body)] == ["PS404"]
