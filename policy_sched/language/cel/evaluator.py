"""Evaluates a checked expression over values, with cel-go's errors and its cost.

Theory of operation. Types are known only from the values: a call takes the first overload that
suits them. An error is a value of && and || as long as the other side may decide. The cost of work
is counted while it is done; beyond the limit the evaluation ends.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cmp_to_key
from typing import Any, Final

from policy_sched.language.cel.costs import (
    LISTED,
    MAPPED,
    MAX_COST,
    call_cost,
    loop_parts,
    operator_cost,
)
from policy_sched.language.cel.library import (
    OPERATORS,
    STANDARD,
    Kernel,
    comparable,
    compare,
    rule_kernel,
)
from policy_sched.language.cel.library_kubernetes import KUBERNETES
from policy_sched.language.cel.values import (
    ABSENT,
    CelError,
    CelMap,
    CostError,
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
from policy_sched.language.syntax import (
    AndExpr,
    Binary,
    CallExpr,
    CelLiteral,
    CondExpr,
    Ident,
    IndexExpr,
    ListExpr,
    Literal,
    MapExpr,
    MethodExpr,
    Node,
    OrExpr,
    Select,
    Unary,
)
from policy_sched.language.values import DYN, ListType, MapType, OptionalType, Type, TypeVariable

Scope = Mapping[str, Any]
NO_OVERLOAD: Final = "no such overload"
#: Functions whose errors name themselves and their arguments' types only as cel-go's own do.
_STANDARD: Final = frozenset({"contains", "startsWith", "endsWith", "matches", "size"})
_OWN: Final[Mapping[str, Kernel]] = {**OPERATORS, **STANDARD, **KUBERNETES}


@cache
def _kernels() -> Mapping[str, Kernel]:
    """Return what evaluates a call of each overload, by the overload's id."""
    return {
        one.id: _OWN.get(one.id) or rule_kernel(one.id, one.result)
        for one in selector_environment().overloads
        if one.name not in ("or", "orValue")
    }


def suits(param: Type, value: Any) -> bool:
    """Tell whether a value may be given for a parameter; elements are not looked at."""
    if param == DYN or isinstance(param, TypeVariable):
        return True
    if isinstance(param, ListType):
        return isinstance(value, list)
    if isinstance(param, MapType):
        return isinstance(value, CelMap)
    if isinstance(param, OptionalType):
        return isinstance(value, Optional)
    return kind_of(value) == param.name


