"""The types of the rule language: their text form, joins and unification, quantity dimensions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec


class Type(msgspec.Struct, frozen=True):
    """A scalar type, named as in CEL; also the base of the parametrised types below."""

    name: str

    def __str__(self) -> str:
        return self.name


class QuantityType(Type, frozen=True):
    """An int64 in the scheduler's unit of its dimension.

    ``dimension``: ``cpu`` (unit: one thousandth of a core), ``bytes`` or ``count`` (unit: one),
    ``any`` (a resource whose name is known only at run time: its own unit), or ``free``
    (a literal, which takes the unit of what it meets).
    """

    name: str = "quantity"
    dimension: str = "any"


class ListType(Type, frozen=True):
    """A list whose elements all have one type."""

    name: str
    element: Type

    def __str__(self) -> str:
        return f"list({self.element})"


class MapType(Type, frozen=True):
    """A map from ``key`` (string, int or bool) to ``value``."""

    name: str
    key: Type
    value: Type

    def __str__(self) -> str:
        return f"map({self.key}, {self.value})"


class OptionalType(Type, frozen=True):
    """A value that may be absent."""

    name: str
    element: Type

    def __str__(self) -> str:
        return f"optional({self.element})"


class RecordType(Type, frozen=True):
    """A record with named fields: one of the environment's, or a mapping of params.

    ``fields`` is empty for the environment's records (Pod, Node, ...).
    """

    fields: tuple[tuple[str, Type], ...] = ()

    def __str__(self) -> str:
        if self.fields:
            return "{" + ", ".join(f"{k}: {t}" for k, t in self.fields) + "}"
        return self.name


class ObjectType(RecordType, frozen=True):
    """A record of an object that an input has, or of a part of it.

    ``name`` is ``inputs.NAME``, with the path of the part. ``untyped``: fields whose type the
    schema does not state. ``bare``: it has no metadata, as the JSON of an annotation has none.
    """

    untyped: tuple[str, ...] = ()
    bare: bool = False

    def __str__(self) -> str:
        return self.name


class InputType(Type, frozen=True):
    """An input: the record that it has by key; ``root`` is what a polled answer says beside.

    ``most``: how many objects ``all()`` may return; 0: it is not called. ``cached``: the cache has
    the objects, by name. ``annotation``: the record is its JSON, and what has it is the key.
    """

    name: str
    record: ObjectType
    root: ObjectType | None = None
    most: int = 0
    cached: bool = False
    annotation: str = ""

    def __str__(self) -> str:
        return self.name


class QuotaType(RecordType, frozen=True):
    """The record Quota of a policy; ``identity`` is the name that the cluster knows it by.

    ``object`` is the type of its object; None where it stands for all quotas together.
    """

    identity: str = ""
    object: ObjectType | None = None


def inputs_of_quotas(identity: str) -> list[str]:
    """Return the inputs whose objects quotas are: the identity begins with them."""
    return identity.rpartition("#")[0].split("|")


class AggregateType(Type, frozen=True):
    """An aggregate of pods: the type of its keys, and of what it has for each.

    ``identity`` is the name that the cluster knows it by. ``by_node``: its key is the node's name.
    ``counts``: it is a number of pods; ``sums``: a sum. ``parts``: how many texts its key has.
    ``decays``: it changes with time.
    """

    name: str
    key: Type
    value: Type
    identity: str = ""
    by_node: bool = False
    counts: bool = False
    sums: bool = False
    parts: int = 1
    decays: bool = False

    def __str__(self) -> str:
        return f"aggregate({self.key}, {self.value})"


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
    """Return the record type of the environment with a name, such as ``Pod``."""
    return RecordType(name)


class TypeVariable(Type, frozen=True):
    """A type that an overload leaves open; ``allowed`` names the types it may be (empty: any)."""

    allowed: frozenset[str] = frozenset()


#: The value of a parameter that no expression reads: a mapping that only a builtin interprets.
RAW: Final = Type("raw")
#: Types of selectors over devices. ``any`` is known only of a device's value and suits everything.
DYN: Final = record("any")
UINT: Final = record("uint")
BYTES: Final = record("bytes")
NULL: Final = record("null")
TYPE: Final = record("type")
#: What null may stand in place of, besides optionals.
_NULLABLE: Final = frozenset(
    {"duration", "timestamp", "quantity", "semver", "url", "ip", "cidr", "format"}
)
#: Types that cel-go calls otherwise.
CEL_NAMES: Final = {
    "Device": "kubernetes.DRADevice",
    "cidr": "net.CIDR",
    "format": "kubernetes.NamedFormat",
    "ip": "net.IP",
    "null": "null_type",
    "quantity": "kubernetes.Quantity",
    "semver": "kubernetes.Semver",
    "unknown": "any",
    "url": "kubernetes.URL",
}


def cel_name(kind: Type) -> str:
    """Return a type as cel-go's messages have it."""
    match kind:
        case ListType():
            return f"list({cel_name(kind.element)})"
        case MapType():
            return f"map({cel_name(kind.key)}, {cel_name(kind.value)})"
        case OptionalType():
            return f"optional_type({cel_name(kind.element)})"
    return CEL_NAMES.get(kind.name, kind.name)


