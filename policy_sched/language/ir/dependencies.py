"""What a result depends on: the fields that an expression reads, and how new pods change it.

From the read set follow a pod's signature (equal fields, equal results), the events that may change
a result, and whether a changed row can be evaluated by itself.

Monotonicity is whether adding a pod to a node may turn a filter's result from false to true. A
new pod increases some columns (requested, pods, ports) and decreases one (free). The direction of
every operation follows: a sum increases with its parts, `a <= b` becomes false as a increases, a
conjunction follows its parts. If parts change in different directions, or the direction of an
operation is unknown, the result may change either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Final, cast

import msgspec

from policy_sched.cluster.tables import Scope
from policy_sched.language.ir import graph, ops
from policy_sched.language.ir.ops import LoopKind, Trend
from policy_sched.language.stdlib import has_key, policy_environment, tolerates, value_at
from policy_sched.language.values import types
from policy_sched.model import Taint, ports_conflict

_TOLERATIONS: Final = "tolerations"
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
_OF_FACTS: Final = {
    "non_zero_requested": "nonZeroRequested",
    "device_allocatable": "deviceAllocatable",
    "device_requested": "deviceRequested",
}
_DYNAMIC: Final = frozenset(
    {
        *("requested", "nonZeroRequested", "free", "podCount", "usedPorts", "pods"),
        *("deviceAllocatable", "deviceRequested", "devices", "allocation", "input"),
        "aggregatesOfNode",
    }
)
_PATHS_OF_CTX: Final = {"queued": "queue", "pod_group": "podGroup", "key": "key"}
_OF_INPUTS: Final = (ops.INPUT, ops.INPUT_ALL, ops.INPUT_ROOT)
_OF_DEMAND: Final = frozenset({"demand", "fair", "saturation"})
"""Fields of quotas that depend on pods that wait, and on all quotas."""
_OF_QUOTAS: Final = (ops.QUOTA, ops.VICTIM_QUOTA, ops.QUOTA_TOTAL)
"""Their data is the identity of the input, and after a # more."""
#: What of an attempt changes without any change of a node: the time, and how many wait.
_MOVING: Final = frozenset({"now", "pod_group"})


class Reads(msgspec.Struct, frozen=True):
    """What an expression reads.

    ``pod``: paths of PodInfo's attributes: ``("requests",)``, ``("labels", "app")`` for one key;
    the pod's namespace object is ``("namespaceObject", ...)``, its queue entry ``("queue", ...)``,
    its group ``("podGroup", ...)``, the key of an aggregate ``("key",)``. ``node``: names of the
    node's fields in the language, ``domain`` for the domains of a label, ``nodes`` for totals of
    the nodes alone, ``cluster`` for totals that also change with pods, ``deviceResources`` for what
    device classes serve.
    """

    pod: frozenset[tuple[str, ...]] = frozenset()
    node: frozenset[str] = frozenset()
    scope: Scope = Scope.STATIC
    clock: bool = False
    """Whether the time, or the attempt, is read."""
    columns_only: bool = True
    """Whether all that is read of nodes are columns of the node table."""
    preferred: bool = False
    """Whether the pod's preferred node affinity is weighed."""
    tolerations: bool = False
    """Whether the pod's tolerations are read for more than whether they tolerate a node's taints
    and ``taints``."""
    taints: frozenset[Taint] = frozenset()
    inputs: frozenset[str] = frozenset()
    """Inputs, by identity, of which more is read than the object of a node's name."""
    objects: frozenset[str] = frozenset()
    """Those of them whose objects are read, not only what an answer says beside its items."""

    def __or__(self, other: Reads) -> Reads:
        """Return the union of two read sets."""
        return Reads(
            self.pod | other.pod,
            self.node | other.node,
            max(self.scope, other.scope),
            self.clock or other.clock,
            self.columns_only and other.columns_only,
            self.preferred or other.preferred,
            self.tolerations or other.tolerations,
            self.taints | other.taints,
            self.inputs | other.inputs,
            self.objects | other.objects,
        )


def find_reads(roots: Iterable[graph.Op]) -> Reads:
    """Return the read set of the ops that ``roots`` need."""
    pod: set[tuple[str, ...]] = set()
    node: set[str] = set()
    scope, clock, columns_only, preferred = Scope.STATIC, False, True, False
    tolerations, taints = False, set()
    todo, seen = list(roots), set()
    of_node = _taints_of_node(todo)
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
        if _asks_tolerations(op):
            taint = op.args[1]
            pod.add((_TOLERATIONS,))
            if taint.kind is ops.CONST:
                taints.add(cast("Taint", taint.data))
            else:
                tolerations |= taint.serial not in of_node
            todo.append(taint)
            continue
        if op.kind is ops.FACTS_AT:
            node |= policy_environment().records["Node"].fields.keys()
            scope = max(scope, Scope.NODE)
        if op.kind is ops.FACTS_AT or (op.kind is ops.RUNTIME_OF and op.data == "image_nodes"):
            node.add("nodes")  # how many of them have an image
        if op.kind is ops.FITS:
            node.add("deviceResources")
        todo.extend(a.args[0] if _is_part_of_node(op, a) else a for a in op.args)
        columns_only = columns_only and (op.kind.columns or not op.kind.by_row)
        preferred = preferred or (op.kind is ops.PREFERENCE and op.args[0].kind is ops.FIELD_OF_POD)
        path = _read_of_pod(op)
        if path:
            pod.add(path)
            tolerations |= path == (_TOLERATIONS,)
        name = _read_of_node(op)
        if name:
            node.add(name)
            scope = max(scope, _scope_of(name))
        if _is_of_pods_on_nodes(op):
            scope = Scope.VOLATILE  # that one changed is not noted
        if op.kind is ops.CTX or (op.kind is ops.OF_CTX and op.data in _MOVING):
            scope = Scope.VOLATILE
            clock = clock or op.data != "pod_group"
    return Reads(
        frozenset(pod),
        frozenset(node),
        scope,
        clock,
        columns_only,
        preferred,
        tolerations,
        frozenset(taints),
        *map(frozenset, (_inputs_of(seen), _inputs_of(seen, roots=False))),
    )


