"""The messages of the API: field numbers, names and types, read from messages.json.

A message is a list of fields, each written as ``NUMBER NAME TYPE``. The number is ``-`` where a
field is read from JSON only. Types are s (string), i (int32), l (int64), b (bool), x (bytes),
another message, or map:TYPE with strings as keys. Before a type, ``*`` means repeated, and ``?``
that a zero or an empty message is written in JSON, too: the Go field is a pointer. The fields of
one that is called ``-`` belong to the message that it stands in. (The generated.proto files of
k8s.io/api and k8s.io/apimachinery.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

LEAVES: Final = frozenset({
    "Time", "MicroTime", "Quantity", "FieldsV1", "RawExtension", "ExtraValue", "IntOrString",
    "Object",
})  # fmt: skip
"""Messages that JSON writes as one value."""
DELETE_OPTIONS: Final = "DeleteOptions"


@dataclass(frozen=True, slots=True)
class MessageField:
    """One field of a message."""

    name: str
    type: str
    """One of s, i, l, b and x, or the name of a message."""
    repeated: bool = False
    mapped: bool = False
    kept: bool = False


def _field(text: str, position: int) -> tuple[int, MessageField]:
    number, name, kind = text.split()
    bare = kind.lstrip("*?")
    mapped = bare.startswith("map:")
    return -position if number == "-" else int(number), MessageField(
        name, bare.removeprefix("map:"), kind.startswith("*"), mapped, kind.startswith("?")
    )


@cache
def texts() -> dict[str, list[str]]:
    """Return the texts of all messages by name."""
    raw = Path(__file__).with_name("messages.json").read_bytes()
    return msgspec.json.decode(raw, type=dict[str, list[str]])


@cache
def fields_by_number(message: str) -> dict[int, MessageField]:
    """Return the fields of a message by number."""
    return dict(_field(text, position) for position, text in enumerate(texts()[message], 1))


def message_of(api_version: str, kind: str) -> str:
    """Return the name of a kind's message, "" if it is not known."""
    if kind == DELETE_OPTIONS:  # which clients send under any group
        return kind
    name = f"{api_version}/{kind}"
    return name if name in texts() else ""


@cache
def fields_of(message: str) -> dict[str, MessageField]:
    """Return the fields of a message by name, those of inlined messages too."""
    fields: dict[str, MessageField] = {}
    for field in fields_by_number(message).values():
        fields |= fields_of(field.type) if field.name == "-" else {field.name: field}
    return fields


_ALWAYS: Final = frozenset({"apiVersion", "kind"})
_SCALARS: Final = frozenset({"s", "i", "l", "b", "x"})


def unknown_fields(
    message: str, data: Mapping[str, Any], path: tuple[str | int, ...] = ()
) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of an object's fields that its message does not have."""
    fields = fields_of(message)
    for name, value in data.items():
        at = (*path, name)
        if not path and name in _ALWAYS:
            continue
        if name not in fields:
            yield at
            continue
        field = fields[name]
        if field.type in _SCALARS or field.type in LEAVES:
            continue
        if isinstance(value, list):
            for number, item in enumerate(value):
                if isinstance(item, dict):
                    yield from unknown_fields(field.type, item, (*at, number))
        elif isinstance(value, dict) and not field.mapped:
            yield from unknown_fields(field.type, value, at)


def fields_at(message: str, path: Sequence[str | int]) -> list[str]:
    """Return the names of the fields that the value at a path may have."""
    for step in path:
        if isinstance(step, str):
            message = fields_of(message)[step].type
    return list(fields_of(message))


def path_text(path: Sequence[str | int]) -> str:
    """Return a path as the API writes it: ``spec.containers[0].name``."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return "".join(steps).removeprefix(".")
