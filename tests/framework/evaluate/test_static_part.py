"""Static parts: pods that differ in requests, or in tolerations of no taint, share the rest."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from hypothesis import given, strategies as st

from policy_sched import framework
from policy_sched.cluster import Cache
from policy_sched.framework.evaluate import Evaluator
from policy_sched.framework.runtime import Runner
from policy_sched.model import Node, PodInfo
from policy_sched.scheduler.setup import build
from policy_sched.testing import make_node, make_pod
from tests.framework.evaluate.test_evaluator import assert_equal, handle_of, pipeline_of
from tests.framework.examples import Cpu

PREFERRED = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 5,
                "preference": {
                    "matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]
                },
            }
        ]
    }
}
NAMED = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
            ]
        }
    }
}
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "disk",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app": "x"}},
}
WRONG = framework.Status(framework.Code.UNSCHEDULABLE, ("another row",))
TAINTS = ["a=1:NoSchedule", "a=2:PreferNoSchedule", "b=1:PreferNoSchedule", "c=1:NoExecute"]


@st.composite
def some_nodes(draw: st.DrawFn, name: str) -> Node:
    """A node with few resources, perhaps tainted, labelled or cordoned."""
    return make_node(
        name,
        cpu=draw(st.sampled_from(["1", "2", "4"])),
        memory=draw(st.sampled_from(["1Gi", "4Gi"])),
        pods=draw(st.sampled_from([2, 110])),
        labels=draw(st.sampled_from([{}, {"disk": "ssd"}, {"disk": "hdd"}])),
        taints=draw(st.sets(st.sampled_from(TAINTS), max_size=2)),
        unschedulable=draw(st.integers(0, 9)) == 0,
        images=draw(st.sampled_from([{}, {"big:1": 900_000_000}])),
    )


@st.composite
def some_pods(draw: st.DrawFn, name: str) -> PodInfo:
    """A pod with one of few shapes."""
    key = draw(st.sampled_from(["", "a", "b", "c", "none", "node.kubernetes.io/unschedulable"]))
    return PodInfo.of(
        make_pod(
            name,
            cpu=draw(st.sampled_from([None, "100m", "900m", "3"])),
            memory=draw(st.sampled_from([None, "100Mi", "2Gi"])),
            tolerations=[{"key": key, "operator": "Exists"}] if draw(st.booleans()) else [],
            node_selector=draw(st.sampled_from([{}, {}, {"disk": "ssd"}])),
            affinity=draw(st.sampled_from([None, None, PREFERRED, NAMED])),
            images=draw(st.sampled_from([[], ["big:1"]])),
            labels={"app": "x"},
            topology_spread_constraints=[SPREAD] if draw(st.integers(0, 3)) == 0 else [],
            host_ports=draw(st.sampled_from([[], [], [80]])),
        )
    )


@given(data=st.data())
def test_a_pod_with_a_known_static_part_gets_what_a_fresh_evaluation_gives(
    data: st.DataObject,
) -> None:
    """With the default profile, whatever pods came, went, or were evaluated before."""
    scheduler = build()
    cache = scheduler.cache
    names = [f"n{i}" for i in range(data.draw(st.integers(1, 5)))]
    for name in names:
        cache.add_node(data.draw(some_nodes(name)))
    profile = scheduler.profiles["default-scheduler"]
    shared, fresh = profile.evaluator, Evaluator(profile.runner, cache.nodes, cached=False)
    running: list[PodInfo] = []
    waiting: list[PodInfo] = []
    for number in range(data.draw(st.integers(2, 12))):
        step = data.draw(st.sampled_from(["assume", "assume", "forget", "node", "none"]))
        if step == "assume":
            cache.assume(
                pod := data.draw(some_pods(f"r{number}")), data.draw(st.sampled_from(names))
            )
            running.append(pod)
        elif step == "forget" and running:
            cache.forget(running.pop().uid)
        elif step == "node":
            cache.update_node(data.draw(some_nodes(data.draw(st.sampled_from(names)))))
        waiting.append(data.draw(some_pods(f"w{number}")))
        for pod in waiting[-3:]:
            one, other = shared.evaluate(pod), fresh.evaluate(pod)
            assert_equal(one, other)
            assert one.parts == other.parts
            assert one.best().tolist() == other.best().tolist()


def test_a_pod_that_no_longer_fits_a_node_leaves_the_scores_of_others() -> None:
    """A spread pod is evaluated again after a node filled up; a smaller pod still fits there."""
    scheduler = build()
    cache = scheduler.cache
    for i in range(3):
        cache.add_node(make_node(f"n{i}", cpu="4", labels={"disk": "ssd"}))
    profile = scheduler.profiles["default-scheduler"]
    shared, fresh = profile.evaluator, Evaluator(profile.runner, cache.nodes, cached=False)
    large, small = (
        PodInfo.of(
            make_pod(name, cpu=cpu, labels={"app": "x"}, topology_spread_constraints=[SPREAD])
        )
        for name, cpu in (("large", "3"), ("small", "1"))
    )
    other = PodInfo.of(make_pod("other", cpu="200m", labels={"app": "x"}))
    for pod in (small, large):
        assert_equal(shared.evaluate(pod), fresh.evaluate(pod))
    cache.assume(PodInfo.of(make_pod("beside", cpu="1500m")), "n0")
    for pod in (large, other):
        assert_equal(shared.evaluate(pod), fresh.evaluate(pod))


class Static:
    """Reads the pod's labels and tolerations and counts how often it is called."""

    def __init__(self, asked: bool) -> None:
        self._asked = asked
        self.calls: Counter[str] = Counter()

    @framework.hookimpl
    def sign_pod(self) -> framework.Signature:
        """Read labels, and of tolerations what they tolerate if ``asked``."""
        fields = frozenset({("labels",), ("tolerations",)})
        asked = frozenset() if self._asked else None
        return framework.Signature(
            fields,
            framework.Scope.STATIC,
            proved=True,
            kernel=framework.RowKernel(asked_taints=asked),
        )

    @framework.hookimpl
    def filter(self, rows: framework.Rows) -> framework.FilterResult:
        """Pass everywhere."""
        self.calls["filter"] += 1
        return framework.FilterResult(None, lambda _rows, _codes: [])


