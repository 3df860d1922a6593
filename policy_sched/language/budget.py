"""Refuses rules that cost too much for each node, and says which part of them does.

A unit is about a nanosecond per node, see `cost`. What standing columns keep is not counted: it is
worked out when a node changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from policy_sched.language.breakdown import Part, breakdown
from policy_sched.language.checked import Checked
from policy_sched.language.lowering import Refusal
from policy_sched.language.typed import Core, UserFunction
from policy_sched.language.types import RecordType

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
    return Refusal("PS503", message, part.span, hint)


def _costliest(part: Part, units: float) -> Part:
    best = max(part.parts, key=lambda one: one.cost.units, default=None)
    if best is None or best.cost.units < _MOST * units:
        return part
    return _costliest(best, units)
