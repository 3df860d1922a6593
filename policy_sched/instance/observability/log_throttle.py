"""Rate limit for repeated log messages, by cause: an outage is one line, not one for each watch.

A cause is logged when it is new, and again after an interval; the line has the number of messages
that were left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from policy_sched.client.kube.time import SECOND

AGAIN: Final = 60 * SECOND
"""How long a cause is not said again."""
CAUSES: Final = 1000
"""Causes that are remembered; beyond that all are forgotten, and said again."""


@dataclass(slots=True)
class _Cause:
    said: int
    unsaid: int = 0


class LogThrottle:
    """Recent causes; ``now`` is monotonic, in nanoseconds."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._causes: dict[str, _Cause] = {}

    def admit(self, what: str) -> int | None:
        """Admit a message of the form ``REQUEST: CAUSE``, unless its cause was logged of late.

        Return the number of messages that were left out since then; None to leave this one out.
        """
        cause, now = what.partition(": ")[2] or what, self._now()
        known = self._causes.get(cause)
        if known is not None and now - known.said < AGAIN:
            known.unsaid += 1
            return None
        if len(self._causes) >= CAUSES:
            self._causes.clear()
        self._causes[cause] = _Cause(now)
        return 0 if known is None else known.unsaid
