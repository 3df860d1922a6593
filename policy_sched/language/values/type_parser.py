"""Reads types from text, such as `list(Pod)` in a function's parameters and in functions.toml."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from policy_sched.language.values.types import (
    BOOL,
    DOUBLE,
    DURATION,
    INT,
    QUANTITY,
    RESOURCES,
    SELECTOR,
    SEMVER,
    STRING,
    TIMESTAMP,
    UNKNOWN,
    RecordType,
    Type,
    list_of,
    map_of,
    optional_of,
    record,
)


@dataclass(frozen=True, slots=True)
class TypeVariable(Type):
    """A type that an overload leaves open; ``allowed`` names the types it may be (empty: any)."""

    allowed: frozenset[str] = frozenset()


#: The value of a parameter that no expression reads: a mapping that only a builtin interprets.
RAW: Final = Type("raw")

ORDERED: Final = frozenset(
    {"int", "double", "string", "bool", "duration", "timestamp", "quantity", "semver"}
)
TYPE_VARIABLES: Final = {
    "T": TypeVariable("T"),
    "K": TypeVariable("K"),
    "V": TypeVariable("V"),
    "O": TypeVariable("ordered", ORDERED - {"semver"}),
    "N": TypeVariable("number", frozenset({"int", "double"})),
    "A": TypeVariable("amount", frozenset({"int", "double", "duration", "quantity"})),
}
SCALARS: Final = {
    t.name: t
    for t in (BOOL, INT, DOUBLE, STRING, DURATION, TIMESTAMP, SELECTOR, SEMVER, RESOURCES, QUANTITY)
}
_TOKEN: Final = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|[(){},:]|\S)")
_MAX_DEPTH: Final = 16


def parse_type(text: str, *, records: Collection[str] = (), variables: bool = False) -> Type:
    """Return the type that ``text`` names.

    ``records`` are the names of record types; ``variables`` also reads the type variables of
    functions.toml (T, K, V...). Raises ValueError with a sentence for the author.
    """
    reader = _Reader(_TOKEN.findall(text), records, variables)
    result = reader.type(0)
    if reader.at < len(reader.tokens):
        raise ValueError(f"unexpected {reader.tokens[reader.at]!r} after the type {result}")
    return result


class _Reader:
    """A recursive descent over the tokens of one type."""

    def __init__(self, tokens: list[str], records: Collection[str], variables: bool) -> None:
        self.tokens = tokens
        self.at = 0
        self.records = records
        self.variables = variables

    def next(self) -> str:
        if self.at >= len(self.tokens):
            raise ValueError("the type ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def expect(self, token: str) -> None:
        found = self.next()
        if found != token:
            raise ValueError(f"expected {token!r} in the type, found {found!r}")

    def type(self, depth: int) -> Type:
        if depth > _MAX_DEPTH:
            raise ValueError("the type is nested too deeply")
        name = self.next()
        if name == "{":
            return self.fields(depth)
        if name in ("list", "optional", "map"):
            return self.parametrised(name, depth)
        if name in SCALARS:
            return SCALARS[name]
        if name in self.records:
            return record(name)
        if self.variables and name in TYPE_VARIABLES:
            return TYPE_VARIABLES[name]
        if self.variables and name == "unknown":
            return UNKNOWN
        if self.variables and name == "raw":
            return RAW
        raise ValueError(f"no type is called {name!r}")

    def parametrised(self, name: str, depth: int) -> Type:
        self.expect("(")
        first = self.type(depth + 1)
        if name == "map":
            self.expect(",")
            value = self.type(depth + 1)
            if first.name not in ("string", "int", "bool") and not self.variables:
                raise ValueError(f"a map's keys are string, int or bool, not {first}")
            self.expect(")")
            return map_of(first, value)
        self.expect(")")
        return list_of(first) if name == "list" else optional_of(first)

    def fields(self, depth: int) -> RecordType:
        found: list[tuple[str, Type]] = []
        while True:
            name = self.next()
            self.expect(":")
            found.append((name, self.type(depth + 1)))
            if self.next() != ",":
                break
        if self.tokens[self.at - 1] != "}":
            raise ValueError("expected '}' at the end of the record type")
        return RecordType("record", tuple(found))
