"""Completions at the cursor, and those that every environment of expressions has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from policy_sched.language import Entry, of_macro, of_overload
from policy_sched.language.stdlib import Environment, Overload
from policy_sched.language.values import types

Kind = Literal["variable", "field", "method", "function", "module", "keyword", "property"]
_CONSTANTS: Final = ("true", "false")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A completion at the cursor: the word, its kind and its description."""

    label: str
    kind: Kind
    entry: Entry


def functions(environment: Environment) -> Iterator[Suggestion]:
    """Yield functions, groups of functions and keywords."""
    for name, overloads in environment.functions.items():
        if "." not in name:
            yield Suggestion(name, "function", _all_of(overloads))
    for name in sorted(environment.namespaces):
        yield Suggestion(name, "module", Entry(name, "group of functions", ""))
    for name in ("has", *_CONSTANTS):
        yield Suggestion(name, "keyword", Entry(name, "keyword", ""))


def functions_in(environment: Environment, namespace: str) -> Iterator[Suggestion]:
    """Yield the functions of a group."""
    for name, overloads in environment.functions.items():
        if name.startswith(f"{namespace}."):
            yield Suggestion(name.partition(".")[2], "function", _all_of(overloads))


def methods(environment: Environment, kind: types.Type) -> Iterator[Suggestion]:
    """Yield the methods and macros that a value of a type has."""
    for name, overloads in environment.methods.items():
        fitting = tuple(one for one in overloads if types.fit(one.params[0], kind, {}))
        if fitting:
            yield Suggestion(name, "method", _all_of(fitting))
    if isinstance(kind, types.ListType | types.MapType | types.OptionalType):
        optional = isinstance(kind, types.OptionalType)
        for name, macro in environment.macros.items():
            if macro.of_optional == optional:
                yield Suggestion(name, "method", of_macro(macro))


def _all_of(overloads: tuple[Overload, ...]) -> Entry:
    """Return one entry for all ways to call a name."""
    first = of_overload(overloads[0])
    if len(overloads) == 1:
        return first
    titles = "\n".join(dict.fromkeys(one.signature for one in overloads))
    texts = "\n".join(dict.fromkeys(one.doc for one in overloads))
    return Entry(titles, first.kind, texts, first.example)
