"""Between aiohttp and the rest: sockets that notice a dead peer, responses in bounds, its errors.

TLS settings as the files say now: authorities and client certificates may be replaced in them.

Theory of operation. A context is made for a client certificate and kept as long as that and the
authorities stay what they are. A file of authorities is read again from time to time, and when a
server was not trusted: then the authority may be another one since. What cannot be read or used
changes nothing.
"""

from __future__ import annotations

import os
import socket
import ssl
import ssl as tls
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Final, Self

import aiohttp
import msgspec

from policy_sched.client.kube import auth
from policy_sched.client.kube.rest.decoding import Lines, LineTooLong
from policy_sched.client.kube.rest.errors import Malformed, Unreachable
from policy_sched.errors import ClusterError


class TlsContexts:
    """The contexts for one server; ``now`` is monotonic, in nanoseconds."""

    def __init__(self, trust: auth.Trust, now: Callable[[], int]) -> None:
        self._trust = trust
        self._now = now
        self._due = now() + auth.REREAD_CERTIFICATES
        self._made: tuple[auth.Certificate | None, ssl.SSLContext] | None = None

    def of(self, certificate: auth.Certificate | None) -> ssl.SSLContext:
        """Return the context for a client certificate. Raises AccessError."""
        if self._trust.file is not None and self._now() >= self._due:
            self._read()
        if self._made is None or self._made[0] != certificate:
            self._made = certificate, auth.tls_context(self._trust, certificate)
        return self._made[1]

    def doubted(self) -> None:
        """A server was not trusted: read the authorities before the next connection."""
        self._due = self._now()

    def _read(self) -> None:
        assert self._trust.file is not None
        self._due = self._now() + auth.REREAD_CERTIFICATES
        with suppress(auth.AccessError):
            trust = replace(self._trust, authorities=auth.read_secret(self._trust.file))
            if trust != self._trust:
                auth.tls_context(trust, None)  # raises for what is no authority
                self._trust, self._made = trust, None


JSON: Final = "application/json"
KEEP_ALIVE: Final = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 3}
"""A dead peer is noticed after 75 s (client-go: HTTP/2 pings after 30 s, for 15 s)."""

Direct = Callable[[Callable[[bytes], None]], None]
"""Has a function called with the pieces of a response as they come."""
TROUBLE: Final = (aiohttp.ClientError, OSError)
"""What aiohttp raises; time that is over is an OSError."""


class OutgoingRequest(msgspec.Struct, frozen=True):
    """A request as it is sent; its text names method and path."""

    method: str
    path: str
    query: Mapping[str, str]
    data: bytes | None
    content_type: str
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


QUESTIONS: Final = frozenset(
    {
        "/apis/authentication.k8s.io/v1/tokenreviews",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
    }
)
"""Paths to which something is posted in order to ask; a POST there writes nothing."""


def reads(sending: OutgoingRequest) -> bool:
    """Return whether a request changes nothing."""
    return sending.method in ("GET", "HEAD") or (
        sending.method == "POST" and sending.path in QUESTIONS
    )


def kept_alive(info: tuple[Any, ...]) -> socket.socket:
    """Return a socket for an address, with TCP keep-alive."""
    family, kind, protocol, *_ = info
    made = socket.socket(family, kind, protocol)
    keep_alive(made)
    return made


