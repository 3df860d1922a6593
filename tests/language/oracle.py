"""The oracle: a plain, slow evaluator of the typed tree for one node at a time.

Theory of operation. `Oracle.value(tree)` walks the tree with Python's own recursion; names are
looked up in `names`, where a `Lazy` waits for its first reading (variables and `cel.bind`).
An error of the language is a raised `OracleError`; the absorbing operators catch it. Written
from the language's description alone, so that compiler and oracle err independently.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, Final

from policy_sched.language.syntax import ast as typed
from policy_sched.language.values import types
from policy_sched.model.meta import nanoseconds
from policy_sched.model.pod_group import GroupCounts
from policy_sched.model.pod_info import PodInfo

from . import (
    oracle_collections,
    oracle_fragmentation,
    oracle_lists,
    oracle_numbers,
    oracle_scheduler,
    oracle_semver,
    oracle_world,
)
from .oracle_format import formatted
from .oracle_time import in_duration
from .oracle_values import ABSENT, Optional, OracleError, Quantity, quantity_of_units, some

CALLS: Final[dict[str, Callable[..., Any]]] = {
    **oracle_numbers.CALLS,
    **oracle_collections.CALLS,
    **oracle_fragmentation.CALLS,
    **oracle_scheduler.CALLS,
    **oracle_semver.CALLS,
}
#: Overloads that look at more than their arguments' values, or not at all of them.
LAZY: Final = frozenset(
    {
        "orValue_optional_any",
        "or_optional_optional",
        "sum_list",
        "format_string_list",
        "domain_string",
        "domains_string",
    }
)


class Lazy:
    """A value, or its error, that is worked out when it is first read, and then kept."""

    def __init__(self, compute: Callable[[], object]) -> None:
        self._compute = compute
        self._outcome: tuple[object, OracleError | None] | None = None

    def read(self) -> object:
        """Return the value or raise its error."""
        if self._outcome is None:
            try:
                self._outcome = (self._compute(), None)
            except OracleError as error:
                self._outcome = (None, error)
        value, problem = self._outcome
        if problem is not None:
            raise problem
        return value


@dataclass(slots=True)
class Oracle:
    """An evaluator: what names mean, the policy's functions, and the world that is looked at."""

    names: dict[str, object]
    functions: dict[str, typed.UserFunction] = field(default_factory=dict)

    def value(self, tree: typed.Core) -> Any:
        """Return the tree's value, or raise its error."""
        return settled(self._value(tree), tree.type)

    def _value(self, tree: typed.Core) -> Any:
        match tree:
            case typed.Const():
                return tree.value
            case typed.Var():
                found = self.names[tree.name]
                return found.read() if isinstance(found, Lazy) else found
            case typed.Field():
                return field_of(self.value(tree.operand), tree.name)
            case typed.Index():
                return element(self.value(tree.operand), self.value(tree.index), tree.optional)
            case typed.Has():
                return has(self.value(tree.operand), self.value(tree.key))
            case typed.And() | typed.Or():
                parts = (partial(self.value, a) for a in tree.args)
                return self._absorbing(parts, decides=isinstance(tree, typed.Or))
            case typed.Cond():
                return self.value(tree.then if self.value(tree.test) else tree.otherwise)
            case typed.Let():
                return self._with({tree.name: Lazy(partial(self.value, tree.value))}, tree.body)
            case typed.Call():
                return self._call(tree)
            case typed.UserCall():
                function = self.functions[tree.name]
                values = [Lazy(partial(self.value, a)) for a in tree.args]
                return self._with(dict(zip(function.params, values, strict=True)), function.body)
            case typed.Macro():
                return self._macro(tree)
        return self._literal(tree)

    def _with(self, names: dict[str, object], body: typed.Core) -> Any:
        return Oracle({**self.names, **names}, self.functions).value(body)

    def _absorbing(self, parts: Iterator[Callable[[], Any]], *, decides: bool) -> bool:
        """Join truth values: one that decides wins over errors, else the first error stands."""
        problem: OracleError | None = None
        for part in parts:
            try:
                if bool(part()) is decides:
                    return decides
            except OracleError as error:
                problem = problem or error
        if problem is not None:
            raise problem
        return not decides

    def _literal(self, tree: typed.Core) -> Any:
        if isinstance(tree, typed.ListLit):
            items: list[object] = []
            for part, optional in zip(tree.elements, tree.optional, strict=True):
                items += _maybe(self.value(part), optional)
            return items
        assert isinstance(tree, typed.MapLit)
        entries: list[tuple[Any, Any]] = []
        for key, part, optional in zip(tree.keys, tree.values, tree.optional, strict=True):
            name = self.value(key)
            entries += [(name, item) for item in _maybe(self.value(part), optional)]
        if len({name for name, _ in entries}) < len(entries):
            raise OracleError("conversion")
        return dict(entries)

    def _call(self, tree: typed.Call) -> Any:
        match tree.overload:
            case "orValue_optional_any" | "or_optional_optional":
                first = self.value(tree.args[0])
                if first.present:
                    return first if tree.overload.startswith("or_") else first.value
                return self.value(tree.args[1])
            case "sum_list":
                return total(self.value(tree.args[0]), tree.type)
            case "format_string_list":
                text, items = map(self.value, tree.args)
                return formatted(text, items, element_types(tree.args[1]))
            case "domain_string":
                return oracle_world.domain(self.names["node"], self.value(tree.args[0]))  # type: ignore[arg-type]
            case "domains_string":
                world = self.names["cluster"].world  # type: ignore[attr-defined]
                return oracle_world.domains(world, self.value(tree.args[0]))
        return CALLS[tree.overload](*[self.value(a) for a in tree.args])

    def _macro(self, tree: typed.Macro) -> Any:
        operand = self.value(tree.operand)
        if tree.kind in {"optMap", "optFlatMap"}:
            if not operand.present:
                return ABSENT
            mapped = self._with({tree.names[0]: operand.value}, _given(tree.body))
            return some(mapped) if tree.kind == "optMap" else mapped
        if tree.kind == "fold":
            so_far = settled(self.value(_given(tree.first)), tree.type)
            for item in sorted(operand) if isinstance(operand, dict) else operand:
                names = dict(zip(tree.names, (item, so_far), strict=True))
                so_far = settled(self._with(names, _given(tree.body)), tree.type)
            return so_far
        frames = list(_frames(operand, tree.names))
        if tree.kind in {"all", "exists"}:
            tests = (partial(self._with, names, _given(tree.test)) for _, names in frames)
            return self._absorbing(tests, decides=tree.kind == "exists")
        chosen = [
            (item, names)
            for item, names in frames
            if tree.test is None or self._with(names, tree.test)
        ]
        match tree.kind:
            case "existsOne" | "exists_one":
                return len(chosen) == 1
            case "filter":
                return [item for item, _ in chosen]
            case "map" | "transformList":
                return [self._with(names, _given(tree.body)) for _, names in chosen]
            case "transformMap":
                return {item: self._with(names, _given(tree.body)) for item, names in chosen}
        raise AssertionError(tree.kind)


