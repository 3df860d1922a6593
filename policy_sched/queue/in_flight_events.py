"""InFlight: pods that are being decided, and the events that came in the meantime.

Theory of operation. An event that arrives while a pod is being decided may have come too late for
the decision, so it is kept and judged when the pod returns. Events are in one list in the
order of arrival; a popped pod remembers how many there had been, so that those behind that mark
are its own. Pods are kept in the order in which they were popped: when one leaves, events that
came before the oldest of the others was popped are not needed and are dropped.
An event equal to the last one (same objects) is not recorded again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

import msgspec

from policy_sched.model import ClusterEvent, QueuedPod


class InFlightEvent(msgspec.Struct, frozen=True, eq=False):
    """An event with the objects before and after it."""

    event: ClusterEvent
    old: object
    new: object

    def same(self, other: InFlightEvent) -> bool:
        """Tell whether the other is the same event of the very same objects."""
        return self.event == other.event and self.old is other.old and self.new is other.new


class InFlight:
    """Popped pods by UID, and the events since the oldest of them was popped."""

    def __init__(self) -> None:
        self.pods: dict[str, QueuedPod] = {}
        self._events: deque[InFlightEvent] = deque()
        self._dropped = 0

    def __len__(self) -> int:
        return len(self.pods)

    @property
    def events(self) -> tuple[InFlightEvent, ...]:
        """The events that are kept, oldest first."""
        return tuple(self._events)

    def add(self, queued: QueuedPod) -> None:
        """A pod was popped."""
        queued.seen = self._dropped + len(self._events)
        self.pods[queued.info.uid] = queued

    def note(self, event: ClusterEvent, old: object, new: object) -> None:
        """Keep an event for the pods that are in flight now; without any it is not kept."""
        if not self.pods:
            return
        happening = InFlightEvent(event, old, new)
        newest = next(reversed(self.pods.values())).seen
        repeated = self._dropped + len(self._events) > newest and self._events[-1].same(happening)
        if not repeated:
            self._events.append(happening)

    def since(self, queued: QueuedPod) -> Iterator[InFlightEvent]:
        """Return the events that came after the pod was popped, oldest first."""
        return islice(self._events, queued.seen - self._dropped, None)

    def remove(self, queued: QueuedPod) -> None:
        """The pod is not in flight any more."""
        self.pods.pop(queued.info.uid, None)
        events = self._events
        if not events:
            return
        oldest = next(iter(self.pods.values()), None)
        kept_from = self._dropped + len(events) if oldest is None else oldest.seen
        while self._dropped < kept_from:
            events.popleft()
            self._dropped += 1
