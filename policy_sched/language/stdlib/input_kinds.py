"""The kinds of objects that may be inputs without a schema, and the types of their fields."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import inspect

from policy_sched import model
from policy_sched.language.values import decoded_as, types

_SCALARS: Final[tuple[tuple[type, types.Type], ...]] = (
    (inspect.BoolType, types.BOOL),
    (inspect.IntType, types.INT),
    (inspect.FloatType, types.DOUBLE),
    (inspect.StrType, types.STRING),
    (inspect.DateTimeType, types.TIMESTAMP),
)
_OF_RECORDS: Final[dict[str, tuple[str, tuple[type[model.ApiObject], ...]]]] = {
    "Pod": ("pod.object", (model.Pod,)),
    "Node": ("node.object", (model.Node,)),
    "PodGroup": ("podGroup.object", (model.PodGroup, model.CoschedulingGroup)),
}
"""Records with a field `object`: what its type is called, and what it is read from."""
_NOT_INPUTS: Final = frozenset({("v1", "Pod")})
"""Rules read pods as `pod`, and those of nodes and domains."""
_VERSIONS: Final = frozenset({"resourceVersion", "generation", "generateName"})
"""Metadata that changes with each write, and says nothing."""
_AMOUNT: Final = inspect.type_info(model.Amount)
_PART: Final = re.compile(r"\$([A-Z]+)")


class InputKind(msgspec.Struct, frozen=True):
    """A kind that needs no schema; ``namespaced``: it has namespaces.

    ``type`` has the object's fields, its metadata among them. ``plural``: its resource where that
    does not follow from the kind.
    """

    type: types.RecordType
    namespaced: bool
    plural: str = ""


@cache
def _rows() -> Mapping[tuple[str, str], Mapping[str, Any]]:
    text = Path(__file__).with_name("inputs.toml").read_text(encoding="utf-8")
    rows = {}
    for title, row in tomllib.loads(text).items():
        version, _, name = title.rpartition(" ")
        rows[version, name] = row
    return rows


@cache
def _input_kind(kind: tuple[str, str]) -> InputKind:
    """Return a kind; reading the fields of one takes milliseconds, and few are read."""
    struct, row = model.KINDS.get(kind), _rows().get(kind)
    own = None if struct is None else _record(inspect.type_info(struct))
    namespaced = kind[1] not in model.CLUSTER_SCOPED
    if row is None:
        assert own is not None
        return InputKind(own, namespaced)
    text = row["fields"]
    while _PART.search(text):
        for part in set(_PART.findall(text)):
            text = text.replace(f"${part}", row[part])
    written: types.Type = types.parse_type(text)
    if own is None:
        namespaced = row["namespaced"]
    else:
        written = _merged(own, written)
    assert isinstance(written, types.RecordType)
    return InputKind(written, namespaced, row.get("plural", ""))


@cache
def kinds_of_inputs() -> Mapping[tuple[str, str], InputKind]:
    """Return the kinds that need no schema, by apiVersion and kind."""
    kinds = dict.fromkeys((*model.KINDS, *_rows()))
    return {kind: _input_kind(kind) for kind in kinds if kind not in _NOT_INPUTS}


@cache
def core_object(record: str) -> types.ObjectType:
    """Return the type of the field `object` of a record of the environment."""
    name, structs = _OF_RECORDS[record]
    merged: types.Type = types.RecordType("record")
    for kind, struct in model.KINDS.items():
        if struct in structs:
            merged = _merged(merged, _input_kind(kind).type)
    assert isinstance(merged, types.RecordType)
    fields = dict(merged.fields)
    meta = fields["metadata"]
    assert isinstance(meta, types.RecordType)
    kept = tuple((key, kind) for key, kind in meta.fields if key not in _VERSIONS)
    fields["metadata"] = types.RecordType("record", kept)
    return object_type(types.RecordType("record", tuple(fields.items())), name)


def decoded_structs(
    objects: Iterable[types.ObjectType],
) -> dict[tuple[str, str], type[model.ApiObject]]:
    """Return how kinds are decoded of which rules read more than scheduling does, by kind.

    ``objects``: what they read, as parts of what `core_object` returns.
    """
    structs: dict[tuple[str, str], type[model.ApiObject]] = {}
    for read in objects:
        own = next(structs for name, structs in _OF_RECORDS.values() if name == read.name)
        for kind, struct in model.KINDS.items():
            if struct in own:
                made = decoded_as(structs.get(kind, struct), read)
                if made is not struct:
                    structs[kind] = made
    return structs


def object_type(kind: types.RecordType, name: str) -> types.ObjectType:
    """Return a record type as that of an object; the name of each part is its path."""
    typed = [(key, _named(inner, f"{name}.{key}")) for key, inner in kind.fields]
    return types.ObjectType(name, tuple(typed))


def _named(kind: types.Type, name: str) -> types.Type:
    match kind:
        case types.ListType():
            return types.list_of(_named(kind.element, name))
        case types.MapType():
            return types.map_of(kind.key, _named(kind.value, name))
        case types.QuantityType():
            return types.quantity_of("free")
        case types.RecordType():
            return object_type(kind, name)
    return kind


def _merged(first: types.Type, second: types.Type) -> types.Type:
    """Return a type with the fields of both; the first counts where they differ."""
    match first, second:
        case types.RecordType(), types.RecordType():
            fields = dict(first.fields)
            for name, kind in second.fields:
                fields[name] = _merged(fields[name], kind) if name in fields else kind
            return types.RecordType("record", tuple(fields.items()))
        case types.ListType(), types.ListType():
            return types.list_of(_merged(first.element, second.element))
    return first


def _record(struct: Any) -> types.RecordType:
    fields = []
    for field in struct.fields:
        kind = None if field.encode_name in ("apiVersion", "kind") else _type(field.type)
        if kind is not None:
            fields.append((field.encode_name, kind))
    return types.RecordType("record", tuple(fields))


def _type(info: inspect.Type) -> types.Type | None:
    """Return the type of a field; None for one that rules have no type for."""
    if info == _AMOUNT:
        return types.QUANTITY
    match info:
        case inspect.UnionType():
            inner = [member for member in info.types if not isinstance(member, inspect.NoneType)]
            return _type(inner[0]) if len(inner) == 1 else None
        case inspect.VarTupleType():
            element = _type(info.item_type)
            return None if element is None else types.list_of(element)
        case inspect.DictType():
            value = _type(info.value_type)
            if value == types.QUANTITY:
                return types.RESOURCES
            return None if value is None else types.map_of(types.STRING, value)
        case inspect.StructType():
            return _record(info) if info.fields else None
    return next((kind for form, kind in _SCALARS if isinstance(info, form)), None)
