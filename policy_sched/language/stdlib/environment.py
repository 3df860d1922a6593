"""The environment of expressions: the variables, records, sections and functions that they name.

The checker takes an `Environment` as a value. That of policies is read from environment.toml and
functions.toml when it is first needed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, Literal

from policy_sched.cluster.tables import MAX_IMAGE
from policy_sched.language.stdlib.overloads import Kind, Overload, read_overloads
from policy_sched.language.values import (
    BOOL,
    DOUBLE,
    DURATION,
    INT,
    QUANTITY,
    STRING,
    TIMESTAMP,
    RecordType,
    Type,
    parse_type,
)

Level = Literal["C", "P", "S", "D", "T", "X"]

#: The name of an expression that belongs to no section.
ANY: Final = "any"
#: The text of a function or variable of a policy: it may read what any section sees.
DEFINITION: Final = "definition"

#: The names of variables in the forms of macros.
_VARIABLES: Final = frozenset("xikv")
_FOLDER: Final = Path(__file__).parent
#: Largest count that a column may hold.
_MAX_COUNT: Final = 2**31 - 1
_RANGES: Final[dict[str, tuple[int, int]]] = {
    "int32": (-(2**31), _MAX_COUNT),
    "count": (0, _MAX_COUNT),
    "bytes": (0, MAX_IMAGE),
    "port": (0, 65535),
    "score": (-(2**63), 2**63 - 1),
}
_ORDERED: Final = (INT, DOUBLE, STRING, BOOL, TIMESTAMP, DURATION, QUANTITY)


@dataclass(frozen=True, slots=True)
class RecordField:
    """A field of a record; ``range`` bounds an int's values (inclusive) where that is known."""

    name: str
    type: Type
    level: Level
    doc: str
    range: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A record type and its fields."""

    name: str
    doc: str
    fields: dict[str, RecordField]


@dataclass(frozen=True, slots=True)
class Variable:
    """A name that expressions may read."""

    name: str
    type: Type
    level: Level
    doc: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a policy: the variables that it sees and the types that its value may have.

    ``results`` is empty where any type will do; ``expected`` describes the types in messages.
    """

    name: str
    visible: frozenset[str]
    results: tuple[Type, ...]
    expected: str
    example: str = ""


@dataclass(frozen=True, slots=True)
class MacroForms:
    """A macro that is written as a method: the arguments of each form, and what it gives."""

    name: str
    forms: tuple[str, ...]
    doc: str
    of_optional: bool
    variables: Mapping[int, int]
    """By number of arguments, how many of them are names of variables."""

    @property
    def title(self) -> str:
        """How it is written."""
        operand = "o" if self.of_optional else "e"
        return " or ".join(f"{operand}.{self.name}({form})" for form in self.forms)


@dataclass(frozen=True)
class Environment:
    """What expressions may name.

    ``overloads`` has every spelling of every function. ``habits`` maps names of other rule
    languages to names of this one.
    """

    variables: Mapping[str, Variable]
    records: Mapping[str, Record]
    sections: Mapping[str, Section]
    overloads: tuple[Overload, ...]
    habits: Mapping[str, str]

    @cached_property
    def functions(self) -> Mapping[str, tuple[Overload, ...]]:
        """Overloads that are called as functions, by name; a name may hold a dot."""
        return self._index("function", "either")

    @cached_property
    def methods(self) -> Mapping[str, tuple[Overload, ...]]:
        """Overloads that are called as methods, by name."""
        return self._index("method", "either")

    @cached_property
    def operators(self) -> Mapping[str, tuple[Overload, ...]]:
        """Overloads of operators, by sign."""
        return self._index("operator")

    def _index(self, *kinds: Kind) -> Mapping[str, tuple[Overload, ...]]:
        found: dict[str, list[Overload]] = {}
        for overload in self.overloads:
            if overload.kind in kinds:
                found.setdefault(overload.name, []).append(overload)
        return {name: tuple(overloads) for name, overloads in found.items()}

    def section(self, name: str) -> Section:
        """Return a section by its name, `ANY` and `DEFINITION` included."""
        if name in (ANY, DEFINITION):
            return Section(name, self._all_visible, (), "a value")
        return self.sections[name]

    @cached_property
    def _all_visible(self) -> frozenset[str]:
        return frozenset.union(*(section.visible for section in self.sections.values()))

    def fields_of(self, kind: Type) -> dict[str, Type] | None:
        """Return a record's fields with their types, or None if the type is not a record."""
        if not isinstance(kind, RecordType):
            return None
        if kind.name in self.records:
            return {name: field.type for name, field in self.records[kind.name].fields.items()}
        return dict(kind.fields)

    def sections_with(self, name: str) -> tuple[str, ...]:
        """Return the sections that see the variable ``name``, in the order of the manual."""
        seeing = [s.name for s in self.sections.values() if name in s.visible]
        places = tuple(dict.fromkeys(section.partition(".")[0] for section in seeing))
        if places in (("preemption",), ("placement",)):
            return tuple(seeing)
        return ("score.normalize",) if name in ("score", "scores") else places


def read_environment(document: Mapping[str, Any], overloads: Iterable[Overload]) -> Environment:
    """Return the environment that a TOML document such as environment.toml describes."""
    records = document["records"]
    return Environment(
        variables={
            name: Variable(name, parse_type(row["type"], records=records), row["level"], row["doc"])
            for name, row in document["variables"].items()
        },
        records={
            name: Record(name, row["doc"], _read_fields(row["fields"], records))
            for name, row in records.items()
        },
        sections={name: _read_section(name, row) for name, row in document["sections"].items()},
        overloads=tuple(overloads),
        habits=document.get("habits", {}),
    )


def _read_fields(rows: Mapping[str, Any], records: Collection[str]) -> dict[str, RecordField]:
    """Return the fields of a record; one row may describe several of one type."""
    return {
        name: RecordField(
            name,
            parse_type(row["type"], records=records),
            row["level"],
            row["doc"],
            _RANGES.get(row.get("range", "")),
        )
        for names, row in rows.items()
        for name in names.split()
    }


def _read_section(name: str, row: Mapping[str, Any]) -> Section:
    visible = frozenset({"params", "variables", *row["sees"]})
    if row["results"] == "ordered":
        return Section(name, visible, _ORDERED, "an ordered type", row["example"])
    results = tuple(map(parse_type, row["results"]))
    return Section(name, visible, results, " or ".join(map(str, results)), row["example"])


@cache
def policy_environment() -> Environment:
    """Return the environment of policies."""
    document = tomllib.loads((_FOLDER / "environment.toml").read_text(encoding="utf-8"))
    functions = tomllib.loads((_FOLDER / "functions.toml").read_text(encoding="utf-8"))
    return read_environment(document, read_overloads(functions, document["records"]))


def rule_macros() -> Mapping[str, MacroForms]:
    """Return the macros of rules by name."""
    return _macros("rules")


def selector_macros() -> Mapping[str, MacroForms]:
    """Return the macros of selectors over devices by name."""
    return _macros("selectors")


@cache
def _macros(dialect: str) -> Mapping[str, MacroForms]:
    rows = tomllib.loads((_FOLDER / "macros.toml").read_text(encoding="utf-8"))
    found = {}
    for name, row in rows.items():
        if dialect in row.get("in", [dialect]):
            words = [form.split(", ") for form in row["forms"] if form]
            variables = {len(form): len(_VARIABLES.intersection(form)) for form in words}
            optional = row.get("of") == "optional"
            found[name] = MacroForms(name, tuple(row["forms"]), row["doc"], optional, variables)
    return found
