"""The cache: what the scheduler believes of nodes and pods, kept directly in the two tables.

Theory of operation: the cache *is* the table: there is no snapshot, and ``nodes.journal`` says what
changed. Every event is one method, and a table says which event may reach a pod in which state::

                  assume             finish binding
      INITIAL ------------> ASSUMED -----------------> BOUND
       ^ | ^                 | |                        | |
       | | +---- forget -----+ |      forget, expire    | |
       | | +-------------------|------------------------+ |
       | |        add          v            add           |
       | +-----------------> ADDED <----------------------+
       |       remove         |  ^ update, finish binding
       +----------------------+--+

INITIAL is every pod that the cache does not hold: never seen, forgotten, expired or deleted. An
assumed pod (the scheduler has decided, the binding runs) counts on its node at once. After its
binding has finished it expires ``time_to_live`` ns later unless the watch confirms it; 0 waits for
ever, as upstream does. A remove takes out an assumed pod as well, for it may be deleted before its
binding is seen. Two events may come late and then change nothing: the end of a binding after the
watch has confirmed or deleted the pod, and a forget after the pod was deleted.

Pods are known by uid. The watches of pods and of nodes are not in step: a pod may come before its
node or outlive it, and is in ``nodes.pods_without_node`` then.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from policy_sched.cluster.counts import PodCounts
from policy_sched.cluster.group_index import GroupIndex, group_differences
from policy_sched.cluster.overlay import NodeOverlay
from policy_sched.cluster.tables import BOUND, CODE_UNIT, NO_NODE, NodeTable, PodTable, Strings
from policy_sched.errors import ClusterError, PolicySchedError
from policy_sched.model import Namespace, Node, Pod, PodInfo


class PodState(StrEnum):
    """What the cache believes about a pod."""

    INITIAL = "not in the cache"
    ASSUMED = "assumed"
    BOUND = "assumed and bound"
    ADDED = "added"


class PodEvent(StrEnum):
    """What can happen to a pod."""

    ASSUME = "assumed"
    FINISH_BINDING = "marked as bound"
    FORGET = "forgotten"
    EXPIRE = "expired"
    ADD = "added"
    UPDATE = "updated"
    REMOVE = "removed"


class PodStateError(PolicySchedError):
    """An event reached a pod in a state without a transition for it: the caller lost track."""


TRANSITIONS: Final[dict[tuple[PodState, PodEvent], PodState]] = {
    (PodState.INITIAL, PodEvent.ASSUME): PodState.ASSUMED,
    (PodState.INITIAL, PodEvent.ADD): PodState.ADDED,
    (PodState.INITIAL, PodEvent.FINISH_BINDING): PodState.INITIAL,
    (PodState.INITIAL, PodEvent.FORGET): PodState.INITIAL,
    (PodState.ASSUMED, PodEvent.FINISH_BINDING): PodState.BOUND,
    (PodState.ASSUMED, PodEvent.FORGET): PodState.INITIAL,
    (PodState.ASSUMED, PodEvent.ADD): PodState.ADDED,
    (PodState.ASSUMED, PodEvent.REMOVE): PodState.INITIAL,
    (PodState.BOUND, PodEvent.FORGET): PodState.INITIAL,
    (PodState.BOUND, PodEvent.EXPIRE): PodState.INITIAL,
    (PodState.BOUND, PodEvent.ADD): PodState.ADDED,
    (PodState.BOUND, PodEvent.REMOVE): PodState.INITIAL,
    (PodState.ADDED, PodEvent.FINISH_BINDING): PodState.ADDED,
    (PodState.ADDED, PodEvent.UPDATE): PodState.ADDED,
    (PodState.ADDED, PodEvent.REMOVE): PodState.INITIAL,
}
"""The next state; a pair that is not here is an error of the caller."""
# An attribute of an enum takes as long as a call of a small function.
_ASSUMED: Final = PodState.ASSUMED
_FINISH_BINDING: Final = PodEvent.FINISH_BINDING


def next_state(state: PodState, event: PodEvent, pod: str) -> PodState:
    """Return the state after an event; raise PodStateError naming ``pod`` if there is none."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise PodStateError(f"pod {pod} is {state.value} and cannot be {event.value}") from None


def _alike(old: Pod, new: Pod) -> bool:
    """Tell whether two forms of a pod differ in nothing but node, version and conditions."""
    was, now = old.metadata, new.metadata
    return (
        replace(old.spec, node_name=new.spec.node_name) == new.spec
        and was.labels == now.labels
        and was.annotations == now.annotations
        and was.owner_references == now.owner_references
        and was.creation_timestamp == now.creation_timestamp
        and was.deletion_timestamp == now.deletion_timestamp
        and replace(old.status, conditions=new.status.conditions) == new.status
    )