def keep_alive(sock: socket.socket) -> None:
    """Let a socket notice a dead peer."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        option = getattr(socket, name, None)  # not every system has them
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def connector_of(proxy: str) -> aiohttp.TCPConnector:
    """Return the connector of a session, through `proxy` if it is a SOCKS proxy."""
    if _is_socks(proxy):
        # imported here: the libraries of SOCKS cost 25 ms, and few clusters are behind such a proxy
        from policy_sched.client.kube.rest.socks import SocksConnector  # noqa: PLC0415

        return SocksConnector(proxy)
    return aiohttp.TCPConnector(limit=0, socket_factory=kept_alive)


def proxy_argument(proxy: str) -> str | None:
    """Return the proxy options of a request: none for a proxy of connections."""
    return None if _is_socks(proxy) else proxy or None


def _is_socks(proxy: str) -> bool:
    return proxy.startswith(f"{auth.SOCKS}:")


@contextmanager
def translated(sending: OutgoingRequest) -> Iterator[None]:
    """Raise what aiohttp raises as ours."""
    try:
        yield
    except TROUBLE as error:
        raise translation(sending, error) from None


def translation(sending: OutgoingRequest, error: Exception) -> ClusterError:
    """Translate an exception of aiohttp, and drop its references to the connection."""
    _untraced(error)
    if isinstance(error, aiohttp.ClientSSLError):
        return not_trusted(sending, _certificate_error(error))
    if isinstance(error, aiohttp.ClientConnectorError):
        return cannot_connect(sending, error.host, error.port or 0, error.os_error)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return Unreachable(f"{sending}: {text_of(error)}", sent=False)
    if isinstance(error, aiohttp.InvalidURL):
        return auth.AccessError(f"{sending}: the server's URL cannot be used")
    if isinstance(error, TimeoutError):
        return Unreachable(f"{sending}: no response in time", sent=True)
    if isinstance(error, aiohttp.ClientPayloadError):
        return Unreachable(f"{sending}: the response broke off", sent=True)
    return Unreachable(f"{sending}: {text_of(error)}", sent=True)


def _untraced(error: BaseException | None) -> None:
    """Forget where an error came by: its stream keeps it, and it would keep the stream.

    What keeps itself is not freed before it is looked for, and an old connection never is.
    """
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def cannot_connect(sending: OutgoingRequest, host: str, port: int, error: OSError) -> Unreachable:
    """Return the error of a request without a connection."""
    return Unreachable(f"{sending}: cannot connect to {host}:{port}: {_reason(error)}", sent=False)


def not_trusted(sending: OutgoingRequest, error: Exception) -> auth.AccessError:
    """Return the error of a request whose TLS handshake failed."""
    why = error.verify_message if isinstance(error, tls.SSLCertVerificationError) else str(error)
    return auth.AccessError(f"{sending}: no trust in the server: {why}")


def _certificate_error(error: aiohttp.ClientSSLError) -> Exception:
    return getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error


def _reason(error: OSError) -> str:
    """Return why there is no connection, in the system's words; asyncio has its own for some."""
    text = error.strerror or str(error) or type(error).__name__
    if error.errno is not None and text.startswith("Connect call failed"):
        return os.strerror(error.errno)
    return text


def text_of(error: BaseException) -> str:
    """Return an error's text, without the URL, which may be a proxy's with its password."""
    if isinstance(error, aiohttp.ClientResponseError):
        return f"{error.status} {error.message}".strip()
    return str(error) or type(error).__name__


def check_content(sending: OutgoingRequest, content_type: str) -> None:
    """Raise Malformed if the content type of a response is not JSON, nor what is accepted else.

    A gateway or a login page responds in HTML; the request was not executed then.
    """
    if content_type == JSON:
        return
    media = content_type.partition(";")[0].strip().lower()
    if media not in sending.headers.get("Accept", JSON).split(", "):
        raise Malformed(f"{sending}: the response is {content_type[:80]!r}, not {JSON}")


async def read_within(response: aiohttp.ClientResponse, longest: int) -> bytes | None:
    """Return the body of a response; None if it is longer than that."""
    content = response.content
    pieces: list[bytes] = []
    length = 0
    while not content.at_eof():
        piece = await content.readany()
        length += len(piece)
        if length > longest:
            return None
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class LineStream:
    """The lines of a response, as many at a time as have come.

    Iteration raises Malformed for a line without end, Unreachable if the stream ends within one.
    ``direct`` has pieces handed to a function as they come, if that is possible; ``end`` ends the
    response with an error then.
    """

    def __init__(
        self,
        pieces: AsyncIterator[bytes],
        direct: Direct | None = None,
        end: Callable[[Exception], None] | None = None,
    ) -> None:
        self._pieces = pieces
        self._direct = direct
        self.end = end
        self._lines = Lines()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[bytes]:
        async for piece in self._pieces:
            whole = self._whole(piece)
            if whole:
                return whole
        if self._lines.held:
            raise Unreachable("the stream was cut off within a line", sent=True)
        raise StopAsyncIteration

    def direct(self, take: Callable[[list[bytes]], None]) -> None:
        """Call a function with the lines as they come: no task has to wait for them.

        What it raises ends the iteration. Through a proxy the iteration goes on to yield all.
        """
        if self._direct is not None:
            self._direct(partial(self._hand_on, take))
            self._direct = None

    def _hand_on(self, take: Callable[[list[bytes]], None], piece: bytes) -> None:
        whole = self._whole(piece)
        if whole:
            take(whole)

    def _whole(self, piece: bytes) -> list[bytes]:
        try:
            return self._lines.feed(piece)
        except LineTooLong as error:
            raise Malformed(str(error)) from None


@lru_cache(maxsize=64)
def whole(seconds: float, connect: float) -> aiohttp.ClientTimeout:
    """Return the time that a whole response may take."""
    return aiohttp.ClientTimeout(total=seconds, sock_connect=connect)


def let_go(response: aiohttp.ClientResponse) -> None:
    """Use the connection again if the response was read to its end."""
    if response.content.at_eof():
        response.release()
    else:
        response.close()
