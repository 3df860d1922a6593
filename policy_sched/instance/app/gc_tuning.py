"""The cycle collector in a process that holds a whole cluster: never a long pause.

Theory of operation. Pods and nodes live long and form no cycles, so a full collection takes long
and finds nothing: 0.1 s with 30,000 pods. Python starts a collection of young objects when their
number has grown; where as many old objects are freed as new ones are made, that is late. So the run
loop collects young objects by time, and freezes the survivors, which reference counting frees.
Cycles among frozen objects would leak, so there are none: replaced policies, closed connections and
bound pods leave no cycle behind (tests check it).
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

EVERY: Final = 0.1
"""Seconds between two collections: at 1,000 pods a second they take some milliseconds each."""
MANY: Final = 20_000
"""New objects after which Python collects by itself, in the middle of something, if no one was
asked to look before: 100,000 would take more than 10 ms."""


class Collector:
    """Collects when it is asked to look and it is time; ``now`` is monotonic, in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._due = now() + EVERY

    def collect_if_due(self) -> bool:
        """Collect what is young, if that was not done a moment ago; tell whether it was now."""
        if self._now() < self._due:
            return False
        gc.collect(0)
        gc.freeze()
        self._due = self._now() + EVERY
        return True


@contextmanager
def collecting_briefly() -> Iterator[None]:
    """Leave it to a Collector when to collect, while the context lasts."""
    thresholds = gc.get_threshold()
    gc.set_threshold(MANY, 1_000_000, 1_000_000)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def settle() -> None:
    """Collect all that there is, and freeze the rest: what was loaded lives on."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
