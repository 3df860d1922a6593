"""Rows without any pod that may be evicted are known without a search."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace
from numpy.typing import NDArray

from policy_sched.cluster.pods_by_importance import PodOrder
from policy_sched.cluster.tables.pod_table import PodRows
from policy_sched.model.pod_info import PodInfo
from policy_sched.preemption.evictable import EvictableRows
from policy_sched.scheduler.attempt import Preempt
from policy_sched.scheduler.scheduler import Scheduler
from policy_sched.scheduler.setup.factory import assemble
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled
from tests.preemption.clusters import attempt_of, decision_for, plans, shipped_rules


def full(nodes: int) -> Scheduler:
    """Return a cluster in which nothing is left of any node."""
    scheduler = assemble(plans())
    for i in range(nodes):
        scheduler.cache.add_node(make_node(f"n{i}", cpu="1"))
    return scheduler


def running(name: str, node: str, priority: int) -> PodInfo:
    """Return a pod that takes all of a node."""
    return PodInfo.of(make_pod(name, cpu="1", priority=priority, node_name=node))


@settings(max_examples=scaled(30), deadline=None)
@given(st.integers(0, 2**32))
def test_rows_are_those_with_a_pod_of_lower_priority(seed: int) -> None:
    """What is kept row by row is what the pods on each row say, whatever came and went."""
    rng, scheduler = Random(seed), full(6)
    rules, cache = shipped_rules(scheduler), scheduler.cache
    order = PodOrder(cache, rules.victim_order(None))
    kept = EvictableRows(cache, rules, lambda _pod: order)
    there: dict[int, PodInfo] = {}
    for i in range(6):
        there[i] = running(f"r{i}", f"n{i}", rng.choice([0, 5, 10]))
        cache.add_pod(there[i])
    for number in range(20):
        row = rng.randrange(6)
        if rng.random() < 0.1:
            cache.add_node(make_node(f"n{row}", cpu="1", labels={"a": str(number)}))
        else:
            cache.remove_pod(there[row])
            there[row] = running(f"p{number}", f"n{row}", rng.choice([0, 5, 10]))
            cache.add_pod(there[row])
        priority = rng.choice([0, 5, 7, 11])
        attempt = attempt_of(scheduler, PodInfo.of(make_pod("new", cpu="1", priority=priority)))
        assert attempt is not None
        expected = [there[i].priority < priority for i in range(6)]
        if rng.random() < 0.5:  # else the next look meets more changes
            assert kept.anywhere(attempt) == any(expected)
        if rng.random() < 0.5:
            assert [kept.among(attempt, np.array([i])) for i in range(6)] == expected
            none = kept.nothing_on(attempt)
            assert (np.zeros(6) if none is None else none).tolist() == np.invert(expected).tolist()


@pytest.mark.parametrize("low", [None, 3, 39])
def test_a_search_among_rows_with_nothing_to_evict(low: int | None) -> None:
    """Where one node of many has a pod that may go, it is found; where none has, that is said."""
    scheduler = full(40)
    for i in range(40):
        scheduler.cache.add_pod(running(f"r{i}", f"n{i}", 0 if i == low else 9))
    decision = decision_for(scheduler, PodInfo.of(make_pod("new", cpu="1", priority=9)))
    if low is None:
        assert decision.message == (
            "0/40 nodes are available: 40 Insufficient cpu. no new claims to deallocate, "
            "preemption: 0/40 nodes are available: "
            "40 No preemption victims found for incoming pod."
        )
    else:
        assert isinstance(decision, Preempt)
        assert decision.node == f"n{low}"


def test_pods_that_differ_in_requests_share_what_is_known() -> None:
    """The pods in the way are looked at once for all pods of one priority."""
    scheduler = full(3)
    for i in range(3):
        scheduler.cache.add_pod(running(f"r{i}", f"n{i}", 9))
    rules, cache = shipped_rules(scheduler), scheduler.cache
    order = PodOrder(cache, rules.victim_order(None))
    looks: list[int] = []

    def victim(pod: PodInfo, others: PodRows) -> NDArray[np.bool_]:
        looks.append(others.rows.size)
        return rules.victim(pod, others)

    kept = EvictableRows(cache, replace(rules, victim=victim), lambda _pod: order)
    for cpu in ("1", "2", "3"):
        attempt = attempt_of(scheduler, PodInfo.of(make_pod("new", cpu=cpu, priority=9)))
        assert attempt is not None
        assert not kept.anywhere(attempt)
    assert looks == [3]


def test_a_question_that_is_asked_again_gets_what_holds_now() -> None:
    """An attempt that went on after a pod had been replaced heard that nothing may be evicted."""
    scheduler = full(1)
    rules, cache = shipped_rules(scheduler), scheduler.cache
    before, after = running("before", "n0", 9), running("after", "n0", 0)
    cache.add_pod(before)
    attempt = attempt_of(scheduler, PodInfo.of(make_pod("new", cpu="1", priority=9)))
    assert attempt is not None
    order = PodOrder(cache, rules.victim_order(None))
    kept = EvictableRows(cache, rules, lambda _pod: order)
    assert not kept.anywhere(attempt)
    cache.remove_pod(before)
    cache.add_pod(after)
    assert kept.anywhere(attempt)


def test_a_node_that_has_a_victim_now_is_searched() -> None:
    """A node was passed over that had got a pod of low priority since the last search."""
    scheduler = full(2)
    cache, old = scheduler.cache, running("old", "n1", 9)
    cache.add_pod(running("r0", "n0", 1))
    cache.add_pod(old)

    def node_for(name: str) -> str:
        decision = decision_for(scheduler, PodInfo.of(make_pod(name, cpu="1", priority=9)))
        assert isinstance(decision, Preempt)
        return decision.node

    assert node_for("first") == "n0"
    cache.remove_pod(old)
    cache.add_pod(running("r1", "n1", 0))
    assert node_for("second") == "n1"
