"""Builtins of lists, maps and sets over plain Python values."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any, Final

from policy_sched.language.runtime import deviation, int64, mean
from policy_sched.language.stdlib.builtins_math import quotient
from policy_sched.language.values import (
    CONVERSION,
    NO_VALUE,
    OUT_OF_RANGE,
    Fault,
    Some,
    limits as work,
)

Function = Callable[..., Any]
#: Steps of comparing two lists, however short they are.
_CALL: Final = 8


def equal(a: object, b: object) -> bool:
    """Compare two values of one type; NaN is unequal to itself, also inside of a list."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        work.spend_of_total(_CALL + len(a))
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        work.spend_of_total(_CALL + len(a))
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, Some) and isinstance(b, Some):
        return equal(a.value, b.value)
    return not (isinstance(a, float) and math.isnan(a)) and bool(a == b)


def contains(item: object, items: Sequence[object]) -> bool:
    """Return whether a list has an equal element."""
    if isinstance(item, (str, int)):
        return item in items
    return any(equal(item, other) for other in items)


def has_key(whole: Collection[object], key: object) -> bool:
    """Return whether a map has a key."""
    return key in whole


def value_at(whole: Mapping[object, object], key: object, default: object) -> object:
    """Return a map's value, or ``default``."""
    return whole.get(key, default)


def amount(whole: Mapping[str, int], name: str) -> int:
    """Return a resource's amount, 0 where it is not named."""
    return whole.get(name, 0)


def has_element(items: Sequence[object], position: int) -> bool:
    """Return whether a list has an element at a position."""
    return 0 <= position < len(items)


def element(items: Sequence[object], position: int, default: object) -> object:
    """Return a list's element, or ``default``."""
    return items[position] if 0 <= position < len(items) else default


def sorted_keys(whole: Mapping[Any, object]) -> list[Any]:
    """Return a map's keys in order: the order in which maps are iterated."""
    return sorted(whole)


def mapping(*flat: Any) -> dict[Any, object]:
    """Return a map from its entries: of each whether it is there, its key, its value.

    Fault: conversion, of a key that is there twice.
    """
    entries: dict[Any, object] = {}
    for present, key, value in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
        if present:
            if key in entries:
                raise Fault(CONVERSION)
            entries[key] = value
    return entries


def total(items: Sequence[Any]) -> Any:
    """Return the sum of ints in index order; fault: overflow."""
    sum_so_far = 0
    for item in items:
        sum_so_far = int64(sum_so_far + item)
    return sum_so_far


def double_total(items: Sequence[float]) -> float:
    """Return the sum of doubles in index order, from the first on; 0.0 of nothing."""
    sum_so_far = 0.0
    for item in items:
        sum_so_far += item
    return sum_so_far


def _extreme(better: Callable[[Any, Any], bool]) -> Function:
    def extreme_of(items: Sequence[Any]) -> Any:
        if not items:
            raise Fault(NO_VALUE)
        best = items[0]
        for item in items:
            if better(item, best):
                best = item
        return best

    return extreme_of


def index_of(items: Sequence[object], item: object) -> int:
    """Return the first position of an equal element, or -1."""
    if isinstance(item, (str, int)):
        return items.index(item) if item in items else -1
    return next((i for i, other in enumerate(items) if equal(other, item)), -1)


def last_index_of(items: Sequence[object], item: object) -> int:
    """Return the last position of an equal element, or -1."""
    places = range(len(items) - 1, -1, -1)
    return next((i for i in places if equal(items[i], item)), -1)


def _key(value: object) -> Hashable:
    """Return what is equal and hashes alike for exactly the values that are `equal`."""
    if isinstance(value, (list, tuple)):
        work.spend_of_total(_CALL + len(value))
        return tuple(map(_key, value))
    if isinstance(value, dict):
        work.spend_of_total(_CALL + len(value))
        return frozenset((key, _key(item)) for key, item in value.items())
    if isinstance(value, Some):
        return Some, _key(value.value)
    if isinstance(value, float) and math.isnan(value):
        return object()
    if not isinstance(value, Hashable):
        raise TypeError(type(value))
    return value


def _keys(items: Sequence[object]) -> list[Hashable] | None:
    """Return the elements' keys; None where a record among them has no hash."""
    try:
        keys = list(map(_key, items))
        set(keys)
    except TypeError:
        return None
    return keys


def distinct(items: Sequence[object]) -> list[object]:
    """Return each value once, in order of first appearance."""
    keys = _keys(items)
    if keys is not None:
        met: dict[Hashable, object] = {}
        for key, item in zip(keys, items, strict=True):
            met.setdefault(key, item)
        return list(met.values())
    distinct_items: list[object] = []
    for item in items:
        work.spend_of_total(len(distinct_items))
        if not contains(item, distinct_items):
            distinct_items.append(item)
    return distinct_items


def ordered(items: Sequence[Any]) -> list[Any]:
    """Return the elements in ascending order; equal ones keep theirs.

    NaN, which nothing is before or after, stays where it is, and others on their side of it.
    """
    places = [i for i, item in enumerate(items) if item != item]  # noqa: PLR0124
    if not places:
        return sorted(items)
    result: list[Any] = []
    start = 0
    for end in (*places, len(items)):
        result += sorted(items[start:end])
        result += items[end : end + 1]
        start = end + 1
    return result


def is_sorted(items: Sequence[Any]) -> bool:
    """Return whether no element is less than the one before it."""
    return not any(b < a for a, b in pairwise(items))


