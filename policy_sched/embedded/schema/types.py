"""The types of all fields of all kinds: what an object must have before anything reads it.

Theory of operation: each message of the tables becomes a msgspec struct, made when it is first
needed, and an object is decoded into the struct of its kind. That takes microseconds and finds the
first value of a wrong type; `_refusal` has kube-apiserver's words. Fields that a
message does not have are let pass: `field_validation` looks at them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Final

import msgspec

from policy_sched.client.apimachinery import ApiError, cannot_be_handled
from policy_sched.manifests import Plain
from policy_sched.model import FORMAT_WRONG, Int32, Int64, Kind, messages, nanos

JSON_ONLY: Final = frozenset({
    "apiextensions.k8s.io/v1/CustomResourceDefinition", "scheduling.x-k8s.io/v1alpha1/PodGroup",
})  # fmt: skip
"""Kinds that are not read from protobuf."""
_AT: Final = re.compile(r" - at `\$(.*)`$", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_ZERO: Final[dict[str, Any]] = {"s": "", "x": "", "i": 0, "l": 0, "b": False, "Quantity": "0"}
"""The value that Go reads for a null in a list or a map."""
_GO: Final = {
    "s": "string", "x": "[]uint8", "i": "int32", "l": "int64", "b": "bool",
    "Time": "v1.Time", "MicroTime": "v1.MicroTime", "Quantity": "resource.Quantity",
    "IntOrString": "intstr.IntOrString", "ExtraValue": "v1.ExtraValue", "FieldsV1": "v1.FieldsV1",
    "RawExtension": "runtime.RawExtension", "Object": "map[string]interface {}",
}  # fmt: skip
_SPECIFIED: Final = frozenset({
    "DaemonSet", "Deployment", "Job", "Node", "PersistentVolume", "PersistentVolumeClaim", "Pod",
    "PodDisruptionBudget", "ReplicaSet", "ReplicationController", "Service", "StatefulSet",
})  # fmt: skip
"""Kinds whose objects always have a specification, if only an empty one."""
DEPTH: Final = 250
"""How many objects and lists of an object may lie in each other: fewer than Python can follow."""
_BYTES: Final = 100
"""Bytes of a wrong value that a refusal repeats."""


class _Quantity:
    """Stands for the type of a quantity."""


class _Base64:
    """Stands for the type of bytes."""


_SCALARS: Final[dict[str, Any]] = {
    "s": str, "x": _Base64, "i": Int32, "l": Int64, "b": bool, "Quantity": _Quantity,
    "Time": Annotated[datetime, msgspec.Meta(tz=True)],
    "MicroTime": Annotated[datetime, msgspec.Meta(tz=True)],
    "IntOrString": Int32 | str, "ExtraValue": list[str | None], "FieldsV1": Any,
    "RawExtension": Any, "Object": dict[str, Any],
}  # fmt: skip


def typed(kind: Kind, data: Plain, part: str = "") -> Plain:
    """Return an object, made of JSON, in which all fields have the types of its kind.

    ``part``: the message of a part of an object that this is, instead of the kind's.

    Nulls are removed: a field that is null is left out, an item that is null is the zero of its
    type. A specification that is missing is empty, where the kind has one.
    Raises ApiError (400) that names the first field of another type, or if objects and lists
    lie more than DEPTH deep.
    """
    message = part or messages.message_of(*kind)
    try:
        raw = msgspec.json.encode(data)
    except (UnicodeEncodeError, RecursionError, OverflowError) as error:
        raise cannot_be_handled(kind, f"json: {error}") from None
    if raw.count(b"{") + raw.count(b"[") > DEPTH and _deeper(data, DEPTH):
        raise cannot_be_handled(kind, "exceeded max depth")
    if not message:
        return data
    try:
        _decoder(message).decode(raw)
    except msgspec.ValidationError as error:
        raise _refusal(kind, message, data, str(error)) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise cannot_be_handled(kind, f"json: {error}") from None
    if b"null" in raw:
        data = _without_nulls(message, data)
    if kind[1] in _SPECIFIED and "spec" not in data and not part:
        data["spec"] = {}
    return data


def _deeper(data: Plain, most: int) -> bool:
    """Return whether more than so many objects and lists lie in each other."""
    level: list[Any] = [data]
    for _ in range(most):
        inside: list[Any] = []
        for value in level:
            items = value.values() if isinstance(value, dict) else value
            inside += [item for item in items if isinstance(item, dict | list)]
        if not inside:
            return False
        level = inside
    return True


@cache
def _decoder(message: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_struct(message), dec_hook=_leaf)


@cache
def _struct(message: str) -> type:
    names = {f"f{at}": name for at, name in enumerate(messages.fields_of(message))}
    fields: list[tuple[str, Any, Any]] = [
        (field, _type(messages.fields_of(message)[name]) | None, None)
        for field, name in names.items()
    ]
    if "/" in message:
        names |= {"kind": "kind", "version": "apiVersion"}
        fields += [(field, str | None, None) for field in ("kind", "version")]
    return msgspec.defstruct("Message", fields, rename=names, gc=False)


def _type(field: messages.MessageField) -> Any:
    item = _SCALARS[field.type] if field.type in _SCALARS else _struct(field.type)
    if field.mapped:
        return dict[str, item | None]  # type: ignore[valid-type] # a type made at run time
    return list[item | None] if field.repeated else item  # type: ignore[valid-type]


def _leaf(wanted: type, value: Any) -> Any:
    """Check a value whose type JSON does not have."""
    if wanted is _Quantity:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise TypeError
        nanos(str(value))
    elif not isinstance(value, str):
        raise TypeError
    else:
        try:
            base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
        except binascii.Error:
            raise ValueError("illegal base64 data") from None
    return wanted()


# Refusals.


def _refusal(kind: Kind, message: str, data: Plain, error: str) -> ApiError:
    """Return the refusal of kube-apiserver for what msgspec found: field, type and value."""
    match = _AT.search(error)
    path = match[1] if match else ""
    value, owner, field, inside, shown = _value_at(message, data, path)
    names = ".".join(name for name, _ in _STEP.findall(path) if name)
    go = f"Go struct field {_go_name(owner)}.{names} of type {_go_type(field, inside=inside)}"
    is_text = isinstance(value, str)
    match field.type:
        case "Quantity" if isinstance(value, str | int | float) and not isinstance(value, bool):
            return cannot_be_handled(kind, f"{shown}: {FORMAT_WRONG}")
        case "x" if is_text:
            return cannot_be_handled(kind, f"{shown}: illegal base64 data")
        case "Time" | "MicroTime" if is_text:
            text = f'parsing time "{value[:_BYTES]}" as "2006-01-02T15:04:05Z07:00"'
            return cannot_be_handled(kind, f"{shown}: {text}: cannot parse")
    what = _json_type(value)
    if isinstance(value, int | float) and field.type in ("i", "l", "IntOrString"):
        what = f"number {value}" if not isinstance(value, bool) else what
    return cannot_be_handled(kind, f"json: cannot unmarshal {what[:_BYTES]} into {go}")


def _value_at(
    message: str, data: Plain, path: str
) -> tuple[Any, str, messages.MessageField, bool, str]:
    """Return a path's value, its message, its field, whether an item is meant, and the path."""
    value: Any = data
    owner, field, inside, shown = message, messages.MessageField("", message), False, ""
    for name, index in _STEP.findall(path):
        if name:
            owner = field.type
            field = messages.fields_of(owner).get(name) or messages.MessageField(
                name, "s"
            )  # kind and apiVersion
            value, inside = value.get(name), False
            shown += f".{name}" if shown else name
        elif index == "...":
            key, value = next(_wrong(field, value), ("", None))
            inside = True
            shown += f".{key}"
        else:
            value, inside = value[int(index)], True
            shown += f"[{index}]"
    return value, owner, field, inside, shown


