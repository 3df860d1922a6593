"""Lines of a log: when they are written, and files that are not writable."""

from __future__ import annotations

import asyncio
import io
import resource
from pathlib import Path

import pytest

from policy_sched.instance.observability.log import LineWriter


class File(io.BytesIO):
    """Counts its flushes; can be broken."""

    def __init__(self) -> None:
        super().__init__()
        self.flushed = 0
        self.broken = False

    def flush(self) -> None:
        """Count."""
        if self.broken:
            raise BrokenPipeError("nobody reads")
        self.flushed += 1


def test_lines_of_one_turn_are_handed_on_together() -> None:
    """They are written when the turn has ended."""
    file = File()
    write = LineWriter(file)

    async def turn() -> None:
        for number in range(3):
            write(b"%d\n" % number)
        assert file.flushed == 0
        await asyncio.sleep(0)
        assert file.flushed == 1
        write(b"3\n")
        await asyncio.sleep(0)

    asyncio.run(turn())
    assert file.flushed == 2
    assert file.getvalue() == b"0\n1\n2\n3\n"


def test_without_an_event_loop_each_line_is_written_at_once() -> None:
    """Lines before the loop runs, and after it, do not wait for a turn."""
    file = File()
    LineWriter(file)(b"Loaded policies\n")
    assert file.flushed == 1


def test_a_file_that_cannot_be_written_is_an_error_of_the_next_line() -> None:
    """A process does not write for long into a pipe without a reader."""
    file = File()
    write = LineWriter(file)

    async def turn() -> None:
        file.broken = True
        write(b"x\n")
        await asyncio.sleep(0)
        with pytest.raises(BrokenPipeError):
            write(b"x\n")

    asyncio.run(turn())


def test_a_full_disk_costs_lines_and_not_the_process(tmp_path: Path) -> None:
    """`run` ended when the disk that its log goes to was full."""
    path = tmp_path / "log"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open(path, "wb") as file:
        write = LineWriter(file)
        write(b"first\n")
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
        try:
            write(b"second\n")
            write(b"third\n")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert (write.lost, write.writable) == (2, False)
        write(b"fourth\n")
        assert (write.lost, write.writable) == (2, True)
    assert path.read_bytes() == b"first\nseco\nfourth\n"