class Evaluation:
    """One evaluation: ``cost`` is what it has taken so far."""

    def __init__(self, limit: int = MAX_COST) -> None:
        self.cost: float = 0
        self._limit = limit
        self._environment = selector_environment()
        self._kernels = _kernels()

    def value(self, node: Node, scope: Scope) -> Any:
        """Return the value of an expression. Raises CelError."""
        return _VISITORS[type(node)](self, node, scope)

    def _spend(self, cost: float) -> None:
        self.cost += cost
        if self.cost > self._limit:
            raise CostError("operation cancelled: actual cost limit exceeded")

    def _literal(self, node: Literal, _scope: Scope) -> Any:
        return node.value

    def _cel_literal(self, node: CelLiteral, _scope: Scope) -> Any:
        return Uint(node.value) if isinstance(node.value, int) else node.value

    def _ident(self, node: Ident, scope: Scope) -> Any:
        if node.name in scope:
            self._spend(1)
            return scope[node.name]
        return TypeValue(node.name)

    def _select(self, node: Select, scope: Scope) -> Any:
        operand = self.value(node.operand, scope)
        if node.optional or isinstance(operand, Optional):
            return self._optionally(operand, node.name)
        self._spend(1)
        return _member(operand, node.name)

    def _index(self, node: IndexExpr, scope: Scope) -> Any:
        operand = self.value(node.operand, scope)
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
        found = _find(operand, key)
        if found.present:
            self._spend(1)
        return found

    def _list(self, node: ListExpr, scope: Scope) -> Any:
        if not all(isinstance(one, Literal | CelLiteral | ListExpr) for one in node.elements):
            self._spend(LISTED)
        found = []
        for one, optional in zip(node.elements, node.optional, strict=True):
            value = self.value(one, scope)
            if not optional:
                found.append(value)
            elif _as_optional(value).present:
                found.append(value.value)
        return found

    def _map(self, node: MapExpr, scope: Scope) -> Any:
        literals = (Literal, CelLiteral)
        if not all(isinstance(one, literals) for one in (*node.keys, *node.values)):
            self._spend(MAPPED)
        found = CelMap()
        for k, v, optional in zip(node.keys, node.values, node.optional, strict=True):
            key, value = self.value(k, scope), self.value(v, scope)
            if type(key) not in (bool, int, Uint, str):
                raise CelError(f"unsupported key type: {type_name(key)}")
            if not optional:
                found.add(key, value)
            elif _as_optional(value).present:
                found.add(key, value.value)
        return found

    def _unary(self, node: Unary, scope: Scope) -> Any:
        operand = self.value(node.operand, scope)
        self._spend(1)
        return self._chosen(self._environment.operators[node.op], [operand], NO_OVERLOAD)

    def _binary(self, node: Binary, scope: Scope) -> Any:
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        literal = isinstance(node.right, ListExpr)
        kinds = (kind_of(left), size(left), kind_of(right), size(right))
        self._spend(operator_cost(node.op, *kinds, literal=literal))
        return self._chosen(self._environment.operators[node.op], [left, right], NO_OVERLOAD)

    def _and(self, node: AndExpr, scope: Scope) -> Any:
        return self._decided(node.args, scope, False)

    def _or(self, node: OrExpr, scope: Scope) -> Any:
        return self._decided(node.args, scope, True)

    def _decided(self, args: Sequence[Node], scope: Scope, decides: bool) -> bool:
        error: CelError | None = None
        for arg in args:
            try:
                if _bool(self.value(arg, scope)) is decides:
                    return decides
            except CostError:
                raise
            except CelError as found:
                error = error or found
        if error is not None:
            raise error
        return not decides

    def _cond(self, node: CondExpr, scope: Scope) -> Any:
        return self.value(
            node.then if _bool(self.value(node.test, scope)) else node.otherwise, scope
        )

    def _call(self, node: CallExpr, scope: Scope) -> Any:
        if node.name == "has":
            select = node.args[0]
            assert isinstance(select, Select), "the expression was checked"
            return _find(self.value(select.operand, scope), select.name, default=False).present
        return self._function(node.name, node.args, scope)

    def _function(self, name: str, nodes: Sequence[Node], scope: Scope) -> Any:
        args = [self.value(arg, scope) for arg in nodes]
        self._spend(_call_cost(name, args))
        return self._chosen(self._environment.functions[name], args, _no_overload(name, args))

    def _method(self, node: MethodExpr, scope: Scope) -> Any:
        if isinstance(node.target, Ident) and node.target.name not in scope:
            dotted = f"{node.target.name}.{node.name}"
            if dotted == "cel.bind":
                variable = node.args[0]
                assert isinstance(variable, Ident), "the expression was checked"
                bound = {**scope, variable.name: self.value(node.args[1], scope)}
                return self.value(node.args[2], bound)
            if dotted in self._environment.functions:
                return self._function(dotted, node.args, scope)
        special = _SPECIAL.get(node.name)
        if (
            special is not None
            and node.args
            and (node.name in ("or", "orValue") or isinstance(node.args[0], Ident))
        ):
            return special(self, node, self.value(node.target, scope), scope)
        args = [self.value(arg, scope) for arg in (node.target, *node.args)]
        self._spend(_call_cost(node.name, args))
        return self._chosen(
            self._environment.methods[node.name], args, _no_overload(node.name, args)
        )

    def _chosen(self, overloads: Sequence[Overload], args: Sequence[Any], error: str) -> Any:
        for one in overloads:
            if len(one.params) == len(args) and all(map(suits, one.params, args)):
                return self._kernels[one.id](*args)
        raise CelError(error)

    # What looks at its arguments by itself.

    def _or_value(self, node: MethodExpr, target: Any, scope: Scope) -> Any:
        found = _as_optional(target)
        if found.present:
            return found if node.name == "or" else found.value
        return self.value(node.args[0], scope)

    def _opt_map(self, node: MethodExpr, target: Any, scope: Scope) -> Any:
        found = _as_optional(target)
        self._spend(1)
        if not found.present:
            return ABSENT
        variable = node.args[0]
        assert isinstance(variable, Ident), "the expression was checked"
        self._spend(6)
        value = self.value(node.args[1], {**scope, variable.name: found.value})
        return Optional(True, value) if node.name == "optMap" else value

    def _items(self, node: MethodExpr, target: Any) -> list[tuple[Any, ...]]:
        """Return what the variables of a comprehension stand for, turn by turn."""
        names, _ = loop_parts(node)
        if isinstance(target, list):
            return list(enumerate(target)) if len(names) == 2 else [(one,) for one in target]
        if isinstance(target, CelMap):
            return list(target.items()) if len(names) == 2 else [(key,) for key in target]
        raise CelError(NO_OVERLOAD)

    def _turns(self, node: MethodExpr, target: Any, scope: Scope, cost: int) -> Any:
        names, bodies = loop_parts(node)
        for values in self._items(node, target):
            self._spend(cost)
            yield values, bodies, {**scope, **dict(zip(names, values, strict=True))}

    def _all(self, node: MethodExpr, target: Any, scope: Scope) -> bool:
        decides = node.name == "exists"
        error: CelError | None = None
        for _, bodies, inner in self._turns(node, target, scope, 4 if decides else 3):
            try:
                if _bool(self.value(bodies[0], inner)) is decides:
                    self._spend(1)
                    return decides
            except CostError:
                raise
            except CelError as found:
                error = error or found
        if error is not None:
            raise error
        self._spend(1)
        return not decides

    def _exists_one(self, node: MethodExpr, target: Any, scope: Scope) -> bool:
        turns = self._turns(node, target, scope, 0)
        count = sum(_bool(self.value(bodies[0], inner)) for _, bodies, inner in turns)
        self._spend(2 + 2 * count)
        return count == 1

    def _made(self, node: MethodExpr, target: Any, scope: Scope) -> Any:
        """map, filter, and the transforms: a list, or a map, of what the bodies give."""
        entries: list[tuple[Any, Any]] = []
        made_cost = 4 if node.name.startswith("transformMap") else LISTED + 2
        made_cost += node.name == "filter"
        for values, bodies, inner in self._turns(node, target, scope, 0):
            conditions = bodies if node.name == "filter" else bodies[:-1]
            if all(_bool(self.value(one, inner)) for one in conditions):
                self._spend(made_cost)
                made = values[0] if node.name == "filter" else self.value(bodies[-1], inner)
                entries.append((values[0], made))
        self._spend(1)
        if not node.name.startswith("transformMap"):
            return [made for _, made in entries]
        found = CelMap()
        for key, made in entries:
            if node.name == "transformMap":
                found.add(key, made)
            elif not isinstance(made, CelMap):
                raise CelError(NO_OVERLOAD)
            else:
                for one in made.items():
                    found.add(*one)
        return found

    def _sort_by(self, node: MethodExpr, target: Any, scope: Scope) -> Any:
        if not isinstance(target, list):
            raise CelError(NO_OVERLOAD)
        keyed: list[tuple[Any, Any]] = [
            (self.value(bodies[0], inner), values[0])
            for values, bodies, inner in self._turns(node, target, scope, 2)
        ]
        for (before, _), (after, _) in itertools.pairwise(keyed):
            comparable(before, after)
        keyed.sort(key=lambda pair: _ORDER(pair[0]))
        return [value for _, value in keyed]


