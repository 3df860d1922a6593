"""PendingStatus: a PreBind or Bind plugin returns it instead of a Status if its work takes time.

The attempt is suspended, other pods are decided, and it resumes when there is a result: the plugin
calls `finish`, or is polled. The wait ends at ``deadline``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from policy_sched.framework.status import Code, Status

#: Go's words for a deadline that has passed; kube-scheduler's plugins answer so.
TOO_LATE: Final = "context deadline exceeded"


class Wait(Protocol):
    """A wait of a binding; ``wake`` is called when the result is available."""

    wake: Callable[[], None] | None

    @property
    def deadline(self) -> int | None:
        """When `answer` has one at the latest, in nanoseconds since 1970; None: whenever."""

    @property
    def polled(self) -> bool:
        """Whether `answer` must be polled because `wake` is not called."""

    def answer(self, now: int) -> Status | None:
        """Return the answer at ``now`` (nanoseconds since 1970), None while there is none."""


class PendingStatus:
    """Work that has begun.

    ``ask`` is called whenever an API object has changed and at least once a second; it returns
    the status when the work is done and None before. ``deadline``: nanoseconds since 1970.
    ``given`` is the answer, once there is one.
    """

    __slots__ = ("_ask", "deadline", "given", "wake")

    def __init__(
        self, ask: Callable[[], Status | None] | None = None, deadline: int | None = None
    ) -> None:
        self.wake: Callable[[], None] | None = None
        self.deadline = deadline
        self.given: Status | None = None
        self._ask = ask

    @property
    def polled(self) -> bool:
        """Whether there is a function to poll."""
        return self._ask is not None

    def finish(self, status: Status) -> None:
        """Set the result; later calls are ignored."""
        if self.given is None:
            self.given = status
            if self.wake is not None:
                self.wake()

    def answer(self, now: int) -> Status | None:
        """Return the answer; Error after the deadline, None while there is none."""
        if self.given is None and self._ask is not None:
            self.given = self._ask()
        if self.given is None and self.deadline is not None and now >= self.deadline:
            self.given = Status(Code.ERROR, (TOO_LATE,))
        return self.given
