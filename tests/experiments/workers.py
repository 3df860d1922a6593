"""Work that kills the process that does it, for tests of engines."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import cast

from policy_sched.experiments.engine import Order, RunFailure, Work, in_processes
from policy_sched.experiments.runs import RunResult


@dataclass(frozen=True)
class Deadly:
    """Gives each run's number as its value; some runs kill their worker, once or every time."""

    folder: str
    once: tuple[int, ...] = ()
    always: tuple[int, ...] = ()

    def run(self, order: Order) -> RunResult | RunFailure:
        """Run an order, or die."""
        mark = Path(self.folder, str(order.number))
        if order.number in self.always or (order.number in self.once and not mark.exists()):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return RunResult(values={"number": float(order.number)})


@dataclass(frozen=True)
class Endless:
    """Says in a pipe that a run has begun, holds the pipe open, and never ends."""

    pipe: str

    def run(self, _order: Order) -> RunResult | RunFailure:
        """Run an order."""
        with open(self.pipe, "w", encoding="ascii") as pipe:
            pipe.write("begun\n")
            pipe.flush()
            Event().wait()
        return RunFailure("")


if __name__ == "__main__":
    endless = cast("Work", Endless(sys.argv[1]))
    list(in_processes(endless, [Order(number, "v", number) for number in range(2)], 2, print))
