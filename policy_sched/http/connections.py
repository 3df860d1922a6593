"""Connections: how many there may be, which of them give way, and how long one may keep us waiting.

Theory of operation. A connection is *known* once its client is authenticated, by a certificate
or in a request, and *busy* while a request is served. When there are too many connections, one
makes room for the new one: an idle one of an unknown client, else a busy one of an unknown client,
else the one of a known client that has been idle for the longest time. Busy connections of known
clients stay. So any number of clients that connect and do nothing keep no other client out.

`sweep` looks at all connections every few seconds. It aborts connections without a first request,
idle ones of unknown clients, and those whose client has read nothing for some looks in a row. The
buffer for a slow reader is bounded, too: a stream continues only when the transport has buffered
the last piece.

Responses to malformed and failed requests: a Status that repeats nothing of the request.

A malformed request may hold a token, and so may the parser's message about it, or the text of an
exception. None of these gets into a response or a log.

asyncio's own server starts a TLS handshake for every connection that comes and keeps all of them,
so clients that connect and say nothing use up file descriptors. Here a few connections are accepted
in each turn of the event loop, there are at most so many unfinished handshakes, and the oldest
gives way to a new one. When the process has no file descriptor left, the server closes a connection
that can be spared instead of waiting.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Self

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import ContentEncodingError, LineTooLong
from aiohttp.web_protocol import RequestHandler

from policy_sched.client.apimachinery import ApiError, bad_request

JSON: Final = "application/json"
_LOG: Final = logging.getLogger("policy_sched.http")


def status_response(error: ApiError) -> web.Response:
    """Return a refusal as the API writes it."""
    response = web.Response(status=error.code, body=msgspec.json.encode(error.status()) + b"\n")
    response.headers["Content-Type"] = JSON
    response.headers["Cache-Control"] = "no-cache, private"
    return response


def broken_request(status: int, error: BaseException | None) -> ApiError:
    """Return the refusal of what cannot be read as HTTP (400), or of what failed."""
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return failure("", error)
    what = "the request is not valid HTTP"
    if isinstance(error, LineTooLong):
        what = "the request line or a header is too long"
    elif isinstance(error, ContentEncodingError):
        what = "the body is not encoded as in Content-Encoding"
    return bad_request(what)


def failure(request: str, error: BaseException | None) -> ApiError:
    """Log that a request failed by an internal error, and return the response.

    The log names the kind of the error and where it was raised, never its text.
    """
    kind = type(error).__name__ if error is not None else "unknown"
    trace = error.__traceback__ if error is not None else None
    failing = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        failing = f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno} in {code.co_name}"
        trace = trace.tb_next
    _LOG.error("Failed to serve %s: %s at %s", request or "a request", kind, failing)
    causes = {"causes": [{"message": kind}]}
    return ApiError(500, "InternalError", f"Internal error occurred: {kind}", causes)


SWEEP_SECONDS: Final = 10.0
STUCK_LOOKS: Final = 4
"""Looks in a row at which nothing was taken of what was written, before a client is cut."""
_SHARE: Final = 2
"""The part of the process's file descriptors that the connections of a server may take: half."""
_FEWEST: Final = 16

