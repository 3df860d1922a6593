"""Large YAML is read without places, and means exactly what it means with them."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from policy_sched.source import SourceFile, parse_documents, plain_documents
from tests.source import hostile


def compared(text: str) -> None:
    """Compare both readers; a document that is not plain gets its second look."""
    file = SourceFile("f.yaml", text)
    marked, told = parse_documents(file, None)
    plain, ends = plain_documents(file)
    values: list[Any] = []
    items = []
    for document in plain:
        if document.refused is not None:
            items.append(document.refused)
            continue
        data = document.json()
        if data is not None:
            values.append(msgspec.json.decode(data))
            continue
        looked = document.whole.look(file)
        values += [message.value for message in looked.documents]
        items += looked.problems
        if looked.ended:
            ends = []
            break
    refusals = ("deep", "more than 50000 values")  # of the file as a whole
    if any(words in message.message for message in told for words in refusals):
        assert [*items, *ends]
        return
    assert [shown(value) for value in values] == [shown(message.value) for message in marked]
    assert [message.render() for message in (*items, *ends)] == [
        message.render() for message in told
    ]


def shown(value: object) -> str:
    """Return a value as text: NaN is not equal to itself, and 1 not the same as true."""
    return repr(value)


@pytest.mark.parametrize("text", hostile.ODD)
def test_every_scalar_means_the_same_to_both_readers(text: str) -> None:
    """A scalar of any form and tag means the same to both readers, in a mapping and in a list."""
    compared(f"a: {text}\n")
    compared(f"kind: List\nitems:\n- a: 1\n- {text}\n- b: {text}\n")


@pytest.mark.parametrize("text", hostile.SEEDS.values(), ids=hostile.SEEDS)
def test_hostile_texts_are_refused_alike_by_both_readers(text: str) -> None:
    """A text that is hostile as a whole is refused by both readers with the same words."""
    compared(text)


@given(st.integers(0, 2**32))
def test_hostile_documents(seed: int) -> None:
    """Damaged documents mean the same, or are refused with the same words in the same place."""
    compared(hostile.hostile_yaml(Random(seed)))
    compared(hostile.hostile_json(Random(seed)))


def test_places_of_items() -> None:
    """Each item of a list has its place, in block and in flow style, alone on a second look."""
    text = "kind: List\nitems:\n  - a: 1\n    b: !y x\n  -\n    {c: é, d: !x 1}\n  - 3\n"
    file = SourceFile("f.yaml", text)
    (document,), _ = plain_documents(file)
    assert document.items is not None
    assert [item.json for item in document.items] == [None, None, b"3"]
    looked = [item.look(file) for item in document.items]
    assert [(problem.line, problem.column) for problem in looked[0].problems] == [(4, 8)]
    assert [
        (problem.line, problem.column, problem.source_line) for problem in looked[1].problems
    ] == [(6, 15, "    {c: é, d: !x 1}")]
    (last,) = looked[2].documents
    assert last.file.position(last.span(())[0]) == (7, 5)


class TestAliases:
    """Anchors, aliases and merge keys, which once made a file of 36 MB take 53 s and 1.6 GB."""

    @pytest.mark.parametrize(
        "text",
        [
            "a: &x {k: 1}\nb: *x\nc: [*x, *x]\n",
            "a: &x {k: 1, l: 2}\nb: {<<: *x, k: 3}\nc:\n  k: 4\n  <<: [*x, {l: 5, m: 6}]\n",
            "a: &x [&y 1, *y]\nb: *x\nc: *y\n",
            "- &x 2\n- *x\n---\n- &x 3\n- *x\n",
            "a: !!str 1\nb: !!map {c: !!seq [!!int '3', !!null '']}\n",
            "kind: List\nbase: &x {a: 1}\nitems:\n- &y {<<: *x, b: 2}\n- {<<: [*x, *y]}\n- *y\n",
        ],
    )
    def test_common_documents_need_no_second_reader(self, text: str) -> None:
        """Documents with aliases, merge keys and standard tags need no second look."""
        compared(text)
        documents, problems = plain_documents(SourceFile("f.yaml", text))
        assert problems == []
        assert all(document.json() is not None for document in documents)

    @pytest.mark.parametrize(
        "text",
        [
            "a: &x 1\nb: &x 2\n",
            "a: *x\n",
            "a: &x [*x]\n",
            "a: &x {b: {<<: *x}}\n",
            "a: &x 1\nb: {<<: *x}\n",
            "a: &x {k: 1, k: 2}\nb: *x\n",
            "a: &x k\n*x : 1\n",
            "&x a: 1\nb: *x\n",
            "a: &a [x, x, x, x, x, x, x, x]\n"
            + "".join(
                f"{b}: &{b} [{', '.join([f'*{a}'] * 8)}]\n"
                for a, b in zip("abcdef", "bcdefg", strict=True)
            ),
            "---\n".join(f"a: &a {'x' * 3000}\nb: [{'*a, ' * 9}]\n" for _ in range(12)),
        ],
    )
    def test_mistakes_are_reported_in_the_same_words(self, text: str) -> None:
        """What is wrong with anchors, or what they blow up, is refused by both readers alike."""
        compared(text)

    def test_a_second_look_at_an_item(self) -> None:
        """An item is looked at alone; its aliases lead to where their values were written."""
        text = (
            "kind: List\nbase: &base\n  a: &one {n: 1}\n  b: *one\nitems:\n"
            "- {name: x, <<: *base, d: !x 1}\n- name: y\n  again: *base\n  <<: {e: *one}\n"
        )
        file = SourceFile("f.yaml", text)
        (document,), _ = plain_documents(file)
        assert document.items is not None
        wrong, right = (item.look(file) for item in document.items)
        assert [problem.render() for problem in wrong.problems] == [
            problem.render() for problem in parse_documents(file)[1]
        ]
        (marked,) = right.documents
        assert marked.value == {"e": {"n": 1}, "name": "y", "again": {"a": {"n": 1}, "b": {"n": 1}}}
        assert file.position(marked.span(("again", "b", "n"))[0]) == (3, 15)
        assert file.position(marked.key_span(("again",))[0]) == (8, 3)
