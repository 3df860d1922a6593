"""Runs a plan over victims: on columns of the pod table, for all victims or nodes at once.

What is said of places without a victim (row -1) is of no use. Where an error comes out, the caller
asks again, one by one: which error it is, and whether it is one, is then known exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from policy_sched.cluster.tables import NodeTable, PodTable
from policy_sched.language.codegen.victim_plan import (
    COLUMNS,
    FAMILIES,
    GREATEST,
    LEAST,
    TIMES,
    Plan,
    in_int64,
)
from policy_sched.language.ir import Call, Loop, Op, OpKind, ops
from policy_sched.language.runtime import Runtime
from policy_sched.language.runtime import vector as runtime_rows
from policy_sched.language.stdlib import amount, has_key, value_at
from policy_sched.language.values import INT_MAX, INT_MIN

Values: TypeAlias = dict[Op, Any]
Rows: TypeAlias = npt.NDArray[np.intp]

#: Sums whose terms' magnitudes add up to less cannot overflow, whatever float64 rounds away.
_SURE_SUM: Final = 2.0**62
_DTYPES: Final = {"b": np.bool_, "i": np.int64, "s": np.int32}


@dataclass(frozen=True, slots=True)
class VictimScope:
    """What is looked at together.

    ``victims``: rows of the pod table, -1 for none: of any shape where each is asked about, of
    shape (depth, m) where m nodes are. ``nodes``: rows of the node table, of the victims' shape or
    (m,). ``violations``: int64, shape (m,).
    """

    victims: Rows
    nodes: Rows
    violations: npt.NDArray[np.int64] | None = None


Step: TypeAlias = Callable[[Values, VictimScope], Any]


class BoundPlan:
    """A plan over one cluster's tables."""

    def __init__(self, plan: Plan, nodes: NodeTable, pods: PodTable, runtime: Runtime) -> None:
        self._plan = plan
        self._fixed = plan.fixed.bind(runtime).scalar if plan.given else None
        tables = _Tables(nodes, pods, frozenset(plan.steps))
        self._steps = [(op, tables.step(op)) for op in plan.steps]
        self._constants = {
            arg: arg.data for op in plan.steps for arg in op.args if arg.kind is ops.CONST
        } | {root: root.data for root in plan.roots if root.kind is ops.CONST}

    def run(self, pod: Any, case: object, scene: VictimScope) -> tuple[Any, Any]:
        """Return the values and the errors: arrays, or one for all; None where none can be.

        Where the fixed part does not fit into arrays, the error is for all.
        """
        plan, values = self._plan, dict(self._constants)
        if self._fixed is not None:
            given = self._fixed(pod, case, 0)
            if not all(map(in_int64, given)):
                return 0, True
            values.update(zip(plan.given, given, strict=True))
        with np.errstate(all="ignore"):
            for op, step in self._steps:
                values[op] = step(values, scene)
        return values[plan.value], None if plan.error is None else values[plan.error]


class _Tables:
    """Makes the steps of plans over a cluster's tables."""

    def __init__(self, nodes: NodeTable, pods: PodTable, steps: frozenset[Op]) -> None:
        self._nodes, self._pods, self._strings = nodes, pods, pods.strings
        self._steps = steps

    def step(self, op: Op) -> Step:
        """Return what computes an op from what was computed before."""
        if isinstance(op.data, Loop):
            return _loop(op, op.data)
        if isinstance(op.data, Call):
            return self._call(op, op.data)
        match op.kind:
            case ops.OF_CTX if op.data == "pdb_violations":
                return lambda _values, scene: scene.violations
            case ops.OF_CTX | ops.PARAM:
                return lambda _values, scene: scene.victims
            case ops.VAL | ops.ERR:
                return _part(op.args[0], 0 if op.kind is ops.VAL else 1)
            case ops.ATTR:
                return self._attribute(op.args[0], str(op.data))
            case ops.COLUMN | ops.COLUMN_OF:
                return self._node_column(op)
            case ops.TEXT:
                return self._text(op.args[0])
            case ops.CODE | ops.FIND:
                return _same(op.args[0])
        return self._elementwise(op.args, op.kind, op.data)

    def _attribute(self, pod: Op, name: str) -> Step:
        if name in FAMILIES:
            return _same(pod)
        column = self._pods.column(COLUMNS[name])
        return lambda values, _scene: column.values[values[pod]]

    def _node_column(self, op: Op) -> Step:
        table = self._nodes
        if op.kind is ops.COLUMN:
            assert isinstance(op.data, tuple)
            column = table.column(op.data)
            return lambda _values, scene: column.values[scene.nodes]
        family, (name,) = str(op.data), op.args
        return lambda values, scene: table.column((family, values[name])).values[scene.nodes]

    def _text(self, code: Op) -> Step:
        empty = self._strings.code("")

        def text(values: Values, _scene: VictimScope) -> Any:
            codes = values[code]
            return np.where(codes == 0, empty, codes)

        return text

    def _elementwise(self, args: Sequence[Op], kind: OpKind, data: object) -> Step:
        function, code = _elementwise(kind, data), self._strings.code

        def step(values: Values, _scene: VictimScope) -> Any:
            found = [values[arg] for arg in args]
            return function(*(code(one) if isinstance(one, str) else one for one in found))

        return step

    def _call(self, op: Op, call: Call) -> Step:
        if call.function in (GREATEST, LEAST):
            return _extreme(op.args[call.guards], greatest=call.function is GREATEST)
        if call.function in TIMES:
            return self._elementwise(op.args[call.guards :], TIMES[call.function], 1)
        if call.function is len:
            return lambda _values, scene: (scene.victims >= 0).sum(axis=0)
        if call.function in (has_key, value_at, amount):
            return self._entry(op, call)
        return self._distinct(op, call)

    def _entry(self, op: Op, call: Call) -> Step:
        """Return the step that looks an entry up in a map of the victims'."""
        (whole, key, *rest), pods, code = op.args, self._pods, self._strings.code
        family = FAMILIES[str(whole.data)]

        def entries(values: Values) -> Any:
            return pods.column((family, values[key])).values[values[whole]]

        def at(values: Values, _scene: VictimScope) -> Any:
            found = entries(values)
            return np.where(found == 0, code(values[rest[0]]), found)

        if call.function is has_key:
            return lambda values, _scene: entries(values) != 0
        return at if call.function is value_at else lambda values, _scene: entries(values)

    def _distinct(self, op: Op, call: Call) -> Step:
        """Return the step that calls a kernel once for each distinct text."""
        args, strings, dtype = op.args, self._strings, _DTYPES[op.rep]
        place = next(i for i, arg in enumerate(args) if arg in self._steps)

        def step(values: Values, _scene: VictimScope) -> Any:
            given = [values[arg] for arg in args]
            codes = np.asarray(given[place])
            seen = np.zeros(len(strings), np.bool_)
            seen[codes] = True
            table: npt.NDArray[Any] = np.zeros(seen.size, dtype)
            for number in np.flatnonzero(seen).tolist():
                given[place] = strings.text(number)
                result: Any = call.function(*given)
                table[number] = strings.code(result) if isinstance(result, str) else result
            return table[codes]  # one code, where a choice that is the same for all made it one

        return step


