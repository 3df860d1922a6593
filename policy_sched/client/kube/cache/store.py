"""Store: the known state of a collection, and the changes that events and lists make to it.

Theory of operation. A mirror receives two things: an object that came, changed or went (a line
of a watch), and all that there is (a list). Both give the changes that lead from what
was believed to what is: after a list that follows a gap, each object that came, changed or went
meanwhile is one change, and nothing else is. What holds of the sequence of changes of one name:
ADDED and DELETED take turns, MODIFIED stands in between, and ``old`` is ``new`` of the change
before. An object of the same name and another UID is another object: DELETED, then ADDED.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import islice
from typing import Final, Generic, TypeVar

import msgspec

from policy_sched.client.kube.rest import Place
from policy_sched.model import ApiObject

T = TypeVar("T", bound=ApiObject)
S = TypeVar("S")

PIECE: Final = 1000
"""Objects of a list that are compared at a time."""


class ChangeType(StrEnum):
    """What happened to an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Change(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One change: ``old`` is None for ADDED, ``new`` is None for DELETED.

    ``old`` of DELETED is the last state that was seen, which a watch sends with the deletion.
    """

    type: ChangeType
    old: T | None
    new: T | None

    @property
    def object(self) -> T:
        """The object as it is now, or was at last."""
        thing = self.new if self.new is not None else self.old
        assert thing is not None
        return thing


def key_of(thing: ApiObject) -> Place:
    """Return namespace and name of an object."""
    return thing.metadata.namespace, thing.metadata.name


class Store(Generic[T]):
    """The objects of one collection, by place."""

    def __init__(self) -> None:
        self._objects: dict[Place, T] = {}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def get(self, namespace: str, name: str) -> T | None:
        """Return an object, or None."""
        return self._objects.get((namespace, name))

    def upsert(self, thing: T) -> list[Change[T]]:
        """Add or update an object; return the changes, usually one."""
        key = key_of(thing)
        old = self._objects.get(key)
        self._objects[key] = thing
        if old is None:
            return [Change(ChangeType.ADDED, None, thing)]
        if old.metadata.uid != thing.metadata.uid:
            return [
                Change(ChangeType.DELETED, old, None),
                Change(ChangeType.ADDED, None, thing),
            ]
        version = thing.metadata.resource_version
        if version and version == old.metadata.resource_version and type(old) is type(thing):
            self._objects[key] = old  # nothing new: keep what others hold already
            return []
        return [Change(ChangeType.MODIFIED, old, thing)]

    def delete(self, thing: T) -> list[Change[T]]:
        """Remove an object; its last state is given."""
        old = self._objects.pop(key_of(thing), None)
        if old is None:
            return []
        last = thing if old.metadata.uid == thing.metadata.uid else old
        return [Change(ChangeType.DELETED, last, None)]

    def gone(self, where: Place) -> list[Change[T]]:
        """Remove the object at a place."""
        old = self._objects.pop(where, None)
        return [] if old is None else [Change(ChangeType.DELETED, old, None)]

    def held(self, thing: T) -> T:
        """Return what we hold already if it is the same version of the same object.

        So that a list of what is known is not held twice.
        """
        old = self._objects.get(key_of(thing))
        if old is None or old.metadata.uid != thing.metadata.uid:
            return thing
        version, same = thing.metadata.resource_version, type(old) is type(thing)
        return old if same and version and version == old.metadata.resource_version else thing

    def replace(self, things: Iterable[T]) -> list[Change[T]]:
        """Replace the contents by those of a list; return the changes, deletions first."""
        return [change for some in self.replacing(things) for change in some]

    def replacing(self, things: Iterable[T]) -> Iterator[list[Change[T]]]:
        """Do what `replace` does piece by piece; no other change may come before the last piece.

        Each piece takes a few milliseconds at most, so that the event loop can run in between.
        """
        present: dict[Place, T] = {}
        for some in _pieces(things):
            present.update((key_of(thing), thing) for thing in some)
            yield []
        missing = [key for key in self._objects if key not in present]
        for keys in _pieces(missing):
            yield [change for key in keys for change in self.gone(key)]
        for some in _pieces(present.values()):
            yield [change for thing in some for change in self.upsert(thing)]


def _pieces(things: Iterable[S]) -> Iterator[list[S]]:
    rest = iter(things)
    while piece := list(islice(rest, PIECE)):
        yield piece
