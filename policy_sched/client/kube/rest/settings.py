"""Settings of a client of an API server: limits, clocks, and observers of requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Protocol

import msgspec

from policy_sched.client.kube.rest.retry import BURST, QPS, RetryPolicy
from policy_sched.client.kube.time import Clocks

Sleep = Callable[[float], Awaitable[None]]
Observe = Callable[[str, str, str, float], None]
"""Called for each request that was sent: status, method, host, seconds until the first byte."""


class Settings(msgspec.Struct, frozen=True):
    """How a client behaves; times in seconds.

    ``timeout`` is for a whole response, ``connect`` for reaching the server. So many requests are
    under way at once as there are ``connections``, watches not counted; ``qps`` and ``burst`` hold
    once for events and once for all else, as kube-scheduler has a client of its own for events. A
    response has at most ``longest_response`` bytes.
    ``read_only``: requests that write fail here, and nothing is sent.
    """

    qps: float = QPS
    burst: int = BURST
    timeout: float = 30.0
    connect: float = 10.0
    connections: int = 32
    longest_response: int = 512 << 20
    read_only: bool = False
    retry_policy: RetryPolicy = msgspec.field(default_factory=RetryPolicy)


class ClientEnvironment(msgspec.Struct, frozen=True):
    """What a client must not take from the world by itself: time, randomness, sleep."""

    clocks: Clocks
    random: Random
    sleep: Sleep = asyncio.sleep


class Traffic(Protocol):
    """Observes what requests wait for, and how large they are; ``verb`` is the method."""

    def throttled(self, verb: str, host: str, seconds: float) -> None:
        """A request waited for the client's own limit."""

    def sized(self, verb: str, host: str, sent: int | None, received: int) -> None:
        """A request had so many bytes (None: no body), and its response so many."""
