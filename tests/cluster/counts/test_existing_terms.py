"""The affinity terms of running pods: their carriers, and the pods they select."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.cluster.cache import Cache
from policy_sched.cluster.counts import existing_terms as carried_terms
from policy_sched.model.cluster_objects import Namespace
from policy_sched.model.meta import ObjectMeta
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled
from tests.finite import chooser

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def away(app: str, **term: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": app}}
    return {
        "podAntiAffinity": {REQUIRED: [{"labelSelector": selector, "topologyKey": "zone", **term}]}
    }


def run(cache: Cache, name: str, affinity: dict[str, Any]) -> PodInfo:
    info = PodInfo.of(make_pod(name, node_name="n", affinity=affinity))
    cache.add_pod(info)
    return info


def cluster() -> Cache:
    cache = Cache()
    cache.add_node(make_node("n"))
    return cache


def test_equal_terms_are_one_term_with_a_count() -> None:
    """Two carriers, then one, then none: the term stays listed and has no carriers."""
    cache = cluster()
    kind = cache.counts.carried.anti_affinity
    pod = PodInfo.of(make_pod(labels={"app": "web"}))
    first, second = run(cache, "a", away("web")), run(cache, "b", away("web"))
    (carried,) = kind.meaning(pod)
    assert (carried.counts.by_row, kind.live) == ({0: 2}, 1)
    cache.remove_pod(first)
    cache.remove_pod(second)
    assert (carried.counts.by_row, kind.live) == ({}, 0)
    assert kind.meaning(PodInfo.of(make_pod(labels={"app": "db"}))) == ()


def test_the_version_rises_when_a_term_has_its_first_carrier_and_when_it_has_none() -> None:
    """A pod was placed beside one whose anti-affinity keeps it away: its counts were those before.

    The term was listed already, as others had carried it. Another carrier changes nothing.
    """
    cache = cluster()
    kind = cache.counts.carried.anti_affinity
    first, second = run(cache, "a", away("web")), run(cache, "b", away("web"))
    versions = []
    for change, pod in (
        (cache.remove_pod, first),
        (cache.remove_pod, second),
        (cache.add_pod, first),
    ):
        before = kind.version
        change(pod)
        versions.append(kind.version - before)
    assert versions == [0, 1, 1]


def test_a_term_that_is_listed_later_means_pods_that_were_looked_up_before() -> None:
    """A pod was placed beside one whose anti-affinity was the first of its kind."""
    cache = cluster()
    kind, pod = cache.counts.carried.anti_affinity, PodInfo.of(make_pod(labels={"app": "web"}))
    assert kind.meaning(pod) == ()
    run(cache, "a", away("web"))
    assert len(kind.meaning(pod)) == 1


def test_preferences_are_sums_of_weights() -> None:
    """What is liked and shunned alike weighs nothing."""
    cache = cluster()
    term = {"labelSelector": {}, "topologyKey": "zone"}

    def likes(weight: int) -> dict[str, Any]:
        return {PREFERRED: [{"weight": weight, "podAffinityTerm": term}]}

    run(cache, "a", {"podAffinity": likes(5)})
    run(cache, "b", {"podAntiAffinity": likes(3)})
    (carried,) = cache.counts.carried.preferred.meaning(PodInfo.of(make_pod()))
    assert carried.counts.by_row == {0: 2}
    run(cache, "c", {"podAntiAffinity": likes(2)})
    assert (carried.counts.by_row, cache.counts.carried.preferred.live) == ({}, 0)
    assert cache.check() == []


def test_each_term_of_a_pod_counts_for_all_pods_that_are_like_it() -> None:
    """Of the third replica only the first term counted, and pods were placed beside it."""
    cache, term = cluster(), {"labelSelector": {}, "topologyKey": "zone"}
    likes = {"podAffinity": {PREFERRED: [{"weight": 5, "podAffinityTerm": term}]}}
    for name in "abc":
        run(cache, name, {**away("web"), **likes})
    assert cache.check() == []


def test_a_namespaces_labels_decide_when_they_change() -> None:
    """A namespaceSelector of a running pod means the namespaces that have the labels now."""
    cache = cluster()
    run(cache, "a", away("web", namespaceSelector={"matchLabels": {"team": "x"}}))
    pod = PodInfo.of(make_pod(namespace="other", labels={"app": "web"}))
    kind = cache.counts.carried.anti_affinity
    found = []
    for labels in ({}, {"team": "x"}, {"team": "y"}):
        cache.set_namespace(Namespace(metadata=ObjectMeta(name="other", labels=labels)))
        found.append(len(kind.meaning(pod)))
    cache.remove_namespace("other")
    assert [*found, len(kind.meaning(pod))] == [0, 1, 0, 0]


def test_terms_without_pods_are_swept_out() -> None:
    """A cluster whose pods each carry a term of their own does not remember all of them."""
    cache = cluster()
    for number in range(3 * carried_terms.IDLE):
        cache.remove_pod(run(cache, "a", away(f"app-{number}")))
    assert len(list(cache.counts.carried.anti_affinity)) <= carried_terms.IDLE + 1
    assert cache.check() == []


@settings(max_examples=scaled(60), deadline=None)
@given(data=st.data())
def test_counts_are_those_of_a_recount_whatever_was_swept_out(data: st.DataObject) -> None:
    """Pods of a few workloads come and go, terms nobody carries are dropped, and counts hold."""
    cache, choose = cluster(), chooser(data.draw)
    term = {"labelSelector": {}, "topologyKey": "zone"}
    likes = {PREFERRED: [{"weight": 5, "podAffinityTerm": term}]}
    kinds = [away("web"), away("db"), {"podAffinity": likes}]
    kinds.append(
        {"podAffinity": likes, "podAntiAffinity": {**likes, **away("web")["podAntiAffinity"]}}
    )
    running: list[PodInfo] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(carried_terms, "IDLE", 0)
        patch.setattr(carried_terms, "POD_TERMS", 2)
        for number in range(data.draw(st.integers(1, 12))):
            if running and choose([True, False]):
                cache.remove_pod(running.pop(choose(range(len(running)))))
            else:
                running.append(run(cache, f"p{number}", choose(kinds)))
            assert cache.check() == []
            for kind in cache.counts.carried.kinds:
                assert kind.live == sum(bool(one.counts.by_row) for one in kind)
