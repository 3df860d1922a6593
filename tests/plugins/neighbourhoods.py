"""Small clusters and pods with affinity and spread constraints, for tests that draw from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from policy_sched.client.memory import MemoryClient
from policy_sched.cluster.cache import Cache
from policy_sched.cluster.listers import ApiObjects
from policy_sched.framework.handle import Handle
from policy_sched.framework.waiting_pods import WaitingPods
from policy_sched.model.cluster_objects import Namespace, Node
from policy_sched.model.meta import ObjectMeta
from policy_sched.model.pod_info import PodInfo
from policy_sched.queue.nominator import Nominator
from policy_sched.testing import make_node, make_pod
from tests import finite

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

KEYS = finite.of("app", "tier")
LABELS = finite.fields({}, dict.fromkeys(["app", "tier"], finite.of("a", "b")))
NOT_EMPTY = finite.either(
    finite.fields({"key": KEYS, "value": finite.of("a", "b")}).map(
        lambda found: {"matchLabels": {found["key"]: found["value"]}}
    ),
    finite.fields({"key": KEYS, "operator": finite.of("Exists", "DoesNotExist")}).map(
        lambda found: {"matchExpressions": [found]}
    ),
)
TERMS = finite.fields(
    {
        "labelSelector": finite.either(finite.of({}), NOT_EMPTY),
        "topologyKey": finite.of(HOSTNAME, ZONE),
    },
    {
        "namespaces": finite.of(["default"], ["other", "default"]),
        "namespaceSelector": finite.of({}, {"matchLabels": {"team": "x"}}),
    },
)
WEIGHTED = finite.fields({"weight": finite.of(*range(1, 10)), "podAffinityTerm": TERMS})
PAIRS = st.fixed_dictionaries(
    {},
    optional={
        REQUIRED: finite.lists(TERMS, 2, least=1).strategy(),
        PREFERRED: st.lists(WEIGHTED.strategy(), min_size=1, max_size=2),
    },
)
AFFINITIES = st.fixed_dictionaries({}, optional={"podAffinity": PAIRS, "podAntiAffinity": PAIRS})
CONSTRAINTS = st.lists(
    finite.fields(
        {
            "maxSkew": finite.of(1, 2),
            "topologyKey": finite.of(HOSTNAME, ZONE),
            "whenUnsatisfiable": finite.of("DoNotSchedule", "ScheduleAnyway"),
            # kube-scheduler counts an empty selector's pods in a dry run only.
            "labelSelector": NOT_EMPTY,
        },
        {
            "minDomains": finite.of(1, 2, 3, 4),
            "nodeTaintsPolicy": finite.of("Honor", "Ignore"),
            "nodeAffinityPolicy": finite.of("Honor", "Ignore"),
            "matchLabelKeys": finite.of(["tier"]),
        },
    ).strategy(),
    max_size=3,
)
NODES = finite.fields({
    "zone": finite.of({}, {ZONE: ""}, {ZONE: "z1"}, {ZONE: "z2"}),
    "taints": finite.of((), ("a=b:NoSchedule",), ("a:PreferNoSchedule",)),
}).strategy()  # fmt: skip
PODS = finite.fields({
    "affinity": finite.of(False, True),
    "namespace": finite.of("default", "other"),
    "labels": LABELS,
    "node_selector": finite.of({}, {}, {ZONE: "z1"}),
}).strategy()  # fmt: skip


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    """Draw a node that has a zone, perhaps the empty one, or none."""
    facts = draw(NODES)
    return make_node(name, labels={HOSTNAME: name, **facts["zone"]}, taints=facts["taints"])


@st.composite
def pods(draw: st.DrawFn, name: str, node_name: str = "") -> PodInfo:
    """Draw a pod with affinity, with anti-affinity, with a spread constraint, or with none."""
    facts = draw(PODS)
    facts["affinity"] = draw(AFFINITIES) if facts["affinity"] else None
    constraints = draw(CONSTRAINTS)
    return PodInfo.of(
        make_pod(name, node_name=node_name, topology_spread_constraints=constraints, **facts)
    )


def namespace(name: str, **labels: str) -> Namespace:
    """Return a namespace with labels."""
    return Namespace(kind="Namespace", metadata=ObjectMeta(name=name, labels=labels))


def handle_of(cache: Cache, objects: tuple[object, ...] = ()) -> Handle:
    """Return a handle on a cache."""
    known = ApiObjects(objects, cache.nodes.journal)
    return Handle(cache, WaitingPods(), Nominator(), MemoryClient(), lambda: 0, known)


def required(kind: str, *terms: Mapping[str, Any]) -> dict[str, Any]:
    """Return an affinity with required terms."""
    return {kind: {REQUIRED: list(terms)}}
