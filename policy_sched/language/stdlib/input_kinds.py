"""The kinds of objects that may be inputs without a schema, and the types of their fields."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import inspect

from policy_sched import model
from policy_sched.language.values import types

_SCALARS: Final[tuple[tuple[type, types.Type], ...]] = (
    (inspect.BoolType, types.BOOL),
    (inspect.IntType, types.INT),
    (inspect.FloatType, types.DOUBLE),
    (inspect.StrType, types.STRING),
    (inspect.DateTimeType, types.TIMESTAMP),
)
_NOT_INPUTS: Final = frozenset({model.Pod})
"""Rules read pods as `pod`, and those of nodes and domains."""
_AMOUNT: Final = inspect.type_info(model.Amount)


class InputKind(msgspec.Struct, frozen=True):
    """A kind that needs no schema; ``namespaced``: it has namespaces.

    ``plural``: its resource where that does not follow from the kind.
    """

    type: types.RecordType
    namespaced: bool
    plural: str = ""


@cache
def kinds_of_inputs() -> Mapping[tuple[str, str], InputKind]:
    """Return the kinds that need no schema, by apiVersion and kind."""
    kinds: dict[tuple[str, str], InputKind] = {}
    for kind, struct in model.KINDS.items():
        if struct not in _NOT_INPUTS:
            record = _record(inspect.type_info(struct))
            kinds[kind] = InputKind(record, kind[1] not in model.CLUSTER_SCOPED)
    rows = tomllib.loads(Path(__file__).with_name("inputs.toml").read_text(encoding="utf-8"))
    for title, row in rows.items():
        version, _, name = title.rpartition(" ")
        written = types.parse_type(row["fields"])
        assert isinstance(written, types.RecordType)
        kinds[version, name] = InputKind(written, row["namespaced"], row.get("plural", ""))
    return kinds


def _record(struct: Any) -> types.RecordType:
    fields = []
    for field in struct.fields:
        head = field.encode_name in ("apiVersion", "kind", "metadata")
        kind = None if head else _type(field.type)
        if kind is not None:
            fields.append((field.encode_name, kind))
    return types.RecordType("record", tuple(fields))


def _type(info: inspect.Type) -> types.Type | None:
    """Return the type of a field; None for one that rules have no type for."""
    if info == _AMOUNT:
        return types.QUANTITY
    match info:
        case inspect.UnionType():
            inner = [one for one in info.types if not isinstance(one, inspect.NoneType)]
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
