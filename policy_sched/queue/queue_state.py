"""The places of a pod in the queue and the ways between them, as a table.

Theory of operation: everything that decides where a pod may go from where it is lives here; the
queue changes places through `transition` only::

                  add, update
        OUT -----------------------> ACTIVE <---------------------------+
         |                           |    ^                             |
         | add, update: gated        |pop | backoff is over, Activate   | event, update,
         |                           v    |                             | Activate, timeout
         |     +-- done --------- IN_FLIGHT <--- pop ---- BACKOFF <-----+
         |     v                     |  |                    ^          |
         |    OUT                    |  +- back: an event ---+          |
         |                           |     or an error                  |
         |                           +---- back: nothing new -> UNSCHEDULABLE
         v                                                              ^
       GATED <------- PreEnqueue rejects, run again by an event --------+
         |
         +----------> ACTIVE, BACKOFF: PreEnqueue has nothing against it any more

A pod in flight whose binding takes time goes to BINDING when it is permitted; from there it is
done, or comes back as from IN_FLIGHT, but is not left to an event: it is tried again after its
backoff. From everywhere but these two a deleted pod goes OUT; in them it stays until it is done.
A pod that is UNSCHEDULABLE is taken out and goes IN_FLIGHT along with another one of its group.
Other policies may gate what is ready or backs off.
"""

from __future__ import annotations

from typing import Final

from policy_sched.errors import PolicySchedError
from policy_sched.model import QueuedPod, QueueState


class QueueStateError(PolicySchedError):
    """A pod was to go where there is no way from its place: the caller lost track."""


_WAITING: Final = frozenset(
    {QueueState.ACTIVE, QueueState.BACKOFF, QueueState.UNSCHEDULABLE, QueueState.GATED}
)

WAYS: Final[tuple[frozenset[QueueState], ...]] = (
    _WAITING - {QueueState.UNSCHEDULABLE, QueueState.BACKOFF},
    frozenset({QueueState.IN_FLIGHT, QueueState.GATED, QueueState.OUT}),
    frozenset({QueueState.ACTIVE, QueueState.IN_FLIGHT, QueueState.GATED, QueueState.OUT}),
    _WAITING | {QueueState.OUT, QueueState.IN_FLIGHT},
    _WAITING - {QueueState.UNSCHEDULABLE} | {QueueState.OUT},
    _WAITING | {QueueState.OUT, QueueState.BINDING},
    _WAITING - {QueueState.UNSCHEDULABLE} | {QueueState.OUT},
)
"""By place, in the order of `QueueState`: where a pod may go from there."""


def transition(queued: QueuedPod, place: QueueState) -> None:
    """Set the pod's new place; raise QueueStateError if there is no way to it."""
    if place not in WAYS[queued.place]:
        raise QueueStateError(
            f"pod {queued.info.key} cannot go from {queued.place.name} to {place.name}"
        )
    queued.place = place
