"""Strand: a thread in which work can be set aside while somebody outside is asked.

Theory of operation. A strand does one piece of work at a time for its owner, another thread. Both
are never awake together: the owner waits while the work goes on, and the work waits while its owner
does. So they share everything and need no locks, as a coroutine and its caller do. A strand is a
coroutine that any function can suspend, however deep below it is called.

`aside` suspends: the owner goes on, and the call that it is given is made meanwhile. That call is
the only thing that ever happens beside the owner, so it may touch nothing that the owner changes.
Its answer is kept until the owner resumes the work. In any other thread `aside` just calls.

`Pieces` uses a strand for work that is nothing but long: it is left where it says `pause` when a
slice of time is over, and goes on when its owner asks for the next piece.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from queue import SimpleQueue
from threading import Thread, local
from typing import Final, TypeVar

T = TypeVar("T")

_HERE: Final = local()
"""``strand``: the strand that this thread is of."""


class GivenUp(BaseException):
    """The work is not wanted any more, and unwinds; nobody but its strand catches this."""


class Strand:
    """Does work for the thread that made it. ``answered`` is called in another thread.

    It says that the call is over for which the work was set aside, so that it can go on.
    """

    def __init__(self, answered: Callable[[], None]) -> None:
        self.running = False
        """Whether it is the strand that is awake."""
        self.busy = False
        """Whether work was begun that has not ended."""
        self.ready = False
        """Whether work that was set aside can go on."""
        self.over: Callable[[], bool] = _never
        """Whether work that says `pause` is to be set aside."""
        self._answered = answered
        self._orders: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._reports: SimpleQueue[BaseException | None] = SimpleQueue()
        self._begun = False

    def begin(self, work: Callable[[], None]) -> bool:
        """Do work until it ends (True) or is set aside; what it raises is raised here."""
        assert not self.busy, "one piece of work at a time"
        if not self._begun:
            self._begun = True
            # Nobody waits for this thread when the process ends: who is asked may never answer.
            Thread(target=self._live, name="strand", daemon=True).start()
        self.busy = True
        return self._resumed(work)

    def go_on(self) -> bool:
        """Resume work that is `ready`, as `begin` does."""
        assert self.ready, "there is no answer yet"
        self.ready = False
        return self._resumed(_go_on)

    def close(self) -> None:
        """End the thread; work that was set aside unwinds as soon as its call is over."""
        self._orders.put(None)

    # In the owner's thread.

    def _resumed(self, order: Callable[[], None]) -> bool:
        self.running = True
        self._orders.put(order)
        error = self._reports.get()
        self.running = False
        if error is not None:
            raise error
        return not self.busy

    # In the strand's own thread.

    def _live(self) -> None:
        _HERE.strand = self
        while (work := self._orders.get()) is not None:
            error = None
            try:
                work()
            except GivenUp:
                return
            except BaseException as raised:  # noqa: BLE001 - it is the owner's
                error = raised
            self.busy = False
            self._reports.put(error)

    def _aside(self, call: Callable[[], T]) -> T:
        self._reports.put(None)
        try:
            return call()
        finally:
            self.ready = True
            self._answered()
            if self._orders.get() is None:
                raise GivenUp

    def _pause(self) -> None:
        self.ready = True
        self._answered()
        self._reports.put(None)
        if self._orders.get() is None:
            raise GivenUp


class Pieces:
    """Does long work in pieces; ``over`` tells whether a piece has been long enough."""

    def __init__(self, over: Callable[[], bool]) -> None:
        self._over = over
        self._strand: Strand | None = None

    def of(self, work: Callable[[], T]) -> Generator[None, None, T]:
        """Do work; each piece ends where the work says `pause`. Returns what the work returns."""
        if getattr(_HERE, "strand", None) is not None:
            return work()  # whoever set this work aside may do so again
        if self._strand is None or self._strand.busy:  # one that was left in the middle is lost
            self._strand = Strand(_go_on)
            self._strand.over = self._over
        strand, found = self._strand, list[T]()
        done = strand.begin(lambda: found.append(work()))
        while not done:
            yield
            done = strand.ready and strand.go_on()
        return found[0]


def aside(call: Callable[[], T]) -> T:
    """Return what a call returns, or raise what it raises; who owns this strand goes on meanwhile.

    It may touch nothing that others change.
    """
    strand: Strand | None = getattr(_HERE, "strand", None)
    return call() if strand is None else strand._aside(call)  # noqa: SLF001 - its other half


def pause() -> None:
    """End a piece of long work here if it has been long enough; everything must be whole."""
    strand: Strand | None = getattr(_HERE, "strand", None)
    if strand is not None and strand.over():
        strand._pause()  # noqa: SLF001 - its other half


def pausing(work: Generator[None, None, T]) -> T:
    """Do work to its end, with a pause wherever it may be left; return what it returns."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found
        pause()


def _never() -> bool:
    """Go on."""
    return False


def _go_on() -> None:
    """Stands for: resume what was set aside."""
