"""Ends the backoff of waiting requests as soon as the server answers again.

Theory of operation. Requests that fail back off longer each time, to spare a server in trouble;
after an outage the last ones would come back long after the server did. All requests to one
server share this: when one is answered after a while without any answer, the pauses of the others
end. While some requests fail and others do not, pauses last as long as they should.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from policy_sched.client.apimachinery import ApiError
from policy_sched.client.kube.rest.errors import TOO_MANY, Unreachable
from policy_sched.client.kube.time import SECOND
from policy_sched.errors import ClusterError

AWAY: Final = SECOND // 4
"""A server that has not answered for so long (and was asked) was away."""


def away(error: ClusterError) -> bool:
    """Tell whether an error says that the server cannot be worked with for now."""
    if isinstance(error, ApiError):
        return error.code >= 500 or error.code == TOO_MANY
    return isinstance(error, Unreachable)


class Recovery:
    """What is known of one server; ``now`` is monotonic, in nanoseconds."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._answered = now()
        self._failed = False
        self._waiting: set[asyncio.Event] = set()

    def answered(self) -> None:
        """The server has answered."""
        now = self._now()
        if self._failed and now - self._answered >= AWAY:
            for event in self._waiting:
                event.set()
        self._answered = now
        self._failed = False

    def failed(self, error: ClusterError) -> None:
        """A request has failed; a refusal is an answer."""
        if away(error):
            self._failed = True
        else:
            self.answered()

    async def pause(self, sleep: Callable[[float], Awaitable[None]], seconds: float) -> bool:
        """Sleep, but not longer than the server is away; tell whether it is back."""
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
