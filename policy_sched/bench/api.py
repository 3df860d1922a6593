"""Measures scheduling through the API: server, scheduler and creator of pods are three processes.

Theory of operation. The processes are those of `api_processes`. In the first phase all pods are
created as fast as the server takes them while the scheduler binds them. In the second the same
happens to fewer pods, and meanwhile every watch of pods becomes too old, so that all pods are read
again, and another policy comes into force. In the third as many pods come at a rate, as in a
cluster that lives. A phase ends when the scheduler has nothing more to write: its events come after
its bindings. At the end the scheduler compares its cache with the cluster. The API server records
bindings and their times; the scheduler reports how long its event loop was blocked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from policy_sched.bench.api_processes import (
    POD_PATH,
    QPS,
    ProcessUsage,
    Session,
    bound_pods,
    create,
    pending,
    plain_nodes,
    session,
    usage,
)
from policy_sched.bench.result import Latency, Result
from policy_sched.profiles.load import load_policies

NAME: Final = "API"
NODES: Final = 5_000
PODS: Final = 10_000
EXISTING: Final = 30_000
FEWER: Final = 5
"""In the second and third phase there are so many times fewer pods."""
RATE: Final = 50
"""Pods a second in the third phase."""
_MAY_BLOCK_MS: Final = 200
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


class ApiPhase(msgspec.Struct, frozen=True):
    """The pods of one phase, and their latencies.

    Percentiles are from creation to binding. Usages are those of the phase, until the last event is
    written; sizes are those at its end.
    """

    pods: int
    pods_per_second: int
    seconds: float
    """From the creation of the first to the binding of the last."""
    creating_seconds: float
    """To the creation of the last."""
    p50_ms: float
    p99_ms: float
    max_ms: float
    scheduler: ProcessUsage | None
    server: ProcessUsage | None
    requests: dict[str, int]

    def text_lines(self, name: str) -> Iterator[str]:
        """Yield the phase for people."""
        yield f"  {name}: {self.pods} pods, {self.pods_per_second:,} pods/s bound"
        yield (
            f"    from creation to binding p50 {self.p50_ms:,.0f} ms   p99 {self.p99_ms:,.0f} ms"
            f"   max {self.max_ms:,.0f} ms; created within {self.creating_seconds:.1f} s,"
            f" bound within {self.seconds:.1f} s"
        )
        for process, used in (("scheduler", self.scheduler), ("server", self.server)):
            if used is not None:
                each = used.cpu_seconds / self.pods * 1e6
                yield (
                    f"    {process}: {used.cpu_seconds:.2f} s of CPU ({each:,.0f} us a pod),"
                    f" {used.rss_mib:,.0f} MiB resident, {used.peak_mib:,.0f} MiB at most"
                )
        counts = sorted(self.requests.items(), key=lambda item: -item[1])
        yield "    requests: " + ", ".join(f"{count} {verb}" for verb, count in counts)


class ThroughApi(Result, frozen=True):
    """All phases; rate and percentiles at the top are those of the first."""

    nodes: int
    existing: int
    tls: bool
    pods: int
    pods_per_second: int
    p50_ms: float
    p99_ms: float
    longest_block_ms: float
    """How long a turn of the event loop took at most, and its processor time."""
    longest_block_cpu_ms: float
    first_sync_seconds: float
    start: ProcessUsage | None
    """ProcessUsage of the scheduler when it had read the cluster."""
    client_qps: int
    phases: dict[str, ApiPhase]

    def text_lines(self) -> Iterator[str]:
        """Yield the result for people."""
        yield (
            f"{NAME}: {self.nodes} nodes, {self.existing} pods there before; API server, scheduler"
            f" and creator of pods in processes of their own, {'TLS' if self.tls else 'no TLS'};"
            f" client limited to {self.client_qps} requests/s"
        )
        for name, phase in self.phases.items():
            yield from phase.text_lines(name)
        read = f"{self.first_sync_seconds:.1f} s after the scheduler's start"
        yield f"  the cluster was read {read}{self._start()}"
        verdict = "below" if self.longest_block_ms < _MAY_BLOCK_MS else "NOT below"
        yield (
            f"  the event loop was never held longer than {self.longest_block_ms:.0f} ms, {verdict}"
            f" {_MAY_BLOCK_MS} ms, and no turn of it used more than {self.longest_block_cpu_ms:.0f}"
            " ms of a processor"
        )

    def _start(self) -> str:
        """Return what the start used, alone and as a part of what each pod of a phase took."""
        first = next(iter(self.phases.values())).scheduler
        if self.start is None or first is None:
            return ""
        used = self.start.cpu_seconds
        each = (used + first.cpu_seconds) / self.pods * 1e6
        return f", with {used:.2f} s of CPU; with that the first phase takes {each:,.0f} us a pod"


async def run_api(
    nodes: int = NODES,
    pods: int = PODS,
    existing: int = EXISTING,
    *,
    rate: int = RATE,
    tls: bool = False,
    policies: Sequence[str] = (),
) -> ThroughApi:
    """Run all phases, with TLS or without; ``policies`` take part, or are audited, in each.

    Raises PolicySchedError if a pod is not bound.
    """
    objects = plain_nodes(nodes), bound_pods(existing, nodes)
    fewer = max(1, pods // FEWER)
    names = [policy.name for policy in load_policies(policies)[0]]
    async with session(objects, _POLICY, names, policies=policies, tls=tls) as running:
        first = await _phase(running, 0, pods)
        second = await _disturbed(running, pods, fewer, [*names, "Crowd"])
        third = await _live(running, pods + fewer, fewer, rate)
        await running.scheduler.state()
        await running.scheduler.wait_for("Cache comparer finished")
        state = await running.scheduler.state()
    held = _values(state["metrics"])
    return ThroughApi(
        workload=NAME,
        nodes=nodes,
        existing=existing,
        tls=tls,
        pods=first.pods,
        pods_per_second=first.pods_per_second,
        p50_ms=first.p50_ms,
        p99_ms=first.p99_ms,
        longest_block_ms=round(held[_BLOCKED] * 1e3, 1),
        longest_block_cpu_ms=round(held[_BUSY] * 1e3, 1),
        first_sync_seconds=round(running.sync_seconds, 2),
        start=running.start,
        client_qps=QPS,
        phases={
            "create and bind": first,
            "relist and reload": second,
            f"{rate} pods/s": third,
        },
    )


async def _phase(running: Session, first: int, pods: int) -> ApiPhase:
    """Create pods and wait until they are bound."""
    before = await _begin(running)
    await create(running.api, POD_PATH, pending(first, pods))
    await running.bound(pods)
    return await _ended(running, pods, before)


async def _disturbed(running: Session, first: int, pods: int, enabled: list[str]) -> ApiPhase:
    """Do so while everything is read again and other policies come into force."""
    before = await _begin(running)
    half = pods // 2
    await create(running.api, POD_PATH, pending(first, half))
    await running.server.request("forget")
    running.configure(enabled)
    await create(running.api, POD_PATH, pending(first + half, pods - half))
    await running.bound(pods)
    await running.scheduler.wait_for("Reloaded policies")
    return await _ended(running, pods, before)


async def _live(running: Session, first: int, pods: int, rate: int) -> ApiPhase:
    """Let pods come at a rate."""
    before = await _begin(running)
    await running.create_pods(range(first, first + pods), rate)
    await running.bound(pods)
    return await _ended(running, pods, before)


async def _begin(running: Session) -> tuple[ProcessUsage | None, ProcessUsage | None]:
    await running.server.request("begin")
    running.scheduler.forget_log()
    return _usages(running)


async def _ended(
    running: Session, pods: int, before: tuple[ProcessUsage | None, ProcessUsage | None]
) -> ApiPhase:
    await running.quiet()
    now = _usages(running)
    report = await running.server.request("report")
    scheduler, server = (_less(after, earlier) for after, earlier in zip(now, before, strict=True))
    seconds, creating = report["seconds"], report["creating"]
    percentiles = Latency.of(report["latencies"]).milliseconds
    times = round(seconds, 3), round(creating, 3)
    requests = report["requests"]
    return ApiPhase(pods, round(pods / seconds), *times, *percentiles, scheduler, server, requests)


def _usages(running: Session) -> tuple[ProcessUsage | None, ProcessUsage | None]:
    return usage(running.scheduler.pid), usage(running.server.pid)


def _less(after: ProcessUsage | None, before: ProcessUsage | None) -> ProcessUsage | None:
    """Return what was used between two moments."""
    if after is None or before is None:
        return None
    used = after.cpu_seconds - before.cpu_seconds
    return ProcessUsage(round(used, 2), round(after.rss_mib, 2), round(after.peak_mib, 2))


def _values(text: str) -> dict[str, float]:
    """Return the metrics without labels of Prometheus' text format."""
    families = text_string_to_metric_families(text)
    return {s.name: s.value for family in families for s in family.samples if not s.labels}
