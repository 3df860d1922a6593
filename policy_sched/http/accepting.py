"""Accepts connections, a few in each turn of the event loop, and bounds unfinished handshakes.

Theory of operation. asyncio's own server starts a TLS handshake for every connection that comes and
keeps all of them, so clients that connect and say nothing use up file descriptors. Here there are
at most so many unfinished handshakes, and the oldest gives way to a new one. When the process has
no file descriptor left, the server closes a connection that can be spared instead of waiting.
"""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

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


def raise_descriptors() -> None:
    """Raise the soft limit of open files to the hard one, as programs in Go do when they start."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


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
        self._sockets = [one.dup() for one in bound.sockets]
        bound.close()
        for one in self._sockets:
            one.setblocking(False)
            one.listen(QUEUE)
            loop.add_reader(one, self._accept, one)

    async def close(self) -> None:
        """Accept no more; end the handshakes that are not finished."""
        loop = asyncio.get_running_loop()
        for one in self._sockets:
            loop.remove_reader(one)
            one.close()
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
