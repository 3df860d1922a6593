"""What a client accepts, and what it has sent: media types and bodies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from policy_sched.client.apimachinery import bad_request, encoded, read
from policy_sched.embedded.apiserver.endpoints.decode import object_data
from policy_sched.embedded.apiserver.registry import (
    JSON,
    Served,
    check_event,
    not_acceptable,
    unreadable,
)
from policy_sched.embedded.schema import typed
from policy_sched.manifests import Plain

TABLE: Final = "Table"
METADATA: Final = "PartialObjectMetadata"
METADATA_LIST: Final = "PartialObjectMetadataList"
DISCOVERY: Final = "APIGroupDiscoveryList"
_JSON_TYPES: Final = frozenset({JSON, "application/*", "*/*"})


@dataclass(frozen=True, slots=True)
class Accepted:
    """One form of an answer: "" for the object itself, else what it is shown as."""

    shown_as: str = ""
    group: str = ""
    version: str = ""

    @property
    def content_type(self) -> str:
        """The media type of an answer in this form."""
        if self.shown_as != DISCOVERY:
            return JSON
        return f"{JSON};g={self.group};v={self.version};as={self.shown_as}"


@lru_cache(maxsize=64)
def accepted(header: str, forms: tuple[str, ...]) -> Accepted:
    """Return the first form that a client accepts. Raises ApiError if there is none.

    ``forms``: what can be given besides the object itself.
    """
    if not header.strip():
        return Accepted()
    for media, options in _ranges(header):
        shown = options.get("as", "")
        if media not in _JSON_TYPES or (shown and not _known(shown, options, forms)):
            continue
        return Accepted(shown, options.get("g", ""), options.get("v", ""))
    raise not_acceptable()


def _ranges(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    for part in header.split(","):
        media, *options = (piece.strip() for piece in part.split(";"))
        pairs = (option.partition("=") for option in options)
        yield media, {name.strip(): value.strip() for name, _, value in pairs}


def _known(shown: str, options: dict[str, str], forms: tuple[str, ...]) -> bool:
    versions = ("v2",) if shown == DISCOVERY else ("v1", "v1beta1")
    return shown in forms and options.get("v") in versions


def object_of(body: bytes, content_type: str, served: Served) -> Plain:
    """Return the object that a body holds, complete with kind and apiVersion.

    Raises ApiError if it is none of the resource.
    """
    data = object_data(body, content_type, served.kind)
    if not isinstance(data, dict):
        why = "couldn't get version/kind; json parse error: json: cannot unmarshal"
        raise unreadable(served.kind, f"{why} into an object", body)
    data["kind"] = data.get("kind") or served.kind
    data["apiVersion"] = data.get("apiVersion") or served.group_version
    return checked(data, served)


def checked(given: Any, served: Served) -> Plain:
    """Return what is to be stored of an object. Raises ApiError if it is none of the resource."""
    if not isinstance(given, dict):
        raise bad_request(f"expected an object of kind {served.kind}")
    check_kind(given, served)
    data = typed((served.group_version, served.kind), given)
    data = served.form.back({**data, "metadata": data.get("metadata") or {}})
    read(served.resource, encoded(data))  # the store takes what has the right types
    if served.kind == "Event":
        check_event(data)
    return data


def check_kind(data: Plain, served: Served) -> None:
    """Raise ApiError if an object is of another kind or version than a resource's."""
    version, kind = data.get("apiVersion"), data.get("kind")
    if version != served.group_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version"
            f" ({served.group_version})"
        )
    if kind != served.kind:
        raise bad_request(
            f'{kind} in version "{version}" cannot be handled as a {served.kind}: converting'
            f" ({version}.{kind}) to ({version}.{served.kind}): unknown conversion"
        )
