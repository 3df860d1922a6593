"""SOCKS 5: connections through a proxy that knows nothing of HTTP (RFC 1928, RFC 1929).

Names are left to the proxy, as Go programs do it: what a cluster calls itself may mean nothing
where we are.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest

PORT: Final = 1080
_VERSION: Final = 5
_OPEN, _PASSWORD = 0, 2
_IPV4, _NAME, _IPV6 = 1, 3, 4
_ANSWERS: Final = (
    "succeeded",
    "general SOCKS server failure",
    "connection not allowed by ruleset",
    "network unreachable",
    "host unreachable",
    "connection refused",
    "TTL expired",
    "command not supported",
    "address type not supported",
)

Read = Callable[[int], Awaitable[bytes]]
Write = Callable[[bytes], Awaitable[None]]


class SocksError(OSError):
    """The proxy does not lead there; an OSError, as all that keeps from connecting is."""

    def __init__(self, message: str) -> None:
        super().__init__(errno.EPROTO, message)


@dataclass(frozen=True, slots=True)
class SocksProxy:
    """Where a proxy is, and what it wants to know of us."""

    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)

    @classmethod
    def of(cls, url: str) -> SocksProxy:
        """Return the proxy of a URL: socks5://[USER:PASSWORD@]HOST[:PORT]."""
        parts = urlsplit(url)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        return cls(parts.hostname or "", parts.port or PORT, user, password)


async def greet(proxy: SocksProxy, host: str, port: int, read: Read, write: Write) -> None:
    """Ask a proxy to connect to a host. Raises SocksError."""
    methods = (_OPEN, _PASSWORD) if proxy.user else (_OPEN,)
    await write(bytes((_VERSION, len(methods), *methods)))
    version, method = await read(2)
    if version != _VERSION:
        raise SocksError("the proxy does not speak SOCKS 5")
    if method == _PASSWORD and proxy.user:
        parts = (proxy.user.encode(), proxy.password.encode())
        if any(len(part) > 255 for part in parts):
            raise SocksError("user or password is too long for a SOCKS proxy")
        await write(b"\1" + b"".join(bytes((len(part),)) + part for part in parts))
        _, refused = await read(2)
        if refused:
            raise SocksError("the SOCKS proxy does not accept user and password")
    elif method != _OPEN:
        raise SocksError("the SOCKS proxy wants to know who we are")
    await write(bytes((_VERSION, 1, 0)) + _target(host) + port.to_bytes(2, "big"))
    version, answer, _, kind = await read(4)
    if answer:
        why = _ANSWERS[answer] if answer < len(_ANSWERS) else f"unknown code {answer}"
        raise SocksError(f"the SOCKS proxy says of {host}:{port}: {why}")
    length = {_IPV4: 4, _IPV6: 16}.get(kind)
    if length is None:
        (length,) = await read(1)
    await read(length + 2)


def _target(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.encode("idna")
        if len(name) > 255:
            raise SocksError("the server's name is too long for a SOCKS proxy") from None
        return bytes((_NAME, len(name))) + name
    return bytes((_IPV4 if address.version == 4 else _IPV6,)) + address.packed


class _Unresolved(AbstractResolver):
    """Leaves names as they are."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the name itself."""
        found = ResolveResult(hostname=host, host=host, port=port, family=family, proto=0, flags=0)
        return [found]

    async def close(self) -> None:
        """Do nothing."""


class SocksConnector(aiohttp.TCPConnector):
    """Opens connections through a proxy; what goes through them is aiohttp's."""

    def __init__(
        self, proxy: SocksProxy, made: Callable[[tuple[Any, ...]], socket.socket], **options: Any
    ) -> None:
        super().__init__(resolver=_Unresolved(), **options)
        self._proxy = proxy
        self._made = made

    async def _wrap_create_connection(
        self,
        *args: Any,
        req: ClientRequest,
        timeout: aiohttp.ClientTimeout,
        client_error: type[Exception] = aiohttp.ClientConnectorError,
        **options: Any,
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        """Connect to the proxy, greet it, and go on with the server behind it.

        The place where aiohttp connects: a connection it makes is one of ours.
        """
        del options["addr_infos"]  # the name, which only the proxy can look up
        loop, key = asyncio.get_running_loop(), req.connection_key
        try:
            async with asyncio.timeout(timeout.sock_connect):
                connected = await self._connected(key.host, key.port or 0)
                return await loop.create_connection(*args, **options, sock=connected)
        except ssl.SSLCertVerificationError as error:
            raise aiohttp.ClientConnectorCertificateError(key, error) from error
        except ssl.SSLError as error:
            raise aiohttp.ClientConnectorSSLError(key, error) from error
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise aiohttp.ConnectionTimeoutError("no connection in time") from error
            raise client_error(key, error) from error

    async def _connected(self, host: str, port: int) -> socket.socket:
        """Return a socket on which the server behind the proxy answers."""
        loop, proxy = asyncio.get_running_loop(), self._proxy
        found = await loop.getaddrinfo(proxy.host, proxy.port, type=socket.SOCK_STREAM)
        last: OSError = SocksError(f"the SOCKS proxy {proxy.host} has no address")
        for info in found:
            made = self._made(info)
            made.setblocking(False)
            try:
                await loop.sock_connect(made, info[4])
                await greet(proxy, host, port, _reader(made), _writer(made))
            except OSError as error:
                made.close()
                last = error
            except BaseException:
                made.close()
                raise
            else:
                return made
        raise last


def _reader(made: socket.socket) -> Read:
    loop = asyncio.get_running_loop()

    async def read(length: int) -> bytes:
        got = b""
        while len(got) < length:
            more = await loop.sock_recv(made, length - len(got))
            if not more:
                raise SocksError("the SOCKS proxy has hung up")
            got += more
        return got

    return read


def _writer(made: socket.socket) -> Write:
    loop = asyncio.get_running_loop()

    async def write(data: bytes) -> None:
        await loop.sock_sendall(made, data)

    return write
