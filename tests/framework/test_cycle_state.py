"""CycleState: one value per type, private to an attempt."""

from __future__ import annotations

from dataclasses import dataclass

from policy_sched.framework.cycle_state import CycleState


@dataclass(frozen=True)
class Count:
    """Something that a plugin keeps."""

    value: int


def test_reads_what_was_written_under_its_type() -> None:
    """Reading a type that was never written returns None."""
    state = CycleState()
    assert state.read(Count) is None
    state.write(Count(1))
    state.write(Count(2))
    assert state.read(Count) == Count(2)


def test_a_clone_changes_independently() -> None:
    """Writing to a clone leaves the original alone."""
    state = CycleState()
    state.write(Count(1))
    clone = state.clone()
    clone.write(Count(5))
    assert state.read(Count) == Count(1)
    assert clone.read(Count) == Count(5)
