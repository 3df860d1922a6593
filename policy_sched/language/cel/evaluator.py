"""Evaluates a checked expression over values, with cel-go's errors and its cost.

Theory of operation. Types are known only from the values: a call takes the first overload that
suits them. An error is a value of && and || as long as the other side may decide. The cost of work
is counted while it is done; beyond the limit the evaluation ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cmp_to_key
from math import inf
from typing import Any, Final

from policy_sched.language.cel import costs, library
from policy_sched.language.cel.library_kubernetes import KUBERNETES
from policy_sched.language.cel.values import (
    ABSENT,
    CelError,
    CelMap,
    CostError,
    InterruptError,
    Optional,
    Record,
    TypeValue,
    Uint,
    kind_of,
    size,
    text_of_key,
    type_name,
)
from policy_sched.language.stdlib import Overload, selector_environment
from policy_sched.language.syntax import ast
from policy_sched.language.values import types

Scope = Mapping[str, Any]
NO_OVERLOAD: Final = "no such overload"
#: Functions whose errors name themselves and their arguments' types only as cel-go's own do.
_STANDARD: Final = frozenset({"contains", "startsWith", "endsWith", "matches", "size"})
_OWN: Final[Mapping[str, library.Kernel]] = {**library.OPERATORS, **library.STANDARD, **KUBERNETES}


@cache
def _kernels() -> Mapping[str, library.Kernel]:
    """Return what evaluates a call of each overload, by the overload's id."""
    return {
        overload.id: _OWN.get(overload.id) or library.rule_kernel(overload.id, overload.result)
        for overload in selector_environment().overloads
        if overload.name not in ("or", "orValue")
    }


def suits(param: types.Type, value: Any) -> bool:
    """Tell whether a value may be given for a parameter; elements are not looked at."""
    if param == types.DYN or isinstance(param, types.TypeVariable):
        return True
    if isinstance(param, types.ListType):
        return isinstance(value, list)
    if isinstance(param, types.MapType):
        return isinstance(value, CelMap)
    if isinstance(param, types.OptionalType):
        return isinstance(value, Optional)
    return kind_of(value) == param.name


