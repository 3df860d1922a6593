"""Bounds the work of a rule, and the size of the texts and lists that it makes.

Theory of operation. The API bounds what a rule reads, and a text function is linear in it; only
nesting and joining grow without bound. An outermost loop, with everything inside of it, has
`MAX_STEPS` for one row: loops and functions over texts and lists take as many steps as their
arguments are long. The loop counts them in a variable of its own and takes them of the evaluation
at its end; an evaluation of all rows has `MAX_TOTAL` together. Steps depend on values
alone, never on time: the same rule over the same cluster ends at the same place. A loop that is
outermost in the function of one row is outermost in that of all rows, so both count alike.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import msgspec

from policy_sched.errors import PolicySchedError, TakesLong

KINDS: Final = (
    "",
    "no_such_key",
    "no_value",
    "overflow",
    "divide_by_zero",
    "conversion",
    "index_out_of_range",
    "not_finite",
)


NO_SUCH_KEY, NO_VALUE, OVERFLOW, DIVIDE_BY_ZERO, CONVERSION, OUT_OF_RANGE, NOT_FINITE = range(1, 8)


class Fault(Exception):  # noqa: N818  # an error value of the language, not one of this program
    """An error of an expression; ``kind`` is the number of one of `KINDS`."""

    def __init__(self, kind: int) -> None:
        super().__init__(kind)
        self.kind = kind


class Some(msgspec.Struct, frozen=True):
    """A present optional; an absent one is None."""

    value: object


class Failure(msgspec.Struct, frozen=True):
    """The failure of an expression: the kind of error and its message."""

    kind: str
    message: str


class RuleError(PolicySchedError):
    """A rule whose onError is Abort failed: the attempt ends."""


class LimitError(RuleError):
    """A rule takes too much work or makes too large a value: its evaluation ends.

    ``whole``: the limit is that of all rows together, so no row has a result.
    """

    def __init__(self, message: str, *, whole: bool = False) -> None:
        super().__init__(message)
        self.whole = whole


#: Characters of a text, and elements of a list, that a rule makes.
MAX_TEXT: Final = 2**20
MAX_ITEMS: Final = 100_000
#: Steps of an outermost loop with all that is inside of it, for one row; a step takes some 100 ns.
MAX_STEPS: Final = 1_000_000
#: Steps of all loops of one evaluation, all rows together.
MAX_TOTAL: Final = 10_000_000
#: Steps of a brief attempt as a whole, which is made again where it blocks nothing: 20 ms.
BRIEF_STEPS: Final = 200_000
#: So many characters of a text that a function reads are one step, as a power of two.
CHARACTERS: Final = 4
#: Rows of a NumPy operation that are one step.
_ROWS: Final = 64


@dataclass(slots=True)
class Left:
    """The remaining steps of an evaluation, or of several that share them.

    ``brief``: those of an attempt that is made anew when it has none left, whatever takes them.
    ``exceeded``: whether the last such attempt wanted more.
    """

    total: int = MAX_TOTAL
    shared: bool = False
    brief: bool = False
    exceeded: bool = False

    def begin_brief(self) -> None:
        """Begin a brief attempt, or a part of it that has as many steps of its own."""
        self.total, self.shared, self.brief, self.exceeded = BRIEF_STEPS, True, True, False

    def end_brief(self) -> None:
        """End a brief attempt: each evaluation has `MAX_TOTAL` again."""
        self.shared = self.brief = False


class _ThreadLeft(threading.local):
    """The remaining steps of this thread; a lookup in it costs more than a step."""

    def __init__(self) -> None:
        self.left = Left()


_THREAD: Final = _ThreadLeft()


def remaining() -> Left:
    """Return the remaining steps of the evaluation."""
    return _THREAD.left


def refill() -> Left:
    """Begin an evaluation; return its steps."""
    left = _THREAD.left
    if not left.shared:
        left.total = MAX_TOTAL
    return left


@contextmanager
def one_evaluation() -> Iterator[None]:
    """Let evaluations inside share the steps that one has."""
    left = refill()
    before, left.shared = left.shared, True
    try:
        yield
    finally:
        left.shared = before


def begin(left: Left, items: Sized) -> None:
    """Begin an outermost loop over ``items`` with nothing inside of it that takes steps."""
    steps = len(items)
    if steps > MAX_STEPS:
        exceeded(left)
    left.total -= steps
    if left.total < 0:
        exhausted()


def begin_rows(items: Sized, n: int) -> None:
    """Begin a loop over ``items`` whose body is computed for ``n`` rows at once."""
    spend_of_total(len(items) * (1 + n // _ROWS))


def exceeded(left: Left) -> NoReturn:
    """Raise the LimitError of a loop that takes more steps than one has, or the evaluation."""
    left.total -= MAX_STEPS
    if left.total < 0:
        exhausted()
    raise LimitError(f"its loops take more than {MAX_STEPS} steps")


def exhausted() -> NoReturn:
    """Raise the LimitError of an evaluation that takes more steps than it has, or TakesLong."""
    left = _THREAD.left
    if left.brief:
        left.exceeded = True
        raise TakesLong("a rule takes long", worked=True)
    raise LimitError(f"it takes more than {MAX_TOTAL} steps for all nodes together", whole=True)


def spend_of_total(steps: int) -> None:
    """Take steps of the evaluation. Raises LimitError if none are left."""
    left = _THREAD.left
    left.total = total = left.total - steps
    if total < 0:
        exhausted()


def folded(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Call a function while a policy is compiled, which is one evaluation."""
    spend_of_total(1 + sum(map(weight, args)))
    return function(*args)


def weigh(value: object) -> None:
    """Take a step for each value inside of a value, as often as it is there."""
    if isinstance(value, Some):
        weigh(value.value)
    elif isinstance(value, (list, tuple, dict)):
        spend_of_total(len(value))
        for item in value.values() if isinstance(value, dict) else value:
            weigh(item)


def weight(value: object) -> int:
    """Return how many steps a function takes to read a value."""
    if isinstance(value, str):
        return len(value) >> CHARACTERS
    return len(value) if isinstance(value, (list, tuple, dict)) else 0


def text_of(length: int) -> None:
    """Check the length of a text before it is made. Raises LimitError."""
    if length > MAX_TEXT:
        raise LimitError(f"it makes a text of more than {MAX_TEXT} characters")


def list_of(length: int) -> None:
    """Check the length of a list before it is made. Raises LimitError."""
    if length > MAX_ITEMS:
        raise LimitError(f"it makes a list of more than {MAX_ITEMS} elements")
