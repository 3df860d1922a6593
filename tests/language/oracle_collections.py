"""The oracle's comparisons, strings, lists, maps, times and optionals, by overload id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from . import oracle_lists as lists, oracle_text as text, oracle_time as time
from .oracle_values import ABSENT, Optional, OracleError, Quantity, equal, some

PARTS: Final = [
    "FullYear",
    "Month",
    "Date",
    "DayOfMonth",
    "DayOfWeek",
    "DayOfYear",
    "Hours",
    "Minutes",
    "Seconds",
    "Milliseconds",
]
NUMBERS: Final = ("int", "double")
ORDERED: Final = (
    *((a, b) for a in NUMBERS for b in NUMBERS),
    *((t, t) for t in ("string", "bool", "duration", "timestamp", "quantity")),
)
ORDER: Final[dict[str, Callable[[int], bool]]] = {
    "lt": lambda c: c < 0,
    "le": lambda c: c <= 0,
    "gt": lambda c: c > 0,
    "ge": lambda c: c >= 0,
}


def _comparison(test: Callable[[int], bool]) -> Callable[[Any, Any], bool]:
    def compared(left: Any, right: Any) -> bool:
        if left != left or right != right:  # noqa: PLR0124 - NaN is in no order
            return False
        return test(lists.compare(left, right))

    return compared


def _part(name: str, of: Callable[..., int]) -> Callable[..., int]:
    return lambda *args: of(name, *args)


def non_zero(value: object) -> Optional:
    """Return the optional of a value, absent for its type's zero."""
    zero = not value.amount if isinstance(value, Quantity) else not value
    return ABSENT if zero else some(value)


def counted(number: int) -> list[int]:
    """Return 0, 1, ...; a million is the most."""
    if number > 1_000_000:
        raise OracleError("index_out_of_range")
    return list(range(number))


def value_of(optional: Optional) -> object:
    """Return an optional's value, or no_value."""
    if not optional.present:
        raise OracleError("no_value")
    return optional.value


def present(optionals: list[Optional]) -> list[object]:
    """Return the values that are there."""
    return [o.value for o in optionals if o.present]


CALLS: Final[dict[str, Callable[..., Any]]] = {
    "eq_any_any": equal,
    "ne_any_any": lambda a, b: not equal(a, b),
    **{f"{o}_{a}_{b}": _comparison(t) for o, t in ORDER.items() for a, b in ORDERED},
    "in_any_list": lambda item, items: lists.contains(items, item),
    "in_any_map": lambda key, whole: key in whole,
    "in_string_resources": lambda name, whole: name in whole,
    "size_string": len,
    "size_list": len,
    "size_map": len,
    "contains_string_string": lambda a, b: b in a,
    "startsWith_string_string": str.startswith,
    "endsWith_string_string": str.endswith,
    "matches_string_string": text.matches,
    "find_string_string": text.find,
    "charAt_string_int": text.char_at,
    "indexOf_string_string": text.index_of,
    "indexOf_string_string_int": text.index_of,
    "lastIndexOf_string_string": text.last_index_of,
    "lastIndexOf_string_string_int": text.last_index_of,
    "lowerAscii_string": text.lower_ascii,
    "upperAscii_string": text.upper_ascii,
    "replace_string_string_string": text.replace,
    "replace_string_string_string_int": text.replace,
    "split_string_string": text.split,
    "split_string_string_int": text.split,
    "substring_string_int": text.substring,
    "substring_string_int_int": text.substring,
    "trim_string": text.trim,
    "reverse_string": lambda s: s[::-1],
    "strings_quote_string": text.quote,
    "join_list": text.join,
    "join_list_string": text.join,
    "isSorted_list": lists.is_sorted,
    "min_list": lambda items: lists.extreme(items, -1),
    "max_list": lambda items: lists.extreme(items, 1),
    "indexOf_list_any": lists.index_of,
    "lastIndexOf_list_any": lambda items, item: lists.index_of(items, item, -1),
    "distinct_list": lists.distinct,
    "sort_list": lists.ordered,
    "first_list": lists.first,
    "last_list": lists.last,
    "flatten_list": lists.flatten,
    "reverse_list": lambda items: items[::-1],
    "lists_range_int": counted,
    "lists_subsets_int_int": lists.subsets,
    "with_list_int_any": lists.replaced,
    "by_list_list": lambda items, keys: {
        key: next(x for x, other in zip(items, keys, strict=True) if other == key) for key in keys
    },
    "sets_contains_list_list": lists.sets_contains,
    "sets_intersects_list_list": lambda a, b: any(lists.contains(b, x) for x in a),
    "sets_equivalent_list_list": lambda a, b: (
        lists.sets_contains(a, b) and lists.sets_contains(b, a)
    ),
    "mean_list": lists.mean,
    "stddev_list": lists.stddev,
    "weightedMean_list_list": lists.weighted_mean,
    "includes_map_map": lists.includes,
    "includes_list_any": lists.contains,
    **{f"get{p}_timestamp": _part(f"get{p}", time.calendar_part) for p in PARTS},
    **{f"get{p}_timestamp_string": _part(f"get{p}", time.calendar_part) for p in PARTS},
    **{f"get{p}_duration": _part(f"get{p}", time.duration_part) for p in PARTS[6:]},
    "optional_of_any": some,
    "optional_none": lambda: ABSENT,
    "optional_ofNonZeroValue_any": non_zero,
    "optional_unwrap_list": present,
    "unwrapOpt_list": present,
    "hasValue_optional": lambda o: o.present,
    "value_optional": value_of,
}
