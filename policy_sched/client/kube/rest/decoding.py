"""Lists and lines of watches, decoded straight from bytes into the structs of one kind.

Objects are decoded one by one, so that one object that cannot be read does not hide the others.
A null is absent, as in Go: an object that msgspec refuses is read a second time without nulls.

What is believed of an object that cannot be read depends on its kind (`LEFT_OUT`). Without a node,
a volume or a pod group fewer decisions are possible, and none is wrong: such an object is left out
until it can be read. Without a disruption budget or the attach limits of a CSINode decisions would
be possible that are wrong: of such an object the last state that was read counts, or else as much
of it as can be read. A pod that waits is left out; a pod that is bound takes room on its node.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

import msgspec

from policy_sched.client.kube.rest.errors import ApiStatus, Malformed, Place
from policy_sched.manifests import custom_of_json, fit, fit_partly, quantities_valid
from policy_sched.model import SCHEDULING_VERSION, ApiObject, CustomObject, Kind, Pod

LONGEST: Final = 64 << 20
"""Bytes of the longest line that is read. etcd holds objects of up to 1.5 MiB by default."""


class LineTooLong(ValueError):  # noqa: N818 - what is wrong is the line, not the program
    """A line has no end in sight."""


class Lines:
    """Collects chunks and gives out whole lines, without their ends and without empty ones.

    The pieces of a line are joined once, when its end is there: a line of many chunks costs no
    more than its length.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._pieces: list[bytes] = []
        self._held = 0

    @property
    def held(self) -> int:
        """Bytes of the line that has begun."""
        return self._held

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that end in this chunk. Raises LineTooLong."""
        whole, newline, rest = chunk.rpartition(b"\n")
        if newline and self._pieces:
            whole = b"".join((*self._pieces, whole))
            self._pieces.clear()
            self._held = 0
        if rest:
            self._pieces.append(rest)
            self._held += len(rest)
        lines = whole.split(b"\n")
        if self._held > self._longest or (
            len(whole) > self._longest and max(map(len, lines)) > self._longest
        ):
            raise LineTooLong(f"a line is longer than {self._longest} bytes")
        return [stripped for line in lines if (stripped := line.removesuffix(b"\r"))]


T = TypeVar("T", bound=ApiObject)

_OF_OBJECTS: Final = ("ADDED", "MODIFIED", "DELETED")
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends a streaming list."""


LEFT_OUT: Final[frozenset[Kind]] = frozenset({
    ("v1", "Node"), ("v1", "PersistentVolume"), ("v1", "PersistentVolumeClaim"),
    ("storage.k8s.io/v1", "StorageClass"), ("storage.k8s.io/v1", "CSIStorageCapacity"),
    (SCHEDULING_VERSION, "PodGroup"), ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
})  # fmt: skip
"""Kinds whose objects are left out while they cannot be read; so are pods without a node."""


class ListMeta(msgspec.Struct, rename="camel"):
    """Version of a list, and the token of its next page."""

    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class _RawList(msgspec.Struct):
    metadata: ListMeta | None = None
    items: list[msgspec.Raw] | None = None


class _RawEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _ReadEvent(msgspec.Struct, Generic[T]):
    type: str
    object: T


class Unread(msgspec.Struct, Generic[T]):
    """An object that is there and cannot be read, and why.

    ``partial`` is what can be read of it, None if its kind is left out.
    """

    place: Place
    why: str
    version: str = ""
    partial: T | None = None


class ListPage(msgspec.Struct, Generic[T]):
    """A page of a list: its version, and the token of the next page."""

    items: list[T]
    version: str = ""
    next: str = ""
    unread: list[Unread[T]] = msgspec.field(default_factory=list)


class WatchEvent(msgspec.Struct, Generic[T], gc=False):
    """A line of a watch: what happened, to what, at which version.

    ``type`` is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR. ``object`` is set for the first
    three unless ``unread`` is; ``status`` is set for ERROR.
    """

    type: str
    version: str = ""
    object: T | None = None
    unread: Unread[T] | None = None
    initial_end: bool = False
    status: ApiStatus | None = None


