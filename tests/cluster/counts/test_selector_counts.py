"""Counts of pods by selector: which pods count, and that many selectors do no harm."""

from __future__ import annotations

from policy_sched.cluster.cache import Cache
from policy_sched.cluster.counts import selector_counts
from policy_sched.cluster.counts.counts import ROW
from policy_sched.cluster.counts.selector_counts import PodMatch
from policy_sched.model.meta import EPOCH
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.selectors import EVERYTHING, NOTHING, Selector, equality_selector
from policy_sched.testing import make_node, make_pod

WEB = equality_selector({"app": "web"})


def cluster(*zones: str) -> Cache:
    cache = Cache()
    for number, zone in enumerate(zones):
        cache.add_node(make_node(f"n{number}", labels={"zone": zone} if zone else {}))
    return cache


def run(cache: Cache, name: str, node: str, **pod: object) -> PodInfo:
    info = PodInfo.of(make_pod(name, node_name=node, **pod))  # type: ignore[arg-type]  # fields
    cache.add_pod(info)
    return info


def match(*selectors: Selector, terminating: bool = True) -> PodMatch:
    return PodMatch(tuple((None, selector) for selector in selectors), terminating=terminating)


def test_pods_that_come_and_go_are_counted_by_domain() -> None:
    """Totals follow each pod; the last one is of the nodes without the label."""
    cache = cluster("a", "b", "")
    first = run(cache, "p0", "n0", labels={"app": "web"})
    counts = cache.counts.selected.of(match(WEB))
    zones = cache.counts.domains.of("zone")
    assert counts.by(zones).tolist() == [1, 0, 0]
    run(cache, "p1", "n1", labels={"app": "web"})
    run(cache, "p2", "n2", labels={"app": "web"})
    run(cache, "p3", "n1", labels={"app": "db"})
    cache.remove_pod(first)
    assert counts.by(zones).tolist() == [0, 1, 1]
    assert counts.by_row == {1: 1, 2: 1}


def test_all_parts_must_select_a_pod() -> None:
    """Namespaces and selectors of every part; an empty selector of each kind selects no pod or all
    pods."""
    cache = cluster("a")
    run(cache, "p0", "n0", namespace="team", labels={"app": "web", "tier": "fe"})
    run(cache, "p1", "n0", labels={"app": "web"})
    team = PodMatch(((frozenset({"team"}), WEB),), terminating=True)
    both = match(WEB, equality_selector({"tier": "fe"}))
    wanted = [(team, 1), (both, 1), (match(EVERYTHING), 2), (match(NOTHING), 0)]
    selected = cache.counts.selected
    assert [selected.of(m).by_row.get(0, 0) for m, _ in wanted] == [n for _, n in wanted]
    run(cache, "p2", "n0", namespace="team", labels={"tier": "fe", "app": "web"})
    assert [selected.of(m).by_row.get(0, 0) for m, _ in wanted] == [2, 2, 3, 0]


def test_pods_that_are_being_deleted_may_be_left_out() -> None:
    """Topology spread does not count them, pod affinity does."""
    cache = cluster("a")
    pod = make_pod("p0", node_name="n0", labels={"app": "web"})
    pod.metadata.deletion_timestamp = EPOCH
    cache.add_pod(PodInfo.of(pod))
    selected = cache.counts.selected
    assert selected.of(match(WEB, terminating=True)).by_row == {0: 1}
    assert selected.of(match(WEB, terminating=False)).by_row == {}


def test_a_node_that_changes_its_label_moves_its_pods() -> None:
    """The totals are those of the labels as they are now."""
    cache = cluster("a", "b")
    run(cache, "p0", "n0", labels={"app": "web"})
    counts = cache.counts.selected.of(match(WEB))
    assert counts.by(cache.counts.domains.of("zone")).tolist() == [1, 0, 0]
    cache.update_node(make_node("n0", labels={"zone": "b"}))
    assert counts.by(cache.counts.domains.of("zone")).tolist() == [1, 0]
    cache.remove_node(make_node("n0"))
    assert counts.by(cache.counts.domains.of("zone")).tolist() == [0, 0]
    cache.add_node(make_node("n0", labels={}))
    assert counts.by(cache.counts.domains.of("zone")).tolist() == [0, 1]
    assert counts.by(cache.counts.domains.of(ROW)).tolist() == [1, 0, 0]


def test_unused_selectors_are_evicted() -> None:
    """However many there were, the counts of those that are kept are right."""
    cache = cluster("a")
    selected = cache.counts.selected
    for number in range(selector_counts.SELECTORS + 10):
        selected.of(match(equality_selector({"app": f"a{number}"})))
        selected.of(match(WEB))
    assert len(list(selected)) <= selector_counts.SELECTORS
    run(cache, "p0", "n0", labels={"app": "web"})
    assert match(WEB) in dict(selected)
    assert selected.of(match(WEB)).by_row == {0: 1}
    assert cache.check() == []