def _is_of_pods_on_nodes(op: graph.Op) -> bool:
    """Return whether ``op`` reads what may change of a pod on a node without an event."""
    if op.kind is ops.OBJECT_OF:
        return op.args[0].kind not in (ops.POD, ops.NODE_AT)
    return op.kind is ops.ATTR and op.data == "conditions"


def _inputs_of(read: Iterable[graph.Op], *, roots: bool = True) -> Iterator[str]:
    """Yield the identities of the inputs that ops read; ``roots``: also those of roots alone."""
    for op in read:
        if op.kind in _OF_INPUTS and (roots or op.kind is not ops.INPUT_ROOT):
            yield str(op.data)
        elif op.kind in _OF_QUOTAS:
            yield from types.inputs_of_quotas(str(op.data))


def _asks_tolerations(op: graph.Op) -> bool:
    """Return whether ``op`` asks whether the pod's tolerations tolerate a taint."""
    call = op.data
    if not isinstance(call, graph.Call) or call.function is not tolerates or call.guards:
        return False
    return op.args[0].kind is ops.FIELD_OF_POD and op.args[0].data == _TOLERATIONS


def _taints_of_node(roots: Iterable[graph.Op]) -> set[int]:
    """Return the numbers of loop variables that are taints of a node."""
    loops = (op for op in graph.reached(roots) if isinstance(op.data, graph.Loop))
    return {cast("graph.Loop", op.data).param for op in loops if op.args[0].kind is ops.TAINTS}


def _is_part_of_node(op: graph.Op, arg: graph.Op) -> bool:
    """Return whether ``op`` takes one field of a node as a record by itself."""
    return op.kind is ops.ATTR and arg.kind is ops.FACTS_AT


def field_of_column(key: tuple[str, ...]) -> str:
    """Return the node's field that a column of the node table holds."""
    family = key[0] if key[0] != "field" else key[1]
    return _FAMILIES.get(family, family)


def _keyed_read(op: graph.Op) -> tuple[str, ...] | None:
    """Return the path of one key of a map of the pod's, if ``op`` reads one."""
    if not isinstance(op.data, graph.Call) or op.data.function not in (has_key, value_at):
        return None
    whole, key = op.args[0], op.args[1]
    if op.data.guards or key.kind is not ops.CONST or not isinstance(key.data, str):
        return None
    if whole.kind is ops.FIELD_OF_POD and whole.data in _POD_MAPS:
        return (str(whole.data), key.data)
    return None


def _read_of_pod(op: graph.Op) -> tuple[str, ...] | None:
    if op.kind is ops.FIELD_OF_POD:
        return (str(op.data),)
    if op.kind is ops.OBJECT_OF and op.args[0].kind is ops.POD:
        return ("object",)
    if op.kind is ops.RUNTIME_OF and op.data == "namespace":
        return ("namespaceObject",)
    if op.kind is ops.OF_CTX:
        name = _PATHS_OF_CTX.get(str(op.data))
        return None if name is None else (name,)
    return None


def _read_of_node(op: graph.Op) -> str | None:
    if op.kind.columns:
        return field_of_column(op.data if isinstance(op.data, tuple) else (str(op.data),))
    if op.kind is ops.RUNTIME_OF:
        return "images" if op.data == "image_nodes" else None
    if op.kind is ops.OBJECT_OF:
        return "object" if op.args[0].kind is ops.NODE_AT else None
    return _attribute_read(op) if op.kind is ops.ATTR else op.kind.node_field or None


def _attribute_read(op: graph.Op) -> str | None:
    """Return the field of a node, or of all nodes, that an attribute of an object is."""
    name = str(op.data)
    if name in _OF_DEMAND:
        return "demand"
    match op.args[0].kind:
        case ops.NODE_AT:
            path = name.rsplit(".", 1)[-1]
            return "declaredFeatures" if path == "declared_features" else path
        case ops.CLUSTER if name == "device_resources":
            return "deviceResources"
        case ops.CLUSTER:
            return "nodes" if name in _STATIC_TOTALS else "cluster"
        case ops.FACTS_AT:
            return _OF_FACTS.get(name, name)
        case ops.DOMAIN_AT | ops.PARAM if name == "nodes":
            return "domainNodes"
    return None