_ORDERED: Final = frozenset(
    {"int", "uint", "double", "string", "bytes", "bool", "duration", "timestamp", "quantity"}
)
TYPE_VARIABLES: Final = {
    "T": TypeVariable("T"),
    "K": TypeVariable("K"),
    "V": TypeVariable("V"),
    "O": TypeVariable("ordered", _ORDERED),
    "N": TypeVariable("number", frozenset({"int", "double"})),
    "A": TypeVariable("amount", frozenset({"int", "uint", "double", "duration", "quantity"})),
}
SCALARS: Final = {
    t.name: t
    for t in (BOOL, INT, DOUBLE, STRING, DURATION, TIMESTAMP, SELECTOR, SEMVER, RESOURCES, QUANTITY)
}
_TOKEN: Final = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|[(){},:]|\S)")
_MAX_DEPTH: Final = 16


def parse_type(
    text: str,
    *,
    records: Collection[str] = (),
    variables: bool = False,
    objects: Mapping[str, ObjectType] | None = None,
) -> Type:
    """Return the type that ``text`` names.

    ``records`` are the names of record types; ``variables`` also reads the type variables of
    functions.toml (T, K, V...); ``objects`` are those of inputs, by name. Raises ValueError with a
    sentence for the author.
    """
    reader = _Reader(_TOKEN.findall(text), records, variables, objects or {})
    result = reader.type(0)
    if reader.at < len(reader.tokens):
        raise ValueError(f"unexpected {reader.tokens[reader.at]!r} after the type {result}")
    return result


