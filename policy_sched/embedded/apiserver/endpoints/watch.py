"""Watches: what happens to the objects, line by line, for as long as the client listens.

Theory of operation: a watch is a cursor over the store's history, and a task that is woken when
there is something new. What a slow reader has not taken waits in the history, not in memory of
its own; a reader that falls behind it gets 410 and has to list again. Bookmarks report how
far a watch has come when nothing of its own happens.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from policy_sched.client.apimachinery import POD, ApiError, Stored, encoded
from policy_sched.embedded.apiserver.endpoints.list import (
    PIECE,
    ListRequests,
    bounded,
    number_of,
    selection,
)
from policy_sched.embedded.apiserver.endpoints.negotiation import METADATA, TABLE, Accepted
from policy_sched.embedded.apiserver.printers import definitions, metadata, row
from policy_sched.embedded.apiserver.request import RequestOptions, RequestTarget, UserInfo
from policy_sched.embedded.store import Filter, ObjectStore, StoreChange, Watch
from policy_sched.manifests import Plain
from policy_sched.model import Kind

WATCHES: Final = 900
"""Watches at the same time; a tenth of the connections is left."""
WATCHES_OF_ONE: Final = 600
"""Watches of one user that is no master."""
DEFAULT_SECONDS: Final = 3600
"""How long a watch lasts whose request does not say (the API server's own are 30 to 60 min)."""
BOOKMARK_SECONDS: Final = 60.0
"""How often a bookmark is sent at most."""
INITIAL_END: Final = "k8s.io/initial-events-end"
TOGETHER: Final = 32
"""Watches that are woken in one turn of the event loop."""
MATCH: Final = "resourceVersionMatch"


class WatchSlots:
    """Limits the watches, of all users and of each: other requests need connections, too."""

    def __init__(self, most: int = WATCHES, of_one: int = WATCHES_OF_ONE) -> None:
        self._most = most
        self._of_one = of_one
        self._taken: Counter[str] = Counter()

    @contextmanager
    def taken(self, user: UserInfo) -> Iterator[None]:
        """Take a slot for the time of the context. Raises ApiError if none is free."""
        others = self._taken.total() >= self._most
        if others or (self._taken[user.name] >= self._of_one and not user.master):
            message = "too many watches, please try again later"
            raise ApiError(429, "TooManyRequests", message, {"retryAfterSeconds": 1})
        self._taken[user.name] += 1
        try:
            yield
        finally:
            self._taken[user.name] -= 1
            self._taken += Counter()  # removes users without watches


class WatchWaker:
    """Wakes waiting watches when objects of their kind have changed, or when the server ends.

    Where many wait they are woken some at a time, and others have their turn in between.
    """

    def __init__(self, store: ObjectStore) -> None:
        self.ending = False
        self._store = store
        self._waiting: dict[Kind, set[asyncio.Future[int]]] = {}
        self._seen = store.version
        self._due: deque[tuple[asyncio.Future[int], int]] = deque()
        self._scheduled = False

    def begin(self) -> None:
        """Observe changes from now on."""
        self._seen = self._store.version
        self._store.on_commit.append(self.wake)

    def wake(self) -> None:
        """Wake the watches that wait for what has just changed."""
        for change in self._store.history.since(self._seen, 2**31):
            woken = self._waiting.pop(change.new.resource.key, ())
            self._due.extend((waiting, self._seen) for waiting in woken)
        self._seen = self._store.version
        if not self._scheduled:
            self._wake_batch()

    def _wake_batch(self) -> None:
        """Wake some of those whose time has come, and the others in later turns."""
        for _ in range(min(TOGETHER, len(self._due))):
            _done(*self._due.popleft())
        self._scheduled = bool(self._due)
        if self._scheduled:
            asyncio.get_running_loop().call_soon(self._wake_batch)

    def end(self) -> None:
        """End all watches."""
        self.ending = True
        self._store.on_commit.remove(self.wake)
        for watches in self._waiting.values():
            for waiting in watches:
                _done(waiting, self._seen)
        while self._due:
            _done(*self._due.popleft())

    async def change(self, kind: Kind, seconds: float) -> int:
        """Wait for a change of a kind, but not longer than some seconds.

        Return up to which version nothing came of that kind since the wait began.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()
        others = self._waiting.setdefault(kind, set())
        others.add(future)
        timer = loop.call_later(seconds, lambda: _done(future, self._store.version))
        try:
            return await future
        finally:
            timer.cancel()
            others.discard(future)


def _done(waiting: asyncio.Future[int], version: int) -> None:
    if not waiting.done():
        waiting.set_result(version)


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """The parameters of a watch."""

    target: RequestTarget
    wanted: Filter
    form: Accepted
    included: str
    since: int | None
    marked: bool
    bookmarks: bool
    seconds: int


def watch_request(target: RequestTarget, options: RequestOptions, form: Accepted) -> WatchRequest:
    """Return the parameters of a watch request. Raises ApiError."""
    match, text = options.text(MATCH), options.text("resourceVersion")
    initial = options.flag("sendInitialEvents")
    forbidden = ""
    if options.given("sendInitialEvents") and not match:
        forbidden = f"sendInitialEvents requires setting {MATCH} to NotOlderThan"
    elif match and not options.given("sendInitialEvents"):
        forbidden = f"{MATCH} is forbidden for watch unless sendInitialEvents is provided"
    if forbidden:
        raise options.refused(MATCH, "FieldValueForbidden", f"Forbidden: {forbidden}")
    if match not in ("", "NotOlderThan"):
        why = f'Unsupported value: "{match}": supported values: "NotOlderThan"'
        raise options.refused(MATCH, "FieldValueNotSupported", why)
    version = number_of(text)
    bookmarks = options.flag("allowWatchBookmarks")
    from_start = initial if options.given("sendInitialEvents") else not version
    seconds = options.number("timeoutSeconds") or DEFAULT_SECONDS
    return WatchRequest(
        target=target,
        wanted=selection(target, options),
        form=form,
        included=options.text("includeObject"),
        since=None if from_start else version,
        marked=initial and bookmarks,
        bookmarks=bookmarks,
        seconds=min(max(seconds, 1), 24 * 3600),
    )


class Stream:
    """The lines of one watch."""

    def __init__(
        self, request: WatchRequest, store: ObjectStore, lists: ListRequests, wake: WatchWaker
    ) -> None:
        self._request = request
        self._store = store
        self._lists = lists
        self._wakening = wake
        self._columns_sent = False
        self._watch: Watch | None = None

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield lines, several at once, until the time is over or there is no way on."""
        try:
            for part in self._initial():
                if part:
                    yield part
                await asyncio.sleep(0)
            async for part in self._following():
                yield part
        except ApiError as error:
            yield _line("ERROR", encoded(error.status()))

    def _initial(self) -> Iterable[bytes]:
        """Begin; yield the initial events, if requested, and b"" between batches."""
        request, version = self._request, self._store.version
        if request.since is not None:
            self._begin(request.since or version)
            return
        self._begin(version)
        held: list[Stored] = []
        for listed in self._lists.present(request.wanted):
            if listed is not None:
                held.append(listed)
            if held and (listed is None or len(held) >= PIECE):
                yield from bounded(self._shown("ADDED", stored) for stored in held)
                held = []
            elif listed is None:
                yield b""
        if request.marked:
            yield self._bookmark(version, initial=True)

    def _begin(self, version: int) -> None:
        """Follow what comes after a version, which may lie ahead."""
        self._watch = self._store.watch(self._request.target.served.resource.key, since=version)

    async def _following(self) -> AsyncIterator[bytes]:
        assert self._watch is not None
        watch, clock = self._watch, asyncio.get_running_loop().time
        kind = self._request.target.served.resource.key
        end, marked_at = clock() + self._request.seconds, clock()
        bookmarked = self._store.version
        while not self._wakening.ending:
            for lines in bounded(self._seen(watch.drain(PIECE))):
                yield lines
            if watch.behind and watch.version < self._store.version:
                await asyncio.sleep(0)
                continue
            if clock() >= end:
                break
            due = marked_at + BOOKMARK_SECONDS
            if self._request.bookmarks and clock() >= due:
                marked_at = clock()
                if watch.version > bookmarked:
                    bookmarked = watch.version
                    yield self._bookmark(bookmarked)
            rest = max(end - clock(), 0.0)
            if self._store.changed_at(kind) <= watch.version:
                nothing_until = await self._wakening.change(kind, min(rest, BOOKMARK_SECONDS))
                watch.pass_over(nothing_until)
        if self._request.bookmarks and watch.version <= self._store.version:
            yield self._bookmark(watch.version)

    def _seen(self, changes: Iterable[StoreChange]) -> Iterable[bytes]:
        for change in changes:
            seen = self._request.wanted.seen(change)
            if seen is not None:
                yield self._shown(seen.type, seen.new)

    def _shown(self, event: str, stored: Stored) -> bytes:
        served, form = self._request.target.served, self._request.form
        if form.shown_as == TABLE:
            return _line(event, encoded(self._table(stored)))
        if form.shown_as == METADATA:
            return _line(event, encoded(metadata(stored.data)))
        return _line(event, served.form.raw(stored))

    def _table(self, stored: Stored) -> Plain:
        """Return a table of one row; the columns are named in the first one only."""
        served = self._request.target.served
        columns = None if self._columns_sent else definitions(served.kind, served.custom)
        self._columns_sent = True
        data = served.form.data(stored)
        return {
            "kind": TABLE,
            "apiVersion": f"meta.k8s.io/{self._request.form.version}",
            "metadata": {"resourceVersion": str(stored.version)},
            "columnDefinitions": columns,
            "rows": [
                row(served.kind, data, self._store.now(), self._request.included, served.custom)
            ],
        }

    def _bookmark(self, version: int, *, initial: bool = False) -> bytes:
        served = self._request.target.served
        meta: Plain = {"resourceVersion": str(version)}
        if initial:
            meta["annotations"] = {INITIAL_END: "true"}
        data: Plain = {"kind": served.kind, "apiVersion": served.group_version, "metadata": meta}
        if served.resource.key == POD:
            data |= {"spec": {"containers": None}, "status": {}}
        return _line("BOOKMARK", encoded(data))


def _line(event: str, body: bytes) -> bytes:
    return b'{"type":"' + event.encode() + b'","object":' + body + b"}\n"
