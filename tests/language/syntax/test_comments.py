"""Comments of expressions are found, and only they."""

from __future__ import annotations

import pytest

from policy_sched.language.syntax.parser import comments


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a // b", ["// b"]),
        ("a // b\n + c // d", ["// b", "// d"]),
        ("'http://x' + \"//\"", []),
        ("'it\\'s // no' // yes", ["// yes"]),
        ("'''a'//''' // c", ["// c"]),
        ("'unclosed // x", []),
    ],
)
def test_comments_of_a_rule(text: str, found: list[str]) -> None:
    """Comments run to the end of the line; strings hold none."""
    assert [text[start:end] for start, end in comments(text)] == found
