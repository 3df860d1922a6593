"""A plain scalar port of ten default plugins: the oracle that the rules are compared with.

One function per decision, one node at a time, over decoded JSON. Every formula is
kube-scheduler 1.36's, with Go's integer division of non-negative numbers written `//`.
"""

from __future__ import annotations

import math

from .reference_objects import (
    ClusterState,
    Json,
    NodeState,
    host_ports,
    images,
    is_extended,
    is_scalar,
    non_zero_when_pending,
    requests,
)

UNSCHEDULABLE = "Unschedulable"
UNRESOLVABLE = "UnschedulableAndUnresolvable"
Rejection = tuple[str, list[str]]
_MIB = 1024 * 1024
_CPU_AND_MEMORY = [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]


# --- matching -------------------------------------------------------------------------------


def tolerates(tolerations: list[Json], taint: Json) -> bool:
    """Whether any of the tolerations covers the taint."""
    return any(_covers(toleration, taint) for toleration in tolerations)


def _covers(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    operator = toleration.get("operator") or "Equal"
    return operator == "Exists" or (
        operator == "Equal" and toleration.get("value", "") == taint.get("value", "")
    )


def _integer(text: str) -> int | None:
    digits = text[1:] if text[:1] in {"+", "-"} else text
    return int(text) if digits.isascii() and digits.isdigit() else None


def _requirement(requirement: Json, labels: dict[str, str]) -> bool:
    key, operator = requirement["key"], requirement["operator"]
    values = requirement.get("values") or []
    if operator in {"Gt", "Lt"}:
        have, want = _integer(labels.get(key, "")), _integer(values[0])
        if have is None or want is None:
            return False
        return have > want if operator == "Gt" else have < want
    return {
        "In": labels.get(key) in values,
        "NotIn": labels.get(key) not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }[operator]


def term_matches(term: Json, node: NodeState) -> bool:
    """Whether every requirement of a node selector term holds; an empty term matches nothing."""
    expressions = term.get("matchExpressions") or []
    fields = term.get("matchFields") or []
    named = {"metadata.name": node.name}
    return bool(expressions or fields) and all(
        [_requirement(r, node.labels) for r in expressions]
        + [_requirement(r, named) for r in fields]
    )


def required_matches(affinity: Json, node: NodeState) -> bool:
    """Whether any required term matches; no `required...` at all matches every node."""
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(term_matches(term, node) for term in required.get("nodeSelectorTerms") or [])


def preference(affinity: Json, node: NodeState) -> int:
    """Return the weights of the matching preferred terms, summed."""
    terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or []
    return sum(t["weight"] for t in terms if term_matches(t["preference"], node))


def required_names(affinity: Json) -> set[str] | None:
    """Return the node names to which every required term confines the pod, None if one does not."""
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or []
    names: set[str] = set()
    for term in terms:
        lists = [
            set(r["values"])
            for r in term.get("matchFields") or []
            if r["key"] == "metadata.name" and r["operator"] == "In"
        ]
        if not lists:
            return None
        names |= set.intersection(*lists)
    return names if terms else None


def pod_affinity(pod: Json) -> Json:
    """Return the pod's node affinity, empty if it has none."""
    return (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}


# --- filters --------------------------------------------------------------------------------


def scheduling_gates(pod: Json) -> Rejection | None:
    """Return the PreEnqueue rejection of a gated pod."""
    gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or []]
    return (UNRESOLVABLE, [f"waiting for scheduling gates: [{' '.join(gates)}]"]) if gates else None


def node_unschedulable(_args: Json, pod: Json, node: NodeState) -> Rejection | None:
    """Reject a cordoned node, unless the pod tolerates the taint that cordoning means."""
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    cordoned = node.manifest.get("spec", {}).get("unschedulable", False)
    if cordoned and not tolerates(pod["spec"].get("tolerations") or [], taint):
        return UNRESOLVABLE, ["node(s) were unschedulable"]
    return None


def node_name(_args: Json, pod: Json, node: NodeState) -> Rejection | None:
    """Reject every node but the one that the pod names."""
    if pod["spec"].get("nodeName", "") in {"", node.name}:
        return None
    return UNRESOLVABLE, ["node(s) didn't match the requested node name"]


