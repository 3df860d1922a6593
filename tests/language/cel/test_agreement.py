"""Checker and evaluator of selectors agree about types."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from hypothesis import given, settings, strategies as st

from policy_sched.language.cel import CelError, compile_selector, device_record
from policy_sched.language.cel.costs import estimated_cost
from policy_sched.language.cel.evaluator import Evaluation
from policy_sched.language.stdlib import Overload, selector_environment
from policy_sched.language.values import types
from tests.examples import scaled
from tests.finite import chooser, numbers

DEVICE: Final = device_record(
    "d.io", {"numa": 1}, {"memory": "40Gi"}, allow_multiple_allocations=True
)
LEAVES: Final = {
    "bool": ("true", "false", "device.allowMultipleAllocations"),
    "int": ("1", "-7", "9223372036854775807"),
    "uint": ("2u",),
    "double": ("1.5",),
    "string": ("'a'", "'10'", "device.driver"),
    "bytes": ("b'a'",),
    "quantity": ("quantity('1Gi')", "device.capacity['d.io'].memory"),
    "semver": ("semver('1.2.3')",),
    "duration": ("duration('1m')",),
    "timestamp": ("timestamp(0)",),
    "ip": ("ip('10.0.0.1')",),
    "cidr": ("cidr('10.0.0.0/8')",),
    "url": ("url('https://a.b/c')",),
    "format": ("format.uuid()",),
}
#: What hides a type from the checker: of such values it promises nothing.
DYNAMIC: Final = frozenset({"dyn", "includes", "type", "optional.none"})
BY_RESULT: Final[dict[str, list[Overload]]] = {}
for one in selector_environment().overloads:
    if one.name not in DYNAMIC and "any" not in one.signature:
        BY_RESULT.setdefault(one.result.name, []).append(one)
VARIABLES: Final = {"ordered": "int", "amount": "int", "K": "string"}


def settled(kind: types.Type, element: str) -> types.Type:
    """Return a type with its variables replaced."""
    match kind:
        case types.TypeVariable():
            return types.Type(VARIABLES.get(kind.name, element))
        case types.ListType():
            return types.list_of(settled(kind.element, element))
        case types.MapType():
            return types.map_of(settled(kind.key, element), settled(kind.value, element))
        case types.OptionalType():
            return types.optional_of(settled(kind.element, element))
    return kind


@st.composite
def expressions(draw: st.DrawFn, kind: types.Type, depth: int = 3) -> str:
    """Draw an expression of a type; now and then a part is of another type."""
    choose = chooser(draw)
    if draw(numbers(20)) == 0:
        kind = types.Type(choose(sorted(LEAVES)))

    def part(inner: types.Type) -> str:
        return draw(expressions(inner, depth - 1))

    forms = ["leaf", "call", "call", "cond", "index", "loop", "bind"] if depth else ["leaf"]
    match choose(forms):
        case "cond":
            return f"({part(types.BOOL)} ? {part(kind)} : {part(kind)})"
        case "index":
            return f"[{part(kind)}, {part(kind)}][{part(types.INT)}]"
        case "bind":
            return f"cel.bind(v, {part(kind)}, v)"
        case "loop" if kind == types.BOOL:
            loop = choose(("all", "exists", "exists_one"))
            return f"[{part(types.INT)}].{loop}(x, x == {part(types.INT)} && {part(types.BOOL)})"
        case "loop" if isinstance(kind, types.ListType):
            return (
                f"{part(types.list_of(types.INT))}.map(x, {part(types.BOOL)}, {part(kind.element)})"
            )
        case "call" if kind.name in BY_RESULT:
            return draw(calls(choose(BY_RESULT[kind.name]), kind, depth))
    match kind:
        case types.ListType():
            return f"[{', '.join(part(kind.element) for _ in range(1 + draw(numbers(3))))}]"
        case types.OptionalType():
            return f"optional.of({part(kind.element)})"
        case types.MapType():
            return f"{{{part(kind.key)}: {part(kind.value)}}}"
    return choose(LEAVES[kind.name])


@st.composite
def calls(draw: st.DrawFn, one: Overload, kind: types.Type, depth: int) -> str:
    """Draw a call of an overload whose result is of a type."""
    element = getattr(kind, "element", kind).name
    element = element if element in LEAVES else chooser(draw)(sorted(LEAVES))
    args = [draw(expressions(settled(p, element), depth - 1)) for p in one.params]
    if one.kind == "operator":
        return f"({args[0]} {one.name} {args[1]})" if len(args) == 2 else f"{one.name}({args[0]})"
    if one.kind == "function":
        return f"{one.name}({', '.join(args)})"
    return f"({args[0]}).{one.name}({', '.join(args[1:])})"


KINDS: Final = [
    *map(types.Type, ("bool", "int", "string", "double")),
    types.list_of(types.INT),
    types.optional_of(types.INT),
]
EXPRESSIONS: Final = st.sampled_from(KINDS).flatmap(expressions)


@given(EXPRESSIONS)
@settings(max_examples=scaled(120), deadline=None)
def test_what_the_checker_accepts_never_fails_with_a_type_error(text: str) -> None:
    """If all types are known and fit, evaluation may fail, but not for want of an overload."""
    selector = compile_selector(f"[{text}].size() == 1")
    if selector.error:
        return
    try:
        selector.evaluate(DEVICE)
    except CelError as error:
        assert "no such overload" not in str(error), text  # noqa: PT017 - other errors may be


@given(EXPRESSIONS)
@settings(max_examples=scaled(60), deadline=None)
def test_no_evaluation_costs_more_than_the_estimate(text: str) -> None:
    """What kube-apiserver's limit of estimated costs promises holds for every device."""
    selector = compile_selector(f"[{text}].size() == 1")
    if selector.tree is not None:
        evaluation = Evaluation()
        with suppress(CelError):
            evaluation.value(selector.tree, {"device": DEVICE})
        assert evaluation.cost <= estimated_cost(selector.tree), text
