"""Work queues of controllers: keys of objects to synchronize now, or at a time.

A queue holds each key once, however much happened to its object. An error of one object is
contained: it is logged and counted, the key is added again after a back-off that doubles (as in
client-go's workqueue), and the other keys are processed.
"""

from __future__ import annotations

import heapq
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Final, Generic, Protocol, TypeVar

from policy_sched.client.apimachinery import SECOND
from policy_sched.embedded.store import Key, ObjectStore, StoreChange
from policy_sched.model import Kind

KeyT = TypeVar("KeyT", bound=Hashable)
FEW: Final = 64
"""Times in vain that are not worth a look."""


class KeyTimers(Generic[KeyT]):
    """At most one time (nanoseconds) per key; equal times in the order in which they were set."""

    def __init__(self) -> None:
        self._due: dict[KeyT, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, KeyT]] = []
        self._serial = 0

    def __bool__(self) -> bool:
        """Return whether there is any time."""
        return bool(self._due)

    def set(self, key: KeyT, due: int) -> None:
        """Set the key's time, instead of the one that it has."""
        present = self._due.get(key)
        if present is not None and present[0] == due:
            return
        self._serial += 1
        self._due[key] = due, self._serial
        heapq.heappush(self._heap, (due, self._serial, key))
        self._tidy()

    def clear(self, key: KeyT) -> None:
        """Forget the key's time, if it has one."""
        if self._due.pop(key, None) is not None:
            self._tidy()

    def next(self) -> int | None:
        """Return the earliest time."""
        heap = self._heap
        while heap and self._due.get(heap[0][2]) != heap[0][:2]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def __len__(self) -> int:
        """Return how many keys have a time."""
        return len(self._due)

    def pop(self) -> KeyT:
        """Return and forget the key with the earliest time; there must be one."""
        self.next()
        key = heapq.heappop(self._heap)[2]
        del self._due[key]
        return key

    def _tidy(self) -> None:
        """Drop obsolete times, if most are such."""
        if len(self._heap) > 2 * len(self._due) + FEW:
            self._heap = [(*when, key) for key, when in self._due.items()]
            heapq.heapify(self._heap)

    def expired(self, now: int) -> Iterator[KeyT]:
        """Yield and forget the keys whose time has come, the earliest first."""
        while (due := self.next()) is not None and due <= now:
            yield self.pop()


FIRST_RETRY: Final = SECOND // 200
"""After how long a failed key is tried again; each further time after twice as long."""
LONGEST_RETRY: Final = 1000 * SECOND
ENOUGH: Final = 200
"""Changes that one controller makes in a round, at most; the rest of its keys wait."""
_DOUBLINGS: Final = 18
_LOG: Final = logging.getLogger("policy_sched.controllers")
K = TypeVar("K", bound=Hashable)

Over = Callable[[], bool]
"""Returns whether the time for what runs now is over."""


class Component(Protocol):
    """A part of the control plane that acts on the store: a controller, the kubelets."""

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of objects whose changes are observed."""

    def observe(self, change: StoreChange) -> None:
        """Note a change of such an object; the store must not be changed here."""

    def run(self, over: Over) -> bool:
        """Handle queued keys and expired timers in the time given; return whether there were any.

        What does not fit into the time is left for the next call, and `next_wakeup` returns 0.
        """

    def next_wakeup(self) -> int | None:
        """Return when something is due (ns since 1970), 0 for now, None for nothing."""


class RetryCounts(Generic[K]):
    """Failures in a row, by what failed; all failures are counted in the store."""

    def __init__(self, controller: str, store: ObjectStore) -> None:
        self._controller = controller
        self._store = store
        self._failures: dict[K, int] = {}

    def failed(self, what: K, error: Exception) -> int:
        """Log and count a failure; return when to try again (ns since 1970)."""
        failures = self._failures[what] = self._failures.get(what, 0) + 1
        self._store.sync_errors[self._controller] += 1
        text = "%s: failed to sync %s (attempt %d): %s"
        trace = error if failures == 1 else None  # the first is enough
        _LOG.error(text, self._controller, what, failures, error, exc_info=trace)
        return self._store.now() + min(FIRST_RETRY << min(failures - 1, _DOUBLINGS), LONGEST_RETRY)

    def succeeded(self, what: K) -> None:
        """Forget the failures of something."""
        if self._failures:
            self._failures.pop(what, None)


class WorkQueue:
    """Keys of objects to process now or later. ``controller`` is the name in logs and metrics."""

    def __init__(self, controller: str, store: ObjectStore) -> None:
        self._retries: RetryCounts[Key] = RetryCounts(controller, store)
        self._store = store
        self._now: OrderedDict[Key, None] = OrderedDict()  # its first key is found in one step
        self._later: KeyTimers[Key] = KeyTimers()

    def add(self, key: Key) -> None:
        """Process a key in this round."""
        self._now[key] = None

    def add_at(self, key: Key, due: int) -> None:
        """Process a key at a time (ns since 1970), unless it is added before."""
        self._later.set(key, due)

    def pending(self, over: Over) -> Iterator[Key]:
        """Yield and remove the keys to process now.

        It ends when the time is over or much has changed, after one key at the earliest; the
        other keys stay in the queue.
        """
        for key in self._later.expired(self._store.now()):
            self._now[key] = None
        before = self._store.version
        for turn in range(len(self._now)):
            if turn and (self._store.version - before >= ENOUGH or over()):
                return
            key, _ = self._now.popitem(last=False)
            self._later.clear(key)
            yield key

    def process(self, key: Key, sync: Callable[[Key], bool]) -> bool:
        """Synchronize a key's object; add the key again if that fails. Return whether it acted."""
        try:
            acted = sync(key)
        except Exception as error:  # noqa: BLE001 - an object of whatever content is contained
            self.add_at(key, self._retries.failed(key, error))
            return False
        self._retries.succeeded(key)
        return acted

    def next(self) -> int | None:
        """Return when the next key is to be processed; 0 if that is now."""
        return 0 if self._now else self._later.next()


class Controller:
    """A controller: a work queue, `observe`, which fills it, and `sync`, which works it off."""

    kinds: frozenset[Kind]
    name: str

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._queue = WorkQueue(self.name, store)

    def observe(self, change: StoreChange) -> None:
        """Add the keys that a change concerns."""
        raise NotImplementedError

    def sync(self, key: Key) -> bool:
        """Reconcile the cluster with an object; return whether anything changed."""
        raise NotImplementedError

    def next_wakeup(self) -> int | None:
        """Return when the next key is to be processed."""
        return self._queue.next()

    def run(self, over: Over) -> bool:
        """Synchronize the objects in the queue."""
        acted = False
        for key in self._queue.pending(over):
            acted = self._queue.process(key, self.sync) or acted
        return acted