class _Reader:
    """A recursive descent over the tokens of one type."""

    def __init__(
        self,
        tokens: list[str],
        records: Collection[str],
        variables: bool,
        objects: Mapping[str, ObjectType],
    ) -> None:
        self.tokens = tokens
        self.at = 0
        self.records = records
        self.variables = variables
        self.objects = objects

    def next(self) -> str:
        if self.at >= len(self.tokens):
            raise ValueError("the type ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def expect(self, token: str) -> None:
        actual = self.next()
        if actual != token:
            raise ValueError(f"expected {token!r} in the type, found {actual!r}")

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
        if name == "inputs" and self.objects:
            return self.object()
        if name in self.records:
            return record(name)
        if self.variables and name in TYPE_VARIABLES:
            return TYPE_VARIABLES[name]
        if self.variables and name == "unknown":
            return UNKNOWN
        if self.variables and name == "raw":
            return RAW
        raise ValueError(f"no type is called {name!r}")

    def object(self) -> ObjectType:
        """Read the name of an input, or of a part of its objects, after the word ``inputs``."""
        name = "inputs"
        while self.tokens[self.at : self.at + 1] == ["."]:
            self.at += 1
            name = f"{name}.{self.next()}"
        if name not in self.objects:
            raise ValueError(f"no type is called {name!r}")
        return self.objects[name]

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
        read: list[tuple[str, Type]] = []
        while True:
            name = self.next()
            self.expect(":")
            read.append((name, self.type(depth + 1)))
            if self.next() != ",":
                break
        if self.tokens[self.at - 1] != "}":
            raise ValueError("expected '}' at the end of the record type")
        return RecordType("record", tuple(read))


#: Dimensions of which two must not meet.
FIXED_DIMENSIONS: Final = frozenset({"cpu", "bytes", "count"})


def join(a: Type, b: Type) -> Type | None:
    """Return the type that values of both types have, or None.

    An unknown type gives way to the other, a reported one silences the other, and ``any`` stays;
    quantities of different dimensions join to one of any (`dimensions` returns whether they may be
    combined).
    """
    if ERROR in (a, b):
        return ERROR
    if UNKNOWN in (a, b):
        return b if a == UNKNOWN else a
    if a == b:
        return a
    if isinstance(a, ObjectType) or isinstance(b, ObjectType):
        return None  # parts of two objects are never of one type
    if DYN in (a, b):
        return DYN
    if NULL in (a, b):
        other = b if a == NULL else a
        return other if isinstance(other, OptionalType) or other.name in _NULLABLE else None
    match a, b:
        case QuantityType(), QuantityType():
            return quantity_of(_joint(a.dimension, b.dimension))
        case ListType(), ListType():
            element = join(a.element, b.element)
            return None if element is None else list_of(element)
        case OptionalType(), OptionalType():
            element = join(a.element, b.element)
            return None if element is None else optional_of(element)
        case MapType(), MapType():
            key, value = join(a.key, b.key), join(a.value, b.value)
            return None if key is None or value is None else map_of(key, value)
        case RecordType(), RecordType():
            return _join_records(a, b)
    return None


def _joint(a: str, b: str) -> str:
    if a == b:
        return a
    dimensions_of_both = {a, b} - {"free"}
    return dimensions_of_both.pop() if len(dimensions_of_both) == 1 else "any"


def _join_records(a: RecordType, b: RecordType) -> Type | None:
    if a.name != b.name or [n for n, _ in a.fields] != [n for n, _ in b.fields]:
        return None
    fields = []
    for (name, left), (_, right) in zip(a.fields, b.fields, strict=True):
        joined = join(left, right)
        if joined is None:
            return None
        fields.append((name, joined))
    return RecordType(a.name, tuple(fields))


def fit(param: Type, arg: Type, bound: dict[str, Type]) -> bool:
    """Return whether an argument of type ``arg`` suits ``param``; note what type variables become.

    ``bound`` maps a type variable's name to the join of what it met so far.
    """
    if param == RAW:
        return _from_params(arg)
    if isinstance(param, TypeVariable):
        if param.allowed and arg.name not in param.allowed and arg not in (UNKNOWN, ERROR, DYN):
            return False
        if arg == RAW:
            return False
        joined = join(bound.get(param.name, UNKNOWN), arg)
        if joined is None:
            return False
        bound[param.name] = joined
        return True
    if arg in (UNKNOWN, ERROR, DYN):
        return True
    match param, arg:
        case ListType(), ListType():
            return fit(param.element, arg.element, bound)
        case OptionalType(), OptionalType():
            return fit(param.element, arg.element, bound)
        case MapType(), MapType():
            return fit(param.key, arg.key, bound) and fit(param.value, arg.value, bound)
    return join(param, arg) is not None


def _from_params(arg: Type) -> bool:
    """Whether a builtin that reads a whole mapping of params may be given such a value."""
    return (
        arg in (RAW, UNKNOWN, ERROR)
        or isinstance(arg, MapType)
        or bool(
            isinstance(arg, RecordType)
            and not isinstance(arg, ObjectType)
            and (arg.fields or arg.name == "record")
        )
    )


def substitute(result: Type, bound: dict[str, Type]) -> Type:
    """Return ``result`` with its type variables replaced; one that met nothing is unknown."""
    if isinstance(result, TypeVariable):
        return bound.get(result.name, UNKNOWN)
    if isinstance(result, ListType):
        return list_of(substitute(result.element, bound))
    if isinstance(result, OptionalType):
        return optional_of(substitute(result.element, bound))
    if isinstance(result, MapType):
        return map_of(substitute(result.key, bound), substitute(result.value, bound))
    return result


def parts(kind: Type) -> Iterator[Type]:
    """Yield a type and the types inside it."""
    yield kind
    match kind:
        case ListType() | OptionalType():
            yield from parts(kind.element)
        case MapType():
            yield from parts(kind.key)
            yield from parts(kind.value)
        case ObjectType():
            return  # may have thousands
        case RecordType():
            for _, inner in kind.fields:
                yield from parts(inner)


def has_objects(kind: Type) -> bool:
    """Return whether a value has an object of an input, or a part of one, inside."""
    return any(isinstance(part, ObjectType) for part in parts(kind))


def is_known(kind: Type) -> bool:
    """Return whether no part of the type is unknown or already reported."""
    return not any(part in (UNKNOWN, ERROR, DYN) for part in parts(kind))


def dimensions(kinds: Iterable[Type]) -> tuple[set[str], str]:
    """Return the fixed dimensions that the quantities in ``kinds`` have, and their joint one.

    Two fixed dimensions must not meet.
    """
    dimensions_met = {
        part.dimension for k in kinds for part in parts(k) if isinstance(part, QuantityType)
    }
    fixed = dimensions_met & FIXED_DIMENSIONS
    if not dimensions_met:
        return fixed, "free"
    joint = dimensions_met.pop()
    for dimension in dimensions_met:
        joint = _joint(joint, dimension)
    return fixed, joint


CLASH_HINT: Final = "take numbers of both with .units() if that is meant"


def clash_message(clash: Sequence[str]) -> str:
    """Return the sentence of PS208."""
    return f"a quantity of {clash[0]} cannot meet one of {clash[1]}"


def resource_dimension(name: str) -> str:
    """Return the dimension of a resource's amounts, by the resource's name."""
    if name == "cpu":
        return "cpu"
    if name in ("memory", "ephemeral-storage", "storage") or name.startswith("hugepages-"):
        return "bytes"
    return "count"


def params_type(params: Mapping[str, object]) -> RecordType:
    """Return the record type of all parameters of a policy."""
    return RecordType("record", tuple((name, value_type(v)) for name, v in params.items()))


def value_type(value: object) -> Type:
    """Return the type of one parameter's value.

    A sequence is a list, a mapping whose values have one type a map from string, any other
    mapping a record. What has no type (mixed shapes, null) is raw: only a builtin can read it.
    """
    match value:
        case bool():
            return BOOL
        case int():
            return INT if -(2**63) <= value < 2**63 else RAW
        case float():
            return DOUBLE
        case str():
            return STRING
        case list() | tuple():
            element = _common([value_type(item) for item in value])
            return RAW if element in (None, RAW) else list_of(element or UNKNOWN)
        case Mapping():
            return _mapping(value)
    return RAW


def _mapping(value: Mapping[object, object]) -> Type:
    if not all(isinstance(key, str) for key in value):
        return RAW
    kinds = [value_type(item) for item in value.values()]
    common = _common(kinds)
    if common is not None and common != RAW:
        return map_of(STRING, common)
    names = [str(key) for key in value]
    return RecordType("record", tuple(zip(names, kinds, strict=True)))


def _common(kinds: list[Type]) -> Type | None:
    """Return the one type of all, unknown for none of them, None if they differ."""
    common: Type = UNKNOWN
    for kind in {id(kind): kind for kind in kinds}.values():  # most are the same few objects
        joined = join(common, kind)
        if joined is None:
            return None
        common = joined
    return common


def type_depth(kind: Type) -> int:
    """Return how deep a type is nested; a scalar's depth is 1."""
    match kind:
        case ListType() | OptionalType():
            return 1 + type_depth(kind.element)
        case MapType():
            return 1 + type_depth(kind.value)
        case ObjectType():
            return 1
        case RecordType():
            return 1 + max((type_depth(inner) for _, inner in kind.fields), default=0)
    return 1
