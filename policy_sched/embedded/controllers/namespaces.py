"""Namespaces: their contents go with them, and each has a service account called ``default``.

(The namespace controller and the serviceaccount controller.)
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from policy_sched.client.apimachinery import ACCOUNT, NAMESPACE, POD
from policy_sched.embedded.controllers.garbage_collector import ALL_KINDS
from policy_sched.embedded.controllers.pod_control import create, remove
from policy_sched.embedded.controllers.workqueue import Controller
from policy_sched.embedded.store import (
    ADDED,
    DELETED,
    Key,
    ObjectStore,
    StoreChange,
    awaits_finalize,
)

DEFAULT: Final = "default"


class ServiceAccountController(Controller):
    """Makes the default account of each namespace."""

    kinds = frozenset({NAMESPACE, ACCOUNT})
    name = "serviceaccount"

    def observe(self, change: StoreChange) -> None:
        """Add a namespace that is new, or whose account was deleted."""
        new = change.new
        if new.resource.key == NAMESPACE:
            self._queue.add(Key(NAMESPACE, "", new.name))
        elif change.type == DELETED and new.name == DEFAULT:
            self._queue.add(Key(NAMESPACE, "", new.namespace))

    def sync(self, key: Key) -> bool:
        """Create a namespace's default service account."""
        namespace = key.name
        stored = self._store.find(NAMESPACE, "", namespace)
        if stored is None or stored.deleting:
            return False
        if self._store.find(ACCOUNT, namespace, DEFAULT) is not None:
            return False
        meta = {"name": DEFAULT, "namespace": namespace}
        data = {"apiVersion": ACCOUNT[0], "kind": ACCOUNT[1], "metadata": meta}
        return create(self._store, data) is not None


class NamespaceController(Controller):
    """Deletes the contents of namespaces that are deleted, and at last the namespaces."""

    kinds = ALL_KINDS
    name = "namespace"

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._sizes: Counter[str] = Counter()
        """Objects of each namespace."""
        self._terminating: set[str] = set()

    def observe(self, change: StoreChange) -> None:
        """Add a deleted namespace, and a namespace that lost its last object."""
        new = change.new
        if new.resource.key == NAMESPACE:
            if new.deleting or change.type == DELETED:
                self._queue.add(Key(NAMESPACE, "", new.name))
            else:
                self._terminating.discard(new.name)  # created anew
            return
        namespace = new.namespace
        if not namespace:
            return  # cluster-scoped objects are in no namespace
        if change.type == ADDED:
            self._sizes[namespace] += 1
        elif change.type == DELETED:
            self._sizes[namespace] -= 1
            if not self._sizes[namespace]:
                del self._sizes[namespace]
                self._queue.add(Key(NAMESPACE, "", namespace))

    def sync(self, key: Key) -> bool:
        """Delete an object of a namespace that is deleted, or the namespace if it is empty."""
        stored = self._store.find(key.kind, key.namespace, key.name)
        if key.kind != NAMESPACE:
            if stored is None or stored.deleting or stored.namespace not in self._terminating:
                return False
            remove(self._store, stored)
            return True
        if stored is not None and not stored.deleting:
            return False
        if self._sizes[key.name]:
            if key.name not in self._terminating:
                self._terminating.add(key.name)
                self._add_contents(key.name)
                return True
            return False
        self._terminating.discard(key.name)
        if stored is None or not awaits_finalize(data := stored.data):
            return False
        del data["spec"]["finalizers"]
        self._store.revise(stored, data)
        return True

    def _add_contents(self, namespace: str) -> None:
        """Add the objects of a namespace: workloads before the pods that they would replace."""
        keys = [o.key for o in self._store.everything(namespace)]
        for key in sorted(keys, key=lambda waiting: waiting.kind == POD):
            self._queue.add(key)