def _part(pair: Op, place: int) -> Step:
    if isinstance(pair.data, Loop) and pair.data.kind == "list" and place == 0:
        return lambda values, _scene: values[pair][:2]
    return lambda values, _scene: values[pair][-1 if place else 0]


def _same(op: Op) -> Step:
    return lambda values, _scene: values[op]


@cache
def _elementwise(kind: OpKind, data: object) -> Callable[..., Any]:
    """Return the function of arrays that the vector form of an op is."""
    text = kind.vector.replace("{s}", str(data))
    for i in range(3):
        text = text.replace(f"{{{i}}}", f"a{i}")
    names = [f"a{i}" for i in range(3) if f"a{i}" in text]
    source = f"lambda {', '.join(names)}: {text}"
    function: Callable[..., Any] = eval(source, dict(runtime_rows.NAMES))  # noqa: S307  # our own text
    return function


def _loop(op: Op, loop: Loop) -> Step:
    """Return the reduction over the victims of each node that a loop is: (value, error)."""
    rest = list(op.args[1 + loop.errors :])
    mask = rest.pop(0) if loop.masked else None
    stages = op.args[1 : 1 + loop.errors]
    reduce = _checked_sum if loop.kind == "sum_int" and loop.site else _REDUCTIONS[loop.kind]

    def step(values: Values, scene: VictimScope) -> Any:
        there = scene.victims >= 0
        kept = there if mask is None else there & values[mask]
        failed: Any = 0
        for stage in stages:
            failed = failed | (there & (np.asarray(values[stage]) != 0)).any(axis=0)
        *value, error = reduce(kept, *(values[arg] for arg in rest))
        return (*value, failed | error)

    return step


def _count(kept: Any, _value: Any) -> tuple[Any, Any]:
    return kept.sum(axis=0), 0


def _sum(kept: Any, value: Any) -> tuple[Any, Any]:
    return np.where(kept, value, 0).sum(axis=0), 0


def _checked_sum(kept: Any, value: Any) -> tuple[Any, Any]:
    terms = np.where(kept, value, 0)
    unsure = np.abs(terms.astype(np.float64)).sum(axis=0) >= _SURE_SUM
    return terms.sum(axis=0), unsure


def _all(kept: Any, value: Any, error: Any = 0) -> tuple[Any, Any]:
    right = np.asarray(error) == 0
    holds = ~(kept & right & ~np.asarray(value, np.bool_)).any(axis=0)
    return holds, holds & (kept & ~right).any(axis=0)


def _exists(kept: Any, value: Any, error: Any = 0) -> tuple[Any, Any]:
    right = np.asarray(error) == 0
    holds = (kept & right & np.asarray(value, np.bool_)).any(axis=0)
    return holds, ~holds & (kept & ~right).any(axis=0)


def _list(kept: Any, value: Any) -> tuple[Any, Any, Any]:
    return value, kept, 0


_REDUCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "count": _count,
    "sum_int": _sum,
    "all": _all,
    "exists": _exists,
    "list": _list,
}


def _extreme(listed: Op, *, greatest: bool) -> Step:
    """Return the step for max() or min() of a list with one element per victim."""

    def step(values: Values, _scene: VictimScope) -> Any:
        value, kept = values[listed][:2]
        if greatest:
            found = np.where(kept, value, INT_MIN).max(axis=0, initial=INT_MIN)
        else:
            found = np.where(kept, value, INT_MAX).min(axis=0, initial=INT_MAX)
        return found, ~kept.any(axis=0)

    return step
