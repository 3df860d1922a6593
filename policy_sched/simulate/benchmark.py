"""Measures decisions per second: a generated cluster, a scheduler, and nothing in between.

Theory of operation. Nodes and init pods are loaded first and are not timed. A phase then takes
the JSON of its pods and is timed as a whole: decode, PodInfo, queue, decide (every node filtered
and scored), assume, bind to the client in memory. Each decision is timed by itself as well. The
phase ``cold`` meets empty caches; before the phase ``warm`` its pods are deleted again, so that
both find the same cluster. There is no API server and no network: numbers of a scheduler that
talks to one are not comparable.

Garbage collection: before a phase everything that lives is collected and frozen out of the
collector's sight, and the thresholds are raised, as a scheduler does after its first list of the
cluster; the collector stays on.
"""

from __future__ import annotations

import gc
import os
import platform
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from policy_sched.model.node import Node
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler.loop import Scheduler
from policy_sched.scheduler.wiring import build
from policy_sched.simulate.workloads import Workload, init_pods_json, node_json, pod_json

GC_THRESHOLDS: Final = (50_000, 50, 1000)
"""A pod makes some twenty objects: the youngest generation is collected every 2,500 pods."""

COLD: Final = "cold"
WARM: Final = "warm"

Document = dict[str, object]


@dataclass(frozen=True, slots=True)
class Phase:
    """One timed phase; latencies are of single decisions, in microseconds."""

    name: str
    pods: int
    unschedulable: int
    seconds: float
    p50_us: float
    p99_us: float
    max_us: float

    @property
    def decisions_per_second(self) -> float:
        """Decisions by the time of the whole phase, decoding and queueing included."""
        return self.pods / self.seconds


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured, and on what."""

    workload: str
    note: str
    nodes: int
    init_pods: int
    pods: int
    phases: tuple[Phase, ...]

    @property
    def warm(self) -> Phase:
        """The phase whose numbers speak for the workload."""
        return self.phases[-1]


def run_benchmark(workload: Workload, nodes: int, pods: int) -> Result:
    """Run a workload, cold and then warm."""
    scheduler = build(None, ())
    init_pods = _load(scheduler, workload, nodes)
    phases = []
    for number, name in enumerate((COLD, WARM)):
        first = number * pods  # no pod comes twice, so that distinct pods stay distinct
        texts = [pod_json(workload, first + i) for i in range(pods)]
        with _quiet_collector():
            phase, bound = _phase(scheduler, name, texts)
        phases.append(phase)
        for info in bound:
            scheduler.cache.remove_pod(info)
    return Result(workload.name, workload.note, nodes, init_pods, pods, tuple(phases))


def _load(scheduler: Scheduler, workload: Workload, nodes: int) -> int:
    """Add the nodes and bind the init pods; return how many those are."""
    decode_node = msgspec.json.Decoder(Node).decode
    for i in range(nodes):
        scheduler.cache.add_node(decode_node(node_json(workload, i)))
    decode_pod = msgspec.json.Decoder(Pod).decode
    count = 0
    for text in init_pods_json(workload, nodes):
        scheduler.cache.add_pod(PodInfo.of(decode_pod(text)))
        count += 1
    return count


def _phase(scheduler: Scheduler, name: str, texts: Sequence[bytes]) -> tuple[Phase, list[PodInfo]]:
    """Decide the pods of ``texts``; return the measures and the pods that were bound."""
    decode = msgspec.json.Decoder(Pod).decode
    of, add, schedule = PodInfo.of, scheduler.add_pod, scheduler.schedule_one
    clock = time.perf_counter_ns
    latencies = np.zeros(len(texts), np.int64)
    bound: list[PodInfo] = []
    started = clock()
    for text in texts:
        add(of(decode(text)))
    for i in range(len(texts)):
        before = clock()
        outcome = schedule()
        latencies[i] = clock() - before
        if outcome is not None and outcome.node:
            bound.append(outcome.pod)
    seconds = (clock() - started) / 1e9
    p50, p99, worst = np.percentile(latencies, (50, 99, 100)) / 1e3
    phase = Phase(
        name=name,
        pods=len(texts),
        unschedulable=len(texts) - len(bound),
        seconds=seconds,
        p50_us=round(float(p50), 1),
        p99_us=round(float(p99), 1),
        max_us=round(float(worst), 1),
    )
    return phase, bound


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """Keep the collector from walking through the whole cluster while the block runs."""
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def document(result: Result) -> Document:
    """Return the result as plain data; the numbers at the top are those of the warm phase."""
    return {
        "workload": result.workload,
        "nodes": result.nodes,
        "pods": result.pods,
        "decisions_per_second": round(result.warm.decisions_per_second),
        "p50_us": result.warm.p50_us,
        "p99_us": result.warm.p99_us,
        "init_pods": result.init_pods,
        "unschedulable": result.warm.unschedulable,
        "phases": {phase.name: _phase_document(phase) for phase in result.phases},
        "note": result.note,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cpus": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        "peak_rss_mib": round(_peak_rss() / 2**20),
    }


def text_lines(result: Result) -> Iterator[str]:
    """Yield the result for people."""
    yield (
        f"{result.workload}: {result.nodes} nodes, {result.init_pods} init pods, "
        f"{result.pods} pods; every node filtered and scored for every pod"
    )
    for phase in result.phases:
        yield (
            f"  {phase.name}  {phase.decisions_per_second:>9,.0f} decisions/s   "
            f"p50 {phase.p50_us:,.1f} us   p99 {phase.p99_us:,.1f} us   "
            f"max {phase.max_us:,.1f} us"
        )
        if phase.unschedulable:
            yield f"        {phase.unschedulable} of {phase.pods} pods did not fit"
    if result.note:
        yield f"  note: {result.note}"


def _phase_document(phase: Phase) -> Document:
    return {
        "decisions_per_second": round(phase.decisions_per_second),
        "p50_us": phase.p50_us,
        "p99_us": phase.p99_us,
        "max_us": phase.max_us,
        "seconds": round(phase.seconds, 4),
        "unschedulable": phase.unschedulable,
    }


def _peak_rss() -> int:
    """Return the largest resident size of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Linux counts in KiB
