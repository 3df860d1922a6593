"""ConstraintCache: a pod's own constraints, or its workload's defaults.

NodeInclusion: masks over all rows equal the model's result for each node.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.cluster.cache import Cache
from policy_sched.cluster.listers import ApiObjects
from policy_sched.model import cluster_objects
from policy_sched.model.meta import HOSTNAME, ZONE, LabelSelector, ObjectMeta, OwnerReference
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.selectors import NOTHING, equality_selector, node_matcher
from policy_sched.plugins.podtopologyspread.constraints import NONE, ConstraintCache, NodeInclusion
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled

LIST = {
    "defaultingType": "List",
    "defaultConstraints": [
        {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
    ],
}


def service(namespace: str = "default", **selector: str) -> cluster_objects.Service:
    meta = ObjectMeta(name=f"s-{namespace}-{'-'.join(selector)}", namespace=namespace)
    return cluster_objects.Service(
        kind="Service", metadata=meta, spec=cluster_objects.ServiceSpec(selector=selector)
    )


def owned(kind: str, api_version: str, **labels: str) -> PodInfo:
    pod = make_pod(labels=labels)
    pod.metadata.owner_references = (
        OwnerReference(api_version=api_version, kind=kind, name="web", controller=True),
    )
    return PodInfo.of(pod)


def test_a_pod_of_no_workload_has_none() -> None:
    """Without a Service or controller that selects it, default constraints do not apply."""
    book = ConstraintCache({}, ApiObjects([service(app="db"), service("other", app="web")]))
    assert book.of(PodInfo.of(make_pod(labels={"app": "web"}))) is NONE


def test_services_that_select_the_pod_define_the_spread_selector() -> None:
    """The selectors of all of them together; system defaults are hostname and zone, softly."""
    book = ConstraintCache({}, ApiObjects([service(app="web"), service(tier="fe"), service()]))
    found = book.of(PodInfo.of(make_pod(labels={"app": "web", "tier": "fe", "x": "y"})))
    assert [(c.spread.topology_key, c.spread.max_skew) for c in found.soft] == [
        (HOSTNAME, 3),
        (ZONE, 5),
    ]
    assert (found.hard, found.all_labels) == ((), False)
    assert found.soft[0].selector == equality_selector({"app": "web", "tier": "fe"})


@pytest.mark.parametrize(
    ("kind", "api_version", "owner"),
    [
        ("ReplicationController", "v1", cluster_objects.ReplicationController(
            kind="ReplicationController",
            metadata=ObjectMeta(name="web"),
            spec=cluster_objects.ReplicationControllerSpec(selector={"app": "web"}),
        )),
        *(
            (kind.__name__, "apps/v1", kind(
                kind=kind.__name__,
                metadata=ObjectMeta(name="web"),
                spec=cluster_objects.WorkloadSpec(
                    selector=LabelSelector(match_labels={"app": "web"})
                ),
            ))
            for kind in (cluster_objects.ReplicaSet, cluster_objects.StatefulSet)
        ),
    ],
)  # fmt: skip
def test_the_controller_defines_the_spread_selector(
    kind: str, api_version: str, owner: Any
) -> None:
    """Upstream looks the owner up: it must exist, in the right API group."""
    pod = owned(kind, api_version, app="web")
    found = ConstraintCache(LIST, ApiObjects([owner])).of(pod)
    assert [c.selector for c in found.hard] == [equality_selector({"app": "web"})]
    assert found.all_labels
    assert ConstraintCache(LIST, ApiObjects([service(a="b")])).of(pod) is NONE
    assert ConstraintCache(LIST, ApiObjects([owner])).of(owned(kind, "x/v1", app="web")) is NONE


def test_objects_that_come_later_count() -> None:
    """A new Service makes the default constraints apply from then on."""
    objects = ApiObjects()
    book = ConstraintCache({}, objects)
    pod = PodInfo.of(make_pod(labels={"app": "web"}))
    assert book.of(pod) is NONE
    objects.put(service(app="web"))
    assert len(book.of(pod).soft) == 2


def test_own_constraints_keep_default_ones_away() -> None:
    """Even if they are all of the other kind."""
    own = [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway"}]
    pod = PodInfo.of(make_pod(labels={"app": "web"}, topology_spread_constraints=own))
    found = ConstraintCache(LIST, ApiObjects([service(app="web")])).of(pod)
    assert (found.hard, len(found.soft)) == ((), 1)


def test_match_label_keys_join_the_selector() -> None:
    """With the pod's own values; keys that the pod does not have are skipped."""
    own = [
        {
            "maxSkew": 1,
            "topologyKey": "a",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
            "matchLabelKeys": ["hash", "missing"],
        }
    ]
    book = ConstraintCache({}, ApiObjects())
    for value in ("1", "2"):
        pod = PodInfo.of(make_pod(labels={"hash": value}, topology_spread_constraints=own))
        (constraint,) = book.of(pod).hard
        assert constraint.selector.matches({"app": "web", "hash": value})
        assert not constraint.selector.matches({"app": "web", "hash": "3"})


