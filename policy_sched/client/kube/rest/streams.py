"""Stream: a response that goes on, as that to a watch, on a connection of its own."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final

import aiohttp
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from policy_sched.client.kube.rest.sockets import Response, Socket, disconnected, read_header

HELD: Final = 1 << 20
"""Bytes of a stream that wait for their reader, beyond which nothing more is read."""


class Stream(Socket):
    """A response that goes on, on a connection of its own, and the callbacks of its parser.

    A server that sends nothing for ``silence`` seconds has been lost.
    """

    def __init__(self, context: ssl.SSLContext | None, server_name: str, silence: float) -> None:
        super().__init__(context, server_name)
        self.response = Response()
        self._silence = silence
        self._parser = HttpResponseParser(self)
        self._begun = self._framed = False
        self._ended: Exception | None = None
        self._complete = False
        self._pieces: list[bytes] = []
        self._held = 0
        self._waiting: asyncio.Future[None] | None = None
        self._take: Callable[[bytes], None] | None = None
        self._heard = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def begin(self, request: bytes) -> Response:
        """Send the request, and return the head of its response. Raises what aiohttp raises."""
        self._heard = self.loop.time()
        self._timer = self.loop.call_later(self._silence, self._listen)
        self.write(request)
        while not self._begun:
            await self._more(disconnected(None))
        return self.response

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it comes. Raises what aiohttp raises."""
        while True:
            while not self._pieces:
                if self._complete:
                    return
                await self._more(aiohttp.ClientPayloadError("the connection was closed"))
            pieces, self._pieces, self._held = self._pieces, [], 0
            self.read_on()
            yield pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def direct(self, take: Callable[[bytes], None]) -> None:
        """Call a function with each piece that comes from now on, instead of `pieces`.

        What it raises ends the stream, and `pieces` raises it.
        """
        self._take = take

    def end(self, error: Exception) -> None:
        """End the stream; `pieces` raises the error."""
        self._ended, self._complete = error, False
        self.close()
        self._wake()

    async def body(self, longest: int) -> bytes:
        """Return as much of the body as is needed. Raises what aiohttp raises."""
        read = bytearray()
        async with aclosing(self.pieces()) as pieces:
            async for piece in pieces:
                read += piece
                if len(read) > longest:
                    break
        return bytes(read)

    def close(self) -> None:
        """Close the connection."""
        if self._timer is not None:
            self._timer.cancel()
        super().close()

    async def _more(self, closed: Exception) -> None:
        """Wait for anything; raise why nothing comes, ``closed`` for the end of the connection."""
        if self._ended is not None:
            raise self._ended
        if self.closed:
            raise closed
        self._waiting = self.loop.create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _listen(self) -> None:
        """Give up a server that has been silent for long."""
        until = self._heard + self._silence
        if self.paused or self.loop.time() < until:
            until = max(until, self.loop.time() + 1)
            self._timer = self.loop.call_at(until, self._listen)
            return
        self._ended = self._ended or TimeoutError()
        self.close()
        self._wake()

    # The socket's callbacks.

    def received(self, data: bytes) -> None:
        """Parse."""
        self._heard = self.loop.time()
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._ended = aiohttp.ClientPayloadError(str(error))
            self.close()
        take, pieces = self._take, self._pieces
        if take is not None and pieces:
            self._pieces, self._held = [], 0
            try:
                take(pieces[0] if len(pieces) == 1 else b"".join(pieces))
            except Exception as error:  # noqa: BLE001 - the reader raises it
                self.end(error)
        if self._held > HELD:
            self.pause()
        if take is None or self._complete or self.closed:
            self._wake()

    def lost(self, error: Exception | None) -> None:
        """Note the end of a response that has no other end, or that the rest does not come."""
        if isinstance(error, OSError):
            self._ended = self._ended or disconnected(error)
        elif self._begun and not self._framed and self._ended is None:
            self._complete = True
        self._wake()

    # httptools' callbacks.

    def on_message_begin(self) -> None:
        """A response begins."""
        self.response = Response()
        self._framed = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep the headers that are read."""
        self._framed = read_header(self.response, name, value) or self._framed

    def on_headers_complete(self) -> None:
        """Note the status; an interim response is followed by another one."""
        self.response.status = self._parser.get_status_code()
        self._begun = self.response.status >= 200

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body."""
        self._pieces.append(body)
        self._held += len(body)

    def on_message_complete(self) -> None:
        """The response is complete, unless it is an interim one."""
        self._complete = self._begun
