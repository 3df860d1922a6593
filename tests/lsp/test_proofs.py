"""The language server knows claims: keys, rules, names of policies, problems, hover texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.lsp.suggestions import fixes, meaning, suggestions
from policy_sched.profiles.check import OF_POLICIES, check_open

POLICIES = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Gold}
spec: {filter: [{expression: pod.priority >= 100, message: gold}]}
---
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Ranks}
spec: {score: {expression: "50"}}
"""
HEAD = """\
apiVersion: policysched.dev/v1alpha1
kind: PolicyProof
name: p
policies: [policy.yaml]
"""
CLAIM = "claims:\n- name: a\n  "


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return where the claims are, beside the policies that they are about."""
    (tmp_path / "policy.yaml").write_text(POLICIES)
    return str(tmp_path / "claims.yaml")


def labels(path: str, text: str) -> set[str]:
    """Return the words that are offered at the end of a text."""
    lines = (HEAD + text).split("\n")
    offered = suggestions(path, HEAD + text, len(lines) - 1, len(lines[-1]))
    return {item.label for item in offered}


def test_keys_come_from_the_schema(path: str) -> None:
    """The document, a claim and a form of claims have their keys."""
    assert labels(path, "") >= {"assume", "claims"}
    assert labels(path, CLAIM) >= {"always", "never", "implies", "disjoint", "monotone"}
    assert labels(path, f"{CLAIM}implies:\n    ") == {"if", "then"}


@pytest.mark.parametrize(
    "before",
    [
        "assume:\n- ",
        f"{CLAIM}always: ",
        f"{CLAIM}never: '!node.ready && ",
        f"{CLAIM}implies: {{if: ",
        f"{CLAIM}implies:\n    then: ",
        f"{CLAIM}disjoint:\n  - ",
        f"{CLAIM}always: |-\n    node.ready ||\n    ",
        f"{CLAIM}monotone: {{score: Ranks, in: ",
    ],
)
def test_rules_are_completed_in_every_form(before: str, path: str) -> None:
    """Pod, node, functions, and what claims alone have; below a name its fields."""
    assert labels(path, before) >= {"pod", "node", "passes", "quantity", *OF_POLICIES}
    assert labels(path, f"{before}node.rea") == {"ready"}


@pytest.mark.parametrize(
    ("before", "names"),
    [
        ("always: passes('", {"Gold", "Ranks"}),
        ('always: "passes(\\"G', {"Gold"}),
        ("never: score('", {"Ranks"}),
        ("never: normalized('", {"Ranks"}),
        ("never: takesPart('", {"Gold", "Ranks"}),
        ("never: eligible('", set()),
        ("monotone: {score: ", {"Ranks"}),
        ("name: passes('", set()),
    ],
)
def test_names_of_policies_are_completed(before: str, names: set[str], path: str) -> None:
    """Those that the document names; a score is asked of those that score."""
    assert labels(path, f"{CLAIM}{before}") == names


def test_words_of_claims_are_explained(path: str) -> None:
    """What a policy says of a word is not what a claim says of it."""
    text = f"{HEAD}{CLAIM}always: passes || pod.priority > 0\n"
    entries = [meaning(path, text, 6, column) for column in (12, 25, 4)]
    assert [entry.text for entry in entries if entry is not None] == [
        "Whether the filters of all policies, or of one, let the node pass.",
        "Its priority; 0 where none is set.",
        "A rule that is true for every pod and node; one that fails is not.",
    ]


def test_problems_are_shown_and_mended_in_place(path: str) -> None:
    """A name that is none, and a policy that is none, while they are typed."""
    text = f"{HEAD}{CLAIM}always: passes || nod.ready\n- {{name: b, never: score('Gold') > 0}}\n"
    problems = [(d.line, d.column, d.code) for d in check_open(path, text)]
    assert problems == [(7, 21, "PS101"), (8, 20, "PS705")]
    (fix,) = fixes(text, 6, 6, lambda changed: check_open(path, changed))
    assert fix.new_text == "node"
