"""The workloads of ``bench``: kube-scheduler's own benchmarks (scheduler_perf), in process.

Nodes and pods are those of scheduler_perf's templates: a node has 4 cpu, 32Gi and 110 pods; a pod
asks for 100m cpu and 500Mi. Init pods are bound before anything is measured, round robin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import msgspec

Manifest = dict[str, object]

ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"
IMAGE: Final = "registry.k8s.io/pause:3.10.2"
DISTINCT_CPU: Final = 200
"""Distinct pods ask for 50m cpu and up to this much more: 150m on average, 26 on a node."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One benchmark: how a node, the init pods and the i-th measured pod look, and how many.

    ``init_pods``: kinds of init pods, of each the same number, one kind after the other.
    ``init_per_node``: init pods bound to each node (a fraction of the nodes if below 1).
    """

    name: str
    node: Callable[[int], Manifest]
    init_pods: tuple[Callable[[int], Manifest], ...]
    pod: Callable[[int], Manifest]
    nodes: int
    pods: int
    init_per_node: float
    note: str = ""


def node_json(workload: Workload, index: int) -> bytes:
    """Return the JSON of a node, as the API server sends it."""
    return msgspec.json.encode(workload.node(index))


def pod_json(workload: Workload, index: int) -> bytes:
    """Return the JSON of a measured pod, as the API server sends it."""
    return msgspec.json.encode(workload.pod(index))


def init_pods_json(workload: Workload, nodes: int) -> Iterator[bytes]:
    """Yield the JSON of every init pod, bound to the nodes in turn."""
    count = round(nodes * workload.init_per_node)
    share = -(-count // len(workload.init_pods))
    for i in range(count):
        manifest = workload.init_pods[i // share](i)
        spec = manifest["spec"]
        assert isinstance(spec, dict)
        spec["nodeName"] = node_name(i % nodes)
        yield msgspec.json.encode(manifest)


def node_name(index: int) -> str:
    """Return the name of the index-th node."""
    return f"scheduler-perf-{index:06d}"


def _node(index: int, **labels: str) -> Manifest:
    name = node_name(index)
    capacity = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"node-{index}",
            "labels": {"kubernetes.io/hostname": name, **labels},
        },
        "spec": {},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _zoned_node(index: int) -> Manifest:
    return _node(index, **{ZONE: "zone1"})


def _pod(prefix: str, index: int, spec: Manifest | None = None) -> Manifest:
    amounts = {"cpu": "100m", "memory": "500Mi"}
    container: Manifest = {
        "name": "pause",
        "image": IMAGE,
        "ports": [{"containerPort": 80}],
        "resources": {"requests": amounts, "limits": amounts},
    }
    name = f"{prefix}-{index:06d}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"schedulerName": "default-scheduler", "containers": [container], **(spec or {})},
    }


def _plain(index: int) -> Manifest:
    return _pod("pod", index)


def _plain_init(index: int) -> Manifest:
    return _pod("init", index)


def _affine(prefix: str) -> Callable[[int], Manifest]:
    zones = {"key": ZONE, "operator": "In", "values": ["zone1", "zone2"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}
    node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return lambda index: _pod(prefix, index, {"affinity": {"nodeAffinity": node_affinity}})


def _distinct(index: int) -> Manifest:
    """No two of these pods have equal requests, labels or tolerations."""
    # 7919 is a prime: neighbours differ, and the amounts cover the range evenly.
    requests = {
        "cpu": f"{50 + index * 7919 % DISTINCT_CPU}m",
        "memory": f"{100 * 1024 + index * 4}Ki",
    }
    toleration = {"key": f"key-{index}", "operator": "Exists", "effect": "NoSchedule"}
    container = {"name": "pause", "image": IMAGE, "resources": {"requests": requests}}
    pod = _pod("distinct", index, {"containers": [container], "tolerations": [toleration]})
    metadata = pod["metadata"]
    assert isinstance(metadata, dict)
    metadata["labels"] = {"app": f"app-{index}"}
    return pod


def _moon_node(index: int) -> Manifest:
    return _node(index, **{ZONE: f"moon-{index % 3 + 1}"})


def _labelled(prefix: str, namespace: str, color: str, spec: Manifest) -> Callable[[int], Manifest]:
    """Return a maker of pods of one color, the label that their selectors look for."""

    def make(index: int) -> Manifest:
        pod = _pod(prefix, index, spec)
        metadata = pod["metadata"]
        assert isinstance(metadata, dict)
        metadata |= {"namespace": namespace, "labels": {"color": color}}
        return pod

    return make


def _spreading(name: str, when: str) -> Workload:
    constraint = {
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"color": "blue"}},
    }
    pod = _labelled("spread", "default", "blue", {"topologySpreadConstraints": [constraint]})
    return Workload(name, _moon_node, (_plain_init,), pod, nodes=5000, pods=5000, init_per_node=1.0)


def _attracted(
    name: str, color: str, kind: str, topology_key: str, *, preferred: bool = False
) -> Workload:
    """Return a workload whose init pods and measured pods ask for, or shun, each other."""
    term: Manifest = {
        "labelSelector": {"matchLabels": {"color": color}},
        "topologyKey": topology_key,
        "namespaces": ["sched-1", "sched-0"],
    }
    rule: Manifest = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    if preferred:
        weighted = {"weight": 1, "podAffinityTerm": term}
        rule = {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}
    spec: Manifest = {"affinity": {kind: rule}}
    return Workload(
        name,
        _zoned_node if topology_key == ZONE else _node,
        (_labelled("init", "sched-0", color, spec),),
        _labelled("pod", "sched-1", color, spec),
        nodes=5000,
        pods=5000,
        init_per_node=1.0,
    )


BASIC: Final = Workload(
    "SchedulingBasic", _node, (_plain_init,), _plain, nodes=5000, pods=10_000, init_per_node=0.2
)
NODE_AFFINITY: Final = Workload(
    "SchedulingNodeAffinity",
    _zoned_node,
    (_affine("init"),),
    _affine("affinity"),
    nodes=5000,
    pods=10_000,
    init_per_node=1.0,
)
DISTINCT: Final = replace(
    BASIC,
    name="SchedulingDistinct",
    pod=_distinct,
    note="not of scheduler_perf: SchedulingBasic with pods of which no two are alike",
)

NEIGHBOURS: Final = (
    _spreading("TopologySpreading", "DoNotSchedule"),
    _spreading("PreferredTopologySpreading", "ScheduleAnyway"),
    replace(
        _attracted("SchedulingPodAntiAffinity", "green", "podAntiAffinity", HOSTNAME),
        pods=2000,
        init_per_node=0.2,
    ),
    _attracted("SchedulingPodAffinity", "blue", "podAffinity", ZONE),
    _attracted("SchedulingPreferredPodAffinity", "red", "podAffinity", HOSTNAME, preferred=True),
    _attracted(
        "SchedulingPreferredPodAntiAffinity", "yellow", "podAntiAffinity", HOSTNAME, preferred=True
    ),
)
"""Workloads whose pods look at the pods around them."""

MIXED_BASE: Final = Workload(
    "MixedSchedulingBasePod",
    _zoned_node,
    (_plain_init, *(maker for one in NEIGHBOURS[2:] for maker in one.init_pods)),
    _plain,
    nodes=5000,
    pods=5000,
    init_per_node=2.0,
)

WORKLOADS: Final = {
    "SchedulingBasic": BASIC,
    "SchedulingNodeAffinity": NODE_AFFINITY,
    "NodeAffinity": NODE_AFFINITY,
    "MixedSchedulingBasePod": MIXED_BASE,
    "MixedBase": MIXED_BASE,
    "SchedulingDistinct": DISTINCT,
    **{workload.name: workload for workload in NEIGHBOURS},
}
"""Workloads by name, with the short names that people use."""