class Evaluation:
    """One evaluation: ``cost`` is what it has taken so far.

    ``allowed``: units of work after which it is interrupted. ``work`` is the cost, and what cel-go
    does for nothing and this evaluator does not: elements of literals.
    """

    def __init__(self, allowed: float = inf) -> None:
        self.cost: float = 0
        self._free: float = 0
        self._allowed = allowed
        self._constants: dict[int, Any] = {}
        self._target_cost: float = 0
        self._environment = selector_environment()
        self._kernels = _kernels()

    def value(self, node: ast.Node, scope: Scope) -> Any:
        """Return the value of an expression. Raises CelError."""
        return _VISITORS[type(node)](self, node, scope)

    @property
    def work(self) -> int:
        """The units of work that it has taken so far."""
        return int(self.cost + self._free)

    def _spend(self, cost: float) -> None:
        self.cost += cost
        if self.cost > costs.MAX_COST:
            raise CostError("operation cancelled: actual cost limit exceeded")
        if self.cost + self._free > self._allowed:
            raise InterruptError("operation interrupted")

    def _literal(self, node: ast.Literal, _scope: Scope) -> Any:
        return node.value

    def _cel_literal(self, node: ast.CelLiteral, _scope: Scope) -> Any:
        return Uint(node.value) if isinstance(node.value, int) else node.value

    def _ident(self, node: ast.Ident, scope: Scope) -> Any:
        if node.name in scope:
            self._spend(1)
            return scope[node.name]
        return TypeValue(node.name)

    def _select(self, node: ast.Select, scope: Scope) -> Any:
        operand = self.value(node.operand, scope)
        self._spend(costs.starts_anew(node.operand))
        if node.optional or isinstance(operand, Optional):
            return self._optionally(operand, node.name)
        self._spend(1)
        return _member(operand, node.name)

    def _index(self, node: ast.IndexExpr, scope: Scope) -> Any:
        operand = self.value(node.operand, scope)
        self._spend(costs.starts_anew(node.operand))
        key = self.value(node.index, scope)
        if node.optional or isinstance(operand, Optional):
            return self._optionally(operand, key)
        self._spend(1)
        return _member(operand, key)

    def _optionally(self, operand: Any, key: Any) -> Optional:
        if isinstance(operand, Optional):
            if not operand.present:
                return operand
            operand = operand.value
        entry = _find(operand, key)
        if entry.present:
            self._spend(1)
        return entry

    def _list(self, node: ast.ListExpr, scope: Scope) -> Any:
        kept = self._constants.get(id(node))
        if kept is not None:
            return kept
        self._free += len(node.elements)
        fixed = costs.constant(node)
        self._spend(0 if fixed else costs.LISTED)
        elements: list[Any] = []
        for element, optional in zip(node.elements, node.optional, strict=True):
            value = self.value(element, scope)
            if not optional:
                elements.append(value)
            elif _as_optional(value).present:
                elements.append(value.value)
        if fixed:
            self._constants[id(node)] = elements  # a loop meets it in each turn
        return elements

    def _map(self, node: ast.MapExpr, scope: Scope) -> Any:
        self._free += len(node.keys)
        self._spend(0 if costs.constant(node) else costs.MAPPED)
        entries = CelMap()
        for k, v, optional in zip(node.keys, node.values, node.optional, strict=True):
            key, value = self.value(k, scope), self.value(v, scope)
            if type(key) not in (bool, int, Uint, str):
                raise CelError(f"unsupported key type: {type_name(key)}")
            if not optional:
                entries.add(key, value)
            elif _as_optional(value).present:
                entries.add(key, value.value)
        return entries

    def _unary(self, node: ast.Unary, scope: Scope) -> Any:
        args = self._args((node.operand,), scope)
        self._spend(1)
        return self._chosen(self._environment.operators[node.op], args, NO_OVERLOAD)

    def _binary(self, node: ast.Binary, scope: Scope) -> Any:
        args = self._args((node.left, node.right), scope)
        left, right = map(measured, args)
        kept = isinstance(node.right, ast.ListExpr)
        literal = id(node.right) in self._constants if kept else costs.constant(node.right)
        if literal and node.op == "in":
            self._free += right.size
        self._spend(costs.operator_cost(node.op, left, right, literal=literal))
        return self._chosen(self._environment.operators[node.op], args, NO_OVERLOAD)

    def _args(self, nodes: Sequence[ast.Node], scope: Scope) -> list[Any]:
        """Return the values of arguments, of which an error is one as cel-go has it.

        The call costs as much with an error; of three arguments or more the first error ends it.
        """
        values: list[Any] = []
        for node in nodes:
            try:
                values.append(self.value(node, scope))
            except CostError:
                raise
            except CelError as error:
                if len(nodes) > 2 and node is not nodes[-1]:
                    raise
                values.append(error)
        return values

    def _and(self, node: ast.AndExpr, scope: Scope) -> Any:
        return self._decided(node.args, scope, False)

    def _or(self, node: ast.OrExpr, scope: Scope) -> Any:
        return self._decided(node.args, scope, True)

    def _decided(self, args: Sequence[ast.Node], scope: Scope, decides: bool) -> bool:
        error: CelError | None = None
        for arg in args:
            try:
                if _bool(self.value(arg, scope)) is decides:
                    return decides
            except CostError:
                raise
            except CelError as failure:
                error = error or failure
        if error is not None:
            raise error
        return not decides

    def _cond(self, node: ast.CondExpr, scope: Scope) -> Any:
        return self.value(
            node.then if _bool(self.value(node.test, scope)) else node.otherwise, scope
        )

    def _call(self, node: ast.CallExpr, scope: Scope) -> Any:
        if node.name == "has":
            select = node.args[0]
            assert isinstance(select, ast.Select), "the expression was checked"
            return _find(self.value(select.operand, scope), select.name, default=False).present
        overloads = self._environment.functions[node.name]
        if costs.constant(node):
            return self._chosen(overloads, self._args(node.args, scope), node.name)
        return self._called(node.name, overloads, node.args, scope)

    def _called(
        self, name: str, overloads: Sequence[Overload], nodes: Sequence[ast.Node], scope: Scope
    ) -> Any:
        args = self._args(nodes, scope)
        shapes = list(map(measured, args))
        if name in costs.TRAVERSALS:
            shapes[0] = costs.Shape("list", traversed(args[0]))
        cost = costs.call_cost(name, shapes, 0)
        self._spend(cost)
        result: Any = None
        try:
            result = self._chosen(overloads, args, name)
        finally:
            self._spend(costs.call_cost(name, shapes, measured(result).size) - cost)
        return result

    def _method(self, node: ast.MethodExpr, scope: Scope) -> Any:
        if isinstance(node.target, ast.Ident) and node.target.name not in scope:
            dotted = f"{node.target.name}.{node.name}"
            if dotted == "cel.bind":
                variable = node.args[0]
                assert isinstance(variable, ast.Ident), "the expression was checked"
                bound = {**scope, variable.name: self.value(node.args[1], scope)}
                return self.value(node.args[2], bound)
            if dotted in self._environment.functions:
                return self._called(dotted, self._environment.functions[dotted], node.args, scope)
        special = _SPECIAL.get(node.name)
        if (
            special is not None
            and node.args
            and (node.name in ("or", "orValue") or isinstance(node.args[0], ast.Ident))
        ):
            before = self.cost
            target = self.value(node.target, scope)
            self._target_cost = self.cost - before
            return special(self, node, target, scope)
        methods = self._environment.methods[node.name]
        return self._called(node.name, methods, (node.target, *node.args), scope)

    def _chosen(self, overloads: Sequence[Overload], args: Sequence[Any], name: str) -> Any:
        """Return the value of a call. Raises CelError, the error of an argument above all."""
        # Which overload suits depends on the types alone; looking them up is half of all work.
        kinds = (id(overloads), *map(type, args))
        chosen = _CHOSEN.get(kinds)
        if chosen is not None:
            return chosen[1](*args)
        for arg in args:
            if isinstance(arg, CelError):
                raise arg
        for overload in overloads:
            if len(overload.params) == len(args) and all(map(suits, overload.params, args)):
                kernel = self._kernels[overload.id]
                _CHOSEN[kinds] = overloads, kernel
                return kernel(*args)
        raise CelError(_no_overload(name, args))

    # What looks at its arguments by itself.

    def _or_value(self, node: ast.MethodExpr, target: Any, scope: Scope) -> Any:
        optional = _as_optional(target)
        if optional.present:
            return optional if node.name == "or" else optional.value
        return self.value(node.args[0], scope)

    def _opt_map(self, node: ast.MethodExpr, target: Any, scope: Scope) -> Any:
        optional = _as_optional(target)
        self._spend(1)
        if not optional.present:
            return ABSENT
        variable = node.args[0]
        assert isinstance(variable, ast.Ident), "the expression was checked"
        # cel-go evaluates the optional again for its value, and makes one of the result.
        self._spend(self._target_cost + 1 + (node.name == "optMap"))
        value = self.value(node.args[1], {**scope, variable.name: optional.value})
        return Optional(True, value) if node.name == "optMap" else value

    def _items(self, node: ast.MethodExpr, target: Any) -> list[tuple[Any, ...]]:
        """Return what the variables of a comprehension stand for, turn by turn."""
        names, _ = costs.loop_parts(node)
        if isinstance(target, list):
            return (
                list(enumerate(target)) if len(names) == 2 else [(element,) for element in target]
            )
        if isinstance(target, CelMap):
            return list(target.items()) if len(names) == 2 else [(key,) for key in target]
        raise CelError(NO_OVERLOAD)

    def _turns(self, node: ast.MethodExpr, target: Any, scope: Scope, cost: int) -> Any:
        names, bodies = costs.loop_parts(node)
        for values in self._items(node, target):
            self._spend(cost)
            yield values, bodies, {**scope, **dict(zip(names, values, strict=True))}

    def _all(self, node: ast.MethodExpr, target: Any, scope: Scope) -> bool:
        decides = node.name == "exists"
        error: CelError | None = None
        left = len(target) if isinstance(target, list | CelMap) else 0
        for _, bodies, inner in self._turns(node, target, scope, 4 if decides else 3):
            left -= 1
            try:
                if _bool(self.value(bodies[0], inner)) is decides:
                    # With an element left, cel-go asks once more whether to go on.
                    self._spend(1 + (2 + decides if left else 0))
                    return decides
            except CostError:
                raise
            except CelError as failure:
                error = error or failure
        if error is not None:
            raise error
        self._spend(1)
        return not decides

    def _exists_one(self, node: ast.MethodExpr, target: Any, scope: Scope) -> bool:
        turns = self._turns(node, target, scope, 0)
        count = sum(_bool(self.value(bodies[0], inner)) for _, bodies, inner in turns)
        self._spend(2 + 2 * count)
        return count == 1

    def _made(self, node: ast.MethodExpr, target: Any, scope: Scope) -> Any:
        """map, filter, and the transforms: a list, or a map, of what the bodies give."""
        entries: list[tuple[Any, Any]] = []
        made_cost = _MADE_COSTS.get(node.name, costs.LISTED + 2)
        for values, bodies, inner in self._turns(node, target, scope, 0):
            conditions = bodies if node.name == "filter" else bodies[:-1]
            if all(_bool(self.value(condition, inner)) for condition in conditions):
                self._spend(made_cost)
                made = values[0] if node.name == "filter" else self.value(bodies[-1], inner)
                entries.append((values[0], made))
        self._spend(1)
        if not node.name.startswith("transformMap"):
            return [made for _, made in entries]
        mapping = CelMap()
        for key, made in entries:
            if node.name == "transformMap":
                mapping.add(key, made)
            elif not isinstance(made, CelMap):
                raise CelError(NO_OVERLOAD)
            else:
                for condition in made.items():
                    mapping.add(*condition)
        return mapping

    def _sort_by(self, node: ast.MethodExpr, target: Any, scope: Scope) -> Any:
        if not isinstance(target, list):
            raise CelError(NO_OVERLOAD)
        keyed: list[tuple[Any, Any]] = [
            (self.value(bodies[0], inner), values[0])
            for values, bodies, inner in self._turns(node, target, scope, costs.LISTED + 2)
        ]
        keys = [key for key, _ in keyed]
        self._spend(3 + costs.call_cost("sort", [measured(keys)], 0))
        for (before, _), (after, _) in itertools.pairwise(keyed):
            library.comparable(before, after)
        keyed.sort(key=lambda pair: _ORDER(pair[0]))
        return [value for _, value in keyed]


