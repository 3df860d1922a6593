"""Plans an expression over victims for many pods or nodes at once, where it can be done so.

Theory of operation. A candidate node has a column of victims, so what reads ``victim`` or loops
over ``victims`` has a value per line and column, what reads the node one per column, and the rest
one at all. That rest, the fixed part, is an ordinary program, run once. The steps after it are
done on whole arrays, in order: the columns of the pod table at the victims' rows, arithmetic as
over rows, and loops over ``victims`` as reductions along the lines. An expression with a step of
another kind has no plan: it is computed victim by victim, or node by node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from policy_sched.cluster.tables import POD_TEXTS
from policy_sched.language.codegen.module import Program, generate
from policy_sched.language.ir import Call, Level, Loop, Op, ops
from policy_sched.language.lower import snake
from policy_sched.language.stdlib import KERNELS, amount, has_key, value_at
from policy_sched.language.values import INT_MAX, INT_MIN

#: What of the situation differs from victim to victim or from node to node.
VARYING: Final = frozenset({"victim", "victims", "pdb_violations"})
#: Attributes of a pod that are columns of the pod table, by attribute.
COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    **{snake("Pod", name): (name,) for name in POD_TEXTS},
    **{
        snake("Pod", name): (name,)
        for name in ("priority", "creationTime", "startTime", "terminating", "hostNetwork")
    },
}
#: Maps of a pod to the family of columns of their entries.
FAMILIES: Final = {
    "labels": "label",
    "annotations": "annotation",
    "requests": "request",
    "limits": "limit",
    "non_zero_requests": "nonZeroRequest",
}
LOOPS: Final = frozenset({"count", "sum_int", "all", "exists", "list"})
GREATEST: Final = KERNELS["max_list"].function
LEAST: Final = KERNELS["min_list"].function
#: Kernels of times that are sums or differences, and the kind that does the same.
TIMES: Final = {
    KERNELS[f"{name}_{a}_{b}"].function: ops.ADD_CHECKED if name == "add" else ops.SUB_CHECKED
    for name, a, b in (
        ("sub", "timestamp", "timestamp"),
        ("sub", "timestamp", "duration"),
        ("sub", "duration", "duration"),
        ("add", "timestamp", "duration"),
        ("add", "duration", "timestamp"),
        ("add", "duration", "duration"),
    )
}
_TEXTS: Final = frozenset({"labels", "annotations"})
_SHAPED: Final = frozenset("bifsce")


@dataclass(frozen=True, slots=True)
class Plan:
    """How to compute an expression for many victims or nodes.

    ``fixed`` computes ``given``, what is the same for all of them; ``steps`` are in an order in
    which each comes after its arguments. ``error`` is None where there can be none.
    """

    fixed: Program
    given: tuple[Op, ...]
    steps: tuple[Op, ...]
    value: Op
    error: Op | None

    @property
    def reads_nodes(self) -> bool:
        """Whether a column of the node table is among the steps."""
        return any(op.kind in (ops.COLUMN, ops.COLUMN_OF) for op in self.steps)

    @property
    def roots(self) -> tuple[Op, ...]:
        """The value and its error."""
        return (self.value,) if self.error is None else (self.value, self.error)


def plan_of(value: Op, error: Op | None) -> Plan | None:
    """Return the plan of a value and its error; None where it takes a step of another kind."""
    roots = [value] if error is None else [value, error]
    order = list(_in_order(roots))
    varying = _varying(order)
    steps = tuple(op for op in order if op in varying)
    needed = {arg for op in steps for arg in op.args} | set(roots)
    if not all(_is_planned(op, varying) for op in steps) or not all(map(_is_held, needed)):
        return None
    if value.rep not in _SHAPED:
        return None
    given = tuple(
        op for op in order if op in needed and op not in varying and op.kind is not ops.CONST
    )
    return Plan(generate(given), given, steps, value, error)


def _in_order(roots: list[Op]) -> Iterator[Op]:
    """Yield every op after its arguments."""
    done: set[Op] = set()
    todo = [(root, False) for root in reversed(roots)]
    while todo:
        op, ready = todo.pop()
        if op in done:
            continue
        if ready:
            done.add(op)
            yield op
        else:
            todo.append((op, True))
            todo.extend((arg, False) for arg in reversed(op.args))


def _varying(order: list[Op]) -> set[Op]:
    found: set[Op] = set()
    for op in order:
        own = op.kind is ops.OF_CTX and op.data in VARYING
        if own or op.level is Level.NODE or op.params or not found.isdisjoint(op.args):
            found.add(op)
    return found


def _is_held(op: Op) -> bool:
    """Tell whether an array can hold an op, which a constant of the year 9999 cannot be."""
    return op.kind is not ops.CONST or op.rep != "i" or in_int64(op.data)


def in_int64(value: object) -> bool:
    """Tell whether a value is no int beyond int64."""
    return not isinstance(value, int) or INT_MIN <= value <= INT_MAX


def _is_planned(op: Op, varying: set[Op]) -> bool:
    """Tell whether a step can be done on arrays."""
    if isinstance(op.data, Loop):
        return _is_reduction(op, op.data)
    if isinstance(op.data, Call):
        return _is_planned_call(op, op.data, varying)
    match op.kind:
        case ops.OF_CTX | ops.PARAM | ops.VAL | ops.ERR | ops.COLUMN:
            return op.rep != "k"
        case ops.TEXT | ops.CODE | ops.FIND:
            return True
        case ops.COLUMN_OF:
            return op.rep != "k" and op.args[0] not in varying
        case ops.ATTR:
            return _is_pod(op.args[0]) and (op.data in COLUMNS or op.data in FAMILIES)
    return op.kind.elementwise and op.rep[-1] in _SHAPED


def _is_pod(op: Op) -> bool:
    return op.kind is ops.PARAM or (op.kind is ops.OF_CTX and op.data == "victim")


def _is_reduction(op: Op, loop: Loop) -> bool:
    """Tell whether a loop is over ``victims``, and reads no other loop's variable."""
    source = op.args[0]
    if source.kind is not ops.OF_CTX or source.data != "victims" or loop.index is not None:
        return False
    if loop.kind == "list" and op.args[-1].rep != "i":
        return False
    return loop.kind in LOOPS and not op.params


def _is_planned_call(op: Op, call: Call, varying: set[Op]) -> bool:
    if call.function in (GREATEST, LEAST):
        (listed,) = op.args[call.guards :] or (op,)
        loop = listed.args[0] if listed.kind is ops.VAL else listed
        return isinstance(loop.data, Loop) and loop.data.kind == "list" and op.rep == "ti"
    if call.function in TIMES:
        return True
    if call.guards or op.rep[0] == "t":
        return False
    if call.function in (has_key, value_at, amount):
        whole, *rest = op.args
        if whole.kind is not ops.ATTR or whole not in varying or not varying.isdisjoint(rest):
            return False
        return whole.data in FAMILIES and (call.function is amount) != (whole.data in _TEXTS)
    if call.function is len:
        (listed,) = op.args
        return listed.kind is ops.OF_CTX and listed.data == "victims"
    varied = [arg for arg in op.args if arg in varying]
    return len(varied) == 1 and varied[0].rep == "s" and op.rep in "bis"