_ORDER: Final = cmp_to_key(compare)
Special = Callable[[Evaluation, MethodExpr, Any, Scope], Any]
# ruff: noqa: SLF001 - the class's own methods, by what they are for
_VISITORS: Final[dict[type[Node], Callable[..., Any]]] = {
    Literal: Evaluation._literal,
    CelLiteral: Evaluation._cel_literal,
    Ident: Evaluation._ident,
    Select: Evaluation._select,
    IndexExpr: Evaluation._index,
    ListExpr: Evaluation._list,
    MapExpr: Evaluation._map,
    Unary: Evaluation._unary,
    Binary: Evaluation._binary,
    AndExpr: Evaluation._and,
    OrExpr: Evaluation._or,
    CondExpr: Evaluation._cond,
    CallExpr: Evaluation._call,
    MethodExpr: Evaluation._method,
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
    found = _find(operand, key)
    if found.present:
        return found.value
    if isinstance(operand, list):
        raise CelError(f"index out of bounds: {key}")
    raise CelError(f"no such key: {text_of_key(key)}")


def _no_overload(name: str, args: Sequence[Any]) -> str:
    if name in _STANDARD:
        return f"{NO_OVERLOAD}: {name}"
    return f"{NO_OVERLOAD}: {name}({', '.join(map(type_name, args))})"


def _call_cost(name: str, args: Sequence[Any]) -> float:
    return call_cost(name, kind_of(args[0]) if args else "", [size(arg) for arg in args])
