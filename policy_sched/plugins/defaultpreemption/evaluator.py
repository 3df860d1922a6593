"""Whether an attempt may evict and nominate pods, or only decide where its pod runs."""

from __future__ import annotations

from policy_sched.framework import Handle
from policy_sched.model import PodInfo


class Preempting:
    """Tells of pods whether they may evict others, or hold a node for which they evicted others.

    A nomination that cannot come true any more keeps others off its node until its pod is tried
    again. The lowest priority of all pods on nodes is worked out once per change.
    """

    def __init__(self, handle: Handle) -> None:
        self._pods = handle.pods
        self._nominator = handle.nominator
        self._version = -1
        self._lowest: int | None = None

    def __call__(self, pod: PodInfo) -> bool:
        """Tell whether the pod is nominated, or may evict one of lower priority on a node."""
        if self._nominator.node_of(pod.uid):
            return True
        pods = self._pods
        if self._version != pods.version:
            self._version = pods.version
            there = pods.lookup(("node",)).values[: pods.n] >= 0
            found = pods.lookup(("priority",)).values[: pods.n][there]
            self._lowest = int(found.min()) if found.size else None
        lowest = self._lowest
        return pod.preemption_policy != "Never" and lowest is not None and pod.priority > lowest
