"""TopologyPlacementGenerator and PodGroupPodsCount: placements by a label, and how full they get.

A PodGroup may name one node label (``schedulingConstraints.topology``): all its pods go to nodes
with one value of it. Pods that have nodes already fix the value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import PluginError
from policy_sched.framework import SKIP, Code, Handle, Placements, Scores, Status, hookimpl
from policy_sched.model import GroupKey, PodGroup, PodInfo
from policy_sched.plugins.podgroups.gang_scheduling import group_name

UNKNOWN: Final = "cannot determine domain for already scheduled pods"
NO_PODS_ASSIGNED: Final = "no pods from pod group are assigned to any of the candidate placements"
BEST: Final = 100
_ANYWHERE: Final = Placements(status=SKIP)


class TopologyPlacementGenerator:
    """Parts the nodes by the label that the group names; without one they are one placement."""

    def __init__(self, _args: Mapping[str, object], handle: Handle) -> None:
        self._handle = handle

    @hookimpl
    def placement_generate(self, pods: Sequence[PodInfo]) -> Placements:
        """Return a placement for each value of the label, named by the value."""
        pod, handle = pods[0], self._handle
        name = group_name(pod)
        if not name:
            return _ANYWHERE
        key = (pod.namespace, name)
        group = handle.objects.named(PodGroup, *key)
        label = "" if group is None else group.topology_key
        if not label:
            table = handle.nodes
            return Placements({"": np.flatnonzero(table.live.values[: table.n])})
        try:
            fixed = self._fixed(key, label)
        except PluginError as error:
            return Placements(status=Status(Code.ERROR, (f"{UNKNOWN}: {error}",)))
        found = by_value(handle.nodes, label)
        if fixed is not None:
            found = {value: rows for value, rows in found.items() if value == fixed}
        return Placements(found)

    def _fixed(self, key: GroupKey, label: str) -> str | None:
        """Return the value where pods of the group have nodes, None where none has.

        Raises PluginError if there is no such value, or more than one.
        """
        handle = self._handle
        table = handle.nodes
        codes = table.lookup(("label", label)).values
        values: set[str] = set()
        for uid, pod in handle.cache.groups.pods(key).items():
            node = handle.cache.node_of(uid)
            row = table.row_of.get(node)
            if row is None:
                text = f'nodeinfo not found for node name "{node}"'
                raise PluginError(f"getting node for pod {pod.key}: {text}")
            if not codes[row]:
                raise PluginError(f"no topology domain found for pod {pod.key}")
            values.add(table.strings.text(int(codes[row])))
        if len(values) > 1:
            text = ", ".join(sorted(values))
            raise PluginError(f"more than 1 domain found for pod group: {text}")
        return next(iter(values), None)


def by_value(table: NodeTable, label: str) -> dict[str, NDArray[np.intp]]:
    """Return the live rows of each value of a label, ascending; rows without it are left out."""
    codes = table.lookup(("label", label)).values[: table.n]
    rows = np.flatnonzero(table.live.values[: table.n] & (codes != 0))
    order = np.argsort(codes[rows], kind="stable")
    rows = rows[order]
    if not rows.size:
        return {}
    found, starts = np.unique(codes[rows], return_index=True)
    parts = np.split(rows, starts[1:])
    text = table.strings.text
    return {text(code): part for code, part in zip(found.tolist(), parts, strict=True)}


class PodGroupPodsCount:
    """Prefers the placement in which most pods of the group have nodes."""

    def __init__(self, _args: Mapping[str, object], handle: Handle) -> None:
        self._handle = handle

    @hookimpl
    def placement_score(self, pods: Sequence[PodInfo]) -> int:
        """Return how many pods of the group have nodes, those that would be here included."""
        pod = pods[0]
        return len(self._handle.cache.groups.pods((pod.namespace, pod.pod_group)))

    @hookimpl
    def normalize_placement_score(self, scores: Scores) -> Scores:
        """Stretch the counts, so that the highest is 100."""
        most = int(scores.max())
        if most == 0:
            raise PluginError(NO_PODS_ASSIGNED)
        return scores * BEST // most