def test_an_empty_selector_counts_no_pod_but_selects_its_own() -> None:
    """kube-scheduler's own inconsistency, kept."""
    own = [
        {
            "maxSkew": 1,
            "topologyKey": "a",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {},
        }
    ]
    pod = PodInfo.of(make_pod(topology_spread_constraints=own))
    (constraint,) = ConstraintCache({}, ApiObjects()).of(pod).hard
    assert constraint.selector.matches({})
    assert constraint.match.parts[0][1] is NOTHING


def test_a_selector_that_is_not_valid_is_an_error() -> None:
    """It is reported when the pod is decided, not when it is read."""
    selector = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    own = [
        {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule",
         "labelSelector": selector}
    ]  # fmt: skip
    found = ConstraintCache({}, ApiObjects()).of(
        PodInfo.of(make_pod(topology_spread_constraints=own))
    )
    assert "Near" in found.error


NODES = [
    make_node(name, labels=labels, taints=taints)
    for name, labels, taints in [
        ("n0", {}, ()),
        ("n1", {"zone": "a", "cores": "4"}, ("k=v:NoSchedule",)),
        ("n2", {"zone": "", "cores": "x"}, ("k=v:NoExecute", "x:NoSchedule")),
        ("n3", {"zone": "b", "cores": "16"}, ("k=v:PreferNoSchedule",)),
    ]
]
EXPRESSIONS = st.sampled_from(
    [
        {"key": "zone", "operator": "In", "values": ["a", "unseen"]},
        {"key": "zone", "operator": "NotIn", "values": ["a", ""]},
        {"key": "zone", "operator": "Exists"},
        {"key": "zone", "operator": "DoesNotExist"},
        {"key": "cores", "operator": "Gt", "values": ["4"]},
        {"key": "cores", "operator": "Lt", "values": ["5"]},
        {"key": "cores", "operator": "Lt", "values": ["no number"]},
        {"key": "nobody", "operator": "In", "values": ["a"]},
    ]
)
FIELDS = st.sampled_from(
    [
        {"key": "metadata.name", "operator": "In", "values": ["n1"]},
        {"key": "metadata.name", "operator": "NotIn", "values": ["n1"]},
        {"key": "spec.other", "operator": "In", "values": ["x"]},
        {"key": "spec.other", "operator": "NotIn", "values": ["x"]},
    ]
)
TERMS = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(EXPRESSIONS, max_size=2),
        "matchFields": st.lists(FIELDS, max_size=2),
    },
)
TOLERATIONS = st.lists(
    st.sampled_from(
        [
            {"key": "k", "operator": "Exists"},
            {"key": "k", "value": "v", "effect": "NoSchedule"},
            {"operator": "Exists", "effect": "NoExecute"},
            {"key": "x", "operator": "Exists"},
        ]
    ),
    max_size=3,
)


def cluster() -> Cache:
    cache = Cache()
    for node in NODES:
        cache.add_node(node)
    return cache


@settings(max_examples=scaled(150))
@given(
    terms=st.one_of(st.none(), st.lists(TERMS, max_size=3)),
    selector=st.sampled_from([{}, {"zone": "a"}, {"zone": ""}, {"zone": "a", "cores": "4"}]),
)
def test_affinity_is_the_matchers(
    terms: list[dict[str, object]] | None, selector: dict[str, str]
) -> None:
    """Selector and required terms allow the nodes that the compiled matcher allows."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    affinity = None if terms is None else {"nodeAffinity": required}
    pod = PodInfo.of(make_pod(affinity=affinity, node_selector=selector))
    matcher = node_matcher(pod.node_affinity)
    wanted = [
        selector.items() <= node.metadata.labels.items()
        and matcher.required_matches(node.metadata.labels, node.metadata.name)
        for node in NODES
    ]
    mask = NodeInclusion(cluster().nodes).affinity(pod)
    assert (mask is None and all(wanted)) or (mask is not None and mask.tolist() == wanted)


@given(tolerations=TOLERATIONS)
def test_taints_exclude_pods_that_do_not_tolerate_them(tolerations: list[dict[str, str]]) -> None:
    """NoSchedule and NoExecute count, PreferNoSchedule does not."""
    pod = PodInfo.of(make_pod(tolerations=tolerations))
    wanted = [
        all(
            taint.effect == "PreferNoSchedule"
            or any(t.tolerates(taint.key, taint.value, taint.effect) for t in pod.tolerations)
            for taint in node.spec.taints
        )
        for node in NODES
    ]
    mask = NodeInclusion(cluster().nodes).taints(pod)
    assert (mask is None and all(wanted)) or (mask is not None and mask.tolist() == wanted)


def test_masks_follow_the_labels_of_nodes() -> None:
    """After a change of labels a selector allows other rows."""
    cache = cluster()
    inclusion = NodeInclusion(cache.nodes)
    pod = PodInfo.of(make_pod(node_selector={"zone": "a"}))
    before = inclusion.affinity(pod)
    cache.update_node(make_node("n0", labels={"zone": "a"}))
    after = inclusion.affinity(pod)
    assert before is not None
    assert after is not None
    assert (before.tolist(), after.tolist()) == (
        [False, True, False, False],
        [True, True, False, False],
    )
