"""The smallest expressions of each type, at each level: known when loaded, of a pod, of a node."""

from __future__ import annotations

from typing import Any, Final

from policy_sched.language.values import types

AFFINITY: Final = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
        ]
    }
}
#: The parameters that generated expressions read.
PARAMS: Final[dict[str, Any]] = {
    "flag": True,
    "number": 40,
    "ratio": 0.25,
    "word": "b",
    "words": ["a", "b"],
    "numbers": [3, 0, -4],
    "weights": {"a": 1, "b": 2},
    "shape": [[0, 0], [50, 80], [100, 100]],
    "affinity": AFFINITY,
}
#: Types whose values are one thing.
SCALARS: Final[tuple[types.Type, ...]] = (
    *(
        types.BOOL,
        types.INT,
        types.DOUBLE,
        types.STRING,
        types.DURATION,
        types.TIMESTAMP,
        types.SEMVER,
    ),
    *map(types.quantity_of, ("cpu", "bytes", "count", "free", "any")),
)
RECORDS: Final = ("Pod", "Node", "Taint", "Toleration", "Container", "HostPort", "Condition")

_TEXTS: Final = types.map_of(types.STRING, types.STRING)
LEAVES: Final[dict[types.Type, tuple[str, ...]]] = {
    types.BOOL: ("true", "node.ready", "pod.hostNetwork", "params.flag"),
    types.INT: (
        "0",
        "3",
        "-1",
        "node.podCount",
        "pod.priority",
        "cluster.nodeCount",
        "params.number",
    ),
    types.DOUBLE: ("0.5", "params.ratio", "double(node.podCount)", "double(pod.priority)"),
    types.STRING: (
        *('"a"', '"cpu"', "node.name", "pod.name", "params.word", "node.kubeletVersion"),
        *('node.labels["zone"]', 'pod.labels["a"]'),
    ),
    types.DURATION: ('duration("1m")', "(now - node.creationTime)", "(now - pod.creationTime)"),
    types.TIMESTAMP: ("now", "node.creationTime", "pod.creationTime", "timestamp(0)"),
    types.SEMVER: ('semver("1.2.3")', "semver(node.kubeletVersion, true)", "semver(pod.name)"),
    types.SELECTOR: ('selector("a in (b), !c")',),
    types.RESOURCES: ("node.free", "pod.requests", "node.allocatable", "cluster.requested"),
    types.RAW: ("params.affinity",),
    types.quantity_of("cpu"): (
        *('node.free["cpu"]', 'pod.requests["cpu"]', 'cluster.allocatable["cpu"]'),
        'domain("zone").free["cpu"]',
    ),
    types.quantity_of("bytes"): ('node.free["memory"]', 'pod.requests["memory"]'),
    types.quantity_of("count"): ('node.free["example.com/gpu"]', 'pod.requests["example.com/gpu"]'),
    types.quantity_of("free"): (
        'quantity("500m")',
        "quantity(pod.name)",
        'quantity(node.labels["rank"])',
    ),
    types.quantity_of("any"): ("pod.requests[pod.name]", "node.free[pod.name]"),
    types.list_of(types.STRING): ("params.words", "pod.images", "node.declaredFeatures"),
    types.list_of(types.INT): ("params.numbers", "lists.range(3)"),
    types.list_of(types.list_of(types.INT)): ("params.shape", "[[0, 0], [9, 1]]"),
    types.list_of(types.list_of(types.DOUBLE)): ("[[0.0, 0.0], [9.0, 1.5]]",),
    types.list_of(types.record("Pod")): ("node.pods", 'domain("zone").pods'),
    types.list_of(types.record("Taint")): ("node.taints",),
    types.list_of(types.record("Toleration")): ("pod.tolerations",),
    types.list_of(types.record("Container")): ("pod.containers",),
    types.list_of(types.record("HostPort")): ("node.usedPorts", "pod.hostPorts"),
    types.list_of(types.record("Condition")): ("node.conditions",),
    types.list_of(types.record("Domain")): ('domains("zone")',),
    types.optional_of(types.STRING): ('node.labels[?"zone"]', "pod.labels.?a"),
    _TEXTS: ("node.labels", "pod.labels", "pod.nodeSelector"),
    types.map_of(types.STRING, types.INT): ("params.weights",),
    types.list_of(types.record("Quota")): ("quota.path",),
    types.record("Quota"): ("quota", "quota", "quota.path[0]"),
    types.record("Pod"): ("pod", "pod", "node.pods[0]"),
    types.record("Node"): ("node", "node", "[node][0]"),
    types.record("Cluster"): ("cluster",),
    types.record("Domain"): ('domain("zone")',),
    types.record("Namespace"): ("namespaceObject",),
    types.record("Image"): ('node.images["img:1"]',),
    types.record("Taint"): ('taint("k", "v", "NoSchedule")', "node.taints[0]"),
    types.record("Toleration"): ("pod.tolerations[0]",),
    types.record("Container"): ("pod.containers[0]",),
    types.record("SeccompProfile"): ("pod.seccompProfile", "pod.containers[0].seccompProfile"),
    types.record("HostPort"): ("pod.hostPorts[0]", "node.usedPorts[0]"),
    types.record("Condition"): ("node.conditions[0]",),
}
#: Records whose fields lead to other values.
OWNERS: Final = (*RECORDS, "Cluster", "Domain", "Namespace", "Image", "SeccompProfile", "Quota")
