"""The declaration of the columns."""

from __future__ import annotations

import numpy as np
import pytest

from policy_sched.cluster.tables import schema
from policy_sched.cluster.tables.interning import Sets, Strings
from policy_sched.cluster.tables.node_table import NodeTable
from policy_sched.cluster.tables.pod_table import PodTable

ALL = [*schema.NODE_COLUMNS.values(), *schema.POD_COLUMNS.values()]


@pytest.mark.parametrize("family", ALL, ids=lambda family: family.name)
def test_every_family_is_described(family: schema.Family) -> None:
    """Each family has a sentence, a unit, and a range that its dtype can hold."""
    assert family.sentence.endswith(".")
    assert family.unit
    assert family.minimum <= family.maximum
    for bound in (family.minimum, family.maximum):
        assert int(np.array(bound, dtype=family.dtype)) == bound


@pytest.mark.parametrize("family", schema.NODE_COLUMNS.values(), ids=lambda family: family.name)
def test_every_node_family_can_be_made(family: schema.Family) -> None:
    """The node table makes a column of each family, with the declared dtype."""
    argument = schema.NODE_FIELDS[0] if family.argument == "field" else "x"
    key = (family.name, argument) if family.argument else (family.name,)
    assert NodeTable().column(key).values.dtype == family.dtype


@pytest.mark.parametrize("family", schema.POD_COLUMNS.values(), ids=lambda family: family.name)
def test_every_pod_family_can_be_made(family: schema.Family) -> None:
    """The pod table makes a column of each family, with the declared dtype."""
    key = (family.name, "x") if family.argument else (family.name,)
    assert PodTable(Strings()).column(key).values.dtype == family.dtype


@pytest.mark.parametrize(
    "key", [(), ("nope",), ("label",), ("podCount", "x"), ("field", "nope"), ("label", "a", "b")]
)
def test_unknown_keys_are_refused(key: tuple[str, ...]) -> None:
    """A key that no family allows is a KeyError that shows the key."""
    with pytest.raises(KeyError, match="no such"):
        schema.family_of(key, schema.NODE_COLUMNS)
    with pytest.raises(KeyError, match="no such"):
        NodeTable().column(key)


def test_pod_texts_are_columns() -> None:
    """Every string field of a pod is a family of its own."""
    assert set(schema.POD_TEXTS) <= set(schema.POD_COLUMNS)


class TestStrings:
    """Interned strings."""

    def test_codes_are_stable_and_dense(self) -> None:
        """Codes count from 1, the empty string has one too, and 0 reads back as missing."""
        strings = Strings()
        codes = [strings.code(text) for text in ("a", "b", "a", "")]
        assert codes == [2, 3, 2, 1]
        assert [strings.text(code) for code in (0, 1, 2, 3)] == ["", "", "a", "b"]
        assert len(strings) == 4

    def test_find_does_not_add(self) -> None:
        """Looking for a string never seen gives -1 and leaves no trace."""
        strings = Strings()
        assert strings.find("a") == -1
        assert len(strings) == 2
        assert strings.find("") == 1


class TestSets:
    """Sets interned twice."""

    def test_equal_sets_share_an_id(self) -> None:
        """The same members in the same order are one set; the empty one is 0."""
        sets: Sets[str] = Sets()
        first = sets.set_id(("a", "b"))
        assert sets.set_id(("a", "b")) == first != 0
        assert sets.set_id(("b", "a")) not in (0, first)
        assert sets.set_id(()) == 0
        assert sets.members(first) == ("a", "b")

    def test_sets_are_listed_by_id(self) -> None:
        """``sets`` is indexed by the ids that were given, and the empty set is the first."""
        sets: Sets[str] = Sets()
        number = sets.set_id(("a", "b", "a"))
        assert sets.sets[number] == ("a", "b", "a")
        assert sets.sets[0] == ()
