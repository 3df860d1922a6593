"""Checks of operators, conditionals, and list and map literals."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from policy_sched.language.check.calls import not_compared, quantities_differ
from policy_sched.language.check.scope import Scope, mismatch, no_overload, silent
from policy_sched.language.diagnostics import MAX_LIST_ITEMS
from policy_sched.language.stdlib import choose, settle
from policy_sched.language.syntax import ast
from policy_sched.language.values import types

_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")
_INT64: Final = range(-(2**63), 2**63)


def unary(node: ast.Unary, scope: Scope) -> ast.Core:
    """Check ``!x`` and ``-x``."""
    operand = scope.infer(node.operand)
    if operand.type == types.ERROR:
        return silent(node.span)
    candidates = [o for o in scope.environment.operators[node.op] if len(o.params) == 1]
    choice = choose(candidates, [operand.type], dynamic=scope.environment.dynamic)
    if choice is None:
        message = f"`{node.op}` has no overload for {operand.type}"
        cel = no_overload(f"{node.op}_", [operand.type])
        return scope.wrong("PS201", node.span, message, cel=cel)
    tree = ast.Call(
        overload=choice.overload.id, args=(operand,), type=choice.result, span=node.span
    )
    return _checked_constant(tree, scope)


def binary(node: ast.Binary, scope: Scope) -> ast.Core:
    """Check arithmetic, comparison and ``in``."""
    left, right = scope.infer(node.left), scope.infer(node.right)
    kinds = [left.type, right.type]
    if types.ERROR in kinds:
        return silent(node.span)
    if node.op in ("==", "!=", "in"):
        for side in (left, right):
            if types.has_objects(side.type):
                return not_compared(side, scope)
    candidates = [o for o in scope.environment.operators[node.op] if len(o.params) == 2]
    choice = choose(candidates, kinds, dynamic=scope.environment.dynamic)
    if choice is None:
        message = f"`{node.op}` has no overload for {left.type} and {right.type}"
        hint = _method(node.op, *kinds) if scope.environment.dynamic else ""
        hint = hint or _conversion(node, left, right, scope)
        return scope.wrong(
            "PS201", node.op_span, message, hint, cel=no_overload(f"_{node.op}_", kinds)
        )
    if choice.clash:
        return scope.wrong("PS208", node.span, types.clash_message(choice.clash), types.CLASH_HINT)
    args = (settle(left, choice.dimension), settle(right, choice.dimension))
    tree = ast.Call(overload=choice.overload.id, args=args, type=choice.result, span=node.span)
    return _checked_constant(tree, scope)


#: What Kubernetes' CEL has in place of operators of quantities and versions.
_METHODS: Final = {
    ">": "write `a.isGreaterThan(b)`",
    "<": "write `a.isLessThan(b)`",
    ">=": "write `a.compareTo(b) >= 0`",
    "<=": "write `a.compareTo(b) <= 0`",
    "+": "write `a.add(b)`",
    "-": "write `a.sub(b)`",
}


def _method(op: str, left: types.Type, right: types.Type) -> str:
    """Suggest a method for an operator that quantities and versions lack in Kubernetes' CEL."""
    for name, only in (("quantity", ""), ("semver", "+-")):
        if name not in (left.name, right.name):
            continue
        hint = "" if op in only else _METHODS.get(op, "")
        if left.name == right.name or types.DYN in (left, right):
            return hint
        made = f'{name}("...")'
        return f"{hint}, the other value as {made}" if hint else f"write the other value as {made}"
    return ""


def _conversion(node: ast.Binary, left: ast.Core, right: ast.Core, scope: Scope) -> str:
    """Suggest how two types could meet."""
    kinds = {left.type, right.type}
    if kinds == {types.INT, types.DOUBLE}:
        return "convert one side with double(...) or int(...)"
    if any(isinstance(kind, types.QuantityType) for kind in kinds):
        if node.op == "*" and types.DOUBLE in kinds:
            return "multiply by an int, or take numbers with .units()"
        if types.INT in kinds or types.DOUBLE in kinds:
            return 'compare with quantity("..."), or take a number with .units() or .value()'
        if types.STRING in kinds:
            return "write quantity(...) around the text"
    for kind in (left.type, right.type):
        if isinstance(kind, types.OptionalType):
            other = right.type if kind == left.type else left.type
            if types.join(kind.element, other) is None:
                return "give the optional a value first, with .orValue(...)"
            return "give the optional a value with .orValue(...), or write optional.of(...)"
    if types.STRING in kinds and kinds & {types.INT, types.DOUBLE, types.BOOL}:
        return _of_text(node.op, left, right, scope)
    if node.op == "in" and right.type == types.STRING:
        return "for a part of a text write .contains(...)"
    signatures = [
        o.signature for o in scope.environment.operators[node.op] if o.params[0] == left.type
    ]
    return "; ".join(signatures[:3])


