"""A listening socket: its certificate, and slow or broken clients."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any

import aiohttp
import aiohttp.web
import pytest

from policy_sched.errors import ClusterError
from policy_sched.instance.http import listener as listening
from policy_sched.instance.http.listener import Listener, self_signed, sent, server_context

LIMIT = 60.0
"""Seconds after which a test hangs."""


def run_scenario(scenario: Callable[[], Any]) -> None:
    """Run a test."""
    asyncio.run(scenario())


async def _hello(_request: aiohttp.web.BaseRequest) -> aiohttp.web.StreamResponse:
    return aiohttp.web.Response(text="hello")


def test_a_certificate_of_our_own_is_a_certificate() -> None:
    """A client that trusts it connects by any of its names; older TLS is rejected."""
    certificate, key = self_signed(["here.example", "localhost", "127.0.0.1"], time.time_ns())
    believed = ssl.create_default_context(cadata=certificate.decode())

    async def scenario() -> None:
        context = server_context(certificate, key)
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
        async with (
            Listener(_hello, ("127.0.0.1", 0), context) as listener,
            aiohttp.ClientSession() as client,
        ):
            assert listener.url.startswith("https://127.0.0.1:")
            async with client.get(listener.url, ssl=believed) as answer:
                assert await answer.text() == "hello"
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await client.get(listener.url)

    run_scenario(scenario)


def test_files_that_are_no_certificate_are_refused() -> None:
    """Before anything listens."""
    with pytest.raises(ClusterError, match="cannot be used"):
        server_context(b"nonsense", b"nonsense")


def test_an_address_that_is_taken_is_refused() -> None:
    """With a message."""

    async def scenario() -> None:
        async with Listener(_hello, ("127.0.0.1", 0), None) as first:
            with pytest.raises(ClusterError, match=r"cannot listen on 127\.0\.0\.1:"):
                async with Listener(_hello, first.address, None):
                    pass

    run_scenario(scenario)


def test_slow_clients_are_closed_and_others_served() -> None:
    """An incomplete request is closed; meanwhile others can connect."""

    async def scenario() -> None:
        async with Listener(_hello, ("127.0.0.1", 0), None, most=4, kept=1.0) as listener:
            host, port = listener.address
            slow = [await asyncio.open_connection(host, port) for _ in range(6)]
            for _, writer in slow:
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
            async with aiohttp.ClientSession() as client:
                async with client.get(listener.url) as answer:
                    assert await answer.text() == "hello"
                ended = [asyncio.create_task(_drip(*pair)) for pair in slow]
                await asyncio.wait_for(asyncio.gather(*ended), LIMIT)
                async with client.get(listener.url) as answer:
                    assert answer.status == 200

    run_scenario(scenario)


@pytest.mark.parametrize("turns", range(5))
def test_connections_during_shutdown_are_closed(turns: int) -> None:
    """In whatever state the connection is by then."""

    async def scenario() -> None:
        async with Listener(_hello, ("127.0.0.1", 0), None) as listener:
            client = socket.create_connection(listener.address)
            for _ in range(turns):
                await asyncio.sleep(0)
        with client:
            reader, writer = await asyncio.open_connection(sock=client)
            async with asyncio.timeout(LIMIT):
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
            writer.close()

    run_scenario(scenario)


def test_a_client_that_does_not_take_its_answer_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A response that is not read is not kept for ever."""
    monkeypatch.setattr(listening, "TAKEN", 0.1)
    ended = asyncio.Event()

    async def much(request: aiohttp.web.BaseRequest) -> aiohttp.web.StreamResponse:
        response = await sent(request, aiohttp.web.Response(body=bytes(64 << 20)))
        ended.set()
        return response

    async def scenario() -> None:
        async with Listener(much, ("127.0.0.1", 0), None) as listener:
            reader, writer = await asyncio.open_connection(*listener.address, limit=1024)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await asyncio.wait_for(ended.wait(), LIMIT)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await asyncio.wait_for(reader.readexactly(64 << 20), LIMIT)
            writer.close()

    run_scenario(scenario)


async def _drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send a byte now and then, until the connection is closed."""
    try:
        while not reader.at_eof():
            writer.write(b"x")
            await writer.drain()
            try:
                await asyncio.wait_for(reader.read(1), 0.05)
            except TimeoutError:
                continue
    except ConnectionError:
        pass
    finally:
        writer.close()


@pytest.mark.parametrize(
    "request_text",
    [
        b"GET /" + 9000 * b"x" + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + 9000 * b"x" + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + 100 * b"X: y\r\n" + b"\r\n",
        b"nonsense\r\n\r\n",
    ],
)
def test_what_is_too_long_or_no_request_is_refused(request_text: bytes) -> None:
    """With 400, and the next request is answered."""

    async def scenario() -> None:
        async with Listener(_hello, ("127.0.0.1", 0), None) as listener:
            reader, writer = await asyncio.open_connection(*listener.address)
            writer.write(request_text)
            line = await asyncio.wait_for(reader.readline(), LIMIT)
            assert line.split()[1] == b"400"
            writer.close()
            async with aiohttp.ClientSession() as client, client.get(listener.url) as answer:
                assert answer.status == 200

    run_scenario(scenario)
