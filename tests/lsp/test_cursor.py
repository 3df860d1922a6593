"""The position of the cursor, also in files that are not valid YAML yet.

Where names come from: parameters, variables, functions and their parameters.
"""

from __future__ import annotations

import pytest

from policy_sched.lsp.cursor import cursor_at, definition

FILE = """\
kind: Policy
spec:
  variables:
  - name: tier
    expression: node.labels[?"tier"]
  matchConditions:
  - pod.name != "x"
  filter:
  - {expression: 'pod.priority < 5 || "a, b: c" == node.name', message: why}
  - expression: |-
      node.podCount < 5 &&
        node.name
    message: text
  score:
    expression: clamp(1, 0, 100)
    normalize:
      expression: score
  permit:
    allow: podGroup
"""


@pytest.mark.parametrize(
    ("until", "section", "before"),
    [
        ("node.lab", "definition", "node.lab"),
        ("pod.name !", "matchConditions", "pod.name !"),
        ("{expression: 'pod.pri", "filter", "pod.pri"),
        ("== node", "filter", 'pod.priority < 5 || "a, b: c" == node'),
        ("node.podC", "filter", "      node.podC"),
        ("        node.n", "filter", "      node.podCount < 5 &&\n        node.n"),
        ("clamp(1", "score", "clamp(1"),
        ("expression: sco", "score.normalize", "sco"),
        ("allow: podG", "permit.allow", "podG"),
    ],
)
def test_the_cursor_in_a_rule(until: str, section: str, before: str) -> None:
    """Its section, and its text up to the cursor; quotes are no part of it."""
    head = FILE[: FILE.index(until) + len(until)]
    line, character = head.count("\n"), len(head) - head.rfind("\n") - 1
    for text in (FILE, head, head + "\n  broken: [\n"):
        cursor = cursor_at(text, line, character)
        assert cursor.section is not None
        assert (cursor.section.name, cursor.before) == (section, before)


@pytest.mark.parametrize(
    ("until", "path", "word"),
    [
        ("spec:\n  var", ("spec",), "var"),
        ("- nam", ("spec", "variables"), "nam"),
        ("  - expr", ("spec", "filter"), "expr"),
        ("message: why, mess", ("spec", "filter"), "mess"),
        ("    norm", ("spec", "score"), "norm"),
    ],
)
def test_the_cursor_in_a_key(until: str, path: tuple[str, ...], word: str) -> None:
    """The keys that lead to it, and its beginning."""
    text = FILE.replace("message: why}", "message: why, mess}")
    head = text[: text.index(until) + len(until)]
    cursor = cursor_at(head, head.count("\n"), len(head) - head.rfind("\n") - 1)
    assert (cursor.path, cursor.before, cursor.word) == (path, None, word)


def test_text_that_is_no_rule_has_no_section() -> None:
    """Messages and names are for people."""
    head = FILE[: FILE.index("message: te") + len("message: te")]
    cursor = cursor_at(head, head.count("\n"), len(head) - head.rfind("\n") - 1)
    assert cursor.section is None


TEXT = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: First}
spec:
  params: {most: 5}
---
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: P}
spec:
  params:
    most: 20
    label: zone
  variables:
  - {name: crowded, expression: node.podCount > params.most}
  functions:
  - name: twice
    params: {n: int}
    expression: n * 2
  filter:
  - expression: |-
      !variables.crowded &&
        twice(node.podCount) < params.most
    message: m
  score: {expression: "clamp(twice(params.most), 0, 100)"}
"""
LINES = TEXT.split("\n")


def defined_at(line: int, word: str) -> str | None:
    """Return line, column and text of the definition of a word in a line (from 1)."""
    location = definition("p.yaml", TEXT, line - 1, LINES[line - 1].rindex(word) + 1)
    if location is None:
        return None
    first, start, last, end = location
    assert first == last
    return f"{first + 1}:{start + 1} {LINES[first][start:end]}"


@pytest.mark.parametrize(
    ("line", "word", "location"),
    [
        (15, "most", "12:5 most"),
        (22, "crowded", "15:12 crowded"),
        (23, "twice", "17:11 twice"),
        (23, "most", "12:5 most"),
        (25, "twice", "17:11 twice"),
        (19, "n * 2", "18:14 n"),
        (23, "podCount", None),
        (23, "node", None),
        (22, "variables", None),
        (24, "m", None),
        (12, "most", None),
    ],
)
def test_where_a_name_is_defined(line: int, word: str, location: str | None) -> None:
    """In the policy that the cursor is in; fields and variables of the language are nowhere."""
    assert defined_at(line, word) == location


def test_a_line_that_is_being_typed() -> None:
    """A line that breaks the YAML is left out, and the rest still knows where things are."""
    broken = TEXT.replace("    message: m", "    message: [params.most")
    row = LINES.index("    message: m")
    assert definition("p.yaml", broken, row, 4) is None
    rule = broken.split("\n").index("        twice(node.podCount) < params.most")
    assert definition("p.yaml", broken, rule, 34) is None
    assert definition("p.yaml", "a: [\n", 0, 1) is None
