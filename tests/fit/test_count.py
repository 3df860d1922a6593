"""How many replicas fit: the scheduler's own decisions, counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from policy_sched.errors import PolicySchedError
from policy_sched.fit.count import FitCluster, fit, objects_of
from policy_sched.fit.report import Fit
from policy_sched.fit.unit import FitUnit
from policy_sched.model import cluster_objects
from policy_sched.model.meta import ApiObject, LabelSelector, ObjectMeta
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo
from policy_sched.report import unshown
from policy_sched.scheduler.setup.factory import assemble, load_cluster, read
from policy_sched.simulate.one_shot import run_queue
from policy_sched.testing import make_node, make_pod

PLANS, _ = read(None, ())
ZONE = "topology.kubernetes.io/zone"


def counted(*objects: ApiObject, pods: Sequence[Pod], **options: Any) -> Fit:
    """Return how many replicas of these pods fit."""
    return fit(FitCluster.of(PLANS, objects), FitUnit("default/web", tuple(pods)), **options)


def web(cpu: str = "1", **spec: Any) -> Pod:
    """Return the pod that is counted."""
    return make_pod("web", cpu=cpu, uid="", **spec)


def test_replicas_are_counted_until_one_fits_nowhere() -> None:
    """The result has each node's share, and what keeps the next replica from each node."""
    nodes = [
        make_node("a", cpu="4"),
        make_node("b", cpu="2"),
        make_node("c", cpu="9", taints=[{"key": "gpu", "effect": "NoSchedule"}]),
    ]
    count = counted(*nodes, pods=[web()])
    assert (count.replicas, count.limited, count.nodes, count.open) == (6, False, 3, 2)
    assert [(item.node, item.pods) for item in count.by_node] == [("a", 4), ("b", 2)]
    assert count.exhausted == {"Insufficient cpu": 2}
    assert count.excluded == {"node(s) had untolerated taint(s)": 1}
    assert count.message.startswith("0/3 nodes are available: ")


def test_the_limit_ends_the_count() -> None:
    """A bound that is reached is part of the result."""
    count = counted(make_node("a", cpu="64"), pods=[web()], limit=5)
    assert (count.replicas, count.limited, count.message) == (5, True, "")
    exact = counted(make_node("a", cpu="4"), pods=[web()], limit=5)
    assert (exact.replicas, exact.limited) == (4, False)


def test_a_pod_that_fits_nowhere() -> None:
    """Every reason is there, and no node was open."""
    count = counted(make_node("a", cpu="1"), pods=[web("2")])
    assert (count.replicas, count.open, count.exhausted) == (0, 0, {})
    assert count.excluded == {"Insufficient cpu": 1}


def test_a_cluster_without_nodes_has_kube_schedulers_message() -> None:
    """A cluster without nodes has kube-scheduler's message."""
    assert counted(pods=[web()]).message == "no nodes available to schedule pods"


def test_several_pods_count_when_all_of_them_fit() -> None:
    """A replica of two pods needs room for both."""
    node = make_node("a", cpu="5")
    count = counted(node, pods=[web(), replace(web("1"), metadata=ObjectMeta(name="other"))])
    assert (count.pods, count.replicas) == (2, 2)
    assert [(item.node, item.pods) for item in count.by_node] == [("a", 4)]


def test_limits_of_topology_count() -> None:
    """A replica is decided with those before it in place."""
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = [make_node(f"n{i}", cpu="9", labels={ZONE: f"z{i % 2}"}) for i in range(4)]
    count = counted(*nodes, pods=[web(labels={"app": "web"}, affinity=affinity)], label=ZONE)
    assert count.replicas == 2
    assert [(item.value, item.nodes, item.open, item.pods) for item in count.by_label] == [
        ("z0", 2, 2, 1),
        ("z1", 2, 2, 1),
    ]
    assert list(count.by_label[0].reasons) == ["node(s) didn't match pod anti-affinity rules"]


def test_nodes_without_the_label_are_one_group() -> None:
    """It comes last."""
    nodes = [make_node("a", cpu="1"), make_node("b", cpu="1", labels={ZONE: "z"})]
    count = counted(*nodes, pods=[web()], label=ZONE)
    assert [(item.value, item.pods) for item in count.by_label] == [("z", 1), (None, 1)]


def bound(name: str, node: str, **spec: Any) -> Pod:
    """Return a pod that runs on a node."""
    return make_pod(name, cpu="1", node_name=node, labels={"app": name[0]}, **spec)


