"""Revisions of stateful and daemon sets: each template that one has had, so that it can go back.

(pkg/controller/history. The number of a revision that comes into force again is the highest.)
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from policy_sched.client.apimachinery import REVISION, Stored
from policy_sched.embedded.controllers.pod_control import create, remove
from policy_sched.embedded.store import ObjectStore
from policy_sched.manifests import Plain
from policy_sched.manifests import workload_expansion as expansion

_KEPT: Final = 10
"""Old revisions that are kept, unless the set says otherwise."""


class Revisions:
    """Keeps the revisions of the sets of one kind. ``label``: under which the hash is noted."""

    def __init__(self, store: ObjectStore, label: str) -> None:
        self._store = store
        self._label = label
        self._last: dict[str, str] = {}

    def keep(self, owner: Stored, data: Plain, digest: str, live: Collection[str]) -> bool:
        """Let the present template be the last revision; tell whether anything was done.

        ``digest``: the template's. ``live``: names of revisions that some pod is of.
        """
        name = f"{owner.name}-{digest}"
        present = self._store.find(REVISION, owner.namespace, name)
        if present is not None and self._last.get(owner.uid) == name:
            return False
        found = sorted(self._store.owned_by(owner.uid, REVISION), key=_number)
        highest = _number(found[-1]) if found else 0
        self._last[owner.uid] = name
        acted = True
        if present is None:
            create(self._store, {**self._new(owner, data, name, digest), "revision": highest + 1})
        elif found and present.uid != found[-1].uid:
            self._store.revise(present, {**present.data, "revision": highest + 1})
        else:
            acted = False
        return self._forget(data, found, {name, *live}) or acted

    def forget(self, uid: str) -> None:
        """Forget a set that has gone."""
        self._last.pop(uid, None)

    def _new(self, owner: Stored, data: Plain, name: str, digest: str) -> Plain:
        template = expansion.template_of(data)
        labels = {**((template.get("metadata") or {}).get("labels") or {}), self._label: digest}
        reference = {
            "apiVersion": owner.resource.api_version,
            "kind": owner.resource.kind,
            "name": owner.name,
            "uid": owner.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        return {
            "apiVersion": REVISION[0],
            "kind": REVISION[1],
            "metadata": {
                "name": name,
                "namespace": owner.namespace,
                "labels": labels,
                "ownerReferences": [reference],
            },
            "data": {"spec": {"template": {**template, "$patch": "replace"}}},
        }

    def _forget(self, data: Plain, found: list[Stored], live: Collection[str]) -> bool:
        """Delete the oldest revisions that no pod is of, beyond those that are kept."""
        limit = data["spec"].get("revisionHistoryLimit")
        old = [one for one in found if one.name not in live]
        surplus = old[: max(0, len(old) - (limit if isinstance(limit, int) else _KEPT))]
        for one in surplus:
            remove(self._store, one)
        return bool(surplus)


def _number(revision: Stored) -> int:
    number: Any = revision.data.get("revision")
    return number if isinstance(number, int) else 0
