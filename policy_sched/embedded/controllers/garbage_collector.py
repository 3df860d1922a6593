"""The garbage collector: dependents go with their owners, or are orphaned.

Objects are deleted one by one, as many in a turn as there is time for. The store has the remaining
work at any time: a waiting owner has a finalizer, a deleted one is in ``deleted_owners``.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from policy_sched.client.apimachinery import Stored
from policy_sched.embedded.controllers.pod_control import BURST
from policy_sched.embedded.controllers.workqueue import Controller
from policy_sched.embedded.store import (
    DELETED,
    FOREGROUND,
    ORPHAN,
    DeleteOptions,
    Key,
    ObjectStore,
    StoreChange,
)
from policy_sched.model import KINDS, SKIPPED_KINDS

ALL_KINDS: Final = frozenset({*KINDS, *SKIPPED_KINDS})


class GarbageCollector(Controller):
    """Deletes or orphans the dependents of objects that are deleted."""

    kinds = ALL_KINDS
    name = "garbage-collector"

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._orphaning: dict[str, Key] = {}
        """Owners whose dependents stay, by uid."""
        self._waiting: dict[str, Key] = {}
        """Owners that wait until their dependents have gone, by uid."""

    def observe(self, change: StoreChange) -> None:
        """Add owners that wait, and the dependents of owners that wait or have gone."""
        new, deleted = change.new, self._store.deleted_owners
        owners = new.typed.metadata.owner_references
        if self._waiting and change.old is not None:  # which may have lost its last dependent
            for owner in change.old.typed.metadata.owner_references:
                if owner.uid in self._waiting:
                    self._queue.add(self._waiting[owner.uid])
        if change.type == DELETED:
            self._waiting.pop(new.uid, None)
            self._orphaning.pop(new.uid, None)
            if new.uid in deleted:
                self._add_dependents(new.uid)
            return
        key = new.key
        finalizer = _waits_for(new) if new.deleting else ""
        if finalizer == ORPHAN:
            self._orphaning[new.uid] = key
            self._queue.add(key)
        elif finalizer and new.uid not in self._waiting:
            self._waiting[new.uid] = key
            self._queue.add(key)
            self._add_dependents(new.uid)
        elif any(owner.uid in self._waiting or owner.uid in deleted for owner in owners):
            self._queue.add(key)

    def _add_dependents(self, uid: str) -> None:
        for key in self._store.dependents(uid):
            self._queue.add(key)

    def sync(self, key: Key) -> bool:
        """Finish an owner that waited, or delete a dependent; return whether anything changed."""
        stored = self._store.find(key.kind, key.namespace, key.name)
        if stored is None:
            return False
        if stored.uid in self._orphaning:
            return self._orphan(key, stored)
        if stored.uid in self._waiting and not self._store.dependents(stored.uid):
            self._finish(stored, FOREGROUND)
            return True
        return self._collect(key, stored)

    def _orphan(self, key: Key, owner: Stored) -> bool:
        """Remove references to an owner from some of its dependents, and at last its finalizer."""
        for dependent in list(islice(self._store.dependents(owner.uid), BURST)):
            self._release(
                self._store.get(dependent.kind, dependent.namespace, dependent.name), {owner.uid}
            )
        if self._store.dependents(owner.uid):
            self._queue.add(key)
        else:
            self._finish(owner, ORPHAN)
        return True

    def _collect(self, key: Key, stored: Stored) -> bool:
        """Delete an object without remaining owners, or remove its references to deleted ones."""
        owners = stored.typed.metadata.owner_references
        waiting = {owner.uid for owner in owners if owner.uid in self._waiting}
        gone = waiting | {o.uid for o in owners if o.uid in self._store.deleted_owners}
        if not gone:
            return False
        if any(owner.uid not in gone and self._is_there(owner, stored) for owner in owners):
            self._release(stored, gone)
        elif stored.deleting:
            return False
        else:
            options = DeleteOptions(uid=stored.uid, foreground=bool(waiting))
            self._store.delete(key, options)
        return True

    def _is_there(self, owner: Any, dependent: Stored) -> bool:
        """Return whether an owner exists."""
        kind = owner.api_version, owner.kind
        for namespace in {dependent.namespace, ""}:
            stored = self._store.find(kind, namespace, owner.name)
            if stored is not None and stored.uid == owner.uid:
                return True
        return False

    def _release(self, stored: Stored, owners: Iterable[str]) -> None:
        """Remove references to owners from an object."""
        data = stored.data
        meta = data["metadata"]
        left = [
            reference for reference in meta["ownerReferences"] if reference.get("uid") not in owners
        ]
        if left:
            meta["ownerReferences"] = left
        else:
            del meta["ownerReferences"]
        self._store.revise(stored, data)

    def _finish(self, owner: Stored, finalizer: str) -> None:
        """Remove a finalizer."""
        data = owner.data
        meta = data["metadata"]
        meta["finalizers"] = [name for name in meta.get("finalizers") or () if name != finalizer]
        self._store.revise(owner, data)


def _waits_for(stored: Stored) -> str:
    """Return the garbage collector's finalizer of an object, "" if it has none."""
    if FOREGROUND.encode() not in stored.raw and ORPHAN.encode() not in stored.raw:
        return ""
    finalizers = stored.data["metadata"].get("finalizers") or ()
    return next((name for name in (ORPHAN, FOREGROUND) if name in finalizers), "")
