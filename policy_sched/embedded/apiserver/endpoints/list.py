"""Lists: their objects, version, pages and form.

Theory of operation: a list is of one version of the whole store (see `snapshots`), so the pages of
one list belong together whatever happens between them, until the history has forgotten. A list
with selectors visits many objects: other requests have their turn in between.
"""

from __future__ import annotations

import asyncio
import base64
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from policy_sched.client.apimachinery import (
    ApiError,
    Expired,
    Stored,
    bad_request,
    encoded,
    label_match,
)
from policy_sched.embedded.apiserver import registry
from policy_sched.embedded.apiserver.endpoints.negotiation import METADATA_LIST, TABLE, Accepted
from policy_sched.embedded.apiserver.printers import definitions, metadata, row
from policy_sched.embedded.apiserver.request import RequestOptions, RequestTarget
from policy_sched.embedded.store import ADDED, DELETED, Filter, ObjectStore, StoreChange
from policy_sched.lru import Lru
from policy_sched.manifests import Plain
from policy_sched.model import Kind

EARLIER: Final = 8
"""Earlier states that are kept: as many lists may be read in pages side by side without effort."""
_FEW: Final = 8
"""A kind is put in order anew when more than one of so many of its objects have changed."""


@dataclass(frozen=True, slots=True)
class ListSnapshot:
    """All objects of a kind, and their keys, in the order of the keys."""

    keys: Sequence[str]
    objects: Sequence[Stored]

    def span(self, namespace: str, start: str) -> tuple[int, int]:
        """Return from where to where the objects of a namespace ("": all) are, from a key on."""
        keys = self.keys
        first, end = bisect_left(keys, start), len(keys)
        if namespace:
            first = max(first, bisect_left(keys, f"{namespace}/"))
            end = bisect_left(keys, f"{namespace}0", first)  # what sorts right after the slash
        return first, end


def key_of(stored: Stored) -> str:
    """Return by what objects are in order."""
    return f"{stored.namespace}/{stored.name}" if stored.namespace else stored.name


class Snapshots:
    """The snapshots of a store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._present: dict[Kind, tuple[int, ListSnapshot]] = {}
        self._earlier: Lru[tuple[Kind, int], ListSnapshot] = Lru(EARLIER)

    def present(self, kind: Kind) -> ListSnapshot:
        """Return the objects of a kind as they are."""
        version, snapshot = self._present.get(kind, (-1, None))
        changed = self._store.changed_at(kind)
        if snapshot is not None and changed <= version:
            return snapshot
        changes = self._changes(kind, version) if snapshot is not None else None
        if snapshot is None or changes is None or len(changes) * _FEW > len(snapshot.keys):
            named = {key_of(stored): stored for stored in self._store.select(kind)}
            keys = sorted(named)
            snapshot = ListSnapshot(keys, [named[key] for key in keys])
        else:
            snapshot = _after(snapshot, changes)
        self._present[kind] = self._store.version, snapshot
        return snapshot

    def at(self, kind: Kind, version: int) -> ListSnapshot:
        """Return the objects of a kind at a version. Raises Expired if it is too old."""
        history = self._store.history
        if version != history.version:
            history.since(version, 0)  # which is refused if it is too long ago
        if self._store.changed_at(kind) <= version:
            return self.present(kind)
        snapshot = self._earlier.get((kind, version))
        if snapshot is None:
            snapshot = _before(self.present(kind), self._changes(kind, version) or ())
            self._earlier.put((kind, version), snapshot)
        return snapshot

    def _changes(self, kind: Kind, version: int) -> list[StoreChange] | None:
        """Return the changes of a kind after a version, None if some have expired."""
        history = self._store.history
        if version < history.oldest:
            return None
        return [c for c in history.since(version, 2**31) if c.new.resource.key == kind]


def _after(snapshot: ListSnapshot, changes: Iterable[StoreChange]) -> ListSnapshot:
    """Return what changes have made of a snapshot."""
    keys, objects = list(snapshot.keys), list(snapshot.objects)
    for change in changes:
        _put(keys, objects, change.new, there=change.type != DELETED)
    return ListSnapshot(keys, objects)


def _before(snapshot: ListSnapshot, changes: Sequence[StoreChange]) -> ListSnapshot:
    """Return of what changes have made a snapshot."""
    keys, objects = list(snapshot.keys), list(snapshot.objects)
    for change in reversed(changes):
        old = change.new if change.old is None else change.old
        _put(keys, objects, old, there=change.type != ADDED)
    return ListSnapshot(keys, objects)


def _put(keys: list[str], objects: list[Stored], stored: Stored, *, there: bool) -> None:
    """Insert, replace or remove the object of a key."""
    key = key_of(stored)
    index = bisect_left(keys, key)
    present = index < len(keys) and keys[index] == key
    if there and present:
        objects[index] = stored
    elif there:
        keys.insert(index, key)
        objects.insert(index, stored)
    elif present:
        del keys[index], objects[index]


PIECE: Final = 500
"""Objects that are written at once; other requests have their turn in between."""
LOOKED_AT: Final = 1000
"""Objects that are filtered without yielding to other requests."""
PIECE_BYTES: Final = 1024 * 1024
"""And bytes, unless one object has more: what a slow reader keeps waiting in memory."""
_LIST_EXPIRED: Final = "The resourceVersion for the provided list is too old."
_DIGITS: Final = 20
"""Digits of the largest resourceVersion, 2**64 - 1."""
_PAGE_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can"
    " start a new list without the continue parameter, or use the continue token in this response"
    " to retrieve the remainder of the results. Continuing with the provided token results in an"
    " inconsistent list - objects that were created, modified, or deleted between the time the"
    " first chunk was returned and now may show up in the list."
)


class _Token(msgspec.Struct):
    """Where a list continues: the version (the present one if below 0) and the key."""

    v: str
    rv: int
    start: str


@dataclass(frozen=True, slots=True)
class Listed:
    """The response to a list request; ``version`` is the list's."""

    version: int
    items: Sequence[Stored]
    following: str = ""
    remaining: int | None = None

    def meta(self) -> Plain:
        """Return the list's metadata."""
        meta: Plain = {"resourceVersion": str(self.version)}
        if self.following:
            meta["continue"] = self.following
        if self.remaining:
            meta["remainingItemCount"] = self.remaining
        return meta


