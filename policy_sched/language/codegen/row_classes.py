"""Programs that tell rows apart, for expressions that are computed once for rows that are alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np

from policy_sched.language.codegen import module
from policy_sched.language.codegen.emitter import ConstantPool
from policy_sched.language.ir import Builder, Op, row_classes
from policy_sched.language.runtime import Runtime

#: Takes a pod, a context, rows and their number; returns arrays with one element per row, single
#: values, and lists of both. Rows on which all of them are equal are alike.
Marks: TypeAlias = Callable[[Any, object, Any, int], Sequence[Any]]


class ClassProgram(msgspec.Struct, frozen=True):
    """The code that tells rows apart, before a table is known."""

    code: bytes
    slots: ConstantPool

    def bind(self, runtime: Runtime) -> Marks:
        """Return the function over one table, or over a view of it."""
        function = module.bind_factory(self.code, self.slots, runtime)

        def run(pod: Any, case: object, rows: Any, n: int) -> Sequence[Any]:
            with np.errstate(all="ignore"):
                found: Sequence[Any] = function(pod, case, rows, n)
            return found

        return run


def class_program(roots: Sequence[Op], build: Builder) -> ClassProgram | None:
    """Return what tells rows apart on which ``roots`` may differ; None if only the rows do."""
    found = row_classes(roots, build)
    if found is None:
        return None
    writer = module.Writer()
    writer.function("marks", module.OVER_ROWS, found, rows=True)
    return ClassProgram(module.compiled(writer.text()), writer.slots)
