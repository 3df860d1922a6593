"""The nodes and pods of kube-scheduler's own benchmarks, as the API server would send them.

A node has 4 cpu, 32Gi and room for 110 pods; a pod requests 100m cpu and 500Mi, unless it is of
one of the few kinds that preempt, are preempted, or ask for nothing. (scheduler_perf's templates.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from policy_sched.model import HOSTNAME, ZONE

Manifest = dict[str, object]
Maker = Callable[[int], Manifest]
"""From the number of an object to the object."""

IMAGE: Final = "registry.k8s.io/pause:3.10.2"
DISTINCT_CPU: Final = 200
"""Distinct pods ask for 50m cpu and up to this much more: 150m on average, 26 on a node."""
NAMED_NODE: Final = "scheduler-perf-node"
"""The one node that the pods of SchedulingDaemonset may run on."""

_AMOUNTS: Final = {"cpu": "100m", "memory": "500Mi"}


def node_name(index: int) -> str:
    """Return the name of the index-th node."""
    return f"scheduler-perf-{index:06d}"


def node(index: int, name: str = "", pods: str = "110", **labels: str) -> Manifest:
    """Return the index-th node."""
    name = name or node_name(index)
    capacity = {"cpu": "4", "memory": "32Gi", "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"node-{index}",
            "labels": {HOSTNAME: name, **labels},
        },
        "spec": {},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def zoned_node(index: int) -> Manifest:
    """Return a node of the one zone."""
    return node(index, **{ZONE: "zone1"})


def moon_node(index: int) -> Manifest:
    """Return a node of one of three zones, in turn."""
    return node(index, **{ZONE: f"moon-{index % 3 + 1}"})


def node_beside_named(index: int) -> Manifest:
    """Return an ordinary node, but for the first one: that has a name of its own, and room."""
    return node(index) if index else node(index, NAMED_NODE, "90000")


def pod(
    prefix: str,
    index: int,
    spec: Manifest | None = None,
    *,
    namespace: str = "default",
    labels: dict[str, str] | None = None,
    resources: Manifest | None = None,
) -> Manifest:
    """Return a pod that requests 100m cpu and 500Mi, or other resources."""
    container: Manifest = {
        "name": "pause",
        "image": IMAGE,
        "ports": [{"containerPort": 80}],
        "resources": {"requests": _AMOUNTS, "limits": _AMOUNTS} if resources is None else resources,
    }
    name = f"{prefix}-{index:06d}"
    metadata: Manifest = {"name": name, "namespace": namespace, "uid": name}
    if labels is not None:
        metadata["labels"] = labels
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": "default-scheduler", "containers": [container], **(spec or {})},
    }


def plain(prefix: str) -> Maker:
    """Return a maker of pods that want nothing but their requests."""
    return partial(pod, prefix)


def affine(prefix: str) -> Maker:
    """Return a maker of pods that need the zone in which all nodes are, or another one."""
    zones = {"key": ZONE, "operator": "In", "values": ["zone1", "zone2"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}
    node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return lambda index: pod(prefix, index, {"affinity": {"nodeAffinity": node_affinity}})


def bound_by_name(index: int) -> Manifest:
    """Return a pod as the daemon set controller makes it: it needs the named node."""
    field = {"key": "metadata.name", "operator": "In", "values": [NAMED_NODE]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    spec: Manifest = {"affinity": {"nodeAffinity": node_affinity}}
    return pod("daemonset", index, spec, resources={})


def distinct(index: int) -> Manifest:
    """Return a pod of which no other has equal requests, labels or tolerations."""
    # 7919 is a prime: neighbours differ, and the amounts cover the range evenly.
    requests = {
        "cpu": f"{50 + index * 7919 % DISTINCT_CPU}m",
        "memory": f"{100 * 1024 + index * 4}Ki",
    }
    toleration = {"key": f"key-{index}", "operator": "Exists", "effect": "NoSchedule"}
    container = {"name": "pause", "image": IMAGE, "resources": {"requests": requests}}
    spec: Manifest = {"containers": [container], "tolerations": [toleration]}
    return pod("distinct", index, spec, labels={"app": f"app-{index}"})


def full_node(index: int) -> Manifest:
    """Return a node; every third has a taint that no pod tolerates."""
    made = node(index)
    if index % 3 == 0:
        made["spec"] = {"taints": [{"key": "full", "effect": "NoSchedule"}]}
    return made


def filling(index: int) -> Manifest:
    """Return a pod that takes all cpu of its node, or all memory on every third."""
    requests = {"memory": "32Gi"} if index % 3 == 2 else {"cpu": "4"}
    container = {"name": "pause", "image": IMAGE, "resources": {"requests": requests}}
    return pod("full", index, {"containers": [container]})


def labelled(prefix: str, namespace: str, color: str, spec: Manifest) -> Maker:
    """Return a maker of pods of one color, the label that their selectors look for."""
    return lambda index: pod(prefix, index, spec, namespace=namespace, labels={"color": color})


def behind_service(index: int) -> Manifest:
    """Return a pod that requests nothing and that the service selects."""
    labels = {"app": "scheduler-perf"}
    return pod("pod", index, namespace="service-ns", labels=labels, resources={})


def service() -> Manifest:
    """Return the service whose pods are spread by default."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "service-0", "namespace": "service-ns"},
        "spec": {"selector": {"app": "scheduler-perf"}},
    }


