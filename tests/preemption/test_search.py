"""The search finds what the oracle finds node by node, and leaves no trace."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.cluster.pods_by_importance import PodOrder
from policy_sched.framework.status import Code
from policy_sched.preemption import dry_runs
from policy_sched.preemption.attempt import PreemptionAttempt
from policy_sched.preemption.budgets import Budgets
from policy_sched.preemption.dry_run import search_all, search_one
from policy_sched.preemption.rules import Candidates
from policy_sched.preemption.search import CandidateLimit, Eviction, PreemptionSearch
from policy_sched.scheduler.attempt import Preempt, Reject
from policy_sched.scheduler.scheduler import Scheduler
from tests.cluster.table_contents import picture
from tests.examples import scaled
from tests.preemption import oracle
from tests.preemption.clusters import (
    WAYS,
    OracleCluster,
    attempt_of,
    clusters,
    decision_for,
    info_of,
    one_by_one,
    scheduler_of,
    shipped_rules,
)
from tests.preemption.oracle import NodeInfo, OracleBudget, OracleCandidate, OracleNode, OraclePod

ALL = CandidateLimit(100, 100)


def search_of(scheduler: Scheduler, candidate_limit: CandidateLimit = ALL) -> PreemptionSearch:
    rules = shipped_rules(scheduler)
    return PreemptionSearch(scheduler.cache, scheduler.handle.objects, rules, candidate_limit)


def answers(cluster: OracleCluster) -> dict[str, OracleCandidate | str | list[str]]:
    return {n.name: oracle.candidate(n, cluster.pod, cluster.budgets) for n in cluster.nodes}


def found(scheduler: Scheduler, candidates: Candidates) -> dict[str, tuple[set[str], int]]:
    """Return the victims' names and the violations by node."""
    result = {}
    for place, row in enumerate(candidates.rows.tolist()):
        infos = [scheduler.cache.pods.infos[i] for i in candidates.victims_at(place)]
        names = {info.name for info in infos if info is not None}
        result[scheduler.cache.nodes.names[row]] = names, candidates.violations.item(place)
    return result


def all_rows(scheduler: Scheduler) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    return np.arange(scheduler.cache.nodes.n)


def node_by_node(attempt: PreemptionAttempt) -> PreemptionAttempt:
    attempt.filter_dry_run.node_by_node, attempt.filter_dry_run.by_state = True, False
    return attempt


@settings(max_examples=scaled(150), deadline=None)
@given(clusters(), WAYS)
def test_candidates_are_those_of_the_oracle(cluster: OracleCluster, most: int) -> None:
    """Victims, violations and reasons, on many nodes at once and on one after the other."""
    with one_by_one(most):
        assert_candidates(cluster)


def assert_candidates(cluster: OracleCluster) -> None:
    scheduler = scheduler_of(cluster)
    attempt = attempt_of(scheduler, info_of(cluster.pod))
    if attempt is None:
        return
    expected = {
        name: ({victim.name for victim in one.victims}, one.violations)
        for name, one in answers(cluster).items()
        if isinstance(one, OracleCandidate)
    }
    rows = [scheduler.cache.nodes.row_of[name] for name in expected]
    search = search_of(scheduler)
    before = picture(scheduler.cache)
    together = search.dry_run(attempt, np.array(sorted(rows), np.intp))
    assert found(scheduler, together.candidates) == expected
    each = search.dry_run(node_by_node(attempt), np.array(sorted(rows), np.intp))
    assert found(scheduler, each.candidates) == expected
    after = picture(scheduler.cache)  # it may have columns that were created in between
    assert {key: after[key] for key in before} == before


@settings(max_examples=scaled(150), deadline=None)
@given(clusters(), st.booleans())
def test_victims_are_the_same_in_arrays_and_one_by_one(cluster: OracleCluster, part: bool) -> None:
    """What fits, and which pods leave, does not depend on whether nodes are many or few."""
    scheduler = scheduler_of(cluster)
    attempt = attempt_of(scheduler, info_of(cluster.pod))
    if attempt is None:
        return
    cache, rules, filters = scheduler.cache, shipped_rules(scheduler), attempt.filter_dry_run
    order = PodOrder(cache, rules.victim_order(None))
    budgets = Budgets(scheduler.handle.objects, cache.pods)
    search = dry_runs.Search(cache, rules, budgets, lambda _pod: order)
    victims = search.victims(attempt.pod, all_rows(scheduler))
    if part:  # the block is not that of all rows
        victims = victims.at(np.flatnonzero(victims.some))
    static = filters.static_fits(cache.nodes, attempt.state, attempt.pod)
    assert static is not None
    before = picture(cache)
    together = search_all(attempt, victims)
    for place, row in enumerate(victims.rows.tolist()):
        here = victims.column(place)
        breaking = 0 if victims.breaking is None else victims.breaking[:, place].sum()
        assert search.victims_on(attempt.pod, row) == (here, breaking)
        pods = [pod for _, one in here if (pod := cache.pods.infos[one]) is not None]
        alone = search_one(attempt, row, pods) if pods and static[row] else None
        assert (alone is not None) == together.fits[place]
        lines = sorted(here[i][0] for i in alone or ())
        assert lines == np.flatnonzero(together.gone[:, place]).tolist()
    after = picture(cache)
    assert {key: after[key] for key in before} == before


