"""The smallest expressions of each type, at each level: known when loaded, of a pod, of a node."""

from __future__ import annotations

from typing import Any, Final

from policy_sched.language.values.types import (
    BOOL,
    DOUBLE,
    DURATION,
    INT,
    RAW,
    RESOURCES,
    SELECTOR,
    SEMVER,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
    optional_of,
    quantity_of,
    record,
)

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
SCALARS: Final[tuple[Type, ...]] = (
    *(BOOL, INT, DOUBLE, STRING, DURATION, TIMESTAMP, SEMVER),
    *map(quantity_of, ("cpu", "bytes", "count", "free", "any")),
)
RECORDS: Final = ("Pod", "Node", "Taint", "Toleration", "Container", "HostPort", "Condition")

_TEXTS: Final = map_of(STRING, STRING)
LEAVES: Final[dict[Type, tuple[str, ...]]] = {
    BOOL: ("true", "node.ready", "pod.hostNetwork", "params.flag"),
    INT: ("0", "3", "-1", "node.podCount", "pod.priority", "cluster.nodeCount", "params.number"),
    DOUBLE: ("0.5", "params.ratio", "double(node.podCount)", "double(pod.priority)"),
    STRING: (
        *('"a"', '"cpu"', "node.name", "pod.name", "params.word", "node.kubeletVersion"),
        *('node.labels["zone"]', 'pod.labels["a"]'),
    ),
    DURATION: ('duration("1m")', "(now - node.creationTime)", "(now - pod.creationTime)"),
    TIMESTAMP: ("now", "node.creationTime", "pod.creationTime", "timestamp(0)"),
    SEMVER: ('semver("1.2.3")', "semver(node.kubeletVersion, true)", "semver(pod.name)"),
    SELECTOR: ('selector("a in (b), !c")',),
    RESOURCES: ("node.free", "pod.requests", "node.allocatable", "cluster.requested"),
    RAW: ("params.affinity",),
    quantity_of("cpu"): (
        *('node.free["cpu"]', 'pod.requests["cpu"]', 'cluster.allocatable["cpu"]'),
        'domain("zone").free["cpu"]',
    ),
    quantity_of("bytes"): ('node.free["memory"]', 'pod.requests["memory"]'),
    quantity_of("count"): ('node.free["example.com/gpu"]', 'pod.requests["example.com/gpu"]'),
    quantity_of("free"): (
        'quantity("500m")',
        "quantity(pod.name)",
        'quantity(node.labels["rank"])',
    ),
    quantity_of("any"): ("pod.requests[pod.name]", "node.free[pod.name]"),
    list_of(STRING): ("params.words", "pod.images", "node.declaredFeatures"),
    list_of(INT): ("params.numbers", "lists.range(3)"),
    list_of(list_of(INT)): ("params.shape", "[[0, 0], [9, 1]]"),
    list_of(list_of(DOUBLE)): ("[[0.0, 0.0], [9.0, 1.5]]",),
    list_of(record("Pod")): ("node.pods", 'domain("zone").pods'),
    list_of(record("Taint")): ("node.taints",),
    list_of(record("Toleration")): ("pod.tolerations",),
    list_of(record("Container")): ("pod.containers",),
    list_of(record("HostPort")): ("node.usedPorts", "pod.hostPorts"),
    list_of(record("Condition")): ("node.conditions",),
    list_of(record("Domain")): ('domains("zone")',),
    optional_of(STRING): ('node.labels[?"zone"]', "pod.labels.?a"),
    _TEXTS: ("node.labels", "pod.labels", "pod.nodeSelector"),
    map_of(STRING, INT): ("params.weights",),
    record("Pod"): ("pod", "pod", "node.pods[0]"),
    record("Node"): ("node", "node", "[node][0]"),
    record("Cluster"): ("cluster",),
    record("Domain"): ('domain("zone")',),
    record("Namespace"): ("namespaceObject",),
    record("Image"): ('node.images["img:1"]',),
    record("Taint"): ('taint("k", "v", "NoSchedule")', "node.taints[0]"),
    record("Toleration"): ("pod.tolerations[0]",),
    record("Container"): ("pod.containers[0]",),
    record("HostPort"): ("pod.hostPorts[0]", "node.usedPorts[0]"),
    record("Condition"): ("node.conditions[0]",),
}
#: Records whose fields lead to other values.
OWNERS: Final = (*RECORDS, "Cluster", "Domain", "Namespace", "Image")
