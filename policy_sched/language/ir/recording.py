"""Recordings: a graph's roots as plain data, which can be pickled and built again by any builder.

Programs of several policies become one program in one builder, where equal operations of different
policies are one. A loop has new variables each time that it is built, so loops stay apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from policy_sched.language.ir import ops
from policy_sched.language.ir.graph import MIXED, Builder, Call, Level, Loop, Op, Table, reached
from policy_sched.language.ir.regions import Shapes

#: Greater graphs are not recorded.
MOST_OPS: Final = 1000
_PLAIN: Final = (type(None), bool, int, float, str, tuple, Call, Loop, Table)
Row = tuple[ops.OpKind, tuple[int, ...], object, str, int]
"""Kind, places of the arguments, data, representation and level."""


class Recording(msgspec.Struct, frozen=True):
    """Operations, each after its arguments, and the places of the roots.

    The variables of a loop are places, too; the argument of a variable is the list. ``arrays``:
    whether nothing is computed row by row when it is computed for all rows.
    """

    rows: tuple[Row, ...]
    roots: tuple[int, ...]
    arrays: bool


def recorded(roots: Sequence[Op], over_rows: Sequence[Op]) -> Recording | None:
    """Return a recording of what ``roots`` need; None if there is none.

    ``over_rows``: what is computed in their place for all rows.
    """
    ordered = sorted(reached(roots), key=lambda op: op.serial)
    if len(ordered) > MOST_OPS or not all(_is_plain(op) for op in ordered):
        return None
    places = {op: i for i, op in enumerate(ordered)}
    numbers = {op.serial: i for op, i in places.items()}
    lists = {
        serial: places[op.args[0]]
        for op in ordered
        if isinstance(op.data, Loop)
        for serial in (op.data.param, op.data.index)
    }
    rows: list[Row] = []
    for i, op in enumerate(ordered):
        args, data = tuple([places[a] for a in op.args]), op.data
        if op.kind is ops.PARAM:
            args = (lists.get(op.serial, i),)
            if args[0] >= i:
                return None  # the variable of a loop that was rebuilt around it
        loop = _at_places(data, numbers) if isinstance(data, Loop) else None
        if isinstance(data, Loop) and loop is None:
            return None  # no operation reads a variable
        rows.append((op.kind, args, loop or data, op.rep, int(op.level)))
    shapes = Shapes()
    arrays = not any(_is_by_row(op, shapes) for op in reached(over_rows))
    return Recording(tuple(rows), tuple([places[op] for op in roots]), arrays)


def _at_places(loop: Loop, places: Mapping[int, int]) -> Loop | None:
    """Return a loop with places instead of variables; None if one of these is not recorded."""
    variables = [serial for serial in (loop.param, loop.index) if serial is not None]
    if not all(serial in places for serial in variables):
        return None
    index = None if loop.index is None else places[loop.index]
    return replace(loop, param=places[loop.param], index=index)


def rebuilt(recording: Recording, build: Builder) -> list[Op]:
    """Return the roots, built again."""
    made: list[Op] = []
    for kind, places, data, rep, level in recording.rows:
        if kind is ops.CONST:
            made.append(build.const(data, rep))
        elif kind is ops.PARAM:
            made.append(build.fresh(kind, rep, made[places[0]]))
        else:
            loop = data if isinstance(data, Loop) else None
            again = loop and _at_places(loop, {i: op.serial for i, op in enumerate(made)})
            args = [made[i] for i in places]
            made.append(build.op(kind, *args, rep=rep, data=again or data, level=Level(level)))
    return [made[i] for i in recording.roots]


def _is_plain(op: Op) -> bool:
    return op.kind is ops.CONST or isinstance(op.data, _PLAIN)


def _is_by_row(op: Op, shapes: Shapes) -> bool:
    return shapes.is_region(op) and (op.key is None or op.key is MIXED)
