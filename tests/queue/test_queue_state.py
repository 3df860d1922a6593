"""Places: the ways between them, and no others."""

from __future__ import annotations

import pytest

from policy_sched.model.pod_info import QueueState
from policy_sched.queue.queue_state import WAYS, QueueStateError, transition
from tests.queue.pods import queued


def test_every_state_has_transitions() -> None:
    """The table speaks of all places."""
    assert len(WAYS) == len(QueueState)


def test_a_transition_sets_the_state() -> None:
    """Its place is where it went last."""
    pod = queued()
    for place in (
        QueueState.ACTIVE,
        QueueState.IN_FLIGHT,
        QueueState.BINDING,
        QueueState.BACKOFF,
        QueueState.OUT,
    ):
        transition(pod, place)
        assert pod.place is place


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (QueueState.OUT, QueueState.IN_FLIGHT),
        (QueueState.OUT, QueueState.UNSCHEDULABLE),
        (QueueState.ACTIVE, QueueState.UNSCHEDULABLE),
        (QueueState.GATED, QueueState.IN_FLIGHT),
        (QueueState.BINDING, QueueState.UNSCHEDULABLE),
        (QueueState.BINDING, QueueState.IN_FLIGHT),
        (QueueState.ACTIVE, QueueState.BINDING),
    ],
)
def test_other_transitions_are_errors(start: QueueState, end: QueueState) -> None:
    """An invalid transition raises, and the pod stays where it is."""
    pod = queued()
    pod.place = start
    with pytest.raises(QueueStateError, match=f"cannot go from {start.name} to {end.name}"):
        transition(pod, end)
    assert pod.place is start
