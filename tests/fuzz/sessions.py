"""What talks with a server that goes on: requests to a console.

One console is served for all inputs of a process, so what one of them breaks the next ones find.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from random import Random
from typing import Any, Final

from policy_sched.console import Server, serving
from tests.console.browsing import of_files
from tests.fuzz.corpus import POLICIES
from tests.fuzz.inputs import text
from tests.fuzz.mutations import SCALARS, damaged, hostile, mutated, text_of
from tests.fuzz.targets import BrokenRunError

PATHS: Final = (
    "/", "/pods", "/nodes", "/pods/shop/report", "/nodes/general-1", "/policies", "/timeline",
    "/policies/edit", "/experiments", "/assets/style.css", "/pods/default/%3Cscript%3E",
    "/timeline/at", "/nodes/%2e%2e", "//evil/", "/%00", "/pods/%ff/a", "/none", "*", "",
)  # fmt: skip
ACTIONS: Final = ("/policies/editor", "/policies/new", "/policies/patch")
NAMES: Final = (
    "q", "by", "state", "reason", "priority", "page", "colour", "expression", "label", "sort",
    "after", "top", "of", "file", "line", "seed", "retry", "until", "token", "namespace", "%00",
)  # fmt: skip
VALUES: Final = (
    "", "1", "-1", "99999999999", "9" * 400, "queue", "name", "%22%3E%3Cscript%3E", "%", "%ff",
    "%f0%9f%98%80", "node.podCount", "%28" * 200, "lists.range(99999)", "a=b", "x" * 3000,
    "1 / 0", "node.labels", "Unschedulable", "\u00e9",
)  # fmt: skip
BODY: Final = {
    "asked": "check", "path": "policy.yaml", "text": "kind: Policy", "line": 0, "character": 3,
    "name": "mine", "known": [], "edits": {"policy.yaml": "kind: Policy"}, "seeds": 1, "file": "",
}  # fmt: skip
HEADERS: Final = (
    "X: y", "Host: evil.example", "Host:", "Origin: null", "Content-Length: -1", "Expect: x",
    "Content-Length: 99999999999", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip",
    "Content-Encoding: deflate", "Content-Type: text/plain; charset=utf-7", "Cookie: =;;=\"",
    "Content-Type: ;;", "Upgrade: websocket", "Connection: upgrade", "Range: bytes=9-1",
    "If-Modified-Since: x", "Accept-Encoding: gzip;q=x", "Sec-Fetch-Site: cross-site", ": x",
    "A" * 9000 + ": b", "A: " + "b" * 9000, "\u00e9: \u00e9", "A: \x01", "Referer: \r\n x",
)  # fmt: skip
METHODS: Final = ("GET", "GET", "GET", "POST", "HEAD", "OPTIONS", "PUT", "TRACE", "PRI", "g\x01")
PATIENCE: Final = 60.0
"""Seconds until an answer; nothing takes that long."""


def console_request(random: Random) -> bytes:
    """Return the bytes of a request, in which ``@`` stands for the console's address."""
    pick = random.choice
    act = random.random() < 0.2
    query = "&".join(f"{pick(NAMES)}={pick(VALUES)}" for _ in range(random.randrange(4)))
    target = f"{pick(ACTIONS) if act else pick(PATHS)}{'?' * bool(query)}{query}"
    method = "POST" if act and random.random() < 0.9 else pick(METHODS)
    body = _body(random) if method == "POST" else b""
    headers = ["Host: @", "Connection: close", "Cookie: $"]
    headers += ["Origin: http://@", f"Content-Length: {len(body)}"] if method == "POST" else []
    if random.random() < 0.4:
        headers.insert(random.randrange(len(headers) + 1), pick(HEADERS))
    head = "\r\n".join([f"{method} {target} {pick(('HTTP/1.1',) * 9 + ('HTTP/9', ''))}", *headers])
    if random.random() < 0.1:
        head = damaged(head, random)
    return head.encode("utf-8", "surrogatepass") + b"\r\n\r\n" + body


def _body(random: Random) -> bytes:
    if random.random() < 0.1:
        return random.randbytes(random.randrange(200))
    found: Any = {**BODY, "asked": random.choice(("check", "complete", "hover", "x"))}
    if random.random() < 0.3:
        found["text"] = text("policy", random)[:20_000]
        found["line"], found["character"] = random.randrange(40), random.randrange(60)
    if random.random() < 0.5:
        found[random.choice(sorted(found))] = random.choice((hostile(random), *SCALARS[:12]))
    if random.random() < 0.3:
        found = mutated(found, random, 2)
    return text_of(found).encode("utf-8", "surrogatepass")[: 5 << 20]


class Consoles:
    """One console over the example cluster, served from the first request on."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None
        self._stack = AsyncExitStack()
        self._server: Server | None = None
        self._logged: list[str] = []

    def send(self, request: bytes) -> None:
        """Send a request. Raises BrokenRunError for an answer that is a mistake of ours."""
        if self._runner is None:
            self._runner = asyncio.Runner()
            logging.getLogger("policy_sched.console").addHandler(_Collects(self._logged))
            self._runner.run(self._begin())
        answer = self._runner.run(self._asked(request))
        shown = request[:3000]
        if self._logged:
            raise BrokenRunError(f"{self._logged.pop()} for {shown!r}")
        if b"Traceback" in answer or answer[9:12] in (b"500", b"501"):
            raise BrokenRunError(f"{answer[:2000]!r} for {shown!r}")

    def close(self) -> None:
        """Stop serving."""
        if self._runner is not None:
            self._runner.run(self._stack.aclose())
            self._runner.close()
            self._runner = None

    async def _begin(self) -> None:
        served = serving(of_files(), (str(POLICIES),))
        self._server = await self._stack.enter_async_context(served)

    async def _asked(self, request: bytes) -> bytes:
        assert self._server is not None, "it began"
        security = self._server.security
        place = f"{security.host}:{security.port}"
        cookie = f"{security.cookie}={security.session}"
        request = request.replace(b"$", cookie.encode(), 1).replace(b"@", place.encode())
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection(security.host, security.port)
            try:
                writer.write(request)
                writer.write_eof()
                return await reader.read(1 << 20)
            except ConnectionError:
                return b""
            finally:
                writer.close()


class _Collects(logging.Handler):
    """Keeps what is logged, with what was raised."""

    def __init__(self, logged: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._logged = logged

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        self._logged.append(logging.Formatter().format(record)[-4000:])


CONSOLES: Final = Consoles()
