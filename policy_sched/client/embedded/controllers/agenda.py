"""What a controller is to look at: objects that something happened to, and those whose time came.

A controller looks at each object on its agenda once per round, however much happened to it.
"""

from __future__ import annotations

from typing import Protocol

from policy_sched.client.embedded.history import Change
from policy_sched.client.embedded.store import Key
from policy_sched.client.embedded.timers import Timers
from policy_sched.model.kinds import Kind


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


class Agenda:
    """Keys of objects to look at now or later."""

    def __init__(self) -> None:
        self._now: dict[Key, None] = {}
        self._later: Timers[Key] = Timers()

    def add(self, key: Key) -> None:
        """Look at an object in this round."""
        self._now[key] = None

    def at(self, key: Key, due: int) -> None:
        """Look at an object at a time (ns since 1970), unless that comes up before."""
        self._later.set(key, due)

    def take(self, now: int) -> list[Key]:
        """Return what is to be looked at now, and forget it."""
        if not self._now and not self._later:
            return []
        for key in self._later.expired(now):
            self._now[key] = None
        taken = list(self._now)
        self._now.clear()
        for key in taken:
            self._later.clear(key)
        return taken

    def next(self) -> int | None:
        """Return when the next object is to be looked at; 0 if that is now."""
        return 0 if self._now else self._later.next()
