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

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["a", "b"]))
NOT_EMPTY = st.one_of(
    st.builds(
        lambda key, value: {"matchLabels": {key: value}},
        st.sampled_from(["app", "tier"]),
        st.sampled_from(["a", "b"]),
    ),
    st.builds(
        lambda key, operator: {"matchExpressions": [{"key": key, "operator": operator}]},
        st.sampled_from(["app", "tier"]),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)
SELECTORS = st.one_of(st.just({}), NOT_EMPTY)
TERMS = st.fixed_dictionaries(
    {"labelSelector": SELECTORS, "topologyKey": st.sampled_from([HOSTNAME, ZONE])},
    optional={
        "namespaces": st.sampled_from([["default"], ["other", "default"]]),
        "namespaceSelector": st.sampled_from([{}, {"matchLabels": {"team": "x"}}]),
    },
)
PAIRS = st.fixed_dictionaries(
    {},
    optional={
        REQUIRED: st.lists(TERMS, min_size=1, max_size=2),
        PREFERRED: st.lists(
            st.fixed_dictionaries({"weight": st.integers(1, 9), "podAffinityTerm": TERMS}),
            min_size=1,
            max_size=2,
        ),
    },
)
AFFINITIES = st.fixed_dictionaries({}, optional={"podAffinity": PAIRS, "podAntiAffinity": PAIRS})
CONSTRAINTS = st.lists(
    st.fixed_dictionaries(
        {
            "maxSkew": st.integers(1, 2),
            "topologyKey": st.sampled_from([HOSTNAME, ZONE]),
            "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
            # kube-scheduler counts an empty selector's pods in a dry run only.
            "labelSelector": NOT_EMPTY,
        },
        optional={
            "minDomains": st.integers(1, 4),
            "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore"]),
            "nodeAffinityPolicy": st.sampled_from(["Honor", "Ignore"]),
            "matchLabelKeys": st.just(["tier"]),
        },
    ),
    max_size=3,
)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    """Draw a node that has a zone, perhaps the empty one, or none."""
    zone = draw(st.sampled_from([{}, {ZONE: ""}, {ZONE: "z1"}, {ZONE: "z2"}]))
    taints = draw(st.sampled_from([(), ("a=b:NoSchedule",), ("a:PreferNoSchedule",)]))
    return make_node(name, labels={HOSTNAME: name, **zone}, taints=taints)


@st.composite
def pods(draw: st.DrawFn, name: str, node_name: str = "") -> PodInfo:
    """Draw a pod with affinity, with anti-affinity, with a spread constraint, or with none."""
    return PodInfo.of(
        make_pod(
            name,
            namespace=draw(st.sampled_from(["default", "other"])),
            labels=draw(LABELS),
            affinity=draw(st.one_of(st.none(), AFFINITIES)),
            topology_spread_constraints=draw(CONSTRAINTS),
            node_selector=draw(st.sampled_from([{}, {}, {ZONE: "z1"}])),
            node_name=node_name,
        )
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