def low_priority(index: int) -> Manifest:
    """Return a pod of which four fill a node."""
    amounts = {"cpu": "900m", "memory": "500Mi"}
    spec: Manifest = {"terminationGracePeriodSeconds": 0}
    return pod("low", index, spec, resources={"requests": amounts, "limits": amounts})


def high_priority(prefix: str) -> Maker:
    """Return a maker of pods that need the room of three pods of low priority, and may have it."""
    amounts = {"cpu": "3000m", "memory": "500Mi"}
    resources: Manifest = {"requests": amounts, "limits": amounts}
    return lambda index: pod(prefix, index, {"priority": 10}, resources=resources)


def large(index: int) -> Manifest:
    """Return a pod of high priority that is larger than any node."""
    requests = {"cpu": "9", "memory": "500Mi"}
    return pod("large", index, {"priority": 10}, resources={"requests": requests})


def budgeted(index: int) -> Manifest:
    """Return a pod of which ten fill a node, in one of four groups: three have a budget."""
    amounts = {"cpu": "400m", "memory": "500Mi"}
    resources: Manifest = {"requests": amounts, "limits": amounts}
    # By sevens, so that the pods of a node, which are 5,000 apart, are of different groups.
    labels = {"group": f"group-{index // 7 % 4}"}
    return pod("low", index, {"priority": index % 7}, labels=labels, resources=resources)


def budget(number: int) -> Manifest:
    """Return the disruption budget of a group: so many of its pods may go."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": f"budget-{number}", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"group": f"group-{number}"}}},
        "status": {"disruptionsAllowed": number},
    }


TEAMS: Final = 1000
"""Namespaces with a quota of their own."""
_ZONES: Final = 8


def quota(number: int) -> Manifest:
    """Return the ElasticQuota of a team: half a node is its own, and it may use 20."""
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "quota", "namespace": f"team-{number}"},
        "spec": {
            "min": {"cpu": "2", "memory": "16Gi"},
            "max": {"cpu": "80", "memory": "640Gi"},
        },
    }


def of_team(index: int) -> Manifest:
    """Return a pod of one of the teams, in turn."""
    return pod("team", index, namespace=f"team-{index % TEAMS}")


def zones_of_node(index: int) -> list[Manifest]:
    """Return the NodeResourceTopology of the index-th node: an eighth of it in each zone."""
    amounts = [{"name": "cpu", "available": "500m"}, {"name": "memory", "available": "4Gi"}]
    zones = [
        {
            "name": f"node-{number}",
            "type": "Node",
            "resources": amounts,
            "costs": [{"name": f"node-{n}", "value": 10 + abs(n - number)} for n in range(_ZONES)],
        }
        for number in range(_ZONES)
    ]
    topology: Manifest = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node_name(index)},
        "topologyPolicies": ["SingleNUMANodeContainerLevel"],
        "zones": zones,
    }
    return [topology]