_UNMET: Final = ApiError(417, "ExpectationFailed", "no expectation but 100-continue is met")

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Refuse = Callable[[ApiError], web.Response]


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of a server."""

    connections: int
    """Open ones at a time; fewer where the process may not have as many files."""
    header: int
    """Bytes of a header, or of the first line of a request."""
    headers: int
    """Headers of a request."""
    body: int
    """Bytes of a body."""
    silent: float
    """Seconds for the first request, and between two requests of unknown clients."""
    idle: float
    """Seconds between two requests."""


class ServerConnection(RequestHandler):
    """One connection and what was seen of it."""

    def __init__(self, server: Connections, refuse: Refuse, **options: Any) -> None:
        super().__init__(server, **options)
        self._refuse = refuse
        self.authenticated = False
        self.busy = False
        self.requested = False
        self.since = 0.0
        """When it was made, or when its last request began or ended."""
        self.writer: Any = None
        self.taken = 0
        self.stuck = 0

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 - it repeats the request, secrets included
    ) -> web.StreamResponse:
        """Respond to what is no request, or what failed; nothing of the request is repeated."""
        if request.writer.output_size > 0:
            raise ConnectionError("the response has begun")
        response = self._refuse(broken_request(status, exc))
        response.force_close()
        return response


def recognized(request: web.BaseRequest) -> None:
    """Mark the connection of a request as authenticated."""
    connection = request.protocol
    if isinstance(connection, ServerConnection):
        connection.authenticated = True


class Connections(web.Server):
    """The connections of one server.

    ``application``: an application that has been set up, which routes the requests and makes their
    objects; ``handle`` calls its handler. ``refuse``: the response to what is no request.
    """

    def __init__(
        self,
        handle: Handler,
        bounds: Bounds,
        *,
        application: web.Server | None = None,
        refuse: Refuse = status_response,
    ) -> None:
        super().__init__(self._noted, handler_cancellation=True)
        self._options = {
            "access_log": None,
            "keepalive_timeout": bounds.idle,
            "auto_decompress": False,  # the API server reads no compressed bodies either
            "max_line_size": bounds.header,
            "max_field_size": bounds.header,
            "max_headers": bounds.headers,
            "lingering_time": 2.0,
        }
        self.request_factory = self._request
        if application is not None:
            self.request_factory = application.request_factory
        self._continues = application is None  # an application responds to Expect itself
        self._handle = handle
        self._refuse = refuse
        self._bounds = bounds
        self.most = min(bounds.connections, max(_FEWEST, descriptors() // _SHARE))
        self.open: dict[ServerConnection, asyncio.Transport] = {}
        """By the time of the last thing that happened on it, the oldest first."""
        self._closed = False

    def __call__(self) -> ServerConnection:
        """Return the protocol of a new connection."""
        return ServerConnection(self, self._refuse, loop=self._loop, **self._options)

    def _request(
        self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any
    ) -> web.BaseRequest:
        most = self._bounds.body
        return web.BaseRequest(
            message, payload, protocol, writer, task, self._loop, client_max_size=most
        )

    def make_room(self) -> bool:
        """Close the connection that can best be spared; return whether there is one."""
        best: ServerConnection | None = None
        for connection, transport in self.open.items():
            busy = connection.busy or transport.get_write_buffer_size() > 0
            if connection.authenticated and busy:
                continue
            if not connection.authenticated and not busy:
                best = connection
                break
            if best is None or (best.authenticated and not connection.authenticated):
                best = connection
        if best is None:
            return False
        self.open.pop(best).abort()
        return True

    def connection_made(self, handler: Any, transport: asyncio.Transport) -> None:
        """Accept a connection after its handshake, if there is room or an idle one to close."""
        super().connection_made(handler, transport)
        if self._closed or (len(self.open) >= self.most and not self.make_room()):
            transport.abort()
            return
        handler.since = self._loop.time()
        handler.authenticated = bool(transport.get_extra_info("peercert"))
        self.open[handler] = transport

    def pre_shutdown(self) -> None:
        """Close idle connections, and refuse those that were accepted but have not started."""
        self._closed = True
        super().pre_shutdown()

    def connection_lost(self, handler: Any, exc: BaseException | None = None) -> None:
        """Forget a connection."""
        super().connection_lost(handler, exc)
        self.open.pop(handler, None)
        handler.writer = None  # it knows its connection

    async def _noted(self, request: web.BaseRequest) -> web.StreamResponse:
        """Serve a request while its connection counts as busy."""
        connection: Any = request.protocol
        connection.writer, connection.stuck, connection.requested = request.writer, 0, True
        self._happened(connection, busy=True)
        try:
            expected = request.headers.get("Expect", "").lower()
            if expected not in ("", "100-continue"):  # as net/http
                return self._refuse(_UNMET)
            if self._continues and expected:
                writer: Any = request.writer
                await writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                writer.output_size = 0
            return await self._handle(request)
        finally:
            self._happened(connection, busy=False)

    def _happened(self, connection: ServerConnection, *, busy: bool) -> None:
        connection.busy, connection.since = busy, self._loop.time()
        transport = self.open.pop(connection, None)
        if transport is not None:
            self.open[connection] = transport

    def sweep(self, now: float) -> int:
        """Cut the connections that keep the server waiting; return how many. ``now``: seconds."""
        slow = [peer for peer, transport in self.open.items() if self._slow(peer, transport, now)]
        for connection in slow:
            self.open.pop(connection).abort()
        return len(slow)

    def _slow(self, connection: ServerConnection, transport: asyncio.Transport, now: float) -> bool:
        waiting = transport.get_write_buffer_size()
        unknown = not (connection.authenticated or connection.busy or waiting)
        if (not connection.requested or unknown) and now - connection.since >= self._bounds.silent:
            return True
        if connection.writer is None:
            return False
        taken: int = connection.writer.output_size - waiting
        connection.stuck = connection.stuck + 1 if waiting and taken == connection.taken else 0
        connection.taken = taken
        return connection.stuck >= STUCK_LOOKS

    async def sweeping(self) -> None:
        """Check the connections periodically."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep(self._loop.time())


