"""Declares every column of the node table and of the pod table once: type, unit, range, sentence.

The language takes names, ranges and levels from here, the tables their dtypes, the manual its
sentences. A column's key is a tuple: the family's name, then its argument if the family has one:
``("podCount",)``, ``("label", "topology.kubernetes.io/zone")``, ``("allocatable", "cpu")``.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final, TypeAlias

import msgspec
import numpy as np

from policy_sched.model import MAX_UNITS

Key: TypeAlias = tuple[str, ...]
"""What names a column: family, then argument."""

MAX_SUM: Final = 2**62 - 1
"""No sum of amounts of pods or nodes is larger (scheduler units)."""

MAX_IMAGE: Final = 2**53
"""No image in a column is larger (bytes)."""

MAX_CODE: Final = 2**31 - 1
MAX_TIME: Final = 2**63 - 1


class Kind(Enum):
    """What makes a column change: the API object itself, or the pods that come and go."""

    STATIC = "static"
    DYNAMIC = "dynamic"


class Scope(IntEnum):
    """What a result about a node follows from besides the pod: how far a change can reach."""

    STATIC = 0
    """Only a node's own static fields, and counts over nodes that change with them."""
    NODE = 1
    """Also what runs on that node: a bound pod can change this node's result, no other's."""
    CLUSTER = 2
    """Also what runs elsewhere: any change can change any node's result."""
    VOLATILE = 3
    """Also the time, or anything else that moves by itself: nothing can be kept."""


class Family(msgspec.Struct, frozen=True):
    """Columns that differ only in their argument.

    ``argument`` says what the second part of the key is ("" if the key has one part). ``unit`` is
    what one step of the number means; ``minimum`` and ``maximum`` are its declared range, both
    included. A row without a node (or pod) holds zero.
    """

    name: str
    argument: str
    dtype: type[np.bool_ | np.int32 | np.int64 | np.intp]
    kind: Kind
    unit: str
    minimum: int
    maximum: int
    sentence: str


CODE_UNIT: Final = "code in the table's strings; 0 = missing"
AMOUNT_UNIT: Final = "scheduler unit of the resource: milli for cpu, else one"
NANOSECONDS: Final = "ns since 1970"


def _code(name: str, sentence: str, argument: str = "") -> Family:
    return Family(name, argument, np.int32, Kind.STATIC, CODE_UNIT, 0, MAX_CODE, sentence)


def _flag(name: str, sentence: str, argument: str = "") -> Family:
    return Family(name, argument, np.bool_, Kind.STATIC, "bool", 0, 1, sentence)


def _amount(name: str, sentence: str) -> Family:
    return Family(name, "resource", np.int64, Kind.STATIC, AMOUNT_UNIT, 0, MAX_UNITS, sentence)


def _sum(name: str, minimum: int, maximum: int, sentence: str) -> Family:
    return Family(name, "resource", np.int64, Kind.DYNAMIC, AMOUNT_UNIT, minimum, maximum, sentence)


def _time(name: str, sentence: str) -> Family:
    return Family(name, "", np.int64, Kind.STATIC, NANOSECONDS, 0, MAX_TIME, sentence)


def _by_name(*families: Family) -> dict[str, Family]:
    return {family.name: family for family in families}


NODE_FIELDS: Final = (
    "providerID",
    "architecture",
    "operatingSystem",
    "osImage",
    "kernelVersion",
    "kubeletVersion",
    "runtimeVersion",
)
"""Arguments of the node family ``field``."""

