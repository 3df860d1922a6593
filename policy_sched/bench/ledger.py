"""The ledger: every in-process workload beside kube-scheduler's threshold, floor and calls per pod.

Each workload runs in a process of its own, so that none meets another's heap. The floor of each
number of nodes is measured in the same run: filtering and scoring all nodes for equal pods over
bare arrays, with no queue, no cache and no plugins around. That is what NumPy takes on the same
machine for the arithmetic of NodeResourcesFit (LeastAllocated) and NodeResourcesBalancedAllocation,
and a random choice among the best nodes. Ratios to it stay the same on slow and busy machines,
where decisions per second do not.

The calls per pod are counted on few nodes, and no busy machine changes them: a workload runs until
its caches are warm; then two numbers of further pods are decided, and the difference is what pods
cost. Only functions of this package and generated ones count. Newer Pythons inline comprehensions
and count fewer.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec
import numpy as np

from policy_sched.bench import workloads
from policy_sched.bench.in_process import loaded, run_phases
from policy_sched.bench.result import Result
from policy_sched.errors import PolicySchedError
from policy_sched.report import Document

NAME: Final = "All"
LARGE: Final = (50_000, 100_000)
"""Numbers of nodes on which SchedulingBasic is measured, beside its own."""
COUNTED_NODES: Final = 200
_FLOOR_VALUES: Final = 2_500_000
"""Nodes times pods of a measurement of the floor."""


class Row(msgspec.Struct, frozen=True):
    """A workload: what was measured, and what it is compared with.

    Rates are those of the warm phase, but for the cold one's; the second and ``floor`` are in a
    second of CPU, and ``ratio_to_floor`` is that of both. ``threshold`` is scheduler_perf's; None
    if it has none for this number of nodes. ``calls``, ``files`` and ``moves``: see `Calls`.
    """

    workload: str
    nodes: int
    pods: int
    decisions_per_second: int
    decisions_per_cpu_second: int
    cold_decisions_per_second: int
    p50_us: float
    p99_us: float
    threshold: int | None
    floor: int
    ratio_to_floor: float
    calls: float
    files: int
    moves: float

    def cells(self) -> tuple[str, ...]:
        """Return the row of the table."""
        return (
            f"`{self.workload}`",
            f"{self.nodes:,}",
            f"{self.pods:,}",
            f"{self.decisions_per_second:,}",
            f"{self.cold_decisions_per_second:,}",
            f"{self.p50_us:,.0f}",
            f"{self.p99_us:,.0f}",
            "" if self.threshold is None else f"{self.threshold:,}",
            f"{self.floor:,}",
            f"{self.ratio_to_floor:.2f}",
            f"{self.calls:,.0f}",
            f"{self.files}",
            f"{self.moves:,.0f}",
        )


HEADINGS: Final = (
    "workload", "nodes", "pods", "decisions/s", "cold", "p50 us", "p99 us", "kube-scheduler",
    "floor", "of floor", "calls", "files", "moves",
)  # fmt: skip


class Ledger(Result, frozen=True):
    """All workloads."""

    rows: tuple[Row, ...]
    dry_run: Document
    """The search for victims, with the floor of as many nodes."""

    def text_lines(self) -> Iterator[str]:
        """Yield the ledger as a table in Markdown."""
        yield _line(HEADINGS)
        yield _line(("---",) + ("---:",) * (len(HEADINGS) - 1))
        yield from (_line(row.cells()) for row in self.rows)
        yield ""
        dry_run = self.dry_run
        yield (
            f"{workloads.DRY_RUN.name}: {dry_run['nodes']:,} nodes, {dry_run['pods']:,} pods, "
            f"from scratch {dry_run['scratch_median_ms']:.3f} ms "
            f"({dry_run['ratio_to_floor']:.2f} of the floor of {dry_run['floor']:,}/s), "
            f"else {dry_run['median_ms']:.3f} ms"
        )


def run_all(nodes: int | None, pods: int | None) -> Ledger:
    """Run every workload, on its own number of nodes and pods unless given.

    Raises PolicySchedError if one fails.
    """

    @cache
    def floor_of(size: int) -> float:
        return floor(size, max(20, _FLOOR_VALUES // size))

    rows = []
    for name, size in plan(nodes):
        document = _measured(name, size, pods)
        counted = calls_per_pod(workloads.WORKLOADS[name], COUNTED_NODES)
        rows.append(_row(document, floor_of(document["nodes"]), counted))
    dry_run = _measured(workloads.DRY_RUN.name, nodes, pods)
    bare = floor_of(dry_run["nodes"])
    ratio = round(1000 / dry_run["scratch_median_ms"] / bare, 3)
    return Ledger(NAME, tuple(rows), {**dry_run, "floor": round(bare), "ratio_to_floor": ratio})


def plan(nodes: int | None) -> list[tuple[str, int | None]]:
    """Return workloads and numbers of nodes; None is the workload's own."""
    names = dict.fromkeys(workload.name for workload in workloads.WORKLOADS.values())
    del names[workloads.BASIC.name]
    large = LARGE if nodes is None else ()
    basic: list[tuple[str, int | None]] = [(workloads.BASIC.name, size) for size in (nodes, *large)]
    return basic + [(name, nodes) for name in names]


