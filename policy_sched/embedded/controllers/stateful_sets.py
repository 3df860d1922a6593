"""Stateful sets: numbered pods with claims of their own, one after the other or all at once.

In order (the default): a pod is made when all before it are ready, and the last one goes first.
A pod of an old template is deleted, from the last to the partition, one at a time. Claims stay
when their pods go.
"""

from __future__ import annotations

from typing import Final

from policy_sched.client.apimachinery import CLAIM, POD, STATEFUL_SET, Stored
from policy_sched.embedded.controllers import pod_control
from policy_sched.embedded.store import Key, ObjectStore, StoreChange
from policy_sched.manifests import REVISION_HASH, Plain, workload_expansion as expansion

REVISION_LABEL: Final = "controller.kubernetes.io/hash"
_ACTIVE: Final = frozenset({pod_control.Standing.PENDING, pod_control.Standing.READY})


class StatefulSetController(pod_control.WorkloadController):
    """Makes, orders and renews the pods of stateful sets."""

    kinds = frozenset({STATEFUL_SET, POD})
    workloads = frozenset({STATEFUL_SET})
    name = "statefulset"

    def __init__(self, store: ObjectStore, owned: pod_control.OwnedPods) -> None:
        super().__init__(store, owned)
        self._updated: dict[str, int] = {}
        self._revisions = pod_control.Revisions(store, REVISION_LABEL)

    def forget(self, uid: str) -> None:
        """Drop what is kept about a deleted set."""
        self._updated.pop(uid, None)
        self._revisions.forget(uid)

    def pod_changed(self, key: Key, change: StoreChange) -> None:
        """Add a set: only to count again, if a pod has become ready or unready."""
        move = pod_control.moved(change)
        if move is None:
            return
        if _ACTIVE.issuperset(move):
            self._readiness[key] = None
        else:
            self._queue.add(key)

    def sync_status(self, key: Key) -> bool:
        """Count a set of which only pods have become ready or unready."""
        stored = self._store.find(key.kind, key.namespace, key.name)
        if stored is None:
            return False
        data = stored.data
        if self._updated.get(stored.uid) == expansion.replicas_of(data) and not _in_order(data):
            return self._report(stored, data)
        return not stored.deleting and self.sync_workload(key, stored)

    def _report(self, stored: Stored, data: Plain) -> bool:
        """Write the status, from counts and from what the last look found."""
        uid, updated = stored.uid, self._updated.get(stored.uid, 0)
        count, ready = len(self._owned.of(uid)), self._owned.count(uid, pod_control.Standing.READY)
        wanted = expansion.revision(stored.name, expansion.template_of(data))
        current = (data.get("status") or {}).get("currentRevision") or wanted
        strategy = (data["spec"].get("updateStrategy") or {}).get("type")
        if updated == ready == count and strategy != "OnDelete":
            current = wanted
        status = {
            "replicas": count,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "currentReplicas": updated if current == wanted else count - updated,
            "updatedReplicas": updated,
            "currentRevision": current,
            "updateRevision": wanted,
        }
        return pod_control.report(self._store, stored, status)

    def sync_workload(self, key: Key, stored: Stored) -> bool:
        """Create, delete and replace the pods of a set."""
        data = stored.data
        if not expansion.template_of(data):
            return False
        pods = {owned.name: owned for owned in self._owned.of(stored.uid)}
        first = expansion.first_ordinal(data)
        ordinals = range(first, first + max(0, expansion.replicas_of(data)))
        acted = self._fill(key, stored, pods, ordinals)
        if not acted:
            acted = self._cut(data, pods, ordinals) or self._renew(data, pods, ordinals)
        digest = expansion.template_hash(expansion.template_of(data))
        live = {pod.labels.get(REVISION_HASH, "") for pod in pods.values()}
        acted = self._revisions.keep(stored, data, digest, live) or acted
        revision = expansion.revision(stored.name, expansion.template_of(data))
        updated = sum(pod.labels.get(REVISION_HASH) == revision for pod in pods.values())
        self._updated[stored.uid] = updated
        return self._report(stored, data) or acted

    def _fill(self, key: Key, stored: Stored, pods: dict[str, Stored], ordinals: range) -> bool:
        """Create missing pods and delete failed ones, in order unless the policy is Parallel."""
        acted, name, count, data = False, stored.name, 0, stored.data
        for ordinal in ordinals:
            pod = pods.get(expansion.stateful_name(name, ordinal))
            if pod is None:
                if not self._make(data, ordinal):
                    self._queue.add_at(key, self._store.now() + pod_control.RETRY)
                    return acted
                acted, count = True, count + 1
                if count == pod_control.burst(stored):
                    self._queue.add(key)
                    return True
            elif (
                pod_control.standing_of(pod) >= pod_control.Standing.SUCCEEDED and not pod.deleting
            ):
                pod_control.remove(self._store, pod)
                acted = True
            if _in_order(data) and (
                pod is None or pod_control.standing_of(pod) != pod_control.Standing.READY
            ):
                # What comes later waits, but is looked after.
                return acted
        return acted

    def _make(self, data: Plain, ordinal: int) -> bool:
        for claim in expansion.stateful_claims(data, ordinal):
            meta = claim["metadata"]
            present = self._store.find(CLAIM, meta["namespace"], meta["name"])
            if present is None and pod_control.create(self._store, claim) is None:
                return False
        return pod_control.create(self._store, expansion.stateful_pod(data, ordinal)) is not None

    def _cut(self, data: Plain, pods: dict[str, Stored], ordinals: range) -> bool:
        """Delete the pods that are too many, the last first."""
        surplus = sorted(
            (pod for pod in pods.values() if not _wanted(pod, data, ordinals)),
            key=_ordinal,
            reverse=True,
        )
        if not surplus:
            return False
        if _in_order(data):
            if any(pod.deleting for pod in pods.values()):
                return False  # one at a time
            surplus = surplus[:1]
        going = [pod for pod in surplus if not pod.deleting][: pod_control.BURST]
        for pod in going:
            pod_control.remove(self._store, pod)
        return bool(going)

    def _renew(self, data: Plain, pods: dict[str, Stored], ordinals: range) -> bool:
        """Delete the last pod of an old template, once all others are ready."""
        strategy = data["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return False
        partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
        revision = expansion.revision(data["metadata"]["name"], expansion.template_of(data))
        for ordinal in reversed(ordinals):
            pod = pods.get(expansion.stateful_name(data["metadata"]["name"], ordinal))
            if pod is None or _ordinal(pod) < partition:
                return False
            if pod.labels.get(REVISION_HASH) != revision and not pod.deleting:
                pod_control.remove(self._store, pod)
                return True
            if pod_control.standing_of(pod) != pod_control.Standing.READY:
                return False
        return False


def _in_order(data: Plain) -> bool:
    return bool(data["spec"].get("podManagementPolicy") != "Parallel")


def _wanted(pod: Stored, data: Plain, ordinals: range) -> bool:
    ordinal = _ordinal(pod)
    name = expansion.stateful_name(data["metadata"]["name"], ordinal)
    return ordinal in ordinals and pod.name == name


def _ordinal(pod: Stored) -> int:
    ordinal = pod.name.rpartition("-")[2]
    return int(ordinal) if ordinal.isdecimal() else -1
