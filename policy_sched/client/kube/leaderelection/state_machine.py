"""Leader election by a lease: client-go's algorithm as a state machine without any I/O.

Theory of operation. An *attempt* is a generator: it yields what is to be sent to the server
(`Get`, `Create`, `Update`), is sent the response, and returns whether we hold the lease now. The
caller starts the next attempt at `due`. Another holder keeps a lease as long as its record changes
within its duration, measured by our own monotonic clock since we saw the last change: wall clocks
are never compared, so clock jumps do no harm. A leader that has not renewed for `renew_deadline`
gives up; the lease runs longer than that, so no other candidate can lead before. A leader that
finds another holder in the lease gives up at once.

client-go's candidates wait a full retry period. This one also tries when the observed lease runs
out, and when a watch reports another holder's write (`observe_holder`). Failed attempts back off,
up to the retry period.

`leading` is also false as soon as the lease has run out since our last renewal was *sent*, so the
check before each write does not depend on a timer.
"""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import Final, TypeAlias

import msgspec

from policy_sched.client.kube import time

JITTER: Final = 1.2
"""Retries of candidates are up to this part of the period later (client-go: JitterFactor)."""


class ElectionSettings(msgspec.Struct, frozen=True):
    """Seconds; the defaults are kube-scheduler's (--leader-elect-*)."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("the lease duration must be greater than the renew deadline")
        if self.renew_deadline <= JITTER * self.retry_period:
            raise ValueError("the renew deadline must be greater than 1.2 retry periods")
        if self.lease_duration < 1 or self.retry_period <= 0:
            raise ValueError("the lease duration must be 1 s at least, the retry period above 0")


class LeaseRecord(msgspec.Struct, frozen=True):
    """The holder of a lease ("": none), for how many seconds; times are wall time in ns."""

    holder: str
    duration: int
    acquired: int
    renewed: int
    transitions: int = 0


class Get(msgspec.Struct, frozen=True):
    """Read the lease."""


class Create(msgspec.Struct, frozen=True):
    """Create the lease."""

    record: LeaseRecord


class Update(msgspec.Struct, frozen=True):
    """Write the lease, if it is still what was read or written last."""

    record: LeaseRecord


class ObservedLease(msgspec.Struct, frozen=True):
    """The lease, as it was read or as it has been written."""

    record: LeaseRecord


class NotThere(msgspec.Struct, frozen=True):
    """There is no such lease."""


class Failed(msgspec.Struct, frozen=True):
    """The server refused (another client was faster) or did not respond."""


Request: TypeAlias = Get | Create | Update
Response: TypeAlias = ObservedLease | NotThere | Failed
Attempt: TypeAlias = Generator[Request, Response, bool]


class Election:
    """One candidate."""

    def __init__(
        self, identity: str, clocks: time.Clocks, random: Random, settings: ElectionSettings
    ) -> None:
        self.identity = identity
        self.settings = settings
        self._clocks = clocks
        self._random = random
        self._observed: LeaseRecord | None = None
        self._observed_at = 0
        self._leading = False
        self._renewed_at = 0
        self._renewing_since = 0
        self._failed = False
        period = settings.retry_period
        soon = time.BackoffSchedule(first=period / 20, longest=period, jitter=JITTER)
        self._pauses = time.BackoffState(soon, clocks.monotonic, random)
        self.due = clocks.monotonic()

    @property
    def holder(self) -> str:
        """The holder that was observed last; "" for none."""
        return "" if self._observed is None else self._observed.holder

    @property
    def renewed_at(self) -> int | None:
        """When the last successful renewal was sent (monotonic); None for a follower."""
        return self._renewed_at if self._leading else None

    @property
    def leading(self) -> bool:
        """Whether we lead, right now."""
        ends = self._renewed_at + round(self.settings.lease_duration * time.SECOND)
        return self._leading and self._clocks.monotonic() < ends

    @property
    def gives_up(self) -> int | None:
        """When a leader that cannot renew stops (monotonic); None for a follower."""
        return self._gives_up() if self._leading else None

    def attempt(self) -> Attempt:
        """Try to hold the lease, and set when the next try is due."""
        began = self._clocks.monotonic()
        held = yield from self._hold()
        self.conclude(held, began)
        return held

    def conclude(self, held: bool, began: int) -> None:
        """Apply the result of an attempt that began then; a cancelled one is a failure."""
        now = self._clocks.monotonic()
        period = round(self.settings.retry_period * time.SECOND)
        if held:
            self._leading = True
            self._renewed_at = began
            self._renewing_since = now + period
        elif self._leading and now >= self._gives_up():
            self._leading = False
        pause = period if self._leading else period + round(period * JITTER * self._random.random())
        if self._failed:
            pause = min(pause, round(self._pauses.next() * time.SECOND))
        else:
            self._pauses.succeeded()
        if held:
            self.due = now + pause
        elif self._leading:
            self.due = min(now + pause, self._gives_up())
        else:
            self.due = min(now + pause, self._runs_out(now + pause))

    def observe_holder(self, holder: str) -> bool:
        """Return whether the lease must be read, because another holder was written into it."""
        if holder == self.identity:
            return False
        self.due = self._clocks.monotonic()
        return True

    def release(self) -> Attempt:
        """Release the lease, so that another candidate need not wait until it expires.

        Returns whether it is not ours any more; otherwise this may be tried again.
        """
        self._leading = False
        if self._failed:
            yield from self._look()
        if not self._is_ours():
            return not self._failed
        wall = self._clocks.wall()
        assert self._observed is not None
        record = LeaseRecord("", 1, wall, wall, self._observed.transitions)
        return (yield from self._write(Update(record)))

    # Inside.

    def _gives_up(self) -> int:
        return self._renewing_since + round(self.settings.renew_deadline * time.SECOND)

    def _hold(self) -> Attempt:
        """client-go's tryAcquireOrRenew."""
        if self._is_ours() and self._valid() and (yield from self._write(Update(self._ours()))):
            return True
        response = yield from self._look()
        if isinstance(response, Failed):
            return False
        if isinstance(response, NotThere):
            return (yield from self._write(Create(self._ours(fresh=True))))
        if self._leading and response.record.holder not in ("", self.identity):
            self._leading = False
            return False
        if response.record.holder and self._valid() and not self._is_ours():
            return False
        return (yield from self._write(Update(self._ours())))

    def _look(self) -> Generator[Request, Response, Response]:
        """Read the lease; when it was last seen to change counts for how long it is valid."""
        response = yield from self._ask(Get())
        if isinstance(response, ObservedLease) and response.record != self._observed:
            self._observe(response.record)
        return response

    def _write(self, request: Create | Update) -> Attempt:
        """Write the lease; return whether that was done, as far as we know."""
        response = yield from self._ask(request)
        if isinstance(response, ObservedLease):
            self._observe(response.record)
        return isinstance(response, ObservedLease)

    def _ask(self, request: Request) -> Generator[Request, Response, Response]:
        self._failed = True  # until there is a response: the attempt may be given up
        response = yield request
        self._failed = isinstance(response, Failed)
        return response

    def _runs_out(self, otherwise: int) -> int:
        """Return when another holder's lease runs out, if it has not yet."""
        if self._observed is None or not self._observed.holder or not self._valid():
            return otherwise
        return self._observed_at + self._observed.duration * time.SECOND

    def _is_ours(self) -> bool:
        return self._observed is not None and self._observed.holder == self.identity

    def _valid(self) -> bool:
        if self._observed is None:
            return False
        return self._clocks.monotonic() < self._observed_at + self._observed.duration * time.SECOND

    def _observe(self, record: LeaseRecord) -> None:
        self._observed = record
        self._observed_at = self._clocks.monotonic()

    def _ours(self, *, fresh: bool = False) -> LeaseRecord:
        """Return the record to write: ours renewed, or another's taken over."""
        wall, duration = self._clocks.wall(), int(self.settings.lease_duration)
        old = self._observed
        if fresh or old is None:
            return LeaseRecord(self.identity, duration, wall, wall, 0)
        if self._is_ours():
            return LeaseRecord(self.identity, duration, old.acquired, wall, old.transitions)
        return LeaseRecord(self.identity, duration, wall, wall, old.transitions + 1)
