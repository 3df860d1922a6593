"""Terms of functions of the language, and of operations over lists and optionals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import z3

from policy_sched.language import ir
from policy_sched.prove import terms
from policy_sched.prove.terms import (
    Choice,
    Listing,
    Optional,
    conjunction,
    counted,
    disjunction,
    equal,
    is_term,
    ite,
    negation,
)


def table(position: Any, entries: ir.graph.Table) -> Any:
    """Return the entry of a table at a position; the nearest one outside of it."""
    found: Any = entries.entries[-1]
    for i, entry in reversed(list(enumerate(entries.entries[:-1]))):
        found = ite(position - entries.first <= i, entry, found)
    return found


def is_some(value: Any) -> Any:
    """Return whether an optional has a value; None where that has no term."""
    match value:
        case Optional():
            return value.present
        case None:
            return False
        case Choice(test, then, otherwise):
            a, b = is_some(then), is_some(otherwise)
            return None if a is None or b is None else ite(test, a, b)
    return None


def opt_value(value: Any, default: Any) -> Any:
    """Return the value of an optional, or a default."""
    if isinstance(value, Optional):
        return ite(value.present, value.value, default)
    return default if value is None else None


def masked(*pairs: Any) -> Listing:
    """Return the list of values whose mask is true."""
    return Listing(tuple(zip(pairs[::2], pairs[1::2], strict=True)))


def of_list(given: Sequence[Any], *, there: bool) -> Any:
    """Return whether a list has an element at a position, or that element."""
    items, position = given[0], given[1]
    if not isinstance(items, Listing):
        return None
    if there:
        return conjunction(position >= 0, position < counted(t for t, _ in items.items))
    found, before = given[2], 0
    cases = []
    for taken, item in items.items:
        cases.append((conjunction(taken, equal(before, position)), item))
        before = before + ite(taken, 1, 0)
    for test, item in reversed(cases):
        found = ite(test, item, found)
    return found


def size(items: Any) -> Any:
    """Return the length of a list or a text; None where it has no term."""
    if isinstance(items, Listing):
        return counted(there for there, _ in items.items)
    return z3.Length(items) if is_term(items) and z3.is_string(items) else None


def _in(value: Any, items: Any) -> Any:
    if not isinstance(items, Listing):
        return None
    parts = []
    for there, item in items.items:
        if isinstance(item, tuple | dict | list | float) or isinstance(value, tuple | dict | list):
            return None
        parts.append(conjunction(there, equal(value, item)))
    return disjunction(*parts)


def _texts(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: function(terms.text_of(a), terms.text_of(b))


CALLS: Final[dict[str, Callable[..., Any]]] = {
    "contains_string_string": _texts(z3.Contains),
    "startsWith_string_string": _texts(lambda a, b: z3.PrefixOf(b, a)),
    "endsWith_string_string": _texts(lambda a, b: z3.SuffixOf(b, a)),
    "indexOf_string_string": _texts(lambda a, b: z3.IndexOf(a, b, 0)),
    "add_string_string": _texts(z3.Concat),
    "in_any_list": _in,
    "add_list_list": lambda a, b: Listing(a.items + b.items),
}
"""Terms of functions that do not fail, by the id of their overload; None where there is none."""


def int_of_text(text: Any) -> tuple[Any, Any]:
    """Return the int that a text is in decimal digits with or without a sign, and if it is none."""
    text = terms.text_of(text)
    below = z3.PrefixOf(z3.StringVal("-"), text)
    signed = z3.Or(below, z3.PrefixOf(z3.StringVal("+"), text))
    digits = z3.If(signed, z3.SubString(text, 1, z3.Length(text) - 1), text)
    size_of = z3.StrToInt(digits)
    number = z3.If(below, -size_of, size_of)
    return number, negation(conjunction(size_of >= 0, terms.within_int64(number)))


def _try_int(text: Any) -> Optional:
    number, wrong = int_of_text(text)
    return Optional(negation(wrong), number)


CALLS["tryInt_string"] = _try_int
FALLIBLE: Final[dict[str, Callable[..., tuple[Any, Any]]]] = {"int_string": int_of_text}
"""Terms of functions that may fail: the value, and whether they fail with their only error."""