def _scope_of(name: str) -> Scope:
    if name in (
        "domain",
        "domainNodes",
        "cluster",
        "aggregates",
        "quota",
        "quotas",
        "victimQuota",
        "demand",
    ):
        return Scope.CLUSTER
    return Scope.NODE if name in _DYNAMIC else Scope.STATIC


class Monotonicity(Enum):
    """How a value changes as pods are added to the node; a bool increases by becoming true."""

    CONSTANT = 0
    INCREASING = 1
    DECREASING = -1
    UNKNOWN = 2


_GROWING: Final = frozenset({"requested", "nonZeroRequested", "podCount", "usedPorts"})
_SHRINKING: Final = frozenset({"free"})


def may_become_true(value: graph.Op, error: graph.Op | None) -> bool:
    """Return whether a rule's value may become true, or its error vanish, as pods are added."""
    directions = _MonotonicityAnalysis()
    if error is not None and directions.of(error) is not Monotonicity.CONSTANT:
        return True
    return directions.of(value) in (Monotonicity.INCREASING, Monotonicity.UNKNOWN)


def _opposite(direction: Monotonicity) -> Monotonicity:
    return {
        Monotonicity.INCREASING: Monotonicity.DECREASING,
        Monotonicity.DECREASING: Monotonicity.INCREASING,
    }.get(direction, direction)


def _joint(directions: Iterable[Monotonicity]) -> Monotonicity:
    varying = {direction for direction in directions if direction is not Monotonicity.CONSTANT}
    if not varying:
        return Monotonicity.CONSTANT
    return varying.pop() if len(varying) == 1 else Monotonicity.UNKNOWN


def _of_family(family: object) -> Monotonicity:
    if family in _GROWING:
        return Monotonicity.INCREASING
    return Monotonicity.DECREASING if family in _SHRINKING else Monotonicity.CONSTANT


class _MonotonicityAnalysis:
    """The direction of each op, computed once."""

    def __init__(self) -> None:
        self._kept: dict[graph.Op, Monotonicity] = {}

    def of(self, op: graph.Op) -> Monotonicity:
        """Return the direction of an op."""
        direction = self._kept.get(op)
        if direction is None:
            direction = self._kept[op] = self._find(op)
        return direction

    def _find(self, op: graph.Op) -> Monotonicity:
        if op.kind is ops.FACTS_AT:
            return Monotonicity.UNKNOWN
        if op.kind.trend is Trend.GROWS:
            return Monotonicity.INCREASING
        directions = [self.of(arg) for arg in op.args]
        if op.kind.trend is Trend.COLUMN:
            direction = _of_family(op.data[0] if isinstance(op.data, tuple) else op.data)
            return (
                direction if _joint(directions) is Monotonicity.CONSTANT else Monotonicity.UNKNOWN
            )
        if all(direction is Monotonicity.CONSTANT for direction in directions):
            return Monotonicity.CONSTANT
        if isinstance(op.data, graph.Call) and op.data.function is ports_conflict:
            return _joint(directions)
        if isinstance(op.data, graph.Loop):
            return _of_loop(op.data, directions)
        return _of_trend(op, directions)


def _of_loop(loop: graph.Loop, directions: Sequence[Monotonicity]) -> Monotonicity:
    """Return the direction of a loop over a list that grows with pods, or whose tests change."""
    source, *rest = directions
    if loop.kind in (LoopKind.EXISTS, LoopKind.COUNT):
        return _joint([source, *rest])
    return _joint([_opposite(source), *rest]) if loop.kind is LoopKind.ALL else Monotonicity.UNKNOWN


def _of_trend(op: graph.Op, directions: Sequence[Monotonicity]) -> Monotonicity:
    """Return the direction of an operation some of whose arguments change."""
    match op.kind.trend:
        case Trend.SAME:
            return _joint(directions)
        case Trend.OPPOSITE:
            return _opposite(directions[0])
        case Trend.DIFFERENCE:
            return _joint([directions[0], _opposite(directions[1])])
        case Trend.LESS:
            return _joint([_opposite(directions[0]), directions[1]])
        case Trend.SCALED:
            return _scaled(op, directions)
        case Trend.SHARE if directions[1] is Monotonicity.CONSTANT:
            return directions[0]
        case Trend.CHOICE if directions[0] is Monotonicity.CONSTANT:
            return _joint(directions[1:])
    return Monotonicity.UNKNOWN


def _scaled(op: graph.Op, directions: Sequence[Monotonicity]) -> Monotonicity:
    """Return the direction of a product with a constant, or of a quotient by one."""
    product = op.kind in (ops.MUL, ops.MUL_CHECKED, ops.FMUL)
    for by, direction in (
        (op.args[1], directions[0]),
        *([(op.args[0], directions[1])] if product else []),
    ):
        if by.kind is ops.CONST and isinstance(by.data, int | float) and by.data >= 0:
            return direction
    return Monotonicity.UNKNOWN
