"""The messages that are read: field numbers, names and types.

The tables have one message per line: ``NAME: NUMBER FIELD TYPE, ...``. Types are s (string),
i (int), b (bool), x (bytes), another message, or map:TYPE with strings as keys. Before a type,
``*`` means repeated, and ``?`` that a zero or an empty message is written in JSON, too: the Go
field is a pointer. The fields of one that is called ``-`` belong to the message that it stands
in. (The generated.proto files of k8s.io/api and k8s.io/apimachinery.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from policy_sched.apiserver.protobuf.cluster_kinds import CLUSTER
from policy_sched.apiserver.protobuf.device_kinds import DEVICES
from policy_sched.apiserver.protobuf.small_kinds import SMALL
from policy_sched.apiserver.protobuf.workload_kinds import WORKLOADS

LEAVES: Final = frozenset({
    "Time", "MicroTime", "Quantity", "FieldsV1", "RawExtension", "ExtraValue", "IntOrString",
})  # fmt: skip
"""Messages that JSON writes as one value."""
DELETE_OPTIONS: Final = "DeleteOptions"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message. ``type``: s, i, b, x, or the name of a message."""

    name: str
    type: str
    repeated: bool = False
    mapped: bool = False
    kept: bool = False


def _field(text: str) -> tuple[int, Field]:
    number, name, kind = text.split()
    bare = kind.lstrip("*?")
    mapped = bare.startswith("map:")
    return int(number), Field(
        name, bare.removeprefix("map:"), kind.startswith("*"), mapped, kind.startswith("?")
    )


def _messages() -> dict[str, dict[int, Field]]:
    found = {}
    for line in (SMALL + CLUSTER + DEVICES + WORKLOADS).splitlines():
        name, colon, fields = line.partition(": ")
        if colon:
            found[name] = dict(_field(part) for part in fields.split(", "))
    return found


MESSAGES: Final = _messages()


def message_of(api_version: str, kind: str) -> str:
    """Return the name of a kind's message, "" if it is not read here."""
    if kind == DELETE_OPTIONS:  # which clients send under any group
        return kind
    name = f"{api_version}/{kind}"
    return name if name in MESSAGES else ""
