"""Objects of inputs as records: structs with the fields of their types, read as attributes.

A field that an object has not, or that is null, has the zero of its type. Amounts are exact
fractions, resources ints in the scheduler's units by name, times ns since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from fractions import Fraction
from functools import cache, lru_cache
from types import GenericAlias
from typing import Any, Final, Self, get_args

import msgspec

from policy_sched import model
from policy_sched.language.values import types
from policy_sched.lru import Lru

ATTRIBUTE: Final = "f_"
"""What attributes of fields begin with: a field may be called as a keyword of Python is."""
_OF_META: Final = "metadata."
"""What the names of fields of the metadata begin with where JSON is decoded: no key of a schema
has a dot."""


MAX_ANNOTATION: Final = 64 * 1024
"""Characters of an annotation that are parsed; a longer one is as one that is no JSON."""
#: Characters of texts whose records are kept, and what a record counts besides.
_KEPT_TEXT: Final = 16 << 20
_RECORD_BYTES: Final = 256


class _Amount(Fraction):
    """An amount of a manifest; where it is decoded msgspec asks for a class of its own."""

    def __reduce__(self) -> tuple[type[Fraction], tuple[int, int]]:
        return Fraction, (self.numerator, self.denominator)


class _StatedZero(_Amount):
    """An amount of 0 that an object states: other than one that is absent, it is a value."""

    def __new__(cls) -> Self:
        return super().__new__(cls, 0)

    def __bool__(self) -> bool:
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        return _StatedZero, ()


class _Resources(dict[str, int]):
    """Amounts by resource, in the scheduler's units."""

    __slots__ = ()


class _Time(int):
    """A time in ns since 1970."""


class ObjectRecord(msgspec.Struct):
    """A record of an object, or of a part of it; false where every field has its zero."""

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__struct_fields__)


class BlankObject:
    """A record of an object that is not there: every field has its zero. Never changed."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        for name, value in fields.items():
            setattr(self, ATTRIBUTE + name, value)

    def __bool__(self) -> bool:
        return False


@lru_cache(maxsize=65_536, typed=True)
def _amount(text: model.Amount) -> _Amount:
    """Return an amount; a cluster's objects have the same few over and over."""
    amount = model.nanos(text)
    return _Amount(amount, 1_000_000_000) if amount else _StatedZero()


def _decoded(kind: type, value: Any) -> Any:
    """Return a value of one of our classes. Raises ValueError, which msgspec gives a path."""
    if kind is _Amount:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError("must be a quantity")
        return _amount(value)
    if kind is _Resources:
        if not isinstance(value, dict):
            raise ValueError("must be a mapping of quantities")
        resources, units = _Resources(), model.units
        for name, amount in value.items():  # for speed: no dictionary that is copied
            resources[name] = units(name, amount)
        return resources
    try:
        return _Time(model.nanoseconds(msgspec.convert(value, datetime, strict=False)))
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


@cache
def struct_of(kind: types.ObjectType) -> type[Any]:
    """Return the struct of a record; its attributes are the fields' names after `ATTRIBUTE`."""
    fields: list[tuple[str, Any, Any]] = []
    names: dict[str, str] = {}
    meta = kind.name.count(".") == 1 and not kind.bare
    for name, inner in kind.fields:
        form, zero = _form(inner)
        fields.append((ATTRIBUTE + name, form, zero))
        names[ATTRIBUTE + name] = f"{_OF_META}{name}" if meta and name in META else name
    return msgspec.defstruct("Object", fields, bases=(ObjectRecord,), rename=names, gc=False)


def _form(kind: types.Type) -> tuple[Any, Any]:
    """Return the annotation of a field in a struct, and its default."""
    match kind:
        case types.ObjectType():
            struct = struct_of(kind)
            return struct, msgspec.field(default_factory=struct)
        case types.ListType():
            return GenericAlias(tuple, (_form(kind.element)[0], ...)), ()
        case types.MapType():
            mapping = GenericAlias(dict, (str, _form(kind.value)[0]))
            return mapping, msgspec.field(default_factory=dict)
        case types.QuantityType():
            return _Amount, _Amount(0)
        case types.RecordType():
            raise AssertionError(kind)
    return _SCALARS[kind]


