"""Connections of requests that write, and of watches; one write for the events of one turn.

Theory of operation. A scheduler sends two small requests for each pod and reads two lines of a
watch, and a general HTTP client spends more processor time on each than the decision takes. Here
responses are parsed by httptools, and TLS is done in memory, where a record comes in (`sockets`). A
request has a connection of its own: a slow response holds up nothing else, and requests reach the
server in their order. Events, for which nothing waits, have few connections of their own: those of
one turn of the event loop are one write (pipelining of HTTP/1.1: the server responds in order), and
where no more connections may be opened, they join the one with the fewest under way. A watch has
a connection that ends with it.

An unused connection is kept for a while, and used again by the next request if it has the same TLS
settings; the one that was used last is used first. What goes wrong is raised as aiohttp raises it.
A request that the server may have received is not repeated, except for an idempotent one on a
connection that was kept and that the server has closed meanwhile.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Final

import aiohttp
from aiohappyeyeballs import AddrInfoType, start_connection
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser
from yarl import URL

from policy_sched.client.kube.auth import AccessError, Grant
from policy_sched.client.kube.rest import sockets, transport
from policy_sched.client.kube.rest.streams import Stream

IDLE: Final = 15.0
"""Seconds for which an unused connection is kept (aiohttp's default)."""
IDEMPOTENT: Final = frozenset({"PUT", "DELETE"})
"""Methods whose requests are sent once more on a new connection if a kept one is closed."""
STAGGER: Final = 0.25
"""Seconds after which the next address of a server is tried, too (RFC 8305)."""
TOGETHER: Final = 8
"""Requests of one turn that share a connection; each waits for those before it."""
HEADS: Final = 16
"""Heads of requests that are kept; tokens are renewed, and what went before is not needed."""


Done = Callable[[sockets.Response | Exception], None]
"""Told of the response, or of the reason that there is none."""


class _Connection(sockets.Socket):
    """One connection, and the callbacks of its parser.

    ``freed`` is called when nothing is under way any more. ``together``: whether requests share it.
    """

    def __init__(
        self,
        context: ssl.SSLContext | None,
        server_name: str,
        longest: int,
        freed: Callable[[_Connection], None],
        *,
        together: bool,
    ) -> None:
        super().__init__(context, server_name)
        self.context = context
        self._together = together
        self.reusable = False
        self.begun = False
        self.idle_since = 0.0
        self._longest = longest
        self._freed = freed
        self._parser = HttpResponseParser(self)
        self._under_way: deque[tuple[float, Done]] = deque()
        """When each request is given up, by the event loop's time, and its callback."""
        self._unsent: list[bytes] = []
        self._responses: list[sockets.Response] = []
        self._response = sockets.Response()
        self._pieces: list[bytes] = []
        self._length = 0
        self._framed = False

    @property
    def joinable(self) -> bool:
        """Whether another request of this turn may share the write."""
        return bool(self._unsent) and self.count < TOGETHER

    @property
    def count(self) -> int:
        """Requests under way."""
        return len(self._under_way)

    @property
    def until(self) -> float:
        """The time of the event loop at which the first request is given up."""
        return min(until for until, _ in self._under_way)

    def exchange(self, request: bytes, until: float, done: Done) -> None:
        """Send a request, with others at the end of the turn where it may share a connection.

        The caller calls `expire` at ``until``.
        """
        if not self._under_way:
            self._response = sockets.Response()
            self.begun = self.reusable = False
        self._under_way.append((until, done))
        if not self._together:
            self.write(request)
            return
        if not self._unsent:
            self.loop.call_soon(self._send)
        self._unsent.append(request)

    def cancel(self) -> None:
        """Close the connection; nothing is told of its requests."""
        self._under_way.clear()
        self.close()
        self._freed(self)

    def close(self) -> None:
        """Close the connection."""
        self._unsent.clear()
        super().close()

    def expire(self, now: float) -> None:
        """Give up the requests whose time is over, and with them those that share the connection.

        The server may have received all of them.
        """
        self.close()
        self._end(
            lambda until: TimeoutError() if until <= now else aiohttp.ServerDisconnectedError()
        )

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, []
        if unsent:  # it is not closed
            self.write(unsent[0] if len(unsent) == 1 else b"".join(unsent))

    # The socket's callbacks.

    def received(self, data: bytes) -> None:
        """Parse; nothing may come while no request is under way."""
        if not self._under_way:
            self.close()
            return
        self.begun = True
        broken: Exception | None = None
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            broken = aiohttp.ClientPayloadError(str(error))
        responses, self._responses = self._responses, []
        under_way = self._under_way
        if broken or len(responses) > len(under_way) or (responses and not self.reusable):
            self.close()
        told = [(under_way.popleft()[1], response) for response in responses[: len(under_way)]]
        if self.closed:
            self._end(lambda _: broken or aiohttp.ServerDisconnectedError(), told)
            return
        if not under_way:
            self._freed(self)
        for done, response in told:
            done(response)

    def lost(self, error: Exception | None) -> None:
        """End the response that has no other end, or report that the rest does not come."""
        if not self._under_way:
            return
        responded = self._response.status != 0
        if responded and not self._framed and error is None:
            self._join()
            told = [(self._under_way.popleft()[1], self._response)]
            self._end(lambda _: aiohttp.ServerDisconnectedError(), told)
        elif responded:
            self._end(lambda _: aiohttp.ClientPayloadError("the connection was closed"))
        else:
            self._end(lambda _: sockets.disconnected(error))

    # httptools' callbacks.

    def on_message_begin(self) -> None:
        """A response begins; there is one for each request."""
        self._response = sockets.Response()
        self._pieces = []
        self._length = 0
        self._framed = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep the headers that are read."""
        if len(name) in sockets.READ_LENGTHS:
            self._framed = sockets.read_header(self._response, name, value) or self._framed

    def on_headers_complete(self) -> None:
        """Note the status, and whether another request may follow."""
        self._response.status = self._parser.get_status_code()
        self.reusable = self._parser.should_keep_alive()

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body; too long a body ends the response."""
        self._length += len(body)
        if self._length <= self._longest:
            self._pieces.append(body)
        elif self._response.body is not None:
            self._response.body = None
            self._responses.append(self._response)
            self.reusable = False

    def on_message_complete(self) -> None:
        """A response is complete, unless it is an interim one."""
        if self._response.status >= 200 and self._response.body is not None:
            self._join()
            self._responses.append(self._response)
            self._response = sockets.Response()

    # Inside.

    def _join(self) -> None:
        pieces = self._pieces
        self._response.body = pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _end(
        self,
        failure: Callable[[float], Exception],
        told: Sequence[tuple[Done, sockets.Response]] = (),
    ) -> None:
        """Call back with responses, then all others, by their time, with what went wrong."""
        ended, self._under_way = self._under_way, deque()
        self._freed(self)
        for done, response in told:
            done(response)
        for until, done in ended:
            done(failure(until))


class ConnectionPool:
    """The connections to one server; ``headers`` are sent with each request.

    ``connect`` is in seconds, ``longest`` the longest body in bytes, ``most`` the number of
    connections. ``together``: requests of one turn share a connection.
    """

    def __init__(  # noqa: PLR0913 - the last four are keywords
        self,
        server: URL,
        headers: tuple[tuple[str, str], ...],
        server_name: str,
        *,
        connect: float,
        longest: int,
        most: int,
        together: bool = False,
    ) -> None:
        self._server = server
        self._server_name = server_name
        self._connect_within = connect
        self._longest = longest
        self._prefix = server.raw_path.rstrip("/")
        self._headers = (("Host", server.host_port_subcomponent or ""), *headers)
        self._heads: dict[tuple[str, str, str], tuple[bytes, bytes]] = {}
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()
        self._shared: _Connection | None = None
        """The connection that requests of this turn share."""
        self._most = most
        self._together = together
        self._waiting: list[asyncio.Future[None]] = []
        """Told when a connection is open."""
        self._connecting = 0
        self._lookup: asyncio.Task[list[AddrInfoType]] | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._expiry: asyncio.TimerHandle | None = None
        """Is due no later than the first request under way is to be given up."""

    @property
    def ready(self) -> bool:
        """Whether there is a connection to begin on, and no earlier request waits for one."""
        if self._connecting or self._waiting:
            return False
        if self._idle or not self._together:
            return bool(self._idle)
        joinable = self._shared is not None and self._shared.joinable
        return joinable or len(self._busy) >= self._most

    async def exchange(
        self,
        sending: transport.OutgoingRequest,
        grant: Grant,
        context: ssl.SSLContext | None,
        seconds: float,
    ) -> sockets.Response:
        """Send a request and return the response.

        Raises Unreachable and AccessError if there is no connection, and what aiohttp raises.
        """
        request = self._encoded(sending, grant)
        until = asyncio.get_running_loop().time() + seconds
        while True:
            kept = await self._existing(context, until)
            if kept is None:
                break
            try:
                return await self._responded(kept, request, until)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if sending.method not in IDEMPOTENT or kept.begun:
                    raise
        self._connecting += 1
        server_name = self._server_name or self._server.host or ""
        fresh = _Connection(
            context, server_name, self._longest, self._give_back, together=self._together
        )
        try:
            await self._connect(sending, fresh, until)
        finally:
            self._opened()
        return await self._responded(fresh, request, until)

    async def stream(
        self,
        sending: transport.OutgoingRequest,
        grant: Grant,
        context: ssl.SSLContext | None,
        silence: float,
    ) -> Stream:
        """Send a request without a body; return its response as soon as that has begun.

        Raises Unreachable and AccessError if there is no connection, and what aiohttp raises.
        """
        headers = self._header_lines(sending, grant)
        url = self._server.with_path(self._prefix + sending.path, encoded=True)
        target = url.with_query(dict(sending.query)).raw_path_qs
        request = f"{sending.method} {target} HTTP/1.1\r\n{headers}\r\n".encode()
        stream = Stream(context, self._server_name or self._server.host or "", silence)
        try:
            await self._connect(sending, stream, inf)
            await stream.begin(request)
        except BaseException:
            stream.close()
            raise
        return stream

    def begin(
        self,
        sending: transport.OutgoingRequest,
        grant: Grant,
        context: ssl.SSLContext | None,
        seconds: float,
        done: Done,
    ) -> bool:
        """Send a request on a connection that there is; return False if another may be opened.

        ``done`` is called later, unless the connections are closed before. Raises AccessError.
        """
        request = self._encoded(sending, grant)
        shared = self._shared
        if not (self._together and shared and shared.joinable and shared.context is context):
            shared = self._shared = self._take(context) or self._least_used(context)
        if shared is None:
            return False
        self._send(shared, request, shared.loop.time() + seconds, done)
        return True

    def close(self) -> None:
        """Close all connections."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        if self._lookup is not None:
            self._lookup.cancel()
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        for connection in tuple(self._busy):
            connection.cancel()
        for waiting in self._waiting:
            waiting.cancel()

    # Inside.

    async def _connect(
        self, sending: transport.OutgoingRequest, fresh: sockets.Socket, until: float
    ) -> None:
        """Open a connection. Raises Unreachable, AccessError and TimeoutError."""
        loop, server = asyncio.get_running_loop(), self._server
        host, port = server.host or "", server.port or 0
        timeout = asyncio.timeout_at(min(until, loop.time() + self._connect_within))
        try:
            async with timeout:
                addresses = await self._addresses(loop, host, port)
                sock = await start_connection(addresses, happy_eyeballs_delay=STAGGER, interleave=1)
                try:
                    transport.keep_alive(sock)
                    await loop.create_connection(lambda: fresh, sock=sock)
                except BaseException:
                    sock.close()
                    raise
                await fresh.connected()
        except TimeoutError as error:
            if not timeout.expired():  # the system's own
                raise transport.cannot_connect(sending, host, port, error) from None
            raise aiohttp.ConnectionTimeoutError(f"Connection timeout to host {server}") from None
        except ssl.SSLError as error:
            raise transport.not_trusted(sending, error) from None
        except OSError as error:
            raise transport.cannot_connect(sending, host, port, error) from None

    async def _addresses(
        self, loop: asyncio.AbstractEventLoop, host: str, port: int
    ) -> list[AddrInfoType]:
        """Return the server's addresses; connections that are opened together share one lookup."""
        family = _family(host)
        if family is not None:
            return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]
        if self._lookup is None:
            self._lookup = loop.create_task(_lookup(loop, host, port))
            self._lookup.add_done_callback(self._looked_up)
        return await asyncio.shield(self._lookup)

    def _looked_up(self, lookup: asyncio.Task[list[AddrInfoType]]) -> None:
        """Let the next connection look the server up again; its address may change."""
        self._lookup = None
        if not lookup.cancelled():
            lookup.exception()  # those that wait for it raise it

    def _encoded(self, sending: transport.OutgoingRequest, grant: Grant) -> bytes:
        key = sending.method, sending.content_type, grant.authorization
        head = self._heads.get(key)
        if head is None:
            head = self._head(sending, grant)
            if len(self._heads) >= HEADS:
                self._heads.clear()
            self._heads[key] = head
        data = sending.data or b""
        return b"%b%b%b%d\r\n\r\n%b" % (head[0], sending.path.encode(), head[1], len(data), data)

    def _head(self, sending: transport.OutgoingRequest, grant: Grant) -> tuple[bytes, bytes]:
        """Return what stands before the path, and between the path and the body's length."""
        lines = self._header_lines(sending, grant)
        start = f"{sending.method} {self._prefix}".encode()
        kind = f"Content-Type: {sending.content_type}"
        return start, f" HTTP/1.1\r\n{lines}{kind}\r\nContent-Length: ".encode()

    def _header_lines(self, sending: transport.OutgoingRequest, grant: Grant) -> str:
        """Return the headers of every request. Raises AccessError."""
        headers: list[tuple[str, str]] = [*self._headers]
        if grant.authorization:
            headers.append(("Authorization", grant.authorization))
        if any(char in part for pair in headers for part in pair for char in "\r\n\0"):
            raise AccessError(f"{sending}: a header contains a line break")
        return "".join(f"{name}: {value}\r\n" for name, value in headers)

    def _take(self, context: ssl.SSLContext | None) -> _Connection | None:
        """Return a kept connection that can be used."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                if connection.context is context:
                    return connection
                connection.close()
        return None

    def _least_used(self, context: ssl.SSLContext | None) -> _Connection | None:
        """Return the connection to join where no other may be opened, None if one may."""
        if len(self._busy) + self._connecting < self._most:
            return None
        shared = (
            connection
            for connection in self._busy
            if connection.context is context and not connection.closed
        )
        return min(shared, key=lambda connection: connection.count, default=None)

    async def _existing(self, context: ssl.SSLContext | None, until: float) -> _Connection | None:
        """Return a connection to use, None if another may be opened.

        Where all that there may be are about to be opened, it waits for one of these.
        """
        while True:
            connection = self._take(context) or self._least_used(context)
            if connection is not None or self._connecting < self._most:
                return connection
            opened = asyncio.get_running_loop().create_future()
            self._waiting.append(opened)
            try:
                async with asyncio.timeout_at(until):
                    await opened
            except TimeoutError:
                text = f"no connection to {self._server.host} was opened in time"
                raise aiohttp.ConnectionTimeoutError(text) from None

    def _opened(self) -> None:
        """Let those continue that wait for a connection: one is open, or cannot be opened."""
        self._connecting -= 1
        waiting, self._waiting = self._waiting, []
        for opened in waiting:
            if not opened.done():
                opened.set_result(None)

    async def _responded(
        self, connection: _Connection, request: bytes, until: float
    ) -> sockets.Response:
        waiting: asyncio.Future[sockets.Response] = asyncio.get_running_loop().create_future()
        self._send(connection, request, until, partial(_settle, waiting))
        return await waiting  # if it is cancelled, the response is awaited for those behind it

    def _send(self, connection: _Connection, request: bytes, until: float, done: Done) -> None:
        """Send a request; one timer serves all that are under way."""
        self._busy.add(connection)
        expiry = self._expiry
        if expiry is None or until < expiry.when():
            if expiry is not None:
                expiry.cancel()
            self._expiry = asyncio.get_running_loop().call_at(until, self._expire)
        connection.exchange(request, until, done)

    def _expire(self) -> None:
        """Give up the requests whose time is over."""
        loop = asyncio.get_running_loop()
        now, self._expiry = loop.time(), None
        for connection in [busy for busy in self._busy if busy.until <= now]:
            connection.expire(now)
        if self._busy:
            first = min(connection.until for connection in self._busy)
            self._expiry = loop.call_at(first, self._expire)

    def _give_back(self, connection: _Connection) -> None:
        """Keep a connection for the next request, if its responses are complete."""
        self._busy.discard(connection)
        if connection.closed or not connection.reusable:
            connection.close()
            return
        loop = connection.loop
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = loop.call_later(IDLE, self._close_idle, loop)

    def _close_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close what has not been used for a while; the oldest come first."""
        before = loop.time() - IDLE
        for connection in self._idle:
            if connection.idle_since <= before:
                connection.close()
        self._idle = [connection for connection in self._idle if not connection.closed]
        self._sweep = loop.call_later(IDLE, self._close_idle, loop) if self._idle else None


async def _lookup(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[AddrInfoType]:
    return [*await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def _family(host: str) -> socket.AddressFamily | None:
    """Return the family of a numeric address; None for a name."""
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return None
    return socket.AF_INET if version == 4 else socket.AF_INET6  # IPv4


def _settle(
    waiting: asyncio.Future[sockets.Response], response: sockets.Response | Exception
) -> None:
    """End an exchange that is awaited."""
    if waiting.done():
        return
    if isinstance(response, Exception):
        waiting.set_exception(response)
    else:
        waiting.set_result(response)
