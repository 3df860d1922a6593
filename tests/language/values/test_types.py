"""Promises of reading types.

Promises of how types meet.
"""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from policy_sched.language.values import types
from policy_sched.language.values.types import params_type, value_type


@pytest.mark.parametrize(
    "text",
    [
        "int",
        "list(Pod)",
        "list(double)",
        "quantity",
        "map(string, list(int))",
        "optional(Taint)",
        "{name: string, weight: int}",
        "list({a: list(int)})",
    ],
)
def test_types_read_back(text: str) -> None:
    """A type's text is the text that it was read from."""
    assert str(types.parse_type(text, records=("Pod", "Taint"))) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "ends too early"),
        ("strin", "no type is called 'strin'"),
        ("list(int", "ends too early"),
        ("list int", "expected '\\('"),
        ("int)", "unexpected '\\)'"),
        ("map(double, int)", "keys are string, int or bool"),
        ("{a: int", "ends too early"),
        ("{a: int;", "expected '}'"),
        ("T", "no type is called 'T'"),
        ("raw", "no type is called 'raw'"),
        ("list(" * 20 + "int" + ")" * 20, "nested too deeply"),
    ],
)
def test_bad_types_are_refused_in_words(text: str, words: str) -> None:
    """A text that is no type is refused with a sentence."""
    with pytest.raises(ValueError, match=words):
        types.parse_type(text)


SCALARS = st.sampled_from(
    [
        types.BOOL,
        types.INT,
        types.DOUBLE,
        types.STRING,
        types.RESOURCES,
        types.UNKNOWN,
        types.record("Pod"),
    ]
)
QUANTITIES = st.sampled_from(["cpu", "bytes", "count", "any", "free"]).map(types.quantity_of)
TYPES: st.SearchStrategy[types.Type] = st.recursive(
    SCALARS | QUANTITIES,
    lambda inner: (
        inner.map(types.list_of)
        | inner.map(types.optional_of)
        | inner.map(lambda value: types.map_of(types.STRING, value))
    ),
    max_leaves=6,
)


@given(TYPES, TYPES)
def test_joining_does_not_depend_on_the_order(a: types.Type, b: types.Type) -> None:
    """Two types join to the same type from both sides."""
    assert types.join(a, b) == types.join(b, a)


@given(TYPES, TYPES)
def test_a_join_holds_both(a: types.Type, b: types.Type) -> None:
    """What two types join to joins with either of them to itself."""
    both = types.join(a, b)
    if both is not None:
        assert types.join(both, a) == both
        assert types.join(both, b) == both


@given(TYPES)
def test_unknown_gives_way_and_reported_silences(kind: types.Type) -> None:
    """An unknown type becomes the other one; a reported one swallows it."""
    assert types.join(kind, kind) == kind
    assert types.join(kind, types.UNKNOWN) == kind
    assert types.join(kind, types.ERROR) == types.ERROR
    assert types.fit(kind, kind, {})


@given(TYPES)
def test_types_read_back_from_their_text(kind: types.Type) -> None:
    """A type that an author can name is written as it is read."""
    if types.is_known(kind) and "quantity" not in str(kind):
        assert types.parse_type(str(kind), records=("Pod", "Node", "Taint")) == kind


def test_dimensions_meet_or_clash() -> None:
    """A literal takes the other's dimension; fixed ones are counted."""
    cpu, free, memory = (
        types.quantity_of("cpu"),
        types.quantity_of("free"),
        types.quantity_of("bytes"),
    )
    assert types.dimensions([cpu, free]) == ({"cpu"}, "cpu")
    assert types.dimensions([free, types.list_of(memory)]) == ({"bytes"}, "bytes")
    assert types.dimensions([cpu, memory])[0] == {"cpu", "bytes"}
    assert types.dimensions([types.INT]) == (set(), "free")
    assert types.dimensions([types.quantity_of("any"), cpu]) == ({"cpu"}, "any")


def test_resources_have_dimensions() -> None:
    """A resource's name says what its amounts count."""
    names = ("cpu", "memory", "ephemeral-storage", "hugepages-1Gi", "pods", "nvidia.com/gpu")
    found = [types.resource_dimension(name) for name in names]
    assert found == ["cpu", "bytes", "bytes", "bytes", "count", "count"]


class TestParams:
    """Types of YAML values."""

    def test_scalars_and_collections(self) -> None:
        """A scalar has its type, a sequence is a list, a uniform mapping is a map."""
        assert [value_type(v) for v in (True, 1, 1.5, "a")] == [
            types.BOOL,
            types.INT,
            types.DOUBLE,
            types.STRING,
        ]
        assert value_type([[0, 0], [1, 2]]) == types.list_of(types.list_of(types.INT))
        assert value_type({"a": 1, "b-c": 2}) == types.map_of(types.STRING, types.INT)
        assert value_type([]) == types.list_of(types.UNKNOWN)
        assert value_type([[], [1]]) == types.list_of(types.list_of(types.INT))

    def test_mixed_mappings_are_records(self) -> None:
        """A mapping of several types has fields."""
        kind = value_type([{"name": "cpu", "weight": 1}])
        assert isinstance(kind, types.ListType)
        assert str(kind.element) == "{name: string, weight: int}"
        assert str(params_type({"a": 1, "b": "x"})) == "{a: int, b: string}"

    def test_mixed_sequences_are_raw(self) -> None:
        """What has no type is left to builtins: mixed items, null, keys that are no text."""
        for value in ([1, "a"], None, {1: 2}, [None], 2**63, [{"a": 1}, {"b": "c", "d": 1}]):
            assert value_type(value) == types.RAW
