"""The bodies of requests: JSON, YAML and protobuf, read into plain data."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from policy_sched.embedded.apiserver.protobuf import decoding
from policy_sched.embedded.apiserver.registry import JSON, too_large, unreadable, unsupported
from policy_sched.embedded.schema import typed
from policy_sched.source import Marked, SourceFile, parse_documents, plain_documents

YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
TYPES: Final = (JSON, YAML, PROTOBUF)
YAML_BYTES: Final = 128 * 1024
"""Bytes that YAML may have: it takes ten times as long to read as JSON."""
REREAD_BYTES: Final = 16 * 1024
"""Bytes of YAML with duplicate keys or unknown tags, which is read again, ten times slower."""
VALUES: Final = 20_000
"""Values that an object or a patch may have: each is visited many times on the way to the store."""
_PARTS: Final = {
    "Binding": "v1", "Eviction": "policy/v1", "Scale": "autoscaling/v1",
    "TokenRequest": "authentication.k8s.io/v1",
}  # fmt: skip
"""The versions of what subresources read."""
_WHY: Final = "couldn't get version/kind; json parse error"


def media_type(header: str) -> str:
    """Return the media type of a Content-Type header, JSON if there is none."""
    return header.partition(";")[0].strip().lower() or JSON


def decoded(body: bytes, kind: str) -> Any:
    """Return a body's JSON. Raises ApiError if it is none."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise unreadable(kind, f"{_WHY}: {error}", body) from None


def object_data(body: bytes, content_type: str, kind: str) -> Any:
    """Return what a body holds, in the encoding that its type names. Raises ApiError."""
    match media_type(content_type):
        case "application/json":
            data = decoded(body, kind)
            check_values(data, body)
            return data
        case "application/yaml":
            data = yaml_data(body, kind)
        case "application/vnd.kubernetes.protobuf":
            data = _protobuf(body, kind)
        case _:
            raise unsupported(TYPES)
    check_values(data)
    return data


def check_values(data: Any, raw: bytes | None = None) -> None:
    """Raise ApiError if JSON data consists of too many values; ``raw`` is its JSON, if known."""
    if raw is not None and sum(map(raw.count, (b",", b"{", b"["))) < VALUES:
        return
    room, level = VALUES, [data]
    while level:
        inner: list[Any] = []
        for one in level:
            room -= len(one) if isinstance(one, dict | list) else 0
            if room < 0:
                raise too_large(f"limit of an object is {VALUES} values")
            items = one.values() if isinstance(one, dict) else one
            inner += [item for item in items if isinstance(item, dict | list)]
        level = inner


def yaml_data(body: bytes, kind: str) -> Any:
    """Return the one document of a YAML body, which may be JSON. Raises ApiError."""
    if body.lstrip()[:1] == b"{":
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            pass  # YAML in its own braces
    if len(body) > YAML_BYTES:
        raise too_large(f"limit of YAML is {YAML_BYTES}, send JSON")
    try:
        file = SourceFile("body", body.decode())
        plain, problems = plain_documents(file)
        if len(plain) == 1 and not problems and (json := plain[0].json()) is not None:
            return msgspec.json.decode(json)
        if len(body) > REREAD_BYTES and not problems:
            raise too_large(f"limit of YAML with duplicate keys or unknown tags is {REREAD_BYTES}")
        documents: list[Marked] = []
        if not problems:
            documents, problems = parse_documents(file)
    except (UnicodeDecodeError, RecursionError) as error:
        raise unreadable(kind, f"error converting YAML to JSON: yaml: {error}", body) from None
    if problems:
        first = problems[0]
        why = f"error converting YAML to JSON: yaml: line {first.line}: {first.message}"
        raise unreadable(kind, why, body)
    if len(documents) != 1:
        raise unreadable(kind, f"{len(documents)} documents, expected one", body)
    return documents[0].value


def object_of_kind(body: bytes, content_type: str, kind: str) -> dict[str, Any]:
    """Return the object of a kind that a body holds: of a subresource. Raises ApiError."""
    data = object_data(body, content_type, kind)
    if not isinstance(data, dict) or data.get("kind") not in (None, kind):
        raise unreadable(kind, "couldn't get version/kind", body)
    return typed((_PARTS[kind], kind), data)


def _protobuf(body: bytes, kind: str) -> Any:
    try:
        return decoding.read(body)
    except decoding.NotReadError:
        raise unsupported((JSON, YAML)) from None
    except (ValueError, RecursionError, msgspec.DecodeError) as error:
        raise unreadable(kind, str(error), body) from None
