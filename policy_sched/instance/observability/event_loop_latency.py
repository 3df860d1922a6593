"""Event-loop latency: a histogram of the duration of each iteration of the event loop.

Theory of operation. An iteration calls the selector, then runs the callbacks that are ready. The
selector of `measured_loop` therefore sees the beginning and end of each iteration, and costs an
idle process nothing. Durations are wall time, so other processes on the machine add to them; the
most CPU time of an iteration is kept as well.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from policy_sched.instance.observability.metric_families import Families, Histogram, NumberFamily


class EventLoopLatency(Families, table="event_loop"):
    """Durations of the turns of one loop."""

    event_loop_blocked_seconds: Histogram
    event_loop_longest_block_seconds: NumberFamily
    event_loop_longest_block_cpu_seconds: NumberFamily

    def __init__(self) -> None:
        super().__init__()
        self.begin()

    def begin(self) -> None:
        """Measure from now on; earlier turns, as the first listing, do not count."""
        self.event_loop_blocked_seconds.series.clear()
        self.event_loop_blocked_seconds.series[()]
        self.longest = 0.0
        self.longest_busy = 0.0
        self._longest_lately = 0.0
        self.busiest = 0.0
        """The most processor time of a turn since the previous call of `recent`."""
        self._skip = True

    def record(self, seconds: float, busy: float) -> None:
        """Record a turn: its duration, and its processor time."""
        if self._skip:
            self._skip = False  # the turn of `begin` itself
            return
        self.event_loop_blocked_seconds.observe((), seconds)
        if seconds > self._longest_lately:
            self._longest_lately = seconds
            self.longest = max(self.longest, seconds)
        if busy > self.busiest:
            self.busiest = busy
            self.longest_busy = max(self.longest_busy, busy)

    def recent(self) -> tuple[float, float]:
        """Return the longest turn and the most processor time since the previous call."""
        latest = self._longest_lately, self.busiest
        self._longest_lately = self.busiest = 0.0
        return latest

    def look(self) -> None:
        """Set the gauges."""
        self.event_loop_longest_block_seconds.values[()] = self.longest
        self.event_loop_longest_block_cpu_seconds.values[()] = self.longest_busy


IN_A_ROW: Final = 12
"""So many turns are many if they begin within a fifth more time than they are to be apart.

50 pods a second have 110 turns, which is fewer: to wait after some of them woke the process up more
often than it brought events together.
"""


class _Selector(selectors.DefaultSelector):
    """A selector that reports the beginning and the end of each turn."""

    def __init__(
        self, turns: EventLoopLatency, apart: float, sleep: Callable[[float], None]
    ) -> None:
        super().__init__()
        self._turns = turns
        self._apart, self._sleep = apart, sleep
        self._began = time.perf_counter()
        self._busy = time.process_time()
        self._lately = deque([self._began] * IN_A_ROW, IN_A_ROW)
        """When the last turns began."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait for events: one turn has ended, and the next begins with the events."""
        seconds = time.perf_counter() - self._began
        if timeout == 0 and seconds < self._apart:
            return []  # callbacks that follow each other are one turn: a system call less for each
        # Processor time is a system call; a turn that took less can not have used the most.
        longer = seconds > self._turns.busiest
        self._turns.record(seconds, time.process_time() - self._busy if longer else 0.0)
        early = self._apart - seconds
        many = self._began - self._lately[0] < 1.2 * IN_A_ROW * self._apart
        if early > 0 and timeout != 0 and many:
            # A turn costs as much as some pods of a long one: what comes meanwhile shares the next.
            # Where few pods come nothing does, and to wake up twice costs more than it saves.
            if timeout is not None:
                early = min(early, timeout)
                timeout -= early
            self._sleep(early)
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(timeout)
        self._began = time.perf_counter()
        self._busy = time.process_time()
        self._lately.append(self._began)
        return ready


def measured_loop(
    turns: EventLoopLatency, apart: float = 0.0, sleep: Callable[[float], None] = time.sleep
) -> asyncio.AbstractEventLoop:
    """Return an event loop that records its turns in ``turns``.

    ``apart``: seconds from the beginning of a turn within which no other one begins where there
    are many.
    """
    loop = asyncio.SelectorEventLoop(_Selector(turns, apart, sleep))
    # What the method does, a call less for each of a dozen a pod.
    loop.time = time.monotonic  # type: ignore[method-assign]
    return loop
