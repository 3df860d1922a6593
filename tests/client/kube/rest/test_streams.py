"""Streams on connections of their own: who gets their lines, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from policy_sched.client.kube.rest.client import Api
from policy_sched.client.kube.rest.errors import Unreachable
from policy_sched.client.kube.rest.settings import Settings
from policy_sched.client.kube.rest.streams import HELD
from policy_sched.client.kube.rest.transport import LineStream
from tests.client.kube.stage import Asked, Script, Wire, acted, stage

LONG = 60.0


def streamed(script: Script, play: Any) -> None:
    """Play with the client of a server that follows a script."""

    async def acting() -> None:
        async with stage(script) as here, here.api(Settings()) as api:
            await play(api)

    acted(acting())


def test_lines_go_to_a_function_as_they_come() -> None:
    """Each line of a watch woke a task, which had to be waited for; what is held is not lost."""

    async def script(asked: Asked, wire: Wire) -> None:
        await wire.begin()
        await wire.chunk(b"first\nsec")
        await wire.chunk(b"ond\nthird\n")
        await wire.end()

    taken: list[bytes] = []
    yielded: list[bytes] = []

    async def play(api: Api) -> None:
        async with api.stream("/x", {}, LONG) as stream:
            async for lines in stream:
                yielded.extend(lines)
                stream.direct(taken.extend)

    streamed(script, play)
    assert yielded[0] == b"first"
    assert [*yielded, *taken] == [b"first", b"second", b"third"]


async def read(api: Api, silence: float, taken: Callable[[LineStream], None]) -> None:
    """Read a stream to its end; ``taken`` is called when it is open."""
    async with api.stream("/x", {}, silence) as stream:
        taken(stream)
        async for _ in stream:
            pass


@pytest.mark.parametrize("end", [b"", b"0\r\n\r\n"])
def test_what_a_function_raises_ends_the_stream(end: bytes) -> None:
    """The reader gets it, also where the end came with the line, as that of a watch too old."""
    ready = asyncio.Event()

    async def script(asked: Asked, wire: Wire) -> None:
        await wire.begin()
        await ready.wait()
        await wire.raw(b"6\r\nfirst\n\r\n" + end)

    def take(lines: list[bytes]) -> None:
        raise LookupError(lines[0].decode())

    def taken(stream: LineStream) -> None:
        stream.direct(take)
        ready.set()

    async def play(api: Api) -> None:
        with pytest.raises(LookupError, match="first"):
            await read(api, LONG, taken)

    streamed(script, play)


def test_a_reader_that_does_not_read_holds_the_server_up() -> None:
    """What waits for a reader is bounded, and all of it arrives."""
    line = b"x" * 65_535 + b"\n"
    count = 8 * HELD // len(line)

    async def script(asked: Asked, wire: Wire) -> None:
        await wire.begin()
        for _ in range(count):
            await wire.chunk(line)
        await wire.end()

    sizes: list[int] = []

    async def play(api: Api) -> None:
        async with api.stream("/x", {}, LONG) as stream:
            async for lines in stream:
                for _ in range(50):
                    await asyncio.sleep(0)
                sizes.append(len(lines))

    streamed(script, play)
    assert sum(sizes) == count
    assert max(sizes) * len(line) <= 2 * HELD


def test_a_stream_that_is_silent_is_given_up() -> None:
    """A dead peer that something on the way holds open is noticed."""

    async def script(asked: Asked, wire: Wire) -> None:
        await wire.begin()
        await wire.chunk(b"first\n")
        await asyncio.Event().wait()

    async def play(api: Api) -> None:
        with pytest.raises(Unreachable, match="no response in time"):
            await read(api, 0.01, lambda _: None)

    streamed(script, play)
