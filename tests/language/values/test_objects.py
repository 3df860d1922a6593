"""Promises of the JSON of annotations as records."""

from __future__ import annotations

import pickle

from policy_sched.language.values import types
from policy_sched.language.values.objects import MAX_ANNOTATION, annotation_reader

KIND = types.ObjectType("inputs.x", (("name", types.STRING), ("level", types.INT)), bare=True)


def test_a_text_is_parsed_once() -> None:
    """Each rule parsed the text again."""
    reader = annotation_reader(KIND)
    first = reader.get('{"name": "a", "level": 3}')
    assert (first.f_name, first.f_level) == ("a", 3)
    assert reader.get('{"name": "a", "level": 3}') is first
    assert pickle.loads(pickle.dumps(reader)) is reader


def test_what_does_not_fit_is_nothing() -> None:
    """A text that is no JSON object, has other types, is nested deep or too long ended a rule."""
    reader = annotation_reader(KIND)
    long = '{"name": "' + "x" * MAX_ANNOTATION + '"}'
    texts = ("", "{", "[]", "3", '{"level": "3"}', '{"level": 1e99}', "[" * 50_000, long)
    assert [text for text in texts if text in reader] == []
    assert reader.get("{", 7) == 7
