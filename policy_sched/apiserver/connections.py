"""Connections: how many there may be, and how long one may keep the server waiting.

Theory of operation: connections are accepted some at a time, so that no turn of the event loop is
full of TLS handshakes, and those that may not be through with theirs are counted, too, up to half
of the places. Where there are too many, the oldest that has not asked for anything makes room. A
look at all connections every few seconds (`sweep`) cuts those that have sent no request since they
were made, and those whose client has taken nothing of what was written for some looks in a row.
What waits for a slow reader is bounded besides: a stream goes on only when the last piece has been
taken into the transport's buffer.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from policy_sched.apiserver.refusals import LIMIT
from policy_sched.client.accepting import stop_accepting

HEADER_BYTES: Final = 64 * 1024
"""Bytes that a header or the first line of a request may have."""
CONNECTIONS: Final = 1000
"""Connections at the same time; who comes when all have asked for something is hung up on."""
HANDSHAKE_SECONDS: Final = 10.0
"""How long a client may take for its side of the TLS handshake."""
ACCEPTED: Final = 8
"""Connections that are accepted in one turn of the event loop; a handshake takes about 1 ms."""
QUEUE: Final = 1024
"""Connections that wait in the system to be accepted."""
SWEEP_SECONDS: Final = 10.0
SILENT_SECONDS: Final = 30.0
"""How long a client may take for its first request, headers and all."""
STUCK_LOOKS: Final = 4
"""Looks in a row at which nothing was taken of what was written, before a client is cut."""
IDLE_SECONDS: Final = 300.0
"""How long a connection is kept between two requests."""

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class _Refused(asyncio.Protocol):
    """A connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hang up."""
        assert isinstance(transport, asyncio.Transport)
        transport.abort()


class _Seen:
    """What was seen of a connection at the last look."""

    def __init__(self, now: float) -> None:
        self.since = now
        self.writer: Any = None
        self.taken = 0
        self.stuck = 0


class Connections(web.Server):
    """The HTTP of the server: bounded in requests' sizes, in connections and in time."""

    def __init__(self, answer: Answer, most: int = CONNECTIONS) -> None:
        super().__init__(
            self._noted,
            request_factory=_request,
            handler_cancellation=True,
            access_log=None,
            keepalive_timeout=IDLE_SECONDS,
            auto_decompress=False,  # the API server reads no compressed bodies either
            max_line_size=HEADER_BYTES,
            max_field_size=HEADER_BYTES,
        )
        self._answer = answer
        self._most = most
        self._seen: dict[RequestHandler, _Seen] = {}
        self._transports: dict[RequestHandler, asyncio.Transport] = {}
        self._greeting: dict[int, float] = {}
        self._closed = False

    def __call__(self) -> Any:
        """Return the protocol of a new connection, which is counted from now on."""
        now = asyncio.get_running_loop().time()
        while self._greeting and next(iter(self._greeting.values())) <= now - HANDSHAKE_SECONDS:
            del self._greeting[next(iter(self._greeting))]
        begun = min(len(self._greeting), self._most // 2)  # those that failed are among them
        if len(self._transports) + begun >= self._most and not self._make_room():
            return _Refused()
        handler = super().__call__()
        self._greeting[id(handler)] = now
        return handler

    def _make_room(self) -> bool:
        """Cut the oldest connection that has not asked for anything; tell whether there is one."""
        silent = (handler for handler, seen in self._seen.items() if seen.writer is None)
        oldest = next(silent, None)
        if oldest is None:
            return False
        del self._seen[oldest]
        self._transports.pop(oldest).abort()
        return True

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        """Take note of a connection whose handshake is done, if there is room still."""
        super().connection_made(handler, transport)
        self._greeting.pop(id(handler), None)
        if self._closed or len(self._transports) >= self._most:
            transport.abort()
            return
        self._seen[handler] = _Seen(asyncio.get_running_loop().time())
        self._transports[handler] = transport

    def pre_shutdown(self) -> None:
        """Close those at rest; who was accepted before, and is not here yet, is not let in."""
        self._closed = True
        super().pre_shutdown()

    def connection_lost(self, handler: Any, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        super().connection_lost(handler, exc)
        self._seen.pop(handler, None)
        self._transports.pop(handler, None)

    async def _noted(self, request: web.BaseRequest) -> web.StreamResponse:
        seen = self._seen.get(request.protocol)
        if seen is not None:
            seen.writer, seen.stuck = request.writer, 0
        if request.headers.get("Expect", "").lower() == "100-continue":
            writer: Any = request.writer
            await writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            writer.output_size = 0
        return await self._answer(request)

    def sweep(self, now: float) -> int:
        """Cut the connections that keep the server waiting; return how many. ``now``: seconds."""
        slow = [handler for handler, seen in self._seen.items() if self._slow(handler, seen, now)]
        for handler in slow:
            self._transports[handler].abort()
        return len(slow)

    def _slow(self, handler: RequestHandler, seen: _Seen, now: float) -> bool:
        if seen.writer is None:
            return now - seen.since >= SILENT_SECONDS
        waiting = self._transports[handler].get_write_buffer_size()
        taken: int = seen.writer.output_size - waiting
        seen.stuck = seen.stuck + 1 if waiting and taken == seen.taken else 0
        seen.taken = taken
        return seen.stuck >= STUCK_LOOKS

    async def sweeping(self) -> None:
        """Look at the connections again and again."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep(clock())


class Site(web.TCPSite):
    """Where connections come in: not too many in one turn, and none that takes long to greet."""

    async def start(self) -> None:
        """Listen. Raises OSError."""
        await web.BaseSite.start(self)
        server = self._runner.server
        assert server is not None
        listening = await asyncio.get_running_loop().create_server(
            server,
            self._host,
            self._port,
            ssl=self._ssl_context,
            backlog=ACCEPTED,
            ssl_handshake_timeout=HANDSHAKE_SECONDS if self._ssl_context else None,
        )
        self._server = listening
        for one in listening.sockets:  # asyncio accepts as many in a turn as it lets wait
            with socket.fromfd(one.fileno(), one.family, one.type) as same:
                same.listen(QUEUE)

    async def stop(self) -> None:
        """Listen no more."""
        if isinstance(self._server, asyncio.Server):
            await stop_accepting(self._server)
        await super().stop()


def _request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=LIMIT)
