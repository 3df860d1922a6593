"""The messages of the API: field numbers, names and types, read from messages.json.

A message is a list of fields, each written as ``NUMBER NAME TYPE``. The number is ``-`` where a
field is read from JSON only. Types are s (string), i (int32), l (int64), b (bool), x (bytes),
another message, or map:TYPE with strings as keys. Before a type, ``*`` means repeated, and ``?``
that a zero or an empty message is written in JSON, too: the Go field is a pointer. The fields of
one that is called ``-`` belong to the message that it stands in. (The generated.proto files of
k8s.io/api and k8s.io/apimachinery.)
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

LEAVES: Final = frozenset({
    "Time", "MicroTime", "Quantity", "FieldsV1", "RawExtension", "ExtraValue", "IntOrString",
    "Object",
})  # fmt: skip
"""Messages that JSON writes as one value."""
DELETE_OPTIONS: Final = "DeleteOptions"
JSON_ONLY: Final = frozenset({
    "apiextensions.k8s.io/v1/CustomResourceDefinition", "scheduling.x-k8s.io/v1alpha1/PodGroup",
})  # fmt: skip
"""Kinds that are not read from protobuf."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message. ``type``: s, i, l, b, x, or the name of a message."""

    name: str
    type: str
    repeated: bool = False
    mapped: bool = False
    kept: bool = False


def _field(text: str, place: int) -> tuple[int, Field]:
    number, name, kind = text.split()
    bare = kind.lstrip("*?")
    mapped = bare.startswith("map:")
    return -place if number == "-" else int(number), Field(
        name, bare.removeprefix("map:"), kind.startswith("*"), mapped, kind.startswith("?")
    )


def _messages() -> dict[str, dict[int, Field]]:
    raw = Path(__file__).with_name("messages.json").read_bytes()
    found = msgspec.json.decode(raw, type=dict[str, list[str]])
    return {
        name: dict(_field(text, place) for place, text in enumerate(fields, 1))
        for name, fields in found.items()
    }


MESSAGES: Final = _messages()


def message_of(api_version: str, kind: str) -> str:
    """Return the name of a kind's message, "" if it is not known."""
    if kind == DELETE_OPTIONS:  # which clients send under any group
        return kind
    name = f"{api_version}/{kind}"
    return name if name in MESSAGES else ""
