"""Lists and lines of watches, decoded straight from bytes into the structs of one kind.

Objects are decoded one by one, so that one odd object does not hide the others. What is known of
an odd object is its place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import msgspec

from policy_sched.client.kube.answers import Malformed, Status
from policy_sched.client.kube.mirror import Place
from policy_sched.model.kinds import Kind
from policy_sched.model.meta import ApiObject
from policy_sched.model.objects import quantities_valid

T = TypeVar("T", bound=ApiObject)

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends a streaming list."""


class ListMeta(msgspec.Struct, rename="camel"):
    """Version of a list, and the token of its next page."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _RawList(msgspec.Struct):
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


class _RawEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


@dataclass(slots=True)
class Unread:
    """An object that is there and could not be decoded, and why."""

    place: Place
    why: str


@dataclass(slots=True)
class Page(Generic[T]):
    """A page of a list."""

    metadata: ListMeta
    items: list[T]
    unread: list[Unread] = field(default_factory=list)


class WatchEvent(msgspec.Struct, Generic[T], gc=False):
    """A line of a watch: what happened, to what, at which version.

    ``type`` is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR. ``object`` is set for the first
    three unless ``unread`` is; ``status`` is set for ERROR.
    """

    type: str
    version: str = ""
    object: T | None = None
    unread: Unread | None = None
    initial_end: bool = False
    status: Status | None = None


class Decoding(Generic[T]):
    """Decodes what a server says of one kind."""

    def __init__(self, kind: Kind, struct: type[T]) -> None:
        self._kind = kind
        self._object = msgspec.json.Decoder(struct)
        self._list = msgspec.json.Decoder(_RawList)
        self._event = msgspec.json.Decoder(_RawEvent)
        self._metadata = msgspec.json.Decoder(ApiObject)
        self._status = msgspec.json.Decoder(Status)

    def object(self, body: bytes | msgspec.Raw) -> T:
        """Return one object. Raises Malformed."""
        try:
            found = self._object.decode(body)
        except msgspec.DecodeError as error:
            raise Malformed(f"a {self._kind[1]} that cannot be read: {error}") from None
        if not quantities_valid(found):
            raise Malformed(f"a {self._kind[1]} that cannot be read: a quantity is no quantity")
        found.api_version, found.kind = self._kind
        return found

    def page(self, body: bytes) -> Page[T]:
        """Return a page of a list. Raises Malformed if it is no list."""
        try:
            raw = self._list.decode(body)
        except msgspec.DecodeError as error:
            raise Malformed(f"a list of {self._kind[1]} that cannot be read: {error}") from None
        page: Page[T] = Page(raw.metadata, [])
        for item in raw.items or ():
            read = self._read(item)
            if isinstance(read, Unread):
                page.unread.append(read)
            else:
                page.items.append(read)
        return page

    def event(self, line: bytes) -> WatchEvent[T]:
        """Return what a line says. Raises Malformed if it is no event."""
        try:
            raw = self._event.decode(line)
            if raw.type == "ERROR":
                return WatchEvent("ERROR", status=self._status.decode(raw.object))
            if raw.type == "BOOKMARK":
                meta = self._metadata.decode(raw.object).metadata
                ended = meta.annotations.get(INITIAL_EVENTS_END) == "true"
                return WatchEvent("BOOKMARK", meta.resource_version, initial_end=ended)
        except msgspec.DecodeError as error:
            raise Malformed(f"a line of a watch that cannot be read: {error}") from None
        if raw.type not in ("ADDED", "MODIFIED", "DELETED"):
            raise Malformed(f"a watch says {raw.type[:40]!r}, which is no type of event")
        read = self._read(raw.object)
        if isinstance(read, Unread):
            version = self._metadata.decode(raw.object).metadata.resource_version
            return WatchEvent(raw.type, version, unread=read)
        return WatchEvent(raw.type, read.metadata.resource_version, read)

    def _read(self, raw: msgspec.Raw) -> T | Unread:
        """Return an object, or what is known of it. Raises Malformed if it has no name."""
        try:
            found = self.object(raw)
        except Malformed as error:
            why = str(error)
        else:
            if found.metadata.name:
                return found
            raise Malformed(f"a {self._kind[1]} without a name")
        try:
            meta = self._metadata.decode(raw).metadata
        except msgspec.DecodeError:
            raise Malformed(why) from None
        if not meta.name:
            raise Malformed(why)
        return Unread((meta.namespace, meta.name), why)
