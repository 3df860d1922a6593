"""Lowers a typed tree: one case for each kind of node, and the environment's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from policy_sched.language.check import CheckedInput
from policy_sched.language.ir import ops
from policy_sched.language.lower import abstract_values
from policy_sched.language.lower.calls import call
from policy_sched.language.lower.comprehensions import list_literal, macro, map_literal
from policy_sched.language.lower.context import Env, Lowering, Refusal
from policy_sched.language.lower.logic import condition, junction
from policy_sched.language.lower.loops import listed
from policy_sched.language.lower.records import field, has, index
from policy_sched.language.lower.units import of_type
from policy_sched.language.syntax import ast
from policy_sched.language.values import types

#: Ops of the variables that are Python objects, by name: kind, data.
_OBJECTS = {
    "pod": (ops.POD, None),
    "cluster": (ops.CLUSTER, None),
    "podGroup": (ops.OF_CTX, "pod_group"),
    "queue": (ops.OF_CTX, "queued"),
    "head": (ops.OF_CTX, "queued"),
    "cycle": (ops.CTX, None),
    "event": (ops.OF_CTX, "event"),
    "placement": (ops.OF_CTX, "placement"),
    "victim": (ops.OF_CTX, "victim"),
    "victims": (ops.OF_CTX, "victims"),
    "pdbViolations": (ops.OF_CTX, "pdb_violations"),
    "object": (ops.OF_CTX, "object"),
    "key": (ops.OF_CTX, "key"),
    "device": (ops.OF_CTX, "device"),
    "request": (ops.OF_CTX, "request"),
    "now": (ops.OF_CTX, "now"),
    "stable": (ops.OF_CTX, "stable"),
    "candidate": (ops.OF_CTX, "candidate"),
    "score": (ops.SCORE, None),
    "scores": (ops.SCORES, None),
}


def lower(low: Lowering, core: ast.Core, env: Env) -> abstract_values.Abstract:
    """Return the abstract value of an expression, in the unit that the checker found."""
    value = _lowered(low, core, env)
    if isinstance(core.type, _HOLDERS):
        return of_type(low, value, core.type, core.span)
    return value


#: Types that are quantities, or may have some inside.
_HOLDERS = (types.QuantityType, types.ListType, types.MapType, types.OptionalType)


def _lowered(low: Lowering, core: ast.Core, env: Env) -> abstract_values.Abstract:  # noqa: PLR0911  # a case each
    match core:
        case ast.Const():
            return abstract_values.Constant(core.value, core.type)
        case ast.Var():
            return _variable(low, core, env)
        case ast.Field():
            operand = low.lower(core.operand, env)
            return field(low, operand, core.name, core.type, core.span)
        case ast.Index():
            operand, key = low.lower(core.operand, env), low.lower(core.index, env)
            _refuse_missing_key(core, operand)
            return index(low, operand, key, core.type, core.span, optional=core.optional)
        case ast.Has():
            return has(low, low.lower(core.operand, env), low.lower(core.key, env), core.span)
        case ast.Call():
            return _constant(call(low, core, env))
        case ast.And():
            return junction(low, core.args, env, every=True)
        case ast.Or():
            return junction(low, core.args, env, every=False)
        case ast.Cond():
            return condition(low, core, env)
        case ast.ListLit():
            return list_literal(low, core, env)
        case ast.MapLit():
            return map_literal(low, core, env)
        case ast.Let():
            return low.lower(core.body, {**env, core.name: low.thunk(core.value, env)})
        case ast.Macro():
            return _constant(macro(low, core, env))
        case ast.UserCall():
            return _user_call(low, core, env)
    raise AssertionError(core)


def _refuse_missing_key(core: ast.Index, operand: abstract_values.Abstract) -> None:
    """Refuse a key that a rule names and a parameter's map lacks: args may have replaced it."""
    path, at = list[str](), core.operand
    while isinstance(at, ast.Field | ast.Index):
        name = at.name if isinstance(at, ast.Field) else getattr(at.index, "value", "")
        path.insert(0, str(name))
        at = at.operand
    if not (isinstance(at, ast.Var) and at.name == "params") or core.optional:
        return
    if not isinstance(operand, abstract_values.Constant) or not isinstance(operand.value, dict):
        return
    if isinstance(core.index, ast.Const) and core.index.value not in operand.value:
        shown = ", ".join(map(str, operand.value)) or "none"
        hint = f"its keys: {shown}; a map in args replaces the whole default"
        name = ".".join(["params", *path])
        raise Refusal("PS102", f"{name} has no key `{core.index.value}`", core.span, hint)


