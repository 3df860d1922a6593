"""Promises of how types meet."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from policy_sched.language.check.definitions import params_type, value_type
from policy_sched.language.values.types import (
    BOOL,
    DOUBLE,
    ERROR,
    INT,
    RAW,
    RESOURCES,
    STRING,
    UNKNOWN,
    ListType,
    Type,
    dimensions,
    fit,
    is_known,
    join,
    list_of,
    map_of,
    optional_of,
    parse_type,
    quantity_of,
    record,
    resource_dimension,
)

SCALARS = st.sampled_from([BOOL, INT, DOUBLE, STRING, RESOURCES, UNKNOWN, record("Pod")])
QUANTITIES = st.sampled_from(["cpu", "bytes", "count", "any", "free"]).map(quantity_of)
TYPES: st.SearchStrategy[Type] = st.recursive(
    SCALARS | QUANTITIES,
    lambda inner: (
        inner.map(list_of) | inner.map(optional_of) | inner.map(lambda value: map_of(STRING, value))
    ),
    max_leaves=6,
)


@given(TYPES, TYPES)
def test_joining_does_not_depend_on_the_order(a: Type, b: Type) -> None:
    """Two types join to the same type from both sides."""
    assert join(a, b) == join(b, a)


@given(TYPES, TYPES)
def test_a_join_holds_both(a: Type, b: Type) -> None:
    """What two types join to joins with either of them to itself."""
    both = join(a, b)
    if both is not None:
        assert join(both, a) == both
        assert join(both, b) == both


@given(TYPES)
def test_unknown_gives_way_and_reported_silences(kind: Type) -> None:
    """An unknown type becomes the other one; a reported one swallows it."""
    assert join(kind, kind) == kind
    assert join(kind, UNKNOWN) == kind
    assert join(kind, ERROR) == ERROR
    assert fit(kind, kind, {})


@given(TYPES)
def test_types_read_back_from_their_text(kind: Type) -> None:
    """A type that an author can name is written as it is read."""
    if is_known(kind) and "quantity" not in str(kind):
        assert parse_type(str(kind), records=("Pod", "Node", "Taint")) == kind


def test_dimensions_meet_or_clash() -> None:
    """A literal takes the other's dimension; fixed ones are counted."""
    cpu, free, memory = quantity_of("cpu"), quantity_of("free"), quantity_of("bytes")
    assert dimensions([cpu, free]) == ({"cpu"}, "cpu")
    assert dimensions([free, list_of(memory)]) == ({"bytes"}, "bytes")
    assert dimensions([cpu, memory])[0] == {"cpu", "bytes"}
    assert dimensions([INT]) == (set(), "free")
    assert dimensions([quantity_of("any"), cpu]) == ({"cpu"}, "any")


def test_resources_have_dimensions() -> None:
    """A resource's name says what its amounts count."""
    names = ("cpu", "memory", "ephemeral-storage", "hugepages-1Gi", "pods", "nvidia.com/gpu")
    found = [resource_dimension(name) for name in names]
    assert found == ["cpu", "bytes", "bytes", "bytes", "count", "count"]


class TestParams:
    """Types of YAML values."""

    def test_scalars_and_collections(self) -> None:
        """A scalar has its type, a sequence is a list, a uniform mapping is a map."""
        assert [value_type(v) for v in (True, 1, 1.5, "a")] == [BOOL, INT, DOUBLE, STRING]
        assert value_type([[0, 0], [1, 2]]) == list_of(list_of(INT))
        assert value_type({"a": 1, "b-c": 2}) == map_of(STRING, INT)
        assert value_type([]) == list_of(UNKNOWN)
        assert value_type([[], [1]]) == list_of(list_of(INT))

    def test_mixed_mappings_are_records(self) -> None:
        """A mapping of several types has fields."""
        kind = value_type([{"name": "cpu", "weight": 1}])
        assert isinstance(kind, ListType)
        assert str(kind.element) == "{name: string, weight: int}"
        assert str(params_type({"a": 1, "b": "x"})) == "{a: int, b: string}"

    def test_mixed_sequences_are_raw(self) -> None:
        """What has no type is left to builtins: mixed items, null, keys that are no text."""
        for value in ([1, "a"], None, {1: 2}, [None], 2**63, [{"a": 1}, {"b": "c", "d": 1}]):
            assert value_type(value) == RAW
