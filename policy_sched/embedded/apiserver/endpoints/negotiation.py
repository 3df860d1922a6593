"""Content negotiation: accepted media types, and bodies of requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from policy_sched.client import apimachinery
from policy_sched.embedded import schema
from policy_sched.embedded.apiserver import registry
from policy_sched.embedded.apiserver.protobuf import decoding
from policy_sched.embedded.apiserver.request import Sent
from policy_sched.manifests import Plain
from policy_sched.model import messages
from policy_sched.source import Marked, SourceFile, parse_documents, plain_documents

YAML: Final = "application/yaml"
TYPES: Final = (registry.JSON, YAML, apimachinery.PROTOBUF)
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
    return header.partition(";")[0].strip().lower() or registry.JSON


def decoded(body: bytes, kind: str) -> Any:
    """Return a body's JSON. Raises ApiError if it is none."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise registry.unreadable(kind, f"{_WHY}: {error}", body) from None


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
            raise registry.unsupported(TYPES)
    check_values(data)
    return data


def check_values(data: Any, raw: bytes | None = None) -> None:
    """Raise ApiError if JSON data consists of too many values; ``raw`` is its JSON, if known."""
    if raw is not None and sum(map(raw.count, (b",", b"{", b"["))) < VALUES:
        return
    room = VALUES
    level: list[Any] = [data] if isinstance(data, dict | list) else []
    while level:
        inner: list[Any] = []
        for value in level:
            room -= len(value)
            if room < 0:
                raise registry.too_large(f"limit of an object is {VALUES} values")
            items = value.values() if isinstance(value, dict) else value
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
        raise registry.too_large(f"limit of YAML is {YAML_BYTES}, send JSON")
    try:
        file = SourceFile("body", body.decode())
        plain, problems = plain_documents(file)
        if len(plain) == 1 and not problems and (json := plain[0].json()) is not None:
            return msgspec.json.decode(json)
        if len(body) > REREAD_BYTES and not problems:
            raise registry.too_large(
                f"limit of YAML with duplicate keys or unknown tags is {REREAD_BYTES}"
            )
        documents: list[Marked] = []
        if not problems:
            documents, problems = parse_documents(file)
    except (UnicodeDecodeError, RecursionError) as error:
        raise registry.unreadable(
            kind, f"error converting YAML to JSON: yaml: {error}", body
        ) from None
    if problems:
        first = problems[0]
        why = f"error converting YAML to JSON: yaml: line {first.line}: {first.message}"
        raise registry.unreadable(kind, why, body)
    if len(documents) != 1:
        raise registry.unreadable(kind, f"{len(documents)} documents, expected one", body)
    return documents[0].value


def object_of_kind(body: bytes, content_type: str, kind: str) -> dict[str, Any]:
    """Return the object of a kind that a body holds: of a subresource. Raises ApiError."""
    data = object_data(body, content_type, kind)
    if not isinstance(data, dict) or data.get("kind") not in (None, kind):
        raise registry.unreadable(kind, "couldn't get version/kind", body)
    return schema.typed((_PARTS[kind], kind), data)


def _protobuf(body: bytes, kind: str) -> Any:
    try:
        return decoding.read(body)
    except decoding.NotReadError:
        raise registry.unsupported((registry.JSON, YAML)) from None
    except (ValueError, RecursionError, msgspec.DecodeError) as error:
        raise registry.unreadable(kind, str(error), body) from None


TABLE: Final = "Table"
METADATA: Final = "PartialObjectMetadata"
METADATA_LIST: Final = "PartialObjectMetadataList"
DISCOVERY: Final = "APIGroupDiscoveryList"
_JSON_TYPES: Final = frozenset({registry.JSON, "application/*", "*/*"})


@dataclass(frozen=True, slots=True)
class Accepted:
    """One form of a response: "" for the object itself, else what it is shown as."""

    shown_as: str = ""
    group: str = ""
    version: str = ""

    @property
    def content_type(self) -> str:
        """The media type of a response in this form."""
        if self.shown_as != DISCOVERY:
            return registry.JSON
        return f"{registry.JSON};g={self.group};v={self.version};as={self.shown_as}"


