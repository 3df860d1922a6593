"""Requests that no client sends by mistake: each gets a 4xx with a Status, from both servers."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from policy_sched.instance.http.delegated_auth import AlwaysAllow
from policy_sched.instance.http.endpoints import Endpoints
from policy_sched.instance.http.listener import Listener
from tests.embedded.apiserver.world import PODS, serving
from tests.instance.http.test_endpoints import Served

NUMBER = b"9" * 5000
POD = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},%s}'
NOWHERE = (
    b"%00",
    b"%ff",
    b"%ed%a0%80",
    b"%zz",
    b"..",
    b"\xed\xa0\x80",
    b"a" * 70_000,
    b"%2e%2e/%2e",
    b"[",
)
LINES = {
    **{f"{m.decode()} {t.decode()}": (m, t) for m in (b"OPTIONS", b"CONNECT", b"TRACE", b"FOO")
       for t in (b"*", b"/", b"localhost:80", b"http://localhost/nowhere", b"http://evil/x")},
    **{f"path {path[:12]!r}": (b"GET", b"/nowhere/" + path) for path in NOWHERE},
    **{f"explain {path[:12]!r}": (b"GET", b"/explain/default/" + path) for path in NOWHERE},
}  # fmt: skip
GET, POST = (m + b" / HTTP/1.1\r\nHost: localhost\r\n" for m in (b"GET", b"POST"))
BROKEN = {
    "a control character": GET + b"Authorization: Bearer S\x01\r\n\r\n",
    "a huge header": GET + b"X: " + b"y" * 300_000 + b"\r\n\r\n",
    "many headers": GET + b"X: y\r\n" * 5000 + b"\r\n",
    "two lengths": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nab",
    "a negative length": POST + b"Content-Length: -1\r\n\r\n",
    "length and chunks": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a TLS handshake": b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}
CHUNKS = tuple(size + b"\r\nabc\r\n0\r\n\r\n" for size in (b"zz", b"-5", b"f" * 17))
BODIES = (
    b"", b"null", b"[]", b"1", b"\xff\xfe", b"{", b'{"a":NaN}', b'{"a":Infinity}', NUMBER,
    b'{"kind":["Pod"],"metadata":{}}', b"[" * 100_000, b'{"a":' * 50_000, b"[" * 900 + b"]" * 900,
    POD % (b'"spec":{"priority":' + NUMBER + b"}"), POD % b'"spec":{"priority":1e400}',
    *(POD.replace(b'"x"', text) % b'"spec":{}' for text in (b'"\\ud800"', b'"\\u0000"')),
    b'{"kind":"Pod","kind":"Node"}', b"a: &a [*a]", b'!!int "+"', b"k8s\x00\x0a" + b"\xff" * 5,
)  # fmt: skip
TYPES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
PATCHES = ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")


@asynccontextmanager
async def servers(folder: Path) -> AsyncIterator[tuple[int, int]]:
    """Serve a cluster's API, and the endpoints of a scheduler; yield their ports."""
    endpoints = Endpoints(Served(folder).offered(), AlwaysAllow())
    async with (
        serving() as world,
        Listener(endpoints.handle, ("127.0.0.1", 0), None) as listener,
    ):
        yield world.server.address.port, listener.address[1]


async def answered(port: int, request: bytes) -> tuple[int, bytes]:
    """Send bytes; return the status of the answer and its body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(60):
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
            return int(head.split()[1]), await reader.readexactly(length)
    finally:
        writer.close()


def check(answer: tuple[int, bytes], what: str) -> None:
    """Check that an answer refuses with a Status."""
    status, body = answer
    assert 400 <= status < 500, (what, status, body)
    told = json.loads(body)
    assert (told["kind"], told["code"]) == ("Status", status), what


@pytest.mark.parametrize("which", [0, 1], ids=["api", "endpoints"])
def test_a_hostile_request_is_refused_with_a_status(
    which: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`OPTIONS *` and CONNECT were answered with 500 and a traceback in the log."""

    async def run() -> None:
        async with servers(tmp_path) as ports:
            port = ports[which]
            head = b" HTTP/1.1\r\nHost: localhost\r\n"
            for what, (method, target) in LINES.items():
                check(await answered(port, method + b" " + target + head + b"\r\n"), what)
            for what, request in BROKEN.items():
                check(await answered(port, request), what)

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert [record.getMessage() for record in caplog.records] == []


def test_a_hostile_body_is_refused_with_a_status(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In each encoding that objects and patches may have, and in chunks that are none."""

    async def run() -> None:
        async with servers(tmp_path) as (port, _):
            node = b"PATCH /api/v1/nodes/none"
            create = b"POST " + PODS.encode()
            kinds = [(create, patch) for patch in TYPES]
            kinds += [(node, f"application/{patch}") for patch in PATCHES]
            for line, kind in kinds:
                for body in BODIES:
                    head = f" HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
                    sized = f"Content-Length: {len(body)}\r\n\r\n"
                    request = line + head.encode() + sized.encode() + body
                    check(await answered(port, request), f"{kind} {body[:40]!r}")
            for chunk in CHUNKS:
                head = b" HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                check(await answered(port, create + head + chunk), repr(chunk[:40]))

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert [record.getMessage() for record in caplog.records] == []
