"""Witness: records the events and nominations of a scheduler, and checks its decisions.

Kube-scheduler decides by the events it received, and keeps its decision: it does not check
again when an event arrives before the binding. So two schedulers may overcommit a node, if neither
could know of the other when it decided. That is accepted here, and nothing else is. The witness
keeps its own records, and shares nothing with the scheduler's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import combinations

from policy_sched.client.apimachinery.resources import POD
from policy_sched.embedded.store.store import ObjectStore
from policy_sched.embedded.store.watch_history import DELETED, StoreChange
from policy_sched.instance.app.embedded_instance import ENDED, Informer
from policy_sched.instance.app.instance import adopt
from policy_sched.model.cluster_objects import Node
from policy_sched.model.meta import ApiObject
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler.event_handlers import ClusterChange
from policy_sched.scheduler.scheduler import Scheduler


class Witness:
    """Records decisions, bindings and undone ones, and the events that the scheduler receives.

    ``sizes``: the cpu of schedulable nodes, in millis, by name. ``known``: node and cpu
    of the bound pods by event, by UID; ``held``: of the assumed ones without an event.
    ``flying``: UIDs of pods with a binding in flight. ``nominated``: returns a node's nominated
    pods. ``ends``: returns whether an attempt ends by itself when its pod is deleted.
    ``complaints``: decisions that contradict known facts.
    """

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.known: dict[str, tuple[str, int]] = {}
        self.held: dict[str, tuple[str, int]] = {}
        self.flying: set[str] = set()
        self.complaints: list[str] = []
        self.nominated: Callable[[str], Iterable[PodInfo]] = lambda _: ()
        self.ends: Callable[[str], bool] = lambda _: False
        self._leaving: set[str] = set()
        self._known: dict[str, frozenset[str]] = {}
        self._bound: dict[str, frozenset[str]] = {}

    def counted(self) -> dict[str, str]:
        """Return the nodes that pods count on, by UID."""
        return {uid: node for uid, (node, _) in {**self.known, **self.held}.items()}

    # Actions of the scheduler.

    def decided(self, pod: PodInfo, node: str) -> None:
        """Check a pod's node beside all pods known or nominated there."""
        there = {uid: cpu for uid, (on, cpu) in {**self.known, **self.held}.items() if on == node}
        nominated = [one for one in self.nominated(node) if one.priority >= pod.priority]
        cpu, free = pod.requests.get("cpu", 0), self.sizes.get(node, 0) - sum(there.values())
        free -= sum(one.requests.get("cpu", 0) for one in nominated if one.uid not in there)
        if pod.uid in self.known or pod.uid in self.held:
            self.complaints.append(f"{pod.key} was decided again")
        if cpu > free:
            self.complaints.append(f"{pod.key} takes {cpu} of {node}, which has {free}")
        self.held[pod.uid] = node, cpu
        self._known[pod.uid] = frozenset(there)

    def undone(self, pod: PodInfo) -> None:
        """Release a pod's node."""
        if pod.uid in self.flying:
            self.complaints.append(f"{pod.key} was given up before the cluster had answered")
        self.held.pop(pod.uid, None)

    def sent(self, uid: str) -> None:
        """Record that a binding was sent."""
        self.flying.add(uid)

    def answered(self, uid: str, *, bound: bool) -> None:
        """Record the cluster's response, whatever the scheduler receives."""
        self.flying.discard(uid)
        if bound:
            self._bound[uid] = self._known[uid]

    # Actions of others.

    def other_bindings(self, uid: str, there: Collection[str]) -> None:
        """Record a binding of another scheduler, which knew of these pods on the node."""
        self._bound[uid] = frozenset(there)

    def excuses(self, uids: Collection[str]) -> bool:
        """Return whether two of the pods of one node were bound unaware of each other."""
        return any(
            one not in self._bound[other] and other not in self._bound[one]
            for one, other in combinations(sorted(uids), 2)
        )

    # Events of the scheduler.

    def came(self, new: ApiObject) -> None:
        """Record an added or changed object."""
        if isinstance(new, Node):
            cpu = int(str(new.status.allocatable["cpu"])) * 1000
            self.sizes[new.metadata.name] = 0 if new.spec.unschedulable else cpu
        elif isinstance(new, Pod) and new.status.phase in ENDED:
            self.went(new)
        elif isinstance(new, Pod) and new.spec.node_name:
            info = PodInfo.of(new)
            self.known[info.uid] = info.node_name, info.requests.get("cpu", 0)
            self.held.pop(info.uid, None)
        elif isinstance(new, Pod) and new.metadata.deletion_timestamp is not None:
            uid = new.metadata.uid
            if uid not in self._leaving and not self.ends(uid):
                self.held.pop(uid, None)
            self._leaving.add(uid)

    def went(self, old: ApiObject) -> None:
        """Record a deletion; the attempt of a pending pod may have to end."""
        if isinstance(old, Node):
            self.sizes.pop(old.metadata.name, None)
        elif isinstance(old, Pod):
            self.known.pop(old.metadata.uid, None)
            if old.spec.node_name or not self.ends(old.metadata.uid):
                self.held.pop(old.metadata.uid, None)


class Overheard(Informer):
    """An informer that also calls a witness."""

    def __init__(self, store: ObjectStore, scheduler: Scheduler, witness: Witness) -> None:
        super().__init__(store, scheduler)
        self._witness = witness

    def adopt(self, profiles: Collection[str]) -> None:
        """Queue the pending pods of new profiles, as they are in the store by now."""
        for stored in self._store.select(POD) if profiles else ():
            pod = stored.typed
            if isinstance(pod, Pod) and not pod.spec.node_name:
                self._witness.came(pod)
        pods = [one.typed for one in self._store.select(POD) if isinstance(one.typed, Pod)]
        adopt(self._scheduler, pods, profiles)

    def _dispatch(self, change: StoreChange) -> ClusterChange:
        if change.type != DELETED:
            self._witness.came(change.new.typed)
        return super()._dispatch(change)

    def _gone(self, old: ApiObject) -> ClusterChange:
        self._witness.went(old)
        return super()._gone(old)
