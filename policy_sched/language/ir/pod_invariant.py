"""Pod-invariant operations, whose values are kept from pod to pod, and rewrites that find more.

Theory of operation. A pod-invariant operation is a function of one row of the node table and of
constants. One that reads static columns changes only with the node; another changes on a row
whenever a pod comes to it or goes. `Reassociation` regroups sums so that the parts that read no pod
come together, and computes whole numbers that will be divided as doubles. Both keep every value:
int64 sums are the same in any order, and doubles hold whole numbers exactly up to 2^53. The bounds
are not proved here but checked at pod time: ``limits`` names materialized columns, ``guards``
numbers of the pod. Where one of them is too great, the plain function is called.

What follows from the object of an input that is named as the node, and from constants, is made once
for each version of the object, in functions of all rows and of one: `ObjectParts` replaces what is
costly of it by an `OF_OBJECT` op, whose data is the value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from policy_sched.cluster.tables import NODE_COLUMNS, Kind
from policy_sched.language.ir import ops
from policy_sched.language.ir.graph import Builder, Call, Level, Loop, Op, reached
from policy_sched.language.ir.regions import Shapes, find_region
from policy_sched.language.values import INT_MAX, INT_MIN

_KEPT = frozenset("bife")


class PodInvariants(msgspec.Struct, frozen=True):
    """The columns that a function of all rows takes as arguments: static ones, and dynamic ones."""

    static: tuple[Op, ...]
    dynamic: tuple[Op, ...]


class PodInvariance:
    """Which ops are pod-invariant, computed once per op."""

    def __init__(self) -> None:
        self._kept: dict[Op, bool] = {}
        self._dynamic: dict[Op, bool] = {}

    def holds(self, op: Op) -> bool:
        """Return whether ``op`` is pod-invariant; a constant is."""
        invariant = self._kept.get(op)
        if invariant is None:
            invariant = self._kept[op] = self._find(op)
        return invariant

    def _find(self, op: Op) -> bool:
        return op.kind.pod_invariant and all(self.holds(a) for a in op.args)

    def kept(self, op: Op) -> bool:
        """Return whether a column of the values of ``op`` can be kept, and is worth it."""
        return (
            op.level is Level.NODE
            and op.kind is not ops.COLUMN
            and op.rep in _KEPT
            and not op.params
            and self.holds(op)
        )

    def is_dynamic(self, op: Op) -> bool:
        """Return whether a pod-invariant ``op`` changes with the pods on a node."""
        dynamic = self._dynamic.get(op)
        if dynamic is None:
            dynamic = self._dynamic[op] = _reads_dynamic(op) or any(
                self.is_dynamic(a) for a in op.args
            )
        return dynamic


def _reads_dynamic(op: Op) -> bool:
    if not op.kind.columns:
        return False
    family = op.data[0] if isinstance(op.data, tuple) else op.data
    return NODE_COLUMNS[str(family)].kind is Kind.DYNAMIC


def find_pod_invariants(
    roots: Iterable[Op], shapes: Shapes, invariance: PodInvariance
) -> PodInvariants:
    """Return the largest pod-invariant ops that ``roots`` need over all rows."""
    todo, seen, invariants = list(roots), set[Op](), list[Op]()
    while todo:
        op = todo.pop()
        if op in seen or op.level is Level.SCALAR:
            continue
        seen.add(op)
        if invariance.kept(op):
            invariants.append(op)
            continue
        args: Sequence[Op] = op.args
        if shapes.is_region(op):
            args = find_region(op, shapes).by_row
        todo.extend(args)
    invariants.sort(key=lambda op: op.serial)
    static = tuple(op for op in invariants if not invariance.is_dynamic(op))
    return PodInvariants(static, tuple(op for op in invariants if invariance.is_dynamic(op)))


class ObjectPart(msgspec.Struct, frozen=True, eq=False):
    """The data of an `OF_OBJECT` op: a value that follows from the object of a number."""

    identity: str
    number: Op
    value: Op


class ObjectParts:
    """Rewrites roots so that what follows from one object alone is made once for each version."""

    def __init__(self, build: Builder) -> None:
        self._build = build
        self._invariance = PodInvariance()
        self._new: dict[Op, Op] = {}

    def of(self, roots: Sequence[Op]) -> list[Op]:
        """Return the roots with `OF_OBJECT` ops; the same list if there are none."""
        inside = sorted(reached(roots), key=lambda op: op.serial)
        if not any(_is_number(op) for op in inside):
            return list(roots)
        users: dict[Op, set[Op | None]] = {_whole(op): {None} for op in roots}
        for op in inside:
            for used in () if _whole(op) is not op else op.args:
                users.setdefault(_whole(used), set()).add(op)
        costly: set[Op] = set()
        for op in inside:
            own = isinstance(op.data, Loop | Call) or any(_whole(a) in costly for a in op.args)
            kept = own and self._follows(op) and self._is_shared(users.get(op, set()))
            if own and not kept:
                costly.add(op)
            if op not in self._new:
                self._new[op] = self._rebuilt(op, kept=kept)
        return [self._new[op] for op in roots]

    def _follows(self, op: Op) -> bool:
        """Return whether an op is a function of one object, and of constants."""
        number = op.key
        return (
            number is not None
            and _is_number(number)
            and not op.params
            and op.kind not in (ops.VAL, ops.ERR)
            and self._invariance.holds(op)
        )

    def _is_shared(self, users: set[Op | None]) -> bool:
        """Return whether something else needs a value, or several others."""
        return len(users) > 1 or any(op is None or not self._follows(op) for op in users)

    def _rebuilt(self, op: Op, *, kept: bool) -> Op:
        args = tuple(self._new[a] for a in op.args)
        again = op if args == op.args else self._build.again(op, args)
        if not kept:
            return again
        number = op.key
        assert number is not None, "it follows from an object"
        assert isinstance(number.data, tuple)
        part = ObjectPart(number.data[1], number, again)
        return self._build.op(ops.OF_OBJECT, number, rep=op.rep, data=part)


def _is_number(op: Op) -> bool:
    """Return whether an op is the number of the object that is named as the node."""
    return op.kind is ops.COLUMN and isinstance(op.data, tuple) and op.data[0] == "input"


def _whole(op: Op) -> Op:
    """Return the pair that an op is a part of, else the op."""
    return op.args[0] if op.kind in (ops.VAL, ops.ERR) else op


#: Kept whole numbers stay below it; a sum with a number of the pod is then exact in a double.
KEPT_LIMIT: Final = 2.0**52
#: Numbers of the pod stay below it, even times 100.
POD_LIMIT: Final = 2**45
#: Below it, a share of it in percent cannot be rounded over a whole number.
WHOLE_LIMIT: Final = 2.0**46
#: Weights stay below it, so that sums of weighted shares are exact in a double.
WEIGHT_LIMIT: Final = 2**30

_SIGNS: Final = {ops.ADD: 1, ops.SUB: -1}
_DOUBLES: Final = {ops.ADD: ops.FADD, ops.SUB: ops.FSUB}
#: Shares as int64 to the same as int32.
_SHARES: Final = {
    ops.SHARE: ops.SHARE_SMALL,
    ops.SHARE_OF_REST: ops.SHARE_OF_REST_SMALL,
}
_PERCENT: Final = (ops.PERCENT, ops.PERCENT_OF_COLUMN, ops.PERCENT_OF_REST)


class Reassociation:
    """Rewrites ``roots``; they are equal under the conditions ``limits`` and ``guards``."""

    def __init__(self, roots: Iterable[Op], build: Builder, invariance: PodInvariance) -> None:
        self._build = build
        self._invariance = invariance
        self._new: dict[Op, Op] = {}
        self.limits: dict[Op, float] = {}
        self.guards: dict[Op, None] = {}
        first = list(roots)
        for op in sorted(_reached(first, invariance), key=lambda op: op.serial):
            self._new[op] = self._rebuilt(op)
        self.roots = [self._of(op) for op in first]

    def _of(self, op: Op) -> Op:
        return self._new.get(op, op)

    def _rebuilt(self, op: Op) -> Op:
        args = tuple(self._of(a) for a in op.args)
        if args != op.args:
            op = self._build.again(op, args)
        if op.level is Level.SCALAR or op.params:
            return op
        if op.kind in _SIGNS and op.rep == "i":
            return self._regrouped(self._into_shift(op))
        if op.kind is ops.TO_DOUBLE:
            return self._sum_as_double(op)
        if op.kind in _PERCENT:
            return self._share(op)
        if op.kind is ops.FLOOR_DIVIDE:
            return self._shifted(op)
        if op.kind is ops.MASKED_WEIGHTED:
            return self._mean_of_shares(op)
        return op

    def _is_invariant(self, op: Op) -> bool:
        return op.level is Level.NODE and not op.params and self._invariance.holds(op)

    # Sums.

    def _terms(self, op: Op, sign: int) -> list[tuple[int, Op]]:
        if op.kind not in _SIGNS or op.rep != "i" or self._invariance.holds(op):
            return [(sign, op)]
        left, right = op.args
        return self._terms(left, sign) + self._terms(right, sign * _SIGNS[op.kind])

    def _regrouped(self, op: Op) -> Op:
        terms = self._terms(op, 1)
        constant = sum(sign * t.data for sign, t in terms if isinstance(t.data, int))
        if not INT_MIN <= constant <= INT_MAX:
            return op
        invariant = [(sign, t) for sign, t in terms if self._is_invariant(t)]
        if not invariant:
            return op
        rest = [(s, t) for s, t in terms if t.kind is not ops.CONST and not self._is_invariant(t)]
        rest.sort(key=lambda term: term[1].level is Level.SCALAR)
        invariant.sort(key=lambda term: -term[0])
        regrouped = self._build.const(constant, "i") if constant or invariant[0][0] < 0 else None
        for sign, term in [*invariant, *rest]:
            regrouped = term if regrouped is None else self._sum(sign, regrouped, term)
        assert regrouped is not None
        return regrouped

    def _sum(self, sign: int, a: Op, b: Op) -> Op:
        return self._build.op(ops.ADD if sign > 0 else ops.SUB, a, b, rep="i")

    def _into_shift(self, op: Op) -> Op:
        """Return c + (x >> k) as (x + (c << k)) >> k, whose constant may join others."""
        constant, shift = op.args if op.args[0].kind is ops.CONST else op.args[::-1]
        if op.kind is not ops.ADD or constant.kind is not ops.CONST or shift.kind is not ops.SHIFT:
            return op
        by, summand = shift.data, constant.data
        assert isinstance(by, int)
        assert isinstance(summand, int)
        if not 0 <= summand << by < KEPT_LIMIT:
            return op
        more = self._build.const(summand << by, "i")
        inside = self._regrouped(self._sum(1, shift.args[0], more))
        return self._build.op(ops.SHIFT, inside, rep="i", data=by)

    # Doubles.

    def _double(self, op: Op) -> Op:
        return self._build.op(ops.TO_DOUBLE, op, rep="f")

    def _split_sum(self, op: Op) -> tuple[Op, ops.OpKind, Op] | None:
        """Return (a, fadd or fsub, b) of a sum of a pod-invariant and a number of the pod."""
        if op.kind not in _SIGNS or op.rep != "i":
            return None
        invariant, own = op.args
        if not self._is_invariant(invariant) or own.level is not Level.SCALAR or own.params:
            return None
        return invariant, _DOUBLES[op.kind], own

    def _sum_as_double(self, op: Op) -> Op:
        split = self._split_sum(op.args[0])
        if split is None:
            return op
        invariant, kind, own = split
        kept = self._limited(self._double(invariant), KEPT_LIMIT)
        self.guards[own] = None
        return self._build.op(kind, kept, self._double(own), rep="f")

    def _limited(self, op: Op, limit: float) -> Op:
        self.limits[op] = min(limit, self.limits.get(op, limit))
        return op

    def _share(self, op: Op) -> Op:
        part, whole = op.args
        split = self._split_sum(part)
        if split is None or not self._is_invariant(whole):
            return op
        invariant, kind, own = split
        hundred = self._build.const(100.0, "f")
        times = [
            self._build.op(ops.FMUL, self._double(term), hundred, rep="f")
            for term in (invariant, own)
        ]
        self._limited(times[0], KEPT_LIMIT)
        self.guards[own] = None
        divisor = self._limited(self._build.op(ops.DIVISOR, whole, rep="f"), WHOLE_LIMIT)
        upper = self._build.op(kind, *times, rep="f")
        name = ops.SHARE_OF_REST if op.kind is ops.PERCENT_OF_REST else ops.SHARE
        return self._build.op(name, upper, divisor, rep="i")

    def _mean_of_shares(self, op: Op) -> Op:
        """Return a weighted mean whose values are shares with these held as int32."""
        masks, values, weights = op.args[::3], op.args[1::3], op.args[2::3]
        if any(v.kind not in _SHARES for v in values) or any(
            w.kind is not ops.CONST for w in weights
        ):
            return op
        if any(not isinstance(w.data, int) or w.data > WEIGHT_LIMIT for w in weights):
            return op
        small = [self._build.op(_SHARES[v.kind], *v.args, rep="i") for v in values]
        args = [arg for three in zip(masks, small, weights, strict=True) for arg in three]
        return self._build.op(ops.MASKED_WEIGHTED_SHARES, *args, rep="i")

    def _shifted(self, op: Op) -> Op:
        by = op.args[1]
        if by.kind is ops.CONST and isinstance(by.data, int) and by.data.bit_count() == 1:
            return self._build.op(ops.SHIFT, op.args[0], rep="i", data=by.data.bit_length() - 1)
        return op


def _reached(roots: Iterable[Op], invariance: PodInvariance) -> set[Op]:
    """Return the ops over rows that ``roots`` need, without those below pod-invariant ones."""
    todo, seen = list(roots), set[Op]()
    while todo:
        op = todo.pop()
        if op not in seen and op.level is Level.NODE:
            seen.add(op)
            if not invariance.kept(op):
                todo.extend(op.args)
    return seen
