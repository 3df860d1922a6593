"""A server on loopback that does exactly what a test's script says, right or wrong."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import parse_qs, urlsplit

from policy_sched.client.kube.auth.credentials import ClusterAccess, Credentials, Trust
from policy_sched.client.kube.rest.client import Api
from policy_sched.client.kube.rest.settings import ClientEnvironment, Settings
from policy_sched.client.kube.time.work_queue import Clocks
from policy_sched.testing import FakeClock
from tests.accepting import stop_accepting

WALL = 1_800_000_000_000_000_000
"""Where the wall clock of these tests begins."""
LONGEST = 60.0
"""Seconds after which a play is given up; none takes that long, however busy the machine."""


@dataclass
class Asked:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    lines: tuple[str, ...] = ()
    """The headers as they came, a name as often as it came."""

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


class Wire:
    """One connection, as a script writes to it."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer

    async def raw(self, data: bytes) -> None:
        """Write bytes."""
        self.writer.write(data)
        await self.writer.drain()

    async def respond(self, status: int = 200, body: Any = None, **headers: str) -> None:
        """Write a whole answer; ``body`` is bytes or plain data."""
        data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        named = "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in headers.items())
        head = f"HTTP/1.1 {status} X\r\n{named}Content-Length: {len(data)}\r\n\r\n"
        await self.raw(head.encode() + data)

    async def begin(self) -> None:
        """Begin a stream."""
        await self.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def chunk(self, data: bytes) -> None:
        """Write a chunk of the stream."""
        await self.raw(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def line(self, kind: str, thing: Any) -> None:
        """Write a line of a watch."""
        await self.chunk(json.dumps({"type": kind, "object": thing}).encode() + b"\n")

    async def end(self) -> None:
        """End the stream as it should end."""
        await self.raw(b"0\r\n\r\n")

    def cut(self) -> None:
        """Break the connection."""
        self.writer.transport.abort()


Script = Callable[[Asked, Wire], Awaitable[None]]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Stage:
    """What came, and the clock and the sleeps of the client."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    monotonic: FakeClock = field(default_factory=FakeClock)
    wall: FakeClock = field(default_factory=lambda: FakeClock(WALL))
    slept: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        """Let the clocks go on instead of waiting."""
        self.slept.append(seconds)
        self.monotonic.advance(seconds)
        self.wall.advance(seconds)
        await asyncio.sleep(0)

    @property
    def environment(self) -> ClientEnvironment:
        """Time, randomness and sleep of the client."""
        return ClientEnvironment(Clocks(self.wall, self.monotonic), Random(1), self.sleep)

    def api(
        self,
        settings: Settings | None = None,
        credentials: Credentials | None = None,
        trust: Trust | None = None,
    ) -> Api:
        """Return a client of this stage."""
        parts: dict[str, Any] = {"credentials": credentials} if credentials else {}
        access = ClusterAccess(self.url, trust or Trust(), **parts)
        return Api(access, self.environment, settings)


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head.split("\r\n")
    method, target, _ = first.split(" ")
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines) if k}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    query = {k: v[0] for k, v in parse_qs(parts.query, keep_blank_values=True).items()}
    return Asked(method, parts.path, query, headers, body, tuple(line for line in lines if line))


@asynccontextmanager
async def stage(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[Stage]:
    """Serve a script, called for each request; the connection goes on if the script left it."""
    found = Stage()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(writer)
        while (asked := await _read(reader)) is not None:
            found.asked.append(asked)
            await script(asked, wire)

    async with listening(serve, tls) as port:
        found.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        yield found


@asynccontextmanager
async def listening(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve connections until the block ends, which ends them all; yield the port."""
    tasks: set[asyncio.Task[None]] = set()
    writers: set[asyncio.StreamWriter] = set()

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        task = asyncio.create_task(served(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await stop_accepting(server)
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in writers:  # what was not read, or a task that never began
            if not writer.is_closing():
                writer.transport.abort()


def acted(play: Coroutine[Any, Any, None]) -> None:
    """Run a play; one that hangs fails."""

    async def timed() -> None:
        async with asyncio.timeout(LONGEST):
            await play

    asyncio.run(timed())


def pod(name: str, version: int, uid: str = "", **spec: Any) -> dict[str, Any]:
    """Return a pod's JSON."""
    meta = {"name": name, "namespace": "default", "uid": uid or name}
    meta["resourceVersion"] = str(version)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def status(code: int, reason: str, message: str = "no", **details: Any) -> dict[str, Any]:
    """Return a Status."""
    said = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**said, "message": message, "reason": reason, "details": details, "code": code}


def bookmark(version: int, *, end: bool = False) -> dict[str, Any]:
    """Return the object of a bookmark."""
    meta: dict[str, Any] = {"resourceVersion": str(version)}
    if end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta}