class Requests:
    """Reads requests, and prefers the first node."""

    @framework.hookimpl
    def sign_pod(self) -> framework.Signature:
        """Read requests."""
        return framework.Signature(frozenset({("requests",)}), framework.Scope.NODE, proved=True)

    @framework.hookimpl
    def score(self, rows: framework.Rows) -> framework.Scores:
        """Return less for later rows."""
        return np.array([9, 5, 1] if rows is None else 9 - 4 * rows, np.int64)


def calls_of(pods: list[PodInfo], *, asked: bool, tainted: bool = False) -> int:
    """Return how often the static filter was called for some pods."""
    cache, plugin = Cache(), Static(asked)
    for i in range(3):
        cache.add_node(make_node(f"n{i}", taints=["k1=:NoSchedule"] if tainted else []))
    evaluator = Evaluator(Runner(pipeline_of({"Static": plugin, "R": Requests()})), cache.nodes)
    for pod in pods:
        assert evaluator.evaluate(pod).best().tolist() == [0]
    return plugin.calls["filter"]


def test_pods_that_differ_in_requests_share_static_answers() -> None:
    """The static filter is called once for them, and once more for another label."""
    pods = [PodInfo.of(make_pod(f"p{i}", cpu=f"{i + 1}m")) for i in range(4)]
    pods.append(PodInfo.of(make_pod("other", cpu="1m", labels={"a": "b"})))
    assert calls_of(pods, asked=True) == calls_of(pods, asked=False) == 2


def test_tolerations_of_taints_that_no_node_has_do_not_matter() -> None:
    """Where a plugin says that it asks no more of them; a taint of a node tells pods apart."""
    pods = [
        PodInfo.of(make_pod(f"p{i}", tolerations=[{"key": f"k{i}", "operator": "Exists"}]))
        for i in range(3)
    ]
    assert calls_of(pods, asked=True) == 1
    assert calls_of(pods, asked=True, tainted=True) == 2
    assert calls_of(pods, asked=False) == 3


@dataclass(frozen=True)
class WantedRow:
    """The only row for a pod."""

    row: int


