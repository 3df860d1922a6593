"""What a controller is to look at: objects that something happened to, and those whose time came.

A controller looks at each object on its agenda once per round, however much happened to it. An
error in a look is contained: it is logged and counted, the object is looked at again after a
back-off that doubles (as client-go's workqueues do it), and the other objects are not held up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterator
from typing import Final, Generic, Protocol, TypeVar

from policy_sched.client.apimachinery import SECOND
from policy_sched.embedded.controllers.timers import Timers
from policy_sched.embedded.store import Change, Key, ObjectStore
from policy_sched.model import Kind

FIRST_RETRY: Final = SECOND // 200
"""After how long a failed look is repeated; each further one after twice as long."""
LONGEST_RETRY: Final = 1000 * SECOND
ENOUGH: Final = 200
"""Changes of one controller in a round, after which others have their turn."""
_DOUBLINGS: Final = 18
_LOG: Final = logging.getLogger("policy_sched.controllers")
K = TypeVar("K", bound=Hashable)


class Part(Protocol):
    """Something that acts on the store: a controller, the kubelets."""

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of objects whose changes it wants to see."""

    def seen(self, change: Change) -> None:
        """Take note of a change of such an object; the store must not be changed now."""

    def act(self) -> bool:
        """Do what follows and what is due; tell whether anything was done."""

    def next_wakeup(self) -> int | None:
        """Return when something is due by itself (ns since 1970)."""


class Retries(Generic[K]):
    """Failures in a row, by what failed; all failures are counted in the store."""

    def __init__(self, controller: str, store: ObjectStore) -> None:
        self._controller = controller
        self._store = store
        self._failures: dict[K, int] = {}

    def failed(self, what: K, error: Exception) -> int:
        """Log and count a failure; return when to try again (ns since 1970)."""
        number = self._failures[what] = self._failures.get(what, 0) + 1
        self._store.sync_errors[self._controller] += 1
        text = "%s: failed to sync %s (attempt %d): %s"
        trace = error if number == 1 else None  # the same again says nothing new
        _LOG.error(text, self._controller, what, number, error, exc_info=trace)
        return self._store.now() + min(FIRST_RETRY << min(number - 1, _DOUBLINGS), LONGEST_RETRY)

    def succeeded(self, what: K) -> None:
        """Forget the failures of something."""
        if self._failures:
            self._failures.pop(what, None)


class Agenda:
    """Keys of objects to look at now or later. ``controller`` is its name in logs and metrics."""

    def __init__(self, controller: str, store: ObjectStore) -> None:
        self._retries: Retries[Key] = Retries(controller, store)
        self._store = store
        self._now: dict[Key, None] = {}
        self._later: Timers[Key] = Timers()

    def add(self, key: Key) -> None:
        """Look at an object in this round."""
        self._now[key] = None

    def at(self, key: Key, due: int) -> None:
        """Look at an object at a time (ns since 1970), unless that comes up before."""
        self._later.set(key, due)

    def take(self) -> list[Key]:
        """Return what is to be looked at now, and forget it."""
        if not self._now and not self._later:
            return []
        for key in self._later.expired(self._store.now()):
            self._now[key] = None
        taken = list(self._now)
        self._now.clear()
        for key in taken:
            self._later.clear(key)
        return taken

    def each(self, look: Callable[[Key], bool]) -> bool:
        """Look at what is to be looked at now; tell whether anything was done."""
        acted = False
        for key in self.some():
            acted = self.one(key, look) or acted
        return acted

    def some(self) -> Iterator[Key]:
        """Yield what is to be looked at now, until enough has changed; the rest is left."""
        keys, before = self.take(), self._store.version
        for place, key in enumerate(keys):
            if self._store.version - before >= ENOUGH:
                self._now = dict.fromkeys([*keys[place:], *self._now])
                return
            yield key

    def one(self, key: Key, look: Callable[[Key], bool]) -> bool:
        """Look at an object; if that fails, later again. Tell whether anything was done."""
        try:
            acted = look(key)
        except Exception as error:  # noqa: BLE001 - an object of whatever content is contained
            self.at(key, self._retries.failed(key, error))
            return False
        self._retries.succeeded(key)
        return acted

    def next(self) -> int | None:
        """Return when the next object is to be looked at; 0 if that is now."""
        return 0 if self._now else self._later.next()
