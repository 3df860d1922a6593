"""Recordings: a graph's roots as plain data, which can be pickled and built again by any builder.

Programs of several policies become one program in one builder, where equal operations of different
policies are one. Only graphs of operations on arrays are recorded, without loops, whose variables
belong to their builder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from policy_sched.language.ir import ops
from policy_sched.language.ir.graph import Builder, Call, Level, Op, reached
from policy_sched.language.ir.ops import OpKind
from policy_sched.language.ir.regions import Shapes

#: Greater graphs are not recorded.
MOST_OPS: Final = 1000
_PLAIN: Final = (type(None), bool, int, float, str, tuple, Call)
Row = tuple[OpKind, tuple[int, ...], object, str, int]
"""Kind, places of the arguments, data, representation and level."""


class Recording(msgspec.Struct, frozen=True):
    """Operations, each after its arguments, and the places of the roots."""

    rows: tuple[Row, ...]
    roots: tuple[int, ...]


def recorded(roots: Sequence[Op]) -> Recording | None:
    """Return a recording of what ``roots`` need; None if there is none."""
    found = sorted(reached(roots), key=lambda op: op.serial)
    shapes = Shapes()
    if len(found) > MOST_OPS or not all(_is_plain(op, shapes) for op in found):
        return None
    places = {op: place for place, op in enumerate(found)}
    rows = tuple(
        (op.kind, tuple([places[a] for a in op.args]), op.data, op.rep, int(op.level))
        for op in found
    )
    return Recording(rows, tuple([places[op] for op in roots]))


def rebuilt(recording: Recording, build: Builder) -> list[Op]:
    """Return the roots, built again."""
    made: list[Op] = []
    for kind, places, data, rep, level in recording.rows:
        if kind is ops.CONST:
            made.append(build.const(data, rep))
        else:
            args = [made[place] for place in places]
            made.append(build.op(kind, *args, rep=rep, data=data, level=Level(level)))
    return [made[place] for place in recording.roots]


def _is_plain(op: Op, shapes: Shapes) -> bool:
    if shapes.is_region(op) or op.params or op.kind is ops.PARAM:
        return False
    return op.kind is ops.CONST or isinstance(op.data, _PLAIN)
