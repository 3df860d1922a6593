"""The pods of each controller, counted by how they stand, as far as changes were seen."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import Any, Final

from policy_sched.client.apimachinery import POD, REVISION, SECOND, ApiError, Stored, timestamp
from policy_sched.embedded.controllers.workqueue import Controller, Over
from policy_sched.embedded.store import DELETED, DeleteOptions, Key, ObjectStore, StoreChange
from policy_sched.manifests import Plain, workload_expansion as expansion
from policy_sched.model import Kind, OwnerReference, Pod


class Standing(IntEnum):
    """How a pod stands for its controller; PENDING and READY ones count as its replicas."""

    PENDING = 0
    READY = 1
    LEAVING = 2
    SUCCEEDED = 3
    FAILED = 4


def standing(pod: Pod) -> Standing:
    """Return how a pod stands."""
    if pod.status.phase == "Succeeded":
        return Standing.SUCCEEDED
    if pod.status.phase == "Failed":
        return Standing.FAILED
    if pod.metadata.deletion_timestamp is not None:
        return Standing.LEAVING
    ready = any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
    return Standing.READY if ready else Standing.PENDING


def standing_of(stored: Stored) -> Standing:
    """Return how an object that is a pod stands."""
    return standing(pod_of(stored))


def moved(change: StoreChange) -> tuple[Standing | None, Standing | None] | None:
    """Return how a pod stood before and stands now, None if that is the same; None: not there."""
    before = standing_of(change.old) if change.old is not None else None
    after = standing_of(change.new) if change.type != DELETED else None
    if before == after and change.old is not None and change.old.deleting == change.new.deleting:
        return None
    return before, after


def controller_of(stored: Stored) -> OwnerReference | None:
    """Return the owner that controls an object."""
    for reference in stored.typed.metadata.owner_references:
        if reference.controller:
            return reference
    return None


def owner_key(stored: Stored, owner: OwnerReference) -> Key:
    """Return the key of an owner in the object's namespace."""
    return Key((owner.api_version, owner.kind), stored.namespace, owner.name)


def pod_of(stored: Stored) -> Pod:
    """Return the struct of an object that is a pod."""
    assert isinstance(stored.typed, Pod)
    return stored.typed


class OwnedPods:
    """Pods by the uid of their controller."""

    kinds = frozenset({POD})

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, Stored]] = {}
        self._counts: dict[str, list[int]] = {}

    def observe(self, change: StoreChange) -> None:
        """Apply a change."""
        if change.new.resource.key != POD:
            return
        owner = controller_of(change.new)
        before = controller_of(change.old) if change.old is not None else None
        if before is not None:
            self._remove(before.uid, change.new.uid)
        if owner is not None and change.type != DELETED:
            self._remove(owner.uid, change.new.uid)
            self._pods.setdefault(owner.uid, {})[change.new.uid] = change.new
            counts = self._counts.setdefault(owner.uid, [0] * len(Standing))
            counts[standing_of(change.new)] += 1

    def _remove(self, owner: str, uid: str) -> None:
        pods = self._pods.get(owner)
        removed = pods.pop(uid, None) if pods is not None else None
        if removed is not None:
            self._counts[owner][standing_of(removed)] -= 1
            if not pods:
                del self._pods[owner], self._counts[owner]

    def run(self, over: Over) -> bool:  # noqa: ARG002 - the signature of a component
        """Do nothing."""
        return False

    def next_wakeup(self) -> int | None:
        """Return None."""
        return None

    def of(self, owner: str) -> list[Stored]:
        """Return a controller's pods."""
        return list(self._pods.get(owner, {}).values())

    def replicas(self, owner: str) -> list[Stored]:
        """Return a controller's pods that count as its replicas."""
        return [pod for pod in self.of(owner) if standing_of(pod) <= Standing.READY]

    def count(self, owner: str, *standings: Standing) -> int:
        """Return how many of a controller's pods stand so."""
        counts = self._counts.get(owner)
        return sum(counts[standing] for standing in standings) if counts is not None else 0

    def active(self, owner: str) -> int:
        """Return how many of a controller's pods count as its replicas."""
        return self.count(owner, Standing.PENDING, Standing.READY)


class WorkloadController(Controller):
    """A controller of workloads of some kinds, and of the pods that they control.

    When pods become ready or unready it only counts again, with `sync_status`. ``_readiness``: the
    keys to count.
    """

    workloads: frozenset[Kind]

    def __init__(self, store: ObjectStore, owned: OwnedPods) -> None:
        super().__init__(store)
        self._owned = owned
        self._readiness: OrderedDict[Key, None] = OrderedDict()

    def observe(self, change: StoreChange) -> None:
        """Add a changed workload, or the workload of a changed pod."""
        new = change.new
        if new.resource.key in self.workloads:
            self._queue.add(new.key)
            if change.type == DELETED:
                self.forget(new.uid)
        elif new.resource.key == POD:
            owner = controller_of(new)
            if owner is not None and (owner.api_version, owner.kind) in self.workloads:
                self.pod_changed(owner_key(new, owner), change)

    def forget(self, uid: str) -> None:
        """Drop what is kept about a deleted workload."""

    def pod_changed(self, key: Key, change: StoreChange) -> None:
        """Add a workload, if a change of one of its pods concerns it."""
        raise NotImplementedError

    def sync(self, key: Key) -> bool:
        """Create and delete pods of a workload; return whether anything changed."""
        stored = self._store.find(key.kind, key.namespace, key.name)
        return stored is not None and not stored.deleting and self.sync_workload(key, stored)

    def sync_workload(self, key: Key, stored: Stored) -> bool:
        """Create and delete pods of a workload that is not deleted."""
        raise NotImplementedError

    def sync_status(self, key: Key) -> bool:
        """Write a workload's status; return whether anything changed."""
        raise NotImplementedError

    def next_wakeup(self) -> int | None:
        """Return when the next key is to be processed."""
        return 0 if self._readiness else super().next_wakeup()

    def run(self, over: Over) -> bool:
        """Synchronize the objects in the queue, then count those that need no more."""
        acted = False
        for key in self._queue.pending(over):
            self._readiness.pop(key, None)
            acted = self._queue.process(key, self.sync) or acted
        while self._readiness and not (acted and over()):
            key, _ = self._readiness.popitem(last=False)
            acted = self._queue.process(key, self.sync_status) or acted
        return acted


