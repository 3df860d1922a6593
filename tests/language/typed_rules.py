"""Expressions of a wanted type, made from the tables of functions and records themselves.

Theory of operation. An expression of a type is a leaf, a call of any overload whose result may be
that type, a field of any record, an element of a list or map, a choice, a name for a part, or a
macro. So whatever the tables offer is generated, without a line here that says so. Each choice is
made by ``choose``, which a test draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hypothesis import strategies as st

from policy_sched.language.stdlib.environment import Overload, policy_environment
from policy_sched.language.values import types
from tests.finite import chooser

from .typed_leaves import LEAVES, OWNERS, RECORDS, SCALARS

Choose = Callable[[Sequence[Any]], Any]
Names = tuple[tuple[str, types.Type], ...]
KEYS: Final[tuple[types.Type, ...]] = (types.STRING, types.INT, types.BOOL)
DIMENSIONS: Final = ("cpu", "bytes", "count", "free", "any")
RESOURCE: Final = {"cpu": '"cpu"', "bytes": '"memory"', "count": '"example.com/gpu"'}
#: Fields that the oracle's world does not have.
UNKNOWN_FIELDS: Final = {"Pod": ("startTime",)}


@dataclass(slots=True)
class Writer:
    """Writes one expression."""

    choose: Choose
    used: int = 0
    ways: tuple[str, ...] = field(
        default=("leaf", "call", "call", "call", "field", "choice", "element", "name", "macro")
    )

    def write(self, kind: types.Type, depth: int, names: Names = ()) -> str:
        """Write an expression of a type that may read ``names``."""
        if depth <= 0:
            return self.leaf(kind, names)
        way = self.choose(self.ways)
        made = None if way == "leaf" else getattr(self, way)(kind, depth, names)
        return self.leaf(kind, names) if made is None else made

    def leaf(self, kind: types.Type, names: Names) -> str:
        """Write an expression without further choices than its leaves."""
        own = [name for name, of in names if of == kind] * 3
        return str(self.choose([*own, *LEAVES.get(kind, ()), *self._literals(kind, names)]))

    def _literals(self, kind: types.Type, names: Names) -> Iterator[str]:
        match kind:
            case types.ListType():
                first = self.leaf(kind.element, names)
                yield f"[{first}]"
                yield f"[{first}, {self.leaf(kind.element, names)}]"
            case types.OptionalType():
                yield f"optional.of({self.leaf(kind.element, names)})"
            case types.MapType():
                key, value = self.leaf(kind.key, names), self.leaf(kind.value, names)
                yield f"{{{key}: {value}}}"

    def _fresh(self) -> str:
        self.used += 1
        return f"v{self.used}"

    def type(self, depth: int = 1) -> types.Type:
        """Choose any type."""
        shape = self.choose(("scalar",) * 4 + ("list", "optional", "map", "record"))
        match shape if depth else "scalar":
            case "list":
                return types.list_of(self.type(depth - 1))
            case "optional":
                return types.optional_of(self.type(depth - 1))
            case "map":
                return types.map_of(self.choose(KEYS), self.type(depth - 1))
            case "record":
                return types.record(self.choose(RECORDS))
        return self.choose(SCALARS)  # type: ignore[no-any-return]

    # Ways to make a value.

    def call(self, kind: types.Type, depth: int, names: Names) -> str | None:
        """Write a call of an overload whose result may be of the type."""
        found = [
            (o, bound)
            for o in policy_environment().overloads
            if (bound := _bound(o.result, kind)) is not None
        ]
        if not found:
            return None
        overload, bound = self.choose(found)
        dimension = kind.dimension if isinstance(kind, types.QuantityType) else None
        return self.call_of(overload, depth, names, dict(bound), dimension)

    def call_of(
        self,
        overload: Overload,
        depth: int,
        names: Names = (),
        bound: dict[str, types.Type] | None = None,
        dimension: str | None = None,
    ) -> str:
        """Write a call of one overload."""
        params = overload.params
        if overload.variadic:
            params += params[-1:] * self.choose((0, 1, 2))
        bound = {} if bound is None else bound
        unit = dimension or self.choose(DIMENSIONS)
        kinds = [
            self._given(param, bound, unit if self.choose((1, 1, 0)) else "free")
            for param in params
        ]
        args = [_safe(self.write(kind, depth - 1, names)) for kind in kinds]
        if overload.kind == "operator":
            left = f"{args[0]} " if len(args) > 1 else ""
            return f"({left}{overload.name} {args[-1]})"
        if overload.kind == "method" or (overload.kind == "either" and self.choose((True, False))):
            return f"{args[0]}.{overload.name}({', '.join(args[1:])})"
        return f"{overload.name}({', '.join(args)})"

    def _given(self, param: types.Type, bound: dict[str, types.Type], unit: str) -> types.Type:
        """Return the type of an argument: type variables are chosen once for a call."""
        match param:
            case types.TypeVariable():
                if param.name not in bound:
                    allowed = [kind for kind in SCALARS if kind.name in param.allowed]
                    key = param.name == "K"
                    bound[param.name] = (
                        self.choose(allowed or KEYS) if allowed or key else self.type()
                    )
                return bound[param.name]
            case types.ListType():
                return types.list_of(self._given(param.element, bound, unit))
            case types.OptionalType():
                return types.optional_of(self._given(param.element, bound, unit))
            case types.MapType():
                return types.map_of(
                    self._given(param.key, bound, unit), self._given(param.value, bound, unit)
                )
            case types.QuantityType():
                return types.quantity_of(unit)
        return param

    def field(self, kind: types.Type, depth: int, names: Names) -> str | None:
        """Write a field of a record."""
        found = [
            (owner, name)
            for owner in OWNERS
            for name, one in policy_environment().records[owner].fields.items()
            if one.type == kind and name not in UNKNOWN_FIELDS.get(owner, ())
        ]
        if not found:
            return None
        owner, name = self.choose(found)
        return f"{_safe(self.write(types.record(owner), depth - 1, names))}.{name}"

    def choice(self, kind: types.Type, depth: int, names: Names) -> str:
        """Write a choice between two."""
        test, then, other = (self.write(k, depth - 1, names) for k in (types.BOOL, kind, kind))
        return f"({test} ? {then} : {other})"

    def element(self, kind: types.Type, depth: int, names: Names) -> str:
        """Write an element of a list or a map, or an amount of resources."""
        optional = isinstance(kind, types.OptionalType)
        inner = kind.element if isinstance(kind, types.OptionalType) else kind
        mark = "?" if optional else ""
        if isinstance(inner, types.QuantityType) and inner.dimension != "free":
            key = RESOURCE.get(inner.dimension) or self.write(types.STRING, depth - 1, names)
            return f"{_safe(self.write(types.RESOURCES, depth - 1, names))}[{mark}{key}]"
        of: types.Type = self.choose((types.INT, *KEYS))
        whole = types.list_of(inner) if self.choose((True, False)) else types.map_of(of, inner)
        key = self.write(types.INT if isinstance(whole, types.ListType) else of, depth - 1, names)
        return f"{_safe(self.write(whole, depth - 1, names))}[{mark}{key}]"

    def name(self, kind: types.Type, depth: int, names: Names) -> str:
        """Write an expression with a name for a part of it."""
        name, of = self._fresh(), self.type()
        value = self.write(of, depth - 1, names)
        return f"cel.bind({name}, {value}, {self.write(kind, depth - 1, (*names, (name, of)))})"

    def macro(self, kind: types.Type, depth: int, names: Names) -> str | None:
        """Write a macro over a list, a map or an optional."""
        name, of = self._fresh(), self.type()
        listed = types.list_of(of)
        inside = (*names, (name, of))
        match kind:
            case types.ListType():
                if self.choose((True, False)):
                    inside, listed = (*names, (name, kind.element)), kind
                    head, body = "filter", types.BOOL
                else:
                    head, body = "map", kind.element
            case types.OptionalType():
                source = self.write(types.optional_of(of), depth - 1, names)
                body = self.choose((kind, kind.element))
                head = "optFlatMap" if body == kind else "optMap"
                return f"{_safe(source)}.{head}({name}, {self.write(body, depth - 1, inside)})"
            case types.MapType():
                source = self.write(types.map_of(kind.key, of), depth - 1, names)
                key = self._fresh()
                text = self.write(kind.value, depth - 1, (*inside, (key, kind.key)))
                return f"{_safe(source)}.transformMap({key}, {name}, {text})"
            case _ if kind == types.BOOL:
                head, body = self.choose(("all", "exists", "exists_one")), types.BOOL
            case _ if kind in (types.INT, types.DOUBLE, types.DURATION) or isinstance(
                kind, types.QuantityType
            ):
                head, body = "sum", kind
            case _:
                return None
        source = self.write(listed, depth - 1, names)
        return f"{_safe(source)}.{head}({name}, {self.write(body, depth - 1, inside)})"


def _safe(text: str) -> str:
    return f"({text})" if text[0] in "-!" else text


def _bound(result: types.Type, kind: types.Type) -> dict[str, types.Type] | None:
    """Return what type variables are where a result is of a type; None where it cannot be."""
    if isinstance(result, types.TypeVariable):
        fits = not result.allowed or kind.name in result.allowed
        return {result.name: kind} if fits else None
    match result, kind:
        case types.QuantityType(), types.QuantityType():
            return {}
        case (types.ListType(), types.ListType()) | (types.OptionalType(), types.OptionalType()):
            return _bound(result.element, kind.element)
        case types.MapType(), types.MapType():
            key, value = _bound(result.key, kind.key), _bound(result.value, kind.value)
            return None if key is None or value is None else {**key, **value}
    return {} if result == kind else None


#: The field by which a record shows itself, where that is not its name.
TELLING: Final = {
    "Condition": "type",
    "Domain": "value",
    "HostPort": "ip",
    "Taint": "key",
    "Toleration": "key",
}


def shown(text: str, kind: types.Type, name: str = "s") -> str:
    """Return a text whose value can be compared, in place of one of a type that has no form."""
    inner = f"{name}s"
    match kind:
        case types.ListType():
            body = shown(name, kind.element, inner)
            return text if body == name else f"{text}.map({name}, {body})"
        case types.OptionalType():
            body = shown(name, kind.element, inner)
            return text if body == name else f"{text}.optMap({name}, {body})"
        case types.MapType():
            body = shown(name, kind.value, inner)
            return text if body == name else f"{text}.transformMap({name}k, {name}, {body})"
        case types.QuantityType():
            return f"{_safe(text)}.sign()"
        case types.RecordType():
            return f"{text}.{TELLING.get(kind.name, 'name')}"
    last = {
        types.SEMVER: ".major()",
        types.SELECTOR: ".matches(pod.labels)",
        types.RESOURCES: ".names()",
    }
    return text + last.get(kind, "")


@st.composite
def typed(draw: st.DrawFn, kind: types.Type, depth: int = 3) -> str:
    """Draw an expression of a type."""
    return Writer(chooser(draw)).write(kind, depth)
