"""The position of the cursor, also in files that are not valid YAML yet."""

from __future__ import annotations

import pytest

from policy_sched.lsp.place import place_at

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
        place = place_at(text, line, character)
        assert place.section is not None
        assert (place.section.name, place.before) == (section, before)


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
    place = place_at(head, head.count("\n"), len(head) - head.rfind("\n") - 1)
    assert (place.path, place.before, place.word) == (path, None, word)


def test_text_that_is_no_rule_has_no_section() -> None:
    """Messages and names are for people."""
    head = FILE[: FILE.index("message: te") + len("message: te")]
    place = place_at(head, head.count("\n"), len(head) - head.rfind("\n") - 1)
    assert place.section is None
