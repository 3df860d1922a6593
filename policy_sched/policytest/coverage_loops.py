"""The conditions inside of loops, and the questions that tell what they say of elements.

A condition such as ``t.effect == e`` in ``taints.all(t, t.key == k || t.effect == e)`` has no value
by itself. But ``taints.exists(t, !(t.key == k) && t.effect == e)`` tells whether it is reached and
true for some element, and with ``!(t.effect == e)`` whether it is reached and false for some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from policy_sched.language.check import children
from policy_sched.language.syntax import And, Call, Cond, Const, Core, Let, Macro, Or
from policy_sched.language.values import BOOL

Ask: TypeAlias = Callable[[Core], Core]
"""From a condition on an element to the expression that tells whether there is one."""

_OPTIONAL = frozenset({"optMap", "optFlatMap"})


def conditions_inside(core: Macro | Let) -> Iterator[tuple[Core, Ask]]:
    """Yield the conditions in the body of a macro, and how to ask about each.

    The bodies of ``optMap`` and ``optFlatMap`` are left out.
    """
    yield from _inside(core, lambda asked: asked)


def negated(core: Core) -> Core:
    """Return the opposite of a condition."""
    return Call(overload="not_bool", args=(core,), type=BOOL, span=core.span)


def _inside(core: Macro | Let, ask: Ask) -> Iterator[tuple[Core, Ask]]:
    if isinstance(core, Let):
        name, value, span = core.name, core.value, core.span
        yield from _below(
            core.body,
            lambda asked: ask(Let(name=name, value=value, body=asked, type=BOOL, span=span)),
        )
        return
    if core.kind in _OPTIONAL:
        return

    def some(asked: Core) -> Core:
        return ask(
            Macro(
                kind="exists",
                operand=core.operand,
                names=core.names,
                test=asked,
                type=BOOL,
                span=core.span,
            )
        )

    reached: Ask = some
    if core.test is not None:
        yield from _whole(core.test, some)
        reached = _after(some, core.test)
    if core.body is not None:
        yield from _below(core.body, reached)


def _whole(condition: Core, ask: Ask) -> Iterator[tuple[Core, Ask]]:
    """Yield a condition itself, if it can change, and those within it."""
    if not isinstance(condition, Const):
        yield condition, ask
    yield from _below(condition, ask)


def _below(core: Core, ask: Ask) -> Iterator[tuple[Core, Ask]]:
    """Yield the conditions below a tree, in evaluation order."""
    match core:
        case Cond(test=test, then=then, otherwise=otherwise):
            yield from _whole(test, ask)
            yield from _below(then, _after(ask, test))
            yield from _below(otherwise, _after(ask, negated(test)))
        case And(args=args) | Or(args=args):
            for arg in args:
                yield from _whole(arg, ask)
                ask = _after(ask, arg if isinstance(core, And) else negated(arg))
        case Macro(operand=operand):
            yield from _below(operand, ask)
            yield from _inside(core, ask)
        case Let(value=value):
            yield from _below(value, ask)
            yield from _inside(core, ask)
        case _:
            for child in children(core):
                yield from _below(child, ask)


def _after(ask: Ask, condition: Core) -> Ask:
    """Return the question about elements for which a condition is true."""
    return lambda asked: ask(And(args=(condition, asked), type=BOOL, span=asked.span))
