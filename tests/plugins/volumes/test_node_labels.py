"""NodeLabels: masks over all rows equal the result for each node."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from policy_sched.cluster.cache import Cache
from policy_sched.model import meta
from policy_sched.model.selectors import required_matches
from policy_sched.model.storage import TopologyRequirement, TopologySelectorTerm
from policy_sched.plugins.volumes.node_labels import NodeLabels
from policy_sched.testing import make_node
from tests.examples import scaled

LABELS = [{}, {"k": "1"}, {"k": "5", "l": "x"}, {"k": "", "l": "y"}, {"l": "x", "k": "word"}]
VALUES = st.lists(st.sampled_from(["1", "5", "x", "", "3", "never-seen"]), max_size=3).map(tuple)
REQUIREMENTS = st.builds(
    meta.NodeSelectorRequirement,
    st.sampled_from(["k", "l", "m", "not a key"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Unknown"]),
    VALUES,
)
FIELDS = st.builds(
    meta.NodeSelectorRequirement,
    st.sampled_from(["metadata.name", "spec.unschedulable"]),
    st.sampled_from(["In", "NotIn", "Exists"]),
    VALUES,
)
TERMS = st.builds(
    meta.NodeSelectorTerm,
    st.lists(REQUIREMENTS, max_size=3).map(tuple),
    st.lists(FIELDS, max_size=1).map(tuple),
)


def without_fields(term: meta.NodeSelectorTerm) -> meta.NodeSelectorTerm:
    """Return a term that matches whatever the fields of a node are, if they are valid."""
    wrong = any(
        one.operator not in ("In", "NotIn") or len(one.values) != 1 for one in term.match_fields
    )
    if wrong or not term.match_fields:
        return term
    anywhere = meta.NodeSelectorRequirement("no-such-label", "DoesNotExist")
    return meta.NodeSelectorTerm((*term.match_expressions, anywhere))


def labels_of() -> tuple[Cache, NodeLabels]:
    cache = Cache()
    for i, labels in enumerate(LABELS):
        cache.add_node(make_node(f"n{i}", labels=labels))
    return cache, NodeLabels(cache.nodes)


@settings(max_examples=scaled(300), deadline=None)
@given(terms=st.lists(TERMS, max_size=3).map(tuple))
def test_an_affinity_matches_the_rows_of_the_nodes_that_it_matches(
    terms: tuple[meta.NodeSelectorTerm, ...],
) -> None:
    """Every operator, missing labels, unknown values, and invalid terms; valid fields match.

    A volume whose affinity names a node by its field was reached from no node at all.
    """
    _, labels = labels_of()
    selector = meta.NodeSelector(terms)
    affinity = meta.NodeAffinity(
        required=meta.NodeSelector(tuple(without_fields(term) for term in terms))
    )
    alone = [required_matches(affinity, one, "") for one in LABELS]
    assert labels.affinity(selector).tolist() == alone
    assert labels.rows(selector).tolist() == [row for row, match in enumerate(alone) if match]


def test_without_affinity_every_node_is_in_reach() -> None:
    """A volume without affinity can be used anywhere."""
    _, labels = labels_of()
    assert labels.affinity(None).all()


def test_a_kept_answer_ends_with_a_change_of_a_node() -> None:
    """Nodes are relabelled while volumes keep their affinity."""
    cache, labels = labels_of()
    selector = meta.NodeSelector(
        (meta.NodeSelectorTerm((meta.NodeSelectorRequirement("new", "Exists"),)),)
    )
    assert labels.rows(selector).size == 0
    cache.update_node(make_node("n0", labels={"new": ""}))
    assert labels.rows(selector).tolist() == [0]


def test_allowed_topologies() -> None:
    """One term must match entirely; an empty one never does, and without terms all is allowed."""
    _, labels = labels_of()

    def term(**wanted: str) -> TopologySelectorTerm:
        return TopologySelectorTerm(
            tuple(TopologyRequirement(key, (value,)) for key, value in wanted.items())
        )

    assert labels.topologies(()).all()
    assert not labels.topologies((term(),)).any()
    found = labels.topologies((term(k="1"), term(k="5", l="y"), term(l="y")))
    assert found.tolist() == [False, True, False, True, False]


def test_label_selectors() -> None:
    """None selects nothing, an empty one everything, and an invalid one nothing."""
    _, labels = labels_of()
    bad = meta.LabelSelector(match_expressions=(meta.LabelSelectorRequirement("k", "Gt", ("1",)),))
    assert not labels.selected(None).any()
    assert labels.selected(meta.LabelSelector()).all()
    assert not labels.selected(bad).any()
    assert labels.selected(meta.LabelSelector(match_labels={"l": "x"})).tolist() == [
        False, False, True, False, True,
    ]  # fmt: skip
