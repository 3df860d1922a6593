"""Damaged files: every problem is reported at a place of the file, and nothing raises.

Point 4 of the language's test plan, for whole files: YAML, its positions, and the rules inside.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from policy_sched.errors import Diagnostic
from policy_sched.profiles.check.check import check_files, check_open
from tests.examples import scaled

ROOT: Final = Path(__file__).parents[2] / "policies"
FILES: Final = [path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("*/policy.yaml"))]
#: What is put where something else was.
PIECES: Final = (
    *("", " ", "  ", "\n", "\n\n", "\t", "\r\n", "\0", "\x85", "é😀", "\ufeff", "\u2028"),
    *(": ", ":", "- ", "-", "? ", "#", " # c", "|", ">", ">-", "|2-", "'", '"', "''", "\\", "%"),
    *("{", "}", "[", "]", ",", "&a ", "*a", "<<: *a", "!!str ", "!x ", "---\n", "...\n", "~", "@"),
    *("expression: ", "filter:\n", "1", "-1", "1e9", ".nan", "true", "null", "2024-01-01", "0x"),
    *("node.", "pod", "(", ")", "&&", "? :", "//", "`", "10Gi", "params.", '"a', "[?", "in"),
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """Draw the text of a shipped policy in which up to three stretches are something else."""
    text = draw(st.sampled_from(FILES))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 0, 1, 2, 5, 40])))
        taken = text[start:end]
        put = draw(st.sampled_from([*PIECES, taken * 2, taken[::-1]]))
        text = text[:start] + put + text[end:]
    return text


def promise(text: str, problems: list[Diagnostic]) -> None:
    """Each problem has a code, words, and a place of the text, which is shown with it."""
    lines = text.removeprefix("\ufeff").splitlines() or [""]
    for problem in problems:
        assert problem.code.startswith("PS")
        assert problem.message
        assert 1 <= problem.line <= text.count("\n") + len(lines) + 1
        assert problem.column >= 1
        assert problem.width >= 1
        if problem.source_line:
            assert problem.source_line in text
            assert problem.column <= len(problem.source_line) + 1
        assert problem.render()
    assert problems == sorted(problems)


@settings(max_examples=scaled(120), deadline=None, suppress_health_check=list(HealthCheck))
@given(damaged())
@example("")
@example("\ufeff")
@example("apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: P}\nspec: ~\n")
def test_a_damaged_policy_is_refused_in_words(text: str) -> None:
    """Checking it reports problems, or none; it never raises."""
    promise(text, check_open("policy.yaml", text))


@settings(max_examples=scaled(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text(max_size=80) | st.text("ab:-?[]{}'\"|>#&*!,\n \t", max_size=40))
def test_any_text_is_refused_in_words(text: str) -> None:
    """A text that is no policy at all is reported as such."""
    promise(text, check_open("policy.yaml", text))


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe\x00", b"kind: \xc3\x28", b"\x80", b"\x00", b"a: \xed\xa0\x80\n", b"\xef\xbb\xbf"],
)
def test_bytes_that_are_no_text(tmp_path: Path, content: bytes) -> None:
    """A file that is no UTF-8, or no YAML, is a problem with a code, whatever else is there."""
    path = tmp_path / "policy.yaml"
    path.write_bytes(content)
    problems = check_files([str(path)])
    assert problems
    assert all(problem.code.startswith("PS") for problem in problems)
