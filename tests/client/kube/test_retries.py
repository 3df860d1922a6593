"""Pauses of requests that are sent again."""

from __future__ import annotations

from random import Random

from policy_sched.client.kube.backoff import Pauses
from policy_sched.client.kube.retries import REQUEST_BACKOFF, Patience
from policy_sched.testing import FakeClock


def test_requests_are_sent_again_soon_and_at_least_every_four_seconds() -> None:
    """A server that is back is noticed, and one that is away is not pestered."""
    pauses = Pauses(REQUEST_BACKOFF, FakeClock(), Random(1))
    found = [pauses.next() for _ in range(Patience().tries)]
    assert 0.1 <= found[0] <= 0.2
    assert all(2.0 <= pause <= 4.0 for pause in found[5:])
