"""A proxy in front of an API server that records requests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.accepting import stop_accepting

REQUEST = re.compile(rb"^([A-Z]+) (\S+) HTTP/1\.1\r\n", re.MULTILINE)


class Recording:
    """Passes bytes on, both ways; ``requests`` are methods and paths in order.

    ``unanswered``: the first request whose line matches is forwarded, and its response is dropped.
    """

    def __init__(self, port: int, unanswered: str = "") -> None:
        self._unanswered = re.compile(unanswered.encode()) if unanswered else None
        self.requests: list[tuple[str, str]] = []
        self.port = 0
        self._upstream = port
        self._connecting: set[asyncio.Task[Any]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Listen on loopback."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            await stop_accepting(server)
            server.close()
            if self._connecting:
                await asyncio.wait(self._connecting)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def writes(self) -> list[tuple[str, str]]:
        """The recorded requests other than GET."""
        return [one for one in self.requests if one[0] != "GET"]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connecting = asyncio.current_task()
        assert connecting is not None
        self._connecting.add(connecting)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:  # the server is away
            writer.close()
            return
        finally:
            self._connecting.discard(connecting)
        for work in (self._ask(reader, back, writer), self._answer(there, writer)):
            task = asyncio.create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _ask(
        self,
        reader: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        answers: asyncio.StreamWriter,
    ) -> None:
        try:
            while data := await reader.read(1 << 16):
                found = REQUEST.findall(data)
                self.requests += [(m.decode(), path.decode()) for m, path in found]
                if self._unanswered is not None and self._unanswered.search(data):
                    self._unanswered = None
                    answers.close()
                target.write(data)
                await target.drain()
        except ConnectionError:
            pass
        finally:
            target.close()

    async def _answer(self, reader: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                if not target.is_closing():
                    target.write(data)
                    await target.drain()
        except ConnectionError:
            pass
        finally:
            target.close()
