"""Compiled affinity terms and spread constraints: shared by equal pods, defaults as upstream."""

from __future__ import annotations

from typing import Any

from policy_sched.model.pod_info import PodInfo
from policy_sched.model.pod_terms import NO_CONSTRAINTS, NO_TERMS
from policy_sched.model.selectors import NOTHING
from policy_sched.testing import make_pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def info(name: str = "p", namespace: str = "default", **spec: Any) -> PodInfo:
    return PodInfo.of(make_pod(name, namespace=namespace, **spec))


def near(**term: Any) -> dict[str, Any]:
    return {"podAffinity": {REQUIRED: [{"topologyKey": "zone", **term}]}}


def test_equal_pods_share_their_terms() -> None:
    """Equal affinities of one namespace are one object, those of two namespaces are not."""
    affinity = near(labelSelector={"matchLabels": {"a": "b"}})
    first = info("a", affinity=affinity).affinity_terms
    assert info("b", affinity=affinity).affinity_terms is first
    assert info("a", "other", affinity=affinity).affinity_terms is not first
    assert info().affinity_terms is NO_TERMS
    assert not info(affinity={"podAffinity": {}}).affinity_terms


def test_a_term_without_namespaces_means_the_pods_own() -> None:
    """A namespaceSelector, even an empty one, replaces it."""
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({}, {"team"}),
        ({"namespaces": ["x", "y"]}, {"x", "y"}),
        ({"namespaceSelector": {}}, set()),
    ]
    for term, namespaces in cases:
        (found,) = info(namespace="team", affinity=near(**term)).affinity_terms.affinity
        assert found.namespaces == namespaces
        assert found.selector is NOTHING
        assert found.namespace_selector.matches({}) == ("namespaceSelector" in term)


def test_preferences_against_are_below_zero() -> None:
    """Preferred terms of anti-affinity have negative weights."""
    term = {"weight": 7, "podAffinityTerm": {"topologyKey": "zone"}}
    affinity = {kind: {PREFERRED: [term]} for kind in ("podAffinity", "podAntiAffinity")}
    assert [w for w, _ in info(affinity=affinity).affinity_terms.preferred] == [7, -7]


def test_spread_constraints_have_upstreams_defaults() -> None:
    """One domain is enough, node affinity is honoured, taints are not."""
    constraints = [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
        {
            "maxSkew": 2,
            "topologyKey": "rack",
            "whenUnsatisfiable": "ScheduleAnyway",
            "minDomains": 3,
            "nodeAffinityPolicy": "Ignore",
            "nodeTaintsPolicy": "Honor",
        },
    ]
    found = info("a", topology_spread_constraints=constraints).topology_spread
    (hard,), (soft,) = found.hard, found.soft
    assert (hard.min_domains, hard.honor_affinity, hard.honor_taints) == (1, True, False)
    assert (soft.min_domains, soft.honor_affinity, soft.honor_taints) == (3, False, True)
    assert info("b", topology_spread_constraints=constraints).topology_spread is found
    assert info().topology_spread is NO_CONSTRAINTS


def test_a_selector_that_is_not_valid_is_kept_as_an_error() -> None:
    """There are no terms then, but the pod is not one without any."""
    selector = {"matchExpressions": [{"key": "a", "operator": "Near"}]}
    terms = info(affinity=near(labelSelector=selector)).affinity_terms
    assert terms
    assert "Near" in terms.error
    assert terms.affinity == ()
