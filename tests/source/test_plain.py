"""Large YAML is read without places, and means exactly what it means with them."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy_sched.source import SourceFile, parse_documents, plain_documents
from tests.source.hostile import ODD, SEEDS, hostile_json, hostile_yaml


def compared(text: str) -> None:
    """Compare both readers; a document that is not plain gets its second look."""
    file = SourceFile("f.yaml", text)
    marked, told = parse_documents(file, None)
    plain, ends = plain_documents(file)
    values: list[Any] = []
    found = []
    for document in plain:
        data = document.json()
        if data is not None:
            values.append(msgspec.json.decode(data))
            continue
        looked = document.whole.look(file)
        values += [one.value for one in looked.documents]
        found += looked.problems
        if looked.ended:
            ends = []
            break
    if any("deep" in one.message for one in told):  # which refuses the file as a whole
        assert [*found, *ends]
        return
    assert [shown(value) for value in values] == [shown(one.value) for one in marked]
    assert [one.render() for one in (*found, *ends)] == [one.render() for one in told]


def shown(value: object) -> str:
    """Return a value as text: NaN is not equal to itself, and 1 not the same as true."""
    return repr(value)


@pytest.mark.parametrize("text", ODD)
def test_every_scalar(text: str) -> None:
    """A scalar of any form and tag means the same to both readers, in a mapping and in a list."""
    compared(f"a: {text}\n")
    compared(f"kind: List\nitems:\n- a: 1\n- {text}\n- b: {text}\n")


@pytest.mark.parametrize("text", SEEDS.values(), ids=SEEDS)
def test_seeds(text: str) -> None:
    """A text that is hostile as a whole is refused by both readers with the same words."""
    compared(text)


@given(st.integers(0, 2**32))
def test_hostile_documents(seed: int) -> None:
    """Damaged documents mean the same, or are refused with the same words in the same place."""
    compared(hostile_yaml(Random(seed)))
    compared(hostile_json(Random(seed)))


def test_places_of_items() -> None:
    """Each item of a list has its place, in block and in flow style, alone on a second look."""
    text = "kind: List\nitems:\n  - a: 1\n    b: !!str x\n  -\n    {c: é, d: !x 1}\n  - 3\n"
    file = SourceFile("f.yaml", text)
    (document,), _ = plain_documents(file)
    assert document.items is not None
    assert [item.json for item in document.items] == [None, None, b"3"]
    looked = [item.look(file) for item in document.items]
    assert looked[0].documents[0].value == {"a": 1, "b": "x"}
    assert [(one.line, one.column, one.source_line) for one in looked[1].problems] == [
        (6, 15, "    {c: é, d: !x 1}")
    ]
    (last,) = looked[2].documents
    assert last.file.position(last.span(())[0]) == (7, 5)
