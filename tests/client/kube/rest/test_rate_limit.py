"""The client's own limit of its requests."""

from __future__ import annotations

import pytest

from policy_sched.client.kube.rest.retry import TokenBucket
from policy_sched.testing import FakeClock


def test_a_burst_then_a_steady_rate() -> None:
    """``burst`` at once, then one every 1/qps seconds, each later than the one before."""
    clock = FakeClock()
    bucket = TokenBucket(clock, qps=10, burst=3)
    assert [bucket.take() for _ in range(5)] == [0, 0, 0, pytest.approx(0.1), pytest.approx(0.2)]
    clock.advance(0.2)
    assert bucket.take() == pytest.approx(0.1)


def test_rest_fills_the_bucket_and_no_more() -> None:
    """After a long rest there are ``burst`` tokens again."""
    clock = FakeClock()
    bucket = TokenBucket(clock, qps=10, burst=2)
    clock.advance(3600)
    assert [bucket.take() for _ in range(3)] == [0, 0, pytest.approx(0.1)]


def test_a_token_that_was_not_used_goes_back() -> None:
    """A request that stops waiting leaves its place to others."""
    bucket = TokenBucket(FakeClock(), qps=1, burst=1)
    bucket.take()
    bucket.take()
    bucket.give_back()
    assert bucket.take() == pytest.approx(1)


def test_no_limit_and_no_sense() -> None:
    """A rate of 0 is no limit; negative ones and empty buckets are refused."""
    bucket = TokenBucket(FakeClock(), qps=0)
    assert [bucket.take() for _ in range(1000)] == [0] * 1000
    with pytest.raises(ValueError, match="burst"):
        TokenBucket(FakeClock(), qps=1, burst=0)
