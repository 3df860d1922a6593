"""Quick fixes: each mends its problem, and nothing is offered that does not."""

from __future__ import annotations

from functools import partial

import pytest

from policy_sched.lsp.suggestions import fixes
from policy_sched.profiles.check.check import check_open

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: P}\nspec:\n"
CHECK = partial(check_open, "p.yaml")


def mended(spec: str) -> list[tuple[str, str]]:
    """Return the code of each fix for a spec, and the lines of the spec with it done."""
    text = HEAD + spec
    found = []
    for fix in fixes(text, 0, text.count("\n"), CHECK):
        lines = text.split("\n")
        row, start = fix.problem.line - 1, fix.problem.column - 1
        line = lines[row]
        lines[row] = line[:start] + fix.new_text + line[start + fix.problem.width :]
        found.append((fix.problem.code, "\n".join(lines).removeprefix(HEAD)))
    return found


def rule(text: str) -> str:
    """Return a filter with one rule as it is written in YAML."""
    return f"  filter:\n  - {{expression: {text}, message: m, onError: Reject}}\n"


@pytest.mark.parametrize(
    ("wrong", "code", "right"),
    [
        (rule("node.unschedulabel"), "PS102", rule("node.unschedulable")),
        (rule("nod.unschedulable"), "PS101", rule("node.unschedulable")),
        (rule("node.ready").replace("filter", "filtr"), "PS702", rule("node.ready")),
        (rule("node.name = pod.name"), "PS002", rule("node.name == pod.name")),
        (
            rule("node.name == pod.name and node.ready"),
            "PS002",
            rule("node.name == pod.name && node.ready"),
        ),
        (
            rule('\'node.labels["a"] != "b"\''),
            "PS412",
            rule('\'node.labels[?"a"] != optional.of("b")\''),
        ),
        (
            rule("\"node.labels['a'] != 'b'\""),
            "PS412",
            rule('"node.labels[?\\"a\\"] != optional.of(\'b\')"'),
        ),
        (
            "  score: {expression: node.podCount}\n",
            "PS321",
            "  score: {expression: 'clamp(node.podCount, 0, 100)'}\n",
        ),
    ],
    ids=lambda value: value if len(str(value)) == 5 else "",
)
def test_the_hint_is_done(wrong: str, code: str, right: str) -> None:
    """The suggested word or text, in the existing quotes."""
    assert (code, right) in mended(wrong)


@pytest.mark.parametrize(
    "spec",
    [
        rule("node.frobnicated"),
        rule("true"),
        "  filter:\n  - {expression: node.unschedulable, message: m}\n  filter: []\n",
        "  filter: [\n",
    ],
)
def test_nothing_is_offered_that_does_not_mend(spec: str) -> None:
    """No word is close, or the message suggests no text."""
    assert mended(spec) == []


def test_only_the_requested_lines() -> None:
    """An editor requests one line at a time."""
    text = HEAD + rule("node.unschedulabel") + "  scores: {}\n"
    assert [fix.problem.code for fix in fixes(text, 5, 5, CHECK)] == ["PS102"]
    assert [fix.title for fix in fixes(text, 6, 6, CHECK)] == ["Write score"]