def _of_text(op: str, left: ast.Core, right: ast.Core, scope: Scope) -> str:
    """Suggest how a text and a number, or a truth value, could meet."""
    text, other = (left, right) if left.type == types.STRING else (right, left)
    written = text.value if isinstance(text, ast.Const) else None
    if other.type == types.BOOL:
        if isinstance(other, ast.Const):
            return f'write "{str(other.value).lower()}", which is a text'
        return "convert the truth value with string(...)"
    if isinstance(written, str) and _NUMBER.fullmatch(written):
        return f"write {written} without quotes"
    if isinstance(written, str) and op == "+":
        return "convert the number with string(...)"
    name, attempt = ("int", "tryInt") if other.type == types.INT else ("double", "tryDouble")
    more = f", or {attempt}(...) where it may be none" * (attempt in scope.environment.functions)
    return f"read the text as a number: {name}(...){more}"


def _checked_constant(tree: ast.Call, scope: Scope) -> ast.Core:
    """Note PS207 for arithmetic on int literals that leaves int64."""
    value = _constant_int(tree)
    if value is None or value in _INT64:
        return tree
    scope.report("PS207", tree.span, "this constant does not fit a 64-bit int")
    return tree if scope.environment.dynamic else silent(tree.span)


def _quotient(a: int, b: int) -> int | None:
    if b == 0:
        return None
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_FOLDS: Final[dict[str, Callable[[int, int], int | None]]] = {
    "add_int_int": lambda a, b: a + b,
    "sub_int_int": lambda a, b: a - b,
    "mul_int_int": lambda a, b: a * b,
    "div_int_int": _quotient,
}


def _constant_int(tree: ast.Core) -> int | None:
    """Return the value of an expression of int literals, or None."""
    if isinstance(tree, ast.Const):
        return tree.value if type(tree.value) is int and tree.type == types.INT else None
    if not isinstance(tree, ast.Call):
        return None
    if tree.overload == "neg_int":
        value = _constant_int(tree.args[0])
        return None if value is None else -value
    if tree.overload not in _FOLDS:
        return None
    left, right = _constant_int(tree.args[0]), _constant_int(tree.args[1])
    return None if left is None or right is None else _FOLDS[tree.overload](left, right)


def logical(node: ast.AndExpr | ast.OrExpr, scope: Scope) -> ast.Core:
    """Check ``&&`` and ``||``."""
    sign = "&&" if isinstance(node, ast.AndExpr) else "||"
    args = tuple(scope.infer(arg) for arg in node.args)
    good = [
        scope.require(arg, types.BOOL, f"`{sign}` takes truth values", f"_{sign}_") for arg in args
    ]
    if not all(good):
        return silent(node.span)
    if isinstance(node, ast.AndExpr):
        return ast.And(args=args, type=types.BOOL, span=node.span)
    return ast.Or(args=args, type=types.BOOL, span=node.span)


def conditional(node: ast.CondExpr, scope: Scope) -> ast.Core:
    """Check ``test ? then : otherwise``."""
    test = scope.infer(node.test)
    then, otherwise = scope.infer(node.then), scope.infer(node.otherwise)
    good = scope.require(test, types.BOOL, "the condition before `?`", "_?_:_")
    if not good or types.ERROR in (then.type, otherwise.type):
        return silent(node.span)
    result = _common([then, otherwise], "the two branches", scope, node)
    if result is None:
        return silent(node.span)
    _, joint = types.dimensions([then.type, otherwise.type])
    return ast.Cond(
        test=test,
        then=settle(then, joint),
        otherwise=settle(otherwise, joint),
        type=result,
        span=node.span,
    )


def _common(
    trees: Sequence[ast.Core], what: str, scope: Scope, node: ast.Node
) -> types.Type | None:
    """Return the one type of all trees; note PS204 or PS208 where there is none."""
    common: types.Type = types.UNKNOWN
    for tree in trees:
        joined = types.join(common, tree.type)
        if joined is None:
            hint = ""
            if {common, tree.type} == {types.INT, types.DOUBLE}:
                hint = "write ints as doubles, such as 1.0, or convert with double(...)"
            message = f"{what} have different types: {common} and {tree.type}"
            cel, at = mismatch(common, tree.type), tree.span.start
            if isinstance(node, ast.CondExpr):
                cel = no_overload("_?_:_", [types.BOOL, common, tree.type])
                at = node.test.span.end
            scope.report("PS204", tree.span, message, hint, cel=cel, at=at)
            return None
        common = joined
    clash = quantities_differ([tree.type for tree in trees])
    if clash:
        scope.report("PS208", node.span, types.clash_message(clash), types.CLASH_HINT)
        return None
    return common