class ListRequests:
    """Lists of a store's objects."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._snapshots = Snapshots(store)

    def present(self, wanted: Filter) -> Iterator[Stored | None]:
        """Yield the objects of a kind that are wanted, and None when others should have a turn."""
        assert wanted.kind is not None
        snapshot = self._snapshots.present(wanted.kind)
        return _selected(snapshot, snapshot.span(wanted.namespace, ""), wanted)

    async def page(self, target: RequestTarget, options: RequestOptions) -> Listed:
        """Return the result of a list request. Raises ApiError."""
        wanted = selection(target, options)
        limit = max(options.number("limit") or 0, 0)
        token = options.text("continue")
        version, start = self._start(options, token, limit)
        try:
            snapshot = self._snapshots.at(target.served.resource.key, version)
        except Expired:
            raise _expired(start) from None
        first, end = snapshot.span(wanted.namespace, start)
        if not wanted.matches:
            last = min(end, first + limit) if limit else end
            items = snapshot.objects[first:last]
            following = (
                _encoded_token(version, f"{snapshot.keys[last - 1]}\0") if last < end else ""
            )
            return Listed(version, items, following, end - last or None)
        chosen: list[Stored] = []
        for stored in _selected(snapshot, (first, end), wanted):
            if stored is None:
                await asyncio.sleep(0)
                continue
            if limit and len(chosen) == limit:
                following = _encoded_token(version, f"{key_of(chosen[-1])}\0")
                return Listed(version, chosen, following)
            chosen.append(stored)
        return Listed(version, chosen)

    def _start(self, options: RequestOptions, token: str, limit: int) -> tuple[int, str]:
        """Return the version of a list, and the key at which it begins."""
        current, text = self._store.version, options.text("resourceVersion")
        match = options.text("resourceVersionMatch")
        check_match(options, token)
        if token:
            if text not in ("", "0"):
                raise bad_request("specifying resource version is not allowed when using continue")
            decoded = _decoded_token(token)
            return (
                decoded.rv if 0 < decoded.rv <= current else current
            ), decoded.start.removeprefix("/")
        version = self.reached(text)
        exactly = match == "Exact" or (limit and not match and text not in ("", "0"))
        return (version if exactly else current), ""

    def reached(self, text: str) -> int:
        """Return a resourceVersion as a number. Raises ApiError if it lies ahead."""
        version = number_of(text)
        if version > self._store.version:
            raise registry.not_there_yet(version, self._store.version)
        return version


class _PageExpired(ApiError):  # noqa: N818 - the API's own name of the reason
    """The version of a list has expired; the token continues at the present one."""

    def __init__(self, token: str) -> None:
        super().__init__(410, "Expired", _PAGE_EXPIRED)
        self._token = token

    def status(self) -> dict[str, Any]:
        """Return the body of the response."""
        return {**super().status(), "metadata": {"continue": self._token}}


def _expired(start: str) -> ApiError:
    """Return the error of an expired version; ``start``: the key at which its list continues."""
    if not start:
        return ApiError(410, "Expired", _LIST_EXPIRED)
    return _PageExpired(_encoded_token(-1, start))


def number_of(text: str) -> int:
    """Return a resourceVersion as a number, 0 if none is given. Raises ApiError if it is none."""
    digits = text.isascii() and text.isdigit()
    if text and not (digits and len(text) <= _DIGITS and int(text) < 2**64):
        raise registry.no_version(text)
    return int(text or 0)


def check_match(options: RequestOptions, token: str = "") -> None:
    """Check resourceVersionMatch and sendInitialEvents of a list request. Raises ApiError."""
    field, match = "resourceVersionMatch", options.text("resourceVersionMatch")
    text = options.text("resourceVersion")
    forbidden = ""
    if options.given("sendInitialEvents"):
        field, forbidden = "sendInitialEvents", "sendInitialEvents is forbidden for list"
    elif not match:
        return
    elif not text:
        forbidden = f"{field} is forbidden unless resourceVersion is provided"
    elif token:
        forbidden = f"{field} is forbidden when continue is provided"
    elif match == "Exact" and text == "0":
        forbidden = f'{field} "exact" is forbidden for resourceVersion "0"'
    if forbidden:
        raise options.refused(field, "FieldValueForbidden", f"Forbidden: {forbidden}")
    if match not in ("Exact", "NotOlderThan"):
        why = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan"'
        raise options.refused(field, "FieldValueNotSupported", why)


def selection(target: RequestTarget, options: RequestOptions) -> Filter:
    """Return which objects a request is for. Raises ApiError if a selector cannot be read."""
    matches = []
    if labels := options.text("labelSelector"):
        matches.append(label_match(labels))
    fields = options.text("fieldSelector")
    if target.name:
        fields = ",".join(filter(None, (f"metadata.name={target.name}", fields)))
    if fields:
        matches.append(registry.field_selector(target.served, fields))
    return Filter(target.served.resource.key, target.namespace, tuple(matches))


def pieces(
    served: registry.ServedResource, listed: Listed, form: Accepted, now: int, included: str
) -> Iterator[bytes]:
    """Yield the JSON of a list in pieces; ``now`` in ns since 1970."""
    head: Plain = {"kind": served.list_kind, "apiVersion": served.group_version}
    field = "items"
    if form.shown_as == TABLE:
        head, field = {"kind": TABLE, "apiVersion": f"meta.k8s.io/{form.version}"}, "rows"
    elif form.shown_as == METADATA_LIST:
        head = {"kind": METADATA_LIST, "apiVersion": f"meta.k8s.io/{form.version}"}
    head["metadata"] = listed.meta()
    if form.shown_as == TABLE:
        head["columnDefinitions"] = definitions(served.kind, served.custom)
    yield encoded(head)[:-1] + b',"' + field.encode() + b'":['
    items = (_item(served, stored, form, now, included) for stored in listed.items)
    for number, part in enumerate(bounded(items, b",")):
        yield b"," + part if number else part
    yield b"]}\n"


def bounded(parts: Iterable[bytes], between: bytes = b"") -> Iterator[bytes]:
    """Yield parts, several at once, but not too many and not too long."""
    held: list[bytes] = []
    size = 0
    for part in parts:
        held.append(part)
        size += len(part)
        if len(held) >= PIECE or size >= PIECE_BYTES:
            yield between.join(held)
            held, size = [], 0
    if held:
        yield between.join(held)


def _item(
    served: registry.ServedResource, stored: Stored, form: Accepted, now: int, included: str
) -> bytes:
    if form.shown_as == TABLE:
        return encoded(row(served.kind, served.form.data(stored), now, included, served.custom))
    if form.shown_as == METADATA_LIST:
        return encoded(metadata(stored.data))
    return served.form.item(stored)


def _selected(
    snapshot: ListSnapshot, span: tuple[int, int], wanted: Filter
) -> Iterator[Stored | None]:
    """Yield the selected objects of a part of a snapshot, and None after each batch."""
    for begin in range(*span, LOOKED_AT):
        objects = snapshot.objects[begin : min(begin + LOOKED_AT, span[1])]
        yield from (stored for stored in objects if wanted.selects(stored))
        yield None


def _encoded_token(version: int, start: str) -> str:
    token = encoded({"v": "meta.k8s.io/v1", "rv": version, "start": f"/{start}"})
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def _decoded_token(text: str) -> _Token:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(raw, type=_Token)
    except (ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"continue key is not valid: {error}") from None
    if token.v != "meta.k8s.io/v1" or not token.rv:
        raise bad_request("continue key is not valid: incorrect encoded start")
    return token
