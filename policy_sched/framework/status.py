"""Status: what a plugin returns, and what follows from it.

A PreBind or Bind plugin returns a PendingStatus instead if its work takes time: the attempt is
suspended, other pods are decided, and it resumes when there is a result. The plugin calls
`finish`, or is polled. The wait ends at ``deadline``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Final, Protocol

import msgspec


class Code(StrEnum):
    """The kind of a status; each member names what happens next. Names are kube-scheduler's."""

    SUCCESS = "Success"
    """Go on."""
    ERROR = "Error"
    """An unexpected error, not a policy decision: the attempt ends, the pod backs off and
    retries."""
    UNSCHEDULABLE = "Unschedulable"
    """No, but removing pods may change it: preemption is tried on such nodes."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """No, and no preemption helps."""
    WAIT = "Wait"
    """Permit only: hold the pod until it is allowed, rejected or timed out."""
    SKIP = "Skip"
    """Not concerned: PreFilter and PreScore leave the plugin out; the next Bind plugin runs."""
    PENDING = "Pending"
    """Unschedulable until something outside the scheduler happens; the pod pays no backoff."""


class Status(msgspec.Struct, frozen=True):
    """A code, the reasons for people, and the plugin that returned it (empty: the framework)."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def ok(self) -> bool:
        """Whether the status is Success."""
        return self.code is Code.SUCCESS

    @property
    def rejected(self) -> bool:
        """Whether the status means "not here": Unschedulable, its unresolvable form, or Pending."""
        return self.code in _REJECTIONS

    def message(self) -> str:
        """Return the reasons as one string, as upstream joins them."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """Return the same status, attributed to ``plugin``."""
        return Status(self.code, self.reasons, plugin)


_REJECTIONS: Final = frozenset(
    {Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING}
)
SUCCESS: Final = Status()
SKIP: Final = Status(Code.SKIP)
WAIT: Final = Status(Code.WAIT)


#: Go's words for a deadline that has passed; kube-scheduler's plugins say so.
TOO_LATE: Final = "context deadline exceeded"


class Wait(Protocol):
    """A wait of a binding; ``wake`` is called when the result is available."""

    wake: Callable[[], None] | None

    @property
    def deadline(self) -> int | None:
        """When `status_at` has one at the latest, in nanoseconds since 1970; None: whenever."""

    @property
    def polled(self) -> bool:
        """Whether `status_at` must be polled because `wake` is not called."""

    def status_at(self, now: int) -> Status | None:
        """Return the status at ``now`` (nanoseconds since 1970), None while there is none."""


class PendingStatus(msgspec.Struct, eq=False):
    """Work that has begun.

    ``poll`` is called whenever an API object has changed and at least once a second; it returns
    the status when the work is done and None before. ``deadline``: nanoseconds since 1970.
    ``given`` is the status, once there is one.
    """

    poll: Callable[[], Status | None] | None = None
    deadline: int | None = None
    given: Status | None = None
    wake: Callable[[], None] | None = None

    @property
    def polled(self) -> bool:
        """Whether there is a function to poll."""
        return self.poll is not None

    def finish(self, status: Status) -> None:
        """Set the result; later calls are ignored."""
        if self.given is None:
            self.given = status
            if self.wake is not None:
                self.wake()

    def status_at(self, now: int) -> Status | None:
        """Return the status; Error after the deadline, None while there is none."""
        if self.given is None and self.poll is not None:
            self.given = self.poll()
        if self.given is None and self.deadline is not None and now >= self.deadline:
            self.given = Status(Code.ERROR, (TOO_LATE,))
        return self.given
