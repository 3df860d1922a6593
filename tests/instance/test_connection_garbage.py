"""Connections leave no garbage: after a collection there are no more objects than before."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from contextvars import Context
from pathlib import Path

import pytest
from aiohttp import ClientSession, TCPConnector, web

from policy_sched.instance.http.listener import Listener, self_signed, server_context
from policy_sched.instance.observability.event_loop_latency import EventLoopLatency, measured_loop
from tests.instance.http.test_endpoints import Served

TIMES = 10


async def answer(request: web.BaseRequest) -> web.StreamResponse:
    """Answer anything."""
    response = web.Response(body=b"ok")
    await response.prepare(request)
    await response.write_eof()
    return response


async def ask(url: str) -> None:
    """Connect, send a request, and close."""
    connector = TCPConnector(force_close=True)
    async with ClientSession(connector=connector) as session, session.get(url, ssl=False) as got:
        assert await got.read() == b"ok"


async def left_by(times: int, once: Callable[[], Awaitable[None]]) -> int:
    """Return the growth of the number of objects after something was done so often.

    Objects that leak each time leak in every round; late ones of an earlier round do not.
    """
    await once()
    return min([await _left_by(times, once) for _ in range(3)])


async def _left_by(times: int, once: Callable[[], Awaitable[None]]) -> int:
    before = await _objects()
    for _ in range(times):
        await once()
    return await _objects() - before


async def _objects() -> int:
    """Return the number of objects; a loop keeps cancelled timers until they are due."""
    await asyncio.sleep(0.05)
    gc.collect()
    return sum(not isinstance(one, (asyncio.TimerHandle, Context)) for one in gc.get_objects())


@pytest.mark.parametrize("tls", [False, True])
def test_a_connection_that_is_closed_leaves_nothing(tls: bool) -> None:
    """Neither with its client nor with its server, in the open and over TLS."""

    async def play() -> None:
        pair = self_signed(["localhost"], time.time_ns())
        context = server_context(*pair) if tls else None
        async with Listener(answer, ("127.0.0.1", 0), context) as listener:
            assert await left_by(TIMES, lambda: ask(listener.url)) < TIMES

    with asyncio.Runner(loop_factory=lambda: measured_loop(EventLoopLatency())) as runner:
        runner.run(play())


def test_a_page_that_is_not_there_leaves_nothing(tmp_path: Path) -> None:
    """Neither an unknown page nor the explanation of an unknown pod."""
    served = Served(tmp_path)

    async def play() -> None:
        async with served.session() as get:

            async def ask() -> None:
                assert (await get("/explain/default/none", "admin"))["status"] == 404
                assert (await get("/nothing", "admin"))["status"] == 404
                assert (await get("/metrics", "nobody"))["status"] == 401

            assert await left_by(TIMES, ask) < TIMES

    with asyncio.Runner(loop_factory=lambda: measured_loop(EventLoopLatency())) as runner:
        runner.run(play())
