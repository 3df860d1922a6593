"""The ledger: every in-process workload beside kube-scheduler's threshold and the floor.

Each workload runs in a process of its own, so that none meets another's heap. The floor of each
number of nodes is measured in the same run. The calls per pod are counted on few nodes and with
few pods, and do not depend on the machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

from policy_sched.bench.calls import Calls, calls_per_pod
from policy_sched.bench.floor import floor
from policy_sched.bench.in_process import machine
from policy_sched.bench.workloads import BASIC, DRY_RUN, WORKLOADS
from policy_sched.errors import PolicySchedError
from policy_sched.report import Document

NAME: Final = "All"
LARGE: Final = (50_000, 100_000)
"""Numbers of nodes on which SchedulingBasic is measured, beside its own."""
COUNTED_NODES: Final = 200
_FLOOR_VALUES: Final = 2_500_000
"""Nodes times pods of a measurement of the floor."""


@dataclass(frozen=True, slots=True)
class Row:
    """A workload: what was measured, and what it is compared with.

    Rates are decisions per second of the warm phase; ``cpu_rate`` and ``floor`` in a second of CPU.
    ``threshold`` is scheduler_perf's; None if it has none for this number of nodes.
    """

    workload: str
    nodes: int
    pods: int
    rate: int
    cpu_rate: int
    cold_rate: int
    p50_us: float
    p99_us: float
    threshold: int | None
    floor: float
    calls: Calls

    @property
    def of_floor(self) -> float:
        """The ratio to the floor, which is that of both in a second of CPU."""
        return self.cpu_rate / self.floor

    def cells(self) -> tuple[str, ...]:
        """Return the row of the table."""
        return (
            f"`{self.workload}`",
            f"{self.nodes:,}",
            f"{self.pods:,}",
            f"{self.rate:,}",
            f"{self.cold_rate:,}",
            f"{self.p50_us:,.0f}",
            f"{self.p99_us:,.0f}",
            "" if self.threshold is None else f"{self.threshold:,}",
            f"{self.floor:,.0f}",
            f"{self.of_floor:.2f}",
            f"{self.calls.calls:,.0f}",
            f"{self.calls.files}",
            f"{self.calls.moves:,.0f}",
        )

    def document(self) -> Document:
        """Return the row as plain data."""
        return {
            "workload": self.workload,
            "nodes": self.nodes,
            "pods": self.pods,
            "decisions_per_second": self.rate,
            "decisions_per_cpu_second": self.cpu_rate,
            "cold_decisions_per_second": self.cold_rate,
            "p50_us": self.p50_us,
            "p99_us": self.p99_us,
            "threshold": self.threshold,
            "floor": round(self.floor),
            "ratio_to_floor": round(self.of_floor, 2),
            "calls": self.calls.calls,
            "files": self.calls.files,
            "moves": self.calls.moves,
        }


HEADINGS: Final = (
    "workload", "nodes", "pods", "decisions/s", "cold", "p50 us", "p99 us", "kube-scheduler",
    "floor", "of floor", "calls", "files", "moves",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ledger:
    """All workloads, and the search for victims in ms, with the floor of as many nodes."""

    rows: tuple[Row, ...]
    dry_run: Document
    dry_run_floor: float

    def text_lines(self) -> Iterator[str]:
        """Yield the ledger as a table in Markdown."""
        yield _line(HEADINGS)
        yield _line(("---",) + ("---:",) * (len(HEADINGS) - 1))
        yield from (_line(row.cells()) for row in self.rows)
        yield ""
        dry_run = self.dry_run
        yield (
            f"{DRY_RUN.name}: {dry_run['nodes']:,} nodes, {dry_run['pods']:,} pods, "
            f"from scratch {dry_run['scratch_median_ms']:.3f} ms "
            f"({self._of_floor():.2f} of the floor of {self.dry_run_floor:,.0f}/s), "
            f"else {dry_run['median_ms']:.3f} ms"
        )

    def document(self) -> Document:
        """Return the ledger as plain data."""
        rows = [row.document() for row in self.rows]
        beside = {"floor": round(self.dry_run_floor), "ratio_to_floor": round(self._of_floor(), 3)}
        return {"workload": NAME, "rows": rows, "dry_run": {**self.dry_run, **beside}, **machine()}

    def _of_floor(self) -> float:
        """Return the ratio of searches from scratch to the floor."""
        return float(1000 / self.dry_run["scratch_median_ms"] / self.dry_run_floor)


def run_all(nodes: int | None, pods: int | None) -> Ledger:
    """Run every workload, on its own number of nodes and pods unless given.

    Raises PolicySchedError if one fails.
    """

    @cache
    def floor_of(size: int) -> float:
        return floor(size, max(20, _FLOOR_VALUES // size))

    rows = []
    for name, size in plan(nodes):
        found = _measured(name, size, pods)
        counted = calls_per_pod(WORKLOADS[name], COUNTED_NODES)
        rows.append(_row(found, floor_of(found["nodes"]), counted))
    dry_run = _measured(DRY_RUN.name, nodes, pods)
    return Ledger(tuple(rows), dry_run, floor_of(dry_run["nodes"]))


def plan(nodes: int | None) -> list[tuple[str, int | None]]:
    """Return workloads and numbers of nodes; None is the workload's own."""
    names = dict.fromkeys(workload.name for workload in WORKLOADS.values())
    del names[BASIC.name]
    large = LARGE if nodes is None else ()
    basic: list[tuple[str, int | None]] = [(BASIC.name, size) for size in (nodes, *large)]
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


def _row(found: Document, bare: float, calls: Calls) -> Row:
    return Row(
        workload=found["workload"],
        nodes=found["nodes"],
        pods=found["pods"],
        rate=found["decisions_per_second"],
        cpu_rate=round(found["pods"] / found["phases"]["warm"]["cpu_seconds"]),
        cold_rate=found["phases"]["cold"]["decisions_per_second"],
        p50_us=found["p50_us"],
        p99_us=found["p99_us"],
        threshold=found["threshold"],
        floor=bare,
        calls=calls,
    )


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
