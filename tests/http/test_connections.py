"""Connections: which give way, and how long they may say nothing, or read nothing."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from policy_sched.http.connections import Bounds, Connections, Site, recognized

Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]
SILENT_SECONDS = 30.0
KNOWN = "Authorization: Bearer known"


async def _handle(request: web.BaseRequest) -> web.StreamResponse:
    """Write until the reader has gone, or say how long the body is."""
    if "Authorization" in request.headers:
        recognized(request)
    if request.path != "/stream":
        return web.Response(text=str(len(await request.read())))
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"x" * 100_000)


@asynccontextmanager
async def listening(most: int = 3) -> AsyncIterator[tuple[Connections, int]]:
    """Listen on loopback."""
    bounds = Bounds(most, 8192, 64, 1 << 20, SILENT_SECONDS, 300.0)
    connections = Connections(_handle, bounds)
    connections.most = most
    async with Site(connections, ("127.0.0.1", 0), None, grace=0.1) as site:
        yield connections, site.port


async def connected(port: int) -> Pair:
    """Connect."""
    return await asyncio.open_connection("127.0.0.1", port)


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


def test_idle_anonymous_clients_are_closed_first() -> None:
    """An administrator was locked out by clients that had asked once, and then did nothing."""

    async def run() -> None:
        async with listening(most=3) as (_, port):
            authenticated = await connected(port)
            assert b"200" in await ask(authenticated, "/", KNOWN)
            silent, asked = await connected(port), await connected(port)
            assert b"200" in await ask(asked)
            late = await connected(port)
            assert b"200" in await ask(late)
            assert await ended(silent[0])
            later = await connected(port)
            assert b"200" in await ask(later, "/", KNOWN)
            assert await ended(asked[0])
            for _, writer in (authenticated, silent, asked, late, later):
                writer.close()

    asyncio.run(run())


def test_authenticated_clients_are_kept() -> None:
    """Of known clients the one that has been idle for longest gives way; none that is served."""

    async def run() -> None:
        async with listening(most=2) as (connections, port):
            served, idle = await connected(port), await connected(port)
            assert b"200" in await ask(served, "/stream", KNOWN)
            assert b"200" in await ask(idle, "/", KNOWN)
            other = await connected(port)
            assert b"200" in await ask(other, "/stream", KNOWN)
            assert await ended(idle[0])
            refused = await connected(port)
            assert await ended(refused[0])
            assert sum(item.busy for item in connections.open) == 2
            for _, writer in (served, idle, other, refused):
                writer.close()

    asyncio.run(run())


def test_an_unknown_client_that_is_served_gives_way_to_others() -> None:
    """It may be slow on purpose."""

    async def run() -> None:
        async with listening(most=2) as (connections, port):
            stranger, authenticated = await connected(port), await connected(port)
            assert b"200" in await ask(stranger, "/stream")
            assert b"200" in await ask(authenticated, "/", KNOWN)
            other = await connected(port)
            assert b"200" in await ask(other, "/", KNOWN)
            assert await ended(stranger[0])
            assert [connection.authenticated for connection in connections.open] == [True, True]
            for _, writer in (stranger, authenticated, other):
                writer.close()

    asyncio.run(run())


def test_malformed_requests_get_a_status_without_their_content(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """`Authorization: Bearer TOKEN\\x01` put the token into the log."""

    async def run() -> bytes:
        async with listening() as (_, port):
            reader, writer = await connected(port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer SECRET\x01\r\n\r\n")
            answer = await reader.read()
            writer.close()
            return answer

    answer = asyncio.run(run())
    assert answer.splitlines()[0].split()[1] == b"400"
    assert b'"kind":"Status"' in answer
    assert b"SECRET" not in answer
    assert "SECRET" not in caplog.text


@pytest.mark.parametrize("turns", range(5))
def test_connections_during_shutdown_are_closed(turns: int) -> None:
    """However far a connection has come when the server ends, it is closed."""

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


def test_simultaneous_connections_are_counted() -> None:
    """They are accepted in one turn, before the first of them is known."""

    async def run() -> None:
        async with asyncio.timeout(60), listening(most=2) as (connections, port):
            several = (asyncio.open_connection("127.0.0.1", port) for _ in range(20))
            pairs = await asyncio.gather(*several)
            over = [asyncio.create_task(ended(reader)) for reader, _ in pairs]
            for task in itertools.islice(asyncio.as_completed(over), 18):
                assert await task
            assert len(connections.open) == 2
            for task in over:
                task.cancel()
            for _, writer in pairs:
                writer.close()

    asyncio.run(run())


def test_a_silent_client_is_disconnected() -> None:
    """One whose first request is not complete, too; not one that has asked something."""

    async def run() -> None:
        async with listening() as (connections, port):
            silent = await asyncio.open_connection("127.0.0.1", port)
            slow = await asyncio.open_connection("127.0.0.1", port)
            slow[1].write(b"GET / HTTP/1.1\r\nHost: ")
            good = await asyncio.open_connection("127.0.0.1", port)
            assert b"200" in await ask(good, "/", KNOWN)
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


def test_another_expectation_is_refused_in_our_words() -> None:
    """The console answered with those of its library, before it asked who asks."""

    async def run() -> None:
        async with listening() as (_, port):
            pair = await asyncio.open_connection("127.0.0.1", port)
            assert b" 417 " in await ask(pair, "/", "Expect: nix")
            said = await pair[0].readuntil(b'"code":417')
            pair[1].close()
            assert b'"message":"no expectation but 100-continue is met"' in said

    asyncio.run(run())
