"""A cluster under a clock that stands still, and a scheduler that takes the first fitting node."""

from __future__ import annotations

from typing import Any

from policy_sched.client.apimachinery.object import Key, Stored
from policy_sched.client.apimachinery.resources import NODE, POD
from policy_sched.embedded.client import EmbeddedClient
from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.embedded.kubelet import KubeletTimes, TakenResources, rejection
from policy_sched.embedded.store.deletion import ENDED
from policy_sched.errors import ClusterError
from policy_sched.model.cluster_objects import Node
from policy_sched.model.kinds import Kind
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import SECOND, FakeClock

START = 1_767_225_600 * SECOND
"""2026-01-01T00:00:00Z."""
Plain = dict[str, Any]


def node(name: str, cpu: str = "4", **fields: Any) -> Plain:
    """Return a node; ``labels`` and ``taints`` go where they belong."""
    amounts = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": fields.get("labels", {})},
        "spec": {"taints": fields.get("taints", [])},
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": ready},
    }


def pod_spec(cpu: str = "100m", **spec: Any) -> Plain:
    """Return the spec of a pod with one container."""
    requests = {"cpu": cpu}
    container = {"name": "c", "image": "app:1", "resources": {"requests": requests}}
    return {"containers": [container], **spec}


def pod(name: str, cpu: str = "100m", *, duration: str = "", **spec: Any) -> Plain:
    """Return a pod; ``duration`` says how long it runs."""
    meta: Plain = {"name": name, "namespace": "default"}
    if duration:
        meta["annotations"] = {"policysched.dev/duration": duration}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_spec(cpu, **spec)}


def workload(kind: str, name: str = "web", *, template: Plain | None = None, **spec: Any) -> Plain:
    """Return a workload whose pods are labelled ``app: <name>``."""
    meta = {"labels": {"app": name}}
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            **({} if kind == "Job" else {"selector": {"matchLabels": {"app": name}}}),
            "template": {"metadata": meta, "spec": template or pod_spec()},
            **spec,
        },
    }


class World:
    """A cluster, its client, and the time."""

    def __init__(self, nodes: int = 3, path: str | None = None, **times: Any) -> None:
        self.clock = FakeClock(START)
        self.cluster = EmbeddedCluster.open(path, self.clock, kubelets=KubeletTimes(**times))
        self.client = EmbeddedClient(self.cluster)
        self.store = self.cluster.store
        for number in range(nodes):
            self.cluster.apply(node(f"n{number}"))

    def run(self, seconds: float = 0) -> None:
        """Let so much time pass; whatever is pending is bound as soon as it fits."""
        end = self.clock.ns + round(seconds * SECOND)
        while True:
            self.settle()
            due = self.cluster.next_wakeup()
            if due is None or due > end:
                break
            assert due > self.clock.ns, "time must go on"
            self.clock.ns = due
        self.clock.ns = end
        self.settle()

    def settle(self) -> None:
        """Bind what can be bound, until nothing follows."""
        self.cluster.step()
        while sum(self._bind(other) for other in self.store.select(POD)):
            self.cluster.step()

    def _bind(self, stored: Stored) -> bool:
        waiting = typed(stored)
        if waiting.spec.node_name or stored.deleting or waiting.spec.scheduling_gates:
            return False
        others = [typed(other) for other in self.store.select(POD)]
        for other_node in self.store.select(NODE):
            guests = [
                PodInfo.of(other)
                for other in others
                if other.spec.node_name == other_node.name and other.status.phase not in ENDED
            ]
            assert isinstance(other_node.typed, Node)
            info = PodInfo.of(waiting)
            if rejection(info, other_node.typed, TakenResources(guests)) is None:
                self.client.bind(info, other_node.name, lambda error: None)
                return True
        return False

    def bind(self, name: str, target: str) -> ClusterError | None:
        """Bind a pod of the default namespace; return why that was refused."""
        answers: list[ClusterError | None] = []
        self.client.bind(self.info(name), target, answers.append)
        (answer,) = answers
        return answer

    def pods(self, **labels: str) -> list[Stored]:
        """Return the pods with these labels, by name."""
        stored_pods = [p for p in self.store.select(POD) if labels.items() <= p.labels.items()]
        return sorted(stored_pods, key=lambda other: other.name)

    def names(self) -> list[str]:
        """Return the names of all pods, sorted."""
        return [other.name for other in self.pods()]

    def phases(self) -> list[str]:
        """Return the phases of all pods, by name."""
        return [typed(other).status.phase for other in self.pods()]

    def pod(self, name: str) -> Pod:
        """Return a pod of the default namespace."""
        return typed(self.store.get(POD, "default", name))

    def info(self, name: str) -> PodInfo:
        """Return a pod as the scheduler sees it."""
        return PodInfo.of(self.pod(name))

    def delete(self, kind: Kind, name: str) -> None:
        """Delete an object of the default namespace."""
        assert self.cluster.delete(Key(kind, "default", name)) is not None

    def fail(self, name: str) -> None:
        """Let a pod fail, as its kubelet would say."""
        status = {"status": {"phase": "Failed", "conditions": []}}
        self.store.patch(Key(POD, "default", name), status, subresource="status")

    def status(self, kind: Kind, name: str = "web") -> Plain:
        """Return the status of an object of the default namespace."""
        stored: Plain = self.store.get(kind, "default", name).data.get("status") or {}
        return stored


def typed(stored: Stored) -> Pod:
    """Return an object that is a pod."""
    assert isinstance(stored.typed, Pod)
    return stored.typed