@settings(max_examples=scaled(150), deadline=None)
@given(clusters(), WAYS)
def test_a_decision_is_one_that_the_oracle_accepts(cluster: OracleCluster, most: int) -> None:
    """The best node by the five criteria with its victims, or the complete message."""
    scheduler = scheduler_of(cluster)
    with one_by_one(most):
        decision = decision_for(scheduler, info_of(cluster.pod))
    expected = answers(cluster)
    candidates = {name: one for name, one in expected.items() if isinstance(one, OracleCandidate)}
    if isinstance(decision, Preempt):
        assert decision.node in oracle.best(candidates)
        names = [victim.name for victim in decision.victims]
        assert names == [victim.name for victim in candidates[decision.node].victims]
    elif isinstance(decision, Reject):
        assert not candidates
        reasons = [one for one in expected.values() if not isinstance(one, OracleCandidate)]
        assert decision.message.endswith(". " + oracle.message(reasons))
        assert not decision.nominated


@settings(max_examples=scaled(150), deadline=None)
@given(clusters(nominations=False))
def test_no_pod_is_evicted_without_need(cluster: OracleCluster) -> None:
    """Victims have lower priority, none could stay, and budgets are respected if possible."""
    scheduler = scheduler_of(cluster)
    decision = decision_for(scheduler, info_of(cluster.pod))
    if not isinstance(decision, Preempt):
        return
    assert all(victim.priority < cluster.pod.priority for victim in decision.victims)
    (node,) = (node for node in cluster.nodes if node.name == decision.node)
    names = {victim.name for victim in decision.victims}
    gone = [pod for pod in node.running if pod.name in names]
    left = NodeInfo(node).without(gone)
    assert not left.reasons(cluster.pod)
    for pod in gone:
        assert left.with_added([pod]).reasons(cluster.pod)
    expected = [one for one in answers(cluster).values() if isinstance(one, OracleCandidate)]
    if any(one.violations == 0 for one in expected):
        chosen = oracle.candidate(node, cluster.pod, cluster.budgets)
        assert isinstance(chosen, OracleCandidate)
        assert chosen.violations == 0


def on_port_80(
    *priorities: int, cpu: int = 0, nominated: tuple[OraclePod, ...] = ()
) -> OracleCluster:
    """Return a node of one cpu whose pods, and a pod of priority 10, want the same host port."""
    running = tuple(
        OraclePod(f"p{i}", priority, 0, ports=(80,)) for i, priority in enumerate(priorities)
    )
    node = OracleNode("n0", 1000, 8, running, nominated)
    return OracleCluster((node,), (), OraclePod("new", 10, cpu, ports=(80,)))


class TestPortsOfSeveralPods:
    """A host port that pods on one node share: bound by hand, they need not fit together."""

    @pytest.mark.parametrize("each", [False, True], ids=["together", "node by node"])
    @pytest.mark.parametrize(
        ("cluster", "victims"),
        [
            (on_port_80(0, 10), {"p0"}),
            (on_port_80(10, 0), {"p1"}),
            (on_port_80(0, 5), {"p0", "p1"}),
            (on_port_80(0, 5, 100), {"p0", "p1"}),
            (on_port_80(0, 10, nominated=(OraclePod("other", 100, 0, ports=(80,)),)), None),
        ],
    )
    def test_a_port_is_free_exactly_while_its_victim_is_removed(
        self, cluster: OracleCluster, victims: set[str] | None, each: bool
    ) -> None:
        """The port is free when one is removed, in use when one is put back or nominated."""
        scheduler = scheduler_of(cluster)
        attempt = attempt_of(scheduler, info_of(cluster.pod))
        assert attempt is not None
        attempt = node_by_node(attempt) if each else attempt
        result = search_of(scheduler).dry_run(attempt, all_rows(scheduler))
        assert found(scheduler, result.candidates) == ({"n0": (victims, 0)} if victims else {})

    def test_the_reason_is_that_of_the_next_filter(self) -> None:
        """Without its victims the node has a free port, but not the cpu."""
        cluster = on_port_80(0, 10, cpu=2000)
        decision = decision_for(scheduler_of(cluster), info_of(cluster.pod))
        assert isinstance(decision, Reject)
        assert decision.message == (
            "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod "
            "ports. no new claims to deallocate, preemption: 0/1 nodes are available: "
            "1 Insufficient cpu."
        )


