"""Requests that are too long or too slow, and users that ask for too much."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from policy_sched.client.apimachinery.resources import ApiError
from policy_sched.embedded.apiserver.endpoints import server, server as answering
from policy_sched.embedded.apiserver.endpoints.list import PIECE, PIECE_BYTES, bounded
from policy_sched.embedded.apiserver.endpoints.watch import WatchSlots
from policy_sched.embedded.apiserver.request.request_info import UNSECURED, UserInfo
from policy_sched.http.access import RBAC, Access
from policy_sched.instance.http.listener import self_signed
from tests.embedded.apiserver.world import PODS, serving

HEADER_BYTES = server.BOUNDS.header
Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def ask(pair: Pair, path: str = "/", *headers: str, body: bytes = b"") -> bytes:
    """Send a request and return the first line of the answer."""
    reader, writer = pair
    head = "\r\n".join((f"POST {path} HTTP/1.1", "Host: localhost", *headers))
    writer.write(head.encode() + b"\r\n\r\n" + body)
    return await reader.readline()


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


def test_watches_leave_room_for_other_requests() -> None:
    """No user has all of them, and a watch that ends gives its place back."""
    slots, jane = WatchSlots(most=3, of_one=2), UserInfo("jane")
    with ExitStack() as held:
        for _ in range(2):
            held.enter_context(slots.taken(jane))
        with pytest.raises(ApiError) as refused, slots.taken(jane):
            pass
        assert (refused.value.code, refused.value.reason) == (429, "TooManyRequests")
        with slots.taken(UserInfo("joe")), pytest.raises(ApiError), slots.taken(UNSECURED):
            pass
        with slots.taken(UNSECURED):
            pass
    with slots.taken(jane), slots.taken(jane):
        pass


def test_idle_anonymous_clients_do_not_lock_the_admin_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over TLS, more of them than there are places; each has asked for its health and stays."""
    monkeypatch.setattr(server, "BOUNDS", replace(server.BOUNDS, connections=20))
    certificate, key = self_signed(["127.0.0.1"], time.time_ns())
    files = [tmp_path / name for name in ("tls.crt", "tls.key", "tokens.csv")]
    for file, content in zip(files, (certificate, key, b"t,admin,1,system:masters\n"), strict=True):
        file.write_bytes(content)
    believed = ssl.create_default_context(cadata=certificate.decode())

    async def run() -> None:
        access = Access(*map(str, files), mode=RBAC)
        async with serving(access) as world:
            address, pairs = ("127.0.0.1", world.server.address.port), []
            for number in range(30):
                pair = await asyncio.open_connection(*address, ssl=believed)
                pairs.append(pair)
                if number % 2:
                    assert b"403" in await ask(pair, "/healthz")
            admin = await asyncio.open_connection(*address, ssl=believed)
            head = ("Authorization: Bearer t", "Content-Length: 0")
            assert b"400" in await ask(admin, PODS, *head)
            pairs += [await asyncio.open_connection(*address, ssl=believed) for _ in range(30)]
            await admin[0].readuntil(b'"code":400}\n')
            assert b"400" in await ask(admin, PODS, *head)
            for _, writer in (*pairs, admin):
                writer.close()

    asyncio.run(run())
