"""Replaces loops that count or sum pods on a node or in a domain by incremental counts.

Theory of operation. `node.pods.filter(p, f).size()`, `.sum(p, a)`, `.all(p, f)` and `.exists(p, f)`
are loops over pods, and so are the same macros over `domain(k).pods` and over `d.pods` within
`domains(k)`. If `f` and `a` read the pod `p` and values of the scheduled pod, read nothing of the
node and cannot fail, and no sum overflows, then every row counts alike. The loop becomes a `COUNTS`
op, whose data is the condition and whose arguments are those values, and an op that reads the
number of one row, of its domain or of one domain. Loops over `cluster.pods` are lowered to
`COUNT_ALL` directly (see lower/loops.py).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

import msgspec

from policy_sched.cluster.tables import TEXT_ATTRIBUTES
from policy_sched.language.ir import ops
from policy_sched.language.ir.graph import Builder, Level, Loop, Op, reached
from policy_sched.language.ir.ops import LoopKind, OpKind
from policy_sched.language.ir.regions import descending
from policy_sched.language.runtime import Condition

#: The loops over pods that may become counts.
COUNTED_LOOPS: Final = (LoopKind.COUNT, LoopKind.ALL, LoopKind.EXISTS, LoopKind.SUM_INT)
_COLUMNS: Final = {attribute: column for column, attribute in TEXT_ATTRIBUTES.items()}


class PodCount(msgspec.Struct, frozen=True, eq=False):
    """The data of a `COUNTS` op: a condition over ``param``, and what a pod adds to the count.

    The op's arguments are the values that ``amount`` takes besides the pod. `COUNT_ALL`, the total
    over all nodes, has the same data.
    """

    condition: Condition
    param: Op
    amount: Op
    """A bool where pods are counted; else an int, which is 0 where the condition does not hold."""


class CountPass:
    """``roots`` with counts in place of loops over pods."""

    def __init__(self, roots: Iterable[Op], build: Builder) -> None:
        self._build = build
        self._new: dict[Op, Op] = {}
        self._sources: dict[int, Op] = {}
        self._params: dict[int, Op] = {}
        self._built: dict[Hashable, Op] = {}
        self.counts_pods = False
        first = list(roots)
        inside = sorted(reached(first), key=lambda op: op.serial)
        for op in inside:
            if isinstance(op.data, Loop):
                self._sources[op.data.param] = op.args[0]
            elif op.kind is ops.PARAM:
                self._params[op.serial] = op
        for op in inside:
            self._new[op] = self._rebuilt(op)
        self.roots = [self._new[op] for op in first]

    def _rebuilt(self, op: Op) -> Op:
        if op.kind is ops.VAL and isinstance(op.args[0].data, Loop):
            count = self._count(op.args[0], op.args[0].data)
            if count is not None:
                self.counts_pods = True
                return count
        args = tuple(self._new[a] for a in op.args)
        return op if args == op.args else self._build.again(op, args)

    def _count(self, op: Op, loop: Loop) -> Op | None:
        """Return the op that replaces a loop over pods, or None."""
        build = self._build
        rest = op.args[1 + loop.errors :]
        mask = rest[0] if loop.masked else build.const(True, "b")
        value = rest[1:] if loop.masked else rest
        usual = loop.kind in COUNTED_LOOPS and len(value) == 1 and not loop.site
        if not usual or loop.errors or loop.index is not None:
            return None
        test, summed = mask, value[0] if loop.kind is LoopKind.SUM_INT else None
        if loop.kind in (LoopKind.ALL, LoopKind.EXISTS):
            each = value[0]
            if loop.kind is LoopKind.ALL:
                each = build.op(ops.NOT, each, rep="b")
            test = build.op(ops.AND, mask, each, rep="b") if loop.masked else each
        param = self._params.get(loop.param)
        if param is None:
            return None
        count = count_op(build, ops.COUNTS, param, test, self._built, summed=summed)
        pods = None if count is None else self._number(op.args[0], count)
        if pods is None or loop.kind in (LoopKind.COUNT, LoopKind.SUM_INT):
            return pods
        zero = build.const(0, "i")
        return build.op(ops.EQ if loop.kind is LoopKind.ALL else ops.GT, pods, zero, rep="b")

    def _number(self, source: Op, count: Op) -> Op | None:
        """Return the number of the pods of ``source``."""
        build = self._build
        if source.kind is ops.WHERE and _is_nothing(source.args[1]):
            inner = self._number(source.args[2], count)
            if inner is None:
                return None
            return build.op(
                ops.WHERE, self._new[source.args[0]], build.const(0, "i"), inner, rep="i"
            )
        if source.kind is ops.PODS_AT and source.args[0].kind is ops.ROW:
            return build.op(ops.COUNT_ON_ROW, count, rep="i", level=Level.NODE)
        if source.kind is not ops.ATTR or source.data != "pods":
            return None
        (owner,) = source.args
        if owner.kind is ops.DOMAIN_AT:
            key = owner.args[0].args[0]
            return build.op(ops.COUNT_IN_DOMAIN, count, key, rep="i", level=Level.NODE)
        listed = self._sources.get(owner.serial)
        if owner.kind is ops.PARAM and listed is not None and listed.kind is ops.DOMAIN_LIST:
            key = listed.args[0].args[0]
            return build.op(ops.COUNT_OF_DOMAIN, count, key, owner, rep="i")
        return None


def count_op(  # noqa: PLR0913  # what is counted, and the ops so far
    build: Builder,
    kind: OpKind,
    param: Op,
    test: Op,
    counted_ops: dict[Hashable, Op],
    *,
    summed: Op | None = None,
    wide: bool = False,
) -> Op | None:
    """Return the op that counts the pods ``param`` for which a test holds.

    ``summed``: an int that is summed over these pods instead; ``wide``: the sum may leave int64.
    None if what it reads differs from row to row. ``counted_ops`` holds the ops so far.
    """
    amount = test
    if summed is not None:
        always = test.kind is ops.CONST and test.data is True
        zero = build.const(0, "i")
        amount = summed if always else build.op(ops.WHERE, test, summed, zero, rep="i")
    values = _values(amount, param)
    if values is None:
        return None
    shape = _shape(amount, param)
    counted_op = counted_ops.get(shape)
    if counted_op is None:
        equal = tuple(_equalities(test, param, values))
        counted = PodCount(Condition(equal, _reads_status(amount), wide), param, amount)
        rep = "o" if kind is ops.COUNTS else "i"
        counted_op = counted_ops[shape] = build.op(kind, *values, rep=rep, data=counted)
    return counted_op


def _reads_status(amount: Op) -> bool:
    """Return whether an amount reads fields that change without a change of what the pod uses."""
    return any(
        op.kind is ops.OBJECT_OF or (op.kind is ops.ATTR and op.data == "conditions")
        for op in reached([amount])
    )


def _is_nothing(op: Op) -> bool:
    return op.kind is ops.CONST and isinstance(op.data, list | tuple) and not op.data


def _values(amount: Op, param: Op) -> list[Op] | None:
    """Return the values that an amount reads besides its pod; None if one is not of all rows."""
    inner = {param.serial}
    values: list[Op] = []
    for op, more in descending([amount]):
        if op.kind is ops.PARAM:
            if op.serial not in inner:
                return None
            continue
        if not any(p.serial in inner for p in op.params):
            if op.kind is ops.CONST:
                continue
            if op.level is not Level.SCALAR or op.params:
                return None
            values.append(op)
            continue
        if op.kind.by_row:
            return None
        if isinstance(op.data, Loop):
            inner |= {n for n in (op.data.param, op.data.index) if n is not None}
        more.extend(op.args)
    return values


def _shape(op: Op, param: Op) -> Hashable:
    """Return a key that is equal for amounts that differ only in their pod."""
    if op is param:
        return "pod"
    if param not in op.params:
        return op
    return op.kind, op.rep, op.data, *(_shape(a, param) for a in op.args)


def _equalities(
    test: Op, param: Op, values: list[Op]
) -> Iterable[tuple[tuple[str, ...], str | int]]:
    """Yield the columns of the pod table that a test compares with a text."""
    if test.kind is ops.AND:
        for part in test.args:
            yield from _equalities(part, param, values)
        return
    if test.kind is not ops.EQ:
        return
    for own, other in (test.args, test.args[::-1]):
        if own.kind is not ops.ATTR or own.args[0] is not param or own.data not in _COLUMNS:
            continue
        column = (_COLUMNS[str(own.data)],)
        if other.kind is ops.CONST and isinstance(other.data, str):
            yield column, other.data
        elif other in values and other.rep == "s":
            yield column, values.index(other)
