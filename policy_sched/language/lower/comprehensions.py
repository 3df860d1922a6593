"""Lowers macros: over constant lists by unrolling them, over run-time lists as loops."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from msgspec.structs import replace

from policy_sched.language.check import children
from policy_sched.language.ir import LoopKind, Op, ops
from policy_sched.language.lower import loops
from policy_sched.language.lower.abstract_values import (
    Abstract,
    Comprehension,
    Constant,
    MaskedList,
    Opt,
    Value,
    default_of,
    range_of,
    rep_of,
    truth,
)
from policy_sched.language.lower.context import Env, Lowering, element_type
from policy_sched.language.lower.logic import combine, opposite, with_error, without_error
from policy_sched.language.lower.units import in_one_unit, of_type, refined
from policy_sched.language.stdlib import mapping, sorted_keys, value_at
from policy_sched.language.syntax import Span, ast
from policy_sched.language.values import Interval, intervals as ranges, types
from policy_sched.model import ports_conflict

#: Constant lists up to this length are unrolled.
MAX_UNROLLED = 256


def list_literal(low: Lowering, core: ast.ListLit, env: Env) -> Abstract:
    """Lower [a, b, ?c]: a constant if all elements are, else a list of masked values."""
    items: list[tuple[Value | None, Abstract]] = []
    errors: list[Op | None] = []
    for element, optional in zip(core.elements, core.optional, strict=True):
        value = low.lower(element, env)
        if isinstance(value, Comprehension):
            value = low.val(value)  # its errors are the literal's, whichever element is read
        mask: Constant | Value | None = None
        if optional:
            option = low.opt(value)
            mask, value = option.present, option.value
            errors.append(option.err)
        errors.append(value.err)
        if isinstance(mask, Constant):
            if not mask.value:
                continue
            mask = None
        items.append((mask, without_error(low, value)))
    masks = [None if mask is None else mask.op for mask, _ in items]
    values, more = _alike(low, [value for _, value in items], masks, core.span)
    items = [(mask, value) for (mask, _), value in zip(items, values, strict=True)]
    return masked_list(items, low.first(*errors, *more), _list_type(core.type, values))


def _list_type(kind: types.Type, values: Sequence[Abstract]) -> types.Type:
    """Return the type of a list, with the unit that all of its values have."""
    kinds = {value.type for value in values}
    return refined(kind, types.list_of(kinds.pop())) if len(kinds) == 1 else kind


def _alike(
    low: Lowering, values: Sequence[Abstract], masks: Sequence[Op | None], span: Span
) -> tuple[list[Abstract], list[Op | None]]:
    """Return values in one unit, without errors, and the errors of those that are there."""
    alike = in_one_unit(low, values, span)
    errors = [low.masked(m, v.err) for m, v in zip(masks, alike, strict=True)]
    return [without_error(low, value) for value in alike], errors


def map_literal(low: Lowering, core: ast.MapLit, env: Env) -> Abstract:
    """Lower {k: v, ?k: o}: a constant if all is, else a call that puts the entries together."""
    flat: list[Abstract] = []
    errors: list[Op | None] = []
    for key_core, value_core, optional in zip(core.keys, core.values, core.optional, strict=True):
        key, value = low.lower(key_core, env), low.lower(value_core, env)
        present: Abstract = Constant(True, types.BOOL)
        errors += [key.err, value.err]
        if optional:
            option = low.opt(value)
            present, value = option.present, option.value
        flat += [present, without_error(low, key), without_error(low, low.plain(value))]
    masks = [low.val(present).op for present in flat[::3]]
    flat[2::3], more = _alike(low, flat[2::3], masks, core.span)
    err = low.first(*errors, *more)
    if err is None and all(isinstance(part, Constant) for part in flat):
        values = [part.value for part in flat if isinstance(part, Constant)]
        return low.fold(mapping, values, core.type, core.span)
    made = low.call(
        mapping, [low.plain(part) for part in flat], core.type, core.span, fallible=True
    )
    return with_error(low, made, err)


def masked_list(
    items: Sequence[tuple[Value | None, Abstract]], err: Op | None, kind: types.Type
) -> Abstract:
    """Return a list of masked values; a constant if it is one."""
    if err is None and all(m is None and isinstance(v, Constant) for m, v in items):
        return Constant([v.value for _, v in items if isinstance(v, Constant)], kind)
    return MaskedList(tuple(items), err, kind)


def as_list(low: Lowering, value: Abstract) -> Abstract:
    """Return what a macro runs over: constants and masked values unrolled, else a loop."""
    if isinstance(value.type, types.MapType):
        return as_list(low, _sorted_keys(low, value))
    if isinstance(value, Constant) and len(value.value) <= MAX_UNROLLED:
        element = element_type(value.type)
        items = tuple((None, Constant(item, element)) for item in value.value)
        return MaskedList(items, None, value.type)
    if isinstance(value, (MaskedList, Comprehension)):
        return value
    return loops.over(low, low.val(value))


def _sorted_keys(low: Lowering, value: Abstract) -> Constant | Value:
    kind = value.type
    assert isinstance(kind, types.MapType)
    keys = types.list_of(kind.key)
    if isinstance(value, Constant):
        return Constant(sorted(value.value), keys)
    return low.call(sorted_keys, [low.val(value)], keys, Span(0, 0))


def macro(low: Lowering, core: ast.Macro, env: Env) -> Abstract:
    """Lower a macro."""
    operand = low.lower(core.operand, env)
    if core.kind == "exists" and (other := _conflicting(core)) is not None:
        used = low.lower(other, env)
        if used.err is None:
            return low.call(
                ports_conflict, [low.val(operand), low.val(used)], types.BOOL, core.span
            )
    if core.kind in ("optMap", "optFlatMap"):
        return _optional_map(low, core, operand, env)
    if core.kind == "fold":
        return _fold(low, core, operand, env)
    if len(core.names) > 1:
        return _two_variables(low, core, operand, env)
    listed = as_list(low, operand)
    if isinstance(listed, MaskedList):
        return _unrolled(low, core, listed, [{core.names[0]: v} for _, v in listed.items], env)
    assert isinstance(listed, Comprehension)
    if listed.param in low.bound:
        listed, _ = loops.alpha_renamed(low.build, listed)
    low.bound.add(listed.param)
    return _looped(low, core, listed, {core.names[0]: listed.value}, env)


def _conflicting(core: ast.Macro) -> ast.Core | None:
    """Return b of ``a.exists(x, b.exists(y, x.conflicts(y)))``; hashing computes it."""
    inner = core.test
    if not isinstance(inner, ast.Macro) or inner.kind != "exists" or len(inner.names) != 1:
        return None
    test, names = inner.test, [*core.names, *inner.names]
    if not isinstance(test, ast.Call) or test.overload != "conflicts_hostport_hostport":
        return None
    args = [arg.name for arg in test.args if isinstance(arg, ast.Var)]
    if len(set(names)) != len(names) or sorted(args) != sorted(names):
        return None
    todo: list[ast.Core] = [inner.operand]
    while todo:
        part = todo.pop()
        if isinstance(part, ast.Var) and part.name in core.names:
            return None
        todo.extend(children(part))
    return inner.operand


def _two_variables(low: Lowering, core: ast.Macro, operand: Abstract, env: Env) -> Abstract:
    first, second = core.names
    kind = operand.type
    unrolled = isinstance(operand, Constant) and core.kind != "transformMap"
    if unrolled and isinstance(operand, Constant) and len(operand.value) <= MAX_UNROLLED:
        names: list[dict[str, Abstract]]
        if isinstance(kind, types.MapType):
            keys = sorted(operand.value)
            names = [
                {first: Constant(k, kind.key), second: Constant(operand.value[k], kind.value)}
                for k in keys
            ]
        else:
            element = element_type(kind)
            names = [
                {first: Constant(i, types.INT), second: Constant(v, element)}
                for i, v in enumerate(operand.value)
            ]
        items: tuple[tuple[Value | None, Abstract], ...] = tuple((None, n[second]) for n in names)
        return _unrolled(low, core, MaskedList(items, None, kind), names, env)
    if isinstance(kind, types.MapType):
        loop = loops.over(low, low.val(_sorted_keys(low, operand)))
        whole = low.val(operand)
        key = low.val(loop.value)
        default = Value(low.build.const(default_of(kind.value), "o"), None, kind.value)
        value = low.call(
            value_at, [Value(whole.op, None, kind), key, default], kind.value, core.span
        )
        return _looped(low, core, loop, {first: key, second: value}, env)
    loop = loops.over(low, low.val(operand), indexed=True)
    assert loop.index is not None
    index = Value(loop.index, None, types.INT, Interval(0, 2**31))
    return _looped(low, core, loop, {first: index, second: loop.value}, env)


# Over constant lists and lists of masked values.


def _unrolled(
    low: Lowering,
    core: ast.Macro,
    listed: MaskedList,
    names: Sequence[dict[str, Abstract]],
    env: Env,
) -> Abstract:
    tests: list[Abstract] = []
    bodies: list[Abstract] = []
    for (mask, item), bound in zip(listed.items, names, strict=True):
        inner = {**env, **bound}
        with ExitStack() as stack:
            stack.enter_context(low.assuming((mask, True)))
            test = Constant(True, types.BOOL) if core.test is None else low.lower(core.test, inner)
            tests.append(test)
            if core.body is None:
                bodies.append(item)
            elif isinstance(test, Constant) and not test.value:
                bodies.append(Constant(default_of(core.body.type), core.body.type))
            else:
                if isinstance(test, Value):
                    stack.enter_context(low.assuming((test, True)))
                bodies.append(low.narrowed(low.lower(core.body, inner)))
    if core.kind in ("all", "exists"):
        return _quantified(low, core.kind == "all", listed, tests)
    return _kept(low, core, listed, tests, bodies)


def _quantified(
    low: Lowering, every: bool, listed: MaskedList, tests: Sequence[Abstract]
) -> Abstract:
    parts = []
    for (mask, _), test in zip(listed.items, tests, strict=True):
        if mask is None:
            parts.append(test)
            continue
        outside = opposite(low, mask) if every else mask
        parts.append(combine(low, [outside, test], every=not every))
    return with_error(low, combine(low, parts, every=every), listed.err)


def _kept(
    low: Lowering,
    core: ast.Macro,
    listed: MaskedList,
    tests: Sequence[Abstract],
    bodies: Sequence[Abstract],
) -> Abstract:
    test_errors: list[Op | None] = []
    body_errors: list[Op | None] = []
    items: list[tuple[Value | None, Abstract]] = []
    for (mask, _), test, body in zip(listed.items, tests, bodies, strict=True):
        outer = None if mask is None else mask.op
        test_errors.append(low.masked(outer, test.err))
        kept = combine(low, [v for v in (mask, without_error(low, test)) if v], every=True)
        if isinstance(kept, Constant):
            if not kept.value:
                continue
            kept_mask = None
        else:
            kept_mask = low.val(kept)
        body_errors.append(low.masked(None if kept_mask is None else kept_mask.op, body.err))
        items.append((kept_mask, without_error(low, body)))
    err = low.first(listed.err, *_in_stages(core, test_errors, body_errors))
    if core.kind == "existsOne":
        return _exactly_one(low, MaskedList(tuple(items), err, types.list_of(types.BOOL)), err)
    return masked_list(items, err, _list_type(core.type, [value for _, value in items]))


def _in_stages(
    core: ast.Macro, tests: Sequence[Op | None], bodies: Sequence[Op | None]
) -> list[Op | None]:
    """Return errors in the order in which they are met."""
    if core.test is None or core.body is None or len(tests) != len(bodies):
        return [*tests, *bodies]
    return [error for pair in zip(tests, bodies, strict=True) for error in pair]


def _exactly_one(low: Lowering, listed: MaskedList, err: Op | None) -> Abstract:
    return with_error(low, comparison_equal(low, loops.masked_count(low, listed), 1), err)


def comparison_equal(low: Lowering, number: Abstract, wanted: int) -> Abstract:
    """Return whether an int is ``wanted``."""
    if isinstance(number, Constant):
        return Constant(number.value == wanted, types.BOOL)
    operand = low.val(number)
    op = low.op(ops.EQ, operand.op, low.build.const(wanted, "i"), rep="b")
    return truth(op, operand.err)


# Over run-time lists.


def _looped(
    low: Lowering, core: ast.Macro, loop: Comprehension, names: dict[str, Abstract], env: Env
) -> Abstract:
    inner = {**env, **names}
    mask, errors = loop.mask, loop.errors
    with ExitStack() as stack:
        stack.enter_context(low.assuming((mask, True)))
        test = None if core.test is None else low.lower(core.test, inner)
        if test is not None and core.test is not None and loops.of_domain(loop.source):
            loops.refuse_node(low.val(test), loop.source, core.test.span)
        if core.kind in ("all", "exists"):
            assert test is not None
            return loops.quantifier(low, loop, test, every=core.kind == "all")
        if test is not None:
            own = low.masked(None if mask is None else mask.op, test.err)
            parts = [v for v in (mask, without_error(low, test)) if v is not None]
            kept = combine(low, parts, every=True)
            mask = None if isinstance(kept, Constant) and kept.value else low.val(kept)
            if own is not None:
                errors = (*errors, own)
            stack.enter_context(low.assuming((mask, True)))
        value = loop.value if core.body is None else low.narrowed(low.lower(core.body, inner))
    failure = low.masked(None if mask is None else mask.op, value.err)
    if failure is not None and core.body is not None:
        errors = (*errors, failure)
    value = without_error(low, value)
    kind = _list_type(core.type, [value])
    made = Comprehension(loop.source, loop.param, loop.index, errors, mask, value, loop.err, kind)
    if core.kind == "existsOne":
        return comparison_equal(low, loops.count(low, made), 1)
    if core.kind == "transformMap":
        inside = low.plain(value)
        return loops.run_loop(low, made, LoopKind.DICT, inside.op, core.type, "o")
    return made


# Accumulators.


def _fold(low: Lowering, core: ast.Macro, operand: Abstract, env: Env) -> Abstract:
    """Lower a fold: step by step over a constant list if its accumulator is a number or a text."""
    assert core.body is not None
    assert core.first is not None
    listed, kind = as_list(low, operand), core.type
    first = of_type(low, low.lower(core.first, env), kind, core.span)
    if isinstance(listed, MaskedList) and rep_of(kind) != "o" and kind != types.STRING:
        return _folded(low, core, listed, first, env)
    if not isinstance(listed, Comprehension) or listed.index is not None:
        listed = loops.over(low, low.val(listed))
    elif listed.param in low.bound:
        listed, _ = loops.alpha_renamed(low.build, listed)
    low.bound.add(listed.param)
    start = low.plain(first)
    accumulator = low.build.fresh(ops.PARAM, rep_of(kind), listed.source)
    bound: dict[str, Abstract] = {
        core.names[0]: listed.value,
        core.names[1]: Value(accumulator, None, kind, range_of(kind)),
    }
    with low.assuming((listed.mask, True)):
        body = of_type(low, low.lower(core.body, {**env, **bound}), kind, core.span)
    value = low.plain(body)
    loop = replace(listed, index=accumulator, err=low.first(listed.err, start.err))
    rep = rep_of(kind)
    return loops.run_loop(
        low, loop, LoopKind.FOLD, value.op, kind, rep, own=value.err, first=start.op
    )


def _folded(
    low: Lowering, core: ast.Macro, listed: MaskedList, first: Abstract, env: Env
) -> Abstract:
    """Lower a fold over known elements: the accumulator is one value after the other."""
    assert core.body is not None
    so_far, error = without_error(low, first), low.first(listed.err, first.err)
    for mask, item in listed.items:
        bound = {core.names[0]: item, core.names[1]: so_far}
        with low.assuming((mask, True)):
            step = of_type(low, low.lower(core.body, {**env, **bound}), core.type, core.span)
            step = low.narrowed(step)
        outer = None if mask is None else mask.op
        error = low.first(error, low.masked(outer, step.err))
        value = without_error(low, step)
        if mask is None:
            so_far = value
            continue
        before, after = low.plain(so_far), low.plain(value)
        op = low.op(ops.WHERE, mask.op, after.op, before.op, rep=rep_of(core.type))
        interval = ranges.hull(low.range(before), low.range(after))
        so_far = Value(op, None, core.type, interval)
    return with_error(low, so_far, error)


# Optionals.


def _optional_map(low: Lowering, core: ast.Macro, operand: Abstract, env: Env) -> Abstract:
    option = low.opt(operand)
    result = core.type
    assert core.body is not None
    if not isinstance(result, types.OptionalType):
        result = types.optional_of(types.UNKNOWN)  # of an element type that nothing settled
    if isinstance(option.present, Constant) and not option.present.value:
        return with_error(low, Constant(None, result), option.err)
    test = option.present if isinstance(option.present, Value) else None
    with low.assuming((test, True)):
        body = low.lower(core.body, {**env, core.names[0]: option.value})
    outer = None if test is None else test.op
    err = low.first(option.err, low.masked(outer, body.err))
    result = refined(result, types.optional_of(body.type) if core.kind == "optMap" else body.type)
    if core.kind == "optMap":
        return Opt(option.present, without_error(low, body), err, result)
    inner = low.opt(without_error(low, body))
    present = combine(low, [option.present, inner.present], every=True)
    assert isinstance(present, (Constant, Value))
    return Opt(present, inner.value, err, result)
