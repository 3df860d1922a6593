"""Measures scheduling through the API: server, scheduler and creator of pods are three processes.

Theory of operation. The nodes and the pods that are there before are created through the API;
then the scheduler is started as an operator starts it, with events and its lease, and reads them.
In the first phase all pods are created as fast as the server takes them while the scheduler binds
them. In the second the same happens to fewer pods, and meanwhile every watch of pods becomes too
old, so that all pods are read again, and another policy comes into force. At the end the scheduler
compares its cache with the cluster. What counts as bound, and when, the API server has recorded;
the scheduler itself reports how long its event loop was blocked.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from policy_sched.bench.api_processes import (
    PATIENCE,
    SchedulerProcess,
    ServerProcess,
    Usage,
    api_server,
    create_bound,
    create_nodes,
    create_pending,
    scheduler,
    usage,
)
from policy_sched.bench.in_process import Latency, machine
from policy_sched.client.kube.auth import load
from policy_sched.client.kube.rest import Api, Environment, Settings
from policy_sched.client.kube.time import Clocks
from policy_sched.errors import PolicySchedError
from policy_sched.report import Document

NAME: Final = "API"
NODES: Final = 5_000
PODS: Final = 10_000
EXISTING: Final = 30_000
QPS: Final = 5_000
"""Requests a second that the scheduler's client may make, as scheduler_perf sets it; the default
of 50 would be all that is measured."""
DISTURBED: Final = 5
"""In the second phase there are so many times fewer pods."""
CLOCKS: Final = Clocks(time.time_ns, time.monotonic_ns)
_MAY_BLOCK: Final = 0.2
_BLOCKED: Final = "policy_sched_event_loop_longest_block_seconds"
_BUSY: Final = "policy_sched_event_loop_longest_block_cpu_seconds"
_POLICY: Final = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Crowd}
spec:
  filter:
  - expression: node.podCount < 200 || pod.priority > 0
    message: too many pods
  score:
    expression: 100 - min(100, node.podCount)
"""


@dataclass(frozen=True, slots=True)
class Phase:
    """What became of the pods of one phase.

    ``seconds``: from the creation of the first to the binding of the last; ``creating``: to the
    creation of the last. ``latency``: from creation to binding, in us. The usages are those of
    the phase alone, but for sizes, which are those at its end.
    """

    name: str
    pods: int
    seconds: float
    creating: float
    latency: Latency
    requests: dict[str, int]
    scheduler: Usage | None
    server: Usage | None

    @property
    def pods_per_second(self) -> float:
        """The sustained rate."""
        return self.pods / self.seconds


@dataclass(frozen=True, slots=True)
class Result:
    """All phases; how long a turn of the event loop took at most, and its processor time, in s."""

    nodes: int
    existing: int
    tls: bool
    phases: tuple[Phase, ...]
    sync_seconds: float
    blocked: float
    blocked_busy: float

    def text_lines(self) -> Iterator[str]:
        """Yield the result for people."""
        yield (
            f"{NAME}: {self.nodes} nodes, {self.existing} pods there before; API server, scheduler"
            f" and creator of pods in processes of their own, {'TLS' if self.tls else 'no TLS'};"
            f" client limited to {QPS} requests/s"
        )
        for phase in self.phases:
            yield f"  {phase.name}: {phase.pods} pods, {phase.pods_per_second:,.0f} pods/s bound"
            p50, p99, longest = (
                one / 1e3
                for one in (phase.latency.p50_us, phase.latency.p99_us, phase.latency.max_us)
            )
            yield (
                f"    from creation to binding p50 {p50:,.0f} ms   p99 {p99:,.0f} ms"
                f"   max {longest:,.0f} ms; created within {phase.creating:.1f} s,"
                f" bound within {phase.seconds:.1f} s"
            )
            for name, used in (("scheduler", phase.scheduler), ("server", phase.server)):
                if used is not None:
                    each = used.cpu_seconds / phase.pods * 1e6
                    yield (
                        f"    {name}: {used.cpu_seconds:.2f} s of CPU ({each:,.0f} us a pod),"
                        f" {used.rss_mib:,.0f} MiB resident, {used.peak_mib:,.0f} MiB at most"
                    )
            found = sorted(phase.requests.items(), key=lambda one: -one[1])
            yield "    requests: " + ", ".join(f"{count} {name}" for name, count in found)
        yield f"  the cluster was read {self.sync_seconds:.1f} s after the scheduler's start"
        blocked, busy = self.blocked * 1e3, self.blocked_busy * 1e3
        verdict = "below" if self.blocked < _MAY_BLOCK else "NOT below"
        yield (
            f"  the event loop was never held longer than {blocked:.0f} ms, {verdict} 200 ms,"
            f" and no turn of it used more than {busy:.0f} ms of a processor"
        )

    def document(self) -> Document:
        """Return the result as plain data; rate and latencies at its top are those of phase one."""
        first = self.phases[0]
        return {
            "workload": NAME,
            "nodes": self.nodes,
            "existing": self.existing,
            "tls": self.tls,
            "pods": first.pods,
            "pods_per_second": round(first.pods_per_second),
            "p50_ms": round(first.latency.p50_us / 1e3, 1),
            "p99_ms": round(first.latency.p99_us / 1e3, 1),
            "longest_block_ms": round(self.blocked * 1e3, 1),
            "longest_block_cpu_ms": round(self.blocked_busy * 1e3, 1),
            "first_sync_seconds": round(self.sync_seconds, 2),
            "client_qps": QPS,
            "phases": {phase.name: _phase_document(phase) for phase in self.phases},
            **machine(),
        }


