"""Counts what a pod costs in Python calls, which no busy machine changes.

A workload runs until its caches are warm; then two numbers of further pods are decided, and the
difference is what pods cost. Only functions of this package and generated ones count. Newer
Pythons inline comprehensions and count fewer.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from policy_sched.bench.in_process import COLD, WARM, loaded, run_phases
from policy_sched.bench.workloads import Workload

SIZES: Final = ((COLD, 60), (WARM, 100), (WARM, 200))
"""Phases and their pods: one that warms the caches, and two that are compared."""
_PACKAGE: Final = str(Path(__file__).parents[1])


@dataclass(frozen=True, slots=True)
class Calls:
    """What one pod costs: calls, files that are entered, and moves from one file to another."""

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


def calls_per_pod(workload: Workload, nodes: int) -> Calls:
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
    run_phases(workload, scheduler, SIZES, counted)
    _, few, many = profiles
    pods = SIZES[2][1] - SIZES[1][1]
    more = many.calls - few.calls
    return Calls(
        calls=round(more.total() / pods, 1),
        files=sum(1 for count in more.values() if count >= pods / 2),
        moves=round((many.moves - few.moves) / pods, 1),
    )
