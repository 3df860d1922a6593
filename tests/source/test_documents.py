"""Documents are plain data that knows its places, and mistakes in YAML are diagnostics."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from policy_sched.errors import Diagnostic
from policy_sched.source import Marked, SourceFile, parse_documents


def parse(text: str) -> tuple[list[Marked], list[Diagnostic]]:
    """Parse a text as file f.yaml."""
    return parse_documents(SourceFile("f.yaml", text))


def only_document(text: str) -> Marked:
    """Return the only document of a valid text."""
    documents, problems = parse(text)
    assert not problems
    assert len(documents) == 1
    return documents[0]


class TestValues:
    """What YAML means, as Kubernetes reads it."""

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("1", 1),
            ("0x10", 16),
            ("-1.5", -1.5),
            ("yes", True),
            ("off", False),
            ("~", None),
            ("", None),
            ("2023-01-01T00:00:00Z", "2023-01-01T00:00:00Z"),
            ("12:30:45", "12:30:45"),
            ("'1'", "1"),
            ("!!str 1", "1"),
            ("=", "="),
            ("[1, {a: b}]", [1, {"a": "b"}]),
            ("500m", "500m"),
        ],
    )
    def test_a_scalar_is_what_kubernetes_reads_it_as(self, text: str, value: object) -> None:
        """A scalar is what Kubernetes reads it as: times and 12:30 are text."""
        assert only_document(f"k: {text}").value == {"k": value}

    def test_keys_are_text(self) -> None:
        """Keys are text, as in JSON."""
        assert only_document("1: a\ntrue: b\nx: c").value == {"1": "a", "true": "b", "x": "c"}

    def test_empty_documents_are_passed_over(self) -> None:
        """Empty documents are passed over, the others keep their order."""
        documents, problems = parse("---\n# nothing\n---\na: 1\n---\n---\n- 2\n...\n")
        assert [d.value for d in documents] == [{"a": 1}, [2]]
        assert not problems

    def test_aliases_and_merges(self) -> None:
        """Anchors, aliases and merge keys work; own keys win, then the first merged mapping."""
        text = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz: {<<: [*x, *y], c: 3}\nw: *x\n"
        document = only_document(text)
        assert document.value["z"] == {"a": 1, "b": 1, "c": 3}
        assert document.value["w"] == {"a": 1, "b": 1}
        assert document.span(("z", "a")) == document.span(("x", "a"))

    @given(
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.text("ab: -#'\"\n{}[],&*!|>%@é", max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text("abc:# ", max_size=4), inner, max_size=3)
            ),
            max_leaves=10,
        )
    )
    def test_json_is_yaml(self, value: Any) -> None:
        """Every JSON text means the same when it is read as YAML, and every part has a place."""
        import json  # noqa: PLC0415  # only this test writes JSON

        document = only_document(json.dumps({"k": value}, indent=1))
        assert document.value == {"k": value}
        start, end = document.span(("k",))
        assert json.loads(document.file.text[start:end]) == value


class TestPlaces:
    """Where values and keys stand."""

    TEXT = "a:\n  - name: x\n    val: &v  [1,\n      2]\n  - {name: y}\nb: 'q'\n"

    @pytest.mark.parametrize(
        ("path", "raw"),
        [
            (("b",), "'q'"),
            (("a", 0, "name"), "x"),
            (("a", 0, "val"), "[1,\n      2]"),
            (("a", 1), "{name: y}"),
            (("a", 1, "missing"), "{name: y}"),
            (("a", 7, "name"), "- name: x\n    val: &v  [1,\n      2]\n  - {name: y}"),
        ],
    )
    def test_a_span_holds_the_text_of_its_value(
        self, path: tuple[str | int, ...], raw: str
    ) -> None:
        """A value's span holds its text; a missing one has that of the closest outer value."""
        document = only_document(self.TEXT)
        start, end = document.span(path)
        assert self.TEXT[start:end] == raw

    def test_a_key_span_holds_the_key(self) -> None:
        """A key's span holds the key; an item of a sequence has its own span."""
        document = only_document(self.TEXT)
        start, end = document.key_span(("a", 0, "val"))
        assert self.TEXT[start:end] == "val"
        assert document.key_span(("a", 1)) == document.span(("a", 1))
        assert document.key_span(()) == document.span(())

    def test_the_style_of_a_scalar_is_kept(self) -> None:
        """A scalar's style is known; what is no scalar has none."""
        document = only_document("a: |\n x\nb: >\n x\nc: 'x'\nd: \"x\"\ne: x\nf: []\n")
        assert [document.style((k,)) for k in "abcde"] == ["|", ">", "'", '"', ""]
        with pytest.raises(KeyError):
            document.style(("f",))
        with pytest.raises(KeyError):
            document.scalar_map(("missing",))

    def test_positions_with_windows_line_ends(self) -> None:
        """Lines that end in CR LF count as one line each and are shown without the CR."""
        document = only_document("a: 1\r\nb: 2\r\n")
        assert document.file.position(document.span(("b",))[0]) == (2, 4)
        assert document.file.line_text(2) == "b: 2"

    def test_byte_order_mark(self) -> None:
        """A byte order mark in front moves no position."""
        document = only_document("\ufeffa: 1\nb: 22\n")
        start, end = document.span(("b",))
        assert document.file.text[start:end] == "22"


