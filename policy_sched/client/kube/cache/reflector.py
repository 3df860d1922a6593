"""Reflector: keeps a mirror of a collection, through cut connections, old versions and odd lines.

Theory of operation. Without a version everything is listed: as a streaming list, a watch that
begins with all there is and ends that by a bookmark; or, from servers that do not
know it, as pages followed by a watch. With a version a watch goes on from there: each line and
each bookmark brings a newer one. When a stream ends

* by itself, or because the connection broke: the next one goes on from the last version;
* with 410, the version being too old: everything is listed again;
* with 404, the server not knowing the kind: it is tried from time to time;
* at a line that cannot be read, or an error of the server: the next one goes on from the
  last version, and if that happens again, everything is listed again;
* after a long silence, without a single line or bookmark: everything is listed again, since the
  server may know nothing of our version.

A server that was restored, or that keeps nothing, begins its versions anew, and does not respond
watches from versions ahead of its own. So after an outage its current version is read first.

An object that cannot be read is reported as trouble and kept in ``unread`` with the reason until it
can be read or is deleted; `decoding` decides what is believed of it meanwhile.

A new list is compared with the mirror, so that handlers see neither a gap nor a change twice
(`mirror`). Failed attempts back off, except for the first list after a version that was too old.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from policy_sched.client.apimachinery import ApiError
from policy_sched.client.kube import rest
from policy_sched.client.kube.cache.store import Change, Store, key_of
from policy_sched.client.kube.time import SECOND, BackoffSchedule, BackoffState
from policy_sched.errors import ClusterError
from policy_sched.model import ApiObject, Pod

PageT = TypeVar("PageT", bound=ApiObject)

PAGE: Final = 500
"""Objects of a page (client-go's default)."""
BEGINNINGS: Final = 3
"""How often a list is tried in pages before it is requested as a whole."""


class Listing(msgspec.Struct, Generic[PageT]):
    """All that a selection selects, at one version."""

    version: str = ""
    items: list[PageT] = msgspec.field(default_factory=list)
    unread: list[rest.Unread[PageT]] = msgspec.field(default_factory=list)


def itself(thing: PageT) -> PageT:
    """Return an object as it was read."""
    return thing


async def list_all(
    api: rest.Api,
    selection: rest.Selection,
    decoding: rest.Decoding[PageT],
    limit: int = PAGE,
    held: Callable[[PageT], PageT] = itself,
) -> Listing[PageT]:
    """Return everything that a selection selects.

    ``held`` returns what stands for an object that was read: itself, or an equal one.
    Raises what requests raise, and Malformed for a response that is no list.
    """
    for begun in range(BEGINNINGS + 1):
        try:
            size = limit if begun < BEGINNINGS else 0
            return await _pages(api, selection, decoding, size, held)
        except ApiError as error:
            if not rest.expired(error) or begun == BEGINNINGS:
                raise
    raise AssertionError("unreachable")


async def _pages(
    api: rest.Api,
    selection: rest.Selection,
    decoding: rest.Decoding[PageT],
    limit: int,
    held: Callable[[PageT], PageT],
) -> Listing[PageT]:
    listing: Listing[PageT] = Listing()
    token = ""
    while True:
        query = selection.query(limit=str(limit or ""), **{"continue": token})
        page = decoding.page(await api.get(selection.path, query))
        listing.items += map(held, page.items)
        listing.unread += page.unread
        listing.version = page.version
        token = page.next
        if not token:
            return listing


T = TypeVar("T", bound=ApiObject)

Changed = Callable[[Sequence[Change[T]]], None]
"""Called with changes in the order in which they happened, in batches."""
Trouble = Callable[[rest.Selection, str], None]
"""Called with errors that the reflector has already handled, so that they can be logged."""

LASTING: Final = SECOND
"""A stream that ends sooner is a failure, whatever it brought (client-go: a very short watch)."""
RELISTS: Final = 5 * SECOND
"""A version that is too old leads to a list at once, but not more often than that."""
_NO_STREAMING_LIST: Final = frozenset({400, 404, 405, 415, 422})
"""Responses of servers that do not know streaming lists."""


class ReflectorSettings(msgspec.Struct, frozen=True):
    """How a collection is followed; seconds.

    The server ends a watch after between ``shortest`` and twice that (client-go: 5 minutes). It
    sends a bookmark each minute, so a stream that sends nothing for ``silence`` is dead, even if
    something on the way still holds it open. ``streaming``: ask for streaming lists first.
    """

    shortest: float = 300.0
    silence: float = 150.0
    page: int = PAGE
    streaming: bool = True
    backoff: BackoffSchedule = msgspec.field(default_factory=BackoffSchedule)


def _failure(status: rest.ApiStatus) -> ClusterError:
    """Return what the line that ends a watch means."""
    error = rest.error_of_status(status)
    return error if rest.expired(error) else rest.Malformed(f"the server ended a watch: {error}")


def _may_wait(line: bytes) -> bool:
    """Return whether a line looks like the update of a pod that has its node."""
    return line.startswith(b'{"type":"MODIFIED",') and b'"nodeName":"' in line


def ignore_trouble(_selection: rest.Selection, _what: str) -> None:
    """Ignore the failure."""


def _nothing() -> None:
    """Do nothing."""


class Reflector(Generic[T]):
    """Follows one selection. ``run`` it as a task; it ends when it is cancelled.

    ``following``: whether what happens in the cluster reaches us at once, as far as we know;
    ``on_following`` is called when that begins. ``unread``: why objects that are there cannot be
    read, by place. ``held_back``: where it is set, updates of pods that have their nodes are not
    read before `take_held`, or before something else comes; it is called when the first one comes.
    """

    def __init__(  # the last two are keywords with defaults
        self,
        api: rest.Api,
        selection: rest.Selection,
        struct: type[T],
        changed: Changed[T],
        *,
        settings: ReflectorSettings | None = None,
        trouble: Trouble = ignore_trouble,
    ) -> None:
        self.selection = selection
        self.mirror: Store[T] = Store()
        self.unread: dict[rest.Place, str] = {}
        self.synced = asyncio.Event()
        self.following = False
        self.on_following: Callable[[], None] = _nothing
        self.held_back: Callable[[], None] | None = None
        self._held: list[bytes] = []
        self._end_stream: Callable[[Exception], None] | None = None
        self._api = api
        self._struct = struct
        self._decoding = rest.decoding_of(selection.kind, struct)
        self._changed = changed
        self._settings = settings or ReflectorSettings()
        self._trouble = trouble
        self._streaming = self._settings.streaming
        self._version = ""
        self._bad_version: str | None = None
        self._progress = False
        self._expired = False
        self._heard = False
        self._away = False
        self._listed: int | None = None

    @property
    def version(self) -> str:
        """The version of the store; "" if a new list is needed."""
        return self._version

    def decode_as(self, struct: type[T]) -> bool:
        """Decode objects as this from now on; return whether all have to be read anew by `run`."""
        if struct is self._struct:
            return False
        self._struct, self._decoding = struct, rest.decoding_of(self.selection.kind, struct)
        self._version, self.following = "", False
        self._held.clear()
        self.synced.clear()
        return True

    async def run(self) -> None:
        """Follow the collection until cancelled."""
        environment = self._api.environment
        now = environment.clocks.monotonic
        pauses, relists = (
            BackoffState(self._settings.backoff, now, environment.random) for _ in range(2)
        )
        if not self.synced.is_set():
            # The run before may have taken something in between `decode_as` and its own end: from
            # there this one would follow what it has not listed.
            self._version = ""
        while True:
            self._progress = self._expired = False
            began = now()
            delay: float | None = None
            try:
                await self._follow()
            except ClusterError as error:
                self._trouble(self.selection, str(error))
                self._learn(error, silent=now() - began >= self._settings.silence * SECOND)
                self._api.recovery.failed(error)
                delay = rest.wait_of(error)
            finally:
                self.following = False
            if delay is not None:
                await self._api.pause(delay, requested=True)
                continue
            lasted = self._progress and now() - began >= LASTING
            if not lasted and (self._version or not self._lists_at_once(now())):
                # A server that responds with 410 is not away any more: that has pauses of its own.
                lasted = await self._api.pause((relists if self._expired else pauses).next())
            if lasted:
                pauses.succeeded()
                relists.succeeded()

    def _lists_at_once(self, now: int) -> bool:
        """Return whether a version that was too old may be followed by a list without a pause."""
        if not self._expired or (self._listed is not None and now - self._listed < RELISTS):
            return False
        self._listed = now
        return True

    def _learn(self, error: ClusterError, *, silent: bool) -> None:
        """Decide where the next try begins; ``silent``: it failed after a long time."""
        self._away = self._away or (rest.away(error) and not self.following)
        if silent and not self._heard:
            self._version = ""
        self._expired = isinstance(error, ApiError) and rest.expired(error)
        if isinstance(error, rest.Malformed):
            if self._bad_version == self._version:
                self._version = ""
            self._bad_version = self._version
        elif self._expired:
            self._version = ""

    async def _follow(self) -> None:
        """List if need be, and follow one stream to its end."""
        self._heard = False
        if self._version and self._away:
            await self._compare_versions()
        self._away = False
        if self._version:
            return await self._watch(None)
        if self._streaming:
            try:
                return await self._watch({})
            except ApiError as error:
                if error.code not in _NO_STREAMING_LIST:
                    raise
                self._streaming = False
        try:
            listing = await list_all(
                self._api, self.selection, self._decoding, self._settings.page, self.mirror.held
            )
        except ApiError as error:
            if error.code == rest.NOT_FOUND:
                await self._replace((), {})  # a kind that is not served has no objects, so far
            raise
        await self._replace(listing.items, {unread.place: unread for unread in listing.unread})
        self._reached(listing.version)
        return await self._watch(None)

    async def _compare_versions(self) -> None:
        """Ask for everything again if the server is not as far as we are."""
        path, query = self.selection.path, self.selection.query(limit="1")
        page = self._decoding.page(await self._api.request("GET", path, query=query))
        theirs, ours = page.version, self._version
        if theirs.isdecimal() and ours.isdecimal() and int(theirs) < int(ours):
            self._trouble(self.selection, f"its versions begin anew: {theirs} after {ours}")
            self._version = ""

    async def _replace(
        self, items: Sequence[T], unread: Mapping[rest.Place, rest.Unread[T]]
    ) -> None:
        """Compare all that there is with the mirror; others have their turn in between."""
        self.unread = {where: self._tell(thing) for where, thing in unread.items()}
        believed = [thing for thing in map(self._believed, unread.values()) if thing is not None]
        for changes in self.mirror.replacing([*items, *believed]):
            if changes:
                self._changed(changes)
            await asyncio.sleep(0)
        self.synced.set()

    def _reached(self, version: str) -> None:
        """Resume from here after the next failure."""
        if version:
            self._version = version
        self._progress = True
        self._bad_version = None

    def _tell(self, unread: rest.Unread[T]) -> str:
        """Tell of an object that cannot be read; return why."""
        name = "/".join(part for part in unread.place if part)
        so = "it is left out until it can be read"
        if unread.partial is not None:
            stays = self._believed(unread) is not unread.partial
            so = "its last state stays" if stays else "what can be read of it counts"
        self._trouble(self.selection, f"{name}: {unread.why}; {so}")
        return unread.why

    def _believed(self, unread: rest.Unread[T]) -> T | None:
        """Return what counts of an object that cannot be read, None if it is left out.

        The last state that was read, unless the pod has got its node since then.
        """
        partial, old = unread.partial, self.mirror.get(*unread.place)
        if partial is None or old is None or old.metadata.uid != partial.metadata.uid:
            return partial
        if isinstance(old, Pod) and isinstance(partial, Pod):
            same = old.spec.node_name == partial.spec.node_name
            return old if same else partial
        return old

    async def _watch(self, initial: dict[rest.Place, T | rest.Unread[T]] | None) -> None:
        """Follow a stream; ``initial`` gathers the objects of a streaming list, None for none."""
        shortest = self._settings.shortest
        seconds = shortest * (1 + self._api.environment.random.random())
        query = self.selection.query(
            watch="true",
            allowWatchBookmarks="true",
            timeoutSeconds=str(max(1, round(seconds))),
            resourceVersion=self._version,
        )
        if initial is not None:
            query |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        self._held.clear()  # what was not read of a stream that broke off comes again
        async with self._api.stream(self.selection.path, query, self._settings.silence) as stream:
            self._end_stream = stream.end
            self._follows(initial)
            async for lines in stream:
                self._heard = True
                self._api.recovery.reached()
                initial = await self._take(lines, initial)
                self._follows(initial)
                if initial is None:
                    stream.direct(self._take_on)

    def _take_on(self, lines: list[bytes]) -> None:
        """Process the received lines of a stream that brings nothing but changes."""
        self._heard = True
        self._api.recovery.reached()
        if self.held_back is not None and all(map(_may_wait, lines)):
            if not self._held:
                self.held_back()
            self._held += lines
            return
        if self._held:
            lines, self._held = [*self._held, *lines], []
        self._apply_all(lines)

    def take_held(self) -> None:
        """Process what was held back; what cannot be read ends the stream, as always."""
        if self._held:
            lines, self._held = self._held, []
            try:
                self._apply_all(lines)
            except ClusterError as error:
                assert self._end_stream is not None, "lines that are held are of a stream"
                self.following = False
                self._end_stream(error)

    def _follows(self, initial: dict[rest.Place, T | rest.Unread[T]] | None) -> None:
        """A stream is open; with ``initial`` it still sends what there is."""
        if initial is None and not self.following:
            self.following = True
            self.on_following()

    async def _take(
        self, lines: list[bytes], initial: dict[rest.Place, T | rest.Unread[T]] | None
    ) -> dict[rest.Place, T | rest.Unread[T]] | None:
        """Process the received lines; return the objects of a streaming list so far."""
        rest_of_lines = iter(lines)
        while initial is not None:
            line = next(rest_of_lines, None)
            if line is None:
                return initial
            event = self._event(line)
            if event.type != "BOOKMARK":
                self._gather(event, initial)
            elif event.initial_end:
                read = [thing for thing in initial.values() if not isinstance(thing, rest.Unread)]
                unread = {
                    k: thing for k, thing in initial.items() if isinstance(thing, rest.Unread)
                }
                initial = None
                await self._replace(read, unread)
                self._reached(event.version)
        self._apply_all(rest_of_lines)
        return None

    def _apply_all(self, lines: Iterable[bytes]) -> None:
        """Apply lines that bring changes; those before a malformed one are handed on, too."""
        changes: list[Change[T]] = []
        try:
            for line in lines:
                changes += self._apply(self._event(line))
        finally:
            if changes:
                self._changed(changes)

    def _event(self, line: bytes) -> rest.WatchEvent[T]:
        """Return the event of a line. Raises what ends the watch."""
        event = self._decoding.event(line)
        if event.status is not None:
            raise _failure(event.status)
        return event

    def _gather(
        self, event: rest.WatchEvent[T], initial: dict[rest.Place, T | rest.Unread[T]]
    ) -> None:
        """Apply one event of a streaming list, which contains concurrent changes, too."""
        thing: T | rest.Unread[T]
        if event.unread is not None:
            thing, where = event.unread, event.unread.place
        else:
            assert event.object is not None
            where, thing = key_of(event.object), self.mirror.held(event.object)
        if event.type == "DELETED":
            initial.pop(where, None)
        else:
            initial[where] = thing

    def _apply(self, event: rest.WatchEvent[T]) -> list[Change[T]]:
        changes: list[Change[T]] = []
        store, deleted = self.mirror, event.type == "DELETED"
        if event.unread is not None:
            where = event.unread.place
            believed = None if deleted else self._believed(event.unread)
            if deleted:
                self.unread.pop(where, None)
            else:
                self.unread[where] = self._tell(event.unread)
            changes = store.gone(where) if believed is None else store.upsert(believed)
        elif event.object is not None:
            if self.unread:
                self.unread.pop(key_of(event.object), None)
            changes = store.delete(event.object) if deleted else store.upsert(event.object)
        self._reached(event.version)
        return changes
