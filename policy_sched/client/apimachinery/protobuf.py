"""Objects in protobuf: fields as they lie on the wire, and changes that leave all others alone.

The API keeps what drivers of devices read as bytes. JSON cannot hold these: an API server writes
them without white space, and with <, > and & escaped. A patch, and an update in JSON, therefore
change them on the way; where the field that holds them is immutable, the request is refused. An
object that is read and written in protobuf keeps its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
MAGIC: Final = b"k8s\x00"
"""What an object begins with; a message Unknown follows, whose field RAW is the object."""
RAW: Final = 2
VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5
_TIME: Final = "time"
_TEXT: Final = "text"
_CONSUMER: Final = {"apiGroup": (1, _TEXT), "resource": (3, _TEXT), "name": (4, _TEXT)}
_UID: Final = 5
_Shape = Mapping[str, tuple[int, Any]]
_CLAIM: Final[_Shape] = {
    "metadata": (
        1,
        {"uid": (_UID, _TEXT), "resourceVersion": (6, _TEXT), "finalizers": (14, _TEXT)},
    ),
    "status": (
        3,
        {
            "allocation": (1, {"allocationTimestamp": (5, _TIME)}),
            "reservedFor": (2, {**_CONSUMER, "uid": (_UID, _TEXT)}),
        },
    ),
}
"""The fields of a ResourceClaim that change while it is allocated, by number (generated.proto)."""


def fields(data: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Yield number, wire type and value of each field: an int, or a part of ``data``.

    Raises ValueError where it is no message.
    """
    at, end = 0, len(data)
    while at < end:
        key, at = _read_varint(data, at)
        number, wire = key >> 3, key & 7
        if not number:
            raise ValueError("proto: illegal tag 0")
        if wire == VARINT:
            value, at = _read_varint(data, at)
            yield number, wire, value
            continue
        if wire == BYTES:
            length, at = _read_varint(data, at)
        elif wire in (EIGHT, FOUR):
            length = 8 if wire == EIGHT else 4
        else:
            raise ValueError(f"proto: illegal wireType {wire}")
        if length > end - at:
            raise ValueError("unexpected EOF")
        yield number, wire, data[at : at + length]
        at += length


def _read_varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        if at >= len(data):
            raise ValueError("unexpected EOF")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), at
        shift += 7
    raise ValueError("proto: integer overflow")


def field(number: int, value: Any, wire: int = BYTES) -> bytes:
    """Return a field as it lies on the wire."""
    head = varint(number << 3 | wire)
    if wire == VARINT:
        return head + varint(value)
    return head + (varint(len(value)) if wire == BYTES else b"") + bytes(value)


def varint(value: int) -> bytes:
    """Return a number, seven bits a byte; a negative one as 64 bits."""
    value %= 2**64
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def changed_claim(body: bytes, change: Mapping[str, Any]) -> bytes:
    """Return a ResourceClaim in protobuf after a change of the fields of `_CLAIM`.

    ``change`` is a patch in JSON: null removes a field, a list replaces the former one, unless its
    items say ``"$patch": "delete"``: these are taken off it by UID. All other fields stay as they
    are, known or not. Raises ValueError if the body is no object.
    """
    if not body.startswith(MAGIC):
        raise ValueError("no protobuf message of an API server")
    outer = list(fields(memoryview(body)[len(MAGIC) :]))
    claim = b"".join(value for number, _, value in outer if number == RAW)
    kept = b"".join(field(number, value, wire) for number, wire, value in outer if number != RAW)
    return MAGIC + kept + field(RAW, _merged(claim, change, _CLAIM))


def _merged(data: bytes, change: Mapping[str, Any], shape: _Shape) -> bytes:
    present = list(fields(memoryview(data)))
    for name, value in change.items():
        number, inner = shape[name]
        former = [bytes(old) for n, wire, old in present if n == number and wire == BYTES]
        present = [entry for entry in present if entry[0] != number]
        present += [(number, BYTES, entry) for entry in _values(former, value, inner)]
    return b"".join(field(number, value, wire) for number, wire, value in present)


def _values(former: list[bytes], value: Any, inner: Any) -> list[bytes]:
    """Return the values of a field after its change."""
    match value:
        case None:
            return []
        case str() if inner == _TIME:
            seconds = int(datetime.fromisoformat(value).timestamp())
            return [field(1, seconds, VARINT)]
        case str():
            return [value.encode()]
        case [{"$patch": "delete"}, *_]:
            gone = {entry["uid"].encode() for entry in value}
            return [entry for entry in former if _uid(entry) not in gone]
        case list():
            return [new for item in value for new in _values([], item, inner)]
    return [_merged(b"".join(former), value, inner)]


def _uid(consumer: bytes) -> bytes:
    return b"".join(value for number, _, value in fields(memoryview(consumer)) if number == _UID)
