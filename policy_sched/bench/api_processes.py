"""The processes of ``bench API``: an API server, and a scheduler whose log is followed.

What a process uses is read from /proc; without /proc it is left out.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from policy_sched.bench.manifests import Manifest, node, node_name, pod
from policy_sched.client.apimachinery import NODE, POD
from policy_sched.client.kube.rest import Api, collection_path
from policy_sched.errors import PolicySchedError

TOGETHER: Final = 32
"""Requests that are under way at the same time."""


async def create(api: Api, path: str, things: Iterable[Manifest]) -> None:
    """Create objects, several at a time, in this order. Raises ClusterError."""
    await side_by_side(api.request("POST", path, thing) for thing in things)


async def side_by_side(requests: Iterable[Awaitable[object]]) -> None:
    """Wait for requests, several at a time, in this order. Raises ClusterError."""
    rest = iter(requests)

    async def some() -> None:
        for request in rest:
            await request

    async with asyncio.TaskGroup() as tasks:
        for _ in range(TOGETHER):
            tasks.create_task(some())


async def create_nodes(api: Api, count: int) -> None:
    """Create nodes of scheduler_perf, with a status as kubelets report it."""
    await create(api, collection_path(NODE), (named(node(i)) for i in range(count)))


async def create_bound(api: Api, count: int, nodes: int) -> None:
    """Create pods that are bound already, to the nodes in turn."""
    made = (named(pod("there", i, {"nodeName": node_name(i % nodes)})) for i in range(count))
    await create(api, collection_path(POD, "default"), made)


async def create_pending(api: Api, first: int, count: int) -> None:
    """Create pods that wait for a node."""
    await create(api, collection_path(POD, "default"), pending(first, count))


def pending(first: int, count: int) -> Iterator[Manifest]:
    """Yield the pods of SchedulingBasic from a number on."""
    return (named(pod("pod", first + i)) for i in range(count))


def named(manifest: Manifest) -> Manifest:
    """Return a manifest as a client sends it: the UID is the server's to give."""
    metadata = manifest["metadata"]
    assert isinstance(metadata, dict)
    del metadata["uid"]
    return manifest


PATIENCE: Final = 120.0
"""Seconds after which what has not happened is taken not to happen."""
LOOK: Final = 0.02
"""Seconds between two looks at a log."""
_SERVER: Final = "policy_sched.bench.api_server_process"


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used: processor seconds, resident memory and its peak, in MiB."""

    cpu_seconds: float
    rss_mib: float
    peak_mib: float


def usage(pid: int) -> Usage | None:
    """Return what a process has used so far; None where the system has no /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    sizes = dict(line.split(":", 1) for line in status.splitlines())
    rss, peak = (int(sizes[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), rss, peak)


class ServerProcess:
    """The API server; one question at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    async def request(self, command: str) -> dict[str, Any]:
        """Return the reply to a command. Raises PolicySchedError if the server has ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(command) + b"\n")
        return await self.reply()

    async def reply(self) -> dict[str, Any]:
        """Return the next reply. Raises PolicySchedError if the server has ended."""
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), PATIENCE)
        if not line:
            raise PolicySchedError("the API server of the benchmark has ended")
        return msgspec.json.decode(line, type=dict[str, Any])


@asynccontextmanager
async def api_server(directory: Path, *, tls: bool) -> AsyncIterator[ServerProcess]:
    """Run an API server that leaves its kubeconfig in a directory."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        _SERVER,
        str(directory),
        *(["tls"] if tls else []),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 26,
    )
    try:
        server = ServerProcess(process)
        await server.reply()
        yield server
    finally:
        await _ended(process)


class SchedulerProcess:
    """A scheduler; its log is read on from where it was read last."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log
        self._read = 0

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    async def wait_for(self, message: str) -> dict[str, Any]:
        """Wait for the next record of the log with a message, and return it.

        Raises PolicySchedError if the scheduler ends before, or does not log it.
        """
        wanted = msgspec.json.encode(message)
        loop = asyncio.get_running_loop()
        until = loop.time() + PATIENCE
        while loop.time() < until:
            ended = self._process.returncode is not None
            with self._log.open("rb") as log:
                log.seek(self._read)
                for line in log:
                    if not line.endswith(b"\n"):
                        break
                    self._read += len(line)
                    if wanted in line:
                        return msgspec.json.decode(line, type=dict[str, Any])
            if ended:
                break
            await asyncio.sleep(LOOK)
        raise PolicySchedError(f"the scheduler does not log {message!r}; its log: {self._log}")

    def forget_log(self) -> None:
        """Skip the records so far."""
        self._read = self._log.stat().st_size

    async def state(self) -> dict[str, Any]:
        """Have the scheduler write its state; return that."""
        self.forget_log()
        self._process.send_signal(signal.SIGUSR2)
        return await self.wait_for("State")


@asynccontextmanager
async def scheduler(directory: Path, options: list[str]) -> AsyncIterator[SchedulerProcess]:
    """Run a scheduler as an operator would, with a log in a directory."""
    log = directory / "scheduler.log"
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "policy_sched", "run", *options, stdout=out
        )
    try:
        yield SchedulerProcess(process, log)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await _ended(process)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Close a process's input and wait for its end; kill it if that does not help."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), PATIENCE)
    except TimeoutError:
        process.kill()
        await process.wait()
