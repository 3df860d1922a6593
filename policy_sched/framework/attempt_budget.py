"""AttemptBudget: how much work one attempt may take, whatever the pod's owner asks for.

Theory of operation. Work that a pod can make expensive (a search among devices, an expression over
them) is paid for in units, before or while it is done. Units are counted, not measured, so the same
pod ends in the same place in a simulation and in a test. A scheduler that runs has a clock as well.
Outside of an attempt each call of a plugin has the units of an attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from policy_sched.errors import PolicySchedError, TakesLong

UNITS: Final = 1_250_000
"""Units of an attempt: one expression may take 1,000,000 (CEL's limit), at 1.5 to 5 us each."""
UNITS_PER_NODE: Final = 20
"""Units that each node adds, so that a large cluster is searched in one attempt."""
BRIEF_UNITS: Final = 2_000
"""Units of a brief attempt: 1 to 5 ms, after which it is made again where it blocks nothing."""
BINDING_UNITS: Final = 300_000
"""Units for what is done with a decision, which blocks: Reserve looks at the chosen node again."""
#: Units after which the clock is read again.
_TICK: Final = 1_000


class DeadlineExceeded(PolicySchedError):  # noqa: N818 - Go's name for it
    """The attempt has no units left, or its time is over."""


class AttemptBudget:
    """The units of one attempt after the other; ``now`` returns nanoseconds."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self.units = UNITS
        """Units of an attempt; what nodes add is not among them."""
        self.whole = self.left = 0
        """Units of this attempt, and those that are left."""
        self.exceeded = False
        """Whether the attempt, or the last one, wanted more than it had."""
        self.spent = False
        """Whether it wanted more units than it had, not more time."""
        self.under_way = False
        """Whether an attempt, or its binding, is paid for; unset where it ends."""
        self._brief = False
        self._sized = False
        self._deadline: int | None = None
        self._ticks = 0

    def begin(self, *, brief: bool = False) -> None:
        """Begin an attempt; a ``brief`` one has few units, and raises TakesLong beyond them."""
        self.under_way, self._brief, self._sized = True, brief, brief
        self.exceeded = self.spent = False
        self.left = BRIEF_UNITS if brief else self.units
        self._deadline, self._ticks = None, 0

    def resume(self) -> None:
        """Go on with an attempt that was decided, with the units that are left for its binding."""
        self.under_way, self._brief, self._sized = True, False, True
        self.left = min(self.left, BINDING_UNITS)

    def enter(self, nodes: int, timeout: int) -> None:
        """Begin work that is paid for; ``timeout``: nanoseconds for the whole attempt, 0: no limit.

        A plugin's time begins when the first of its calls does.
        """
        if not self.under_way:
            self.begin()
            self.under_way = False
        if not self._sized:
            self._sized = True
            self.left += UNITS_PER_NODE * nodes
            self.whole = self.left
        if timeout and self._deadline is None:
            self._deadline = self._now() + timeout

    def charge(self, units: int) -> None:
        """Take units for work that was done; whether they were there the next `spend` tells."""
        self.left -= units
        self._ticks -= units

    def spend(self, units: int) -> None:
        """Take units. Raises DeadlineExceeded, and TakesLong in a brief attempt."""
        self.left -= units
        if self.left >= 0:
            self._ticks -= units
            if self._ticks > 0 or self._deadline is None:
                return
            self._ticks = _TICK
            if self._now() <= self._deadline:
                return
        self.spent = self.spent or (not self.exceeded and self.left < 0)
        self.exceeded, self.left = True, -1
        if self._brief:
            raise TakesLong("the attempt takes long", worked=True)
        raise DeadlineExceeded("the attempt takes too long")
