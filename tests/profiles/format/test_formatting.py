"""Policy files in their one form: what they say and their comments stay."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given, strategies as st

from policy_sched.language.formatter import format_expression
from policy_sched.profiles.format import formatting
from policy_sched.profiles.format.formatting import format_file

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: A}\nspec:\n"
POLICIES = sorted((Path(__file__).parents[3] / "policies").glob("*/*.yaml"))


def formatted(text: str) -> str:
    """Return the one form of a text, which has it from then on."""
    shown, problems = format_file("policy.yaml", text)
    assert not problems
    assert format_file("policy.yaml", shown) == (shown, [])
    return shown


@pytest.mark.parametrize(
    ("rule", "shown"),
    [
        ("a&&b", "a && b"),
        ('"a &&  b"', '"a && b"'),
        ("'a &&  b'", "'a && b'"),
        ('"a == \\"b\\""', "'a == \"b\"'"),
        ("|-\n      a &&\n      b", "a && b"),
        (">\n      a &&\n      b", "a && b"),
        ("a\n      && b", "a && b"),
        ('|\n      !a ||\n      b["x: y"]', "'!a || b[\"x: y\"]'"),
        ("|-\n      a && // why\n      b", "|-\n      a &&  // why\n      b"),
        ("true", "true"),
        ("'true'", "'true'"),
        ("&x   a&&b", "&x   a && b"),
    ],
)
def test_rules_keep_their_quotes_or_lose_them_where_they_fit_on_a_line(
    rule: str, shown: str
) -> None:
    """Plain where that is possible, and a block for what has comments."""
    text = f"{HEAD}  filter:\n  - expression: {rule}\n    message: m # note\n"
    assert formatted(text) == f"{HEAD}  filter:\n  - expression: {shown}\n    message: m # note\n"


def test_a_rule_longer_than_a_line_becomes_a_block() -> None:
    """Below its key, indented by two."""
    long = " && ".join(f"variables.condition{i}" for i in range(8))
    text = f"{HEAD}  filter:\n  - {{expression: {long}}}\n  - expression: {long}\n"
    shown = formatted(text)
    assert f"  - {{expression: {long}}}\n" in shown
    lines = " &&\n      ".join(f"variables.condition{i}" for i in range(8))
    assert shown.endswith(f"  - expression: |-\n      {lines}\n")


def test_the_comment_of_a_block_stays() -> None:
    """It stands behind the sign of the block, and was lost when the rule was written anew."""
    text = f"{HEAD}  filter:\n  - expression: |- # why\n      a&&\n      b\n"
    assert formatted(text) == f"{HEAD}  filter:\n  - expression: a && b # why\n"
    long = " && ".join(f"variables.condition{i}" for i in range(8))
    shown = formatted(f"{HEAD}  filter:\n  - expression: | # why\n      {long}\n")
    assert "  - expression: |- # why\n      variables.condition0 &&\n" in shown


def test_entries_move_with_their_comments() -> None:
    """The order is the schema's, in blocks and in braces."""
    text = """\
kind: Policy
apiVersion: policysched.dev/v1alpha1
# the spec
spec:
  # how good
  score: # why
    normalize: None
    expression: 1+1

  # which nodes
  filter:
  # first
  - message: x
    # because
    expression: |
      a&&
      b

    # end of first
  - {message: y, expression: "c"} # two
  # tail
metadata: {name: A}
"""
    assert (
        formatted(text)
        == """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: A}
# the spec
spec:
  # which nodes
  filter:
  # first
  - # because
    expression: a && b
    message: x

    # end of first
  - {expression: "c", message: y} # two
  # how good
  score: # why
    expression: 1 + 1
    normalize: None
  # tail
"""
    )


def test_entries_of_many_mappings_move_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of 300 rules with the message first was read 300 times again: `fmt` took 17 s."""
    monkeypatch.setattr(formatting, "_MOST_READINGS", 4)
    many = range(300)
    rules = "".join(f"  - message: m{i} # {i}\n    expression: a{i}\n" for i in many)
    flow = "".join(f"  - {{onError: Allow, message: m{i}, expression: a{i}}}\n" for i in many)
    shown = formatted(f"{HEAD}  preEnqueue:\n{rules}  filter:\n{flow}")
    ordered = "".join(f"  - expression: a{i}\n    message: m{i} # {i}\n" for i in many)
    braces = "".join(f"  - {{expression: a{i}, message: m{i}, onError: Allow}}\n" for i in many)
    assert shown == f"{HEAD}  preEnqueue:\n{ordered}  filter:\n{braces}"


def test_other_documents_stay_as_they_are() -> None:
    """Only policies have a form here."""
    other = "kind: ConfigMap\napiVersion: v1\ndata: {expression:   a&&b}\n"
    assert formatted(other) == other
    assert formatted("") == ""
    assert formatted(f"{other}---\n{HEAD}  filter: []") == f"{other}---\n{HEAD}  filter: []\n"


def test_what_does_not_parse_is_reported_and_left() -> None:
    """Every slip of every rule, with its place; the file is not touched."""
    text = f"{HEAD}  filter:\n  - expression: a &&\n  - expression: and b\n"
    shown, problems = format_file("p.yaml", text)
    assert shown == text
    assert [(p.line, p.code) for p in problems] == [(6, "PS001"), (7, "PS002")]
    shown, problems = format_file("p.yaml", "a: [")
    assert shown == "a: ["
    assert [p.code for p in problems] == ["PS701"]


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: "/".join(path.parts[-2:]))
def test_shipped_files_say_the_same_afterwards(path: Path) -> None:
    """Data apart from rules is equal, and each comment is still there."""
    text = path.read_text(encoding="utf-8")
    shown = formatted(text)
    before, after = (list(yaml.load_all(t, yaml.CSafeLoader)) for t in (text, shown))
    assert [_plain(d) for d in before] == [_plain(d) for d in after]
    notes = re.compile(r"(?:^|\s)(#.*)$", re.MULTILINE)
    assert sorted(notes.findall(text)) == sorted(notes.findall(shown))


def _plain(value: object) -> object:
    if isinstance(value, str):
        return format_expression(value) or value
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


keys = st.permutations(("params", "variables", "filter", "score", "queueSort"))
ENTRIES = {
    "params": "{a: 1} # p",
    "variables": "\n  # v\n  - name: x\n    expression: 1",
    "filter": "\n  - expression: true\n    # f\n    message: |\n      # no comment\n      text",
    "score": "\n    expression: 5\n    # s",
    "queueSort": "[{order: Descending, expression: pod.priority}]",
}


@given(keys, st.lists(st.booleans(), min_size=5, max_size=5))
def test_any_order_of_sections_becomes_the_same(order: list[str], gaps: list[bool]) -> None:
    """Whatever came first, and whether there are blank lines between."""
    body = "".join(
        "\n" * gap + f"  {key}: {ENTRIES[key]}\n" for key, gap in zip(order, gaps, strict=True)
    )
    shown = formatted(HEAD + body)
    found = yaml.load(shown, yaml.CSafeLoader)
    assert list(found["spec"]) == ["params", "variables", "queueSort", "filter", "score"]
    assert found == yaml.load(HEAD + body, yaml.CSafeLoader)
    assert all(shown.count(f"# {note}") == 1 for note in ("p", "v", "f", "s", "no comment"))
