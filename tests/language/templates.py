"""How an expression of each type can be written: the leaves, and what variables give.

Theory of operation. A production is text with holes: ``{int}`` is any expression of type int,
``{bool|x:int}`` one that may also read a fresh macro variable of type int, whose name ``$x``
stands for. Names of types here are those of the generator: ``cpu``, ``bytes`` and ``count`` are
quantities of one dimension, ``strings`` and ``ints`` lists, ``text?`` and ``int?`` optionals,
``Taint``, ``Pod`` and so on records. The first production of a type is the smallest.
"""

from __future__ import annotations

from typing import Final

#: Leaves: nothing below them, so they end the recursion.
LEAVES: Final[dict[str, tuple[str, ...]]] = {
    "bool": (
        "true",
        "false",
        "node.unschedulable",
        "node.ready",
        "pod.hostNetwork",
        '"zone" in node.labels',
        "has(node.labels.rank)",
        '"a" in pod.labels',
        '"example.com/gpu" in node.allocatable',
        "pod.matchesNodeAffinity(node)",
        "pod.requests.fitsIn(node.free)",
        "node.labels.includes(pod.nodeSelector)",
        'selector("zone in (a, b), !rank").matches(node.labels)',
        'selector("zone notin (a), app").matches(pod.labels)',
        'pod.tolerates(taint("k", "v", "NoSchedule"))',
        "pod.hostPorts.exists(w, node.usedPorts.exists(u, u.conflicts(w)))",
        "params.flag",
        '"img:1" in node.images',
        'node.declaredFeatures.exists(f, f == "x")',
        'pod.schedulingGates.exists(g, g == "h")',
        'node.conditions.exists(c, c.type == "Ready" && c.status == "True")',
    ),
    "int": (
        "0",
        "1",
        "-1",
        "2",
        "7",
        "100",
        "9223372036854775807",
        "-9223372036854775808",
        "4611686018427387904",
        "node.podCount",
        "pod.priority",
        "cluster.nodeCount",
        "params.number",
        'int(node.labels["rank"])',
        'int(pod.labels["rank"])',
        'node.labels[?"rank"].optFlatMap(r, tryInt(r)).orValue(5)',
        'domain("zone").podCount',
        "pod.preferredNodeAffinity(node)",
        "pod.tolerations.size()",
        "podGroup.minCount",
        "podGroup.waiting",
        "node.taints.size()",
        "node.pods.size()",
        'node.images[?"img:1"].optMap(m, m.sizeBytes * m.numNodes).orValue(0)',
        "pod.images.sum(i, node.images[?i].optMap(m, m.sizeBytes / 3).orValue(0))",
        "pod.schedulingGates.size()",
        'domains("zone").size()',
    ),
    "double": (
        "0.0",
        "1.5",
        "-2.25",
        "1e300",
        "params.ratio",
        'double(node.labels["rank"])',
        "double(pod.priority)",
        'node.requested["cpu"] / node.allocatable["cpu"]',
    ),
    "string": (
        '""',
        '"a"',
        '"b"',
        '"7"',
        '"é😀"',
        "node.name",
        "pod.namespace",
        "pod.name",
        'node.labels["zone"]',
        'node.labels["rank"]',
        'pod.labels["a"]',
        'node.annotations["note"]',
        'pod.labels[?"a"].orValue("b")',
        'node.labels[?"zone"].orValue("a")',
        "params.word",
        "node.kubeletVersion",
        'namespaceObject.labels[?"tenant"].orValue("")',
        'namespaceObject.labels["tenant"]',
        "pod.qosClass",
        "pod.schedulerName",
        "podGroup.name",
    ),
    "cpu": (
        'quantity("500m")',
        'node.free["cpu"]',
        'node.allocatable["cpu"]',
        'pod.requests["cpu"]',
    ),
    "bytes": (
        'quantity("1Gi")',
        'node.free["memory"]',
        'node.requested["memory"]',
        'pod.requests["memory"]',
    ),
    "count": (
        'quantity("1")',
        'node.allocatable["example.com/gpu"]',
        'node.free["example.com/gpu"]',
        'pod.requests["example.com/gpu"]',
    ),
    "resources": (
        "pod.requests",
        "node.free",
        "pod.limits",
        "node.allocatable",
        "cluster.requested",
        'domain("zone").free',
    ),
    "duration": ('duration("90s")', 'duration("-1h")', "(now - node.creationTime)"),
    "timestamp": (
        "now",
        "node.creationTime",
        "pod.creationTime",
        'timestamp("2024-02-29T12:00:00Z")',
    ),
    "strings": (
        '["a", "b"]',
        "params.words",
        'pod.labels[?"a"].orValue("").split(",")',
        "pod.images",
    ),
    "ints": ("[1, 2, 3]", "params.numbers", "lists.range(3)"),
    "text?": (
        'node.labels[?"zone"]',
        'optional.of("a")',
        "pod.labels.?a",
        'optional.ofNonZeroValue("")',
    ),
    "int?": (
        "optional.of(3)",
        'node.labels[?"rank"].optFlatMap(r, tryInt(r))',
        "tryInt(pod.namespace)",
    ),
}

#: What a macro variable of a record gives.
FIELDS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "Taint": {
        "string": ("{v}.key", "{v}.value", "{v}.effect"),
        "bool": (
            "pod.tolerates({v})",
            '{v}.effect == "NoSchedule"',
            '{v}.effect in ["NoExecute", "NoSchedule"]',
        ),
    },
    "Toleration": {
        "string": ("{v}.key", "{v}.operator", "{v}.effect"),
        "int?": ("{v}.tolerationSeconds",),
    },
    "Container": {
        "string": ("{v}.name", "{v}.image", "{v}.kind", "{v}.seccompProfile.localhostProfile"),
        "cpu": ('{v}.requests["cpu"]',),
    },
    "Pod": {
        "string": ("{v}.namespace", "{v}.ownerUID", '{v}.labels[?"a"].orValue("")'),
        "int": ("{v}.priority",),
        "bool": ("{v}.namespace == pod.namespace", "{v}.terminating", '"a" in {v}.labels'),
        "cpu": ('{v}.requests["cpu"]',),
    },
    "HostPort": {"string": ("{v}.protocol", "{v}.ip"), "int": ("{v}.port",)},
    "Domain": {
        "string": ("{v}.value",),
        "int": ("{v}.podCount", "{v}.nodeCount", "{v}.pods.size()"),
        "cpu": ('{v}.requested["cpu"]', '{v}.free["cpu"]'),
    },
    "name": {
        "string": ("{v}",),
        "int": ("pod.requests[{v}].units()", "node.free[{v}].units()"),
        "bool": ("pod.requests[{v}] > node.free[{v}]", "{v} in node.allocatable"),
    },
    "int": {"int": ("{v}",)},
    "string": {"string": ("{v}",)},
    "bool": {"bool": ("{v}",)},
    "double": {"double": ("{v}",)},
    "ints": {"ints": ("{v}",), "int": ("{v}.size()", "{v}.sum()")},
    "strings": {"strings": ("{v}",), "int": ("{v}.size()",)},
}

#: Small choices inside a production.
WORDS: Final[dict[str, tuple[str, ...]]] = {
    "order": ("==", "<", "<=", ">", ">=", "!="),
    "less": ("<", "<=", ">", ">="),
    "same": ("==", "!="),
    "each": ("all", "exists", "exists_one"),
}