_ORDER: Final = cmp_to_key(library.compare)
_MADE_COSTS: Final = {"filter": costs.LISTED + 3, "transformMap": 3, "transformMapEntry": 2}
"""Units of what a comprehension makes of an element, its bodies apart."""
Special = Callable[[Evaluation, ast.MethodExpr, Any, Scope], Any]
# ruff: noqa: SLF001 - the class's own methods, by what they are for
_VISITORS: Final[dict[type[ast.Node], Callable[..., Any]]] = {
    ast.Literal: Evaluation._literal,
    ast.CelLiteral: Evaluation._cel_literal,
    ast.Ident: Evaluation._ident,
    ast.Select: Evaluation._select,
    ast.IndexExpr: Evaluation._index,
    ast.ListExpr: Evaluation._list,
    ast.MapExpr: Evaluation._map,
    ast.Unary: Evaluation._unary,
    ast.Binary: Evaluation._binary,
    ast.AndExpr: Evaluation._and,
    ast.OrExpr: Evaluation._or,
    ast.CondExpr: Evaluation._cond,
    ast.CallExpr: Evaluation._call,
    ast.MethodExpr: Evaluation._method,
}
_SPECIAL: Final[dict[str, Special]] = {
    "or": Evaluation._or_value,
    "orValue": Evaluation._or_value,
    "optMap": Evaluation._opt_map,
    "optFlatMap": Evaluation._opt_map,
    "all": Evaluation._all,
    "exists": Evaluation._all,
    "exists_one": Evaluation._exists_one,
    "existsOne": Evaluation._exists_one,
    "map": Evaluation._made,
    "filter": Evaluation._made,
    "transformList": Evaluation._made,
    "transformMap": Evaluation._made,
    "transformMapEntry": Evaluation._made,
    "sortBy": Evaluation._sort_by,
}


