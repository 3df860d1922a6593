"""Protobuf as Go writes it, for tests: by number, not by the tables that are tested."""

from __future__ import annotations


def varint(value: int) -> bytes:
    """Return a number, seven bits a byte; a negative one as 64 bits."""
    value %= 2**64
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def message(*fields: tuple[int, object]) -> bytes:
    """Return a message of fields: texts, bytes (messages too), numbers, truth values."""
    found = b""
    for number, value in fields:
        if isinstance(value, int):
            found += varint(number << 3) + varint(int(value))
            continue
        raw = value.encode() if isinstance(value, str) else value
        assert isinstance(raw, bytes)
        found += varint(number << 3 | 2) + varint(len(raw)) + raw
    return found


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    """Return the body of a request."""
    meta = message((1, api_version), (2, kind))
    return b"k8s\0" + message((1, meta), (2, raw), (3, ""), (4, ""))


def meta(name: str, namespace: str = "default") -> bytes:
    """Return an object's metadata, with the empty fields that Go writes."""
    empty = ((4, ""), (5, ""), (6, ""), (7, 0), (8, b""))
    return message((1, name), (2, ""), (3, namespace), *empty)