def _measured(name: str, nodes: int | None, pods: int | None) -> Document:
    """Run one benchmark in a process of its own, and return its document."""
    command = [sys.executable, "-m", "policy_sched", "bench", name, "--output", "json"]
    command += [] if nodes is None else ["--nodes", str(nodes)]
    command += [] if pods is None else ["--pods", str(pods)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  ours
    if done.returncode:
        raise PolicySchedError(f"bench {name} fails: {done.stdout[-200:]}{done.stderr[-500:]}")
    document: Document = json.loads(done.stdout)
    return document


def _row(document: Document, bare: float, calls: Calls) -> Row:
    cpu_rate = round(document["pods"] / document["phases"]["warm"]["cpu_seconds"])
    return Row(
        workload=document["workload"],
        nodes=document["nodes"],
        pods=document["pods"],
        decisions_per_second=document["decisions_per_second"],
        decisions_per_cpu_second=cpu_rate,
        cold_decisions_per_second=document["phases"]["cold"]["decisions_per_second"],
        p50_us=document["p50_us"],
        p99_us=document["p99_us"],
        threshold=document["threshold"],
        floor=round(bare),
        ratio_to_floor=round(cpu_rate / bare, 2),
        calls=calls.calls,
        files=calls.files,
        moves=calls.moves,
    )


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


# The floor.

NODE: Final = (4000.0, 32.0 * 2**30, 110.0, 100.0 * 2**30)
"""CPU in millicores, memory in bytes, pods, ephemeral storage in bytes."""
POD: Final = (100.0, 500.0 * 2**20, 1.0, 0.0)


def floor(nodes: int, pods: int) -> float:
    """Return the decisions in a second of CPU for so many equal pods on so many nodes."""
    random = np.random.default_rng(0)
    allocatable = np.repeat(np.array(NODE)[:, None], nodes, axis=1)
    requested = np.zeros((len(NODE), nodes))
    pod = np.array(POD)
    suitable = np.ones(nodes, np.bool_)
    started = time.process_time()
    for _ in range(pods):
        after = requested + pod[:, None]
        feasible = (after <= allocatable).all(axis=0) & suitable
        free = np.floor((allocatable[:2] - after[:2]) * 100 / allocatable[:2])
        least_allocated = free.sum(axis=0) // 2
        cpu, memory = after[:2] / allocatable[:2]
        balanced = np.floor((1 - np.abs(cpu - memory) / 2) * 100)
        total = np.where(feasible, least_allocated + balanced, -1)
        best = np.flatnonzero(total == total.max())
        requested[:, best[random.integers(len(best))]] += pod
    return pods / (time.process_time() - started)


# Calls per pod.

_COUNTED: Final = (60, 100, 200)
"""Pods of a phase that warms the caches, and of two that are compared."""
_PACKAGE: Final = str(Path(__file__).parents[1])


@dataclass(frozen=True, slots=True)
class Calls:
    """The costs of a pod: calls, entered files, and moves from one file to another."""

    calls: float
    files: int
    moves: float


@dataclass(slots=True)
class _Profile:
    """The calls of a phase, by the file of the function, and the moves between files."""

    calls: Counter[str] = field(default_factory=Counter)
    moves: int = 0
    _last: str = ""

    def called(self, frame: FrameType, event: str, argument: object) -> None:  # noqa: ARG002 - the signature of a profile function
        """Count a call; `sys.setprofile` takes this."""
        if event != "call":
            return
        file = frame.f_code.co_filename
        if not file.startswith((_PACKAGE, "<")):
            return
        self.calls[file] += 1
        if file != self._last:
            self.moves += 1
            self._last = file


def calls_per_pod(workload: workloads.Workload, nodes: int) -> Calls:
    """Count what one more pod of a workload costs on so many nodes.

    A file counts if every second pod enters it.
    """
    profiles: list[_Profile] = []

    @contextmanager
    def counted() -> Iterator[None]:
        profiles.append(_Profile())
        before = sys.getprofile()
        sys.setprofile(profiles[-1].called)
        try:
            yield
        finally:
            sys.setprofile(before)

    scheduler, _ = loaded(workload, nodes)
    run_phases(workload, scheduler, _COUNTED, counted)
    _, few, many = profiles
    pods = _COUNTED[2] - _COUNTED[1]
    more = many.calls - few.calls
    return Calls(
        calls=round(more.total() / pods, 1),
        files=sum(1 for count in more.values() if count >= pods / 2),
        moves=round((many.moves - few.moves) / pods, 1),
    )
