"""Connections: how many, how long they may say nothing, and how long they may read nothing."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

import pytest
from aiohttp import web

from policy_sched.apiserver import answering
from policy_sched.apiserver.connections import (
    HANDSHAKE_SECONDS,
    HEADER_BYTES,
    SILENT_SECONDS,
    Connections,
    Site,
)
from policy_sched.apiserver.fairness import LATE_SECONDS, Fairness, Places
from policy_sched.apiserver.listing import PIECE, PIECE_BYTES, bounded
from policy_sched.apiserver.security.users import UNSECURED, User
from policy_sched.client.embedded.api_error import ApiError
from tests.apiserver.world import PODS, serving

Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _answer(request: web.BaseRequest) -> web.StreamResponse:
    """Write until the reader has gone, or say how long the body is."""
    if request.path != "/stream":
        return web.Response(text=str(len(await request.read())))
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"x" * 100_000)


@asynccontextmanager
async def listening(most: int = 3) -> AsyncIterator[tuple[Connections, int]]:
    """Listen on loopback."""
    connections = Connections(_answer, most)
    runner = web.ServerRunner(connections, shutdown_timeout=0.1)
    await runner.setup()
    await Site(runner, "127.0.0.1", 0).start()
    try:
        yield connections, runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def ended(reader: asyncio.StreamReader) -> bool:
    """Read to the end, whichever way it ends."""
    try:
        while await reader.read(2**20):
            pass
    except ConnectionError:
        pass
    return True


async def ask(pair: Pair, path: str = "/", *headers: str, body: bytes = b"") -> bytes:
    """Send a request and return the first line of the answer."""
    reader, writer = pair
    head = "\r\n".join((f"POST {path} HTTP/1.1", "Host: localhost", *headers))
    writer.write(head.encode() + b"\r\n\r\n" + body)
    return await reader.readline()


def test_there_are_only_so_many_connections() -> None:
    """The next one is hung up on, until another has gone."""

    async def run() -> None:
        async with listening(most=2) as (_, port):
            pairs = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
            for pair in pairs:
                assert b"200" in await ask(pair)
            third = await asyncio.open_connection("127.0.0.1", port)
            assert await ended(third[0])
            pairs[0][1].close()
            await pairs[0][1].wait_closed()
            while True:
                again = await asyncio.open_connection("127.0.0.1", port)
                try:
                    line = await ask(again)
                except ConnectionError:
                    line = b""
                if line:
                    break
                again[1].close()
            for _, writer in (pairs[1], third, again):
                writer.close()

    asyncio.run(run())


@pytest.mark.parametrize("turns", range(5))
def test_who_connects_while_it_ends_is_hung_up_on(turns: int) -> None:
    """However far a connection has come when the server ends, nobody is left to answer it."""

    async def play() -> None:
        async with listening() as (_connections, port):
            client = socket.create_connection(("127.0.0.1", port))
            for _ in range(turns):
                await asyncio.sleep(0)
        with client:
            reader, writer = await asyncio.open_connection(sock=client)
            async with asyncio.timeout(60):
                assert await ended(reader)
            writer.close()

    asyncio.run(play())


def test_many_that_come_at_once_are_counted_as_well() -> None:
    """They are accepted in one turn, before the first of them is known."""

    async def run() -> None:
        async with asyncio.timeout(60), listening(most=2) as (connections, port):
            several = (asyncio.open_connection("127.0.0.1", port) for _ in range(20))
            pairs = await asyncio.gather(*several)
            over = [asyncio.create_task(ended(reader)) for reader, _ in pairs]
            for task in itertools.islice(asyncio.as_completed(over), 18):
                assert await task
            assert len(connections._transports) == 2
            for task in over:
                task.cancel()
            for _, writer in pairs:
                writer.close()

    asyncio.run(run())


def test_a_client_that_says_nothing_is_cut() -> None:
    """One whose first request is not complete, too; not one that has asked something."""

    async def run() -> None:
        async with listening() as (connections, port):
            silent = await asyncio.open_connection("127.0.0.1", port)
            slow = await asyncio.open_connection("127.0.0.1", port)
            slow[1].write(b"GET / HTTP/1.1\r\nHost: ")
            good = await asyncio.open_connection("127.0.0.1", port)
            assert b"200" in await ask(good)
            now = asyncio.get_running_loop().time()
            assert connections.sweep(now) == 0
            assert connections.sweep(now + SILENT_SECONDS) == 2
            assert await ended(silent[0])
            assert await ended(slow[0])
            assert connections.sweep(now + SILENT_SECONDS) == 0
            for _, writer in (silent, slow, good):
                writer.close()

    asyncio.run(run())


def test_a_client_that_reads_nothing_is_cut() -> None:
    """After some looks; one that reads goes on."""

    async def run() -> None:
        async with listening() as (connections, port):
            stuck = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            reading = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            for pair in (stuck, reading):
                assert b"200" in await ask(pair, "/stream")
            cut = 0
            for _ in range(50):
                await reading[0].readexactly(1_000_000)
                cut += connections.sweep(0.0)
                if cut:
                    break
            assert cut == 1
            await reading[0].readexactly(1_000_000)
            for _, writer in (stuck, reading):
                writer.close()

    asyncio.run(run())


def test_clients_may_wait_for_leave_to_send_a_body() -> None:
    """As curl does with long ones."""

    async def run() -> None:
        async with listening() as (_, port):
            pair = await asyncio.open_connection("127.0.0.1", port)
            line = await ask(pair, "/", "Expect: 100-continue", "Content-Length: 3")
            assert line == b"HTTP/1.1 100 Continue\r\n"
            pair[1].write(b"abc")
            await pair[0].readline()
            assert b"200" in await pair[0].readline()
            pair[1].close()

    asyncio.run(run())


@pytest.mark.parametrize("path", ["/" + "x" * HEADER_BYTES, "/"])
def test_long_lines_and_headers_are_refused(path: str) -> None:
    """Before anything is done with them."""

    async def run() -> None:
        async with serving() as world:
            pair = await asyncio.open_connection("127.0.0.1", world.server.address.port)
            assert b"400" in await ask(pair, path, f"X: {'y' * 2 * HEADER_BYTES}")
            pair[1].close()

    asyncio.run(run())


def test_a_body_that_does_not_arrive_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that is compressed is not unpacked."""

    async def run() -> None:
        async with serving() as world:
            pair = await asyncio.open_connection("127.0.0.1", world.server.address.port)
            headers = ("Content-Type: application/json", "Content-Length: 100")
            with monkeypatch.context() as soon:
                soon.setattr(answering, "BODY_SECONDS", 0.05)
                assert b"504" in await ask(pair, PODS, *headers, body=b"{")
            pair[1].close()
            packed = gzip.compress(b" " * 10_000_000)
            pair = await asyncio.open_connection("127.0.0.1", world.server.address.port)
            headers = ("Content-Encoding: gzip", f"Content-Length: {len(packed)}")
            assert b"400" in await ask(pair, PODS, *headers, body=packed)
            pair[1].close()

    asyncio.run(run())


