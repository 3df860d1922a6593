"""Promises of the oracle itself, without which its judgement would mean little."""

from __future__ import annotations

from policy_sched.language.stdlib.environment import policy_environment

from .oracle import CALLS, LAZY


def test_every_overload_is_judged() -> None:
    """The oracle knows each operator, function and method of the table, and no other."""
    of_macros = {"by_list_list", "resources_list_list"}
    overloads = {overload.id for overload in policy_environment().overloads}
    assert CALLS.keys() | LAZY == overloads | of_macros
