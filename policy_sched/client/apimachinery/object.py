"""One version of one object, as JSON and as the struct that the scheduler reads; times as text."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, cast

import msgspec

from policy_sched import model
from policy_sched.client.apimachinery.resources import Resource, bad_request, cannot_be_handled
from policy_sched.manifests import Plain, decode_as, decode_json

SECOND: Final = 1_000_000_000
"""Nanoseconds in a second."""
_LAST: Final = 253_402_300_799
_FIRST: Final = -62_135_596_800
"""The seconds of the years 9999 and 1, beyond which no time can be written."""


def timestamp(ns: int) -> str:
    """Return metav1.Time's text: whole seconds."""
    return _second(ns // SECOND)


@lru_cache(maxsize=256)
def _second(seconds: int) -> str:
    seconds = max(_FIRST, min(seconds, _LAST))
    return (model.EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(ns: int) -> str:
    """Return metav1.MicroTime's text: microseconds."""
    seconds, rest = divmod(ns, SECOND)
    return f"{_second(seconds)[:-1]}.{rest // 1000:06d}Z"


def parsed(text: str) -> int:
    """Return a timestamp as nanoseconds, in UTC unless it has a zone. Raises ValueError."""
    time = datetime.fromisoformat(text)
    return model.nanoseconds(time if time.tzinfo is not None else time.replace(tzinfo=UTC))


def readable(text: object) -> int | None:
    """Return a timestamp of a status as nanoseconds, None if it is not there or cannot be read."""
    try:
        return parsed(text) if isinstance(text, str) else None
    except ValueError:
        return None


encoded = msgspec.json.Encoder().encode
"""The JSON of plain data."""


class Key(msgspec.Struct, frozen=True):
    """What names an object: kind, namespace, name."""

    kind: model.Kind
    namespace: str
    name: str


class Stored:
    """An object as it was at one version. It never changes: ``data`` is a fresh copy every time."""

    __slots__ = ("name", "namespace", "raw", "resource", "typed", "version")

    def __init__(
        self, resource: Resource, version: int, raw: bytes, typed: model.ApiObject
    ) -> None:
        self.resource = resource
        self.version = version
        self.raw = raw
        self.typed = typed
        meta = typed.metadata
        self.name = meta.name
        self.namespace = meta.namespace if resource.namespaced else ""

    @property
    def data(self) -> Plain:
        """The object as plain JSON data."""
        return cast("Plain", msgspec.json.decode(self.raw))

    @property
    def uid(self) -> str:
        """The object's uid."""
        return self.typed.metadata.uid

    @property
    def labels(self) -> dict[str, str]:
        """The object's labels; not to be changed."""
        return self.typed.metadata.labels

    @property
    def namespaced_name(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def key(self) -> Key:
        """Kind, namespace and name."""
        return Key(self.resource.key, self.namespace, self.name)

    @property
    def deleting(self) -> bool:
        """Whether the object is on its way out."""
        return self.typed.metadata.deletion_timestamp is not None


def seal(resource: Resource, data: Plain, version: int, *, checked: bool = False) -> Stored:
    """Return an object of plain data at a version. Raises ApiError if it does not fit its kind.

    Its JSON begins with kind and apiVersion. ``checked``: all quantities in it have been read
    before.
    """
    data["metadata"]["resourceVersion"] = str(version)
    raw = encoded({"kind": resource.kind, "apiVersion": resource.api_version, **data})
    if checked:
        try:
            return Stored(resource, version, raw, model.decoder(resource.struct).decode(raw))
        except msgspec.ValidationError:
            pass  # reported in the API's words below
    return Stored(resource, version, raw, read(resource, raw))


def read(resource: Resource, raw: bytes) -> model.ApiObject:
    """Return the struct of an object's JSON. Raises ApiError if it does not fit its kind."""
    typed = decode_json(raw, resource.struct)
    if typed is not None:
        return typed
    problems: list[str] = []

    def report(path: tuple[str | int, ...], code: str, message: str, hint: str) -> None:  # noqa: ARG001 - the signature of a report
        problems.append(f"{'.'.join(map(str, path))}: {message}")

    typed = decode_as(msgspec.json.decode(raw), resource.struct, report)
    if typed is None:
        raise cannot_be_handled(resource.key, "; ".join(problems))
    return typed


def copied(data: Any) -> Plain:
    """Return a deep copy of plain data, as JSON has it."""
    return cast("Plain", msgspec.json.decode(encoded(data)))


def managed(data: Plain, meta: Plain) -> Plain:
    """Return the metadata of an object with the managers of fields that other metadata names."""
    given = meta.get("managedFields")
    old: Plain = data["metadata"]
    return {**old, "managedFields": given} if given else old


Match = Callable[[Stored], bool]
"""Whether an object is selected."""

_EQUAL: Final = re.compile(r"([^=!\s]+)\s*(==|=|!=)\s*(\S*)")


def label_match(text: str) -> Match:
    """Return a test of an object's labels. Raises ApiError if the text is no selector."""
    try:
        selector = model.parse_selector(text, model.LABEL_OPERATORS)
    except ValueError as error:
        raise bad_request(f"unable to parse requirement: {error}") from None
    return lambda stored: selector.matches(stored.labels)


def field_match(text: str) -> Match:
    """Return a test of an object's fields. Raises ApiError if the text is no selector."""
    wanted: list[tuple[str, bool, str]] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = _EQUAL.fullmatch(part)
        if match is None:
            raise bad_request(f"invalid field selector: {part!r}")
        wanted.append((match[1], match[2] != "!=", match[3]))
    return lambda stored: all((_field(stored, path) == v) is same for path, same, v in wanted)


def _field(stored: Stored, path: str) -> str:
    typed = stored.typed
    if path == "metadata.name":
        return stored.name
    if path == "metadata.namespace":
        return stored.namespace
    if path == "spec.nodeName" and isinstance(typed, model.Pod):
        return typed.spec.node_name
    if path == "status.phase" and isinstance(typed, model.Pod):
        return typed.status.phase
    value: object = stored.data
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
