"""The read set of an expression: fields of the pod and the node, and how often its value changes.

A pod's signature follows from it (equal fields, equal results), and so do the events that may
change a result and whether a changed row can be evaluated by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from policy_sched.language.ir import ops
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
#: What of an attempt changes without any change of a node: the time, and how many wait.
_MOVING: Final = frozenset({"now", "pod_group"})


class Dependency(IntEnum):
    """What a node's result depends on besides the pod, from narrow to wide."""

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
    """What an expression reads.

    ``pod``: paths of PodInfo's attributes: ``("requests",)``, ``("labels", "app")`` for one key;
    the pod's namespace object is ``("namespaceObject", ...)``, its queue entry ``("queue", ...)``,
    its group ``("podGroup", ...)``. ``node``: names of the node's fields in the language,
    ``domain`` for the domains of a label, ``nodes`` for totals of the nodes alone, ``cluster`` for
    totals that also change with pods.
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
        """Return the union of two read sets."""
        return Reads(
            self.pod | other.pod,
            self.node | other.node,
            max(self.scope, other.scope),
            self.clock or other.clock,
            self.columns_only and other.columns_only,
            self.preferred or other.preferred,
        )


def find_reads(roots: Iterable[Op]) -> Reads:
    """Return the read set of the ops that ``roots`` need."""
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
        if op.kind is ops.FACTS_AT:
            node |= policy_environment().records["Node"].fields.keys()
            scope = max(scope, Dependency.NODE)
        if op.kind is ops.FACTS_AT or (op.kind is ops.RUNTIME_OF and op.data == "image_nodes"):
            node.add("nodes")  # how many of them have an image
        todo.extend(a.args[0] if _is_part_of_node(op, a) else a for a in op.args)
        columns_only = columns_only and (op.kind.columns or not op.kind.by_row)
        preferred = preferred or (op.kind is ops.PREFERENCE and op.args[0].kind is ops.FIELD_OF_POD)
        found = _read_of_pod(op)
        if found:
            pod.add(found)
        name = _read_of_node(op)
        if name:
            node.add(name)
            scope = max(scope, _scope_of(name))
        if op.kind is ops.CTX or (op.kind is ops.OF_CTX and op.data in _MOVING):
            scope = Dependency.VOLATILE
            clock = clock or op.data != "pod_group"
    return Reads(frozenset(pod), frozenset(node), scope, clock, columns_only, preferred)


def _is_part_of_node(op: Op, arg: Op) -> bool:
    """Tell whether ``op`` takes one field of a node as a record by itself."""
    return op.kind is ops.ATTR and arg.kind is ops.FACTS_AT


def field_of_column(key: tuple[str, ...]) -> str:
    """Return the node's field that a column of the node table holds."""
    family = key[0] if key[0] != "field" else key[1]
    return _FAMILIES.get(family, family)


def _keyed_read(op: Op) -> tuple[str, ...] | None:
    """Return the path of one key of a map of the pod's, if ``op`` reads one."""
    if not isinstance(op.data, Call) or op.data.function not in (has_key, value_at):
        return None
    whole, key = op.args[0], op.args[1]
    if op.data.guards or key.kind is not ops.CONST or not isinstance(key.data, str):
        return None
    if whole.kind is ops.FIELD_OF_POD and whole.data in _POD_MAPS:
        return (str(whole.data), key.data)
    return None


def _read_of_pod(op: Op) -> tuple[str, ...] | None:
    if op.kind is ops.FIELD_OF_POD:
        return (str(op.data),)
    if op.kind is ops.RUNTIME_OF and op.data == "namespace":
        return ("namespaceObject",)
    if op.kind is ops.OF_CTX and op.data in ("queued", "pod_group"):
        return ("queue",) if op.data == "queued" else ("podGroup",)
    return None


def _read_of_node(op: Op) -> str | None:
    if op.kind.columns:
        return field_of_column(op.data if isinstance(op.data, tuple) else (str(op.data),))
    if op.kind is ops.RUNTIME_OF:
        return "images" if op.data == "image_nodes" else None
    return _attribute_read(op) if op.kind is ops.ATTR else op.kind.node_field or None


def _attribute_read(op: Op) -> str | None:
    """Return the field of a node, or of all nodes, that an attribute of an object is."""
    name = str(op.data)
    match op.args[0].kind:
        case ops.NODE_AT:
            path = name.rsplit(".", 1)[-1]
            return "declaredFeatures" if path == "declared_features" else path
        case ops.CLUSTER:
            return "nodes" if name in _STATIC_TOTALS else "cluster"
        case ops.FACTS_AT:
            return "nonZeroRequested" if name == "non_zero_requested" else name
    return None


def _scope_of(name: str) -> Dependency:
    if name in ("domain", "cluster"):
        return Dependency.CLUSTER
    return Dependency.NODE if name in _DYNAMIC else Dependency.STATIC