class Record(msgspec.Struct, eq=False):
    """One pod of the cache: what it is, where, in which state, and its row in the pod table."""

    info: PodInfo
    node_name: str
    state: PodState
    row: int


class TakenOff(msgspec.Struct, frozen=True):
    """A pod that is off its node for the time of a trial, with what `Cache.put_back` restores."""

    info: PodInfo
    node_name: str
    state: PodState
    arrival: int
    deadline: int | None


class Cache:
    """Owns the node table and the pod table, and is the only one to change them."""

    def __init__(self, time_to_live: int = 0) -> None:
        strings = Strings()
        self.nodes = NodeTable(strings)
        self.pods = PodTable(strings)
        self.counts = PodCounts(self.nodes, self.pods)
        self.overlay = NodeOverlay(self.nodes)
        """A view of the nodes for dry runs, equal to the table outside of them."""
        self.groups = GroupIndex()
        self.time_to_live = time_to_live
        self._records: dict[str, Record] = {}
        self._deadlines: dict[str, int] = {}

    def __len__(self) -> int:
        """Return the number of pods, including assumed ones and those of unknown nodes."""
        return len(self._records)

    def assumed(self) -> int:
        """Return how many pods are assumed: the watch has not shown yet that they are bound."""
        states = (PodState.ASSUMED, PodState.BOUND)
        return sum(record.state in states for record in self._records.values())

    def held(self) -> list[str]:
        """Return the UIDs of all pods, including assumed ones and those of unknown nodes."""
        return list(self._records)

    # Nodes and namespaces.

    def add_node(self, node: Node) -> None:
        """Take a node in; one that is known is updated."""
        nodes = self.nodes
        self._tidy()
        row = nodes.row_of.get(node.metadata.name)
        if row is not None:
            nodes.update_node(row, node)
            self.counts.nodes_changed()
            if nodes.aggregates.used:
                nodes.aggregates.node_changed(node.metadata.name)
            nodes.cached_object_changed(node.metadata.name)
            return
        row = nodes.add_node(node)
        self.counts.nodes_changed()
        for uid, info in nodes.pods_on(row).items():
            self.pods.move(self._records[uid].row, row)
            self.counts.add(row, info)
        if nodes.aggregates.used:
            nodes.aggregates.node_changed(node.metadata.name)
        nodes.cached_object_changed(node.metadata.name)

    def update_node(self, node: Node) -> None:
        """Replace a node by its newer form; one that is not known is added."""
        self.add_node(node)

    def remove_node(self, node: Node) -> None:
        """Drop a node; its pods stay until they are removed or the node is added again.

        Raises ClusterError if the node is not known.
        """
        row = self.nodes.row_of.get(node.metadata.name)
        if row is None:
            raise ClusterError(f"node {node.metadata.name} is not in the cache")
        for uid, info in self.nodes.remove_node(row).items():
            self.pods.move(self._records[uid].row, NO_NODE)
            self.counts.remove(row, info)
        self.counts.nodes_changed()
        if self.nodes.aggregates.used:
            self.nodes.aggregates.node_changed(node.metadata.name)
        self.nodes.cached_object_changed(node.metadata.name)

    def set_namespace(self, namespace: Namespace) -> None:
        """Take a namespace in, or replace it by its newer form."""
        name = namespace.metadata.name
        old = self.nodes.namespaces.get(name)
        self.nodes.namespaces[name] = namespace
        self.nodes.cached_object_changed(name)
        if old is None or old.metadata.labels != namespace.metadata.labels:
            self._namespaces_changed()

    def remove_namespace(self, name: str) -> None:
        """Drop a namespace if it is known."""
        if self.nodes.namespaces.pop(name, None) is not None:
            self.nodes.cached_object_changed(name)
            self._namespaces_changed()

    def _namespaces_changed(self) -> None:
        """Note a change that may affect every result, though no row changed."""
        self.counts.namespaces_changed()
        self.nodes.aggregates.namespaces_changed()
        self.nodes.journal.changed_everything()

    # Pods: questions.

    def state(self, uid: str) -> PodState:
        """Return the state of a pod; INITIAL if the cache does not hold it."""
        record = self._records.get(uid)
        return PodState.INITIAL if record is None else record.state

    def is_assumed(self, uid: str) -> bool:
        """Return whether a pod is assumed, its binding finished or not, and not yet confirmed."""
        record = self._records.get(uid)
        return record is not None and record.state is not PodState.ADDED

    def pod(self, uid: str) -> PodInfo | None:
        """Return a pod by uid, None if the cache does not hold it."""
        record = self._records.get(uid)
        return None if record is None else record.info

    def node_of(self, uid: str) -> str:
        """Return the name of the node that a pod counts on, "" if the cache does not hold it."""
        record = self._records.get(uid)
        return "" if record is None else record.node_name

    def pod_row(self, uid: str) -> int | None:
        """Return the row of a pod in the pod table, None if the cache does not hold it."""
        record = self._records.get(uid)
        return None if record is None else record.row

    # Pods: events. Each raises PodStateError if the transition table has no such transition.

    def assume(self, info: PodInfo, node_name: str) -> None:
        """Count a pod on a node before its binding is known; sets ``info.node_name``."""
        record = self._records.get(info.uid)
        if record is not None:
            next_state(record.state, PodEvent.ASSUME, info.key)
        info.node_name = node_name
        self._insert(info, node_name, _ASSUMED)

    def finish_binding(self, uid: str, now_ns: int) -> None:
        """Start the time after which the assumed pod expires if the watch does not confirm it."""
        record = self._records.get(uid)
        if record is None:
            return
        record.state = next_state(record.state, _FINISH_BINDING, record.info.key)
        if self.time_to_live and record.state is PodState.BOUND:
            self._deadlines[uid] = now_ns + self.time_to_live

    def forget(self, uid: str) -> None:
        """Take an assumed pod back: its binding failed. A pod that is gone already is no error."""
        record = self._records.get(uid)
        if record is not None:
            next_state(record.state, PodEvent.FORGET, record.info.key)
            self._remove(uid, record)
            record.info.node_name = ""

    def expire(self, now_ns: int) -> list[PodInfo]:
        """Take back the bound pods whose time is up at ``now_ns``, and return them."""
        due = [uid for uid, deadline in self._deadlines.items() if deadline <= now_ns]
        expired = []
        for uid in due:
            record = self._records[uid]
            next_state(record.state, PodEvent.EXPIRE, record.info.key)
            self._remove(uid, record)
            record.info.node_name = ""
            expired.append(record.info)
        return expired

    def next_expiry(self) -> int | None:
        """Return when the next pod expires, in nanoseconds since 1970; None if none will."""
        return min(self._deadlines.values(), default=None)

    def add_pod(self, info: PodInfo) -> None:
        """Take in a pod that the watch shows bound, or confirm an assumed one.

        Where it was assumed on another node than it is bound to, the watch is right.
        """
        record = self._records.get(info.uid)
        if record is None:
            self._insert(info, info.node_name, PodState.ADDED)
            return
        state = next_state(record.state, PodEvent.ADD, info.key)
        self._deadlines.pop(info.uid, None)
        if record.node_name == info.node_name:
            self._replace(record, info)
            record.state = state
        else:
            self._remove(info.uid, record)
            self._insert(info, info.node_name, state)

    def confirm(self, info: PodInfo) -> None:
        """Confirm an assumed pod that is bound where it was assumed, and nothing else changed.

        It may have a start time now, which no filter and no score reads.
        """
        record = self._records[info.uid]
        record.state = next_state(record.state, PodEvent.ADD, info.key)
        self._deadlines.pop(info.uid, None)
        self._exchange(record, info, restarted=True)

    def confirm_binding(self, pod: Pod) -> PodInfo | None:
        """Confirm an assumed pod if the watch shows our own binding of it, and nothing else.

        Every pod that is bound comes so, and little is worked out again. Returns the pod's new
        form; None if it is not assumed there, or something else changed: nothing is done then.
        """
        record = self._records.get(pod.metadata.uid)
        if record is None or record.state is PodState.ADDED:
            return None
        if record.node_name != pod.spec.node_name or not _alike(record.info.pod, pod):
            return None
        info = record.info.like(pod)
        record.state = next_state(record.state, PodEvent.ADD, info.key)
        self._deadlines.pop(info.uid, None)
        self._exchange(record, info, restarted=False)
        return info

    def update_pod(self, info: PodInfo) -> None:
        """Replace a pod by its newer form, on the same node."""
        record = self._records.get(info.uid)
        state = PodState.INITIAL if record is None else record.state
        next_state(state, PodEvent.UPDATE, info.key)
        assert record is not None, "only a pod of the cache can be updated"
        if record.node_name != info.node_name:
            raise PodStateError(
                f"pod {info.key} is on node {record.node_name} and cannot move to"
                f" {info.node_name or 'no node'}"
            )
        self._replace(record, info)
        if self.nodes.strings.crowded:
            self._tidy()

    def remove_pod(self, info: PodInfo) -> None:
        """Take out a pod that was deleted or has ended; ``info`` may be an older form of it."""
        record = self._records.get(info.uid)
        state = PodState.INITIAL if record is None else record.state
        next_state(state, PodEvent.REMOVE, info.key)
        assert record is not None, "only a pod of the cache can be removed"
        self._remove(info.uid, record)
        if self.nodes.strings.crowded:
            self._tidy()

    def _tidy(self) -> None:
        """Give up what no node and no pod has any more. Call it between decisions."""
        nodes, pods = self.nodes, self.pods
        nodes.tidy()
        pods.tidy()
        strings = nodes.strings
        if not strings.crowded:
            return
        columns = (*nodes.materialised.values(), *pods.materialised.values())
        strings.tidy(column.values for column in columns if column.family.unit == CODE_UNIT)
        nodes.note_all()  # nothing is computed from a code that was freed
        pods.version += 1

    # Trials: pods are off their nodes for the time of a trial.

    def take_off(self, uid: str) -> TakenOff:
        """Take a pod off its node for the time of a trial."""
        record = self._records[uid]
        arrival, deadline = int(self.pods.arrival[record.row]), self._deadlines.get(uid)
        self._remove(uid, record)
        return TakenOff(record.info, record.node_name, record.state, arrival, deadline)

    def put_back(self, taken: TakenOff) -> None:
        """Put a pod back on its node, in the state that it had."""
        self._insert(taken.info, taken.node_name, taken.state)
        self.pods.arrival[self._records[taken.info.uid].row] = taken.arrival
        if taken.deadline is not None:
            self._deadlines[taken.info.uid] = taken.deadline

    def check(self) -> list[str]:
        """Work everything out anew from nodes and pods; return what differs, [] if nothing."""
        from policy_sched.cluster import debug  # noqa: PLC0415 - for this alone

        held = {uid: (r.info, r.node_name, r.row) for uid, r in self._records.items()}
        return [
            *debug.differences(self.nodes, self.pods, held),
            *debug.count_differences(self.counts, self.nodes, held),
            *group_differences(self.groups, (record.info for record in self._records.values())),
        ]

    def _insert(self, info: PodInfo, node_name: str, state: PodState) -> None:
        if not node_name:
            raise PodStateError(f"pod {info.key} is on no node")
        uid = info.uid
        nodes = self.nodes
        row = nodes.row_of.get(node_name, NO_NODE)
        if row == NO_NODE:
            nodes.pods_without_node.setdefault(node_name, {})[uid] = info
        else:
            nodes.add_pod(row, info)
            counts = self.counts
            # In most clusters nothing is counted: each pod costs a call less.
            if info.has_pod_affinity or counts.selected.by_match:
                counts.add(row, info)
        self._records[uid] = Record(info, node_name, state, self.pods.add(info, row))
        if info.pod_group:
            self.groups.add(info)
        if nodes.aggregates.used:
            nodes.aggregates.come(BOUND, info, row)

    def _exchange(self, record: Record, info: PodInfo, *, restarted: bool) -> None:
        """Put a form of a pod in its place that is alike, but for its start time if restarted."""
        nodes = self.nodes
        row = nodes.row_of.get(record.node_name, NO_NODE)
        if row == NO_NODE:
            nodes.pods_without_node[record.node_name][info.uid] = info
        elif restarted:
            nodes.restart_pod(row, info)
        else:
            nodes.exchange_pod(row, info)
        if restarted:
            self.pods.replace(record.row, info, row)
        else:
            self.pods.exchange(record.row, info)
        if info.pod_group:
            self.groups.remove(record.info)
            self.groups.add(info)
        record.info = info
        if nodes.aggregates.used:
            nodes.aggregates.change(info, row)

    def _replace(self, record: Record, info: PodInfo) -> None:
        if _alike(record.info.pod, info.pod):
            self._exchange(record, info, restarted=False)
            return
        nodes = self.nodes
        row = nodes.row_of.get(record.node_name, NO_NODE)
        if row == NO_NODE:
            nodes.pods_without_node[record.node_name][info.uid] = info
        else:
            nodes.replace_pod(row, record.info, info)
            counts, before = self.counts, record.info
            if before.has_pod_affinity or info.has_pod_affinity or counts.selected.by_match:
                counts.remove(row, before)
                counts.add(row, info)
        self.pods.replace(record.row, info, row)
        if info.pod_group or record.info.pod_group:
            self.groups.remove(record.info)
            self.groups.add(info)
        record.info = info
        if nodes.aggregates.used:
            nodes.aggregates.change(info, row)

    def _remove(self, uid: str, record: Record) -> None:
        nodes = self.nodes
        row = nodes.row_of.get(record.node_name, NO_NODE)
        if row == NO_NODE:
            pods_without_node = nodes.pods_without_node[record.node_name]
            del pods_without_node[uid]
            if not pods_without_node:
                del nodes.pods_without_node[record.node_name]
        else:
            nodes.remove_pod(row, record.info)
            if record.info.has_pod_affinity or self.counts.selected.by_match:  # as for `add`
                self.counts.remove(row, record.info)
        self.pods.remove(record.row)
        if record.info.pod_group:
            self.groups.remove(record.info)
        if nodes.aggregates.used:
            nodes.aggregates.leave(BOUND, record.info, row)
        del self._records[uid]
        self._deadlines.pop(uid, None)