class Prepared:
    """Reads labels in PreFilter, and passes the nodes whose rows it wrote down then."""

    @framework.hookimpl
    def sign_pod(self) -> framework.Signature:
        """Read labels."""
        return framework.Signature(frozenset({("labels",)}), framework.Scope.STATIC, proved=True)

    @framework.hookimpl
    def pre_filter(self, state: framework.CycleState, pod: PodInfo) -> framework.PreFilterResult:
        """Write down the row; skip pods without one."""
        if "row" not in pod.labels:
            return framework.PreFilterResult(framework.SKIP)
        state.write(WantedRow(int(pod.labels["row"])))
        return framework.PreFilterResult()

    @framework.hookimpl
    def filter(self, state: framework.CycleState, rows: framework.Rows) -> framework.FilterResult:
        """Pass that row."""
        wanted = state.read(WantedRow)
        assert wanted is not None, "PreFilter ran"
        found = np.arange(3) if rows is None else rows
        return framework.FilterResult(
            (found != wanted.row).astype(np.int16), lambda _rows, codes: [WRONG] * codes.size
        )


def test_a_static_plugin_finds_what_it_prepared_for_the_pod() -> None:
    """Of every pod, though its filter did not run again; one that skipped has prepared nothing."""
    cache = Cache()
    for i in range(3):
        cache.add_node(make_node(f"n{i}"))
    plugins = {"Prepared": Prepared(), "R": Requests()}
    evaluator = Evaluator(Runner(pipeline_of(plugins)), cache.nodes)
    for i, labels in enumerate([{"row": "1"}, {"row": "1"}, {"row": "2"}, {}, {}]):
        pod = PodInfo.of(make_pod(f"p{i}", cpu=f"{i + 1}m", labels=labels))
        found = evaluator.evaluate(pod)
        assert found.best().tolist() == [int(labels.get("row", 0))]
        wanted = found.state.read(WantedRow)
        assert (wanted is None) == (not labels)
        dry_run = found.filtering.filter_dry_run
        rows = np.arange(3)
        fits = dry_run.fits(cache.nodes, found.state, pod, rows)
        assert fits.tolist() == [not labels or row == int(labels["row"]) for row in range(3)]


@dataclass(frozen=True)
class Best:
    """The highest score of the nodes for a pod."""

    score: int


class Scaled:
    """Reads labels in PreScore; the best of the feasible nodes gets the score of the pod."""

    @framework.hookimpl
    def sign_pod(self) -> framework.Signature:
        """Read labels."""
        fields = frozenset({("labels",)})
        kernel = framework.RowKernel(normalizes_by_extremes=True)
        return framework.Signature(fields, framework.Scope.STATIC, proved=True, kernel=kernel)

    @framework.hookimpl
    def pre_score(self, state: framework.CycleState, pod: PodInfo) -> framework.Status:
        """Write down the score."""
        state.write(Best(int(pod.labels["best"])))
        return framework.SUCCESS

    @framework.hookimpl
    def score(self, rows: framework.Rows) -> framework.Scores:
        """Prefer the last node."""
        return (np.arange(3) if rows is None else rows).astype(np.int64)

    @framework.hookimpl
    def normalize_score(
        self, state: framework.CycleState, scores: framework.Scores
    ) -> framework.Scores:
        """Scale the scores to that of the pod."""
        best = state.read(Best)
        assert best is not None, "PreScore ran"
        return scores * best.score // max(1, int(scores.max()))


def test_a_static_score_is_normalised_by_what_the_plugin_prepared() -> None:
    """Also where a larger pod does not fit the node with the highest score, and after that.

    Such a pod wrote its scores into those that smaller ones share.
    """
    cache = Cache()
    for i, cpu in enumerate(["4", "4", "1"]):
        cache.add_node(make_node(f"n{i}", cpu=cpu))
    plugins = {"Cpu": Cpu(handle_of(cache)), "Scaled": Scaled()}
    runner = Runner(pipeline_of(plugins))
    shared, fresh = (Evaluator(runner, cache.nodes, cached=cached) for cached in (True, False))
    for i, cpu in enumerate(["100m", "200m", "2", "3", "300m"]):
        pod = PodInfo.of(make_pod(f"p{i}", cpu=cpu, labels={"best": "50"}))
        assert_equal(shared.evaluate(pod), fresh.evaluate(pod))
