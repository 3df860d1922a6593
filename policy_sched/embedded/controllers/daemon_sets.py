"""Daemon sets: one pod on every node that will have it.

A node that is added, changes its labels or its taints, gets or loses its pod. Pods of an old
template are deleted, as many at a time as maxUnavailable allows, and made anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from policy_sched import manifests
from policy_sched.client.apimachinery import DAEMON_SET, NODE, POD, Stored
from policy_sched.embedded.controllers import pod_control
from policy_sched.embedded.controllers.deployments import share
from policy_sched.embedded.store import ADDED, DELETED, Key, ObjectStore, StoreChange
from policy_sched.manifests import workload_expansion as expansion
from policy_sched.model import Node, Pod, required_node_names

_DEFAULT_UNAVAILABLE: Final = 1


class DaemonSetController(pod_control.WorkloadController):
    """Makes and deletes the pods of daemon sets."""

    kinds = frozenset({DAEMON_SET, NODE, POD})
    workloads = frozenset({DAEMON_SET})
    name = "daemonset"

    def __init__(self, store: ObjectStore, owned: pod_control.OwnedPods) -> None:
        super().__init__(store, owned)
        self._desired: dict[str, manifests.Plain] = {}
        self._revisions = pod_control.Revisions(store, manifests.REVISION_HASH)

    def observe(self, change: StoreChange) -> None:
        """Add a set that changed, that of a pod, or all of them for a node of other labels."""
        new = change.new
        if new.resource.key != NODE:
            super().observe(change)
        elif (
            change.type == DELETED
            or change.old is None
            or _node_fields(new) != _node_fields(change.old)
        ):
            for stored in self._store.select(DAEMON_SET):
                self._queue.add(Key(DAEMON_SET, *stored.namespaced_name))

    def forget(self, uid: str) -> None:
        """Drop what is kept about a deleted set."""
        self._desired.pop(uid, None)
        self._revisions.forget(uid)

    def pod_changed(self, key: Key, change: StoreChange) -> None:
        """Add a set: only to count again, if a pod has become ready or unready."""
        after = pod_control.standing_of(change.new)
        before = pod_control.standing_of(change.old) if change.old is not None else None
        if change.type == DELETED or (after == pod_control.Standing.LEAVING and before != after):
            self._queue.add(key)
        elif after >= pod_control.Standing.SUCCEEDED:
            self._queue.add_at(key, self._store.now() + pod_control.REPLACE_ENDED)
        elif before != after and change.type != ADDED:
            self._readiness[key] = None
            if not self._up_to_date(key):
                self._queue.add(key)

    def _up_to_date(self, key: Key) -> bool:
        stored = self._store.find(key.kind, key.namespace, key.name)
        counts = self._desired.get(stored.uid) if stored is not None else None
        return counts is not None and bool(counts["updatedNumberScheduled"] == counts["wanted"])

    def sync_workload(self, key: Key, stored: Stored) -> bool:
        """Create, delete and replace the pods of a set."""
        acted = self._sync_pods(key, stored)
        return self._report(stored) or acted

    def sync_status(self, key: Key) -> bool:
        """Count a set of which only pods have become ready or unready."""
        stored = self._store.find(key.kind, key.namespace, key.name)
        return stored is not None and not stored.deleting and self._report(stored)

    def _sync_pods(self, key: Key, stored: Stored) -> bool:
        data = stored.data
        template = expansion.template_of(data)
        if not template:
            return False
        candidate = msgspec.convert(expansion.daemon_candidate(data), Pod)
        pods = self._by_node(stored.uid)
        wanted, misplaced, made, most = 0, 0, 0, pod_control.burst(stored)
        current: list[Stored] = []
        removed: list[Stored] = []
        for node in self._store.select(NODE):
            typed = node.typed
            assert isinstance(typed, Node)
            own = pods.pop(node.name, [])
            runs = manifests.should_run(candidate, typed)
            wanted += runs
            ended = [p for p in own if pod_control.standing_of(p) >= pod_control.Standing.SUCCEEDED]
            own = [p for p in own if p not in ended]
            stays = runs or (bool(own) and manifests.may_stay(candidate, typed))
            misplaced += bool(own) and not runs
            # As in podsShouldBeOnNode: ended pods are replaced, and one pod is enough for a node.
            removed += ended + (own[1:] if stays else own)
            if runs and not own and made == most:
                self._queue.add(key)  # the other nodes in the next round
            elif runs and not own:
                seed = str(self._store.version)
                pod = expansion.daemon_pod(data, node.name, seed)
                if pod_control.create(self._store, pod) is None:
                    self._queue.add_at(key, self._store.now() + pod_control.RETRY)
                else:
                    made += 1
            elif runs:
                current.append(own[0])
        for left in pods.values():  # of nodes that have gone
            removed += left
        revision = expansion.template_hash(template)
        old = [pod for pod in current if pod.labels.get(manifests.REVISION_HASH) != revision]
        self._desired[stored.uid] = {
            "wanted": wanted,
            "numberMisscheduled": misplaced,
            "currentNumberScheduled": len(current) + made,
            "updatedNumberScheduled": len(current) + made - len(old),
        }
        live = {f"{stored.name}-{pod.labels.get(manifests.REVISION_HASH)}" for pod in current}
        acted = self._revisions.keep(stored, data, revision, live)
        removed += _outdated(data, wanted, current, old)
        return self._remove(key, removed) or acted or made > 0

    def _remove(self, key: Key, pods: Sequence[Stored]) -> bool:
        """Delete pods; of very many, the others in the next round. Return whether any was."""
        going = [pod for pod in pods if not pod.deleting]
        for pod in going[: pod_control.BURST]:
            pod_control.remove(self._store, pod)
        if len(going) > pod_control.BURST:
            self._queue.add(key)
        return bool(going)

    def _by_node(self, uid: str) -> dict[str, list[Stored]]:
        by_node: defaultdict[str, list[Stored]] = defaultdict(list)
        for stored in self._owned.of(uid):
            by_node[_node_of(pod_control.pod_of(stored))].append(stored)
        return dict(by_node)

    def _report(self, stored: Stored) -> bool:
        counts: Mapping[str, int] = self._desired.get(stored.uid, {})
        wanted = counts.get("wanted", 0)
        ready = self._owned.count(stored.uid, pod_control.Standing.READY)
        status = {
            "desiredNumberScheduled": wanted,
            "currentNumberScheduled": counts.get("currentNumberScheduled", 0),
            "updatedNumberScheduled": counts.get("updatedNumberScheduled", 0),
            "numberMisscheduled": counts.get("numberMisscheduled", 0),
            "numberReady": ready,
            "numberAvailable": ready,
            "numberUnavailable": max(0, wanted - ready),
        }
        return pod_control.report(self._store, stored, status)


def _node_fields(node: Stored) -> tuple[object, ...]:
    typed = node.typed
    assert isinstance(typed, Node)
    return typed.metadata.labels, typed.spec.taints


def _node_of(pod: Pod) -> str:
    """Return the node that a daemon's pod runs on or was made for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity
    names = required_node_names(affinity.node_affinity) if affinity is not None else None
    return next(iter(sorted(names)), "") if names else ""


def _outdated(
    data: manifests.Plain, wanted: int, current: Sequence[Stored], old: Sequence[Stored]
) -> Iterator[Stored]:
    """Yield pods of old templates to delete, within maxUnavailable; unready ones cost nothing."""
    strategy = data["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return
    given = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", _DEFAULT_UNAVAILABLE)
    ready = {
        pod.uid for pod in current if pod_control.standing_of(pod) == pod_control.Standing.READY
    }
    room = max(1, share(given, wanted, up=True)) - (wanted - len(ready))
    for pod in old:
        if pod.uid in ready:
            if room <= 0:
                continue
            room -= 1
        yield pod
