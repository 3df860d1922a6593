"""The cycle collector in a process that holds a whole cluster: never a long pause.

Theory of operation. Pods and nodes live long and are no cycles, so to walk through all of them, as
a full collection does, takes long and finds nothing: 0.1 s with 30,000 pods. Python collects the
young objects when there are so many more than there were; where as many old ones go as new ones
come, that is long after they have become many. So they are collected by the time, while there is
something to do; and what survives is frozen and not looked at again. It goes when nobody refers to
it any more. Cycles that live longer than that would stay, so there are none: neither policies that
are replaced, nor connections that are over, nor pods that are bound leave any (tests say so).
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

EVERY: Final = 0.1
"""Seconds between two collections: at 1,000 pods a second they take some milliseconds each."""
MANY: Final = 20_000
"""New objects after which Python collects by itself, in the middle of something, if nobody was
asked to look before: 100,000 would take more than 10 ms."""


class Collector:
    """Collects when it is asked to look and it is time; ``now`` is monotonic, in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._due = now() + EVERY

    def look(self) -> bool:
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
