"""Parameters of a policy, laid over by a profile's arguments."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.profiles.load.policies import merge_over, merge_params
from policy_sched.profiles.models.types import ModelProblem

PARAMS: dict[str, Any] = {
    "limit": 0.85,
    "count": 3,
    "name": "x",
    "on": True,
    "price": {"spot": 30, "reserved": 60},
    "record": {"a": 1, "b": "two"},
    "items": [{"name": "cpu", "weight": 1}],
    "free": [],
}


def merge(**args: object) -> tuple[dict[str, Any], list[ModelProblem]]:
    """Merge ``args`` over the params above."""
    problems: list[ModelProblem] = []
    return merge_params(PARAMS, args, ("args",), problems), problems


def test_values_of_the_same_type_replace() -> None:
    """Scalars, lists and maps replace; records merge; an integer may stand for a double.

    A key of a map could never be taken out: `price: {new: 7}` left the others in, silently.
    """
    merged, problems = merge(
        limit=1, name="y", price={"spot": 5, "new": 7}, record={"a": 2}, items=[], free=[1]
    )
    assert not problems
    assert merged["limit"] == 1.0
    assert isinstance(merged["limit"], float)
    assert merged["price"] == {"spot": 5, "new": 7}
    assert merged["record"] == {"a": 2, "b": "two"}
    assert (merged["items"], merged["free"], merged["count"]) == ([], [1], 3)


def test_a_map_may_be_empty_and_hold_maps() -> None:
    """No entry of the default is left, however deep the map is."""
    problems: list[ModelProblem] = []
    costs = {"cost": {"a": {"b": 1, "c": 2}}}
    assert merge_params(costs, {"cost": {}}, (), problems) == {"cost": {}}
    changed = merge_params(costs, {"cost": {"d": {"e": 3}}}, (), problems)
    assert (changed, problems) == ({"cost": {"d": {"e": 3}}}, [])


@pytest.mark.parametrize(
    ("args", "code", "message", "hint"),
    [
        ({"limt": 1.0}, "PS702", 'unknown parameter "args.limt"', "did you mean 'limit'?"),
        ({"count": 1.5}, "PS703", "args.count: expected an integer, found a double", ""),
        ({"on": 1}, "PS703", "args.on: expected true or false, found an integer", ""),
        ({"count": True}, "PS703", "args.count: expected an integer, found true or false", ""),
        ({"price": {"new": "7"}}, "PS703", "args.price.new: expected an integer, found a", ""),
        (
            {"record": {"letter": "x"}},
            "PS702",
            'unknown field "args.record.letter"',
            "known fields: a, b",
        ),
        ({"items": [{"name": "x"}]}, "PS704", "args.items[0].weight: Required value", ""),
        ({"name": None}, "PS703", "args.name: expected a string, found nothing", ""),
    ],
)
def test_other_values_are_refused(args: dict[str, Any], code: str, message: str, hint: str) -> None:
    """What does not look like its default is refused, with a place and a way out."""
    merged, problems = merge(**args)
    assert [p.code for p in problems] == [code]
    assert problems[0].message.startswith(message)
    assert hint in problems[0].hint
    assert merged.keys() == PARAMS.keys()


def test_merge_over_is_deep() -> None:
    """Mappings merge at any depth, everything else is replaced."""
    assert merge_over({"a": {"b": 1, "c": [1]}}, {"a": {"c": [], "d": 2}}) == {
        "a": {"b": 1, "c": [], "d": 2}
    }
