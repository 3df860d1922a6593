"""The sample of nodes: kube-scheduler's numbers, its order, and its decisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.client.memory import MemoryClient
from policy_sched.cluster.cache import Cache
from policy_sched.framework.evaluate import sampling
from policy_sched.framework.evaluate.evaluator import Evaluation, Evaluator
from policy_sched.framework.evaluate.views import NOT_ASKED
from policy_sched.framework.extension_points import CONFIGURED
from policy_sched.framework.handle import Handle
from policy_sched.framework.runtime.pipeline import Percentage, freeze, implementations, points_of
from policy_sched.framework.runtime.runner import Runner
from policy_sched.framework.waiting_pods import WaitingPods
from policy_sched.model.pod_info import PodInfo
from policy_sched.queue.nominator import Nominator
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled
from tests.framework.examples import Cpu, Crowd, Tier


@pytest.mark.parametrize(
    ("percentage", "nodes", "wanted"),
    [
        ("adaptive", 10, 10),
        ("adaptive", 99, 99),
        ("adaptive", 100, 100),
        ("adaptive", 125, 100),
        ("adaptive", 1000, 420),
        ("adaptive", 5000, 500),
        ("adaptive", 5625, 281),
        ("adaptive", 6000, 300),
        ("adaptive", 50_000, 2500),
        (40, 10, 10),
        (40, 1000, 400),
        (5, 1000, 100),
        (99, 6000, 5940),
    ],
)
def test_the_number_of_nodes_to_find_follows_the_percentage(
    percentage: Percentage, nodes: int, wanted: int
) -> None:
    """The numbers of kube-scheduler's own tests, and of its formula."""
    assert sampling.enough(percentage, nodes) == wanted


def test_0_and_100_percent_look_at_all_nodes() -> None:
    """0 and 100 are all nodes; the adaptive rule and any other number are not."""
    assert [p for p in (0, 1, 99, 100, "adaptive") if sampling.looks_at_all(p)] == [0, 100]


def evaluators(
    cache: Cache, percentage: Percentage, *kinds: type, any_will_do: bool = False
) -> tuple[Evaluator, Evaluator]:
    """Return an evaluator with a sample and one without over the same plugins."""
    handle = Handle(cache, WaitingPods(), Nominator(), MemoryClient(), lambda: 0)
    plugins = {kind.__name__: kind(handle) for kind in kinds}
    order = {
        field: [(name, 1) for name, plugin in plugins.items() if point in points_of(plugin)]
        for field, point in CONFIGURED.items()
    }
    implemented = {name: implementations(plugin, name) for name, plugin in plugins.items()}
    runner = Runner(freeze("default-scheduler", implemented, order))
    sample = sampling.Sample(cache.nodes, percentage, sampling.Rotation(), any_will_do=any_will_do)
    return Evaluator(runner, cache.nodes, sample=sample), Evaluator(runner, cache.nodes)


def seen(evaluation: Evaluation) -> list[int]:
    """Return the rows that were looked at."""
    return np.flatnonzero(evaluation.filtering.first != NOT_ASKED).tolist()


def cluster(nodes: int, zones: int = 1, full: Sequence[int] = ()) -> Cache:
    cache = Cache()
    for i in range(nodes):
        labels = {"topology.kubernetes.io/zone": f"z{i % zones}"} if zones > 1 else {}
        cache.add_node(make_node(f"n{i}", cpu="0" if i in full else "4", labels=labels))
    return cache


def pods() -> Iterator[PodInfo]:
    number = 0
    while True:
        number += 1
        yield PodInfo.of(make_pod(f"p{number}", cpu="1"))


def test_the_search_goes_on_where_the_last_one_ended() -> None:
    """Equal pods see one part of the cluster after the other, and all of it in turn."""
    sampled, _ = evaluators(cluster(250), 40, Cpu)
    first, second, third = (sampled.evaluate(pod) for pod, _ in zip(pods(), range(3), strict=False))
    assert seen(first) == [*range(100)]
    assert seen(second) == [*range(100, 200)]
    assert seen(third) == [*range(50), *range(200, 250)]


def test_rejected_nodes_count_as_looked_at() -> None:
    """Nodes that do not fit are passed, up to the feasible one that is too many."""
    sampled, _ = evaluators(cluster(250, full=[3, 5, 102, 103]), 10, Cpu)
    pod = next(pods())
    first = sampled.evaluate(pod)
    assert seen(first) == [*range(104)]
    assert first.filtering.feasible_rows().size == 100
    assert sorted(first.filtering.statuses()) == [3, 5, 102, 103]
    assert seen(sampled.evaluate(pod)) == [*range(104, 204)]


