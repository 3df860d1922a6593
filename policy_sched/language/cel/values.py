"""Values of CEL at run time, and what holds of all of them: their types, equality and size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, Final
from urllib.parse import SplitResult

import msgspec

from policy_sched.errors import PolicySchedError
from policy_sched.language.stdlib import Version
from policy_sched.language.values import types
from policy_sched.model import Quantity


class CelError(PolicySchedError):
    """An error of an expression at run time, in cel-go's words."""


class CostError(CelError):
    """The expression takes too much work."""


class InterruptError(CostError):
    """The evaluation was ended by its caller; another time it may have a value."""


class Uint(int):
    """An unsigned int."""


class Duration(int):
    """A length of time in nanoseconds."""


class Timestamp(int):
    """A moment in nanoseconds since 1970."""


class TypeValue(msgspec.Struct, frozen=True):
    """A type as a value."""

    name: str


class Optional(msgspec.Struct, frozen=True):
    """A value that may be absent."""

    present: bool
    value: Any = None


ABSENT: Final = Optional(False)


class Address(msgspec.Struct, frozen=True):
    """An IP address."""

    ip: IPv4Address | IPv6Address


class Network(msgspec.Struct, frozen=True):
    """An IP network; ``ip`` keeps the address that was written."""

    ip: IPv4Address | IPv6Address
    network: IPv4Network | IPv6Network


class Url(msgspec.Struct, frozen=True):
    """A URL that was parsed."""

    parts: SplitResult


class NamedFormat(msgspec.Struct, frozen=True):
    """A format of texts, by Kubernetes' name of it."""

    name: str


class Record:
    """A value with named fields, all of which are there."""

    __slots__ = ("fields",)

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = fields


class CelMap:
    """A map; a key that is missing gives ``default()``, where there is such a function.

    Numbers that are equal are one key; true is not 1.
    """

    __slots__ = ("_default", "_entries")

    def __init__(
        self, entries: Mapping[Any, Any] | None = None, default: Callable[[], Any] | None = None
    ) -> None:
        self._entries: dict[Any, tuple[Any, Any]] = {}
        self._default = default
        for key, value in (entries or {}).items():
            self._entries[_hashed(key)] = (key, value)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return _hashed(key) in self._entries

    def __iter__(self) -> Iterator[Any]:
        return iter([key for key, _ in self._entries.values()])

    def items(self) -> list[tuple[Any, Any]]:
        """Return keys and values."""
        return list(self._entries.values())

    def find(self, key: object) -> Optional:
        """Return the value of a key, if there is one."""
        entry = self._entries.get(_hashed(key))
        if entry is not None:
            return Optional(True, entry[1])
        return ABSENT if self._default is None else Optional(True, self._default())

    def add(self, key: object, value: object) -> None:
        """Add an entry. Raises CelError for a key that is there already."""
        if key in self:
            raise CelError(f"insert failed: key {text_of_key(key)} already exists")
        self._entries[_hashed(key)] = (key, value)


def _hashed(key: object) -> object:
    return (bool, key) if isinstance(key, bool) else key


def text_of_key(key: object) -> str:
    """Return a key as messages show it."""
    return str(key).lower() if isinstance(key, bool) else str(key)


_KINDS: Final[dict[type, str]] = {
    bool: "bool",
    Uint: "uint",
    Duration: "duration",
    Timestamp: "timestamp",
    int: "int",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null",
    list: "list",
    CelMap: "map",
    Optional: "optional",
    TypeValue: "type",
    Quantity: "quantity",
    Version: "semver",
    Address: "ip",
    Network: "cidr",
    Url: "url",
    NamedFormat: "format",
}
_NUMBERS: Final = (int, Uint, float)
_UPSTREAM_NAMES: Final = types.CEL_NAMES | {
    "duration": "google.protobuf.Duration",
    "optional": "optional_type",
    "timestamp": "google.protobuf.Timestamp",
}


def kind_of(value: object) -> str:
    """Return the name of a value's type."""
    return _KINDS.get(type(value), type(value).__name__)


def type_name(value: object) -> str:
    """Return the name of a value's type as cel-go's messages have it."""
    name = kind_of(value)
    return _UPSTREAM_NAMES.get(name, name)


def equal(a: Any, b: Any) -> bool:
    """Compare two values of any types. Raises CelError where a type compares with its own only."""
    if type(a) is not type(b):
        if type(a) in _NUMBERS and type(b) in _NUMBERS:
            return bool(a == b)
        for operand in (a, b):
            if isinstance(operand, Quantity | Version):
                raise CelError("no such overload")
        return False
    if isinstance(a, Quantity):
        return bool(a.nanos == b.nanos)
    if isinstance(a, Version):
        return bool(a.order == b.order)
    if isinstance(a, list):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, CelMap):
        return len(a) == len(b) and all(
            key in b and equal(value, b.find(key).value) for key, value in a.items()
        )
    if isinstance(a, Optional):
        return a.present == b.present and (not a.present or equal(a.value, b.value))
    return bool(a == b)


def size(value: object) -> int:
    """Return how large a value is for the cost of work over it."""
    if isinstance(value, Optional):
        return size(value.value) if value.present else 1
    if isinstance(value, Address):
        return len(value.ip.packed)
    if isinstance(value, Network):
        return -(-value.network.prefixlen // 8)
    return len(value) if isinstance(value, str | bytes | list | CelMap) else 1
