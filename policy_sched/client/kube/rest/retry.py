"""Whether a request that failed is sent again, and after how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from policy_sched.client.apimachinery import ApiError
from policy_sched.client.kube.rest.errors import TOO_MANY, Unreachable, wait_of
from policy_sched.client.kube.time import Backoff, BackoffState
from policy_sched.errors import ClusterError

PASSING: Final = frozenset({500, 502, 503, 504})
"""Answers that another try may change."""
REQUEST_BACKOFF: Final = Backoff(first=0.1, longest=2.0)
"""The backoff of requests without Retry-After: short, to notice soon that a server is back."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a request is tried (client-go: 10 retries), and for how many seconds in all."""

    tries: int = 11
    seconds: float = 60.0


def pause_before_retry(
    error: ClusterError, pauses: BackoffState, *, repeatable: bool
) -> float | None:
    """Return the seconds to wait before the request is sent again; None to give up.

    429, and 5xx with Retry-After, mean that nothing was done: they are tried again whatever the
    request is, as is one that never left. An answer that leaves it open, and a connection that
    broke, are tried again if doing the request twice is the same as once (``repeatable``).
    """
    asked = wait_of(error)
    if isinstance(error, ApiError):
        if error.code == TOO_MANY or (error.code >= 500 and asked is not None):
            return pauses.next() if asked is None else asked
        return pauses.next() if repeatable and error.code in PASSING else None
    if isinstance(error, Unreachable):
        return pauses.next() if repeatable or not error.sent else None
    return None
