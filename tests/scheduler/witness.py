"""Witness: what a scheduler was told and what it promised, and whether it decided accordingly.

Kube-scheduler decides by what it has been told, and holds what it has decided: it does not look
again when news comes before the binding has. So two who bind may fill a node twice, if neither
could know of the other when it decided. That is excused here, and nothing else is. The witness
keeps its own books, and shares nothing with the scheduler's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import combinations

from policy_sched.embedded.store.store import ObjectStore
from policy_sched.embedded.store.watch_history import DELETED, Change
from policy_sched.instance.app.embedded_instance import ENDED, Informer
from policy_sched.model.cluster_objects import Node
from policy_sched.model.meta import ApiObject
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler.event_handlers import Happened
from policy_sched.scheduler.scheduler import Scheduler


class Witness:
    """Sees what is decided, sent and undone, and hears what the scheduler is told.

    ``sizes``: the cpu of nodes that pods may come to, in millis, by name. ``told``: node and cpu
    of the pods that are bound, by UID; ``held``: of those that are decided, and not told of yet.
    ``flying``: UIDs of pods whose binding the cluster was asked for, and has not answered.
    ``promised``: returns the pods nominated to a node. ``ends``: tells whether an attempt ends by
    itself when its pod is deleted. ``complaints``: what was decided against better knowledge.
    """

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.told: dict[str, tuple[str, int]] = {}
        self.held: dict[str, tuple[str, int]] = {}
        self.flying: set[str] = set()
        self.complaints: list[str] = []
        self.promised: Callable[[str], Iterable[PodInfo]] = lambda _: ()
        self.ends: Callable[[str], bool] = lambda _: False
        self._leaving: set[str] = set()
        self._known: dict[str, frozenset[str]] = {}
        self._bound: dict[str, frozenset[str]] = {}

    def counted(self) -> dict[str, str]:
        """Return the nodes that pods count on, by UID."""
        return {uid: node for uid, (node, _) in {**self.told, **self.held}.items()}

    # What the scheduler does.

    def decided(self, pod: PodInfo, node: str) -> None:
        """A pod is to go to a node, beside all that are known there or promised to come."""
        there = {uid: cpu for uid, (on, cpu) in {**self.told, **self.held}.items() if on == node}
        promised = [one for one in self.promised(node) if one.priority >= pod.priority]
        cpu, room = pod.requests.get("cpu", 0), self.sizes.get(node, 0) - sum(there.values())
        room -= sum(one.requests.get("cpu", 0) for one in promised if one.uid not in there)
        if pod.uid in self.told or pod.uid in self.held:
            self.complaints.append(f"{pod.key} was decided again")
        if cpu > room:
            self.complaints.append(f"{pod.key} takes {cpu} of {node}, which has {room}")
        self.held[pod.uid] = node, cpu
        self._known[pod.uid] = frozenset(there)

    def undone(self, pod: PodInfo) -> None:
        """A pod is not to go to its node any more."""
        if pod.uid in self.flying:
            self.complaints.append(f"{pod.key} was given up before the cluster had answered")
        self.held.pop(pod.uid, None)

    def sent(self, uid: str) -> None:
        """The cluster is asked to bind a pod."""
        self.flying.add(uid)

    def answered(self, uid: str, *, bound: bool) -> None:
        """The cluster has answered, whatever the scheduler is told."""
        self.flying.discard(uid)
        if bound:
            self._bound[uid] = self._known[uid]

    # What others do.

    def other_bindings(self, uid: str, there: Collection[str]) -> None:
        """Another scheduler bound a pod, and knew of these on the node."""
        self._bound[uid] = frozenset(there)

    def excuses(self, uids: Collection[str]) -> bool:
        """Tell whether two of the pods of one node came there without knowing of each other."""
        return any(
            one not in self._bound[other] and other not in self._bound[one]
            for one, other in combinations(sorted(uids), 2)
        )

    # What the scheduler is told.

    def came(self, new: ApiObject) -> None:
        """Something came or changed."""
        if isinstance(new, Node):
            cpu = int(str(new.status.allocatable["cpu"])) * 1000
            self.sizes[new.metadata.name] = 0 if new.spec.unschedulable else cpu
        elif isinstance(new, Pod) and new.status.phase in ENDED:
            self.went(new)
        elif isinstance(new, Pod) and new.spec.node_name:
            info = PodInfo.of(new)
            self.told[info.uid] = info.node_name, info.requests.get("cpu", 0)
            self.held.pop(info.uid, None)
        elif isinstance(new, Pod) and new.metadata.deletion_timestamp is not None:
            uid = new.metadata.uid
            if uid not in self._leaving and not self.ends(uid):
                self.held.pop(uid, None)
            self._leaving.add(uid)

    def went(self, old: ApiObject) -> None:
        """Something is gone; a pod without a node may have to be given up by its attempt."""
        if isinstance(old, Node):
            self.sizes.pop(old.metadata.name, None)
        elif isinstance(old, Pod):
            self.told.pop(old.metadata.uid, None)
            if old.spec.node_name or not self.ends(old.metadata.uid):
                self.held.pop(old.metadata.uid, None)


class Overheard(Informer):
    """An informer that also calls a witness."""

    def __init__(self, store: ObjectStore, scheduler: Scheduler, witness: Witness) -> None:
        super().__init__(store, scheduler)
        self._witness = witness

    def _dispatch(self, change: Change) -> Happened:
        if change.type != DELETED:
            self._witness.came(change.new.typed)
        return super()._dispatch(change)

    def _gone(self, old: ApiObject) -> Happened:
        self._witness.went(old)
        return super()._gone(old)
