"""Units over a table, and a filter's status codes from the values and errors of its rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from policy_sched.language.compiled import FilterRule, Root, Unit
from policy_sched.language.cycle import Activation
from policy_sched.language.faults import Failure, LimitError
from policy_sched.language.generate import Functions
from policy_sched.language.ir import KINDS
from policy_sched.language.runtime import Runtime
from policy_sched.model.pod_info import PodInfo

Codes = npt.NDArray[np.int16]
Out = Sequence[Any] | Failure
"""The values and errors of one row, or why there are none."""


class BoundUnit:
    """A unit over a table."""

    __slots__ = ("functions", "unit")

    def __init__(self, unit: Unit, runtime: Runtime) -> None:
        self.unit = unit
        self.functions: Functions = unit.program.bind(runtime)

    def scalar(self, pod: PodInfo | None, cycle: Any, row: int) -> Out:
        """Return the values of one row, for `one`; a Failure where they take too much work."""
        try:
            return self.functions.scalar(pod, cycle, row)
        except LimitError as error:
            return Failure("exhausted", str(error))

    def one(self, root: Root, out: Out) -> Any:
        """Return a root's value, or the Failure in its place."""
        if isinstance(out, Failure):
            return out
        if root.error is not None and out[root.error]:
            site = int(out[root.error])
            return Failure(KINDS[self.unit.sites[site].kind], self.unit.words(site))
        return out[root.value]

    def answer(self, root: int, pod: PodInfo | None, cycle: Any, row: int) -> Any:
        """Return the value of the root of a number for one row, or the Failure in its place."""
        return self.one(self.unit.roots[root], self.scalar(pod, cycle, row))

    def vector(self, pod: PodInfo | None, cycle: Activation, rows: Any, n: int) -> Any:
        """Run the vector function over ``n`` rows: a slice, row numbers, or None for all rows.

        Arrays may be read-only; values of dead rows are undefined.
        """
        with np.errstate(all="ignore"):
            if rows is None:
                return self.functions.every_row(pod, cycle, n)
            return self.functions.vector(pod, cycle, rows, n)


def filter_codes(
    codes: Codes | None, values: Any, errors: Any, rule: FilterRule, number: int, n: int
) -> Codes | None:
    """Return ``codes`` with what rule ``number`` adds for rows that passed so far."""
    own: Any = None
    if errors is not None and np.any(errors):
        failed = np.not_equal(errors, 0)
        wrong = 0 if rule.on_error == "Allow" else 2 * number + 2
        own = np.where(failed, wrong, np.where(values, 0, 2 * number + 1))
    elif isinstance(values, np.ndarray) and values.ndim:
        if values.all():
            return codes
        if number == 0:
            own = np.logical_not(values).astype(np.int16)
        else:
            own = np.where(values, 0, 2 * number + 1)
    elif values:
        return codes
    else:
        own = 2 * number + 1
    if not isinstance(own, np.ndarray) or own.ndim == 0:
        own = np.full(n, own, dtype=np.int16)
    own = own.astype(np.int16, copy=False)
    return own if codes is None else np.where(codes, codes, own)


def reversed_key(value: Any) -> Any:
    """Return what sorts the other way round."""
    if isinstance(value, str):
        return Reversed(value)
    return -value


class Reversed:
    """A string that sorts in descending order."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __lt__(self, other: Reversed) -> bool:
        return other.text < self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reversed) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)