class TestMistakes:
    """Every mistake is a PS701 diagnostic with its place."""

    @pytest.mark.parametrize(
        ("text", "position", "words"),
        [
            ("a: 1\nb: [1, 2\nc: 3\n", (3, 2), "did not find expected ',' or ']'"),
            ("a: b: c\n", (1, 5), "mapping values are not allowed"),
            ("\ta: 1\n", (1, 1), "cannot start any token"),
            ("a: 1\nb: 'x\n", (3, 1), "unexpected end of stream"),
            ("a: *nothing\n", (1, 4), "undefined alias"),
            ("a: \x01b\n", (1, 4), "the character U+0001 is not allowed in YAML"),
            ("a: !!python/object:os.system x\n", (1, 4), "the tag !!python/object:os.system"),
            ("a: !mine x\n", (1, 4), "the tag !mine is not allowed here"),
            ("a: !!int x\n", (1, 4), "the value is not a valid int"),
            ("a: !!binary eA==\n", (1, 4), "the tag !!binary is not allowed"),
            ("a: 1\nb: 2\na: 3\n", (3, 1), "duplicate key 'a'"),
            ("a: {x: 1, x: 2}\n", (1, 11), "duplicate key 'x'"),
            ("? [1]\n: 2\n", (1, 3), "a key must be text"),
            ("a: &x [*x]\n", (1, 4), "an alias refers to"),
            ("<<: 1\n", (1, 5), "only mappings can be merged"),
            (f"a:\n  {'[' * 100_000}", (2, 102), "more than 100 deep"),
            ("- " * 50_000, (1, 201), "more than 100 deep"),
        ],
    )
    def test_a_diagnostic_points_at_the_mistake_and_names_it(
        self, text: str, position: tuple[int, int], words: str
    ) -> None:
        """The diagnostic points at the mistake and names it."""
        _, problems = parse(text)
        assert len(problems) == 1
        diagnostic = problems[0]
        assert (diagnostic.code, diagnostic.line, diagnostic.column) == ("PS701", *position)
        assert words in diagnostic.message
        assert diagnostic.source_line == SourceFile("", text).line_text(position[0])

    def test_every_mistake_of_every_document_is_reported(self) -> None:
        """Documents before and after a bad one are read, and every mistake is reported."""
        documents, problems = parse("a: 1\n---\nb: !x 1\n---\nc: 1\nc: 2\n---\nd: ]\n---\ne: 1\n")
        assert [d.value for d in documents] == [{"a": 1}, {"c": 2}]
        assert [(p.line, p.column) for p in problems] == [(3, 4), (6, 1), (8, 4)]

    def test_a_bomb_of_aliases_is_refused(self) -> None:
        """A document that its aliases would blow up is refused."""
        text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
        for last, name in zip("abcdef", "bcdefg", strict=True):
            text += f"{name}: &{name} [{', '.join([f'*{last}'] * 10)}]\n"
        documents, problems = parse(text)
        assert not documents
        assert "more than 10 times larger" in problems[0].message

    def test_a_file_beyond_the_limit_is_refused(self) -> None:
        """A file beyond the limit is refused, and read where no limit is set."""
        file = SourceFile("f.yaml", "a: " + "x" * 200)
        documents, problems = parse_documents(file, 100)
        assert not documents
        assert problems[0].message == "the file is larger than 100 bytes"
        assert parse_documents(file, None)[0]
