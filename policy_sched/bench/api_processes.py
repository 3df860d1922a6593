"""The processes of ``bench API``, ``Turns`` and ``Hostile``: an API server and a scheduler.

The nodes, and what else is there before, are created through the API; then the scheduler is started
as an operator starts it, with events and its lease, and its log is followed. What a process uses is
read from /proc; without /proc it is left out.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from policy_sched.bench.manifests import Manifest, node, node_name, pod
from policy_sched.client.apimachinery import NODE, POD
from policy_sched.client.kube.auth import load
from policy_sched.client.kube.rest import Api, ClientEnvironment, Settings, collection_path
from policy_sched.client.kube.time import Clocks
from policy_sched.errors import PolicySchedError

TOGETHER: Final = 32
"""Requests that are under way at the same time."""
BATCHES: Final = 50
"""So many times a second pods come that come at a rate."""
QPS: Final = 5_000
"""Requests a second that the scheduler's client may make, as scheduler_perf sets it; the default
of 50 would be all that is measured."""
RACK: Final = "example.com/rack"
RACK_SIZE: Final = 50
ONE_RACK: Final = f"""\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {{name: Together}}
spec:
  matchConditions:
  - pod.podGroup != ""
  placement:
    domain: node.labels["{RACK}"]
"""
"""A policy: pods of a group go to nodes of one rack."""
CLOCKS: Final = Clocks(time.time_ns, time.monotonic_ns)
POD_PATH: Final = collection_path(POD, "default")


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


def plain_nodes(count: int) -> tuple[str, Iterator[Manifest]]:
    """Return nodes of scheduler_perf, with a status as kubelets report it, and their path."""
    return collection_path(NODE), (named(node(i)) for i in range(count))


def racked_nodes(count: int) -> tuple[str, Iterator[Manifest]]:
    """Return such nodes with labels of racks, and their path."""
    return collection_path(NODE), map(racked, range(count))


def bound_pods(count: int, nodes: int) -> tuple[str, Iterator[Manifest]]:
    """Return pods that are bound already, to the nodes in turn, and their path."""
    return POD_PATH, (
        named(pod("there", i, {"nodeName": node_name(i % nodes)})) for i in range(count)
    )


def pending(first: int, count: int) -> Iterator[Manifest]:
    """Yield the pods of SchedulingBasic from a number on."""
    return (named(pod("pod", first + i)) for i in range(count))


def racked(index: int) -> Manifest:
    """Return a node with the label of its rack."""
    return named(node(index, **{RACK: f"rack-{index // RACK_SIZE}"}))


def filling_pod(
    prefix: str, index: int, spec: Manifest | None = None, labels: dict[str, str] | None = None
) -> Manifest:
    """Return a pod that wants a node for itself."""
    wanted = {"cpu": "3900m", "memory": "1Gi"}
    resources: Manifest = {"requests": wanted, "limits": wanted}
    return named(pod(prefix, index, spec, labels=labels, resources=resources))


def named(manifest: Manifest) -> Manifest:
    """Return a manifest as a client sends it: the UID is the server's to give."""
    metadata = manifest["metadata"]
    assert isinstance(metadata, dict)
    del metadata["uid"]
    return manifest


QUIET: Final = 1.0
"""Seconds without a writing request after which all is done."""
PATIENCE: Final = 120.0
"""Seconds after which what has not happened is taken not to happen."""
LOOK: Final = 0.02
"""Seconds between two looks at a log."""
_SERVER: Final = "policy_sched.bench.api_server_process"


class ProcessUsage(msgspec.Struct, frozen=True):
    """What a process and its children that ended have used: processor seconds, resident memory
    and its peak, in MiB."""

    cpu_seconds: float
    rss_mib: float
    peak_mib: float


