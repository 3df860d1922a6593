"""What an expression reads: the pod's fields, the node's, and how often its value can change.

From this follow a pod's signature (equal fields, equal verdicts), the events that may change a
verdict, and whether a changed row can be judged again by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from policy_sched.language.ir.graph import Call, Op
from policy_sched.language.stdlib import has_key, policy_environment, value_at

_POD_MAPS: Final = frozenset({"labels", "annotations", "node_selector"})
_FAMILIES: Final = {
    "label": "labels",
    "annotation": "annotations",
    "imageSize": "images",
    "imagePresent": "images",
    "allocatable?": "allocatable",
}
#: Totals that change only with node events: then everything is re-evaluated.
_STATIC_TOTALS: Final = frozenset({"node_count", "allocatable"})
_DYNAMIC: Final = frozenset(
    {"requested", "nonZeroRequested", "free", "podCount", "usedPorts", "pods"}
)
#: Kinds of ops that take more of a node than a column: its object, or its number.
_BESIDE_COLUMNS: Final = frozenset({"row", "affinity", "preference"})
#: What of an attempt changes without any change of a node: the time, and how many wait.
_MOVING: Final = frozenset({"now", "pod_group"})


class Dependency(IntEnum):
    """What a node's verdict depends on besides the pod, from narrow to wide."""

    STATIC = 0
    """The node object."""
    NODE = 1
    """The node object and the pods on the node."""
    CLUSTER = 2
    """Other nodes as well: a changed row may change the verdict of every row."""
    VOLATILE = 3
    """The time, the attempt or the pod's group: nothing can be kept."""


@dataclass(frozen=True, slots=True)
class Reads:
    """What is read.

    ``pod``: paths of PodInfo's attributes: ``("requests",)``, ``("labels", "app")`` for one key;
    the pod's namespace object is ``("namespaceObject", ...)``, its queue entry ``("queue", ...)``,
    its group ``("podGroup", ...)``. ``node``: names of the node's fields as the language has them,
    ``domain`` for the domains of a label, ``nodes`` for totals of the nodes alone, ``cluster`` for
    totals that also move with pods.
    """

    pod: frozenset[tuple[str, ...]] = frozenset()
    node: frozenset[str] = frozenset()
    scope: Dependency = Dependency.STATIC
    clock: bool = False
    """Whether the time, or the attempt, is read."""
    columns_only: bool = True
    """Whether all that is read of nodes are columns of the node table."""
    preferred: bool = False
    """Whether the pod's preferred node affinity is weighed."""

    def __or__(self, other: Reads) -> Reads:
        """Return what either reads."""
        return Reads(
            self.pod | other.pod,
            self.node | other.node,
            max(self.scope, other.scope),
            self.clock or other.clock,
            self.columns_only and other.columns_only,
            self.preferred or other.preferred,
        )


def find_reads(roots: Iterable[Op]) -> Reads:
    """Return what the ops that ``roots`` need read."""
    pod: set[tuple[str, ...]] = set()
    node: set[str] = set()
    scope, clock, columns_only, preferred = Dependency.STATIC, False, True, False
    todo, seen = list(roots), set()
    while todo:
        op = todo.pop()
        if op in seen:
            continue
        seen.add(op)
        keyed = _keyed_read(op)
        if keyed is not None:
            pod.add(keyed)
            todo.extend(op.args[1:])
            continue
        if op.kind == "facts_at":
            node |= policy_environment().records["Node"].fields.keys()
            scope = max(scope, Dependency.NODE)
        if op.kind == "facts_at" or (op.kind == "runtime_of" and op.data == "image_nodes"):
            node.add("nodes")  # how many of them have an image
        todo.extend(a.args[0] if _is_part_of_node(op, a) else a for a in op.args)
        columns_only = columns_only and op.kind not in _BESIDE_COLUMNS
        preferred = preferred or (op.kind == "preference" and op.args[0].kind == "field_of_pod")
        found = _read_of_pod(op)
        if found:
            pod.add(found)
        name = _read_of_node(op)
        if name:
            node.add(name)
            scope = max(scope, _scope_of(op, name))
        if op.kind == "ctx" or (op.kind == "of_ctx" and op.data in _MOVING):
            scope = Dependency.VOLATILE
            clock = clock or op.data != "pod_group"
    return Reads(frozenset(pod), frozenset(node), scope, clock, columns_only, preferred)


def _is_part_of_node(op: Op, arg: Op) -> bool:
    """Tell whether ``op`` takes one field of a node as a record by itself."""
    return op.kind == "attr" and arg.kind == "facts_at"


def field_of_column(key: tuple[str, ...]) -> str:
    """Return the node's field that a column of the node table holds."""
    family = key[0] if key[0] != "field" else key[1]
    return _FAMILIES.get(family, family)


def _keyed_read(op: Op) -> tuple[str, ...] | None:
    """Return the path of one key of a map of the pod's, if that is what ``op`` reads."""
    if not isinstance(op.data, Call) or op.data.function not in (has_key, value_at):
        return None
    whole, key = op.args[0], op.args[1]
    if op.data.guards or key.kind != "const" or not isinstance(key.data, str):
        return None
    if whole.kind == "field_of_pod" and whole.data in _POD_MAPS:
        return (str(whole.data), key.data)
    return None


def _read_of_pod(op: Op) -> tuple[str, ...] | None:
    if op.kind == "field_of_pod":
        return (str(op.data),)
    if op.kind == "runtime_of" and op.data == "namespace":
        return ("namespaceObject",)
    if op.kind == "of_ctx" and op.data in ("queued", "pod_group"):
        return ("queue",) if op.data == "queued" else ("podGroup",)
    return None


def _read_of_node(op: Op) -> str | None:
    match op.kind:
        case "column":
            assert isinstance(op.data, tuple)
            return field_of_column(op.data)
        case "column_of" | "fits":
            return _FAMILIES.get(str(op.data), str(op.data))
        case "affinity" | "preference":
            return "labels"
        case "pods_at":
            return "pods"
        case "attr" if op.args[0].kind == "node_at":
            path = str(op.data).rsplit(".", 1)[-1]
            return "declaredFeatures" if path == "declared_features" else path
        case "domain_index":
            return "domain"
        case "tally_all":
            return "cluster"
        case "attr" if op.args[0].kind == "cluster":
            return "nodes" if op.data in _STATIC_TOTALS else "cluster"
        case "attr" if op.args[0].kind == "facts_at":
            return "nonZeroRequested" if op.data == "non_zero_requested" else str(op.data)
        case "runtime_of" if op.data == "image_nodes":
            return "images"
    return None


def _scope_of(op: Op, name: str) -> Dependency:
    if op.kind == "domain_index" or name == "cluster":
        return Dependency.CLUSTER
    return Dependency.NODE if name in _DYNAMIC else Dependency.STATIC
