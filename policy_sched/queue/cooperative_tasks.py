"""Agenda: work on many pods that is done in slices, one piece of work after the other.

Theory of operation. A piece of work is an iterator that does a little each time it is asked, and
leaves everything whole in between: a pod is in exactly one place. Whoever begins work has it done
at once as far as `over` allows; the rest is *half done*, until somebody calls `go_on` often enough.
So that it does not matter where work is cut, nothing else may happen before its rest is done:

* what begins meanwhile stands behind it;
* what cannot wait has the rest done first (`finish`), however long that takes;
* whoever owns the agenda takes up nothing while it is half done: no change of the cluster, no pod,
  no policies. Everything outside, from watches to leases, goes on.

Then each piece of work is one step in the history of everything that it reads and writes, as it is
in kube-scheduler, whose queue is locked while it moves pods. What work does itself is part of it:
work that is begun by work is done at once, and `finish` has nothing to do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import TypeAlias, TypeVar

T = TypeVar("T")
Work: TypeAlias = Iterator[None]
"""Does a little each time it is asked for the next; where it stops everything is whole."""
Finding: TypeAlias = Generator[None, None, T]
"""Work that returns something when it is done."""


def at_once(work: Finding[T]) -> T:
    """Do work to its end, and return what it returns."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found


def never() -> bool:
    """Go on to the end."""
    return False


class Agenda:
    """Work in the order in which it was begun; ``over`` tells whether a slice of time is over."""

    def __init__(self) -> None:
        self.over: Callable[[], bool] = never
        self._works: deque[Work] = deque()
        self._running = False

    @property
    def half_done(self) -> bool:
        """Whether anything is left to do; what is being done at the moment does not count."""
        return bool(self._works) and not self._running

    def begin(self, work: Work) -> None:
        """Do work now as far as there is time, or after all that is half done."""
        if self._running:
            for _ in work:
                pass
            return
        self._works.append(work)
        if len(self._works) == 1:
            self.go_on()

    def go_on(self) -> bool:
        """Do as much as there is time for; return whether all is done."""
        return self._run(self.over)

    def finish(self) -> None:
        """Do everything that is half done."""
        if self._works and not self._running:
            self._run(never)

    def _run(self, over: Callable[[], bool]) -> bool:
        works = self._works
        self._running = True
        try:
            while works:
                for _ in works[0]:
                    if over():
                        return False
                works.popleft()
        except BaseException:
            works.popleft()  # what broke is not tried again
            raise
        finally:
            self._running = False
        return True
