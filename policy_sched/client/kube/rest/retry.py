"""Whether a request that failed is sent again, and after how long.

The client's own limit of its requests: a bucket of tokens, as client-go's flow control has it.

The bucket holds ``burst`` tokens and gains ``qps`` a second. A request that takes a token
ahead of time gets the duration to wait for it; later requests wait behind it.

Ends the backoff of waiting requests as soon as the server responds again.

Theory of operation. Requests that fail back off longer each time, to spare a server in trouble;
after an outage the last ones would come back long after the server did. All requests to one
server share this: when one has a response after a while without any, the pauses of the others
end. While some requests fail and others do not, pauses last as long as they should.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from policy_sched.client.apimachinery import ApiError
from policy_sched.client.kube.rest.errors import TOO_MANY, Unreachable, wait_of
from policy_sched.client.kube.time import SECOND, BackoffSchedule, BackoffState
from policy_sched.errors import ClusterError

QPS: Final = 50.0
"""Requests a second (kube-scheduler's clientConnection.qps)."""
BURST: Final = 100
"""Requests at once (kube-scheduler's clientConnection.burst)."""


class TokenBucket:
    """A limit of requests; ``now`` is monotonic, in nanoseconds. A ``qps`` of 0 is no limit."""

    def __init__(self, now: Callable[[], int], qps: float = QPS, burst: int = BURST) -> None:
        if qps < 0 or burst < 1:
            raise ValueError("qps must not be negative, and burst at least 1")
        self._now = now
        self._qps = qps
        self._burst = burst
        self._tokens = float(burst)
        self._at = now()

    def take(self) -> float:
        """Take a token; return the seconds until it is available."""
        if not self._qps:
            return 0.0
        now = self._now()
        if now > self._at:
            gained = (now - self._at) / SECOND * self._qps
            self._tokens = min(float(self._burst), self._tokens + gained)
            self._at = now
        self._tokens -= 1
        return -self._tokens / self._qps if self._tokens < 0 else 0.0

    def try_take(self) -> bool:
        """Take a token if one is available now."""
        if self.take() <= 0:
            return True
        self.give_back()
        return False

    def give_back(self) -> None:
        """Return a token that was not used: the request was given up while it waited."""
        self._tokens = min(float(self._burst), self._tokens + 1)


class Room:
    """A limit on requests at the same time; those that wait enter in order.

    A task waits in `enter`; other code uses `try_enter`, or `enter_later`. What entered calls
    `leave`.
    """

    def __init__(self, size: int) -> None:
        self._free = size
        self._waiting: deque[asyncio.Future[None] | Callable[[], None]] = deque()

    def try_enter(self) -> bool:
        """Enter if there is room now."""
        if self._free <= 0:
            return False
        self._free -= 1
        return True

    def enter_later(self, entered: Callable[[], None]) -> None:
        """Enter after those that wait; ``entered`` is called then."""
        self._waiting.append(entered)

    async def enter(self) -> None:
        """Enter as soon as there is room."""
        if self.try_enter():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """Make room for the next."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not isinstance(turn, asyncio.Future):
                turn()
                return
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


PASSING: Final = frozenset({500, 502, 503, 504})
"""Responses that another try may change."""
REQUEST_BACKOFF: Final = BackoffSchedule(first=0.1, longest=2.0)
"""The backoff of requests without Retry-After: short, to notice soon that a server is back."""


class RetryPolicy(msgspec.Struct, frozen=True):
    """How often a request is tried (client-go: 10 retries), and for how many seconds in all."""

    tries: int = 11
    seconds: float = 60.0


def pause_before_retry(
    error: ClusterError, pauses: BackoffState, *, repeatable: bool
) -> float | None:
    """Return the seconds to wait before the request is sent again; None to give up.

    429, and 5xx with Retry-After, mean that nothing was done: they are tried again whatever the
    request is, as is one that never left. A response that leaves it open, and a connection that
    broke, are tried again if doing the request twice is the same as once (``repeatable``).
    """
    delay = wait_of(error)
    if isinstance(error, ApiError):
        if error.code == TOO_MANY or (error.code >= 500 and delay is not None):
            return pauses.next() if delay is None else delay
        return pauses.next() if repeatable and error.code in PASSING else None
    if isinstance(error, Unreachable):
        return pauses.next() if repeatable or not error.sent else None
    return None


AWAY: Final = SECOND // 4
"""A server that has not responded to requests for so long was unavailable."""


def away(error: ClusterError) -> bool:
    """Return whether an error means that the server cannot be used for now."""
    if isinstance(error, ApiError):
        return error.code >= 500 or error.code == TOO_MANY
    return isinstance(error, Unreachable)


class Recovery:
    """What is known of one server; ``now`` is monotonic, in nanoseconds."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._last_response = now()
        self._failed = False
        self._waiting: set[asyncio.Event] = set()

    def reached(self) -> None:
        """The server has responded."""
        now = self._now()
        if self._failed and now - self._last_response >= AWAY:
            for event in self._waiting:
                event.set()
        self._last_response = now
        self._failed = False

    def failed(self, error: ClusterError) -> None:
        """A request has failed; a refusal is a response."""
        if away(error):
            self._failed = True
        else:
            self.reached()

    async def pause(self, sleep: Callable[[float], Awaitable[None]], seconds: float) -> bool:
        """Sleep, but not longer than the server is away; return whether it is back."""
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            await first_of(sleep(seconds), event.wait())
        finally:
            self._waiting.discard(event)
        return event.is_set()


async def first_of(*works: Awaitable[object]) -> None:
    """Wait until one of them is done, and cancel the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
