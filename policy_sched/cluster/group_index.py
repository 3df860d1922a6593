"""Pods by the group that they name."""

from __future__ import annotations

from collections.abc import Iterable, KeysView, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from policy_sched.model import GroupKey, PodInfo

_NO_PODS: Final[Mapping[str, PodInfo]] = MappingProxyType({})


class GroupChange(NamedTuple):
    """A change of a group: the version since, the one before, the pod, and how many more."""

    version: int
    before: int
    uid: str
    more: int


_UNCHANGED: Final = GroupChange(0, 0, "", 0)


class GroupTotals:
    """What the pods of a group come to; ``gated``: how many of them have scheduling gates."""

    __slots__ = ("gated", "requested")

    def __init__(self) -> None:
        self.requested: dict[str, int] = {}
        self.gated = 0

    def count(self, pod: PodInfo, sign: int) -> None:
        """Count a pod that comes (1) or goes (-1); a resource with a total of 0 is left out."""
        self.gated += sign * bool(pod.scheduling_gates)
        for resource, amount in pod.requests.items():
            total = self.requested.get(resource, 0) + sign * amount
            if total:
                self.requested[resource] = total
            else:
                self.requested.pop(resource, None)


_NONE: Final = GroupTotals()


class GroupIndex:
    """Pods by namespace and name of their group, then by UID; pods without a group are left out.

    ``version`` rises with every change.
    """

    def __init__(self) -> None:
        self.version = 0
        self._groups: dict[GroupKey, dict[str, PodInfo]] = {}
        self._changes: dict[GroupKey, GroupChange] = {}
        self._totals: dict[GroupKey, GroupTotals] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def keys(self) -> KeysView[GroupKey]:
        """Return the groups that have a pod."""
        return self._groups.keys()

    def pods(self, key: GroupKey) -> Mapping[str, PodInfo]:
        """Return the pods of a group by UID."""
        return self._groups.get(key, _NO_PODS)

    def totals(self, key: GroupKey) -> GroupTotals:
        """Return what a group's pods come to; to be read only, and until the next change."""
        return self._totals.get(key, _NONE)

    def version_of(self, key: GroupKey) -> int:
        """Return a number that is another after every change of a group; 0 without pods."""
        return self._changes.get(key, _UNCHANGED).version

    def last_change(self, key: GroupKey) -> GroupChange:
        """Return the last change of a group."""
        return self._changes.get(key, _UNCHANGED)

    def add(self, pod: PodInfo) -> None:
        """Take a pod in, or replace it by its newer form of the same group."""
        if pod.pod_group:
            key = (pod.namespace, pod.pod_group)
            group = self._groups.setdefault(key, {})
            before, totals = group.get(pod.uid), self._totals.setdefault(key, GroupTotals())
            if before is not None:
                totals.count(before, -1)
            totals.count(pod, 1)
            self._change(key, pod.uid, int(before is None))
            group[pod.uid] = pod

    def remove(self, pod: PodInfo) -> None:
        """Take a pod out; one that is not known is no error."""
        if not pod.pod_group:
            return
        key = (pod.namespace, pod.pod_group)
        group = self._groups.get(key)
        before = None if group is None else group.pop(pod.uid, None)
        if group is not None and before is not None:
            self._totals[key].count(before, -1)
            self._change(key, pod.uid, -1)
            if not group:
                del self._groups[key]
                del self._changes[key], self._totals[key]

    def _change(self, key: GroupKey, uid: str, more: int) -> None:
        self.version += 1
        self._changes[key] = GroupChange(self.version, self.version_of(key), uid, more)


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
