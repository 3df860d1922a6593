"""What has no type of its own, as `[]`: where something gives it one, and where nothing does."""

from __future__ import annotations

import pytest

from .harness import checked


@pytest.mark.parametrize(
    "text",
    [
        "params.rows.exists(r, r.name == node.name)",
        "params.rows.map(r, r.weight).size() == 0",
        'params.rows.filter(r, r.labels["a"] == "b").size() == 0',
    ],
)
def test_an_empty_parameter_may_hold_records(text: str) -> None:
    """A list of the parameters that is empty by default is used as what a profile puts into it."""
    tree, problems = checked(text, "filter", {"rows": []})
    assert tree is not None, problems


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[].map(x, x)[0].name == node.name", "PS205"),
        ("optional.none().?name.hasValue()", "PS205"),
        ("[[], [[]]].size() > 0", "PS205"),
        ('has(node.images[?"a"].sizeBytes)', "PS201"),
    ],
)
def test_what_nothing_gives_a_type_is_refused(text: str, code: str) -> None:
    """A field of an element of an empty literal, lists that agree in nothing, has() of no map."""
    tree, problems = checked(text, "filter", {"flag": True})
    assert tree is None
    assert [p.code for p in problems] == [code]


@pytest.mark.parametrize(
    "text",
    [
        "[].map(x, x).size() == 0",
        "[[], [1]].size() > 0",
        "optional.none().orValue(node.name) == node.name",
        'node.images[?"a"].?sizeBytes.hasValue()',
    ],
)
def test_a_rule_that_shows_the_type_is_no_problem(text: str) -> None:
    """The same with something that shows the type, or that needs none, is a rule."""
    tree, problems = checked(text, "filter", {"flag": True})
    assert tree is not None, problems
