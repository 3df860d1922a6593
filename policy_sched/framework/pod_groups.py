"""Counts the pods of each pod group: those that exist, that have a node, and that wait for Permit.

Theory of operation: pods on nodes are counted by the cache and those that wait for permission are
the handle's; this module keeps only the pods that were added while pending. A pod
that got its node stays among these until it is gone: it is one member all the same.

What became of a group's attempts is told by the scheduler as it executes decisions (`tried`,
`failed`, `sent_back`); a group that has no pods any more has no history.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from policy_sched import model
from policy_sched.cluster import ApiObjects, Cache, Group, GroupIndex
from policy_sched.cluster.tables import MAX_SUM
from policy_sched.framework.waiting_pods import WaitingPods

_State = tuple[int, int, int]
"""The versions of the pods with nodes, of the pending pods, and of the objects."""


class _History(msgspec.Struct):
    """What became of a group's attempts; times are ns since 1970.

    ``held``: the UID of the first pod that waited at the last failure, empty if none did.
    """

    tried_since: int | None = None
    failed_at: int | None = None
    sent_back_at: int | None = None
    failures: int = 0
    held: str = ""


class PodGroups:
    """The groups of one scheduler's pods."""

    def __init__(self, cache: Cache, waiting: WaitingPods, objects: ApiObjects) -> None:
        self._cache = cache
        self._waiting = waiting
        self._objects = objects
        self._pending = GroupIndex(cache.groups)
        self._watched = waiting.watched = cache.groups.watched
        self._pods: dict[str, model.PodInfo] = {}
        self._known: dict[model.GroupKey, tuple[_State, model.GroupCounts]] = {}
        self._histories: dict[model.GroupKey, _History] = {}
        self._most_histories = _SWEEP_FROM

    def tried(self, pod: model.PodInfo, now: int) -> None:
        """A pod of a group was tried on nodes: no PreFilter plugin kept it from them."""
        history = self._history(pod)
        if history.tried_since is None:
            history.tried_since = now

    def failed(self, pod: model.PodInfo, now: int, *, as_group: bool = True) -> None:
        """A pod of a group found no node; ``as_group``: the group failed with it.

        Failures count from when the first of the group's pods that wait began to, or, while none
        waits, from when the last of them waited.
        """
        history, held = self._history(pod), self._held((pod.namespace, pod.pod_group))
        if history.held != held:
            history.held, history.failures = held, 0
        history.failures += 1
        if as_group:
            history.failed_at, history.tried_since = now, None

    def sent_back(self, pod: model.PodInfo, now: int, *, rejected: bool) -> None:
        """A pod of a group lost its node before it was bound; ``rejected``: it may not have it."""
        history = self._history(pod)
        history.tried_since = None
        if rejected:
            history.sent_back_at = now

    def _history(self, pod: model.PodInfo) -> _History:
        key = (pod.namespace, pod.pod_group)
        self._watched.note(key)
        history = self._histories.get(key)
        if history is None:
            histories = self._histories
            if len(histories) >= self._most_histories:
                for other in [key for key in histories if not self._has_pods(key)]:
                    del histories[other]
                self._most_histories = max(_SWEEP_FROM, 2 * len(histories))
            history = histories[key] = _History()
        return history

    def _has_pods(self, key: model.GroupKey) -> bool:
        return bool(self._pending.pods(key) or self._cache.groups.pods(key))

    def _held(self, key: model.GroupKey) -> str:
        return next(iter(self._waiting.of_group(key)), "")

    def seen(self, pod: model.PodInfo) -> bool:
        """A pending pod came, or changed; return whether it lost its scheduling gates."""
        before = self._pods.get(pod.uid)
        if before is not None:
            self._pending.remove(before)
            del self._pods[pod.uid]
        if pod.pod_group:
            self._pending.add(pod)
            self._pods[pod.uid] = pod
        return before is not None and bool(before.scheduling_gates) > bool(pod.scheduling_gates)

    def gone(self, uid: str) -> None:
        """A pod is not pending any more: it was deleted, or another scheduler bound it."""
        pod = self._pods.pop(uid, None)
        if pod is not None:
            self._pending.remove(pod)
            self.left(pod)

    def left(self, pod: model.PodInfo) -> None:
        """A pod left its group: it is pending no more, or has no node any more."""
        key = (pod.namespace, pod.pod_group)
        if key in self._histories and not self._has_pods(key):
            del self._histories[key]

    def siblings(self, pod: model.PodInfo) -> list[str]:
        """Return the UIDs of the pending pods of the pod's group that have no node yet."""
        return self.without_nodes((pod.namespace, pod.pod_group))

    def without_nodes(self, key: model.GroupKey) -> list[str]:
        """Return the UIDs of the pending pods of a group that have no node yet."""
        placed = self._cache.groups.pods(key)
        return [uid for uid in self._pending.pods(key) if uid not in placed]

    def pending(self, pod: model.PodInfo) -> list[model.PodInfo]:
        """Return the pods that `siblings` names, in the order in which they came."""
        return [self._pods[uid] for uid in self.siblings(pod) if uid in self._pods]

    def counts(self, pod: model.PodInfo, *, apart: bool = False) -> model.GroupCounts:
        """Return the counts of the pod's group; NO_GROUP without one.

        ``apart``: the pod itself, which was assumed on its node, counts neither as scheduled nor
        as waiting: it is the pod being decided.
        """
        if not pod.pod_group:
            return model.NO_GROUP
        key = (pod.namespace, pod.pod_group)
        return self._without(key, (pod,)) if apart else self.of(key)

    def counts_without(
        self, key: model.GroupKey, gone: Sequence[model.PodInfo]
    ) -> model.GroupCounts:
        """Return the counts of a group as if some of its pods on nodes did not exist."""
        counts = self._without(key, gone)
        return replace(counts, members=counts.members - len(gone)) if gone else counts

    def _without(self, key: model.GroupKey, pods: Sequence[model.PodInfo]) -> model.GroupCounts:
        """Return the counts with some pods neither scheduled nor waiting."""
        counts, held = self.of(key), self._waiting.of_group(key)
        waiting = [pod for pod in pods if pod.uid in held]
        placed = self._cache.groups.pods(key)
        scheduled = [pod for pod in pods if pod.uid in placed and pod.uid not in held]
        if not waiting and not scheduled:
            return counts
        return replace(
            counts,
            scheduled=counts.scheduled - len(scheduled),
            waiting=counts.waiting - len(waiting),
            requested=_requested(self._cache.groups.of(key), pods),
        )

    def of(self, key: model.GroupKey) -> model.GroupCounts:
        """Return the counts of a group.

        Pods that wait for Permit do not count as scheduled. A group without an object has a least
        number of 0.
        """
        waiting = self._waiting.of_group(key)
        placed, pending = self._cache.groups.of(key), self._pending.of(key)
        state = (placed.version, pending.version, self._objects.version)
        known = self._known.get(key)
        if known is None or known[0] != state:
            if len(self._known) > _LIMIT:
                self._known.clear()
            self._known[key] = known = (state, self._counted(key, placed, pending))
        counts = known[1]
        history = self._histories.get(key)
        if not waiting and history is None:
            return counts
        history = history or _NO_HISTORY
        first = next(iter(waiting.values()), None)
        return replace(
            counts,
            scheduled=counts.scheduled - len(waiting),
            waiting=len(waiting),
            waiting_since=None if first is None else first.started,
            tried_since=history.tried_since,
            failed_at=history.failed_at,
            sent_back_at=history.sent_back_at,
            failures=history.failures if history.held == self._held(key) else 0,
        )

    def _counted(self, key: model.GroupKey, placed: Group, pending: Group) -> model.GroupCounts:
        objects = self._objects
        group = objects.named(model.PodGroup, *key) or objects.named(model.CoschedulingGroup, *key)
        counts = model.GroupCounts(
            key[1],
            0,
            self._pending.members(key),
            len(placed.pods),
            gated=pending.gated,
            requested=_requested(placed),
        )
        if group is None:
            return counts
        return replace(
            counts,
            min_count=group.min_count,
            min_resources=group.min_resources,
            creation_time=model.nanoseconds(group.metadata.creation_timestamp),
            topology_key=group.topology_key,
            schedule_timeout=group.schedule_timeout,
            exists=True,
            object=group,
        )


def _requested(placed: Group, gone: Sequence[model.PodInfo] = ()) -> dict[str, int]:
    """Return what the pods of a group request that have nodes, without some of them."""
    return {
        name: min(left, MAX_SUM)
        for name, amount in placed.requested.items()
        if (left := amount - sum(pod.requests.get(name, 0) for pod in gone))
    }


#: Groups whose counts are kept.
_LIMIT = 10_000
#: With so many histories, those of groups without pods are looked for.
_SWEEP_FROM = 64
_NO_HISTORY = _History()