def test_evictions_are_those_of_preemption() -> None:
    """After the free room, replicas count for which pods of lower priority would be evicted."""
    nodes = [make_node("a", cpu="3"), make_node("b", cpu="1")]
    pods = [bound("x1", "a"), bound("x2", "a"), bound("y1", "b", priority=50)]
    count = counted(*nodes, *pods, pods=[web(priority=10)])
    assert (count.replicas, count.preempting, count.evicted) == (1, 2, 2)
    assert sorted(victim.pod for victim in count.victims) == ["default/x1", "default/x2"]
    assert [(item.node, item.pods, item.preempting) for item in count.by_node] == [("a", 1, 2)]
    assert "No preemption victims found" in count.last_message
    two = counted(*nodes, *pods, pods=[web(priority=10)], preempting=1)
    assert (two.preempting, two.preempting_limited, two.evicted) == (1, True, 1)
    none = counted(*nodes, *pods, pods=[web(priority=10)], preempting=0)
    assert (none.preempting, none.preempting_limited, none.victims) == (0, True, ())


def test_a_pod_that_never_preempts_evicts_nothing() -> None:
    """Its preemptionPolicy says so."""
    objects = make_node("a", cpu="1"), bound("x", "a")
    assert counted(*objects, pods=[web(priority=10, preemption_policy="Never")]).preempting == 0


def test_an_eviction_may_make_room_for_several_replicas() -> None:
    """Those that need no further victim count without one."""
    large = make_pod("large", cpu="3", node_name="a")
    count = counted(make_node("a", cpu="3"), large, pods=[web(priority=10)])
    assert (count.replicas, count.preempting, count.evicted) == (0, 3, 1)


def test_a_budget_is_spent() -> None:
    """Victims that a PodDisruptionBudget does not allow are counted; others come first."""
    budget = cluster_objects.PodDisruptionBudget(
        "policy/v1",
        "PodDisruptionBudget",
        ObjectMeta(name="x", namespace="default"),
        spec=cluster_objects.PodDisruptionBudgetSpec(
            selector=LabelSelector(match_labels={"app": "x"})
        ),
        status=cluster_objects.PodDisruptionBudgetStatus(disruptions_allowed=1),
    )
    nodes = [make_node(name, cpu="1") for name in "abc"]
    pods = [bound("x1", "a"), bound("x2", "b"), bound("y1", "c")]
    count = counted(*nodes, *pods, budget, pods=[web(priority=10)])
    assert (count.preempting, count.evicted, count.over_budget) == (3, 3, 1)
    assert [victim.over_budget for victim in count.victims] == [False, False, True]
    assert count.victims[2].pod[:9] == "default/x"


def test_nominated_pods_keep_their_room() -> None:
    """A pending pod takes no room, unless it is nominated."""
    node = make_node("a", cpu="2")
    waiting = make_pod("waits", cpu="1", priority=10)
    assert counted(node, waiting, pods=[web()]).replicas == 2
    nominated = make_pod("waits", cpu="1", priority=10, nominated_node_name="a")
    assert counted(node, nominated, pods=[web()]).replicas == 1


def test_a_profile_is_needed() -> None:
    """A pod of another scheduler is a mistake of the caller, and no answer of 0."""
    with pytest.raises(PolicySchedError, match='no profile has schedulerName "other"'):
        counted(make_node("a"), pods=[web(scheduler_name="other")])


SIZES = st.lists(st.integers(0, 6), min_size=1, max_size=6)


@given(cpus=SIZES, request=st.integers(1, 3), taken=st.lists(st.integers(0, 5), max_size=4))
def test_the_count_is_what_simulate_places(cpus: list[int], request: int, taken: list[int]) -> None:
    """As many replicas are counted as `simulate` places of as many pods as one likes."""
    nodes = [make_node(f"n{i}", cpu=str(cpu)) for i, cpu in enumerate(cpus)]
    running = [
        make_pod(f"r{i}", cpu="1", node_name=f"n{number}")
        for i, number in enumerate(taken)
        if number < len(cpus)
    ]
    count = counted(*nodes, *running, pods=[web(str(request))])
    scheduler = assemble(PLANS)
    many = [make_pod(f"web-{i}", cpu=str(request)) for i in range(40)]
    pending = load_cluster(scheduler.cache, [*nodes, *running, *many])
    run = run_queue(scheduler, [PodInfo.of(pod) for pod in pending], unshown)
    assert count.replicas == run.placed
    assert count.message == run.placements[-1].message


def test_a_copy_of_a_running_scheduler_counts_alike() -> None:
    """Assumed pods count on their nodes, nominated ones keep their room."""
    nodes = [make_node("a", cpu="4"), make_node("b", cpu="2")]
    scheduler = assemble(PLANS)
    load_cluster(scheduler.cache, [*nodes, make_pod("r", cpu="1", node_name="b")])
    scheduler.cache.assume(PodInfo.of(make_pod("assumed", cpu="1")), "a")
    scheduler.handle.nominator.nominate(PodInfo.of(make_pod("nominated", cpu="1")), "a")
    count = counted(*objects_of(scheduler), pods=[web()])
    assert [(item.node, item.pods) for item in count.by_node] == [("a", 2), ("b", 1)]