NODE_COLUMNS: Final = _by_name(
    _flag("live", "Whether the row has a node."),
    _code("name", "The node's name."),
    _code("label", "The value of a label.", "label key"),
    _code("annotation", "The value of an annotation.", "annotation key"),
    _code("field", "A text that the kubelet or the cloud reports.", "field"),
    _flag("unschedulable", "Whether the node is cordoned."),
    _flag("ready", "Whether the condition Ready is True."),
    _time("creationTime", "When the node object was created; 0 if not stated."),
    Family(
        "taints", "", np.intp, Kind.STATIC, "set id in the table's taint_sets", 0, MAX_CODE,
        "The node's taints, in the order of its spec.",
    ),
    _amount("allocatable", "What pods may request of a resource; 0 if not stated."),
    _amount("capacity", "What the machine has of a resource; 0 if not stated."),
    _flag("allocatable?", "Whether the node's allocatable names the resource.", "resource"),
    _amount(
        "deviceAllocatable", "Devices of the node that serve an extended resource; 0 if none do."
    ),
    _amount("deviceRequested", "How many of them are in use."),
    _sum("requested", 0, MAX_SUM, "Sum of the requests of the node's pods."),
    _sum(
        "nonZeroRequested", 0, MAX_SUM,
        "The same sum with a default for each container that requests no cpu or memory.",
    ),
    _sum(
        "free", -MAX_SUM, MAX_UNITS,
        "allocatable - requested; below zero when pods were bound past the limit.",
    ),
    Family(
        "podCount", "", np.int64, Kind.DYNAMIC, "pods", 0, MAX_CODE,
        "How many pods are on the node, assumed ones included.",
    ),
    Family(
        "usedPorts", "", np.intp, Kind.DYNAMIC, "set id in the table's port_sets", 0, MAX_CODE,
        "The host ports that the node's pods hold.",
    ),
    Family(
        "input", "identity of an input", np.intp, Kind.DYNAMIC, "number of an object; 0 = none", 0,
        MAX_CODE, "The object of an input that has the node's name as its key.",
    ),
    Family(
        "imageSize", "image name", np.int64, Kind.STATIC, "bytes", 0, MAX_IMAGE,
        "The size of an image if the node has it, as the first node to report it states; else 0.",
    ),
    _flag("imagePresent", "Whether the node has an image.", "image name"),
)  # fmt: skip

POD_TEXTS: Final = {
    "name": "The pod's name.",
    "namespace": "The pod's namespace.",
    "uid": "The pod's uid.",
    "nodeName": "The node that the pod is bound to or assumed on.",
    "nominatedNodeName": "The node that preemption made room on.",
    "schedulerName": "The profile that schedules the pod.",
    "priorityClassName": "The pod's priority class.",
    "preemptionPolicy": "PreemptLowerPriority or Never.",
    "qosClass": "Guaranteed, Burstable or BestEffort.",
    "serviceAccountName": "The service account that the pod runs as.",
    "runtimeClassName": "The container runtime that the pod asks for.",
    "ownerKind": "The kind of the controlling owner.",
    "ownerName": "The name of the controlling owner.",
    "ownerUID": "The uid of the controlling owner.",
    "podGroup": "The pod group that the pod belongs to.",
}
"""String fields of a pod; an absent one is the empty string, as in Go, and never missing."""

POD_COLUMNS: Final = _by_name(
    Family(
        "node", "", np.intp, Kind.DYNAMIC, "row of the node table; -1 = none", -1, MAX_CODE,
        "The node's row; -1 for a free row and while the node itself is not known.",
    ),
    *(_code(name, sentence) for name, sentence in POD_TEXTS.items()),
    _code("label", "The value of a label.", "label key"),
    _code("annotation", "The value of an annotation.", "annotation key"),
    Family(
        "priority", "", np.int64, Kind.STATIC, "priority", -(2**31), 2**31 - 1,
        "The pod's priority; higher is more important.",
    ),
    _time("creationTime", "When the pod object was created; 0 if not stated."),
    _time("startTime", "When the kubelet acknowledged the pod; 0 if it has not."),
    _flag("terminating", "Whether the pod is being deleted."),
    _flag("hostNetwork", "Whether the pod uses the host's network."),
    _flag("hostPorts", "Whether the pod holds host ports."),
    _amount("request", "What the pod requests of a resource."),
    _amount(
        "nonZeroRequest",
        "The same with a default for each container that requests no cpu or memory.",
    ),
    _amount(
        "nonZeroAdded",
        "What the pod adds to its node's nonZeroRequested.",
    ),
    _amount("limit", "The pod's limit of a resource; 0 if it has none."),
)  # fmt: skip


def family_of(key: Key, families: dict[str, Family]) -> Family:
    """Return the declaration of a column, or raise KeyError for a key that no family allows."""
    family = families.get(key[0]) if key else None
    if family is None or len(key) != (2 if family.argument else 1):
        raise KeyError(f"no such column: {key!r}")
    if family.argument == "field" and key[1] not in NODE_FIELDS:
        raise KeyError(f"no such node field: {key[1]!r} (known: {', '.join(NODE_FIELDS)})")
    return family
