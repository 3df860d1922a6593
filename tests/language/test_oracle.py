"""Promises of the oracle itself, without which its judgement would mean little."""

from __future__ import annotations

from policy_sched.language.stdlib.environment import policy_environment

from .oracle import CALLS, LAZY


def test_every_overload_is_judged() -> None:
    """The oracle knows each operator, function and method of the table, and no other."""
    assert CALLS.keys() | LAZY == {one.id for one in policy_environment().overloads}
