"""Evaluation: the shared, patched answer is the fresh one, bit for bit."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from policy_sched import thresholds
from policy_sched.client.memory import MemoryClient
from policy_sched.cluster.cache import Cache
from policy_sched.framework import PreFilterResult, Scope, Signature
from policy_sched.framework.evaluate.evaluator import Domain, Evaluator
from policy_sched.framework.evaluate.pod_signature import key_getter
from policy_sched.framework.evaluate.results import Evaluation
from policy_sched.framework.extension_points import CONFIGURED
from policy_sched.framework.handle import Handle
from policy_sched.framework.hookspecs import hookimpl
from policy_sched.framework.runtime.pipeline import Pipeline, freeze, implementations, points_of
from policy_sched.framework.runtime.runner import Runner
from policy_sched.framework.status import SKIP, SUCCESS, Status
from policy_sched.framework.waiting_pods import WaitingPods
from policy_sched.model.pod_info import PodInfo
from policy_sched.plugins.rules import BoundFusedRules, BoundProgram, fuse_policies
from policy_sched.queue.nominator import Nominator
from policy_sched.scheduler.scheduling_cycle import select_host
from policy_sched.testing import make_node, make_pod
from policy_sched.thresholds import SEARCHES
from tests.examples import scaled
from tests.framework.examples import Cpu, Crowd, Ordinal, Shy, Tier

POD = PodInfo.of(make_pod("p"))
WEIGHTS = {"Cpu": 3, "Tier": 2, "Crowd": 5, "Ordinal": 1}


def handle_of(cache: Cache) -> Handle:
    return Handle(cache, WaitingPods(), Nominator(), MemoryClient(), lambda: 0)


def pipeline_of(plugins: dict[str, object], cache: Cache | None = None) -> Pipeline:
    """Return a pipeline that runs each plugin at every point it implements.

    ``cache``: that of plugins that have functions of a row, which are called then.
    """
    order = {
        field: [
            (name, WEIGHTS.get(name, 1))
            for name, plugin in plugins.items()
            if point in points_of(plugin)
        ]
        for field, point in CONFIGURED.items()
    }
    implemented = {name: implementations(plugin, name) for name, plugin in plugins.items()}
    pipeline = freeze("default-scheduler", implemented, order)
    if cache is None:
        return pipeline
    called = ([hook.plugin for hook in pipeline.at(point)] for point in ("filter", "score"))
    program = fuse_policies({}, *called, allocates=False)
    rules = BoundFusedRules(
        BoundProgram(program, handle_of(cache)), pipeline.signatures, "default-scheduler"
    )
    return replace(pipeline, rules=rules)


def runner_of(cache: Cache, *kinds: type) -> Runner:
    handle = handle_of(cache)
    return Runner(pipeline_of({kind.__name__: kind(handle) for kind in kinds}))


def assert_equal(shared: Evaluation, fresh: Evaluation) -> None:
    feasible = fresh.filtering.feasible_rows()
    np.testing.assert_array_equal(shared.filtering.first, fresh.filtering.first)
    assert shared.filtering.statuses() == fresh.filtering.statuses()
    assert (shared.scoring is None) == (fresh.scoring is None)
    if shared.scoring is not None and fresh.scoring is not None:
        np.testing.assert_array_equal(shared.scoring.total, fresh.scoring.total)
        # After so many searches the rows are grouped by their totals.
        chosen = {select_host(shared, Random(1), POD) for _ in range(SEARCHES)}
        assert chosen == {select_host(fresh, Random(1), POD)}
        assert shared.scoring.weighted(feasible) == fresh.scoring.weighted(feasible)
        for place, row in enumerate(feasible.tolist()):
            parts = {name: own[place] for name, own in fresh.scoring.weighted(feasible).items()}
            assert shared.scoring.shares_of(row) == parts


NODES = [
    make_node(f"n{i}", cpu=cpu, labels=labels)
    for i, (cpu, labels) in enumerate(
        [("2", {"tier": "a"}), ("4", {"tier": "b"}), ("1", {}), ("4", {"tier": "x-never"})]
    )
]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("assume"), st.integers(0, 3), st.sampled_from(["500m", "1", "2"])),
        st.tuples(st.just("forget"), st.integers(0, 20), st.just("")),
        st.tuples(st.just("come and go"), st.integers(0, 3), st.just("")),
        st.tuples(st.just("relabel"), st.integers(0, 3), st.sampled_from(["a", "b", "x-never"])),
        st.tuples(st.just("evaluate"), st.integers(0, 1), st.sampled_from(["500m", "1", "3"])),
    ),
    max_size=25,
)


class Beside:
    """An evaluator that keeps results beside one that keeps none, while pods come and go."""

    def __init__(self, runner: Runner, cache: Cache) -> None:
        self.cache = cache
        self.kept = Evaluator(runner, cache.nodes)
        self.fresh = Evaluator(runner, cache.nodes, cached=False)
        self.running: list[PodInfo] = []

    def start(self, pod: PodInfo, node: str) -> None:
        """Let a pod run on a node."""
        self.cache.assume(pod, node)
        self.running.append(pod)

    def stop(self, index: int) -> None:
        """Take the pod of a number away."""
        self.cache.forget(self.running.pop(index % len(self.running)).uid)

    def check(self, pod: PodInfo) -> None:
        """Raise AssertionError unless both evaluate a pod alike."""
        assert_equal(self.kept.evaluate(pod), self.fresh.evaluate(pod))


def come_and_go(cache: Cache, node: str) -> None:
    """Let so many pods come and go that a kept answer is far behind."""
    for number in range(thresholds.FEW_ROWS):
        pod = PodInfo.of(make_pod(f"brief-{number}", cpu="1m"))
        cache.assume(pod, node)
        cache.forget(pod.uid)


@settings(max_examples=scaled(60), deadline=None)
@given(
    steps=STEPS,
    kinds=st.sampled_from([(Cpu, Tier), (Cpu, Tier, Crowd), (Tier,), (Cpu, Shy), (Cpu,)]),
)
def test_shared_evaluation_equals_a_fresh_one(
    steps: list[tuple[str, int, str]], kinds: tuple[type, ...]
) -> None:
    """Whatever happened to the cluster, equal pods get the answer that a fresh look gives."""
    cache = Cache()
    for node in NODES:
        cache.add_node(node)
    both = Beside(runner_of(cache, *kinds), cache)
    for number, (kind, index, text) in enumerate(steps):
        if kind == "assume":
            both.start(PodInfo.of(make_pod(f"running-{number}", cpu=text)), f"n{index}")
        elif kind == "forget" and both.running:
            both.stop(index)
        elif kind == "come and go":
            come_and_go(cache, f"n{index}")
        elif kind == "relabel":
            cache.update_node(make_node(f"n{index}", cpu="2", labels={"tier": text}))
        else:
            labels = {"tier": "x"} if index else {}
            both.check(PodInfo.of(make_pod(f"new-{number}", cpu=text or "1", labels=labels)))


@settings(max_examples=scaled(60), deadline=None)
@given(
    steps=STEPS,
    kinds=st.sampled_from([(Cpu, Tier), (Cpu, Tier, Crowd), (Tier,), (Cpu, Shy), (Cpu, Ordinal)]),
    inside=st.sets(st.integers(0, 3)),
)
def test_a_cached_evaluation_of_a_domain_equals_a_fresh_one(
    steps: list[tuple[str, int, str]], kinds: tuple[type, ...], inside: set[int]
) -> None:
    """Only its nodes count, and an answer that was frozen before does not move."""
    cache = Cache()
    for node in NODES:
        cache.add_node(node)
    runner = runner_of(cache, *kinds)
    evaluator, plain = (
        Evaluator(runner, cache.nodes),
        Evaluator(runner, cache.nodes, cached=False),
    )
    outside = np.array(sorted(set(range(4)) - inside), np.intp)
    domain = Domain(outside)
    assumed: list[PodInfo] = []
    kept: list[tuple[Evaluation, list[int], list[int]]] = []
    notes: list[tuple[Evaluation, int, list[int], dict[str, list[int]]]] = []
    for number, (kind, index, text) in enumerate(steps):
        if kind == "assume":
            pod = PodInfo.of(make_pod(f"running-{number}", cpu=text))
            cache.assume(pod, f"n{index}")
            assumed.append(pod)
        elif kind == "forget" and assumed:
            cache.forget(assumed.pop(index % len(assumed)).uid)
        elif kind == "come and go":
            come_and_go(cache, f"n{index}")
        elif kind == "evaluate":
            labels = {"tier": "x"} if index else {}
            pod = PodInfo.of(make_pod(f"new-{number}", cpu=text or "1", labels=labels))
            found = evaluator.evaluate(pod, domain)
            assert_equal(found, plain.evaluate(pod, Domain(outside)))
            rows = found.filtering.feasible_rows().tolist()
            assert set(rows) <= inside
            total = [] if found.scoring is None else found.scoring.total.tolist()
            kept.append((found.snapshot(), rows, total))
            if rows and found.scoring is not None:
                shares = found.scoring.weighted(np.array(rows[:1], np.intp))
                notes.append((found.summary(rows[0], None), total[rows[0]], rows, shares))
    for frozen, rows, total in kept:
        assert frozen.filtering.feasible_rows().tolist() == rows
        assert ([] if frozen.scoring is None else frozen.scoring.total.tolist()) == total
    for note, score, rows, shares in notes:
        assert note.filtering.feasible_rows().tolist() == rows
        assert note.scoring is not None
        assert note.scoring.total.item(rows[0]) == score
        assert note.scoring.weighted(np.array(rows[:1], np.intp)) == shares


def test_equal_pods_share_one_evaluation() -> None:
    """Two pods that differ only in what no plugin reads are answered from one evaluation."""
    cache = Cache()
    cache.add_node(NODES[0])
    evaluator = Evaluator(runner_of(cache, Cpu), cache.nodes)
    first = evaluator.evaluate(PodInfo.of(make_pod("a", cpu="1", labels={"x": "1"})))
    second = evaluator.evaluate(PodInfo.of(make_pod("b", cpu="1", labels={"x": "2"})))
    third = evaluator.evaluate(PodInfo.of(make_pod("c", cpu="2")))
    assert first is second
    assert third is not first


class Picky:
    """Has something to do with pods that have labels; counts how often PreFilter runs."""

    ran = 0

    def __init__(self, handle: Handle) -> None:
        del handle

    @hookimpl
    def sign_pod(self) -> Signature:
        """Distinguish pods by their labels; None without."""
        return Signature(frozenset(), Scope.CLUSTER, keys=(lambda pod: pod.labels_key or None,))

    @hookimpl
    def pre_filter(self, pod: PodInfo) -> PreFilterResult:
        """Skip pods without labels."""
        type(self).ran += 1
        return PreFilterResult() if pod.labels else PreFilterResult(SKIP)

    @hookimpl
    def reserve(self) -> Status:
        """Agree."""
        return SUCCESS


@pytest.mark.parametrize(("labels", "runs"), [({}, 0), ({"app": "web"}, 2)])
def test_a_plugin_without_a_key_for_the_pod_does_not_run(labels: dict[str, str], runs: int) -> None:
    """Nor does it reserve: what it would answer is known for all pods of the signature."""
    cache = Cache()
    cache.add_node(NODES[0])
    evaluator = Evaluator(runner_of(cache, Cpu, Picky), cache.nodes)
    Picky.ran = 0
    for name in ("a", "b"):
        pod = PodInfo.of(make_pod(name, cpu="100m", labels=labels))
        found = evaluator.evaluate(pod)
        cache.assume(pod, "n0")
    assert Picky.ran == runs
    assert [hook.plugin for hook in found.filtering.hooks["reserve"]] == ["Picky"] * bool(labels)


def test_an_unsigned_plugin_runs_for_every_pod() -> None:
    """Without a signature nothing is shared, not even between pods that are alike."""
    cache = Cache()
    cache.add_node(NODES[0])
    evaluator = Evaluator(runner_of(cache, Cpu, Ordinal), cache.nodes)
    pod = PodInfo.of(make_pod("a", cpu="1"))
    assert evaluator.evaluate(pod) is not evaluator.evaluate(pod)


@pytest.mark.parametrize(
    ("fields", "same", "other"),
    [
        (frozenset(), make_pod("a"), None),
        (frozenset({("requests",)}), make_pod("a", labels={"x": "1"}), make_pod("a", cpu="1")),
        (
            frozenset({("labels", "x"), ("namespace",)}),
            make_pod("a", labels={"y": "1"}),
            make_pod("a", labels={"x": "1"}),
        ),
        (
            frozenset({("namespaceObject", "labels", "t")}),
            make_pod("z"),
            make_pod("a", namespace="b"),
        ),
    ],
)
def test_a_key_is_equal_exactly_where_the_fields_are(fields, same, other) -> None:  # type: ignore[no-untyped-def]  # a table of pods
    """Pods that agree in the read fields have one key; pods that do not have two."""
    key = key_getter(Signature(fields, Scope.STATIC))
    assert key(PodInfo.of(make_pod("a"))) == key(PodInfo.of(same))
    if other is not None:
        assert key(PodInfo.of(make_pod("a"))) != key(PodInfo.of(other))
    hash(key(PodInfo.of(same)))
