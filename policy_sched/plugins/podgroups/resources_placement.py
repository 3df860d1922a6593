"""NodeResourcesFit at PlacementScore: how full the nodes of a placement get, all of them together.

Whatever strategy the plugin scores nodes by, placements are scored as with MostAllocated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from policy_sched.framework import Handle, Placement, hookimpl
from policy_sched.model import PodInfo

FULL: Final = 100
_NATIVE: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


class NodeResourcesPlacement:
    """Scores a placement by the plugin's resources and their weights."""

    def __init__(self, args: Mapping[str, Any], handle: Handle) -> None:
        strategy: Mapping[str, Any] = args.get("scoringStrategy") or {}
        resources = strategy.get("resources") or ({"name": "cpu"}, {"name": "memory"})
        self._weights = {str(one["name"]): int(one.get("weight") or 1) for one in resources}
        self._handle = handle

    @hookimpl
    def placement_score(self, placement: Placement) -> int:
        """Return the mean share of the resources that is then requested, 0 to 100."""
        total = weights = 0
        for resource, weight in self._weights.items():
            requested, allocatable = self._sums(resource, placement)
            if allocatable:
                total += min(requested, allocatable) * FULL // allocatable * weight
                weights += weight
        return total // weights if weights else 0

    def _sums(self, resource: str, placement: Placement) -> tuple[int, int]:
        """Return what is requested on the placement's nodes, the group included, and allocatable.

        The columns count the group's pods, as they are assumed; their own requests are those of
        their containers.
        """
        pods = [pod for pod, _ in placement.assigned]
        own = sum(_request(pod, resource) for pod in pods)
        if not own and resource not in _NATIVE:
            return 0, 0
        table, rows = self._handle.nodes, placement.rows
        counted = table.lookup(("nonZeroRequested", resource)).values[rows]
        allocatable = table.lookup(("allocatable", resource)).values[rows]
        added = sum(pod.non_zero_added.get(resource, 0) for pod in pods)
        requested = int(counted.sum(dtype=np.int64)) - added + own
        return requested, int(allocatable.sum(dtype=np.int64))


def _request(pod: PodInfo, resource: str) -> int:
    """Return what the pod's containers request, as scoring sees them."""
    return pod.non_zero_requests.get(resource, 0)
