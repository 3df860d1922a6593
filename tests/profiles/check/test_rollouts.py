"""Rollouts: all of their problems at once, each at its place; and what passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.profiles.check import check_files
from policy_sched.profiles.format import format_file

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: Rollout\nmetadata: {name: careful}\nspec:\n"
GOOD = """\
  steps:
  - audit: {decisions: 500, for: 10m}
  - canary: {percent: 10, by: Owner, for: 20m}
  - canary: {percent: 50, by: Owner, for: 20m, decisions: 100}
  abortWhen:
  - expression: candidate.unschedulable > stable.unschedulable + 0.02
    message: more pods find no node
    decisions: 50
  - expression: candidate.waitingP99 > 2.0 * stable.waitingP99 && candidate.decisions > 200
"""
STEP = "  steps: [{canary: {percent: 5, for: 1m}}]\n"


def told(folder: Path, text: str) -> list[tuple[int, int, str, str]]:
    """Return place, code and message of each problem of a file."""
    file = folder / "rollout.yaml"
    file.write_text(text, encoding="utf-8")
    return [(d.line, d.column, d.code, d.message) for d in check_files([str(file)])]


def test_a_rollout_passes(tmp_path: Path) -> None:
    """Steps that rise, with rules over measures, have no problem."""
    assert told(tmp_path, HEAD + GOOD) == []


QUEUE = """\
---
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Sorts}
spec:
  queueSort: [{expression: pod.priority}]
  evict:
    every: 1m
    victim: pod.priority < 0
"""


def test_sections_that_no_step_tries_are_noted(tmp_path: Path) -> None:
    """Beside a Rollout the order of the queue and evictions come in force with the promotion."""
    sections = [(11, 28, "queueSort"), (14, 13, "evict")]
    assert told(tmp_path, HEAD + STEP + QUEUE) == [
        (line, column, "PS718", f"no step of the Rollout careful tries a change of {section}")
        for line, column, section in sections
    ]
    assert told(tmp_path, QUEUE) == []


def test_rules_that_never_speak_are_told(tmp_path: Path) -> None:
    """A rule that is always true or false, and a measure that no step takes."""
    audit = "  steps: [{audit: {for: 1m}}]\n  abortWhen:\n"
    rules = ("candidate.errors < 0", "true", "stable.waitingP99 > 1.0", "candidate.moved > 3")
    text = HEAD + audit + "".join(f"  - {{expression: '{rule}'}}\n" for rule in rules)
    measured = "waitingP99 is measured in canaries alone, and no step is one"
    assert told(tmp_path, text) == [
        (7, 19, "PS402", "this is always false"),
        (8, 19, "PS401", "this is always true"),
        (9, 19, "PS717", measured),
    ]
    (problem,) = told(tmp_path, text.replace("audit: {", "canary: {percent: 9, "))[2:]
    assert problem[3].startswith("moved is measured in audits alone")


def test_a_second_rollout_is_told(tmp_path: Path) -> None:
    """A scheduler that reads both files would refuse them."""
    (problem,) = told(tmp_path, HEAD + STEP + "---\n" + HEAD + STEP)
    first = tmp_path / "rollout.yaml"
    assert problem[2:] == ("PS708", f"there is a Rollout in {first} already; a set has one")


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    """Problems of shape hide neither those of steps nor those of rules."""
    text = HEAD + (
        "  steps:\n"
        "  - canary: {percent: 50, for: 20}\n"
        "  - canary: {percent: 10, by: Pods, for: 0s}\n"
        "  - audit: {}\n"
        "  - {}\n"
        "  abortWhen:\n"
        "  - {expression: candidate.erors > 0, mesage: m}\n"
        "  - {expression: candidate.errors}\n"
        "  - {expression: pod.priority > 0}\n"
    )
    problems = told(tmp_path, text)
    assert [(line, column, code) for line, column, code, _ in problems] == [
        (6, 32, "PS703"),
        (7, 23, "PS717"),
        (7, 31, "PS707"),
        (7, 42, "PS707"),
        (8, 5, "PS704"),
        (8, 5, "PS717"),
        (9, 5, "PS704"),
        (11, 28, "PS102"),
        (11, 39, "PS702"),
        (12, 18, "PS301"),
        (13, 18, "PS104"),
    ]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("  steps: []\n", "spec.steps: Invalid value: []"),
        ("  steps: [{canary: {percent: 0, for: 1m}}]\n", "a step that decides nothing is an audit"),
        ("  steps: [{canary: {percent: 100, for: 1m}}]\n", "the candidate decides everything"),
        ("  steps: [{canary: {percent: 5}}]\n", "Required value: for or decisions"),
        (
            "  steps: [{audit: {for: 1m}, canary: {percent: 5, for: 1m}}]\n",
            "Forbidden: the step has audit already",
        ),
        (
            "  steps: [{canary: {percent: 5, for: 1m}}, {canary: {by: Pod, percent: 6, for: 1m}}]",
            "Pod does not follow Owner: pods would change sides",
        ),
        (f"{STEP}  abortWhen: [{{message: m}}]\n", "abortWhen[0].expression: Required value"),
        (
            f"{STEP}  abortWhen: [{{expression: 'candidate.errors > 0', decisions: 0}}]\n",
            "0 is less than the minimum of 1",
        ),
        (f"{STEP}  abortWhen: [{{expression: 'candidate.waitingP99 > 2 * 1.5'}}]\n", "overload"),
        ("  steps: [" + "{audit: {for: 1m}}, " * 21 + "]\n", "must have at most 20 items"),
    ],
)
def test_a_mistake_has_its_words(spec: str, words: str, tmp_path: Path) -> None:
    """What a rollout may not have is refused with the reason."""
    problems = told(tmp_path, HEAD + spec)
    assert len(problems) == 1
    assert words in problems[0][3]


def test_rollouts_of_others_are_passed_over(tmp_path: Path) -> None:
    """A Rollout of another group in a directory is none of ours."""
    (tmp_path / "argo.yaml").write_text("apiVersion: argoproj.io/v1alpha1\nkind: Rollout\n")
    (tmp_path / "ours.yaml").write_text(HEAD + GOOD)
    assert check_files([str(tmp_path)]) == []


def test_a_rollout_is_formatted() -> None:
    """Keys are put in the order of the schema, and rules have their one form."""
    text = (
        "apiVersion: policysched.dev/v1alpha1\nspec:\n  abortWhen:\n"
        "  - expression: candidate.errors>0\n  steps: [{canary: {for: 10m, percent: 3}}]\n"
        "kind: Rollout\nmetadata: {name: a}\n"
    )
    formatted, problems = format_file("r.yaml", text)
    assert problems == []
    assert formatted == (
        "apiVersion: policysched.dev/v1alpha1\nkind: Rollout\nmetadata: {name: a}\nspec:\n"
        "  steps: [{canary: {percent: 3, for: 10m}}]\n  abortWhen:\n"
        "  - expression: candidate.errors > 0\n"
    )
    assert format_file("r.yaml", formatted) == (formatted, [])
