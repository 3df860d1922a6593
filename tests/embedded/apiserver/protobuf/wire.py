"""Messages in protobuf as Go writes them: by number, not by the tables that are tested."""

from __future__ import annotations

from policy_sched.client.apimachinery.protobuf import BYTES, MAGIC, VARINT, field


def message(*fields: tuple[int, object]) -> bytes:
    """Return a message of fields: texts, bytes (messages too), numbers, truth values."""
    return b"".join(
        field(number, int(value), VARINT)
        if isinstance(value, int)
        else field(number, value.encode() if isinstance(value, str) else value, BYTES)
        for number, value in fields
    )


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    """Return the body of a request."""
    meta = message((1, api_version), (2, kind))
    return MAGIC + message((1, meta), (2, raw), (3, ""), (4, ""))


def meta(name: str, namespace: str = "default") -> bytes:
    """Return an object's metadata, with the empty fields that Go writes."""
    empty = ((4, ""), (5, ""), (6, ""), (7, 0), (8, b""))
    return message((1, name), (2, ""), (3, namespace), *empty)
