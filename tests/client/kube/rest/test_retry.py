"""Requests that are sent again: how often, after how long, and within whose limits."""

from __future__ import annotations

from random import Random

import pytest

from policy_sched.client.apimachinery.resources import ApiError
from policy_sched.client.kube.events.broadcaster import EventKey, EventWriter, Reference
from policy_sched.client.kube.rest.errors import wait_of
from policy_sched.client.kube.rest.retry import REQUEST_BACKOFF, RetryPolicy
from policy_sched.client.kube.rest.settings import Settings
from policy_sched.client.kube.time.work_queue import BackoffState
from policy_sched.testing import FakeClock
from tests.client.kube.stage import Asked, Wire, acted, stage


def test_requests_are_sent_again_soon_and_at_least_every_four_seconds() -> None:
    """A server that is back is noticed, and one that is away is not pestered."""
    pauses = BackoffState(REQUEST_BACKOFF, FakeClock(), Random(1))
    found = [pauses.next() for _ in range(RetryPolicy().tries)]
    assert 0.1 <= found[0] <= 0.2
    assert all(2.0 <= pause <= 4.0 for pause in found[5:])


def test_a_failing_server_gets_eleven_requests() -> None:
    """As client-go does, which tries ten times again."""

    async def fails(_asked: Asked, wire: Wire) -> None:
        await wire.respond(500, {})

    async def play() -> None:
        async with stage(fails) as here, here.api() as api:
            with pytest.raises(ApiError):
                await api.get("/x")
            assert len(here.asked) == 11
            assert sum(here.slept) < 60

    acted(play())


@pytest.mark.parametrize(
    ("seconds", "wait"), [(3, 3.0), (0, None), (-1, None), ("3", None), (900, 300.0)]
)
def test_retry_after_is_respected(seconds: object, wait: float | None) -> None:
    """A number above 0; no wait is longer than five minutes."""
    assert wait_of(ApiError(429, "", "", {"retryAfterSeconds": seconds})) == wait


def test_events_do_not_wait_for_other_requests_nor_others_for_them() -> None:
    """They have a limit of their own, whether they are new or counted."""

    async def yes(_asked: Asked, wire: Wire) -> None:
        await wire.respond(201, {})

    async def play() -> None:
        settings = Settings(qps=1, burst=2)
        async with stage(yes) as here, here.api(settings) as api:
            for _ in range(2):
                await api.get("/x")
            writer = EventWriter(api)
            about = Reference("Pod", "default", "web", "u1")
            for note in "ab":
                writer.say(EventKey(about, "Normal", "R", "A", "me", "me-1", note))
            await writer.drained()
            assert [one.method for one in here.asked] == ["GET", "GET", "POST", "PATCH"]
            assert here.slept == []
            await api.get("/x")
            assert len(here.slept) == 1

    acted(play())