def test_zones_take_turns() -> None:
    """A node of each zone in turn, whatever the order in which nodes came."""
    cache = Cache()
    for i in range(240):
        zone = "a" if i < 200 else "b" if i < 230 else "c"
        cache.add_node(make_node(f"n{i}", labels={"topology.kubernetes.io/zone": zone}))
    sampled, _ = evaluators(cache, 40, Cpu)
    rows = seen(sampled.evaluate(next(pods())))
    assert rows == [*range(60), *range(200, 230), *range(230, 240)]


def test_old_zone_labels_count_first() -> None:
    """The labels of before are read in the place of the new ones, as kube-scheduler does."""
    cache = Cache()
    for i in range(200):
        new = {"topology.kubernetes.io/zone": "new"}
        old = {"failure-domain.beta.kubernetes.io/zone": f"old-{i // 100}"}
        cache.add_node(make_node(f"n{i}", labels=new | old))
    sampled, _ = evaluators(cache, 40, Cpu)
    assert seen(sampled.evaluate(next(pods()))) == [*range(50), *range(100, 150)]


def test_a_node_that_comes_later_has_its_turn() -> None:
    """A new node was looked at with each of the others, as the order of the search lacked it."""
    cache = cluster(3)
    sampled, _ = evaluators(cache, "adaptive", Cpu, any_will_do=True)
    pod = next(pods())
    assert sampled.evaluate(pod).best().tolist() == [0]
    cache.add_node(make_node("later", cpu="4"))
    assert [sampled.evaluate(pod).best().tolist() for _ in range(4)] == [[1], [2], [3], [0]]


def test_small_clusters_are_looked_at_whole() -> None:
    """Below 100 nodes a sample changes nothing, and shares what pods share."""
    sampled, _ = evaluators(cluster(99), 1, Cpu)
    generator = pods()
    assert sampled.evaluate(next(generator)) is sampled.evaluate(next(generator))


def test_one_node_is_enough_without_score_plugins() -> None:
    """The first feasible node from where the last search ended."""
    sampled, _ = evaluators(cluster(5, full=[0]), "adaptive", Cpu, any_will_do=True)
    pod = next(pods())
    assert [sampled.evaluate(pod).best().tolist() for _ in range(5)] == [[1], [2], [3], [4], [1]]


def test_a_sample_in_which_all_fail_is_everything() -> None:
    """A pod that fits nowhere was looked for everywhere, and every node says why."""
    sampled, _ = evaluators(cluster(150, full=range(150)), 10, Cpu)
    evaluation = sampled.evaluate(next(pods()))
    assert not evaluation.best().size
    assert len(evaluation.filtering.statuses()) == 150


@settings(max_examples=scaled(40), deadline=None)
@given(
    sizes=st.lists(st.sampled_from(["0", "1", "2", "4"]), min_size=100, max_size=160),
    tiers=st.lists(st.sampled_from(["a", "b", "x-never"]), min_size=160, max_size=160),
    percentage=st.sampled_from(["adaptive", 1, 60, 80]),
    cpus=st.lists(st.sampled_from(["500m", "1", "2"]), min_size=1, max_size=8),
)
def test_the_decision_is_that_of_a_cluster_of_the_nodes_looked_at(
    sizes: list[str], tiers: list[str], percentage: Percentage, cpus: list[str]
) -> None:
    """Scores and best nodes are those of a cluster in which no other node exists.

    And what pods share is untouched: without a sample, the same pods get whole answers.
    """
    nodes = [
        make_node(f"n{i}", cpu=cpu, labels={"tier": tier})
        for i, (cpu, tier) in enumerate(zip(sizes, tiers, strict=False))
    ]
    whole = Cache()
    for node in nodes:
        whole.add_node(node)
    sampled, plain = evaluators(whole, percentage, Cpu, Tier, Crowd)
    for number, cpu in enumerate(cpus):
        pod = PodInfo.of(make_pod(f"p{number}", cpu=cpu, labels={"tier": "x"}))
        evaluation = sampled.evaluate(pod)
        rows = seen(evaluation)
        part = Cache()
        for row in rows:
            part.add_node(nodes[row])
        _, alone = evaluators(part, 0, Cpu, Tier, Crowd)
        expected = alone.evaluate(pod)
        feasible = evaluation.filtering.feasible_rows()
        assert [rows[i] for i in expected.filtering.feasible_rows()] == feasible.tolist()
        assert [rows[i] for i in expected.best()] == evaluation.best().tolist()
        if feasible.size > 1:
            assert evaluation.scoring is not None
            assert expected.scoring is not None
            totals = expected.scoring.total[expected.filtering.feasible_rows()]
            np.testing.assert_array_equal(evaluation.scoring.total[feasible], totals)
        fits = [i for i, node in enumerate(nodes) if _fits(node.status.allocatable["cpu"], cpu)]
        fits = [i for i in fits if tiers[i] != "x-never"]
        assert plain.evaluate(pod).filtering.feasible_rows().tolist() == fits


def _fits(size: object, cpu: str) -> bool:
    return float(str(size)) >= {"500m": 0.5, "1": 1.0, "2": 2.0}[cpu]