class Decoding(Generic[T]):
    """Decodes a server's responses about one kind."""

    def __init__(self, kind: Kind, struct: type[T]) -> None:
        self._kind = kind
        self._struct = struct
        self._object = msgspec.json.Decoder(struct)
        self._list = msgspec.json.Decoder(_RawList)
        self._event = msgspec.json.Decoder(_RawEvent)
        self._read_event: msgspec.json.Decoder[_ReadEvent[T]] = msgspec.json.Decoder(
            _ReadEvent[struct]  # type: ignore[valid-type]
        )

    def object(self, body: bytes | msgspec.Raw) -> T:
        """Return one object. Raises Malformed."""
        try:
            thing: T | None = self._object.decode(body)
        except msgspec.ValidationError:
            thing = None  # nulls, perhaps
        except (ValueError, RecursionError) as error:
            raise Malformed(f"a {self._kind[1]} that cannot be read: {error}") from None
        if thing is None or not quantities_valid(thing):
            thing = self._closely(body)
        thing.api_version, thing.kind = self._kind
        return thing

    def _closely(self, body: bytes | msgspec.Raw) -> T:
        """Return one object of plain data without nulls. Raises Malformed, naming the fields."""
        problems: list[str] = []

        def report(path: tuple[str | int, ...], _code: str, message: str, _hint: str) -> None:
            problems.append(f"{'.'.join(map(str, path))}: {message}")

        try:
            thing = fit(msgspec.json.decode(body), self._struct, report)
        except (ValueError, RecursionError) as error:
            raise Malformed(f"a {self._kind[1]} that cannot be read: {error}") from None
        if thing is None:
            raise Malformed(f"a {self._kind[1]} that cannot be read: {'; '.join(problems)}")
        return thing

    def page(self, body: bytes) -> ListPage[T]:
        """Return a page of a list. Raises Malformed if it is no list."""
        try:
            raw = self._list.decode(body)
        except (ValueError, RecursionError) as error:
            raise Malformed(f"a list of {self._kind[1]} that cannot be read: {error}") from None
        meta = raw.metadata or ListMeta()
        page: ListPage[T] = ListPage([], meta.resource_version or "", meta.continue_ or "")
        for item in raw.items or ():
            read = self._read(item)
            if isinstance(read, Unread):
                page.unread.append(read)
            else:
                page.items.append(read)
        return page

    def event(self, line: bytes) -> WatchEvent[T]:
        """Return the event of a line. Raises Malformed if it is no event."""
        try:
            read = self._read_event.decode(line)
        except (ValueError, RecursionError):
            return self._event_closely(line)
        thing = read.object
        if read.type in _OF_OBJECTS and thing.metadata.name and quantities_valid(thing):
            thing.api_version, thing.kind = self._kind
            return WatchEvent(read.type, thing.metadata.resource_version, thing)
        return self._event_closely(line)

    def _event_closely(self, line: bytes) -> WatchEvent[T]:
        """Return the event of a line that is no bookmark, no error and nothing odd, or one."""
        try:
            raw = self._event.decode(line)
        except (ValueError, RecursionError) as error:
            raise Malformed(f"a line of a watch that cannot be read: {error}") from None
        if raw.type == "ERROR":
            return WatchEvent("ERROR", status=fit_partly(_readable(raw.object), ApiStatus))
        if raw.type == "BOOKMARK":
            meta = fit_partly(_readable(raw.object), ApiObject).metadata
            ended = meta.annotations.get(INITIAL_EVENTS_END) == "true"
            return WatchEvent("BOOKMARK", meta.resource_version, initial_end=ended)
        if raw.type not in _OF_OBJECTS:
            raise Malformed(f"a watch sent {raw.type[:40]!r}, which is no type of event")
        thing = self._read(raw.object)
        if isinstance(thing, Unread):
            return WatchEvent(raw.type, thing.version, unread=thing)
        return WatchEvent(raw.type, thing.metadata.resource_version, thing)

    def _read(self, raw: msgspec.Raw) -> T | Unread[T]:
        """Return an object, or what is known of it. Raises Malformed if it has no name."""
        try:
            thing = self.object(raw)
        except Malformed as error:
            why = str(error)
        else:
            if thing.metadata.name:
                return thing
            raise Malformed(f"a {self._kind[1]} without a name")
        partial = fit_partly(_readable(raw), self._struct)
        meta = partial.metadata
        if not meta.name:
            raise Malformed(why)
        partial.api_version, partial.kind = self._kind
        out = self._kind in LEFT_OUT or isinstance(partial, CustomObject)
        if isinstance(partial, Pod):
            out = not partial.spec.node_name
        key = meta.namespace, meta.name
        return Unread(key, why, meta.resource_version, None if out else partial)


class CustomDecoding(Decoding[CustomObject]):
    """The same for a kind that rules alone read."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(kind, CustomObject)

    def object(self, body: bytes | msgspec.Raw) -> CustomObject:
        """Return one object. Raises Malformed."""
        try:
            return custom_of_json(body, self._kind)
        except (ValueError, RecursionError) as error:
            raise Malformed(f"a {self._kind[1]} that cannot be read: {error}") from None

    def event(self, line: bytes) -> WatchEvent[CustomObject]:
        """Return the event of a line. Raises Malformed if it is no event."""
        return self._event_closely(line)


def decoding_of(kind: Kind, struct: type[T]) -> Decoding[Any]:
    """Return how the objects of a kind are decoded."""
    return CustomDecoding(kind) if struct is CustomObject else Decoding(kind, struct)


def _readable(raw: msgspec.Raw) -> Any:
    """Return the plain data of JSON, null where it holds what no value can hold."""
    with suppress(ValueError, RecursionError):
        return msgspec.json.decode(raw)
    with suppress(ValueError, RecursionError):
        fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        return {key: _readable(value) for key, value in fields.items()}
    with suppress(ValueError, RecursionError):
        return [_readable(item) for item in msgspec.json.decode(raw, type=list[msgspec.Raw])]
    return None
