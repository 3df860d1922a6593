"""Leader election by a lease: client-go's algorithm as a state machine without any I/O.

Theory of operation. An *attempt* is a generator: it yields what is to be asked of the server
(`Get`, `Create`, `Update`), is sent the answer, and returns whether we hold the lease now. Whoever
drives it asks at `due` for the next one. A lease is somebody else's as long as its record changes
within its duration, measured by our own monotonic clock since we saw the last change: nobody's
wall clock is compared with anybody's, and jumps of it do no harm. A leader that has not renewed
for `renew_deadline` gives up; the lease runs longer than that, so nobody else can lead before. One
that finds somebody else's name in the lease gives up at once, by whatever right it stands there.

`leading` is also false as soon as the lease has run out since our last renewal was *sent*: what is
asked before each write then needs no timer that fires in time.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias

from policy_sched.client.kube.backoff import SECOND
from policy_sched.client.kube.kubeconfig_user import Clocks

JITTER: Final = 1.2
"""Retries of candidates are up to this part of the period later (client-go: JitterFactor)."""


@dataclass(frozen=True, slots=True)
class ElectionSettings:
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


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """Who holds a lease (nobody: ""), for how many seconds; times are wall time in nanoseconds."""

    holder: str
    duration: int
    acquired: int
    renewed: int
    transitions: int = 0


@dataclass(frozen=True, slots=True)
class Get:
    """Read the lease."""


@dataclass(frozen=True, slots=True)
class Create:
    """Make the lease."""

    record: LeaseRecord


@dataclass(frozen=True, slots=True)
class Update:
    """Write the lease, if it is still what was read or written last."""

    record: LeaseRecord


@dataclass(frozen=True, slots=True)
class Found:
    """The lease, as it was read or as it has been written."""

    record: LeaseRecord


@dataclass(frozen=True, slots=True)
class NotThere:
    """There is no such lease."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The server refused (somebody was faster) or did not answer."""


Request: TypeAlias = Get | Create | Update
Answer: TypeAlias = Found | NotThere | Failed
Attempt: TypeAlias = Generator[Request, Answer, bool]


class Election:
    """One candidate."""

    def __init__(
        self, identity: str, clocks: Clocks, random: Random, settings: ElectionSettings
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
        self.due = clocks.monotonic()

    @property
    def holder(self) -> str:
        """Who held the lease when we looked last; "" for nobody."""
        return "" if self._observed is None else self._observed.holder

    @property
    def renewed_at(self) -> int | None:
        """When our last renewal was sent that took (monotonic); None for who does not lead."""
        return self._renewed_at if self._leading else None

    @property
    def leading(self) -> bool:
        """Whether we lead, right now."""
        ends = self._renewed_at + round(self.settings.lease_duration * SECOND)
        return self._leading and self._clocks.monotonic() < ends

    @property
    def gives_up(self) -> int | None:
        """When a leader that cannot renew stops to lead (monotonic); None for who does not lead."""
        if not self._leading:
            return None
        return self._renewing_since + round(self.settings.renew_deadline * SECOND)

    def attempt(self) -> Attempt:
        """Try to hold the lease, and set when the next try is due."""
        began = self._clocks.monotonic()
        held = yield from self._hold()
        self.conclude(held, began)
        return held

    def conclude(self, held: bool, began: int) -> None:
        """Take the result of an attempt that began then; one that was given up is a failure."""
        now = self._clocks.monotonic()
        period = round(self.settings.retry_period * SECOND)
        if held:
            self._leading = True
            self._renewed_at = began
            self._renewing_since = now + period
            self.due = now + period
            return
        until = self.gives_up
        if until is not None and now >= until:
            self._leading = False
        if self._leading:
            assert until is not None
            self.due = min(now + period, until)
        else:
            self.due = now + period + round(period * JITTER * self._random.random())

    def release(self) -> Generator[Request, Answer, bool]:
        """Give the lease back, so that another candidate need not wait until it runs out."""
        if not self._is_ours():
            self._leading = False
            return False
        self._leading = False
        wall = self._clocks.wall()
        assert self._observed is not None
        record = LeaseRecord("", 1, wall, wall, self._observed.transitions)
        answer = yield Update(record)
        if isinstance(answer, Found):
            self._observe(answer.record)
        return isinstance(answer, Found)

    # Inside.

    def _hold(self) -> Attempt:
        """client-go's tryAcquireOrRenew."""
        if self._is_ours() and self._valid():
            answer = yield Update(self._ours())
            if isinstance(answer, Found):
                self._observe(answer.record)
                return True
        answer = yield Get()
        if isinstance(answer, Failed):
            return False
        if isinstance(answer, NotThere):
            answer = yield Create(self._ours(fresh=True))
        else:
            if answer.record != self._observed:
                self._observe(answer.record)
            if self._leading and answer.record.holder not in ("", self.identity):
                self._leading = False
                return False
            if answer.record.holder and self._valid() and not self._is_ours():
                return False
            answer = yield Update(self._ours())
        if isinstance(answer, Found):
            self._observe(answer.record)
            return True
        return False

    def _is_ours(self) -> bool:
        return self._observed is not None and self._observed.holder == self.identity

    def _valid(self) -> bool:
        if self._observed is None:
            return False
        return self._clocks.monotonic() < self._observed_at + self._observed.duration * SECOND

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