async def run_api(
    nodes: int = NODES, pods: int = PODS, existing: int = EXISTING, *, tls: bool = False
) -> Result:
    """Run both phases, with TLS or without. Raises PolicySchedError if a pod is not bound."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        async with api_server(directory, tls=tls) as server:
            kubeconfig = directory / "kubeconfig"
            access = load([kubeconfig], CLOCKS)
            environment = Environment(CLOCKS, Random(0))  # noqa: S311 - jitter
            async with Api(access, environment, Settings(qps=0)) as api:
                await create_nodes(api, nodes)
                await create_bound(api, existing, nodes)
                options = options_of(directory, kubeconfig, _POLICY, [])
                began = time.perf_counter()
                async with scheduler(directory, options) as running:
                    await running.wait_for("Read the cluster")
                    synced = time.perf_counter() - began
                    run = _Run(api, server, running)
                    first = await run.phase("create and bind", 0, pods)
                    fewer = max(1, pods // DISTURBED)
                    second = await run.disturbed(directory, pods, fewer)
                    await running.state()
                    await running.wait_for("Cache comparer finished")
                    state = await running.state()
    held = _values(state["metrics"])
    phases = first, second
    return Result(nodes, existing, tls, phases, synced, held[_BLOCKED], held[_BUSY])


def options_of(
    directory: Path,
    kubeconfig: Path,
    policy: str,
    enabled: list[str],
    more: Mapping[str, object] | None = None,
) -> list[str]:
    """Return the options of a scheduler with policies and those plugins, in a directory.

    ``more``: of its configuration.
    """
    policies = directory / "policies"
    policies.mkdir()
    (policies / "policy.yaml").write_text(policy, encoding="utf-8")
    configure(directory, enabled, more)
    config = str(directory / "config.yaml")
    files = ["--kubeconfig", str(kubeconfig), "--config", config, "--policies", str(policies)]
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


class _Run:
    """A server and a scheduler that are up."""

    def __init__(self, api: Api, server: ServerProcess, running: SchedulerProcess) -> None:
        self._api = api
        self._server = server
        self._scheduler = running

    async def phase(self, name: str, first: int, pods: int) -> Phase:
        """Create pods and wait until they are bound."""
        before = await self._begin()
        await create_pending(self._api, first, pods)
        await self._bound(pods)
        return await self._ended(name, pods, before)

    async def disturbed(self, directory: Path, first: int, pods: int) -> Phase:
        """Do so while everything is read again and other policies come into force."""
        before = await self._begin()
        half = pods // 2
        await create_pending(self._api, first, half)
        await self._server.request("forget")
        configure(directory, ["Crowd"])
        await create_pending(self._api, first + half, pods - half)
        await self._bound(pods)
        await self._scheduler.wait_for("Reloaded policies")
        return await self._ended("relist and reload", pods, before)

    async def _begin(self) -> tuple[Usage | None, Usage | None]:
        await self._server.request("begin")
        self._scheduler.forget_log()
        return self._usages()

    async def _bound(self, pods: int) -> None:
        until = time.perf_counter() + PATIENCE
        while (found := await self._server.request("count"))["bound"] < pods:
            if time.perf_counter() > until:
                raise PolicySchedError(f"{found['bound']} of {pods} pods are bound")
            await self._api.environment.sleep(0.05)

    async def _ended(
        self, name: str, pods: int, before: tuple[Usage | None, Usage | None]
    ) -> Phase:
        now = self._usages()
        found = await self._server.request("report")
        used = [_less(after, earlier) for after, earlier in zip(now, before, strict=True)]
        latency = Latency.of(found["latencies"])
        seconds, creating = found["seconds"], found["creating"]
        return Phase(name, pods, seconds, creating, latency, found["requests"], *used)

    def _usages(self) -> tuple[Usage | None, Usage | None]:
        return usage(self._scheduler.pid), usage(self._server.pid)


def _less(after: Usage | None, before: Usage | None) -> Usage | None:
    """Return what was used between two moments."""
    if after is None or before is None:
        return None
    return Usage(after.cpu_seconds - before.cpu_seconds, after.rss_mib, after.peak_mib)


def _values(text: str) -> dict[str, float]:
    """Return the metrics without labels of Prometheus' text format."""
    families = text_string_to_metric_families(text)
    return {s.name: s.value for family in families for s in family.samples if not s.labels}


def _phase_document(phase: Phase) -> Document:
    return {
        "pods": phase.pods,
        "pods_per_second": round(phase.pods_per_second),
        "seconds": round(phase.seconds, 3),
        "creating_seconds": round(phase.creating, 3),
        "p50_ms": round(phase.latency.p50_us / 1e3, 1),
        "p99_ms": round(phase.latency.p99_us / 1e3, 1),
        "max_ms": round(phase.latency.max_us / 1e3, 1),
        "scheduler": _usage_document(phase.scheduler),
        "server": _usage_document(phase.server),
        "requests": phase.requests,
    }


def _usage_document(used: Usage | None) -> dict[str, Any] | None:
    if used is None:
        return None
    return {name: round(value, 2) for name, value in asdict(used).items()}