def usage(pid: int) -> ProcessUsage | None:
    """Return what a process has used so far; None where the system has no /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    ticks = sum(map(int, fields[11:15]))
    sizes = dict(line.split(":", 1) for line in status.splitlines())
    rss, peak = (int(sizes[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
    return ProcessUsage(ticks / os.sysconf("SC_CLK_TCK"), rss, peak)


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
async def scheduler(log: Path, options: list[str]) -> AsyncIterator[SchedulerProcess]:
    """Run a scheduler as an operator would, with a log."""
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


@dataclass(frozen=True, slots=True)
class Session:
    """A server and a scheduler that are up."""

    api: Api
    server: ServerProcess
    scheduler: SchedulerProcess
    directory: Path
    sync_seconds: float
    """From the scheduler's start until it had read the cluster."""
    start: ProcessUsage | None
    """ProcessUsage of the scheduler at that time."""

    async def bound(self, pods: int, patience: float = PATIENCE) -> None:
        """Wait until so many pods are bound. Raises PolicySchedError if they are not in time."""
        until = time.perf_counter() + patience
        while (count := (await self.server.request("count"))["bound"]) < pods:
            if time.perf_counter() > until:
                raise PolicySchedError(f"{count} of {pods} pods are bound")
            await self.api.environment.sleep(0.05)

    async def quiet(self) -> None:
        """Wait until the scheduler has written all, events too. Raises PolicySchedError."""
        until = time.perf_counter() + PATIENCE
        last, since = -1, time.perf_counter()
        while time.perf_counter() - since < QUIET:
            count = (await self.server.request("requests"))["writes"]
            now = time.perf_counter()
            if count != last:
                last, since = count, now
            if now > until:
                raise PolicySchedError(f"requests do not end: {count} so far")
            await self.api.environment.sleep(0.1)

    async def create_pods(self, numbers: range, rate: int) -> None:
        """Create pending pods with these numbers, so many in a second."""
        began, batch = time.perf_counter(), max(1, rate // BATCHES)
        for first in range(0, len(numbers), batch):
            late = began + first / rate - time.perf_counter()
            if late > 0:
                await self.api.environment.sleep(late)
            some = min(batch, len(numbers) - first)
            await create(self.api, POD_PATH, pending(numbers.start + first, some))

    def configure(self, enabled: list[str]) -> None:
        """Enable other plugins, as an editor of the configuration does."""
        configure(self.directory, enabled)


@asynccontextmanager
async def session(
    objects: Iterable[tuple[str, Iterable[Manifest]]],
    policy: str,
    enabled: list[str],
    more: Mapping[str, object] | None = None,
    *,
    policies: Sequence[str] = (),
    tls: bool = False,
) -> AsyncIterator[Session]:
    """Run a server with objects, by the path of their collection, and a scheduler with policies.

    ``enabled``: the plugins of the policies that take part at first; ``more``: of the scheduler's
    configuration; ``policies``: further files.
    """
    with TemporaryDirectory() as name:
        directory = Path(name) / "files"  # is watched: the log is elsewhere
        directory.mkdir()
        async with api_server(directory, tls=tls) as server:
            kubeconfig = directory / "kubeconfig"
            environment = ClientEnvironment(CLOCKS, Random(0))  # noqa: S311 - jitter
            async with Api(load([kubeconfig], CLOCKS), environment, Settings(qps=0)) as api:
                for path, made in objects:
                    await create(api, path, made)
                options = _options(directory, kubeconfig, policy, policies)
                configure(directory, enabled, more)
                began = time.perf_counter()
                async with scheduler(Path(name) / "scheduler.log", options) as running:
                    await running.wait_for("Read the cluster")
                    took = time.perf_counter() - began
                    yield Session(api, server, running, directory, took, usage(running.pid))


def _options(directory: Path, kubeconfig: Path, policy: str, more: Sequence[str]) -> list[str]:
    """Return the options of a scheduler with policies, which are written into a directory."""
    policies = directory / "policies"
    policies.mkdir()
    (policies / "policy.yaml").write_text(policy, encoding="utf-8")
    config = str(directory / "config.yaml")
    files = ["--kubeconfig", str(kubeconfig), "--config", config]
    files += [part for path in (policies, *more) for part in ("--policies", str(path))]
    return [*files, "--secure-port", "0"]  # another scheduler may have the port


def configure(
    directory: Path, enabled: list[str], more: Mapping[str, object] | None = None
) -> None:
    """Write the scheduler's configuration, as editors do."""
    plugins = {"multiPoint": {"enabled": [{"name": name} for name in enabled]}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"qps": QPS, "burst": QPS},
        "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}],
        **(more or {}),
    }
    other = directory / ".config.yaml"
    other.write_text(json.dumps(config), encoding="utf-8")
    other.replace(directory / "config.yaml")


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Close a process's input and wait for its end; kill it if that does not help."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), PATIENCE)
    except TimeoutError:
        process.kill()
        await process.wait()