_CHOSEN: Final[dict[tuple[object, ...], tuple[Sequence[Overload], library.Kernel]]] = {}
"""By overloads and types of arguments, the overloads and the kernel that suits."""
_SCALARS: Final = {type(value): costs.Shape(kind_of(value)) for value in (True, 0, Uint(0), 0.0)}


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise CelError(NO_OVERLOAD)
    return value


def _as_optional(value: Any) -> Optional:
    if not isinstance(value, Optional):
        raise CelError(NO_OVERLOAD)
    return value


def _find(operand: Any, key: Any, *, default: bool = True) -> Optional:
    """Return a map's, list's or record's member, absent if there is none."""
    if isinstance(operand, CelMap):
        return operand.find(key) if default or key in operand else ABSENT
    if isinstance(operand, list) and isinstance(key, int) and not isinstance(key, bool):
        return Optional(True, operand[key]) if 0 <= key < len(operand) else ABSENT
    if isinstance(operand, Record):
        return Optional(True, operand.fields[key])
    raise CelError(NO_OVERLOAD)


def _member(operand: Any, key: Any) -> Any:
    entry = _find(operand, key)
    if entry.present:
        return entry.value
    if isinstance(operand, list):
        raise CelError(f"index out of bounds: {key}")
    raise CelError(f"no such key: {text_of_key(key)}")


def _no_overload(name: str, args: Sequence[Any]) -> str:
    if name == NO_OVERLOAD:
        return name
    if name in _STANDARD:
        return f"{NO_OVERLOAD}: {name}"
    return f"{NO_OVERLOAD}: {name}({', '.join(map(type_name, args))})"


def measured(value: Any) -> costs.Shape:
    """Return the kind and the length of a value, and those of the first element of a list."""
    scalar = _SCALARS.get(type(value))
    if scalar is not None:
        return scalar
    first = measured(value[0]) if isinstance(value, list) and value else None
    return costs.Shape(kind_of(value), size(value), element=first)


def traversed(value: Any) -> float:
    """Return the cost of reading all of a value."""
    if isinstance(value, list):
        return sum(map(traversed, value))
    return len(value) // 10 if isinstance(value, str | bytes) else 1