_SCALARS: Final[dict[types.Type, tuple[Any, Any]]] = {
    types.BOOL: (bool, False),
    types.INT: (model.Int64, 0),
    types.DOUBLE: (float, 0.0),
    types.STRING: (str, ""),
    types.TIMESTAMP: (_Time, _Time(0)),
    types.RESOURCES: (_Resources, msgspec.field(default_factory=_Resources)),
}
OWNER: Final = frozenset({"ownerKind", "ownerName"})
"""Of these, the fields that are kept where a rule reads one of them."""
META: Final = OWNER | {"name", "namespace", "labels", "annotations", "creationTime", "seenAt"}
"""Fields that come from an object's metadata, and from when it was seen."""


class ObjectReader:
    """Reads the objects of an input as records of one type."""

    def __init__(self, kind: types.ObjectType) -> None:
        self._kind = kind
        self._struct = struct_of(kind)
        self._decoder = msgspec.json.Decoder(self._struct, dec_hook=_decoded)
        self._owned = not OWNER.isdisjoint(name for name, _ in kind.fields)

    def read(self, item: model.ApiObject, seen_at: int) -> Any:
        """Return the record of an object. Raises ValueError with the path of what does not fit."""
        if isinstance(item, model.CustomObject):
            record = self.plain(item.content)
        else:
            record = _of_struct(item, self._kind)
        meta = item.metadata
        record.f_name, record.f_namespace = meta.name, meta.namespace
        record.f_labels, record.f_annotations = meta.labels, meta.annotations
        record.f_creationTime, record.f_seenAt = model.nanoseconds(meta.creation_timestamp), seen_at
        for owner in meta.owner_references if self._owned else ():
            if owner.controller:
                for name, value in (("ownerKind", owner.kind), ("ownerName", owner.name)):
                    if ATTRIBUTE + name in record.__struct_fields__:
                        setattr(record, ATTRIBUTE + name, value)
        return record

    def plain(self, content: Any) -> Any:
        """Return the record of plain data, or of JSON. Raises ValueError."""
        try:
            if isinstance(content, bytes):
                try:
                    return self._decoder.decode(content)
                except msgspec.ValidationError:
                    content = msgspec.json.decode(content)  # nulls, perhaps
            try:
                return msgspec.convert(content, self._struct, dec_hook=_decoded)
            except msgspec.ValidationError:
                return msgspec.convert(_without_nulls(content), self._struct, dec_hook=_decoded)
        except RecursionError:
            raise ValueError("it is nested too deep") from None


class AnnotationReader:
    """The records of texts of JSON, as a map: without those that are none, or are too long."""

    def __init__(self, kind: types.ObjectType) -> None:
        self._kind = kind
        self._reader: ObjectReader | None = None
        self._kept: Lru[str, tuple[int, Any]] = Lru(_KEPT_TEXT, lambda entry: entry[0])

    def __reduce__(self) -> tuple[Any, tuple[types.ObjectType]]:
        return annotation_reader, (self._kind,)

    def __contains__(self, text: str) -> bool:
        return self.get(text) is not None

    def get(self, text: str, default: Any = None) -> Any:
        """Return the record of a text; it is parsed once."""
        entry = self._kept.get(text)
        if entry is None:
            entry = len(text) + _RECORD_BYTES, self._read(text)
            self._kept.put(text, entry)
        return default if entry[1] is None else entry[1]

    def _read(self, text: str) -> Any:
        if not text or len(text) > MAX_ANNOTATION:
            return None
        if self._reader is None:
            self._reader = ObjectReader(self._kind)
        try:
            return self._reader.plain(text.encode(errors="replace"))
        except ValueError:
            return None


