"""Service accounts: each namespace has one called ``default``, and again if it was deleted.

(The serviceaccount controller.)
"""

from __future__ import annotations

from typing import Final

from policy_sched.client.apimachinery import ACCOUNT, NAMESPACE
from policy_sched.embedded.controllers.workqueue import Agenda
from policy_sched.embedded.controllers.writing import create
from policy_sched.embedded.store import DELETED, Change, Key, ObjectStore

DEFAULT: Final = "default"


class Accounts:
    """Makes the default account of each namespace."""

    kinds = frozenset({NAMESPACE, ACCOUNT})

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._agenda = Agenda("serviceaccount", store)

    def seen(self, change: Change) -> None:
        """Take note of a namespace that came, or whose account went."""
        new = change.new
        if new.resource.key == NAMESPACE:
            self._agenda.add(Key(NAMESPACE, "", new.name))
        elif change.type == DELETED and new.name == DEFAULT:
            self._agenda.add(Key(NAMESPACE, "", new.namespace))

    def act(self) -> bool:
        """Make the accounts that are missing."""
        return self._agenda.each(self._make)

    def next_wakeup(self) -> int | None:
        """Return when a namespace is to be looked at again."""
        return self._agenda.next()

    def _make(self, key: Key) -> bool:
        namespace = key.name
        found = self._store.find(NAMESPACE, "", namespace)
        if found is None or found.deleting:
            return False
        if self._store.find(ACCOUNT, namespace, DEFAULT) is not None:
            return False
        meta = {"name": DEFAULT, "namespace": namespace}
        data = {"apiVersion": ACCOUNT[0], "kind": ACCOUNT[1], "metadata": meta}
        return create(self._store, data) is not None
