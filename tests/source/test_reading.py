"""Files are measured before they fill memory, and what is no file of text is refused."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import pytest

from policy_sched.manifests.load import load
from policy_sched.policytest.runner import run_files
from policy_sched.profiles.check.check import check_files
from policy_sched.simulate.traces import load_traces
from policy_sched.source import reading


def test_a_file_and_its_packed_form(tmp_path: Path) -> None:
    """A file of many chunks is read whole, packed or not, and in several members."""
    data = b"name: x\n" * 400_000
    (tmp_path / "a").write_bytes(data)
    (tmp_path / "a.gz").write_bytes(gzip.compress(data) + gzip.compress(b"end"))
    assert reading.read_bytes(tmp_path / "a") == data
    assert reading.read_bytes(tmp_path / "a.gz") == data + b"end"


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """1 MB that unpacks to a gigabyte was unpacked; now it ends where the ratio is passed."""
    (tmp_path / "a.gz").write_bytes(gzip.compress(b" " * (reading.SMALL + 1)))
    with pytest.raises(OSError, match="more than 200 times larger; unpack it with gunzip"):
        reading.read_bytes(tmp_path / "a.gz")


def test_a_sparse_file_is_not_read(tmp_path: Path) -> None:
    """A sparse file of a terabyte is refused by its size, everywhere; one of zeros at the first."""
    for name in ("a.yaml", "a.json", "a.jsonl", "a.csv"):
        with open(tmp_path / name, "wb") as file:
            file.truncate(1 << 40)
        path = str(tmp_path / name)
        for told in (
            load([path]).diagnostics,
            check_files([path]),
            load_traces([path]).diagnostics,
        ):
            assert [
                f"it has {1 << 40} bytes, more than" in message.message for message in told
            ] == [True]
    with pytest.raises(OSError, match="more than 1048576; split it"):
        run_files([str(tmp_path / "a.yaml")])
    with open(tmp_path / "zero.yaml", "wb") as file:
        file.truncate(reading.MAX_BYTES)
    (problem,) = load([str(tmp_path / "zero.yaml")]).diagnostics
    assert problem.message == "the character U+0000 is not allowed in YAML"


def test_pipes_and_devices(tmp_path: Path) -> None:
    """A named pipe without a writer made a command wait for ever; a device never ended."""
    os.mkfifo(tmp_path / "a.yaml")
    for path, what in ((str(tmp_path / "a.yaml"), "a named pipe"), ("/dev/zero", "a device")):
        with pytest.raises(OSError, match=f"it is {what}, not a regular file"):
            reading.read_bytes(path)
    assert reading.read_bytes("/dev/null") == b""


def test_the_pipe_of_a_shell() -> None:
    """<(kubectl get -o json) is a pipe without a name, and is read."""
    reader, writer = os.pipe()
    os.write(writer, b"x: 1")
    os.close(writer)
    try:
        assert reading.read_bytes(f"/dev/fd/{reader}") == b"x: 1"
    finally:
        os.close(reader)


def test_a_path_with_nul() -> None:
    """A path that YAML gives may hold NUL, which no file system has: an error, not a crash."""
    with pytest.raises(OSError, match="cannot hold the character NUL"):
        reading.read_bytes("a\0b")


def test_a_stream_without_end() -> None:
    """Standard input is read up to a limit."""
    with pytest.raises(OSError, match="larger than 100 characters"):
        reading.read_stream(io.StringIO("x" * 101), "-", 100)
    assert reading.read_stream(io.StringIO("x" * 100), "-", 100) == "x" * 100
