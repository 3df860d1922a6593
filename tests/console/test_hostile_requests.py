"""Requests that no browser sends: refused in a few words, with the headers of every response."""

from __future__ import annotations

import asyncio
import itertools
import logging

import pytest

from policy_sched.console import ConsoleServer
from policy_sched.console.security import HEADERS
from policy_sched.console.server import BOUNDS
from tests.console.browsing import Browser, browsing, of_files
from tests.http.test_connections import ended
from tests.http.test_hostile_requests import BROKEN, CHUNKS, LINES

SILENT = 1500
JSON = b"Content-Type: application/json\r\n"
BODIES = {
    "a charset that is none": (b"Content-Type: application/json; charset=klingon\r\n", b"{}", 415),
    "a charset of surrogates": (b'Content-Type: a/b; charset="\xed\xa0\x80"\r\n', b"{}", 415),
    "UTF-16": (b"Content-Type: application/json; charset=utf-16\r\n", b"\xff\xfe{\x00}\x00", 415),
    "a type that is none": (b"Content-Type: \x80;;=;charset\r\n", b"[]", 400),
    "no UTF-8": (JSON, b'{"path": "\xff"}', 400),
    "a surrogate": (JSON, b'{"asked": "check", "path": "\\ud800", "text": "\\udfff"}', 200),
    "a zero": (JSON, b'{"asked": "check", "path": "a\\u0000b", "text": ""}', 200),
    "deep lists": (JSON, b"[" * 100_000, 400),
    "a long number": (JSON, b'{"line": ' + b"9" * 5000 + b"}", 400),
    "a compressed body": (JSON + b"Content-Encoding: gzip\r\n", b"\x1f\x8b\x08", 415),
    "a long body": (JSON, b" " * (BOUNDS.body + 1), 413),
}


def head(server: ConsoleServer, method: str = "POST", path: str = "/policies/editor") -> bytes:
    """Return the head of a request of the browser, without its end."""
    security = server.security
    own = server.address.rstrip("/")
    return (
        f"{method} {path} HTTP/1.1\r\nHost: {own.removeprefix('http://')}\r\nOrigin: {own}\r\n"
        f"Cookie: {security.cookie}={security.session}\r\n"
    ).encode()


async def connected(server: ConsoleServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a console."""
    return await asyncio.open_connection(server.security.host, server.security.port)


async def answered(
    server: ConsoleServer, request: bytes, *, cut: bool = False
) -> tuple[int, str, str]:
    """Send bytes; return status, head and text of the response. ``cut``: and send no more."""
    reader, writer = await connected(server)
    try:
        async with asyncio.timeout(60):
            writer.write(request)
            if cut:
                writer.write_eof()
            first = await reader.readuntil(b"\r\n\r\n")
            length = int(first.lower().partition(b"content-length:")[2].split()[0])
            text = (await reader.readexactly(length)).decode()
            return int(first.split()[1]), first.decode("latin-1"), text
    finally:
        writer.close()


def check(answer: tuple[int, str, str], what: str) -> None:
    """Check that an answer refuses in one line, with the headers of every response."""
    status, first, text = answer
    assert 400 <= status < 500, (what, status, text)
    assert text.startswith(f"{status}: "), (what, text)
    assert text.count("\n") == 1, (what, text)
    for name, value in HEADERS.items():
        assert f"{name}: {value}\r\n" in first, (what, name)


def test_what_is_no_request_is_refused_in_words(caplog: pytest.LogCaptureFixture) -> None:
    """The library's text repeated bytes of the request, and its log had a traceback of each."""

    async def act(browser: Browser) -> None:
        host = b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for what, (method, target) in LINES.items():
            check(await answered(browser.server, method + b" " + target + host), what)
        for what, request in BROKEN.items():
            check(await answered(browser.server, request), what)

    with caplog.at_level(logging.WARNING):
        browsing(of_files(), act)
    assert [record.getMessage() for record in caplog.records] == []


def test_bodies_are_whole_and_utf_8(caplog: pytest.LogCaptureFixture) -> None:
    """`charset=klingon` and a body that was cut made 500 and a traceback."""

    async def act(browser: Browser) -> None:
        server = browser.server
        for what, (headers, body, status) in BODIES.items():
            sized = b"Content-Length: %d\r\n\r\n" % len(body)
            got, _, text = await answered(server, head(server) + headers + sized + body)
            assert got == status, (what, got, text)
            assert status == 200 or "<" not in text, (what, text)
        for chunk in CHUNKS:
            encoding = JSON + b"Transfer-Encoding: chunked\r\n\r\n"
            got, _, _ = await answered(server, head(server) + encoding + chunk)
            assert got == 400, chunk[:40]
        reader, writer = await connected(server)
        writer.write(head(server) + JSON + b"Content-Length: 9\r\n\r\n{}")
        await writer.drain()
        writer.close()
        assert (await browser.opened()).server is server
        assert await reader.read() == b""

    with caplog.at_level(logging.WARNING):
        browsing(of_files(), act)
    assert [record.getMessage() for record in caplog.records] == []


def test_mistakes_of_a_script_are_told_in_text(caplog: pytest.LogCaptureFixture) -> None:
    """The editor showed a whole page of HTML as the message of a refusal, which said no reason."""

    async def act(browser: Browser) -> None:
        await browser.opened()
        assert await browser.post("/policies/editor", []) == (400, "the body is not an object")
        assert await browser.post("/no-such-page", {}) == (404, "there is no such page")
        status, text, _ = await browser.get("/policies/editor")
        assert (status, "GET is not what this page takes" in text) == (405, True)

    with caplog.at_level(logging.WARNING):
        browsing(of_files(), act)
    assert [record.getMessage() for record in caplog.records] == []


def test_silent_connections_leave_the_browser_its_own() -> None:
    """1,500 connections that said nothing all stayed, until the process had no file left."""

    async def act(browser: Browser) -> None:
        await browser.opened()
        server = browser.server
        reader, writer = await connected(server)
        ask = head(server, "GET", "/nodes") + b"\r\n"
        writer.write(ask)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        silent = []
        for _ in range(SILENT // 100):
            several = [connected(server) for _ in range(100)]
            silent += await asyncio.gather(*several)
        ends = [asyncio.create_task(ended(item)) for item, _ in silent]
        for end in itertools.islice(asyncio.as_completed(ends), SILENT - BOUNDS.connections):
            assert await end
        assert (await browser.get("/"))[0] == 200
        writer.write(ask)  # the connection that has asked with the cookie is still there
        assert b"</html>" in await reader.readuntil(b"</html>")
        for task in ends:
            task.cancel()
        for _, item in (*silent, (reader, writer)):
            item.close()

    browsing(of_files(), act)
