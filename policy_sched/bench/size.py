"""Measures a large cluster: memory of a node and of a bound pod, and decisions among them.

Memory is the resident size of the process before and after, so it holds everything that the
scheduler keeps of an object: the decoded object, its rows in the tables, and what the allocator
cannot give back. Garbage is collected before each reading.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from resource import getpagesize
from typing import Final

from policy_sched.bench.in_process import (
    COLD,
    WARM,
    Advance,
    Phase,
    add_init_pods,
    machine,
    quiet_collector,
    run_phases,
    unseen,
    with_nodes,
)
from policy_sched.bench.workloads import BASIC
from policy_sched.errors import PolicySchedError
from policy_sched.report import Document

NAME: Final = "Size"
NODES: Final = 100_000
PODS: Final = 10_000
EXISTING: Final = 1_000_000
_STATM: Final = Path("/proc/self/statm")


@dataclass(frozen=True, slots=True)
class Loaded:
    """Objects of one kind that were loaded: CPU in seconds, and memory in bytes."""

    kind: str
    count: int
    cpu_seconds: float
    memory: int

    @property
    def each(self) -> float:
        """Bytes of one object."""
        return self.memory / max(1, self.count)

    def document(self) -> Document:
        """Return plain data."""
        return {
            "kind": self.kind,
            "count": self.count,
            "cpu_seconds": round(self.cpu_seconds, 2),
            "mebibytes": round(self.memory / 2**20, 1),
            "bytes_each": round(self.each),
        }


@dataclass(frozen=True, slots=True)
class Size:
    """What a cluster of one size takes."""

    loaded: tuple[Loaded, ...]
    phases: tuple[Phase, ...]

    def text_lines(self) -> Iterator[str]:
        """Yield the result for people."""
        counts = ", ".join(f"{one.count:,} {one.kind}" for one in self.loaded)
        yield f"{NAME}: {counts}; every node filtered and scored for every pod"
        for one in self.loaded:
            memory = f"{one.memory / 2**20:8,.1f} MiB, {one.each:7,.0f} bytes each"
            yield f"  {one.kind:<5} {memory}   loaded in {one.cpu_seconds:,.1f} s of CPU"
        for phase in self.phases:
            yield (
                f"  {phase.name}  {phase.decisions_per_second:>9,.0f} decisions/s   "
                f"{phase.decisions_per_cpu_second:,.0f} in a second of CPU   "
                f"p50 {phase.latency.p50_us:,.1f} us   p99 {phase.latency.p99_us:,.1f} us"
            )

    def document(self) -> Document:
        """Return the result as plain data; the rate is that of the warm phase."""
        warm = self.phases[-1]
        return {
            "workload": NAME,
            "loaded": [one.document() for one in self.loaded],
            "pods": warm.pods,
            "decisions_per_second": round(warm.decisions_per_second),
            "decisions_per_cpu_second": round(warm.decisions_per_cpu_second),
            "p50_us": warm.latency.p50_us,
            "p99_us": warm.latency.p99_us,
            **machine(),
        }


def run_size(nodes: int, pods: int, existing: int, advance: Advance = unseen) -> Size:
    """Load so many nodes and bound pods, and decide ``pods`` more, cold and warm. See `Advance`.

    Raises PolicySchedError where the system does not tell the size of a process.
    """
    workload = replace(BASIC, init_per_node=existing / nodes)
    memory, cpu = _resident(), time.process_time()
    scheduler = with_nodes(workload, nodes, advance=advance)
    first = Loaded("nodes", nodes, time.process_time() - cpu, (between := _resident()) - memory)
    cpu = time.process_time()
    count = add_init_pods(scheduler, workload, nodes, advance)
    second = Loaded("pods", count, time.process_time() - cpu, _resident() - between)
    phases = run_phases(workload, scheduler, ((COLD, pods), (WARM, pods)), quiet_collector)
    return Size((first, second), tuple(phases))


def _resident() -> int:
    """Return the resident size of this process in bytes."""
    gc.collect()
    try:
        return int(_STATM.read_text("ascii").split()[1]) * getpagesize()
    except OSError:
        raise PolicySchedError(f"bench {NAME} needs {_STATM}, as Linux has it") from None
