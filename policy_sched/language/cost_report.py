"""Reports where each part of an expression is computed and what it costs, and refuses costly rules.

Theory of operation. Each part is lowered and compiled by itself if it means something by itself:
what reads a macro's variable is computed for each element, wherever the macro is. A unit is about a
nanosecond per node (see ir/code_motion.py). Materialized columns do not count: they are computed
when a node changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final

import msgspec

from policy_sched.language import ir, lower
from policy_sched.language.check import Checked, children, walk
from policy_sched.language.codegen import generate
from policy_sched.language.diagnostics import ANNOTATION
from policy_sched.language.ir import ops
from policy_sched.language.syntax import Span, ast
from policy_sched.language.values import types


class Frequency(Enum):
    """Where a part is computed; the value is shown to users."""

    LOADED = "once, when the policy is loaded"
    POD = "once per pod"
    SNAPSHOT = "once per pod, from totals of the cluster"
    STATIC = "per node, kept until the node changes"
    MOVING = "per node, kept until pods come or go"
    NODE = "per pod and node"
    ELEMENT = "for each element"


class CostPart(msgspec.Struct, frozen=True):
    """One part of an expression, the parts that it is made of, and what all of it costs."""

    span: Span
    type: str
    place: Frequency
    cost: ir.Cost
    parts: tuple[CostPart, ...]


def breakdown(
    core: ast.Core,
    params: Mapping[str, Any],
    params_type: types.RecordType,
    functions: Mapping[str, ast.UserFunction],
    variables: Sequence[tuple[str, ast.Core]],
) -> CostPart:
    """Return an expression as a tree of parts; literals, names and columns are no parts."""
    low = lower.make_lowering(params, params_type, functions)
    for name, body in variables:
        low.globals[f"variables.{name}"] = low.thunk(body, {})
    return _part(low, core, {}, frozenset())


def _part(
    low: lower.Lowering, core: ast.Core, env: lower.Env, elements: frozenset[str]
) -> CostPart:
    frequency, cost = Frequency.ELEMENT, ir.NOTHING
    if not elements & set(names_read(core)):
        frequency, cost = _computed(low, core, env)
    inner = elements
    if isinstance(core, ast.Macro):
        inner = elements | set(core.names)
    if isinstance(core, ast.Let):
        env = {**env, core.name: low.thunk(core.value, env)}
        if elements & set(names_read(core.value)):
            inner = elements | {core.name}
    parts: list[CostPart] = []
    for child in children(core):
        inside = elements if isinstance(core, ast.Macro) and child is core.operand else inner
        parts += _parts(low, child, env, inside)
    return CostPart(core.span, str(core.type), frequency, cost, tuple(parts))


def _parts(
    low: lower.Lowering, core: ast.Core, env: lower.Env, elements: frozenset[str]
) -> list[CostPart]:
    """Return a part, or, where it is none, those below it."""
    if isinstance(core, ast.Const | ast.Var) and not _is_variable(core):
        return []
    named = (
        core.operand.name
        if isinstance(core, ast.Field) and isinstance(core.operand, ast.Var)
        else ""
    )
    if named in ("node", "params"):
        return []
    return [_part(low, core, env, elements)]


def _is_variable(core: ast.Core) -> bool:
    return isinstance(core, ast.Var) and core.name.startswith("variables.")


def _computed(low: lower.Lowering, core: ast.Core, env: lower.Env) -> tuple[Frequency, ir.Cost]:
    """Return where a part is computed by itself, and what that costs."""
    try:
        value = low.lower(core, env)
        if isinstance(value, lower.Constant):
            return Frequency.LOADED, ir.NOTHING
        if isinstance(value, lower.NodeMap | lower.NodeRecord | lower.ImageRecord):
            dynamic = isinstance(value, lower.NodeMap) and value.family in _MOVING
            return (Frequency.MOVING if dynamic else Frequency.STATIC), ir.NOTHING
        lowered = low.plain(value)
    except lower.Refusal as refusal:  # it can be computed only as a part of something else
        return (Frequency.SNAPSHOT if refusal.code == "PS510" else Frequency.NODE), ir.NOTHING
    roots = [lowered.op] if lowered.err is None else [lowered.op, lowered.err]
    return _place(roots), generate(roots, low.build).kept


#: Families of columns that change when pods come or go.
_MOVING: Final = frozenset({"requested", "nonZeroRequested", "free", "deviceRequested"})


def _place(roots: list[ir.Op]) -> Frequency:
    if all(op.kind in (ops.CONST, ops.NONE) for op in roots):
        return Frequency.LOADED
    if all(op.level is ir.Level.SCALAR for op in roots):
        reads = ir.find_reads(roots)
        return Frequency.SNAPSHOT if reads.node and not reads.pod else Frequency.POD
    invariance = ir.PodInvariance()
    if not all(invariance.holds(op) for op in roots):
        return Frequency.NODE
    return Frequency.MOVING if any(invariance.is_dynamic(op) for op in roots) else Frequency.STATIC


def names_read(core: ast.Core) -> Iterator[str]:
    """Yield the names that a tree reads, those that it defines itself included."""
    return (part.name for part in walk(core) if isinstance(part, ast.Var))


_PODS: Final = types.list_of(types.record("Pod"))
#: A part that has less of its rule's cost than this is not to blame by itself.
_MOST: Final = 0.6

Given = tuple[
    Mapping[str, Any],
    types.RecordType,
    Mapping[str, ast.UserFunction],
    Sequence[tuple[str, ast.Core]],
]
"""Parameters and their type, functions, and variables, as `breakdown` takes them."""


def over_budget(
    rule: Checked, units: float, limit: int, given: Given, *, each: str = "node"
) -> lower.Refusal:
    """Return the refusal of a rule that costs ``units``, at the part that costs most of it."""
    whole = breakdown(rule.core, *given)
    part, uses = _costliest(whole, units), 1
    alike = _repeated(whole, rule.text.text)
    if len(alike) > 1 and len(alike) * alike[0].cost.units > max(part.cost.units, _MOST * units):
        part, uses = alike[0], len(alike)
    message = f"this rule costs about {units:.0f} ns for each {each}; the limit is {limit}"
    share = f"{min(uses * part.cost.units / units, 1):.0%} of it"
    if uses > 1:
        message += f", and the {uses} uses of this part are {share}"
    elif part.span != rule.core.span:
        message += f", and {share} is this part"
    hint = f"annotate the policy with {ANNOTATION} if it is worth it"
    if uses > 1:
        hint = f"name it in `variables`: it is computed once then; or {hint}"
    keys = _missing_keys(rule)
    if keys:
        hint = f"write {' and '.join(keys)}: a condition that cannot fail is counted once and kept"
    return lower.Refusal("PS503", message, part.span, hint)


def _repeated(whole: CostPart, text: str) -> list[CostPart]:
    """Return the parts of one text that cost most together, in their order."""
    groups: dict[str, list[CostPart]] = {}
    todo = [whole]
    while todo:
        part = todo.pop()
        written = text[part.span.start : part.span.end]
        if not written.startswith("variables."):  # which are computed once
            groups.setdefault(written, []).append(part)
        todo.extend(reversed(part.parts))
    return max(groups.values(), key=lambda alike: (len(alike) > 1) * _cost(alike), default=[])


def _cost(parts: Sequence[CostPart]) -> float:
    return sum(part.cost.units for part in parts)


def _costliest(part: CostPart, units: float) -> CostPart:
    best = max(part.parts, key=lambda child: child.cost.units, default=None)
    if best is None or best.cost.units < _MOST * units:
        return part
    return _costliest(best, units)


def _missing_keys(rule: Checked) -> list[str]:
    """Return how to write the keys whose lack keeps conditions on pods from being counted."""
    keys: dict[str, None] = {}
    for part in walk(rule.core):
        if not isinstance(part, ast.Macro) or part.operand.type != _PODS or part.test is None:
            continue
        inside = list(walk(part.test))
        if any(isinstance(entry, ast.Var) and entry.name == "node" for entry in inside):
            continue
        entries = (entry for entry in inside if isinstance(entry, ast.Index) and not entry.optional)
        for entry in entries:
            if isinstance(entry.operand.type, types.MapType):
                keys[_optional(rule.text.text, entry)] = None
    return list(keys)


def _optional(text: str, entry: ast.Index) -> str:
    """Return the text of an entry of a map as an optional."""
    operand, key = entry.operand.span, entry.index.span
    shown = text[key.start : key.end]
    if not shown.startswith(("'", '"')) and isinstance(entry.index, ast.Const):
        shown = f'"{entry.index.value}"'
    return f"{text[operand.start : operand.end]}[?{shown}]"
