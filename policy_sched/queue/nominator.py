"""Pods nominated to nodes: promised room that was not taken yet.

Theory of operation: a short log lists the nodes whose nominations changed, so that cached
evaluations are updated for those nodes only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from policy_sched.model import PodInfo

#: Entries of the log; when it is full its older half goes.
LOG_SIZE: Final = 4096
_NO_PODS: Final[Mapping[str, PodInfo]] = {}


class Nominator:
    """Which pods are nominated to which node, in order of nomination."""

    def __init__(self) -> None:
        self.node_by_uid: dict[str, str] = {}
        """The node that each pod is nominated to, by the pod's UID; to be read only."""
        self.by_node: dict[str, dict[str, PodInfo]] = {}
        """By node the pods that are nominated to it, by UID; to be read only."""
        self._priorities: Counter[int] = Counter()
        self._log: list[str] = []
        self.version = 0
        """How many nominations ever came or went."""
        self.told: Callable[[PodInfo, str, bool], None] | None = None
        """Called for each nomination that comes (True) or goes."""

    def __len__(self) -> int:
        return len(self.node_by_uid)

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Nominate `pod` to `node`, instead of where it was nominated before."""
        self.clear(pod.uid)
        self.node_by_uid[pod.uid] = node
        self.by_node.setdefault(node, {})[pod.uid] = pod
        self._priorities[pod.priority] += 1
        self._note(node)
        if self.told is not None:
            self.told(pod, node, True)

    def clear(self, uid: str) -> PodInfo | None:
        """Forget the nomination of the pod with that UID; return the pod, None if it has none."""
        node = self.node_by_uid.pop(uid, None)
        if node is None:
            return None
        pods = self.by_node[node]
        pod = pods.pop(uid)
        if not pods:
            del self.by_node[node]
        self._priorities[pod.priority] -= 1
        if not self._priorities[pod.priority]:
            del self._priorities[pod.priority]
        self._note(node)
        if self.told is not None:
            self.told(pod, node, False)
        return pod

    def node_of(self, uid: str) -> str:
        """Return the node that the pod is nominated to, or an empty string."""
        return self.node_by_uid.get(uid, "")

    def pods_on(self, node: str) -> tuple[PodInfo, ...]:
        """Return the pods nominated to `node`."""
        return tuple(self.by_node.get(node, {}).values())

    def any_on(self, nodes: Iterable[str], priority: int) -> bool:
        """Return whether a pod at least so important is nominated to one of some nodes."""
        for node in nodes:
            for pod in self.by_node.get(node, _NO_PODS).values():
                if pod.priority >= priority:
                    return True
        return False

    def nominated(self) -> tuple[tuple[str, tuple[PodInfo, ...]], ...]:
        """Return every node that has nominated pods, with them."""
        return tuple((node, tuple(pods.values())) for node, pods in self.by_node.items())

    def lowest(self, priority: int) -> int | None:
        """Return the lowest priority of a nominated pod that is not below another; None if none."""
        lowest = None
        for own in self._priorities:
            if own >= priority and (lowest is None or own < lowest):
                lowest = own
        return lowest

    def since(self, version: int) -> list[str] | None:
        """Return the nodes where nominations came or went after ``version``, each once.

        None if that is too long ago to say.
        """
        start = version - self.version + len(self._log)
        return list(dict.fromkeys(self._log[start:])) if start >= 0 else None

    def _note(self, node: str) -> None:
        self._log.append(node)
        self.version += 1
        if len(self._log) > LOG_SIZE:
            del self._log[: LOG_SIZE // 2]
