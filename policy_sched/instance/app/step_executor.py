"""StepExecutor: what is done with a scheduler, piece by piece, on a strand if it may be set aside.

Theory of operation. Whatever reads or changes a scheduler's state is a piece of work: a step, an
explanation. Where extenders are in force it is done on a strand (`framework/strand.py`), so that
the event loop goes on while an extender is asked: leases are renewed, requests are answered,
watches are read. Nothing else is begun on the scheduler until the piece has ended; what is known of
the cluster therefore does not change under a decision.

Shared state. The loop's thread and the strand's are never awake together, so a piece may
touch whatever the loop's thread may, with one exception: an event loop is only spoken to in its own
thread. A piece reaches it through `call_in_loop`. The threads in which extenders are called do
run beside the loop; they touch the extender's connection and immutable objects.

Without extenders a step is a call, and nothing is in between; what may take long in it ends turns
by itself (see the queue's agenda). Other pieces, as explanations, are always done on the strand.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from policy_sched.framework.runtime import Strand

T = TypeVar("T")

GIVE_WAY: Final = 0.0005
"""Seconds after which a thread that asks an extender lets the event loop's go on (Python: 0.005).

A turn of the loop waits so long for each call of the system that it makes.
"""


Slice = Callable[[], Callable[[], bool]]


def endless() -> Callable[[], bool]:
    """Begin a slice of time that is never over."""
    return lambda: False


class StepExecutor:
    """Does pieces of work in an event loop.

    ``may_ask``: whether a piece that begins now may ask extenders. ``ended`` is called when one has
    ended that was set aside. ``slice_`` returns what tells when a slice of time is over that begins
    now: a piece that says `pause` then leaves the loop its turn.
    """

    def __init__(
        self, may_ask: Callable[[], bool], ended: Callable[[], None], slice_: Slice = endless
    ) -> None:
        self._slice = slice_
        self._may_ask = may_ask
        self._ended = ended
        self._strand: Strand | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._step: asyncio.Future[int] | None = None
        self._finish: Callable[[BaseException | None], None] | None = None
        self._for_loop: list[Callable[[], None]] = []
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def busy(self) -> bool:
        """Whether a piece is set aside: nothing else may be begun."""
        return self._finish is not None and not (self._strand and self._strand.running)

    def step(self, work: Callable[[], int]) -> int | None:
        """Do a step; None if it was set aside: the next call has what became of it."""
        if self._step is None:
            if not self._asks():
                return work()
            self._step = self._begin(work)
        if not self._step.done():
            return None
        step, self._step = self._step, None
        return step.result()

    async def do(self, work: Callable[[], T]) -> T:
        """Run a piece that may take long; it runs to its end even if its caller was cancelled."""
        return await self._begin(work)

    async def change(self) -> None:
        """Wait until a piece has ended; before another is begun it is our turn."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    def call_in_loop(self, act: Callable[[], None]) -> None:
        """Do something in the event loop's thread, before anything else happens there."""
        if self._strand is not None and self._strand.running:
            self._for_loop.append(act)
        else:
            act()

    def close(self) -> None:
        """Give up what is set aside."""
        if self._strand is not None:
            self._strand.close()
            self._strand = None

    # Inside.

    def _asks(self) -> bool:
        """Tell whether to use a strand; without an event loop nothing could go on meanwhile."""
        if not self._may_ask():
            return False
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return True

    def _begin(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Begin a piece. What is returned is done already if the piece was not set aside."""
        assert not self.busy, "one piece at a time"
        loop = self._loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        found: list[T] = []

        def finish(error: BaseException | None) -> None:
            if future.cancelled():  # the caller was cancelled
                return
            if error is None:
                future.set_result(found[0])
            else:
                future.set_exception(error)

        self._finish = finish
        if self._strand is None:
            self._strand = Strand(self._answered)
            sys.setswitchinterval(GIVE_WAY)
        strand = self._strand
        self._resume(lambda: strand.begin(lambda: found.append(work())))
        return future

    def _answered(self) -> None:
        """A call is over, says the strand in its own thread."""
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop has ended, and with it the need
            self._loop.call_soon_threadsafe(self._go_on)

    def _go_on(self) -> None:
        if self._strand is not None:
            self._resume(self._strand.go_on)
            if not self.busy:
                self._ended()

    def _resume(self, resume: Callable[[], bool]) -> None:
        """Let the piece go on until it ends or is set aside again."""
        error: BaseException | None = None
        assert self._strand is not None
        self._strand.over = self._slice()
        try:
            over = resume()
        except BaseException as raised:  # noqa: BLE001 - raised to the caller of the piece
            over, error = True, raised
        finally:
            acts, self._for_loop = self._for_loop, []
            for act in acts:
                act()
        if over:
            finish, self._finish = self._finish, None
            assert finish is not None
            finish(error)
            for waiter in self._waiting:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiting.clear()
