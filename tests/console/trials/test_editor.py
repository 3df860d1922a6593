"""The editor's checks, completions and hovers: the language server's, at a page's positions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from policy_sched.console.trials.editor import EditorQuestion, characters, units
from policy_sched.lsp.suggestions import suggestions
from policy_sched.profiles.check import check_files
from tests.console.files import put
from tests.profiles.policy_texts import keeping

SOUND = keeping("Mine", 'node.name == "a"')
TEXT = keeping("Mine", "node.allocatable.cpu > 1 && node.")


def test_problems_are_those_of_check(tmp_path: Path) -> None:
    """Place, code, message and hint are what `policy-sched check` says of the file."""
    path = tmp_path / "policy.yaml"
    put(path, keeping("Mine", '"\U0001f600ä" == node.nam'))
    (shown,) = EditorQuestion("check", str(path), path.read_text()).result()["problems"]
    (diagnostic,) = check_files([str(path)])
    line = path.read_text().split("\n")[shown["line"]]
    assert shown["line"] == diagnostic.line - 1
    marked = line.encode("utf-16-le")[2 * shown["start"] : 2 * shown["end"]].decode("utf-16-le")
    assert marked == line[diagnostic.column - 1 : diagnostic.column - 1 + diagnostic.width]
    assert (shown["code"], shown["message"]) == (diagnostic.code, diagnostic.message)
    assert (shown["hint"], shown["severity"]) == (diagnostic.hint, "error")


def test_a_sound_text_has_no_problem() -> None:
    """The list is empty."""
    assert EditorQuestion("check", "x.yaml", SOUND).result() == {"problems": []}


def test_completions_are_the_language_servers() -> None:
    """Labels come in its order, and say from where they replace what is written."""
    line = TEXT.split("\n").index(next(item for item in TEXT.split("\n") if "&& node." in item))
    shown = TEXT.split("\n")[line]
    end = shown.index("&& node.") + len("&& node.")
    completion = EditorQuestion("complete", "x.yaml", TEXT, line, end).result()
    expected = suggestions("x.yaml", TEXT, line, end)
    assert [item["label"] for item in completion["suggestions"]] == [
        item.label for item in expected
    ]
    assert "allocatable" in [item.label for item in expected]
    assert completion["from"] == end


def test_a_hover_describes_the_word() -> None:
    """Title and text are those of the manual; an unknown word has none."""
    line = next(i for i, text in enumerate(TEXT.split("\n")) if "allocatable" in text)
    at = TEXT.split("\n")[line].index("allocatable") + 2
    entry = EditorQuestion("hover", "x.yaml", TEXT, line, at).result()["entry"]
    assert "allocatable" in entry["title"]
    assert entry["text"]
    assert EditorQuestion("hover", "x.yaml", TEXT, 9999, 9999).result() == {"entry": None}


@pytest.mark.parametrize("asked", ["check", "complete", "hover"])
@pytest.mark.parametrize(
    "text", ["", "\n" * 5000, "[" * 5000, "a: &a [*a]", "\ud800", "x" * 100_000, "---\n" * 600]
)
def test_odd_texts_have_results(asked: str, text: str) -> None:
    """Whatever the text and the position, the result is data."""
    for line, character in ((0, 0), (-5, -5), (10**9, 10**9)):
        answer = EditorQuestion(asked, "x.yaml", text, line, character).result()  # type: ignore[arg-type]
        assert isinstance(answer, dict)


@given(st.text(max_size=30), st.integers(0, 40))
def test_units_and_characters_are_inverse(line: str, character: int) -> None:
    """A place that is sent to a page and comes back is the same."""
    at = min(character, len(line))
    assert characters(line, units(line, at)) == at