def weighted_mean(values: Sequence[int], weights: Sequence[int]) -> int:
    """Return sum(v*w) / sum(w), truncated; 0 where sum(w) is 0. Lists of one length."""
    if len(values) != len(weights):
        raise Fault(OUT_OF_RANGE)
    whole = total(weights)
    upper = 0
    for value, weight in zip(values, weights, strict=True):
        upper = int64(upper + int64(value * weight))
    return quotient(upper, whole) if whole else 0


def includes_map(whole: Mapping[Any, object], part: Mapping[Any, object]) -> bool:
    """Return whether all entries of ``part`` are in ``whole`` and equal."""
    return all(key in whole and equal(whole[key], value) for key, value in part.items())


def contains_all(items: Sequence[object], others: Sequence[object]) -> bool:
    """Return whether a list has every element of another."""
    keys, wanted = _keys(items), _keys(others)
    if keys is not None and wanted is not None:
        return set(keys).issuperset(wanted)
    work.spend_of_total(len(items) * len(others))
    return all(contains(other, items) for other in others)


def contains_any(items: Sequence[object], others: Sequence[object]) -> bool:
    """Return whether two lists share an element."""
    keys, wanted = _keys(items), _keys(others)
    if keys is not None and wanted is not None:
        return not set(keys).isdisjoint(wanted)
    work.spend_of_total(len(items) * len(others))
    return any(contains(other, items) for other in others)


def concatenated(a: Sequence[object], b: Sequence[object]) -> list[object]:
    """Return the elements of two lists."""
    work.list_of(len(a) + len(b))
    return [*a, *b]


def concatenated_text(a: str, b: str) -> str:
    """Return two texts as one."""
    work.text_of(len(a) + len(b))
    return a + b


def flattened(lists: Sequence[Sequence[object]]) -> list[object]:
    """Return the elements of the elements."""
    work.list_of(sum(map(len, lists)))
    return [item for items in lists for item in items]


def joined(items: Sequence[str], separator: str = "") -> str:
    """Return texts as one, with a separator between them."""
    work.text_of(sum(map(len, items)) + len(separator) * max(0, len(items) - 1))
    return separator.join(items)


def _first(items: Sequence[object]) -> Some | None:
    return Some(items[0]) if items else None


def _last(items: Sequence[object]) -> Some | None:
    return Some(items[-1]) if items else None


def _range(number: int) -> list[int]:
    work.list_of(number)
    return list(range(number))


MAX_SET: Final = 8
"""Numbers of which `lists.subsets` makes sets: 255 of them."""


def _subsets(number: int, most: int) -> list[list[int]]:
    if not 0 <= number <= MAX_SET:
        raise Fault(OUT_OF_RANGE)
    sizes = range(1, min(most, number) + 1)
    return [list(chosen) for size in sizes for chosen in combinations(range(number), size)]


def _with(items: Sequence[object], position: int, item: object) -> list[object]:
    if not 0 <= position < len(items):
        raise Fault(OUT_OF_RANGE)
    return [*items[:position], item, *items[position + 1 :]]


def by_key(items: Sequence[object], keys: Sequence[Any]) -> dict[Any, object]:
    """Return elements by their keys; of several with one key the first."""
    return dict(reversed([*zip(keys, items, strict=True)]))


def _doubles(items: Sequence[float]) -> list[float]:
    return [float(item) for item in items]


TOTAL: Final[dict[str, Function]] = {
    "eq_any_any": equal,
    "ne_any_any": lambda a, b: not equal(a, b),
    "in_any_list": contains,
    "in_any_map": lambda key, whole: key in whole,
    "in_string_resources": lambda key, whole: key in whole,
    "add_list_list": concatenated,
    "add_string_string": concatenated_text,
    "size_string": len,
    "size_list": len,
    "size_map": len,
    "isSorted_list": is_sorted,
    "indexOf_list_any": index_of,
    "lastIndexOf_list_any": last_index_of,
    "distinct_list": distinct,
    "sort_list": ordered,
    "first_list": _first,
    "last_list": _last,
    "flatten_list": flattened,
    "reverse_list": lambda items: [*reversed(items)],
    "sets_contains_list_list": contains_all,
    "sets_intersects_list_list": contains_any,
    "sets_equivalent_list_list": lambda a, b: contains_all(a, b) and contains_all(b, a),
    "mean_list": lambda items: mean(_doubles(items)),
    "stddev_list": lambda items: deviation(_doubles(items)),
    "includes_map_map": includes_map,
    "includes_list_any": lambda items, item: contains(item, items),
    "optional_of_any": Some,
    "optional_none": lambda: None,
    "optional_ofNonZeroValue_any": lambda value: Some(value) if value else None,
    "optional_unwrap_list": lambda items: [item.value for item in items if item is not None],
    "unwrapOpt_list": lambda items: [item.value for item in items if item is not None],
    "hasValue_optional": lambda value: value is not None,
    "join_list": joined,
    "join_list_string": joined,
    "by_list_list": by_key,
}
PARTIAL: Final[dict[str, Function]] = {
    "min_list": _extreme(operator.lt),
    "max_list": _extreme(operator.gt),
    "math_least_list": _extreme(operator.lt),
    "math_greatest_list": _extreme(operator.gt),
    "weightedMean_list_list": weighted_mean,
    "lists_range_int": _range,
    "lists_subsets_int_int": _subsets,
    "with_list_int_any": _with,
}
