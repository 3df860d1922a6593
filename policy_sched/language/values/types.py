"""The types of the rule language: what an expression's value is, before any value exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Type:
    """A scalar type, named as in CEL; also the base of the parametrised types below."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class QuantityType(Type):
    """An int64 in the scheduler's unit of its dimension.

    ``dimension``: ``cpu`` (unit: one thousandth of a core), ``bytes`` or ``count`` (unit: one),
    ``any`` (a resource whose name is known only at run time: its own unit), or ``free``
    (a literal, which takes the unit of what it meets).
    """

    name: str = "quantity"
    dimension: str = "any"


@dataclass(frozen=True, slots=True)
class ListType(Type):
    """A list whose elements all have one type."""

    name: str
    element: Type

    def __str__(self) -> str:
        return f"list({self.element})"


@dataclass(frozen=True, slots=True)
class MapType(Type):
    """A map from ``key`` (string, int or bool) to ``value``."""

    name: str
    key: Type
    value: Type

    def __str__(self) -> str:
        return f"map({self.key}, {self.value})"


@dataclass(frozen=True, slots=True)
class OptionalType(Type):
    """A value that may be absent."""

    name: str
    element: Type

    def __str__(self) -> str:
        return f"optional({self.element})"


@dataclass(frozen=True, slots=True)
class RecordType(Type):
    """A record with named fields: one of the scheduler's nouns, or a mapping of params.

    ``fields`` is empty for the nouns (Pod, Node, ...), whose fields environment.py lists.
    """

    fields: tuple[tuple[str, Type], ...] = ()

    def __str__(self) -> str:
        if self.fields:
            return "{" + ", ".join(f"{k}: {t}" for k, t in self.fields) + "}"
        return self.name


BOOL: Final = Type("bool")
INT: Final = Type("int")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
DURATION: Final = Type("duration")
TIMESTAMP: Final = Type("timestamp")
SELECTOR: Final = Type("selector")
SEMVER: Final = Type("semver")
RESOURCES: Final = Type("resources")
#: The element type of ``[]`` and ``optional.none()`` before something settles it.
UNKNOWN: Final = Type("unknown")
#: The type of an expression that was already reported; it silences what follows from it.
ERROR: Final = Type("error")
QUANTITY: Final = QuantityType()


def list_of(element: Type) -> ListType:
    """Return ``list(element)``."""
    return ListType("list", element)


def map_of(key: Type, value: Type) -> MapType:
    """Return ``map(key, value)``."""
    return MapType("map", key, value)


def optional_of(element: Type) -> OptionalType:
    """Return ``optional(element)``."""
    return OptionalType("optional", element)


def quantity_of(dimension: str) -> QuantityType:
    """Return the quantity type of ``dimension``."""
    return QuantityType(dimension=dimension)


def record(name: str) -> RecordType:
    """Return the record type of a noun of the scheduler, such as ``Pod``."""
    return RecordType(name)
