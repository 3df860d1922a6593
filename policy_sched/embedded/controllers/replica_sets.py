"""Replica sets and replication controllers: as many pods as they want, no more and no fewer."""

from __future__ import annotations

from typing import Final

from policy_sched.client import apimachinery
from policy_sched.embedded.controllers import pod_control
from policy_sched.embedded.controllers.pod_control import BURST
from policy_sched.embedded.store import UPDATED, Key, ObjectStore, StoreChange
from policy_sched.manifests import Plain, workload_expansion as expansion
from policy_sched.model import ReplicaSet, ReplicationController

_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"


class ReplicaSetController(pod_control.WorkloadController):
    """Makes and deletes pods until there are as many as wanted."""

    kinds = frozenset({apimachinery.POD, apimachinery.REPLICA_SET, apimachinery.CONTROLLER})
    workloads = frozenset({apimachinery.REPLICA_SET, apimachinery.CONTROLLER})
    name = "replicaset"

    def __init__(self, store: ObjectStore, owned: pod_control.OwnedPods) -> None:
        super().__init__(store, owned)
        self._not_before: dict[Key, int] = {}

    def pod_changed(self, key: Key, change: StoreChange) -> None:
        """Add a set; pods that have ended are replaced after a pause."""
        move = pod_control.moved(change)
        if move is None:
            return
        if (
            move[1] in (pod_control.Standing.SUCCEEDED, pod_control.Standing.FAILED)
            and change.type == UPDATED
        ):
            self._not_before[key] = self._store.now() + pod_control.REPLACE_ENDED
        self._queue.add(key)

    def sync_workload(self, key: Key, stored: apimachinery.Stored) -> bool:
        """Create or delete pods until there are as many as a set wants."""
        typed = stored.typed
        assert isinstance(typed, ReplicaSet | ReplicationController)
        active = self._owned.active(stored.uid)
        missing = max(0, typed.spec.replicas) - active
        if missing > 0 and typed.spec.template is not None:
            missing = self._fill(key, stored, min(missing, pod_control.burst(stored)))
        elif missing < 0:
            ranked = sorted(self._owned.replicas(stored.uid), key=_deletion_rank)
            for pod in ranked[: min(-missing, BURST)]:
                pod_control.remove(self._store, pod)
        ready = self._owned.count(stored.uid, pod_control.Standing.READY)
        status: Plain = {
            "replicas": active,
            "fullyLabeledReplicas": active,
            "readyReplicas": ready,
            "availableReplicas": ready,
        }
        if key.kind == apimachinery.REPLICA_SET:
            status["terminatingReplicas"] = self._owned.count(
                stored.uid, pod_control.Standing.LEAVING
            )
        return pod_control.report(self._store, stored, status) or missing != 0

    def _fill(self, key: Key, stored: apimachinery.Stored, missing: int) -> int:
        """Create missing pods, or queue the set until its retry is due; return their number."""
        now = self._store.now()
        due = self._not_before.pop(key, now)
        if due > now:
            self._not_before[key] = due
            self._queue.add_at(key, due)
            return 0
        if not self._create(stored, missing):
            self._queue.add_at(key, now + pod_control.RETRY)
        return missing

    def _create(self, stored: apimachinery.Stored, count: int) -> bool:
        """Create so many pods; return whether all of them were."""
        data = stored.data
        owner, template = expansion.Owner.of(data), expansion.template_of(data)
        pod = expansion.replica(owner, template, "")
        for _ in range(count):
            seed = str(self._store.version)
            name = expansion.generated_name(owner.name, seed)
            while self._store.find(apimachinery.POD, owner.namespace, name) is not None:
                seed += "'"
                name = expansion.generated_name(owner.name, seed)
            pod["metadata"]["name"] = name
            if pod_control.create(self._store, pod) is None:
                return False
        return True


def _deletion_rank(stored: apimachinery.Stored) -> tuple[bool, bool, bool, int, int]:
    """Return the sort key of pods for deletion, the first to go first (ActivePodsWithRanks)."""
    pod = pod_control.pod_of(stored)
    cost = pod.metadata.annotations.get(_DELETION_COST, "0")
    return (
        bool(pod.spec.node_name),
        pod.status.phase == "Running",
        pod_control.standing(pod) == pod_control.Standing.READY,
        int(cost) if cost.lstrip("-").isdecimal() else 0,
        -stored.version,
    )
