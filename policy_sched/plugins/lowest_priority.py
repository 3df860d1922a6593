"""The lowest priority of all pods on nodes: who is not above it cannot evict anybody."""

from __future__ import annotations

from policy_sched.framework.handle import Handle
from policy_sched.model.pod_info import PodInfo


class LowestPriority:
    """Tells of pods whether there is anybody of lower priority; worked out once per change."""

    def __init__(self, handle: Handle) -> None:
        self._pods = handle.pods
        self._version = -1
        self._lowest: int | None = None

    def __call__(self, pod: PodInfo) -> bool:
        """Tell whether the pod may evict others, and one with a lower priority is on a node."""
        pods = self._pods
        if self._version != pods.version:
            self._version = pods.version
            there = pods.column(("node",)).values[: pods.n] >= 0
            found = pods.column(("priority",)).values[: pods.n][there]
            self._lowest = int(found.min()) if found.size else None
        lowest = self._lowest
        return pod.preemption_policy != "Never" and lowest is not None and pod.priority > lowest
