"""The states of a pod in the cache and the transitions between them, as a table.

Theory of operation: the cache holds a pod in exactly one of three states, or not at all::

                  assume             finish binding
      INITIAL ------------> ASSUMED -----------------> BOUND
       ^ | ^                 | |                        | |
       | | +---- forget -----+ |      forget, expire    | |
       | | +-------------------|------------------------+ |
       | |        add          v            add           |
       | +-----------------> ADDED <----------------------+
       |       remove         |  ^ update, finish binding
       +----------------------+--+

INITIAL is every pod that the cache does not hold: never seen, forgotten, expired or deleted. A
remove takes an assumed pod out as well, for it may be deleted before its binding is seen.
Two events may come late and then change nothing: the end of a binding after the watch has
confirmed or deleted the pod, and a forget after the pod was deleted.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from policy_sched.errors import PolicySchedError


class PodState(Enum):
    """What the cache believes about a pod."""

    INITIAL = "not in the cache"
    ASSUMED = "assumed"
    BOUND = "assumed and bound"
    ADDED = "added"


class PodEvent(Enum):
    """What can happen to a pod."""

    ASSUME = "assumed"
    FINISH_BINDING = "marked as bound"
    FORGET = "forgotten"
    EXPIRE = "expired"
    ADD = "added"
    UPDATE = "updated"
    REMOVE = "removed"


class PodStateError(PolicySchedError):
    """An event reached a pod in a state without a transition for it: the caller lost track."""


TRANSITIONS: Final[dict[tuple[PodState, PodEvent], PodState]] = {
    (PodState.INITIAL, PodEvent.ASSUME): PodState.ASSUMED,
    (PodState.INITIAL, PodEvent.ADD): PodState.ADDED,
    (PodState.INITIAL, PodEvent.FINISH_BINDING): PodState.INITIAL,
    (PodState.INITIAL, PodEvent.FORGET): PodState.INITIAL,
    (PodState.ASSUMED, PodEvent.FINISH_BINDING): PodState.BOUND,
    (PodState.ASSUMED, PodEvent.FORGET): PodState.INITIAL,
    (PodState.ASSUMED, PodEvent.ADD): PodState.ADDED,
    (PodState.ASSUMED, PodEvent.REMOVE): PodState.INITIAL,
    (PodState.BOUND, PodEvent.FORGET): PodState.INITIAL,
    (PodState.BOUND, PodEvent.EXPIRE): PodState.INITIAL,
    (PodState.BOUND, PodEvent.ADD): PodState.ADDED,
    (PodState.BOUND, PodEvent.REMOVE): PodState.INITIAL,
    (PodState.ADDED, PodEvent.FINISH_BINDING): PodState.ADDED,
    (PodState.ADDED, PodEvent.UPDATE): PodState.ADDED,
    (PodState.ADDED, PodEvent.REMOVE): PodState.INITIAL,
}
"""The next state; a pair that is not here is an error of the caller."""


def next_state(state: PodState, event: PodEvent, pod: str) -> PodState:
    """Return the state after an event; raise PodStateError naming ``pod`` if there is none."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise PodStateError(f"pod {pod} is {state.value} and cannot be {event.value}") from None
