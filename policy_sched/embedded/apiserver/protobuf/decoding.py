"""Protobuf read into the JSON that it stands for.

Fields that the tables do not have are skipped, as in proto3: a client may be newer.
"""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from policy_sched.client.apimachinery import BYTES, MAGIC, VARINT, fields
from policy_sched.embedded import schema
from policy_sched.manifests import Plain
from policy_sched.model import EPOCH, messages

DEPTH: Final = 32
"""Messages within messages; those of the tables are not deeper."""
_NAMES: Final = {"s": BYTES, "x": BYTES, "i": VARINT, "l": VARINT, "b": VARINT}
_FIRST: Final = datetime(1, 1, 1, tzinfo=EPOCH.tzinfo)


class NotReadError(ValueError):
    """The kind of an object is not in the tables."""


def read(body: bytes) -> Plain:
    """Return the object of a body. Raises ValueError if it is none, NotReadError if unknown."""
    if not body.startswith(MAGIC):
        raise ValueError("provided data does not appear to be a protobuf message, expected prefix")
    outer = _message(memoryview(body)[len(MAGIC) :], "Unknown", 0, raw=True)
    meta = outer.get("typeMeta") or {}
    api_version, kind = meta.get("apiVersion", ""), meta.get("kind", "")
    if outer.get("contentEncoding") or outer.get("contentType"):
        raise NotReadError(f"{kind}: encoded another time")
    name = messages.message_of(api_version, kind)
    if not name or name in schema.JSON_ONLY:
        raise NotReadError(f'no kind "{kind}" is read as protobuf in version "{api_version}"')
    message = _message(memoryview(outer.get("raw", b"")), name, 0)
    return {"kind": kind, "apiVersion": api_version, **message}


def _message(data: memoryview, name: str, depth: int, *, raw: bool = False) -> Plain:
    """Return a message. ``raw``: bytes stay bytes."""
    if depth > DEPTH:
        raise ValueError("messages within messages, too deep")
    message_fields = messages.fields_by_number(name)
    message: Plain = {}
    for number, wire, value in fields(data):
        field = message_fields.get(number)
        if field is None:
            continue
        if wire != _NAMES.get(field.type, BYTES):
            raise ValueError(f"proto: wrong wireType = {wire} for field {field.name}")
        if field.mapped:
            key, item = _entry(value, field, depth)
            message.setdefault(field.name, {})[key] = item
            continue
        item = _value(value, field.type, depth, raw=raw)
        if field.repeated:
            message.setdefault(field.name, []).append(item)
        elif field.name == "-":
            message |= item
        elif item or field.kept:
            message[field.name] = item
        else:
            message.pop(field.name, None)
    return message


def _entry(data: Any, field: messages.MessageField, depth: int) -> tuple[str, Any]:
    """Return key and value of a map's entry."""
    key, item = "", _value(_empty(field.type), field.type, depth)
    for number, _, value in fields(data):
        if number == 1:
            key = _value(value, "s", depth)
        elif number == 2:
            item = _value(value, field.type, depth)
    return key, item


def _empty(kind: str) -> Any:
    return 0 if _NAMES.get(kind) == VARINT else memoryview(b"")


def _value(value: Any, kind: str, depth: int, *, raw: bool = False) -> Any:
    match kind:
        case "s":
            return _bytes(value).decode()
        case "x":
            return bytes(value) if raw else base64.b64encode(_bytes(value)).decode()
        case "b":
            return bool(value)
        case "i" | "l":
            return value - 2**64 if value >= 2**63 else value
    if kind in messages.LEAVES:
        return _leaf(_bytes(value), kind)
    return _message(value, kind, depth + 1, raw=raw)


def _bytes(value: Any) -> bytes:
    if isinstance(value, int):
        raise ValueError("proto: wrong wireType = 0")  # noqa: TRY004 - the body is at fault
    return bytes(value)


def _leaf(data: bytes, kind: str) -> Any:
    numbered: dict[int, Any] = {}
    items: list[str] = []
    for number, _, value in fields(memoryview(data)):
        numbered[number] = value
        if kind == "ExtraValue":
            items.append(_bytes(value).decode())
    match kind:
        case "ExtraValue":
            return items
        case "Quantity":
            return _bytes(numbered.get(1, b"")).decode() or "0"
        case "IntOrString":
            if numbered.get(1):
                return _bytes(numbered.get(3, b"")).decode()
            return _value(_number(numbered.get(2, 0)), "i", 0)
        case "Object":
            return {}
        case "FieldsV1" | "RawExtension":
            return msgspec.json.decode(_bytes(numbered.get(1, b"{}")))
    return _time(numbered, micro=kind == "MicroTime")


def _time(fields: dict[int, Any], *, micro: bool) -> str:
    """Return a time as text, "" if it is the zero of Go's times."""
    if not fields:
        return ""
    seconds, nanos = (_value(_number(fields.get(i, 0)), "i", 0) for i in (1, 2))
    try:
        time = EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise ValueError("a time out of range") from None
    if time == _FIRST:
        return ""
    fraction = f".{time.microsecond:06}" if micro else ""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S').rjust(19, '0')}{fraction}Z"


def _number(value: Any) -> int:
    if not isinstance(value, int):
        raise ValueError("proto: wrong wireType = 2")  # noqa: TRY004 - the body is at fault
    return value