@cache
def annotation_reader(kind: types.ObjectType) -> AnnotationReader:
    """Return the reader of a type, the same one each time."""
    return AnnotationReader(kind)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def object_of(owner: Any, kind: types.ObjectType) -> Any:
    """Return what the API has of a `PodInfo`, a node or a group, as a record of a type.

    What is not there, or is no amount, has the zero of its type.
    """
    item = owner
    if not isinstance(owner, model.ApiObject):
        item = owner.pod if isinstance(owner, model.PodInfo) else getattr(owner, "object", None)
    try:
        return struct_of(kind)() if item is None else _of_struct(item, kind)
    except ValueError:
        return struct_of(kind)()


@cache
def decoded_as(base: type[Any], kind: types.ObjectType) -> type[Any]:
    """Return a struct that decodes what ``base`` does, and the fields of a record besides.

    It is ``base`` itself where that decodes all of them.
    """
    own = {field.encode_name: field for field in msgspec.structs.fields(base)}
    fields: list[tuple[str, Any, Any]] = []
    names: dict[str, str] = {}
    for name, inner in kind.fields:
        field = own.get(name)
        if field is None:
            fields.append((ATTRIBUTE + name, *_decoded_form(inner)))
            names[ATTRIBUTE + name] = name
            continue
        form = _extended(field.type, inner)
        if form is not field.type:
            default: Any = field.default
            if isinstance(form, type) and issubclass(form, msgspec.Struct):
                default = msgspec.field(default_factory=form)
            fields.append((field.name, form, default))
            names[field.name] = name
    if not fields:
        return base
    return msgspec.defstruct(
        base.__name__, fields, bases=(base,), rename=names, kw_only=True, omit_defaults=True,
        frozen=base.__struct_config__.frozen, gc=False,
    )  # fmt: skip


def _extended(form: Any, kind: types.Type) -> Any:
    """Return the annotation of a field that is decoded, with what is read besides."""
    parts = get_args(form)
    match kind:
        case types.ListType() if parts:
            element = _extended(parts[0], kind.element)
            return form if element is parts[0] else GenericAlias(tuple, (element, ...))
        case types.ObjectType() if isinstance(form, type) and issubclass(form, msgspec.Struct):
            return decoded_as(form, kind)
        case types.ObjectType() if parts:  # with None
            inner = _extended(parts[0], kind)
            return form if inner is parts[0] else inner | None
    return form


def _decoded_form(kind: types.Type) -> tuple[Any, Any]:
    """Return the annotation of a field that only rules read, as it is decoded, and its default."""
    match kind:
        case types.ObjectType():
            return decoded_as(model.ApiStruct, kind) | None, None
        case types.ListType():
            return GenericAlias(tuple, (_decoded_form(kind.element)[0], ...)), ()
        case types.MapType():
            mapping = GenericAlias(dict, (str, _decoded_form(kind.value)[0]))
            return mapping, msgspec.field(default_factory=dict)
        case types.QuantityType():
            return model.Amount | None, None
    if kind == types.RESOURCES:
        return dict[str, model.Amount], msgspec.field(default_factory=dict)
    return (datetime | None, None) if kind == types.TIMESTAMP else _SCALARS[kind]


def _of_struct(item: Any, kind: types.ObjectType) -> Any:
    """Return the record of an object that is decoded already."""
    own = dict(zip(item.__struct_encode_fields__, item.__struct_fields__, strict=True))
    fields = {}
    for name, inner in kind.fields:
        value = getattr(item, own[name]) if name in own else None
        if value is not None:
            fields[ATTRIBUTE + name] = _converted(value, inner)
    return struct_of(kind)(**fields)


def _converted(value: Any, kind: types.Type) -> Any:
    match kind:
        case types.ObjectType():
            return _of_struct(value, kind)
        case types.ListType():
            return tuple(_converted(item, kind.element) for item in value)
        case types.MapType():
            return {key: _converted(item, kind.value) for key, item in value.items()}
        case types.QuantityType():
            return _decoded(_Amount, value)
    if kind == types.RESOURCES:
        return _decoded(_Resources, value)
    return _Time(model.nanoseconds(value)) if kind == types.TIMESTAMP else value