def settled(value: Any, kind: types.Type) -> Any:
    """Return a quantity literal in the unit that its place in the text gives it.

    Those in lists, maps and optionals, too.
    """
    match value, kind:
        case list(), types.ListType():
            return [settled(item, kind.element) for item in value]
        case dict(), types.MapType():
            return {key: settled(item, kind.value) for key, item in value.items()}
        case Optional(present=True), types.OptionalType():
            return some(settled(value.value, kind.element))
    if not isinstance(value, Quantity) or not isinstance(kind, types.QuantityType):
        return value
    if value.dimension != "free" or kind.dimension in {"free", "any"}:
        return value
    return quantity_of_units(Quantity(value.amount, kind.dimension).units, kind.dimension)


def element_types(tree: typed.Core) -> Iterable[types.Type]:
    """Return the type of each element of a list: those of a literal's may differ."""
    if isinstance(tree, typed.ListLit):
        return [part.type for part in tree.elements]
    assert isinstance(tree.type, types.ListType)
    return itertools.repeat(tree.type.element)


def _given(tree: typed.Core | None) -> typed.Core:
    assert tree is not None
    return tree


def _maybe(value: Any, optional: bool) -> list[object]:
    """Return an element of a literal as the list of its zero or one values."""
    if not optional:
        return [value]
    return [value.value] if value.present else []


def _frames(operand: Any, names: tuple[str, ...]) -> Iterator[tuple[Any, dict[str, object]]]:
    """Yield each element (a map's key, an index where there are two names) and what is bound."""
    if isinstance(operand, dict):
        for key in sorted(operand):
            yield key, dict(zip(names, (key, operand[key]), strict=False))
        return
    for index, item in enumerate(operand):
        if len(names) == 1:
            yield item, {names[0]: item}
        else:
            yield index, dict(zip(names, (index, item), strict=True))


def total(items: list[Any], kind: Any) -> Any:
    """Add the elements in order; of nothing, the zero of the element's type."""
    if isinstance(kind, types.QuantityType):
        return oracle_lists.total(items, Quantity(Fraction(0), kind.dimension))
    zero = 0.0 if kind == types.DOUBLE else 0
    result = oracle_lists.total(items, zero)
    return in_duration(result) if isinstance(result, int) and kind.name == "duration" else result


def field_of(record: Any, name: str) -> Any:
    """Return a record's field by the author's name; records of optionals give optionals."""
    match record:
        case oracle_world.NodeRecord():
            return oracle_world.node_field(record, name)
        case PodInfo():
            return oracle_world.pod_field(record, name)
        case GroupCounts():
            return oracle_world.group_field(record, name)
        case oracle_world.ClusterRecord():
            return oracle_world.cluster_field(record, name)
        case oracle_world.NamespaceRecord():
            return oracle_world.namespace_field(record, name)
        case oracle_world.DomainRecord():
            return oracle_world.domain_field(record, name)
        case oracle_world.QuotaRecord():
            return oracle_world.quota_field(record, name)
        case dict():
            return record[name]
    if name == "tolerationSeconds":
        return ABSENT if record.toleration_seconds is None else some(record.toleration_seconds)
    if name == "lastTransitionTime":
        return nanoseconds(record.last_transition_time)
    value = getattr(record, re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name))
    return oracle_world.Resources(value) if name in {"requests", "limits"} else value


def element(whole: Any, key: Any, optional: bool) -> Any:
    """Return a map's value, a list's element or a resource's amount; an optional if asked so."""
    if isinstance(whole, Optional):
        return element(whole.value, key, optional=True) if whole.present else ABSENT
    if isinstance(whole, oracle_world.Resources):
        return (
            some(whole.amount(key)) if optional and key in whole else _amount(whole, key, optional)
        )
    found = 0 <= key < len(whole) if isinstance(whole, list) else key in whole
    if optional:
        return some(whole[key]) if found else ABSENT
    if not found:
        raise OracleError("index_out_of_range" if isinstance(whole, list) else "no_such_key")
    return whole[key]


def _amount(whole: oracle_world.Resources, key: str, optional: bool) -> Any:
    return ABSENT if optional else whole.amount(key)


def has(whole: Any, key: Any) -> bool:
    """Tell whether a map, or resources, have the key."""
    return key in whole
