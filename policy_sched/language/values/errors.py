"""Exceptions of evaluation, and the form of a present optional."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from policy_sched.errors import PolicySchedError

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


@dataclass(frozen=True, slots=True)
class Some:
    """A present optional; an absent one is None."""

    value: object


@dataclass(frozen=True, slots=True)
class Failure:
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
