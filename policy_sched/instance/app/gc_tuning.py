"""Python's cycle collector in a process that holds a whole cluster.

Theory of operation. Pods and nodes live long and form no cycles: with 30,000 pods a full collection
takes 0.1 s and finds nothing. So the objects of the first listing are frozen once, and the
thresholds are high; Python collects newer objects by itself, and runs a full collection only when
the number of old objects has grown by a quarter. The pauses are measured and exported.

After a burst of pods closed connections wait for such a collection with their buffers, and glibc
keeps what was freed. Once it is quiet again they are collected, and free pages go to the system.
"""

from __future__ import annotations

import ctypes
import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from policy_sched.instance import observability

THRESHOLDS: Final = (20_000, 5, 100)
"""New objects, and collections of a younger generation, after which Python collects.

The first two bound a usual pause to some 100,000 objects, which is about 10 ms.
"""
BURST: Final = 1000
"""Pods and changes within `QUIET` that are a burst; it is over when there are fewer."""
QUIET: Final = 20_000_000_000
"""Nanoseconds; connections that are not used are closed before."""


class GcPauses(observability.Families, table="gc"):
    """Duration of collections, by generation.

    ``timer`` returns seconds. A collection may begin anywhere, so this takes no lock.
    """

    gc_pause_seconds: observability.Histogram

    def __init__(self, timer: Callable[[], float] = time.perf_counter) -> None:
        super().__init__()
        self._timer = timer
        self._began = 0.0
        for generation in range(len(THRESHOLDS)):
            self.gc_pause_seconds.series[(str(generation),)]

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        """Record a collection: Python calls this before ("start") and after it."""
        if phase == "start":
            self._began = self._timer()
        else:
            generation = (str(info["generation"]),)
            self.gc_pause_seconds.observe(generation, self._timer() - self._began)


@contextmanager
def tuned_gc(pauses: GcPauses | None = None) -> Iterator[None]:
    """Raise the thresholds in the context, and measure each pause."""
    thresholds = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    if pauses is not None:
        gc.callbacks.append(pauses)
    try:
        yield
    finally:
        if pauses is not None:
            gc.callbacks.remove(pauses)
        gc.set_threshold(*thresholds)


def freeze_loaded() -> None:
    """Collect once, and freeze the surviving objects: they live as long as the process."""
    gc.collect()
    gc.freeze()


def release_memory() -> None:
    """Collect cycles, and give free pages to the system where the C library can (glibc)."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class MemoryAfterBursts:
    """Calls ``release`` when a burst of work is over."""

    def __init__(self, release: Callable[[], None] = release_memory) -> None:
        self._release = release
        self._began = self._before = 0
        self._burst = False

    def look(self, work: int, now: int) -> int | None:
        """Return when to look again, None if there was no burst.

        ``work``: pods and changes so far; times are in nanoseconds.
        """
        over = now >= self._began + QUIET
        many = not over and work - self._before >= BURST
        if over and self._burst:
            self._release()
        if over or many:
            self._burst, self._began, self._before = many, now, work
        return self._began + QUIET if self._burst else None
