"""The client's own limit of its requests: a bucket of tokens, as client-go's flow control has it.

The bucket holds ``burst`` tokens and gains ``qps`` a second. A request that takes a token
ahead of time gets the duration to wait for it; later requests wait behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from policy_sched.client.kube.time import SECOND

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
        """Take a token; return how many seconds to wait until it is there."""
        if not self._qps:
            return 0.0
        now = max(self._now(), self._at)
        gained = (now - self._at) / SECOND * self._qps
        self._tokens = min(float(self._burst), self._tokens + gained) - 1
        self._at = now
        return max(0.0, -self._tokens / self._qps)

    def give_back(self) -> None:
        """Return a token that was not used: the request was given up while it waited."""
        self._tokens = min(float(self._burst), self._tokens + 1)
