"""Service accounts: each namespace has one called ``default``, and again if it was deleted.

(The serviceaccount controller.)
"""

from __future__ import annotations

from typing import Final

from policy_sched.client.apimachinery import ACCOUNT, NAMESPACE
from policy_sched.embedded.controllers.pod_control import create
from policy_sched.embedded.controllers.workqueue import Controller
from policy_sched.embedded.store import DELETED, Change, Key, ObjectStore

DEFAULT: Final = "default"


class ServiceAccountController(Controller):
    """Makes the default account of each namespace."""

    kinds = frozenset({NAMESPACE, ACCOUNT})
    name = "serviceaccount"

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)

    def observe(self, change: Change) -> None:
        """Take note of a namespace that came, or whose account went."""
        new = change.new
        if new.resource.key == NAMESPACE:
            self._queue.add(Key(NAMESPACE, "", new.name))
        elif change.type == DELETED and new.name == DEFAULT:
            self._queue.add(Key(NAMESPACE, "", new.namespace))

    def sync(self, key: Key) -> bool:
        """Create a namespace's default service account."""
        namespace = key.name
        found = self._store.find(NAMESPACE, "", namespace)
        if found is None or found.deleting:
            return False
        if self._store.find(ACCOUNT, namespace, DEFAULT) is not None:
            return False
        meta = {"name": DEFAULT, "namespace": namespace}
        data = {"apiVersion": ACCOUNT[0], "kind": ACCOUNT[1], "metadata": meta}
        return create(self._store, data) is not None