def taint_toleration(_args: Json, pod: Json, node: NodeState) -> Rejection | None:
    """Reject a node with a hard taint that the pod does not tolerate."""
    hard = [t for t in node.taints if t.get("effect") in {"NoSchedule", "NoExecute"}]
    if all(tolerates(pod["spec"].get("tolerations") or [], taint) for taint in hard):
        return None
    return UNRESOLVABLE, ["node(s) had untolerated taint(s)"]


def node_affinity(args: Json, pod: Json, node: NodeState) -> Rejection | None:
    """Reject a node outside the added affinity, the node selector or the required terms."""
    if not required_matches(args.get("addedAffinity") or {}, node):
        return UNRESOLVABLE, ["node(s) didn't match scheduler-enforced node affinity"]
    selector = pod["spec"].get("nodeSelector") or {}
    selected = all(node.labels.get(key) == value for key, value in selector.items())
    if selected and required_matches(pod_affinity(pod), node):
        return None
    return UNRESOLVABLE, ["node(s) didn't match Pod's node affinity/selector"]


def node_ports(_args: Json, pod: Json, node: NodeState) -> Rejection | None:
    """Reject a node on which a wanted host port is taken, 0.0.0.0 taking it for every address."""
    for ip, protocol, port in host_ports(pod["spec"]):
        for used_ip, used_protocol, used_port in node.ports:
            same = (used_protocol, used_port) == (protocol, port)
            if same and (ip == used_ip or "0.0.0.0" in {ip, used_ip}):
                return UNSCHEDULABLE, ["node(s) didn't have free ports for the requested pod ports"]
    return None


def _ignored(args: Json, resource: str) -> bool:
    group = resource.split("/", maxsplit=1)[0]
    return is_extended(resource) and (
        resource in (args.get("ignoredResources") or [])
        or group in (args.get("ignoredResourceGroups") or [])
    )


def _reason_order(resource: str) -> tuple[int, str]:
    fixed = ["cpu", "memory", "ephemeral-storage"]
    return (fixed.index(resource), "") if resource in fixed else (len(fixed), resource)


def node_resources_fit(args: Json, pod: Json, node: NodeState) -> Rejection | None:
    """Reject a node that is full; a reason for each resource that is short."""
    reasons, code = [], UNSCHEDULABLE
    if node.pods + 1 > node.allocatable("pods"):
        reasons.append("Too many pods")
    wanted = requests(pod["spec"])
    for resource in sorted(wanted, key=_reason_order):
        want, offered = wanted[resource], node.allocatable(resource)
        if want <= 0 or _ignored(args, resource):
            continue
        if want > offered - node.requested.get(resource, 0):
            reasons.append(f"Insufficient {resource}")
            code = UNRESOLVABLE if want > offered else code
    return (code, reasons) if reasons else None


FILTERS = {
    "NodeUnschedulable": node_unschedulable,
    "NodeName": node_name,
    "TaintToleration": taint_toleration,
    "NodeAffinity": node_affinity,
    "NodePorts": node_ports,
    "NodeResourcesFit": node_resources_fit,
}


# --- scores ---------------------------------------------------------------------------------


def _scored(resources: list[Json], pod: Json, node: NodeState) -> list[tuple[int, int, int, int]]:
    """Return (weight, capacity, used before, used after) of the resources that count here."""
    requests_seen = non_zero_when_pending(pod["spec"])
    rows = []
    for resource in resources:
        name = resource["name"]
        capacity = node.allocatable(name)
        if capacity > 0 and not (is_scalar(name) and requests_seen.get(name, 0) == 0):
            used = node.non_zero if name in {"cpu", "memory"} else node.requested
            before = used.get(name, 0)
            rows.append((resource["weight"], capacity, before, before + requests_seen.get(name, 0)))
    return rows


def _weighted(scores: list[tuple[int, int]]) -> int:
    weights = sum(weight for weight, _ in scores)
    return sum(weight * score for weight, score in scores) // weights if weights else 0


def broken_line(shape: list[tuple[int, int]], x: int) -> int:
    """Return the shape's value at ``x``; the slope's product is divided toward zero, as in Go."""
    for index, (right, score) in enumerate(shape):
        if x <= right:
            if index == 0:
                return score
            left, previous = shape[index - 1]
            rise = (score - previous) * (x - left)
            step = abs(rise) // (right - left)
            return previous + (step if rise >= 0 else -step)
    return shape[-1][1]


