"""NodeInclusion: masks over all rows equal the model's result for each node."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from policy_sched.cluster.cache import Cache
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.selectors import node_matcher
from policy_sched.plugins.podtopologyspread.constraints import NodeInclusion
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled

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
