"""A proxy in front of an API server that remembers what was asked of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

REQUEST = re.compile(rb"^([A-Z]+) (\S+) HTTP/1\.1\r\n", re.MULTILINE)


class Recording:
    """Passes bytes on, both ways; ``requests`` are methods and paths in order."""

    def __init__(self, port: int) -> None:
        self.requests: list[tuple[str, str]] = []
        self.port = 0
        self._upstream = port
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Listen on loopback."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def writes(self) -> list[tuple[str, str]]:
        """What was asked for and is no GET."""
        return [one for one in self.requests if one[0] != "GET"]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._upstream)
        for source, target, record in ((reader, back, True), (there, writer, False)):
            task = asyncio.create_task(self._pass(source, target, record=record))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, record: bool
    ) -> None:
        try:
            while data := await source.read(1 << 16):
                if record:
                    found = REQUEST.findall(data)
                    self.requests += [(m.decode(), path.decode()) for m, path in found]
                target.write(data)
                await target.drain()
        except ConnectionError:
            pass
        finally:
            target.close()