RETRY: Final = 10 * SECOND
"""After how long a controller tries again to create what was refused."""
BURST: Final = 100
"""Pods of a workload that come or go in one round; the others in the next."""
BURST_BYTES: Final = 1024 * 1024
"""Bytes of the templates of the pods that are made in one round."""
REPLACE_ENDED: Final = SECOND
"""After how long a pod that has ended by itself is replaced, lest pods that fail make a storm."""


def burst(owner: Stored) -> int:
    """Return how many pods of a workload are made in one round: few if each of them is large."""
    return max(1, min(BURST, BURST_BYTES // len(owner.raw)))


def create(store: ObjectStore, data: Mapping[str, Any]) -> Stored | None:
    """Create an object; None if the store refuses it (admission, a name that is taken)."""
    try:
        return store.create(data)
    except ApiError:
        return None


def remove(store: ObjectStore, stored: Stored) -> None:
    """Delete an object, unless it is deleted or terminating already."""
    present = store.find(stored.resource.key, *stored.namespaced_name)
    if present is not None and present.uid == stored.uid and not present.deleting:
        key = stored.key
        store.delete(key, DeleteOptions(uid=stored.uid))


def report(
    store: ObjectStore,
    stored: Stored,
    status: Mapping[str, Any],
    zeros: frozenset[str] = frozenset({"replicas"}),
) -> bool:
    """Write fields of a status; return whether any was new.

    Fields that are 0 or empty are left out, but for `zeros`. The generation that was looked at is
    noted as observed.
    """
    data = stored.data
    old = data.get("status") or {}
    wanted: Plain = {"observedGeneration": data["metadata"].get("generation"), **status}
    new = {key: value for key, value in old.items() if key not in wanted}
    new |= {key: value for key, value in wanted.items() if value or key in zeros}
    if new == old:
        return False
    data["status"] = new
    store.revise(stored, data)
    return True


def condition(status: Plain, kind: str, value: str, reason: str, message: str, now: int) -> None:
    """Set a condition of a workload's status, in place."""
    wanted = {"type": kind, "status": value, "reason": reason, "message": message}
    others = []
    since = timestamp(now)
    for old in status.get("conditions") or ():
        if old.get("type") != kind:
            others.append(old)
        elif old.get("status") == value:
            since = old.get("lastTransitionTime", since)
    wanted |= {"lastTransitionTime": since}
    status["conditions"] = [*others, wanted]


_KEPT: Final = 10
"""Old revisions that are kept, unless the set has a limit."""


class Revisions:
    """Keeps the revisions of the sets of one kind. ``label``: under which the hash is noted."""

    def __init__(self, store: ObjectStore, label: str) -> None:
        self._store = store
        self._label = label
        self._last: dict[str, str] = {}

    def keep(self, owner: Stored, data: Plain, digest: str, live: Collection[str]) -> bool:
        """Make the present template the last revision; return whether anything changed.

        ``digest``: the template's. ``live``: names of revisions that some pod is of.
        """
        name = f"{owner.name}-{digest}"
        present = self._store.find(REVISION, owner.namespace, name)
        if present is not None and self._last.get(owner.uid) == name:
            return False
        revisions = sorted(self._store.owned_by(owner.uid, REVISION), key=_number)
        highest = _number(revisions[-1]) if revisions else 0
        self._last[owner.uid] = name
        acted = True
        if present is None:
            create(self._store, {**self._new(owner, data, name, digest), "revision": highest + 1})
        elif revisions and present.uid != revisions[-1].uid:
            self._store.revise(present, {**present.data, "revision": highest + 1})
        else:
            acted = False
        return self._forget(data, revisions, {name, *live}) or acted

    def forget(self, uid: str) -> None:
        """Remove a deleted set."""
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

    def _forget(self, data: Plain, revisions: list[Stored], live: Collection[str]) -> bool:
        """Delete the oldest revisions without pods, beyond the history limit."""
        limit = data["spec"].get("revisionHistoryLimit")
        old = [revision for revision in revisions if revision.name not in live]
        surplus = old[: max(0, len(old) - (limit if isinstance(limit, int) else _KEPT))]
        for revision in surplus:
            remove(self._store, revision)
        return bool(surplus)


def _number(revision: Stored) -> int:
    revision_number: Any = revision.data.get("revision")
    return revision_number if isinstance(revision_number, int) else 0