@pytest.mark.parametrize("most", [0, 4])
def test_each_node_has_its_own_reason(most: int) -> None:
    """Nodes with victims that do not suffice, and nodes without any, in one message."""
    nodes = tuple(
        OracleNode(
            f"n{i}",
            1000,
            8,
            (OraclePod(f"large{i}", 10, 900), OraclePod(f"small{i}", i % 3 * 10 - 10, 100)),
        )
        for i in range(9)
    )
    cluster = OracleCluster(nodes, (), OraclePod("new", 10, 1000))
    with one_by_one(most):
        decision = decision_for(scheduler_of(cluster), info_of(cluster.pod))
    assert decision.message.endswith(
        "0/9 nodes are available: 3 No preemption victims found for incoming pod, "
        "6 Insufficient cpu."
    )


def crowd(count: int, *, breaking: int = 0) -> OracleCluster:
    """Return nodes that are full with one pod each; the first pods are covered by a budget."""
    nodes = tuple(
        OracleNode(
            f"n{i}", 1000, 8, (OraclePod(f"p{i}", 0, 1000, 1, "a" if i < breaking else "b"),)
        )
        for i in range(count)
    )
    return OracleCluster(nodes, (OracleBudget("a", 0),), OraclePod("new", 10, 1000))


def looked_at(scheduler: Scheduler, candidate_limit: CandidateLimit, seed: int) -> Eviction:
    attempt = attempt_of(scheduler, info_of(crowd(1).pod))
    assert attempt is not None
    answer = search_of(scheduler, candidate_limit).search(
        attempt, all_rows(scheduler), Random(seed)
    )
    assert isinstance(answer, Eviction)
    return answer


def test_dry_runs_of_many_kinds_of_pods_take_no_more_than_they_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each new kind recounted the bytes of the whole cache: 180,000 sums for 600 pods."""
    most = 100_000
    monkeypatch.setattr(dry_runs, "KEPT_BYTES", most)
    scheduler = scheduler_of(crowd(20))
    search = search_of(scheduler)
    runs = search._runs
    for priority in (*range(1, 60), 3, 59):
        attempt = attempt_of(scheduler, info_of(OraclePod("new", priority, 1000)))
        assert attempt is not None
        assert isinstance(search.search(attempt, all_rows(scheduler), Random(0)), Eviction)
        *before, last = (run.nbytes for run in runs._kept.entries.values())
        assert sum(before) <= most
        assert last <= most / 2
    assert 2 < len(runs._kept) < 59


class TestCandidateLimit:
    """The number of candidates to find."""

    @pytest.mark.parametrize(
        ("percentage", "absolute", "nodes", "size"),
        [(10, 100, 5000, 500), (10, 100, 500, 100), (10, 100, 7, 7), (0, 0, 7, 0), (100, 0, 7, 7)],
    )
    def test_the_number_of_candidates_is_a_share_within_bounds(
        self, percentage: int, absolute: int, nodes: int, size: int
    ) -> None:
        """A share of the nodes, at least the absolute number, at most all nodes."""
        assert CandidateLimit(percentage, absolute).size(nodes) == size

    def test_equal_nodes_take_turns(self) -> None:
        """The random start decides among equals, and a seed decides about the start."""
        scheduler = scheduler_of(crowd(5))
        rows = {looked_at(scheduler, CandidateLimit(0, 1), seed).row for seed in range(20)}
        assert rows == set(range(5))
        assert looked_at(scheduler, ALL, 3).row == looked_at(scheduler, ALL, 3).row

    def test_the_search_goes_on_until_no_budget_breaks(self) -> None:
        """The minimum of candidates is exceeded while each of them violates a budget."""
        scheduler = scheduler_of(crowd(6, breaking=5))
        for seed in range(10):
            assert looked_at(scheduler, CandidateLimit(0, 2), seed).row == 5

    def test_without_rows_there_is_no_result(self) -> None:
        """No node can be helped: no extender is called, and no random number is drawn."""
        scheduler = scheduler_of(crowd(1))
        attempt = attempt_of(scheduler, info_of(crowd(1).pod))
        assert attempt is not None
        assert search_of(scheduler).search(attempt, np.empty(0, np.intp), Random(0)) == {}


def test_a_filter_that_contradicts_itself_is_an_error() -> None:
    """A node that was rejected, but where every victim can stay, is named."""
    nodes = (OracleNode("n0", 4000, 8, (OraclePod("p", 0, 1000),)),)
    scheduler = scheduler_of(OracleCluster(nodes, (), OraclePod("new", 10, 4000)))
    attempt = attempt_of(scheduler, info_of(OraclePod("new", 10, 4000)))
    assert attempt is not None
    small = PreemptionAttempt(
        info_of(OraclePod("small", 10, 1000)), attempt.state, attempt.filter_dry_run, attempt.cache,
        attempt.nominations,
    )  # fmt: skip
    answer = search_of(scheduler).search(small, all_rows(scheduler), Random(0))
    assert isinstance(answer, Mapping)
    (status,) = answer.values()
    assert status.code is Code.ERROR
    assert status.reasons == ('expected at least one victim pod on node "n0"',)
