"""Choosing the overload of a name that suits the arguments' types."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from policy_sched.language.stdlib.declarations import Overload
from policy_sched.language.syntax import Call, Cond, Const, Core
from policy_sched.language.values import (
    QUANTITY,
    UNKNOWN,
    OptionalType,
    QuantityType,
    Type,
    dimensions,
    fit,
    is_known,
    optional_of,
    quantity_of,
    substitute,
)


@dataclass(frozen=True, slots=True)
class Choice:
    """An overload and its result for some arguments; ``clash`` names dimensions that differ."""

    overload: Overload
    result: Type
    dimension: str
    clash: tuple[str, ...] = ()


def choose(candidates: Sequence[Overload], args: Sequence[Type]) -> Choice | None:
    """Return the overload that takes ``args``, or None.

    With arguments whose types are not known several may fit; their common result type is taken,
    and an unknown one where they differ.
    """
    found = [choice for o in candidates if (choice := _try(o, args)) is not None]
    if not found:
        return None
    first = found[0]
    results = {choice.result for choice in found}
    if len(results) > 1 and not all(is_known(a) for a in args):
        return dataclasses.replace(first, result=UNKNOWN)
    return first


def _try(overload: Overload, args: Sequence[Type]) -> Choice | None:
    params = overload.params
    if overload.variadic:
        params = params + params[-1:] * (len(args) - len(params))
    if len(params) != len(args):
        return None
    bound: dict[str, Type] = {}
    if not all(fit(param, arg, bound) for param, arg in zip(params, args, strict=True)):
        return None
    fixed, joint = dimensions(args)
    clash = tuple(sorted(fixed)) if len(fixed) > 1 else ()
    return Choice(overload, _result(overload.result, bound, joint), joint, clash)


def _result(result: Type, bound: dict[str, Type], joint: str) -> Type:
    if result == QUANTITY:
        return quantity_of(joint)
    if isinstance(result, OptionalType) and result.element == QUANTITY:
        return optional_of(quantity_of(joint))
    return substitute(result, bound)


def settle(tree: Core, dimension: str) -> Core:
    """Give a quantity literal, and what is built of literals, the dimension that it meets."""
    if not isinstance(tree.type, QuantityType) or tree.type.dimension != "free":
        return tree
    if dimension == "free" or not isinstance(tree, Call | Cond | Const):
        return tree
    kind = quantity_of(dimension)
    if isinstance(tree, Call):
        args = tuple(settle(arg, dimension) for arg in tree.args)
        return dataclasses.replace(tree, type=kind, args=args)
    if isinstance(tree, Cond):
        return dataclasses.replace(
            tree,
            type=kind,
            then=settle(tree.then, dimension),
            otherwise=settle(tree.otherwise, dimension),
        )
    return dataclasses.replace(tree, type=kind)


def closest(candidates: Sequence[Overload], args: Sequence[Type], limit: int = 3) -> list[str]:
    """Return the signatures that the arguments come nearest to, best first."""

    def misfit(overload: Overload) -> tuple[int, int]:
        pairs = zip(overload.params, args, strict=False)
        wrong = sum(not fit(param, arg, {}) for param, arg in pairs)
        return abs(len(overload.params) - len(args)), wrong

    return [o.signature for o in sorted(candidates, key=misfit)[:limit]]