class Site:
    """Serves at an address while the context lasts. Port 0 is any free one."""

    def __init__(
        self,
        connections: Connections,
        address: tuple[str, int],
        context: ssl.SSLContext | None,
        grace: float = 1.0,
    ) -> None:
        handshakes = max(1, min(HANDSHAKES, connections.most // 2))
        self._connections = connections
        self._address = address
        self._grace = grace
        self._acceptor = Acceptor(connections, context, connections.make_room, handshakes)
        self._sweeping: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._acceptor.port

    async def __aenter__(self) -> Self:
        """Start listening. Raises OSError."""
        await self._acceptor.listen(*self._address)
        self._sweeping = asyncio.create_task(self._connections.sweeping())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening, and close what is open."""
        assert self._sweeping is not None
        await self._acceptor.close()
        self._sweeping.cancel()
        self._connections.pre_shutdown()
        await self._connections.shutdown(self._grace)
        await asyncio.gather(self._sweeping, return_exceptions=True)


HANDSHAKE_SECONDS: Final = 10.0
"""How long a client may take for its side of the TLS handshake."""
HANDSHAKES: Final = 128
"""Handshakes at the same time; the oldest gives way."""
ACCEPTED: Final = 8
"""Connections that are accepted in one turn of the event loop; a handshake takes about 1 ms."""
QUEUE: Final = 1024
"""Connections that wait in the system to be accepted."""
PAUSE: Final = 0.05
"""Seconds until accepting goes on where resources were short."""
_SHORT: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


def descriptors() -> int:
    """Return how many file descriptors this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft > 0 else 1 << 20


class Acceptor:
    """Accepts connections for ``factory``; use `listen` and `close`.

    ``spare`` closes a connection that can be spared, and returns whether there was one.
    """

    def __init__(
        self,
        factory: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext | None,
        spare: Callable[[], bool],
        most: int = HANDSHAKES,
    ) -> None:
        self._factory = factory
        self._context = context
        self._spare = spare
        self._most = most
        self._sockets: list[socket.socket] = []
        self._greeting: dict[asyncio.Task[None], socket.socket] = {}

    @property
    def greeting(self) -> int:
        """How many handshakes are unfinished."""
        return len(self._greeting)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port: int = self._sockets[0].getsockname()[1]
        return port

    async def listen(self, host: str, port: int) -> None:
        """Listen; port 0 is any free one. Raises OSError."""
        loop = asyncio.get_running_loop()
        bound = await loop.create_server(self._factory, host, port, start_serving=False)
        self._sockets = [bound_socket.dup() for bound_socket in bound.sockets]
        bound.close()
        for bound_socket in self._sockets:
            bound_socket.setblocking(False)
            bound_socket.listen(QUEUE)
            loop.add_reader(bound_socket, self._accept, bound_socket)

    async def close(self) -> None:
        """Accept no more; end the handshakes that are not finished."""
        loop = asyncio.get_running_loop()
        for bound_socket in self._sockets:
            loop.remove_reader(bound_socket)
            bound_socket.close()
        self._sockets = []
        tasks = list(self._greeting)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED):
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _SHORT:
                    raise
                self._make_room(listening)
                return
            connection.setblocking(False)
            self._greet(connection)

    def _greet(self, connection: socket.socket) -> None:
        if len(self._greeting) >= self._most:
            next(iter(self._greeting)).cancel()
        task = asyncio.get_running_loop().create_task(self._handshake(connection))
        self._greeting[task] = connection
        task.add_done_callback(self._greeted)

    async def _handshake(self, connection: socket.socket) -> None:
        options: dict[str, Any] = {}
        if self._context is not None:
            options = {"ssl": self._context, "ssl_handshake_timeout": HANDSHAKE_SECONDS}
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(self._factory, connection, **options)
        except OSError:  # the client's side of it: no TLS, no trust, gone, too slow
            connection.close()

    def _greeted(self, task: asyncio.Task[None]) -> None:
        connection = self._greeting.pop(task)
        if task.cancelled():
            connection.close()
        elif (error := task.exception()) is not None:
            connection.close()
            raise error

    def _make_room(self, listening: socket.socket) -> None:
        """No file descriptor is left: close something, and go on a moment later."""
        if not self._spare() and self._greeting:
            next(iter(self._greeting)).cancel()
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)
        loop.call_later(PAUSE, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)
