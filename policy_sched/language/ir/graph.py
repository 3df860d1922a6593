"""The compiler's intermediate form: a graph of operations in which equal operations are one.

Theory of operation. An `Op` is pure and total: it never raises, whatever values its arguments
hold, because an operation of a branch not taken may be computed all the same. An error is a
value of its own: an error op holds a site number, 0 for none. The builder returns the same
`Op` for the same kind, arguments and data, so a sub-expression that several rules share is
computed once.

``rep`` is how a value is held: b bool, i int64, f double, s str, o any Python value, e an error
site, t a (value, error) pair; over rows also c (a code of the table's strings) and k (a set id).
``level`` is how often it changes: SCALAR once per call, NODE from row to row. Over rows b, i, f,
c, k and e are arrays (or one Python number that stands for every row); s, o and t have no array
form and are only ever computed for a single row, or for a single distinct value of a column.
``params`` are the loop variables that it depends on. ``key`` is the one column of codes or set ids
that a NODE op is a function of: such an op need only be computed once per distinct value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from enum import IntEnum
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from policy_sched.language.ir import ops
from policy_sched.language.syntax import Span
from policy_sched.language.values import KINDS


class Level(IntEnum):
    """How often a value changes."""

    SCALAR = 0
    NODE = 1


class Loop(msgspec.Struct, frozen=True):
    """A loop's data: what it makes, its variables, and which roots it has.

    The op's arguments are the list, then ``errors`` stage errors, then the mask (if ``masked``),
    then the value (and, for all and exists, the value's error).
    """

    kind: ops.LoopKind
    param: int
    index: int | None
    errors: int
    masked: bool
    site: int = 0


class Call(msgspec.Struct, frozen=True):
    """The data of a call: a builtin, its default value, and how it fails.

    The first ``guards`` arguments are error ops: the function is called only where they are 0.
    ``site`` is the error site of kind 1; the kinds of a call have adjoining sites.
    """

    function: Callable[..., object]
    default: object = None
    guards: int = 0
    site: int | None = None

    def __hash__(self) -> int:
        """Hash without the default, which may be a list."""
        return hash((id(self.function), self.guards, self.site))


class Op:
    """One operation; compared by identity."""

    __slots__ = ("args", "data", "key", "kind", "level", "params", "rep", "serial")

    def __init__(
        self, kind: ops.OpKind, args: tuple[Op, ...], data: object, rep: str, level: Level
    ) -> None:
        self.kind = kind
        self.args = args
        self.data = data
        self.rep = rep
        self.level = level
        self.params: frozenset[Op] = frozenset()
        self.key: Op | None = None
        self.serial = 0

    def __repr__(self) -> str:
        shown = ", ".join(f"%{a.serial}" for a in self.args)
        return f"%{self.serial}={self.kind}({shown}; {self.data!r})"


#: Stands in `Op.key` of an op that is a function of more than one column, or of a plain number.
MIXED: Final = Op(ops.NONE, (), None, "", Level.NODE)


class Site(msgspec.Struct, frozen=True):
    """A place where an expression can fail: the kind (PS601..607), a detail, and the position."""

    kind: int
    detail: str
    span: Span | None


def _const_key(value: object) -> Hashable:
    if isinstance(value, (bool, int, str)):
        return (type(value), value)
    if isinstance(value, float):
        return (float, value.hex())
    return id(value)


class Table(msgspec.Struct, frozen=True, eq=False):
    """Ints by position from ``first`` on, as a list and as an array."""

    entries: list[int]
    array: npt.NDArray[np.int64]
    first: int


class Builder:
    """Makes ops, one for each distinct operation, and keeps the table of error sites."""

    def __init__(self) -> None:
        self._ops: dict[Hashable, Op] = {}
        self._sites: dict[Hashable, int] = {}
        self.sites: list[Site] = [Site(0, "", None)]
        self._keep: list[object] = []
        self._tables: dict[Hashable, Table] = {}

    @property
    def size(self) -> int:
        """How many operations there are."""
        return len(self._ops)

    def const(self, value: object, rep: str) -> Op:
        """Return the op of a value known at compile time."""
        self._keep.append(value)
        return self._intern((ops.CONST, rep, _const_key(value)), ops.CONST, (), value, rep)

    def op(
        self,
        kind: ops.OpKind,
        *args: Op,
        rep: str,
        data: Hashable = None,
        level: Level = Level.SCALAR,
    ) -> Op:
        """Return the op of a kind over arguments; ``level`` is that of a leaf."""
        key = (kind, rep, data, tuple(a.serial for a in args))
        return self._intern(key, kind, args, data, rep, level)

    def again(self, op: Op, args: tuple[Op, ...]) -> Op:
        """Return the op that does the same as ``op`` with other arguments."""
        key = (op.kind, op.rep, op.data, tuple(a.serial for a in args))
        return self._intern(key, op.kind, args, op.data, op.rep, op.level)

    def fresh(self, kind: ops.OpKind, rep: str, source: Op) -> Op:
        """Return a new loop variable over the list ``source``."""
        op = Op(kind, (), None, rep, source.level)
        op.params = source.params | {op}
        op.key = source.key
        op.serial = len(self._ops) + 1
        self._ops[("fresh", op.serial)] = op
        return op

    def _intern(
        self,
        key: Hashable,
        kind: ops.OpKind,
        args: tuple[Op, ...],
        data: object,
        rep: str,
        level: Level = Level.SCALAR,
    ) -> Op:
        interned = self._ops.get(key)
        if interned is not None:
            return interned
        op = Op(kind, args, data, rep, max([level, *(a.level for a in args)]))
        op.serial = len(self._ops) + 1
        params: frozenset[Op] = frozenset().union(*(a.params for a in args))
        if isinstance(data, Loop):
            bound = {data.param, data.index}
            inner = frozenset().union(*(a.params for a in args[1:]))
            params = args[0].params | {p for p in inner if p.serial not in bound}
        op.params = params
        if op.level is Level.NODE:
            op.key = self._key_of(op)
        self._ops[key] = op
        return op

    @staticmethod
    def _key_of(op: Op) -> Op:
        if op.kind.by_row:
            return op if op.rep in "ck" and op.kind is ops.COLUMN else MIXED
        keys = {a.key for a in op.args if a.level is Level.NODE}
        if not keys:
            return MIXED
        only = keys.pop()
        return MIXED if keys or only is None else only

    def table(self, entries: Sequence[int], first: int) -> Table:
        """Return a table of ints by position from ``first`` on; equal tables are one."""
        key = ("table", tuple(entries), first)
        interned = self._tables.get(key)
        if interned is None:
            array = np.array(entries, dtype=np.int64)
            interned = self._tables[key] = Table(list(entries), array, first)
            self._keep.append(interned)
        return interned

    def site(self, kind: int, detail: str, span: Span | None) -> int:
        """Return the index of an error site."""
        key = (kind, detail, span.start if span else -1)
        index = self._sites.get(key)
        if index is None:
            index = self._sites[key] = len(self.sites)
            self.sites.append(Site(kind, detail, span))
        return index

    def sites_of_call(self, details: Iterable[str], span: Span | None) -> int:
        """Return the first of adjoining sites, one for each kind of error, of a call."""
        texts = tuple(details)
        key = ("call", texts, span.start if span else -1)
        site = self._sites.get(key)
        if site is None:
            site = self._sites[key] = len(self.sites)
            self.sites.extend(
                Site(kind, texts[kind - 1] if kind <= len(texts) else "", span)
                for kind in range(1, len(KINDS))
            )
        return site


def reached(roots: Iterable[Op]) -> set[Op]:
    """Return the ops that ``roots`` need, themselves included."""
    todo, seen = list(roots), set[Op]()
    while todo:
        op = todo.pop()
        if op not in seen:
            seen.add(op)
            todo.extend(op.args)
    return seen
