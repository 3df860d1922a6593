"""Nominations: other pods respect them, and a pod's own node is evaluated first."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.framework.evaluate.evaluator import Evaluation
from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler.attempt import Bind, Reject
from policy_sched.scheduler.scheduler import Scheduler
from policy_sched.scheduler.setup.factory import assemble
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled
from tests.preemption.clusters import clusters, decision_for, info_of, plans, scheduler_of
from tests.preemption.oracle import NodeInfo, OraclePod


def evaluate(scheduler: Scheduler, pod: PodInfo) -> Evaluation:
    return scheduler.profiles["default-scheduler"].evaluator.evaluate(pod)


def reasons_by_node(scheduler: Scheduler, evaluation: Evaluation) -> dict[str, list[str]]:
    names = scheduler.cache.nodes.names
    statuses = evaluation.filtering.statuses()
    found = {names[row]: list(status.reasons) for row, status in statuses.items()}
    assert list(found) == sorted(found), "by row"
    open_rows = evaluation.filtering.feasible_rows().tolist()
    return found | {names[row]: [] for row in open_rows}


@settings(max_examples=scaled(100), deadline=None)
@given(clusters(), st.lists(st.sampled_from([-10, 0, 5, 200]), min_size=1, max_size=4))
def test_pods_fit_beside_those_that_come_before_them(cluster, priorities) -> None:  # type: ignore[no-untyped-def]  # drawn
    """Every node has the oracle's result, whichever equal pods were decided before."""
    scheduler = scheduler_of(cluster)
    for number, priority in enumerate(priorities):
        pod = replace(cluster.pod, name=f"new-{number}", priority=priority)
        evaluation = evaluate(scheduler, info_of(pod))
        expected = {n.name: NodeInfo(n).rejection(pod) for n in cluster.nodes}
        assert reasons_by_node(scheduler, evaluation) == expected
        assert (evaluation.scoring is not None) == any(not r for r in expected.values())
        best = {scheduler.cache.nodes.names[row] for row in evaluation.best().tolist()}
        assert all(not expected[name] for name in best)


@settings(max_examples=scaled(60), deadline=None)
@given(clusters())
def test_scores_know_only_the_nodes_that_are_left(cluster) -> None:  # type: ignore[no-untyped-def]  # drawn
    """With a cached evaluation the scores are those of a fresh one."""
    kept, fresh = scheduler_of(cluster), scheduler_of(cluster)
    pods = [replace(cluster.pod, priority=priority) for priority in (100, -10)]
    for pod in pods:
        ours = evaluate(kept, info_of(pod))
    theirs = evaluate(fresh, info_of(pods[-1]))
    assert (ours.scoring is None) == (theirs.scoring is None)
    if ours.scoring is not None and theirs.scoring is not None:
        assert ours.scoring.total.tolist() == theirs.scoring.total.tolist()


def two_nodes() -> Scheduler:
    scheduler = assemble(plans())
    scheduler.cache.add_node(make_node("n0", cpu="4"))
    scheduler.cache.add_node(make_node("n1", cpu="2"))
    return scheduler


def test_the_nominated_node_is_taken_without_looking_at_others() -> None:
    """A pod goes where it was nominated, though another node is better."""
    scheduler = two_nodes()
    pod = info_of(OraclePod("p", 0, 1000))
    scheduler.handle.nominator.nominate(pod, "n1")
    decision = decision_for(scheduler, pod)
    assert isinstance(decision, Bind)
    assert decision.node == "n1"
    assert decision.evaluation.filtering.feasible_rows().tolist() == [1]
    assert decision.evaluation.filtering.statuses() == {}
    assert decision_for(scheduler, info_of(OraclePod("other", 0, 1000))) != decision


@pytest.mark.parametrize("node", ["n1", "gone"])
def test_all_nodes_are_evaluated_when_the_nominated_node_no_longer_fits(node: str) -> None:
    """A nomination to a full or a deleted node is ignored."""
    scheduler = two_nodes()
    scheduler.cache.add_pod(PodInfo.of(make_pod("full", cpu="2", node_name="n1")))
    pod = info_of(OraclePod("p", 0, 1000))
    scheduler.handle.nominator.nominate(pod, node)
    decision = decision_for(scheduler, pod)
    assert isinstance(decision, Bind)
    assert decision.node == "n0"


def test_a_rival_of_equal_priority_comes_first_on_a_shared_node() -> None:
    """Two pods nominated to one node: each respects the other, one of higher priority neither."""
    scheduler = two_nodes()
    scheduler.cache.add_pod(PodInfo.of(make_pod("full", cpu="4", node_name="n0", priority=9)))
    pods = [info_of(OraclePod(f"p{i}", 5, 1500)) for i in range(2)]
    for pod in pods:
        scheduler.handle.nominator.nominate(pod, "n1")
    for pod in pods:
        assert isinstance(decision_for(scheduler, pod), Reject)
    assert isinstance(decision_for(scheduler, info_of(OraclePod("vip", 6, 1500))), Bind)


def test_affinity_to_a_nominated_pod_is_not_enough() -> None:
    """The filters must pass without the nominated pod, too: it may never be bound."""
    scheduler = two_nodes()
    friend = PodInfo.of(make_pod("friend", labels={"app": "friend"}, priority=9))
    scheduler.handle.nominator.nominate(friend, "n0")
    term = {"labelSelector": {"matchLabels": {"app": "friend"}}, "topologyKey": "name"}
    for index in range(2):
        node = make_node(f"n{index}", labels={"name": f"n{index}"})
        scheduler.cache.update_node(node)
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    seeks = PodInfo.of(make_pod("seeks", affinity={"podAffinity": required}))
    assert isinstance(decision_for(scheduler, seeks), Reject)
    avoids = PodInfo.of(make_pod("avoids", affinity={"podAntiAffinity": required}))
    decision = decision_for(scheduler, avoids)
    assert isinstance(decision, Bind)
    assert decision.node == "n1"