def _constant(value: abstract_values.Abstract) -> abstract_values.Abstract:
    """Return a value whose op turned out to be a constant as a constant."""
    if (
        isinstance(value, abstract_values.Value)
        and value.err is None
        and value.op.kind is ops.CONST
    ):
        return abstract_values.Constant(value.op.data, value.type)
    return value


def _user_call(low: Lowering, core: ast.UserCall, env: Env) -> abstract_values.Abstract:
    function = low.functions[core.name]
    bound = {
        name: low.thunk(arg, env) for name, arg in zip(function.params, core.args, strict=True)
    }
    try:
        return low.lower(function.body, bound)
    except Refusal as refusal:
        message = f"{refusal.message} (in function {core.name})"
        raise Refusal(refusal.code, message, core.span, refusal.hint) from None


def _variable(low: Lowering, core: ast.Var, env: Env) -> abstract_values.Abstract:
    bound = env.get(core.name)
    if bound is None:
        bound = low.globals.get(core.name)
    if bound is not None:
        try:
            return low.force(bound)
        except Refusal as refusal:
            if not core.name.startswith("variables."):
                raise
            message = f"{refusal.message} (in {core.name})"
            raise Refusal(refusal.code, message, core.span, refusal.hint) from None
    if core.name == "inputs":  # of an expression by itself, for which nothing is kept
        return abstract_values.Constant({}, core.type)
    if core.name == "node":
        return abstract_values.NodeRecord(core.type)
    if core.name in ("aggregates", "quotas"):
        return abstract_values.Constant({}, core.type)
    if isinstance(core.type, types.QuotaType):
        pod, of = low.op(ops.POD, rep="o"), ops.QUOTA
        if core.name == "victimQuota":
            pod, of = low.op(ops.OF_CTX, rep="o", data="victim"), ops.VICTIM_QUOTA
        op = low.op(of, pod, rep="o", data=low.quotas(core.type))
        return abstract_values.Value(op, None, core.type)
    if core.name == "allocation":
        row = low.node_op(ops.ROW, rep="i")
        op = low.op(ops.ALLOCATION_AT, low.op(ops.POD, rep="o"), row, rep="o")
        return abstract_values.Value(op, None, core.type)
    if core.name == "namespaceObject":
        name = low.op(ops.FIELD_OF_POD, low.op(ops.POD, rep="o"), rep="s", data="namespace")
        return abstract_values.Value(
            low.op(ops.RUNTIME_OF, name, rep="o", data="namespace"), None, core.type
        )
    kind, data = _OBJECTS[core.name]
    rep = abstract_values.rep_of(core.type)
    make = low.node_op if kind is ops.SCORE or core.name == "device" else low.op
    interval = abstract_values.range_of(core.type)
    return abstract_values.Value(make(kind, rep=rep, data=data), None, core.type, interval)


def identities(inputs: Sequence[CheckedInput]) -> abstract_values.Constant:
    """Return what `inputs` is: the identity of each."""
    kind = types.RecordType("inputs", tuple([(entry.name, entry.type) for entry in inputs]))
    return abstract_values.Constant({entry.name: entry.identity for entry in inputs}, kind)


def make_lowering(
    params: Mapping[str, Any],
    params_type: types.RecordType,
    functions: Mapping[str, ast.UserFunction],
) -> Lowering:
    """Return the state of lowering for one policy."""
    low = Lowering(lower, listed, functions)
    low.globals["params"] = abstract_values.Constant(dict(params), params_type)
    return low
