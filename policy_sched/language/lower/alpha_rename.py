"""Alpha-renames loop variables where two loops run over one named list.

Theory of operation. A comprehension that has a name (a variable, `cel.bind`, an element that is a
list) may be run more than once, also inside of itself. Its values are ops over its loop variable;
a second loop gets copies of them over a fresh variable, and so do loops inside of them.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from policy_sched.language.ir import Builder, Loop, Op
from policy_sched.language.lower.abstract_values import Comprehension, Constant, Value

_T = TypeVar("_T")


class AlphaRenaming:
    """Copies ops, with loop variables in place of others."""

    def __init__(self, build: Builder) -> None:
        self._build = build
        self._ops: dict[Op, Op] = {}
        self._changed: set[Op] = set()

    def variable(self, old: Op, source: Op) -> Op:
        """Return the fresh variable over ``source`` that takes the place of ``old``."""
        new = self._build.fresh(old.kind, old.rep, source)
        self._ops[old] = new
        self._changed.add(old)
        return new

    def op(self, op: Op) -> Op:
        """Return an op over the new variables."""
        if not op.params & self._changed:
            return op
        known = self._ops.get(op)
        if known is None:
            known = self._ops[op] = self._copy(op)
        return known

    def _copy(self, op: Op) -> Op:
        data = op.data
        if isinstance(data, Loop):
            source = self.op(op.args[0])
            own = {p.serial: p for a in op.args[1:] for p in a.params}
            param, index = own.get(data.param), own.get(data.index or 0)
            data = replace(
                data,
                param=self.variable(param, source).serial if param else data.param,
                index=self.variable(index, source).serial if index else data.index,
            )
        args = [self.op(a) for a in op.args]
        return self._build.op(op.kind, *args, rep=op.rep, data=data, level=op.level)

    def value(self, value: _T) -> _T:
        """Return an abstract value, or a tuple of them, over the new variables."""
        return self._any(value)  # type: ignore[no-any-return]

    def _any(self, value: Any) -> Any:
        if isinstance(value, Op):
            return self.op(value)
        if isinstance(value, tuple):
            return tuple(self._any(part) for part in value)
        if isinstance(value, Constant) or not is_dataclass(value) or isinstance(value, type):
            return value
        if isinstance(value, Comprehension):
            source = self.op(value.source)
            self.variable(value.param, source)
            if value.index is not None:
                self.variable(value.index, source)
        if type(value).__module__ != Value.__module__:
            return value
        parts = {f.name: self._any(getattr(value, f.name)) for f in fields(value)}
        return type(value)(**parts)


def alpha_renamed(
    build: Builder, loop: Comprehension, *others: Op | None
) -> tuple[Comprehension, list[Op | None]]:
    """Return a comprehension with variables of its own, and other ops of its body over them."""
    names = AlphaRenaming(build)
    made = names.value(loop)
    return made, [None if op is None else names.op(op) for op in others]
