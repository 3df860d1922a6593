"""Fairness: when the server cannot keep up, who asks for most waits first.

Theory of operation: the time that requests take is noted by user, and half of it is forgotten
every second. A tick that comes late tells that the event loop has more to do than it can. Then,
and only if there are several users, those who had far more than their share are told to come back
in a second (429, Retry-After). Masters are never turned away, nor is anybody on a server that is
open to this machine.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from policy_sched.client.apimachinery import ApiError
from policy_sched.embedded.apiserver.request import User

WATCHES: Final = 900
"""Watches at the same time; a tenth of the connections is left."""
WATCHES_OF_ONE: Final = 600
"""Watches of one user who is no master."""
TICK_SECONDS: Final = 0.1
_KEPT: Final = 0.5**TICK_SECONDS
"""What is left of the time noted after a tick."""
LATE_SECONDS: Final = 0.5
"""How late a tick is when there is too much to do."""
SHARE: Final = 1.5
"""Times the average that a user may have had then."""
_MOST: Final = 1.0
"""Seconds that one request is noted with at most: most of a longer one was waiting."""
_NOTHING: Final = 0.001


class Places:
    """Places for watches, each of which takes a connection: some are left for other requests."""

    def __init__(self, most: int = WATCHES, of_one: int = WATCHES_OF_ONE) -> None:
        self._most = most
        self._of_one = of_one
        self._taken: Counter[str] = Counter()

    @contextmanager
    def taken(self, user: User) -> Iterator[None]:
        """Take a place for as long as the context lasts. Raises ApiError if there is none."""
        others = self._taken.total() >= self._most
        if others or (self._taken[user.name] >= self._of_one and not user.master):
            message = "too many watches, please try again later"
            raise ApiError(429, "TooManyRequests", message, {"retryAfterSeconds": 1})
        self._taken[user.name] += 1
        try:
            yield
        finally:
            self._taken[user.name] -= 1
            self._taken += Counter()  # which forgets those that have none


class Fairness:
    """Knows how much time users have had, and how late the server is."""

    def __init__(self) -> None:
        self.late = 0.0
        self._had: dict[str, float] = {}

    def note(self, user: User, seconds: float) -> None:
        """Take note of a request that took some time."""
        self._had[user.name] = self._had.get(user.name, 0.0) + min(seconds, _MOST)

    def refuses(self, user: User) -> bool:
        """Tell whether a user has to come back later."""
        if self.late < LATE_SECONDS or user.master or len(self._had) < 2:
            return False
        average = sum(self._had.values()) / len(self._had)
        return self._had.get(user.name, 0.0) > SHARE * average

    def tick(self, late: float) -> None:
        """Take note of a tick that came some seconds late."""
        self.late = late
        left = ((name, had * _KEPT) for name, had in self._had.items())
        self._had = {name: had for name, had in left if had > _NOTHING}

    async def ticking(self) -> None:
        """Tick again and again."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            self.tick(clock() - due)
