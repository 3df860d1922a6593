"""Deletes pods of deleted nodes and of nodes with a NoExecute taint, so that others replace them.

Pods of a deleted node are deleted after a while, as by the pod garbage collector. Pods that do not
tolerate a NoExecute taint are deleted at once, pods that tolerate it for a time after their
tolerationSeconds, as by the taint eviction controller.
"""

from __future__ import annotations

from typing import Final

from policy_sched.client import apimachinery
from policy_sched.embedded.admission import set_condition
from policy_sched.embedded.controllers.pod_control import Standing, pod_of, standing, standing_of
from policy_sched.embedded.controllers.workqueue import Controller
from policy_sched.embedded.store import DELETED, DeleteOptions, Key, ObjectStore, StoreChange
from policy_sched.model import Node, Pod, Taint

QUARANTINE: Final = 40 * apimachinery.SECOND
"""How long a node must be gone before its pods are (the pod garbage collector's)."""
_BY_GC: Final = ("DeletionByPodGC", "PodGC: node no longer exists")
_BY_TAINT: Final = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")


class PodGarbageCollector(Controller):
    """Deletes pods whose node has gone or repels them."""

    kinds = frozenset({apimachinery.POD, apimachinery.NODE})
    name = "pod-garbage-collector"

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._pods: dict[str, dict[Key, None]] = {}
        self._tainted: dict[str, dict[Taint, int]] = {}
        self._gone: dict[str, int] = {}

    def observe(self, change: StoreChange) -> None:
        """Observe bound pods, and nodes."""
        new = change.new
        if new.resource.key == apimachinery.POD:
            node, key = pod_of(new).spec.node_name, Key(apimachinery.POD, *new.namespaced_name)
            if not node:
                return
            if change.type == DELETED:
                self._pod_gone(node, key)
                return
            self._pods.setdefault(node, {})[key] = None
            if self._store.find(apimachinery.NODE, "", node) is None:
                self._gone.setdefault(node, self._store.now())
                self._queue.add(key)
            elif node in self._tainted:
                self._queue.add(key)
        elif new.resource.key == apimachinery.NODE:
            self._node(change)

    def _pod_gone(self, node: str, key: Key) -> None:
        """Remove a pod, and a deleted node with its last pod."""
        pods = self._pods.get(node, {})
        pods.pop(key, None)
        if not pods:
            self._pods.pop(node, None)
            self._gone.pop(node, None)

    def _node(self, change: StoreChange) -> None:
        name, now = change.new.name, self._store.now()
        typed = change.new.typed
        assert isinstance(typed, Node)
        affected = True
        if change.type == DELETED:
            if name in self._pods:  # for others it is noted when they come
                self._gone[name] = now
            self._tainted.pop(name, None)
        else:
            affected = self._gone.pop(name, None) is not None
            former = self._tainted.pop(name, {})
            taints = [taint for taint in typed.spec.taints if taint.effect == "NoExecute"]
            if taints:
                self._tainted[name] = {taint: former.get(taint, now) for taint in taints}
            affected = affected or bool(taints or former)
        if affected:
            for key in self._pods.get(name, ()):
                self._queue.add(key)

    def sync(self, key: Key) -> bool:
        """Delete a pod whose time is over."""
        stored = self._store.find(key.kind, key.namespace, key.name)
        if stored is None:
            return False
        due, why = self._due(pod_of(stored))
        if due is None or (stored.deleting and why is _BY_TAINT):
            return False
        if due > self._store.now() and not (stored.deleting and why is _BY_GC):
            self._queue.add_at(key, due)
            return False
        self._evict(key, stored, why)
        return True

    def _due(self, pod: Pod) -> tuple[int | None, tuple[str, str]]:
        """Return when a pod is to be deleted, None if it may stay, and why."""
        node = pod.spec.node_name
        gone = self._gone.get(node)
        if gone is not None:
            return gone + QUARANTINE, _BY_GC
        if standing(pod) >= Standing.SUCCEEDED:
            return None, _BY_TAINT
        due: int | None = None
        for taint, since in self._tainted.get(node, {}).items():
            borne = [
                t for t in pod.spec.tolerations if t.tolerates(taint.key, taint.value, taint.effect)
            ]
            limits = [t.toleration_seconds for t in borne if t.toleration_seconds is not None]
            if borne and not limits:
                continue
            time = since + max(0, min(limits, default=0)) * apimachinery.SECOND
            due = time if due is None else min(due, time)
        return due, _BY_TAINT

    def _evict(self, key: Key, stored: apimachinery.Stored, why: tuple[str, str]) -> None:
        data, now = stored.data, self._store.now()
        status = data["status"] = dict(data.get("status") or {})
        condition = {"type": "DisruptionTarget", "status": "True"}
        set_condition(status, condition | {"reason": why[0], "message": why[1]}, now)
        grace = None
        if why is _BY_GC:  # its node is gone: no kubelet can terminate it
            grace = 0
            if standing_of(stored) < Standing.SUCCEEDED:
                status["phase"] = "Failed"
        self._store.revise(stored, data)
        if self._store.find(key.kind, key.namespace, key.name) is not None:  # no finalizer kept it
            self._store.delete(key, DeleteOptions(grace_seconds=grace, uid=stored.uid))