def _unwrapped(tree: ast.Core, scope: Scope) -> ast.Core:
    """Check that an element written with ``?`` is an optional."""
    if tree.type in (types.ERROR, types.UNKNOWN, types.DYN) or isinstance(
        tree.type, types.OptionalType
    ):
        return tree
    message = f"an element after `?` must be an optional, found {tree.type}"
    cel = mismatch(types.optional_of(tree.type), tree.type)
    return scope.wrong("PS203", tree.span, message, cel=cel)


def _inside(tree: ast.Core, optional: bool) -> ast.Core:
    """Return a stand-in whose type is the element's, without its optional."""
    if optional and isinstance(tree.type, types.OptionalType):
        return ast.Const(value=None, type=tree.type.element, span=tree.span)
    return tree


def list_literal(node: ast.ListExpr, scope: Scope) -> ast.Core:
    """Check ``[a, b, ?c]``."""
    if len(node.elements) > MAX_LIST_ITEMS and not scope.environment.dynamic:
        message = f"the list has {len(node.elements)} items; the limit is {MAX_LIST_ITEMS}"
        return scope.wrong("PS502", node.span, message, "put long lists into params")
    elements = _items(node.elements, node.optional, scope)
    if elements is None:
        return silent(node.span)
    plain = [_inside(e, o) for e, o in zip(elements, node.optional, strict=True)]
    element = _common(plain, "the elements", scope, node)
    if element is None:
        return silent(node.span)
    if element != types.DYN and not types.is_known(element) and len({e.type for e in plain}) > 1:
        hint = "write an element that shows it"
        return scope.wrong("PS205", node.span, "the elements' type cannot be inferred", hint)
    _, joint = types.dimensions([e.type for e in plain])
    settled = tuple(settle(e, joint) for e in elements)
    return ast.ListLit(
        elements=settled, optional=node.optional, type=types.list_of(element), span=node.span
    )


def _items(
    nodes: Sequence[ast.Node], optional: Sequence[bool], scope: Scope
) -> tuple[ast.Core, ...] | None:
    trees = [scope.infer(node) for node in nodes]
    trees = [_unwrapped(t, scope) if o else t for t, o in zip(trees, optional, strict=True)]
    return None if any(t.type == types.ERROR for t in trees) else tuple(trees)


def map_literal(node: ast.MapExpr, scope: Scope) -> ast.Core:
    """Check ``{k: v, ?k: o}``."""
    if len(node.keys) > MAX_LIST_ITEMS and not scope.environment.dynamic:
        message = f"the map has {len(node.keys)} entries; the limit is {MAX_LIST_ITEMS}"
        return scope.wrong("PS502", node.span, message, "put long maps into params")
    keys = _items(node.keys, [False] * len(node.keys), scope)
    values = _items(node.values, node.optional, scope)
    if keys is None or values is None:
        return silent(node.span)
    key = _common(keys, "the keys", scope, node)
    plain = [_inside(v, o) for v, o in zip(values, node.optional, strict=True)]
    value = _common(plain, "the values", scope, node)
    if key is None or value is None:
        return silent(node.span)
    if key not in (types.STRING, types.INT, types.BOOL, types.UNKNOWN, types.UINT, types.DYN):
        message = f"a map's keys are string, int or bool, not {key}"
        return scope.wrong("PS203", keys[0].span, message)
    twice = _repeated(keys)
    if twice is not None:
        scope.report("PS111", twice.span, "the map has this key already")
        if not scope.environment.dynamic:
            return silent(node.span)
    return ast.MapLit(
        keys=keys,
        values=values,
        optional=node.optional,
        type=types.map_of(key, value),
        span=node.span,
    )


def _repeated(keys: Sequence[ast.Core]) -> ast.Core | None:
    """Return the first duplicate literal key of the map."""
    seen = set()
    for key in keys:
        if isinstance(key, ast.Const):
            if key.value in seen:
                return key
            seen.add(key.value)
    return None


def is_empty_literal(tree: ast.Core) -> bool:
    """Return whether a literal does not determine its type: ``[]``, ``{}``, ``optional.none()``."""
    match tree:
        case ast.ListLit(type=types.ListType(element=element)):
            return element == types.UNKNOWN
        case ast.MapLit(type=types.MapType(value=value)):
            return value == types.UNKNOWN
        case ast.Call(overload="optional_none"):
            return True
    return False