@lru_cache(maxsize=64)
def accepted(header: str, forms: tuple[str, ...]) -> Accepted:
    """Return the first form that a client accepts. Raises ApiError if there is none.

    ``forms``: what can be given besides the object itself.
    """
    if not header.strip():
        return Accepted()
    for media, options in _ranges(header):
        shown = options.get("as", "")
        if media not in _JSON_TYPES or (shown and not _supported(shown, options, forms)):
            continue
        return Accepted(shown, options.get("g", ""), options.get("v", ""))
    raise registry.not_acceptable()


def _ranges(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    for part in header.split(","):
        media, *options = (piece.strip() for piece in part.split(";"))
        pairs = (option.partition("=") for option in options)
        yield media, {name.strip(): value.strip() for name, _, value in pairs}


def _supported(shown: str, options: dict[str, str], forms: tuple[str, ...]) -> bool:
    versions = ("v2",) if shown == DISCOVERY else ("v1", "v1beta1")
    return shown in forms and options.get("v") in versions


def object_of(body: bytes, content_type: str, served: registry.ServedResource) -> Plain:
    """Return the object that a body holds, complete with kind and apiVersion.

    Raises ApiError if it is none of the resource.
    """
    if served.custom is not None and media_type(content_type) == apimachinery.PROTOBUF:
        raise registry.unsupported((registry.JSON, YAML))
    data = object_data(body, content_type, served.kind)
    if not isinstance(data, dict):
        why = "couldn't get version/kind; json parse error: json: cannot unmarshal"
        raise registry.unreadable(served.kind, f"{why} into an object", body)
    data["kind"] = data.get("kind") or served.kind
    data["apiVersion"] = data.get("apiVersion") or served.group_version
    return checked(data, served)


def checked(given: Any, served: registry.ServedResource) -> Plain:
    """Return what is to be stored of an object. Raises ApiError if it is none of the resource."""
    if not isinstance(given, dict):
        raise apimachinery.bad_request(f"expected an object of kind {served.kind}")
    check_kind(given, served)
    if served.custom is not None:
        served.custom.coerced(
            apimachinery.copied(given)
        )  # as the store does, which takes what has these types
        return {**given, "metadata": given.get("metadata") or {}}
    data = schema.typed((served.group_version, served.kind), given)
    data = served.form.back({**data, "metadata": data.get("metadata") or {}})
    apimachinery.read(
        served.resource, apimachinery.encoded(data)
    )  # the store takes what has the right types
    if served.resource.key == apimachinery.EVENT:
        registry.check_event(data)
    return data


def check_kind(data: Plain, served: registry.ServedResource) -> None:
    """Raise ApiError if an object is of another kind or version than a resource's."""
    version, kind = data.get("apiVersion"), data.get("kind")
    if version != served.group_version:
        raise apimachinery.bad_request(
            f"the API version in the data ({version}) does not match the expected API version"
            f" ({served.group_version})"
        )
    if kind != served.kind:
        raise apimachinery.bad_request(
            f'{kind} in version "{version}" cannot be handled as a {served.kind}: converting'
            f" ({version}.{kind}) to ({version}.{served.kind}): unknown conversion"
        )


OPTION: Final = "fieldValidation"
STRICT: Final = "Strict"
WARN: Final = "Warn"
_MODES: Final = ("Ignore", STRICT, WARN)


def check_fields(sent: Sent, data: Plain) -> None:
    """Check for unknown fields, as fieldValidation demands. Raises ApiError if Strict."""
    mode = sent.options.text(OPTION)
    if not mode:
        return
    if mode not in _MODES:
        modes = ", ".join(f'"{choice}"' for choice in _MODES)
        why = f'Unsupported value: "{mode}": supported values: {modes}'
        raise sent.options.refused(OPTION, "FieldValueNotSupported", why)
    served = sent.target.served
    message = messages.message_of(served.group_version, served.kind)
    if mode == "Ignore" or not (message or served.custom):
        return
    if served.custom:
        paths = served.custom.coerced(apimachinery.copied(data))[1]
    else:
        unknown = messages.unknown_fields(message, data)
        paths = [messages.path_text(path) for path in unknown if path[0] != "status"]
    if served.resource.key == apimachinery.DEFINITION:
        paths += schema.unknown_fields(data)
    unknown_fields = [f'unknown field "{path}"' for path in paths]
    if mode == WARN:
        sent.warnings.extend(unknown_fields)
    elif unknown_fields:
        why = f"strict decoding error: {', '.join(unknown_fields)}"
        raise apimachinery.cannot_be_handled((served.group_version, served.kind), why)
