"""Pods nominated to nodes: promised room that was not taken yet."""

from __future__ import annotations

from policy_sched.model.pod_info import PodInfo


class Nominator:
    """Which pods are nominated to which node, in order of nomination."""

    def __init__(self) -> None:
        self._node_of: dict[str, str] = {}
        self._pods: dict[str, dict[str, PodInfo]] = {}

    def __len__(self) -> int:
        return len(self._node_of)

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Nominate `pod` to `node`, instead of where it was nominated before."""
        self.clear(pod.uid)
        self._node_of[pod.uid] = node
        self._pods.setdefault(node, {})[pod.uid] = pod

    def clear(self, uid: str) -> None:
        """Forget the nomination of the pod with that UID, if there is one."""
        node = self._node_of.pop(uid, None)
        if node is None:
            return
        pods = self._pods[node]
        del pods[uid]
        if not pods:
            del self._pods[node]

    def node_of(self, uid: str) -> str:
        """Return the node that the pod is nominated to, or an empty string."""
        return self._node_of.get(uid, "")

    def pods_on(self, node: str) -> tuple[PodInfo, ...]:
        """Return the pods nominated to `node`."""
        return tuple(self._pods.get(node, {}).values())

    def nominated(self) -> tuple[tuple[str, tuple[PodInfo, ...]], ...]:
        """Return every node that has nominated pods, with them."""
        return tuple((node, tuple(pods.values())) for node, pods in self._pods.items())
