"""The placement section: the domains of nodes, and the variables of a score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from policy_sched.cluster.cache import Cache
from policy_sched.language.check.policy import check_policy
from policy_sched.language.compile import compile_policy
from policy_sched.language.diagnostics import PlacementRule, PolicySource, Text
from policy_sched.language.runtime.activation import Activation
from policy_sched.language.sections import CompiledPolicy
from policy_sched.language.values.limits import RuleError
from policy_sched.language.values.records import NOWHERE, PlacementFacts
from policy_sched.model.pod_group import GroupCounts
from policy_sched.model.pod_info import PodInfo
from policy_sched.plugins.rules.bound_placement import BoundPlacement
from policy_sched.plugins.rules.bound_policy import bind
from policy_sched.testing import make_node, make_pod

POD = PodInfo.of(make_pod("p", labels={"scheduling.x-k8s.io/pod-group": "ring"}))
GROUP = GroupCounts("ring", 2, 3, 1, topology_key="row", schedule_timeout=None)


def compiled(domain: str | None = None, score: str | None = None, **more: Any) -> CompiledPolicy:
    """Return a policy that is a placement section."""
    section = PlacementRule(
        () if domain is None else (Text(domain),), None if score is None else Text(score), **more
    )
    checked, problems = check_policy(PolicySource("Test", placement=section))
    assert checked is not None, problems
    policy, found = compile_policy(checked)
    assert policy is not None, found
    return policy


def cluster(*racks: str | None) -> Cache:
    """Return nodes n0, n1, ... of 4 cpu in racks; None: without the label."""
    cache = Cache()
    for i, rack in enumerate(racks):
        labels = {} if rack is None else {"rack": rack, "row": f"r{i % 2}"}
        cache.add_node(make_node(f"n{i}", labels=labels))
    return cache


def bound(cache: Cache, *texts: str | None, **more: Any) -> BoundPlacement:
    """Return the section over a cluster."""
    found = bind(compiled(*texts, **more), cache.nodes).placement
    assert found is not None
    return found


def parted(cache: Cache, text: str) -> dict[str, list[int]]:
    """Return the domains of an expression."""
    found = bound(cache, text).levels(POD, Activation(pod_group=GROUP))[0]
    return {name: rows.tolist() for name, rows in found.items()}


class TestDomains:
    """Each node is in one domain, or in none."""

    def test_domains_of_a_label_come_in_the_order_of_their_names(self) -> None:
        """In the order of their names; a node without the label is in none, nor is a dead row."""
        cache = cluster("b", "a", None, "b", "c")
        cache.remove_node(make_node("n4"))
        assert parted(cache, 'node.labels["rack"]') == {"a": [1], "b": [0, 3]}

    def test_an_empty_text_is_no_domain(self) -> None:
        """So that orValue("") leaves a node out, too."""
        cache = cluster("", "a", None)
        assert parted(cache, 'node.labels[?"rack"].orValue("")') == {"a": [1]}

    def test_texts_that_are_put_together(self) -> None:
        """Computed for each node, from several columns."""
        cache = cluster("a", "a", "b", None)
        text = 'node.labels["row"] + "/" + node.labels["rack"]'
        assert parted(cache, text) == {"r0/a": [0], "r0/b": [2], "r1/a": [1]}

    def test_one_for_all_and_none_at_all(self) -> None:
        """A constant is one domain of all nodes."""
        cache = cluster("a", None)
        assert parted(cache, '"everywhere"') == {"everywhere": [0, 1]}
        assert parted(cache, '""') == {}
        assert parted(Cache(), 'node.labels["rack"]') == {}

    def test_the_group_may_name_the_label(self) -> None:
        """A key that is known with the pod is a column like others."""
        cache = cluster("a", "a", "b")
        assert parted(cache, "node.labels[podGroup.topologyKey]") == {"r0": [0, 2], "r1": [1]}


class TestScore:
    """A score sees the domain's nodes, their totals and the group's pods in it."""

    def facts(self) -> PlacementFacts:
        """Return two nodes of 4 cpu with a pod of 1 cpu on one, which is of the group."""
        cache = cluster("a", "b", "a")
        pod = PodInfo.of(make_pod("x", cpu="1"))
        cache.assume(pod, "n0")
        return PlacementFacts("a", np.array([0, 2], np.intp), (pod,), cache.nodes)

    @pytest.mark.parametrize(
        ("text", "score"),
        [
            ('percent(placement.requested["cpu"], placement.allocatable["cpu"])', 12),
            ('clamp(placement.free["cpu"].units() / 100, 0, 100)', 70),
            ('placement.domain == "a" ? 7 : 8', 7),
            ("placement.level == 0 ? 7 : 8", 7),
            ("clamp(placement.nodes.size() * 10 + placement.assigned.size(), 0, 100)", 21),
            ('placement.nodes.all(n, n.labels["rack"] == "a") ? 1.9 : 0.0', 1),
            ('placement.assigned.exists(p, p.name == "x") ? podGroup.minCount * 0 + 5 : 0', 5),
            ('"example.com/gpu" in placement.allocatable ? 1 : 2', 2),
        ],
    )
    def test_a_double_score_of_a_placement_is_truncated(self, text: str, score: int) -> None:
        """A double is truncated."""
        placement = bound(Cache(), None, text)
        assert placement.score(POD, Activation(pod_group=GROUP), self.facts()) == score

    def test_an_error_ends_the_attempt_unless_it_is_worth_nothing(self) -> None:
        """It names the rule and the domain."""
        text = 'placement.nodes.exists(n, n.labels["no"] == "x") ? 1 : 0'
        words = r"rule Test.placement.score: no such key 'no' \(domain a\)"
        with pytest.raises(RuleError, match=words):
            bound(Cache(), None, text).score(POD, Activation(), self.facts())
        zero = bound(Cache(), None, text, on_error="Zero")
        assert zero.score(POD, Activation(), self.facts()) == 0

    def test_nowhere_is_empty(self) -> None:
        """A record for no domain is empty."""
        assert (NOWHERE.nodes, NOWHERE.allocatable, NOWHERE.free, NOWHERE.requested) == (
            (),
            {},
            {},
            {},
        )


def test_the_values_of_the_policys_section() -> None:
    """The defined sections, and the fields that the domains depend on."""
    both = compiled('node.labels["rack"]', "50")
    assert both.has_placement_score
    assert both.domain_reads is not None
    assert both.domain_reads.node == {"labels"}
    scores = compiled(None, "50")
    assert scores.domain_reads is None
    assert not compiled('node.labels["rack"]').has_placement_score
