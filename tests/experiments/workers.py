"""Work that kills the process that does it, for tests of engines."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from policy_sched.experiments.engine import Failure, Order
from policy_sched.experiments.runs import RunResult


@dataclass(frozen=True)
class Deadly:
    """Gives each run's number as its value; some runs kill their worker, once or every time."""

    folder: str
    once: tuple[int, ...] = ()
    always: tuple[int, ...] = ()

    def run(self, order: Order) -> RunResult | Failure:
        """Run an order, or die."""
        mark = Path(self.folder, str(order.number))
        if order.number in self.always or (order.number in self.once and not mark.exists()):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return RunResult(values={"number": float(order.number)})
