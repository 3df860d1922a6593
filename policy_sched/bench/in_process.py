"""Measures decisions per second: a generated cluster, a scheduler, and nothing in between.

Theory of operation. Nodes and init pods are loaded first and are not timed. A phase then takes
the JSON of its pods and is timed as a whole: decode, PodInfo, queue, decide (every node filtered
and scored), assume, bind to the client in memory. Each decision is timed by itself as well. The
phase ``cold`` meets empty caches; before the phase ``warm`` its pods are deleted again, so that
both find the same cluster. There is no API server and no network: numbers of a scheduler that
talks to one are not comparable: a ratio to kube-scheduler's own threshold shows how far away it is,
not how much faster. Evicted pods are removed at once, and the queue gets an event for each; the
clock does not advance, so preemptors stay in backoff until no other pod is ready. Churned pods
cost time as all others do, but are not counted.

Garbage collection: before a phase everything that lives is collected and frozen out of the
collector's sight, and the thresholds are raised, as a scheduler does after its first list of the
cluster; the collector stays on.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Final

import msgspec

from policy_sched.bench import workloads
from policy_sched.bench.result import Latency, Result
from policy_sched.client.kube.rest import CustomDecoding
from policy_sched.model import KINDS, ApiObject, Namespace, Node, Pod, PodInfo, ResourceClaim
from policy_sched.profiles.models import policies_directory
from policy_sched.profiles.reload import Config
from policy_sched.report import Advance, unshown
from policy_sched.scheduler import Outcome, Preempt, Scheduler, object_gone, object_seen, pod_gone
from policy_sched.scheduler.setup import build

GC_THRESHOLDS: Final = (50_000, 50, 1000)
"""A pod makes some twenty objects: the youngest generation is collected every 2,500 pods."""

TURNS: Final = 5
"""How often a workload and the one that it is compared with alternate."""

COLD: Final = "cold"
WARM: Final = "warm"


class TimedPhase(msgspec.Struct, frozen=True):
    """One timed phase; ``latency`` is that of measured pods' decisions.

    Rates are of measured pods by the time of the whole phase, decoding and queueing included.
    """

    decisions_per_second: int
    p50_us: float
    p99_us: float
    max_us: float
    seconds: float
    cpu_seconds: float
    unschedulable: int
    evicted: int
    """Pods that made room."""
    churned: int
    """Pods that came in between."""
    churn: Latency
    """Latency of the pods that came in between."""

    @property
    def latency(self) -> Latency:
        """The latency of measured pods' decisions."""
        return Latency(self.p50_us, self.p99_us, self.max_us)

    def rate_text(self, pods: int) -> str:
        """Return the rates of so many measured pods; a busy machine changes the second one less."""
        rate = f"{self.decisions_per_second:>9,.0f} decisions/s"
        return f"{rate}   {pods / max(self.cpu_seconds, 1e-4):,.0f} in a second of CPU"


class Throughput(Result, frozen=True):
    """The decisions of a workload; the numbers at the top are those of the warm phase."""

    nodes: int
    pods: int
    decisions_per_second: int
    p50_us: float
    p99_us: float
    threshold: int | None
    """Decisions per second below which kube-scheduler's own run of the workload fails; None where
    it has none, or ran on another number of nodes."""
    ratio: float | None
    """Rate of the warm phase, divided by the threshold."""
    init_pods: int
    unschedulable: int
    phases: dict[str, TimedPhase]
    note: str
    share: float | None = None
    """Of a workload with shipped policies, its rate in a second of CPU by SchedulingBasic's."""

    def text_lines(self) -> Iterator[str]:
        """Yield the result for people."""
        yield (
            f"{self.workload}: {self.nodes} nodes, {self.init_pods} init pods, "
            f"{self.pods} pods; every node filtered and scored for every pod"
        )
        for name, phase in self.phases.items():
            yield f"  {name}  {phase.rate_text(self.pods)}   {phase.latency.text()}"
            if phase.churned:
                yield f"        {phase.churned} pods churned: {phase.churn.text()}"
            if phase.evicted:
                yield f"        {phase.evicted} pods were evicted"
            if phase.unschedulable:
                pods = self.pods + phase.churned
                yield f"        {phase.unschedulable} of {pods} pods did not fit"
        if self.ratio is not None:
            yield f"  {self.ratio:,} times the {self.threshold} pods/s that scheduler_perf asks for"
        if self.share is not None:
            basic = workloads.BASIC.name
            yield f"  {self.share:.2f} of {basic}'s rate in a second of CPU, measured in turns"
        if self.note:
            yield f"  note: {self.note}"


