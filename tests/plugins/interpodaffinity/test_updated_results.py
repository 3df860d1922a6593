"""InterPodAffinity: results that are updated for the rows that change equal those found anew."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from policy_sched.cluster import Cache
from policy_sched.framework.evaluate import Domain, Evaluation, Evaluator
from policy_sched.framework.runtime import MetricsRecorder, Runner
from policy_sched.model import PodInfo
from policy_sched.plugins.interpodaffinity import InterPodAffinity
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled
from tests.finite import chooser
from tests.framework.evaluate.test_evaluator import assert_equal, pipeline_of
from tests.framework.examples import Few, Grade
from tests.plugins.neighbourhoods import (
    AFFINITIES,
    HOSTNAME,
    PREFERRED,
    ZONE,
    handle_of,
    namespace,
    required,
)

NODES = 16
LABELS = [{}, {"app": "a"}, {"app": "b"}, {"app": "a", "tier": "b"}]


def world(zones: int, *, whole: bool) -> Cache:
    """Return nodes of some zones; if not whole, two have one host name, and one has no zone."""
    cache = Cache()
    for number in range(NODES):
        labels = {HOSTNAME: f"n{number}", ZONE: f"z{number % zones}"}
        if not whole and number == 5:
            labels = {HOSTNAME: "n4"}
        cache.add_node(make_node(f"n{number}", labels=labels))
    return cache


def assert_same(kept: Evaluation, fresh: Evaluation) -> None:
    """Compare what is seen of two evaluations, plugin by plugin."""
    assert_equal(kept, fresh)
    if kept.scoring is not None and fresh.scoring is not None:
        rows = fresh.filtering.feasible_rows()
        assert kept.scoring.raw(rows) == fresh.scoring.raw(rows)
        assert kept.scoring.weighted(rows) == fresh.scoring.weighted(rows)
        assert kept.parts == fresh.parts


def seen(found: Evaluation) -> object:
    """Return the feasible rows, and the scores of each."""
    rows, scoring = found.filtering.feasible_rows(), found.scoring
    if scoring is None:
        return rows.tolist()
    return rows.tolist(), scoring.total[rows].tolist(), scoring.raw(rows), scoring.weighted(rows)


@settings(max_examples=scaled(80), deadline=None)
@given(data=st.data())
def test_an_updated_evaluation_equals_a_fresh_one(data: st.DataObject) -> None:
    """Pods come and go, nodes fill up, and namespaces and nodes change now and then.

    The same holds on some of the nodes, and what was frozen before stays as it was.
    """
    choose = chooser(data.draw)
    cache = world(choose([1, 2, 4]), whole=choose([True, True, False]))
    handle = handle_of(cache)
    hard = choose([0, 1, 50])
    plugins = {
        "Few": Few(cache, most=choose([2, 9])),
        "Grade": Grade(cache, choose([0, 0, 4])),
        "InterPodAffinity": InterPodAffinity({"hardPodAffinityWeight": hard}, handle),
    }
    runner = Runner(pipeline_of(plugins, cache))
    kept, anew = (
        Evaluator(runner, cache.nodes),
        Evaluator(runner, cache.nodes, cached=False),
    )
    kinds = [(data.draw(AFFINITIES), choose(LABELS)) for _ in range(2)] + [(None, choose(LABELS))]

    def pod(name: str, kind: int) -> PodInfo:
        affinity, labels = kinds[kind]
        team = "other" if kind == 1 and other else "default"
        return PodInfo.of(make_pod(name, namespace=team, affinity=affinity, labels=labels))

    other = choose([False, True])
    running: list[PodInfo] = []
    outside = np.array(choose([[], [0, 3, 4]]), np.intp)
    domain = Domain(outside)
    frozen: list[tuple[Evaluation, object]] = []
    first = choose([0, 8])  # steps that nothing is evaluated after
    for number in range(first + data.draw(st.integers(1, 14))):
        step = choose(["assume"] * 8 + ["forget"] * 4 + ["namespace", "node"])
        if step == "assume":
            running.append(pod(f"r{number}", choose([0, 1, 2])))
            cache.assume(running[-1], f"n{choose(range(NODES))}")
        elif step == "forget" and running:
            cache.forget(running.pop(choose(range(len(running)))).uid)
        elif step == "namespace":
            cache.set_namespace(namespace("other", team=choose(["x", "y"])))
        elif step == "node":
            labels = {HOSTNAME: "n3", ZONE: choose(["z0", "z1"])}
            cache.update_node(make_node("n3", labels=labels))
        if step == "node":
            domain = Domain(outside)
        for kind in range(len(kinds) if number >= first else 0):
            assert_same(kept.evaluate(pod("w", kind)), anew.evaluate(pod("w", kind)))
            found = kept.evaluate(pod("w", kind), domain)
            assert_same(found, anew.evaluate(pod("w", kind), Domain(outside)))
            frozen.append((found.snapshot(), seen(found)))
    for snapshot, before in frozen:
        assert seen(snapshot) == before


def away(key: str) -> dict[str, Any]:
    """Return an affinity that keeps pods with the label app=a out of a domain."""
    selector = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": key}
    return required("podAntiAffinity", selector)


def test_a_pod_whose_node_is_in_no_domain_rejects_nothing_and_the_next_one_does() -> None:
    """Both have one term, and only the second runs on a node that has the label."""
    cache = world(2, whole=False)
    runner = Runner(
        pipeline_of({"InterPodAffinity": InterPodAffinity({}, handle_of(cache))}, cache)
    )
    kept = Evaluator(runner, cache.nodes)
    pod = PodInfo.of(make_pod("w", labels={"app": "a"}))
    feasible = []
    for number, node in enumerate(["n5", "n5", "n5", "n0", "n5", "n1"]):
        cache.assume(PodInfo.of(make_pod(f"r{number}", affinity=away(ZONE))), node)
        feasible.append(kept.evaluate(pod).filtering.feasible_rows().size)
    assert feasible == [NODES, NODES, NODES, NODES // 2, NODES // 2, 1]


def test_a_row_that_opens_again_on_some_of_the_nodes_has_no_reason_any_more() -> None:
    """What rejected the row is forgotten with it, also where other nodes are left out."""
    cache = world(2, whole=True)
    runner = Runner(
        pipeline_of({"InterPodAffinity": InterPodAffinity({}, handle_of(cache))}, cache)
    )
    kept, domain = Evaluator(runner, cache.nodes), Domain(np.array([7, 8], np.intp))
    pod = PodInfo.of(make_pod("w", labels={"app": "a"}, affinity=away(HOSTNAME)))
    others: list[PodInfo] = []
    rejected = []
    for number in range(12):
        if number % 3 == 2:
            cache.forget(others.pop().uid)
        else:
            other = make_pod(f"r{number}", labels={"app": "a"}, affinity=away(HOSTNAME))
            others.append(PodInfo.of(other))
            cache.assume(others[-1], f"n{number % 3}")
        rejected.append(sorted(kept.evaluate(pod, domain).filtering.statuses()))
    assert rejected == [[0], [0, 1], [0]] * 4


def test_updates_are_measured_as_the_filter_and_the_score_of_the_plugin() -> None:
    """So are the plugins that read no more than the row; the results are those without measures."""
    cache = world(2, whole=True)
    plugins = {"Few": Few(cache, 9), "InterPodAffinity": InterPodAffinity({}, handle_of(cache))}
    recorder = MetricsRecorder(lambda: 0.0)
    measured, plain = (
        Runner(pipeline_of(plugins, cache), recorder),
        Runner(pipeline_of(plugins, cache)),
    )
    kept, anew = (
        Evaluator(measured, cache.nodes),
        Evaluator(plain, cache.nodes, cached=False),
    )
    term = {"labelSelector": {"matchLabels": {"app": "b"}}, "topologyKey": ZONE}
    near = {"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term}]}}
    affinity = away(HOSTNAME) | near
    for number in range(5):
        pod = PodInfo.of(make_pod(f"r{number}", labels={"app": "b"}, affinity=affinity))
        measured.sample(number == 4)
        assert_same(kept.evaluate(pod), anew.evaluate(pod))
        cache.assume(pod, f"n{number}")
    assert {key: len(took) for key, took in recorder.plugins.items()} == {
        (plugin, point, "Success"): 1 for plugin in plugins for point in ("Filter", "Score")
    }


def test_a_preferred_term_that_selects_its_first_pod_counts() -> None:
    """A pod was rated as if there were no pods of its second term, until a node changed."""
    cache = world(2, whole=True)
    runner = Runner(
        pipeline_of({"InterPodAffinity": InterPodAffinity({}, handle_of(cache))}, cache)
    )
    kept, anew = (
        Evaluator(runner, cache.nodes),
        Evaluator(runner, cache.nodes, cached=False),
    )
    terms = [
        {
            "weight": 10,
            "podAffinityTerm": {
                "topologyKey": HOSTNAME,
                "labelSelector": {"matchLabels": {"app": app}},
            },
        }
        for app in "ab"
    ]
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    pod = PodInfo.of(make_pod("w", affinity=affinity))
    for number, app in enumerate("aaaba"):
        running = PodInfo.of(make_pod(f"r{number}", labels={"app": app}))
        cache.assume(running, f"n{number}")
        assert_same(kept.evaluate(pod), anew.evaluate(pod))
