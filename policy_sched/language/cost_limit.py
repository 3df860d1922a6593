"""Refuses rules that cost too much for each node, and says which part of them does.

A unit is about a nanosecond per node, see `cost`. What standing columns keep is not counted: it is
worked out when a node changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from policy_sched.language.check import Checked, children
from policy_sched.language.cost_report import CostPart, breakdown
from policy_sched.language.lower import Refusal
from policy_sched.language.syntax import Const, Core, Index, Macro, UserFunction, Var
from policy_sched.language.values import MapType, RecordType, list_of, record

_PODS: Final = list_of(record("Pod"))
#: The annotation of a policy that lets its rules cost more.
ANNOTATION: Final = "policysched.dev/cost-limit"
#: A part that has less of its rule's cost than this is not to blame by itself.
_MOST: Final = 0.6

Given = tuple[Mapping[str, Any], RecordType, Mapping[str, UserFunction], Sequence[tuple[str, Core]]]
"""Parameters and their type, functions, and variables, as `breakdown` takes them."""


def over_budget(rule: Checked, units: float, limit: int, given: Given) -> Refusal:
    """Return the refusal of a rule that costs ``units``, at the part that costs most of it."""
    part = _costliest(breakdown(rule.core, *given), units)
    message = f"this rule costs about {units:.0f} ns for each node; the limit is {limit}"
    if part.span != rule.core.span:
        message += f", and {min(part.cost.units / units, 1):.0%} of it is this part"
    hint = f"annotate the policy with {ANNOTATION} if it is worth it"
    keys = _missing_keys(rule)
    if keys:
        hint = f"write {' and '.join(keys)}: a condition that cannot fail is counted once and kept"
    return Refusal("PS503", message, part.span, hint)


def _costliest(part: CostPart, units: float) -> CostPart:
    best = max(part.parts, key=lambda one: one.cost.units, default=None)
    if best is None or best.cost.units < _MOST * units:
        return part
    return _costliest(best, units)


def _missing_keys(rule: Checked) -> list[str]:
    """Return how to write the keys whose lack keeps conditions on pods from being counted."""
    found: dict[str, None] = {}
    for part in _parts_of(rule.core):
        if not isinstance(part, Macro) or part.operand.type != _PODS or part.test is None:
            continue
        inside = list(_parts_of(part.test))
        if any(isinstance(one, Var) and one.name == "node" for one in inside):
            continue
        entries = (one for one in inside if isinstance(one, Index) and not one.optional)
        for one in entries:
            if isinstance(one.operand.type, MapType):
                found[_optional(rule.text.text, one)] = None
    return list(found)


def _optional(text: str, entry: Index) -> str:
    """Return the text of an entry of a map as an optional."""
    operand, key = entry.operand.span, entry.index.span
    shown = text[key.start : key.end]
    if not shown.startswith(("'", '"')) and isinstance(entry.index, Const):
        shown = f'"{entry.index.value}"'
    return f"{text[operand.start : operand.end]}[?{shown}]"


def _parts_of(tree: Core) -> Iterator[Core]:
    """Yield a tree and everything below it."""
    yield tree
    for child in children(tree):
        yield from _parts_of(child)
