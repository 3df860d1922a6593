"""Units of preemption for a pod group: pods that are evicted together, and in which order.

A unit is a pod, or the pods of a group whose disruptionMode is PodGroup. For a group the units of
the whole cluster are looked at, and not those of one node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from policy_sched import model
from policy_sched.cluster import ApiObjects, Cache
from policy_sched.cluster.tables import PodRows
from policy_sched.preemption.budgets import Budgets


class Unit(msgspec.Struct, frozen=True):
    """Pods that are evicted together.

    ``priority``: the pod's, or that of the whole group. ``grouped``: its pods belong to a group,
    whatever the group's mode. ``start``: when its first pod started, in ns since 1970.
    """

    pods: tuple[model.PodInfo, ...]
    priority: int
    grouped: bool
    start: int

    def importance(self) -> tuple[int, bool, int, int]:
        """Return the sort key: the most important unit comes first."""
        size = len(self.pods) if self.grouped else 0
        return -self.priority, not self.grouped, -size, self.start


def units_below(cache: Cache, objects: ApiObjects, priority: int, now: int) -> list[Unit]:
    """Return the units of a lower priority, the most important one first.

    ``now``: the start of pods that have none, in ns since 1970.
    """
    whole = {
        _key(declared): declared
        for declared in objects.of(model.PodGroup)
        if declared.spec.disruption_mode == model.WHOLE_GROUP
    }
    by_unit: dict[object, list[model.PodInfo]] = {}
    for pod in _pods_on_nodes(cache):
        key = _group_of(pod)
        group = None if key is None else whole.get(key)
        if (pod.priority if group is None else group.priority) < priority:
            by_unit.setdefault(pod.uid if group is None else key, []).append(pod)
    units = []
    for pods in by_unit.values():
        key = _group_of(pods[0])
        group = None if key is None else whole.get(key)
        own = pods[0].priority if group is None else group.priority
        units.append(Unit(tuple(pods), own, key is not None, pods[0].start_time or now))
    return sorted(units, key=Unit.importance)


def in_order_of_reprieve(cache: Cache, objects: ApiObjects, units: Sequence[Unit]) -> list[Unit]:
    """Return the units in the order in which they are put back.

    Those that break a disruption budget come first; budgets are counted from the most important
    unit on. ``units`` are in the order of importance.
    """
    if not any(True for _ in objects.of(model.PodDisruptionBudget)):
        return list(units)
    rows = [cache.pod_row(pod.uid) for unit in units for pod in unit.pods]
    block = np.array(rows, np.intp)[:, np.newaxis]
    broken = Budgets(objects, cache.pods).violating(PodRows(cache.pods, block))
    if broken is None:
        return list(units)
    flags = iter(broken[:, 0].tolist())
    reprieved: tuple[list[Unit], list[Unit]] = ([], [])
    for unit in units:
        violates = [next(flags) for _ in unit.pods]
        reprieved[not any(violates)].append(unit)
    return [*reprieved[0], *reprieved[1]]


def _pods_on_nodes(cache: Cache) -> Iterator[model.PodInfo]:
    """Yield the pods on live nodes, node by node, in the order in which they came."""
    pods = cache.pods
    nodes = pods.node.values[: pods.n]
    rows = np.flatnonzero(nodes >= 0)
    for row in rows[np.lexsort((pods.arrival[rows], nodes[rows]))].tolist():
        info = pods.infos[row]
        if info is not None:
            yield info


def _group_of(pod: model.PodInfo) -> model.GroupKey | None:
    group = pod.pod.spec.scheduling_group
    return None if group is None else (pod.namespace, group.pod_group_name)


def _key(group: model.PodGroup) -> model.GroupKey:
    return group.metadata.namespace or model.DEFAULT_NAMESPACE, group.metadata.name
