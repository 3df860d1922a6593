"""Connections to an extender: sockets that are kept alive, and calls with a deadline.

Synchronous on the standard library: a decision waits for its extenders; a caller with other work
makes the call in another thread. Theory of operation: a call writes one POST and reads one
response, all of it before a common deadline, whatever the server does. It uses its own socket, so
calls may run concurrently. The socket is kept if both sides agree; a kept one with something to
read was closed by the server, and another is opened before anything is sent, so no call is ever
sent twice.
"""

from __future__ import annotations

import io
import select
import socket
import ssl
import time
from collections.abc import Sequence
from http import HTTPStatus
from http.client import BadStatusLine, HTTPException, HTTPResponse, IncompleteRead, LineTooLong
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

from policy_sched.errors import PluginError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_PORTS: Final = {"http": 80, "https": 443}
PIECE: Final = 1 << 18
"""Bytes of a response that are read at a time."""
KEPT: Final = 16
"""Sockets that are kept between calls."""


class Connection:
    """Posts JSON to the verbs of one extender, from any thread.

    ``timeout``: seconds for a whole call. ``context``: for https addresses. ``server_name``: the
    name in the server's certificate, if it is not the address's.
    """

    def __init__(
        self,
        url_prefix: str,
        timeout: float,
        context: ssl.SSLContext | None = None,
        server_name: str = "",
    ) -> None:
        parts = urlsplit(url_prefix)
        self._prefix = url_prefix.rstrip("/")
        self._root = f"{parts.scheme}://{parts.netloc}"
        self._netloc = parts.netloc
        self._host = parts.hostname or ""
        self._port = parts.port or _PORTS.get(parts.scheme, 0)
        self._context = context if parts.scheme == "https" else None
        self._server_name = server_name or self._host
        self._timeout = timeout
        self._idle: list[socket.socket] = []
        self._closed = 0

    def post(self, verb: str, *body: bytes) -> bytearray:
        """Send ``body``, in one or more pieces, to the verb and return the response's body.

        Raises PluginError, with kube-scheduler's message if there is one, without a response
        in time, or with a status other than 200.
        """
        url = f"{self._prefix}/{verb}"
        until = time.monotonic() + self._timeout
        try:
            status, reply = self._exchange(url.removeprefix(self._root), body, until)
        except (OSError, HTTPException) as error:
            raise PluginError(f'Post "{url}": {self._why(error)}') from error
        if status != HTTPStatus.OK:
            raise PluginError(f"failed {verb} with extender at URL {url}, code {status}")
        return reply

    def close(self) -> None:
        """Close open sockets once they are not in use; the next call opens another."""
        self._closed += 1
        while (idle := self._take()) is not None:
            idle.close()

    def _exchange(self, target: str, body: Sequence[bytes], until: float) -> tuple[int, bytearray]:
        closed = self._closed
        connected = self._kept() or self._open(until)
        try:
            status, reply, over = self._call(connected, target, body, until)
        except BaseException:
            connected.close()
            raise
        if over or closed != self._closed or len(self._idle) >= KEPT:
            connected.close()
        else:
            self._idle.append(connected)
        return status, reply

    def _kept(self) -> socket.socket | None:
        """Take the socket that was used last and that the server has not closed."""
        while (idle := self._take()) is not None:
            if not _something_to_read(idle):
                return idle
            idle.close()
        return None

    def _take(self) -> socket.socket | None:
        """Take a socket; None if there is none."""
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _call(
        self, connected: socket.socket, target: str, body: Sequence[bytes], until: float
    ) -> tuple[int, bytearray, bool]:
        """Call on this socket: return status, body and whether the socket must be closed."""
        length = sum(map(len, body))
        head = (
            f"POST {target} HTTP/1.1\r\nHost: {self._netloc}\r\nUser-Agent: policy-sched\r\n"
            f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        )
        for piece in (head.encode("ascii") + body[0], *body[1:]):
            connected.settimeout(_left(until))
            connected.sendall(piece)
        response = HTTPResponse(cast("socket.socket", _Incoming(connected, until)), method="POST")
        try:
            response.begin()
            reply = _read(response)
        finally:
            response.close()
        return response.status, reply, response.will_close

    def _open(self, until: float) -> socket.socket:
        plain = socket.create_connection((self._host, self._port), timeout=_left(until))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._context is None:
            return plain
        try:
            plain.settimeout(_left(until))
            return self._context.wrap_socket(plain, server_hostname=self._server_name)
        except OSError:
            plain.close()
            raise

    def _why(self, error: OSError | HTTPException) -> str:
        """Return the error in the words of Go's HTTP client."""
        match error:
            case TimeoutError():
                return "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            case ConnectionRefusedError():
                return f"dial tcp {self._host}:{self._port}: connect: connection refused"
            case socket.gaierror():
                return f"dial tcp: lookup {self._host}: no such host"
            case ssl.SSLCertVerificationError():
                return f"tls: failed to verify certificate: {error.verify_message}"
            case (
                ConnectionResetError() | ssl.SSLEOFError()
            ):  # with http.client's RemoteDisconnected
                return "EOF"
            case IncompleteRead():
                return "unexpected EOF"
            case BadStatusLine() | LineTooLong():
                return "malformed HTTP response"
        return str(error) or type(error).__name__


def _read(response: HTTPResponse) -> bytearray:
    """Return the whole body, read in pieces."""
    body = bytearray()
    while piece := response.read(PIECE):
        body += piece
    if response.length:
        raise IncompleteRead(bytes(body), response.length)
    return body


class _Incoming(io.RawIOBase):
    """The receiving side of a socket; reads fail once the deadline has passed.

    Passed to HTTPResponse as its socket; HTTPResponse calls `makefile`.
    """

    def __init__(self, connected: socket.socket, until: float) -> None:
        self._socket = connected
        self._until = until

    def makefile(self, mode: str) -> io.BufferedReader:  # noqa: ARG002 - the socket's signature
        """Return the buffered file."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read available data, or wait for it until the deadline."""
        self._socket.settimeout(_left(self._until))
        return self._socket.recv_into(buffer)


def _left(until: float) -> float:
    """Return the seconds until a deadline. Raises TimeoutError if it has passed."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


def _something_to_read(connected: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connected, select.POLLIN)
    return bool(poll.poll(0))
