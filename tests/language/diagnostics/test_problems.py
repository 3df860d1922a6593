"""Promises of the suggestions."""

from __future__ import annotations

import pytest

from policy_sched.errors import nearest
from policy_sched.language.diagnostics import did_you_mean


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("fre", "free"),
        ("lables", "labels"),
        ("label", "labels"),
        ("mods", "pods"),
        ("LABELS", "labels"),
        ("podcount", "podCount"),
        ("zzz", None),
    ],
)
def test_the_nearest_name_is_offered(name: str, offered: str | None) -> None:
    """A name that shares most characters is offered, case not counted."""
    assert nearest(name, ["free", "labels", "podCount", "pods"]) == offered


def test_far_names_get_no_suggestion() -> None:
    """Nothing is guessed, also not for a name of absurd length."""
    assert did_you_mean("x" * 1000, ["x" * 999]) == ""
    assert did_you_mean("x", ["y"]) == ""
