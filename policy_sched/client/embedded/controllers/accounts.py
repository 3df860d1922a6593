"""Service accounts: each namespace has one called ``default``, and again if it was deleted.

(The serviceaccount controller.)
"""

from __future__ import annotations

from typing import Final

from policy_sched.client.embedded.controllers.writing import create
from policy_sched.client.embedded.history import DELETED, Change
from policy_sched.client.embedded.resources import ACCOUNT, NAMESPACE
from policy_sched.client.embedded.store import ObjectStore

DEFAULT: Final = "default"


class Accounts:
    """Makes the default account of each namespace."""

    kinds = frozenset({NAMESPACE, ACCOUNT})

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._namespaces: dict[str, None] = {}

    def seen(self, change: Change) -> None:
        """Take note of a namespace that came, or whose account went."""
        new = change.new
        if new.resource.key == NAMESPACE:
            self._namespaces[new.name] = None
        elif change.type == DELETED and new.name == DEFAULT:
            self._namespaces[new.namespace] = None

    def act(self) -> bool:
        """Make the accounts that are missing."""
        names = list(self._namespaces)
        self._namespaces.clear()
        made = [self._make(name) for name in names]
        return any(made)

    def next_wakeup(self) -> int | None:
        """Return None: nothing is ever due."""
        return None

    def _make(self, namespace: str) -> bool:
        found = self._store.find(NAMESPACE, "", namespace)
        if found is None or found.deleting:
            return False
        if self._store.find(ACCOUNT, namespace, DEFAULT) is not None:
            return False
        meta = {"name": DEFAULT, "namespace": namespace}
        data = {"apiVersion": ACCOUNT[0], "kind": ACCOUNT[1], "metadata": meta}
        return create(self._store, data) is not None