def _wrong(field: messages.MessageField, items: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the entries of a map that are not of its type."""
    item = _SCALARS[field.type] if field.type in _SCALARS else _struct(field.type)
    for key, value in items.items():
        try:
            msgspec.convert(value, item | None, dec_hook=_leaf)
        except msgspec.ValidationError:
            yield key, value


def _go_name(message: str) -> str:
    return message.rpartition("/")[2]


def _go_type(field: messages.MessageField, *, inside: bool) -> str:
    item = _GO.get(field.type) or f"v1.{_go_name(field.type)}"
    if inside:
        return item
    return f"map[string]{item}" if field.mapped else f"[]{item}" if field.repeated else item


def _json_type(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


# Nulls.


def _without_nulls(message: str, data: Plain) -> Plain:
    """Return an object without nulls, as Go reads it."""
    fields = messages.fields_of(message)
    result: Plain = {}
    for name, value in data.items():
        field = fields.get(name)
        if value is not None:
            result[name] = _filled(field, value) if field is not None else value
    return result


def _filled(field: messages.MessageField, value: Any) -> Any:
    if field.mapped:
        return {key: _item(field, item) for key, item in value.items()}
    if field.repeated:
        return [_item(field, item) for item in value]
    return _item(field, value)


def _item(field: messages.MessageField, value: Any) -> Any:
    if field.type in messages.LEAVES or field.type in _ZERO:
        return _ZERO.get(field.type) if value is None else value
    return _without_nulls(field.type, {} if value is None else value)
