"""Pods by the group that they name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, KeysView, Mapping

from policy_sched.model import GroupKey, PodInfo


class Group:
    """The pods of a group by UID, and what they come to; to be read only.

    ``gated``: how many of them have scheduling gates. ``version``: another number after every
    change, 0 without pods.
    """

    __slots__ = ("gated", "pods", "requested", "version")

    def __init__(self) -> None:
        self.pods: dict[str, PodInfo] = {}
        self.requested: dict[str, int] = {}
        self.gated = 0
        self.version = 0

    def count(self, pod: PodInfo, sign: int) -> None:
        """Count a pod that comes (1) or goes (-1); a resource with a total of 0 is left out."""
        self.gated += sign * bool(pod.scheduling_gates)
        for resource, amount in pod.requests.items():
            total = self.requested.get(resource, 0) + sign * amount
            if total:
                self.requested[resource] = total
            else:
                self.requested.pop(resource, None)


class WatchedGroups:
    """Groups that pods wait for, by how many, and those of them that changed since they were asked
    for."""

    __slots__ = ("changed", "watchers")

    def __init__(self) -> None:
        self.watchers: Counter[GroupKey] = Counter()
        self.changed: dict[GroupKey, None] = {}

    def watch(self, key: GroupKey, sign: int) -> None:
        """A pod begins (1) or ceases (-1) to wait for a group, which is a change of the group."""
        self.watchers[key] += sign
        if self.watchers[key]:
            self.changed[key] = None
        else:
            del self.watchers[key]
            self.changed.pop(key, None)

    def note(self, key: GroupKey) -> None:
        """Something about a group changed."""
        if key in self.watchers:
            self.changed[key] = None

    def take(self) -> dict[GroupKey, None]:
        """Return the groups that changed since the last call, in order."""
        changed, self.changed = self.changed, {}
        return changed


class GroupIndex:
    """Pods by namespace and name of their group; pods without a group are left out.

    ``version`` rises with every change. ``beside``: another index, which may have the same pods:
    those that both have are counted. ``watched`` is told of changes in either.
    """

    def __init__(self, beside: GroupIndex | None = None) -> None:
        self.version = 0
        self._groups: dict[GroupKey, Group] = {}
        self.beside = beside
        self.in_both: Counter[GroupKey] = Counter()
        self.watched: WatchedGroups = WatchedGroups() if beside is None else beside.watched
        if beside is not None:
            beside.beside, beside.in_both = self, self.in_both

    def __len__(self) -> int:
        return len(self._groups)

    def keys(self) -> KeysView[GroupKey]:
        """Return the groups that have a pod."""
        return self._groups.keys()

    def of(self, key: GroupKey) -> Group:
        """Return a group, which is empty if it has no pods; it holds until the next change."""
        return self._groups.get(key) or Group()

    def pods(self, key: GroupKey) -> Mapping[str, PodInfo]:
        """Return the pods of a group by UID."""
        return self.of(key).pods

    def members(self, key: GroupKey) -> int:
        """Return how many pods a group has here or beside, each counted once."""
        beside = 0 if self.beside is None else len(self.beside.pods(key))
        return len(self.pods(key)) + beside - self.in_both[key]

    def add(self, pod: PodInfo) -> None:
        """Take a pod in, or replace it by its newer form of the same group."""
        if pod.pod_group:
            self.remove(pod)
            key = (pod.namespace, pod.pod_group)
            group = self._groups.setdefault(key, Group())
            group.pods[pod.uid] = pod
            self._count(key, group, pod, 1)

    def remove(self, pod: PodInfo) -> None:
        """Take a pod out; one that is not known is no error."""
        key = (pod.namespace, pod.pod_group)
        group = self.of(key)
        before = group.pods.pop(pod.uid, None)
        if before is not None:
            self._count(key, group, before, -1)
            if not group.pods:
                del self._groups[key]

    def _count(self, key: GroupKey, group: Group, pod: PodInfo, sign: int) -> None:
        group.count(pod, sign)
        self.version += 1
        group.version = self.version
        self.watched.note(key)
        if self.beside is not None and pod.uid in self.beside.pods(key):
            self.in_both[key] += sign
            if not self.in_both[key]:
                del self.in_both[key]


def group_differences(index: GroupIndex, pods: Iterable[PodInfo]) -> list[str]:
    """Index ``pods`` anew; return the groups whose index differs, [] if none."""
    fresh = GroupIndex()
    for pod in pods:
        fresh.add(pod)
    keys = index.keys() | fresh.keys()
    return [
        f"pod group {namespace}/{name}: {sorted(index.pods((namespace, name)))},"
        f" but has {sorted(fresh.pods((namespace, name)))}"
        for namespace, name in sorted(keys)
        if dict(index.pods((namespace, name))) != dict(fresh.pods((namespace, name)))
    ]
