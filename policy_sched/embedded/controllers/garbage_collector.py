"""Objects that are deleted in the foreground: they go when everything that they own has gone.

(The garbage collector. What is deleted in the background takes its dependents along in the same
change of the store; see `cascade`.)
"""

from __future__ import annotations

from policy_sched.client.apimachinery import Stored
from policy_sched.embedded.controllers.workqueue import Controller
from policy_sched.embedded.store import DELETED, FOREGROUND, Change, DeleteOptions, Key, ObjectStore
from policy_sched.model import KINDS, SKIPPED_KINDS


class GarbageCollector(Controller):
    """Deletes what such objects own, and lets them go in the end."""

    kinds = frozenset({*KINDS, *SKIPPED_KINDS})
    name = "garbage-collector"

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._waiting: dict[str, Key] = {}

    def observe(self, change: Change) -> None:
        """Take note of an object that waits, and of a dependent that has gone."""
        new = change.new
        if change.type == DELETED:
            self._waiting.pop(new.uid, None)
            if self._waiting:
                for owner in new.typed.metadata.owner_references:
                    if owner.uid in self._waiting:
                        self._queue.add(self._waiting[owner.uid])
        elif new.deleting and _waits(new) and new.uid not in self._waiting:
            key = Key(new.resource.key, *new.place)
            self._waiting[new.uid] = key
            self._queue.add(key)

    def sync(self, key: Key) -> bool:
        """Delete what an object that is deleted in the foreground owns, then the object."""
        stored = self._store.find(key.kind, key.namespace, key.name)
        if stored is None or stored.uid not in self._waiting or not self._go_on(stored):
            return False
        self._queue.add(key)  # what others own, too, has gone without an end
        return True

    def _go_on(self, owner: Stored) -> bool:
        dependents = self._store.owned_by(owner.uid)
        if not dependents:
            data = owner.data
            left = [one for one in data["metadata"]["finalizers"] if one != FOREGROUND]
            data["metadata"]["finalizers"] = left
            self._store.revise(owner, data)
            return True
        acted = False
        for one in dependents:
            if len(one.typed.metadata.owner_references) > 1:
                self._leave(one, owner.uid)
            elif not one.deleting:
                options = DeleteOptions(uid=one.uid, foreground=True)
                self._store.delete(Key(one.resource.key, *one.place), options)
            else:
                continue
            acted = True
        return acted

    def _leave(self, one: Stored, uid: str) -> None:
        """Let an object that others own, too, forget an owner."""
        data = one.data
        references = data["metadata"]["ownerReferences"]
        data["metadata"]["ownerReferences"] = [ref for ref in references if ref["uid"] != uid]
        self._store.revise(one, data)


def _waits(stored: Stored) -> bool:
    if FOREGROUND.encode() not in stored.raw:
        return False
    return FOREGROUND in (stored.data["metadata"].get("finalizers") or ())
