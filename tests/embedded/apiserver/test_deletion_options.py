"""Options of a deletion, which may stand in its query or in its body."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.embedded.apiserver.test_eviction import _running
from tests.embedded.apiserver.world import PODS, serving


@pytest.mark.parametrize(
    ("query", "body", "seconds"),
    [
        ("", None, 30),
        ("?gracePeriodSeconds=7", None, 7),
        ("", {"gracePeriodSeconds": 8}, 8),
        ("?gracePeriodSeconds=7", {"gracePeriodSeconds": 8}, 8),
        ("?gracePeriodSeconds=0", None, None),
        ("", {"gracePeriodSeconds": 0}, None),
    ],
)
def test_the_grace_of_a_deletion(query: str, body: Any, seconds: int | None) -> None:
    """The body counts first, the pod's own last; with none it goes at once."""

    async def run() -> None:
        async with serving() as world:
            await _running(world, "a")
            status, told = await world.ask("DELETE", f"{PODS}/a{query}", body)
            assert status == 200
            assert (await world.ask("GET", f"{PODS}/a"))[0] == (404 if seconds is None else 200)
            if seconds is not None:
                assert told["metadata"]["deletionGracePeriodSeconds"] == seconds

    asyncio.run(run())


def test_a_body_has_three_mebibytes_at_most() -> None:
    """One byte more is too many, whatever it says."""

    async def run() -> None:
        async with serving() as world:
            for length, code in ((1 << 20, 422), ((3 << 20) + 1, 413)):
                body = b'{"a":"' + b"x" * (length - 8) + b'"}'
                assert len(body) == length
                assert (await world.ask("POST", PODS, body))[0] == code

    asyncio.run(run())
