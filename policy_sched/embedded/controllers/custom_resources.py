"""Definitions of custom resources that are deleted: their objects go first.

kube-apiserver does this itself, so it is done here without the other controllers, too. A definition
whose names another one had is accepted once these are free.
"""

from __future__ import annotations

from policy_sched.client.apimachinery import DEFINITION
from policy_sched.embedded.controllers.garbage_collector import ALL_KINDS
from policy_sched.embedded.controllers.pod_control import BURST, remove
from policy_sched.embedded.controllers.workqueue import Controller
from policy_sched.embedded.schema import CLEANUP
from policy_sched.embedded.store import DELETED, Key, ObjectStore, StoreChange


class CustomResourceController(Controller):
    """Deletes the objects of definitions that are deleted, and then lets these go."""

    kinds = ALL_KINDS  # which custom kinds belong to
    name = "customresourcedefinition"

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._deleting: set[str] = set()

    def observe(self, change: StoreChange) -> None:
        """Add definitions that are deleted, or lost an object, or whose names may be free."""
        new = change.new
        if new.resource.key == DEFINITION:
            if new.deleting and change.type != DELETED:
                self._deleting.add(new.name)
            else:
                self._deleting.discard(new.name)
            names = [new.name]
            if change.type == DELETED:
                names = [stored.name for stored in self._store.select(DEFINITION)]
        elif new.resource.custom and change.type == DELETED and self._deleting:
            names = [new.resource.qualified]
        else:
            return
        for name in names:
            self._queue.add(Key(DEFINITION, "", name))

    def sync(self, key: Key) -> bool:
        """Delete objects of a definition that is deleted, or accept the names of another one."""
        stored = self._store.find(DEFINITION, "", key.name)
        if stored is None:
            return False
        data = stored.data
        finalizers = data["metadata"].get("finalizers") or []
        if not stored.deleting:
            changed = self._store.custom.judge(data, self._store.now())
            if changed:
                self._store.revise(stored, data)
            return changed
        if CLEANUP not in finalizers:
            return False
        kind = self._store.custom.kind(key.name)
        objects = self._store.select(kind.resource.key) if kind is not None else []
        if not objects:
            data["metadata"]["finalizers"] = [name for name in finalizers if name != CLEANUP]
            self._store.revise(stored, data)
            return True
        left = [stored for stored in objects if not stored.deleting]
        for instance in left[:BURST]:
            remove(self._store, instance)
        if len(left) > BURST:
            self._queue.add(key)
        return bool(left)
