"""Measures a large cluster: memory of a node and of a bound pod, and decisions among them.

Memory is the resident size of the process before and after, so it holds everything that the
scheduler keeps of an object: the decoded object, its rows in the tables, and what the allocator
cannot give back. Garbage is collected before each reading.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from resource import getpagesize
from typing import Final

import msgspec

from policy_sched.bench import in_process
from policy_sched.bench.result import Result
from policy_sched.bench.workloads import BASIC
from policy_sched.errors import PolicySchedError
from policy_sched.report import Advance, Document, unshown

NAME: Final = "Size"
NODES: Final = 100_000
PODS: Final = 10_000
EXISTING: Final = 1_000_000
_STATM: Final = Path("/proc/self/statm")


class LoadedObjects(msgspec.Struct, frozen=True):
    """Objects of one kind that were loaded, and the CPU time and memory that they took."""

    kind: str
    count: int
    cpu_seconds: float
    mebibytes: float
    bytes_each: int

    @staticmethod
    def of(kind: str, count: int, cpu_seconds: float, memory: int) -> LoadedObjects:
        """Return so many objects that took so many bytes together."""
        each = round(memory / max(1, count))
        return LoadedObjects(kind, count, round(cpu_seconds, 2), round(memory / 2**20, 1), each)


class Size(Result, frozen=True):
    """Memory and time of a cluster of one size; rates and latencies are those of the warm phase."""

    loaded: tuple[LoadedObjects, ...]
    pods: int
    decisions_per_second: int
    decisions_per_cpu_second: int
    p50_us: float
    p99_us: float
    cold: in_process.TimedPhase
    warm: in_process.TimedPhase

    def text_lines(self) -> Iterator[str]:
        """Yield the result for people."""
        counts = ", ".join(f"{objects.count:,} {objects.kind}" for objects in self.loaded)
        yield f"{NAME}: {counts}; every node filtered and scored for every pod"
        for objects in self.loaded:
            memory = f"{objects.mebibytes:8,.1f} MiB, {objects.bytes_each:7,} bytes each"
            yield f"  {objects.kind:<5} {memory}   loaded in {objects.cpu_seconds:,.1f} s of CPU"
        for name, phase in ((in_process.COLD, self.cold), (in_process.WARM, self.warm)):
            latency = f"p50 {phase.p50_us:,.1f} us   p99 {phase.p99_us:,.1f} us"
            yield f"  {name}  {phase.rate_text(self.pods)}   {latency}"

    def document(self) -> Document:
        """Return the fields as plain data, but for the phases."""
        document = super().document()
        del document["cold"], document["warm"]
        return document


def run_size(nodes: int, pods: int, existing: int, advance: Advance = unshown) -> Size:
    """Load so many nodes and bound pods, and decide ``pods`` more, cold and warm.

    Raises PolicySchedError where the system does not tell the size of a process.
    """
    workload = replace(BASIC, init_per_node=existing / nodes)
    memory, cpu = resident(), time.process_time()
    scheduler = in_process.with_nodes(workload, nodes, advance=advance)
    took, between = time.process_time() - cpu, resident()
    first = LoadedObjects.of("nodes", nodes, took, between - memory)
    cpu = time.process_time()
    count = in_process.add_init_pods(scheduler, workload, nodes, advance)
    second = LoadedObjects.of("pods", count, time.process_time() - cpu, resident() - between)
    cold, warm = in_process.run_phases(
        workload, scheduler, (pods, pods), in_process.quiet_collector
    )
    rate, cpu_rate = warm.decisions_per_second, round(pods / max(warm.cpu_seconds, 1e-4))
    objects = first, second
    return Size(NAME, objects, pods, rate, cpu_rate, warm.p50_us, warm.p99_us, cold, warm)


def resident() -> int:
    """Return the resident size of this process in bytes."""
    gc.collect()
    try:
        return int(_STATM.read_text("ascii").split()[1]) * getpagesize()
    except OSError:
        raise PolicySchedError(f"bench {NAME} needs {_STATM}, as Linux has it") from None
