"""States as JSON: what comes back, what is refused, and how long they get."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from policy_sched.rollout import (
    MAX_STATE,
    Counts,
    Observed,
    Phase,
    State,
    StateError,
    abort,
    advance,
    read_state,
    reconcile,
)
from tests.rollout.plans import MINUTE, PLAN, counted

BEGUN, _ = reconcile(PLAN, None, "old", "new", MINUTE)
assert BEGUN is not None


def test_a_state_comes_back_as_it_was() -> None:
    """A state that is written and read is the same state."""
    assert BEGUN is not None
    state, _ = advance(PLAN, BEGUN, counted(30, 0), 2 * MINUTE)
    assert state.elapsed == MINUTE
    assert read_state(state.text()) == state
    aborted, _ = advance(PLAN, state, counted(30, 20), 3 * MINUTE)
    assert aborted.phase is Phase.ABORTED
    assert read_state(aborted.text()) == aborted


@given(st.text() | st.binary())
def test_any_text_is_a_state_or_refused(text: str | bytes) -> None:
    """What is no state is a StateError, and nothing else."""
    with pytest.raises(StateError):
        read_state(text)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "of version 2, of a newer scheduler; this one reads up to version 1"),
        ({"version": "x"}, "Expected `int`"),
        ({"version": 0}, "states no version"),
        ({"step": -1}, "no step -1"),
        ({"seen": -1}, "a time is out of range"),
        ({"seen": 2**70}, "out of range"),
        ({"phase": "Sleeping"}, "Invalid enum value 'Sleeping'"),
        ({"extra": 1}, "unknown field `extra`"),
        ({"plan": "x" * 1000}, "a name is too long"),
        ({"message": "x" * 2000}, "a text is too long"),
        ({"figures": {f"f{i}": 1.0 for i in range(40)}}, "too many figures"),
        ({"counts": {"stable": {"decisions": -1}}}, "a count is no count"),
        ({"counts": {"candidate": {"waiting": {"1000": 1}}}}, "a bucket of times is none of ours"),
        ({"counts": {"candidate": {"waiting": {"1": -1}}}}, "a count is no count"),
        ({"message": "x" * MAX_STATE}, "the limit is 32768"),
    ],
)
def test_a_broken_state_says_what_is_wrong(change: dict[str, object], words: str) -> None:
    """A state that was edited by hand, cut off or is newer is refused with the reason."""
    assert BEGUN is not None
    text = json.dumps({**json.loads(BEGUN.text()), **change})
    with pytest.raises(StateError, match=words):
        read_state(text)


def test_a_state_has_a_bound() -> None:
    """The largest state that can come about is below the limit, and is read again."""
    full = Counts()
    for exponent in range(-60, 300):
        full.waited(2.0 ** (exponent / 8))
        full.decided(2.0 ** (exponent / 8))
    large = Observed(full, full)
    for _ in range(60):
        large = large.plus(large)
    begun, _ = reconcile(PLAN, None, "o" * 512, "n" * 512, 1)
    assert begun is not None
    state, _ = abort(begun, 1, message="\N{GRINNING FACE}" * 5000)
    state = State(**{f: getattr(state, f) for f in State.__struct_fields__} | {"counts": large})
    assert len(state.text().encode()) < MAX_STATE
    assert read_state(state.text()) == state
