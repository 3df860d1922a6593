"""A connected socket of the event loop, with TLS or without, and what a response on it tells.

Theory of operation. asyncio's own TLS takes as much processor time for a small message as parsing
it. What comes is written into OpenSSL's memory, and read from there record by record until nothing
is left of it; no exception ends that. What OpenSSL has to say goes out in one write. The end of the
connection is the end of what comes, with a close_notify or without: HTTP tells what is complete.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
import threading
from typing import Final

import aiohttp
import msgspec

RECORD: Final = 16 << 10
"""The most bytes of a record of TLS."""
AT_ONCE: Final = 512 << 10
"""Bytes that are read from a socket in one turn of the event loop.

Where turns are kept apart, a list of all pods comes in as many turns as it has such parts.
"""
FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})
"""Headers that tell where a body ends; without them it ends with the connection."""
READ_LENGTHS: Final = frozenset(map(len, (*FRAMING, b"content-type", b"retry-after")))
"""Lengths of the names of headers that are read."""


class Response(msgspec.Struct):
    """A response; ``body`` is None if it is longer than allowed."""

    status: int = 0
    content_type: str = ""
    retry_after: str | None = None
    body: bytes | None = b""


def read_header(response: Response, name: bytes, value: bytes) -> bool:
    """Keep a header that is read; return whether it tells where the body ends."""
    name = name.lower()
    if name == b"content-type":
        response.content_type = value.decode("latin-1")
    elif name == b"retry-after":
        response.retry_after = value.decode("latin-1")
    return name in FRAMING


def disconnected(error: Exception | None) -> Exception:
    """Return what it means that a connection is lost before there is a response."""
    if isinstance(error, OSError):
        return aiohttp.ClientOSError(error.errno, error.strerror)
    return aiohttp.ServerDisconnectedError()


class _Incoming(threading.local):
    """What a socket has read, until the end of its callback: an event loop needs it once."""

    def __init__(self) -> None:
        self.buffer = bytearray(AT_ONCE)


_incoming: Final = _Incoming()


class Socket(asyncio.BufferedProtocol):
    """A protocol whose `received` and `lost` are called as data comes, and at the end.

    ``context``: TLS with a server of that name, unless None.
    """

    def __init__(self, context: ssl.SSLContext | None, server_name: str) -> None:
        self.loop = asyncio.get_running_loop()
        self.closed = False
        self.paused = False
        self._transport: asyncio.Transport | None = None
        self._failure: Exception | None = None
        self._handshake: asyncio.Future[None] | None = None
        self._tls: ssl.SSLObject | None = None
        self._read, self._written = ssl.MemoryBIO(), ssl.MemoryBIO()
        if context is not None:
            self._tls = context.wrap_bio(self._read, self._written, server_hostname=server_name)
            self._handshake = self.loop.create_future()

    async def connected(self) -> None:
        """Wait for the end of the handshake. Raises SSLError and OSError."""
        if self._handshake is not None:
            try:
                await self._handshake
            except BaseException:
                self.close()
                raise

    def write(self, data: bytes) -> None:
        """Send data."""
        if self._transport is None or self.closed:
            return
        if self._tls is None:
            self._transport.write(data)
            return
        try:
            self._tls.write(data)
        except ssl.SSLError as error:
            self._failure = error
            self._transport.abort()
        else:
            self._transport.write(self._written.read())

    def close(self) -> None:
        """Close the connection; `lost` is called later."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        """Read nothing more, until `read_on`."""
        if self._transport is not None and not self.paused and not self.closed:
            self.paused = True
            self._transport.pause_reading()

    def read_on(self) -> None:
        """Read again after a pause."""
        if self.paused and not self.closed:
            self.paused = False
            assert self._transport is not None
            self._transport.resume_reading()

    def received(self, data: bytes) -> None:
        """Take data that has come."""
        raise NotImplementedError

    def lost(self, error: Exception | None) -> None:
        """Take the end of the connection, and what broke it, if anything."""
        raise NotImplementedError

    # asyncio's callbacks.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._tls is not None:
            self._shake_hands(self._tls)

    def get_buffer(self, _sizehint: int) -> bytearray:
        """Return where data is to be written."""
        return _incoming.buffer

    def buffer_updated(self, count: int) -> None:
        """Hand on what has come."""
        tls = self._tls
        if tls is None:
            self.received(bytes(memoryview(_incoming.buffer)[:count]))
            return
        self._read.write(memoryview(_incoming.buffer)[:count])
        if self._handshake is not None and not self._handshake.done():
            self._shake_hands(tls)
            if not self._handshake.done() or not self._read.pending:
                return
        data = self._decrypted(tls)
        if data:
            self.received(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Tell of the end."""
        self.closed = True
        self._transport = None
        error = self._failure or error
        if self._handshake is not None and not self._handshake.done():
            reset = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
            self._handshake.set_exception(error or reset)
            self._handshake.exception()  # it may have no waiter any more
        self.lost(error)

    # Inside.

    def _shake_hands(self, tls: ssl.SSLObject) -> None:
        assert self._handshake is not None
        assert self._transport is not None
        failed: Exception | None = None
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            self._transport.write(self._written.read())
            return
        except (ssl.SSLError, ssl.CertificateError) as error:
            failed = error
        if self._written.pending:  # an alert, perhaps
            self._transport.write(self._written.read())
        if self._handshake.done():
            return
        if failed is None:
            self._handshake.set_result(None)
        else:
            self._handshake.set_exception(failed)

    def _decrypted(self, tls: ssl.SSLObject) -> bytes:
        """Return all that came; close the connection if that is its end."""
        pieces: list[bytes] = []
        try:
            while self._read.pending:
                data = tls.read(RECORD)  # all of a record, so that OpenSSL holds nothing back
                if not data:  # close_notify
                    break
                pieces.append(data)
            else:
                data = b"more"
        except ssl.SSLWantReadError:
            data = b"more"  # the rest of a record is still to come
        except ssl.SSLError as error:
            self._failure, data = error, b""
        assert self._transport is not None
        if self._written.pending:  # a change of keys
            self._transport.write(self._written.read())
        if not data:
            self._transport.close()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
