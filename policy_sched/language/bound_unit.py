"""A unit of a compiled policy over a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from policy_sched.language.codegen import Functions
from policy_sched.language.runtime import Activation, Runtime
from policy_sched.language.sections import Root, Unit
from policy_sched.language.values import KINDS, Failure, LimitError
from policy_sched.model import PodInfo

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