def run_benchmark(
    workload: workloads.Workload, nodes: int, pods: int, policies: Sequence[str] = ()
) -> Throughput:
    """Run a workload, cold and then warm; ``policies``: files of policies that take part."""
    scheduler, init_pods = loaded(workload, nodes, policies=policies)
    phases = run_phases(workload, scheduler, (pods, pods), quiet_collector)
    share = _share(workload, scheduler, nodes, pods) if workload.policies else None
    threshold = workload.threshold if nodes == workload.nodes else None
    warm = phases[-1]
    rate = warm.decisions_per_second
    return Throughput(
        workload.name,
        nodes,
        pods,
        rate,
        warm.p50_us,
        warm.p99_us,
        threshold,
        None if threshold is None else round(rate / threshold, 1),
        init_pods,
        warm.unschedulable,
        dict(zip((COLD, WARM), phases, strict=True)),
        workload.note,
        share,
    )


def _share(workload: workloads.Workload, scheduler: Scheduler, nodes: int, pods: int) -> float:
    """Return the rate of a workload by that of SchedulingBasic, whose phases alternate with its.

    Both have had a phase before, so that none meets empty caches.
    """
    basic, _ = loaded(workloads.BASIC, nodes)
    size = max(1, pods // TURNS)
    run_phases(workloads.BASIC, basic, (size,), quiet_collector)
    sizes, first = [size] * TURNS, 2 * pods
    own_turns = phases_of(workload, scheduler, sizes, quiet_collector, first)
    basic_turns = phases_of(workloads.BASIC, basic, sizes, quiet_collector, first)
    own = other = 0.0
    for phase, basic_phase in zip(own_turns, basic_turns, strict=True):
        own += phase.cpu_seconds
        other += basic_phase.cpu_seconds
    return round(other / max(own, 1e-4), 2)


def run_phases(
    workload: workloads.Workload,
    scheduler: Scheduler,
    sizes: Sequence[int],
    around: Callable[[], AbstractContextManager[None]],
) -> list[TimedPhase]:
    """Run phases of so many pods one after the other, each within ``around``."""
    return list(phases_of(workload, scheduler, sizes, around))


def phases_of(
    workload: workloads.Workload,
    scheduler: Scheduler,
    sizes: Sequence[int],
    around: Callable[[], AbstractContextManager[None]],
    first: int = 0,
) -> Iterator[TimedPhase]:
    """Do as `run_phases`, from the pod of a number on; a phase runs when it is asked for."""
    # No pod comes twice, so that distinct pods stay distinct.
    for pods in sizes:
        texts = [msgspec.json.encode(workload.pod(first + i)) for i in range(pods)]
        claims = workloads.claims_json(workload, first, pods)
        run = _Phase(scheduler, workloads.churn_json(workload, first, pods), claims)
        with around():
            phase = run.timed(texts)
        run.undo()
        yield phase
        first += pods


def loaded(
    workload: workloads.Workload, nodes: int, config: Config = None, policies: Sequence[str] = ()
) -> tuple[Scheduler, int]:
    """Return a scheduler with nodes and bound init pods, and how many those are."""
    scheduler = with_nodes(workload, nodes, config, policies)
    return scheduler, add_init_pods(scheduler, workload, nodes)


STEP: Final = 1000
"""Objects that are loaded between two calls of ``advance``."""


def with_nodes(
    workload: workloads.Workload,
    nodes: int,
    config: Config = None,
    policies: Sequence[str] = (),
    advance: Advance = unshown,
) -> Scheduler:
    """Return a scheduler with the workload's objects and nodes."""
    objects = [_decoded(manifest) for manifest in workload.objects]
    if workload.of_node is not None:
        objects += [_decoded(manifest) for i in range(nodes) for manifest in workload.of_node(i)]
    shipped = (str(policies_directory() / name / "policy.yaml") for name in workload.policies)
    scheduler = build(config, (*shipped, *policies), objects=objects)
    for decoded in objects:
        if isinstance(decoded, Namespace):
            scheduler.cache.set_namespace(decoded)
    decode = msgspec.json.Decoder(Node).decode
    for i in range(nodes):
        scheduler.cache.add_node(decode(workloads.node_json(workload, i)))
        if (i + 1) % STEP == 0:
            advance(STEP)
    return scheduler


def add_init_pods(
    scheduler: Scheduler, workload: workloads.Workload, nodes: int, advance: Advance = unshown
) -> int:
    """Add the bound init pods; return how many there are."""
    decode = msgspec.json.Decoder(Pod).decode
    count = 0
    for text in workloads.init_pods_json(workload, nodes):
        scheduler.cache.add_pod(PodInfo.of(decode(text)))
        count += 1
        if count % STEP == 0:
            advance(STEP)
    return count


def _decoded(manifest: Mapping[str, object]) -> ApiObject:
    kind = str(manifest["apiVersion"]), str(manifest["kind"])
    if kind in KINDS:
        return msgspec.convert(manifest, KINDS[kind])
    return CustomDecoding(kind).object(msgspec.json.encode(manifest))


@dataclass(slots=True)
class _Phase:
    """One phase in progress."""

    scheduler: Scheduler
    churn: Mapping[int, bytes]
    """JSON of pods, by the index of the pod that they precede."""
    claims: Sequence[bytes] = ()
    """JSON of the resource claims that pods come with."""
    bound: list[PodInfo] = field(default_factory=list)
    failed: dict[str, PodInfo] = field(default_factory=dict)
    evicted: list[PodInfo] = field(default_factory=list)

    def timed(self, texts: Sequence[bytes]) -> TimedPhase:
        """Decide the pods of ``texts``; return the measures."""
        decode = msgspec.json.Decoder(Pod).decode
        of, add = PodInfo.of, self.scheduler.add_pod
        decode_claim = msgspec.json.Decoder(ResourceClaim).decode
        started, cpu_started = time.perf_counter_ns(), time.process_time_ns()
        for text in self.claims:
            object_seen(self.scheduler, None, decode_claim(text))
        for text in texts:
            add(of(decode(text)))
        latencies, churn_latencies = self._decide()
        seconds = (time.perf_counter_ns() - started) / 1e9
        cpu_seconds = (time.process_time_ns() - cpu_started) / 1e9
        churned = len(self.churn)
        latency = Latency.of(latencies)
        return TimedPhase(
            decisions_per_second=round(len(texts) / seconds),
            p50_us=latency.p50_us,
            p99_us=latency.p99_us,
            max_us=latency.max_us,
            seconds=round(seconds, 4),
            cpu_seconds=round(cpu_seconds, 4),
            unschedulable=len(texts) + churned - len(self.bound),
            evicted=len(self.evicted),
            churned=churned,
            churn=Latency.of(churn_latencies),
        )

    def _decide(self) -> tuple[list[int], list[int]]:
        """Decide until the queue is empty; return how long it took for measured and other pods."""
        decode, schedule = msgspec.json.Decoder(Pod).decode, self.scheduler.schedule_one
        clock, bound = time.perf_counter_ns, self.bound
        latencies: list[int] = []
        churn_latencies: list[int] = []
        coming = dict(self.churn)
        churning: set[str] = set()
        while True:
            text = coming.pop(len(latencies), None)
            if text is not None:
                info = PodInfo.of(decode(text))
                churning.add(info.uid)
                self.scheduler.add_pod(info)
            before = clock()
            outcome = schedule()
            took = clock() - before
            if outcome is None:
                return latencies, churn_latencies
            for member in (outcome, *outcome.others):
                share = took // (1 + len(outcome.others))
                (churn_latencies if member.pod.uid in churning else latencies).append(share)
                if member.node:
                    bound.append(member.pod)
                else:
                    self._failed(member)

    def _failed(self, outcome: Outcome) -> None:
        """Record an unbound pod, and remove its victims."""
        self.failed[outcome.pod.uid] = outcome.pod
        if not isinstance(outcome.decision, Preempt):
            return
        for victim in outcome.decision.victims:
            pod_gone(self.scheduler, victim)
            self.evicted.append(victim)

    def undo(self) -> None:
        """Bring the cluster back to what it was before the phase."""
        for uid in self.failed:
            self.scheduler.delete_pod(uid)
        for info in self.bound:
            self.scheduler.cache.remove_pod(info)
        for info in self.evicted:
            self.scheduler.cache.add_pod(info)
        if self.claims:
            for claim in self.scheduler.handle.objects.of(ResourceClaim):
                object_gone(self.scheduler, claim)


@contextmanager
def quiet_collector() -> Iterator[None]:
    """Keep the collector from walking through the whole cluster while the block runs.

    What is there then is left out for good: a benchmark's process ends soon.
    """
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
