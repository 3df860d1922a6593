"""Lowers loops over run-time lists: from a comprehension to one op that runs it."""

from __future__ import annotations

from policy_sched.language.abstract import Abstract, Comprehension, Val, range_of, rep_of
from policy_sched.language.ir import OF_ROW, Loop, Op
from policy_sched.language.lowering import Lowering, Refusal, element_type
from policy_sched.language.ranges import BOOLS, Interval
from policy_sched.language.renaming import renamed
from policy_sched.language.typed import Span
from policy_sched.language.types import BOOL, INT, Type

#: No list is longer than this.
MAX_LENGTH = 2**31 - 1
#: No list of an object of the API is longer than this: the object has at most 1.5 MiB.
MAX_API_LIST = 2**20


def over(low: Lowering, value: Val, *, indexed: bool = False) -> Comprehension:
    """Return the comprehension that is a run-time list itself."""
    element = element_type(value.type)
    param = low.build.fresh("param", rep_of(element), value.op)
    index = low.build.fresh("param", "i", value.op) if indexed else None
    item = Val(param, None, element, range_of(element))
    return Comprehension(value.op, param, index, (), None, item, value.err, value.type)


def of_domain(source: Op) -> bool:
    """Tell whether a list is that of a domain's pods."""
    if source.kind == "where":  # no pods where there is no domain
        source = source.args[2]
    if source.kind != "attr" or source.data != "pods":
        return False
    return source.args[0].kind in ("domain_at", "param")


def refuse_node(test: Val, span: Span) -> None:
    """Refuse a predicate over a domain's pods that reads the node: it would be asked of each pod
    for each node.
    """
    todo, seen = [test.op, *([] if test.err is None else [test.err])], set[Op]()
    while todo:
        op = todo.pop()
        if op.kind in OF_ROW:
            raise Refusal(
                "PS509",
                "this predicate over a domain's pods reads the node",
                span,
                "count pods by what the pod that is scheduled says, or ask node.pods",
            )
        if op not in seen:
            seen.add(op)
            todo.extend(op.args)


def run_loop(  # noqa: PLR0913  # what a loop is, and what it makes
    low: Lowering,
    loop: Comprehension,
    kind: str,
    value: Op,
    result: Type,
    rep: str,
    *,
    own: Op | None = None,
    site: int = 0,
    interval: Interval | None = None,
) -> Val:
    """Return the op that runs a comprehension and makes ``kind`` of its values.

    ``value`` and ``own``, its error, are ops over the comprehension's variables.
    """
    if loop.param in low.run:
        loop, (new_value, own) = renamed(low.build, loop, value, own)
        assert new_value is not None
        value = new_value
    low.run.add(loop.param)
    masked = () if loop.mask is None else (loop.mask.op,)
    errors = (value,) if own is None else (value, own)
    data = Loop(
        kind,
        loop.param.serial,
        None if loop.index is None else loop.index.serial,
        len(loop.errors),
        bool(masked),
        site,
    )
    op = low.op("loop", loop.source, *loop.errors, *masked, *errors, rep=f"t{rep}", data=data)
    found = low.op("val", op, rep=rep)
    fails = bool(loop.errors) or own is not None or site != 0
    error = low.op("err", op, rep="e") if fails else None
    return Val(found, low.first(loop.err, error), result, interval or range_of(result))


def count(low: Lowering, loop: Comprehension) -> Val:
    """Return how many values a comprehension has."""
    interval = Interval(0, MAX_LENGTH)
    return run_loop(low, loop, "count", low.true(), INT, "i", interval=interval)


def quantifier(low: Lowering, loop: Comprehension, test: Abstract, *, every: bool) -> Val:
    """Return whether a test holds for every (or any) value, absorbing errors as CEL does."""
    one = low.val(test)
    kind = "all" if every else "exists"
    return run_loop(low, loop, kind, one.op, BOOL, "b", own=one.err, interval=BOOLS)


def listed(low: Lowering, value: Comprehension) -> Val:
    """Return a comprehension as the list of its elements."""
    return run_loop(low, value, "list", low.plain(value.value).op, value.type, "o")