def fit_score(args: Json, pod: Json, node: NodeState, _cluster: ClusterState) -> int:
    """Return NodeResourcesFit's score by its scoring strategy."""
    strategy = args.get("scoringStrategy") or {}
    kind = strategy.get("type") or "LeastAllocated"
    rows = _scored(strategy.get("resources") or _CPU_AND_MEMORY, pod, node)
    if kind == "LeastAllocated":
        return _weighted([(w, max(0, cap - used) * 100 // cap) for w, cap, _, used in rows])
    if kind == "MostAllocated":
        return _weighted([(w, min(used, cap) * 100 // cap) for w, cap, _, used in rows])
    points = strategy["requestedToCapacityRatio"]["shape"]
    shape = [(point["utilization"], point["score"] * 10) for point in points]
    scores = [(w, broken_line(shape, min(used, cap) * 100 // cap)) for w, cap, _, used in rows]
    scores = [(weight, score) for weight, score in scores if score > 0]
    weights = sum(weight for weight, _ in scores)
    total = sum(weight * score for weight, score in scores)
    return math.floor(total / weights + 0.5) if weights else 0


def _spread(fractions: list[float]) -> float:
    if len(fractions) < 2:
        return 0.0
    if len(fractions) == 2:
        return abs((fractions[0] - fractions[1]) / 2)
    mean = sum(fractions) / len(fractions)
    total = 0.0
    for fraction in fractions:
        total += (fraction - mean) * (fraction - mean)
    return math.sqrt(total / len(fractions))


def balanced_score(args: Json, pod: Json, node: NodeState, _cluster: ClusterState) -> int | None:
    """Return how much the balance of the node's use improves; None without requests."""
    requests_seen = requests(pod["spec"])
    resources = [r["name"] for r in args.get("resources") or _CPU_AND_MEMORY]
    if all(requests_seen.get(name, 0) == 0 for name in resources):
        return None
    before, after = [], []
    for name in resources:
        capacity = node.allocatable(name)
        if capacity > 0 and not (is_scalar(name) and requests_seen.get(name, 0) == 0):
            used = node.requested.get(name, 0)
            before.append(min(1.0, used / capacity))
            after.append(min(1.0, (used + requests_seen.get(name, 0)) / capacity))
    even_before = int((1 - _spread(before)) * 100.0)
    even_after = int((1 - _spread(after)) * 100.0)
    return 50 + math.trunc((50 + even_after - even_before) / 2)


def taint_score(_args: Json, pod: Json, node: NodeState, _cluster: ClusterState) -> int:
    """Return the number of soft taints that the pod does not tolerate."""
    soft = [t for t in node.taints if t.get("effect") == "PreferNoSchedule"]
    return sum(not tolerates(pod["spec"].get("tolerations") or [], taint) for taint in soft)


def affinity_score(args: Json, pod: Json, node: NodeState, _cluster: ClusterState) -> int | None:
    """Return the preference of the pod and of the added affinity; None if neither has any."""
    added = args.get("addedAffinity") or {}
    key = "preferredDuringSchedulingIgnoredDuringExecution"
    if not added.get(key) and not pod_affinity(pod).get(key):
        return None
    return preference(added, node) + preference(pod_affinity(pod), node)


def image_score(_args: Json, pod: Json, node: NodeState, cluster: ClusterState) -> int:
    """Return the share of the pod's images on the node; rare images count less."""
    here = {name for i in node.manifest.get("status", {}).get("images", []) for name in i["names"]}
    wanted = images(pod["spec"])
    total = sum(
        int(cluster.image_size[name] * (cluster.image_nodes[name] / len(cluster.nodes)))
        for name in wanted
        if name in here
    )
    containers = len(pod["spec"].get("initContainers", [])) + len(pod["spec"]["containers"])
    low, high = 23 * _MIB, 1000 * _MIB * containers
    return 100 * (min(max(total, low), high) - low) // (high - low)


SCORES = {
    "TaintToleration": (taint_score, "MaxReverse"),
    "NodeAffinity": (affinity_score, "Max"),
    "NodeResourcesFit": (fit_score, None),
    "NodeResourcesBalancedAllocation": (balanced_score, None),
    "ImageLocality": (image_score, None),
}


def normalize(kind: str | None, raw: dict[str, int]) -> dict[str, int]:
    """Scale raw scores to 0..100 by the largest one, reversed for MaxReverse."""
    if kind is None:
        return raw
    top = max(raw.values())
    scaled = {name: 100 * score // top if top else 0 for name, score in raw.items()}
    return {n: 100 - s for n, s in scaled.items()} if kind == "MaxReverse" else scaled
