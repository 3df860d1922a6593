"""What talks with a server that goes on: requests to a console, a session of a language server.

One console is served for all inputs of a process, so what one of them breaks the next ones find.
"""

from __future__ import annotations

import asyncio
import io
import logging
from contextlib import AsyncExitStack, redirect_stderr
from random import Random
from typing import Any, Final

from policy_sched.console import ConsoleServer, serving
from policy_sched.lsp.server import make_server
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
        self._server: ConsoleServer | None = None
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


# Frames of the language server.

LSP: Final = "lsp"
URI: Final = "file:///nowhere/policy.yaml"
METHODS_OF_LSP: Final = (
    "initialize", "initialized", "shutdown", "exit", "textDocument/didOpen",
    "textDocument/didChange", "textDocument/didClose", "textDocument/completion",
    "textDocument/hover", "textDocument/definition", "textDocument/codeAction",
    "textDocument/formatting", "$/cancelRequest", "$/setTrace", "workspace/executeCommand",
    "workspace/didChangeWorkspaceFolders", "notebookDocument/didOpen", "none", "",
    "textDocument/didSave", "workspace/symbol", "window/workDoneProgress/cancel",
)  # fmt: skip


def frames(random: Random) -> bytes:
    """Return what a client sends: frames in some order, a few of them odd, and perhaps a cut."""
    start = {"capabilities": {}, "processId": None, "rootUri": None}
    sent = [_frame(_message("initialize", start, 0), random)] if random.random() < 0.9 else []
    opened = {"uri": URI, "languageId": "yaml", "version": 1, "text": _source(random)}
    sent.append(_frame(_message("textDocument/didOpen", {"textDocument": opened}), random))
    for number in range(random.randint(1, 6)):
        method = random.choice(METHODS_OF_LSP)
        message = _message(method, _params(random), number if random.random() < 0.7 else None)
        if random.random() < 0.3:
            message = mutated(message, random, 2)
        sent.append(_frame(message, random))
    whole = b"".join(sent)
    return whole[: random.randrange(len(whole))] if random.random() < 0.1 else whole


def _source(random: Random) -> str:
    made = text(random.choice(("policy", "policy", "test", "experiment")), random)
    return made[:20_000].encode("utf-8", "replace").decode()


def _message(method: str, params: Any, number: int | None = None) -> dict[str, Any]:
    asked = {} if number is None else {"id": number}
    return {"jsonrpc": "2.0", **asked, "method": method, "params": params}


def _params(random: Random) -> Any:
    pick = random.choice
    numbers = (0, 1, 3, 7, 80, 2**31 - 1, 2**31, 2**64, -1)
    at = {"line": pick(numbers), "character": pick(numbers)}
    uri = pick((URI, URI, URI, "file:///dev/zero", "untitled:x", "", "http://[", "file://%ff"))
    place = {"start": at, "end": {"line": pick(numbers), "character": pick(numbers)}}
    document = {"uri": uri, "version": 2}
    return {
        "textDocument": document,
        "position": at,
        "range": place,
        "contentChanges": [{"range": place, "text": pick(("", "x: [", "\n"))}, {"text": "a: b"}][
            : pick((1, 2))
        ],
        "context": {"diagnostics": []},
        "options": {"tabSize": 2, "insertSpaces": True},
        "id": pick((1, "x", None)),
        "value": pick(("off", "verbose", "x")),
        "query": "x",
    }  # fmt: skip


def _frame(message: Any, random: Random) -> bytes:
    body = text_of(message).encode("utf-8", "surrogatepass")
    odd = random.random()
    if odd < 0.05:
        body = random.randbytes(random.randrange(50))
    length = random.choice((-1, "x", 10**12, "9" * 5000, 0, "")) if odd > 0.97 else len(body)
    head = f"Content-Length: {length}\r\n"
    if 0.05 < odd < 0.1:
        head = random.choice(("", "X: y\r\n", "x" * 9000, "\r\n", "\x00\r\n")) + head
    return head.encode() + b"\r\n" + body


def language_server(sent: bytes) -> None:
    """Serve a client. Raises BrokenRunError for an answer that is a mistake of ours."""
    answers = io.BytesIO()
    answers.close = lambda: None  # type: ignore[method-assign]  # pygls closes what it is given
    logged: list[str] = []
    handler = _Collects(logged)
    logging.getLogger("policy_sched.lsp").addHandler(handler)
    out = io.StringIO()
    try:
        with redirect_stderr(out):
            make_server().serve(io.BytesIO(sent), answers, str)
    finally:
        logging.getLogger("policy_sched.lsp").removeHandler(handler)
    shown = f"for {sent[:3000]!r}"
    answer = answers.getvalue()
    if logged or b'"code": -32603' in answer or b"Traceback" in answer or out.getvalue():
        raise BrokenRunError(f"{logged} {out.getvalue()[-3000:]} {answer[-3000:]!r} {shown}")