def test_pieces_are_bounded_in_number_and_in_bytes() -> None:
    """And nothing is lost."""
    parts = [b"x"] * (PIECE + 1)
    assert [len(piece) for piece in bounded(parts)] == [PIECE, 1]
    long = [b"y" * (PIECE_BYTES // 2)] * 5
    assert [len(piece) // (PIECE_BYTES // 2) for piece in bounded(long)] == [2, 2, 1]
    assert list(bounded([], b",")) == []


def test_who_asks_for_most_waits_when_there_is_too_much_to_do() -> None:
    """Neither others, nor masters, nor anybody while the server keeps up, or is asked by one."""
    fairness, greedy, modest = Fairness(), User("greedy"), User("modest")
    fairness.note(greedy, 0.9)
    fairness.tick(LATE_SECONDS)
    assert not fairness.refuses(greedy)
    fairness.note(modest, 0.1)
    fairness.note(UNSECURED, 0.1)
    assert fairness.refuses(greedy)
    assert not fairness.refuses(modest)
    assert not fairness.refuses(UNSECURED)
    fairness.tick(0.0)
    assert not fairness.refuses(greedy)


def test_what_users_had_is_forgotten() -> None:
    """Half of it every second."""
    fairness, greedy = Fairness(), User("greedy")
    fairness.note(greedy, 100.0)
    for _ in range(120):
        fairness.tick(0.0)
    fairness.note(User("modest"), 0.1)
    fairness.tick(1.0)
    assert not fairness.refuses(greedy)


def test_a_busy_server_says_when_to_come_back() -> None:
    """With the API server's words and header; the ticks run while it serves."""

    async def run() -> None:
        async with serving() as world:
            fairness = world.server._fairness
            fairness.refuses = lambda user: True  # type: ignore[method-assign]
            async with world.session.get(world.url + "/api") as answer:
                assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
                assert (await answer.text()).startswith("Too many requests")

    asyncio.run(run())


def test_watches_leave_room_for_other_requests() -> None:
    """Nobody has all of them, and what has ended gives its place back."""
    places, jane = Places(most=3, of_one=2), User("jane")
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(places.taken(jane))
        with pytest.raises(ApiError) as refused, places.taken(jane):
            pass
        assert (refused.value.code, refused.value.reason) == (429, "TooManyRequests")
        with places.taken(User("joe")), pytest.raises(ApiError), places.taken(UNSECURED):
            pass
        with places.taken(UNSECURED):
            pass
    with places.taken(jane), places.taken(jane):
        pass


def test_the_oldest_that_is_silent_makes_room() -> None:
    """So that who asks for something is not kept out by those who do not."""

    async def run() -> None:
        async with listening(most=2) as (connections, port):
            good = await asyncio.open_connection("127.0.0.1", port)
            assert b"200" in await ask(good)
            silent = await asyncio.open_connection("127.0.0.1", port)
            while len(connections._transports) < 2:
                await asyncio.sleep(0)
            late = await asyncio.open_connection("127.0.0.1", port)
            assert b"200" in await ask(late)
            assert await ended(silent[0])
            for _, writer in (good, silent, late):
                writer.close()

    asyncio.run(run())


def test_unfinished_handshakes_are_counted_and_forgotten() -> None:
    """Who connects and says nothing of TLS takes a place for some seconds, no longer."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with listening(most=2) as (connections, port):
            good = await asyncio.open_connection("127.0.0.1", port)
            assert b"200" in await ask(good)
            begun = connections()
            assert not isinstance(connections(), type(begun))
            for handler in list(connections._greeting):
                connections._greeting[handler] = loop.time() - HANDSHAKE_SECONDS
            assert isinstance(connections(), type(begun))
            good[1].close()

    asyncio.run(run())
