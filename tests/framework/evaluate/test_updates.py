"""Functions of rows: what plugins say of a few changed rows, with the answers of their hooks.

Few changed rows: plugins that read a row, a node and the whole cluster, together.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from policy_sched import framework
from policy_sched.cluster import Cache
from policy_sched.errors import PluginError
from policy_sched.framework.evaluate import Evaluator
from policy_sched.framework.runtime import MetricsRecorder, Runner
from policy_sched.framework.status import Code
from policy_sched.model import PodInfo
from policy_sched.plugins.interpodaffinity import InterPodAffinity
from policy_sched.plugins.podtopologyspread import PodTopologySpread
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled
from tests.finite import chooser
from tests.framework.evaluate.test_evaluator import Beside, handle_of, pipeline_of
from tests.framework.examples import FULL, Crowd, Few, Grade, Tier
from tests.plugins import neighbourhoods


def world(nodes: int = 3) -> Cache:
    cache = Cache()
    for number in range(nodes):
        cache.add_node(make_node(f"n{number}"))
    return cache


def test_a_row_that_stays_feasible_is_updated_by_its_row_functions() -> None:
    """The plugin itself runs once, for all rows; for the changed row its row functions run."""
    cache = world()
    plugin = Few(cache)
    runner = Runner(pipeline_of({"Few": plugin}, cache))
    evaluator = Evaluator(runner, cache.nodes)
    evaluator.evaluate(PodInfo.of(make_pod("a")))
    plugin.calls.clear()
    cache.assume(PodInfo.of(make_pod("b")), "n1")
    scoring = evaluator.evaluate(PodInfo.of(make_pod("c"))).scoring
    assert plugin.calls == ["row", "row"]
    assert scoring is not None
    assert scoring.weighted(np.arange(3)) == {"Few": [100, 99, 100]}


def test_a_row_that_no_longer_passes_is_explained_by_its_plugin() -> None:
    """The plugin that rejects a row is named, with its words."""
    cache = world()
    plugin = Few(cache, most=1)
    evaluator = Evaluator(Runner(pipeline_of({"Few": plugin}, cache)), cache.nodes)
    evaluator.evaluate(PodInfo.of(make_pod("a")))
    cache.assume(PodInfo.of(make_pod("b")), "n1")
    filtering = evaluator.evaluate(PodInfo.of(make_pod("c"))).filtering
    assert filtering.statuses() == {1: FULL.by("Few")}


def test_a_rule_that_fails_on_a_row_is_named() -> None:
    """The error is that of the plugin, in upstream's words."""
    cache = world()
    evaluator = Evaluator(Runner(pipeline_of({"Few": Few(cache, poison=1)}, cache)), cache.nodes)
    evaluator.evaluate(PodInfo.of(make_pod("a")))
    cache.assume(PodInfo.of(make_pod("b")), "n1")
    with pytest.raises(PluginError, match='running "Few" filter plugin: poison'):
        evaluator.evaluate(PodInfo.of(make_pod("c")))


def test_sampled_plugins_are_called_and_measured_one_by_one() -> None:
    """Durations of single plugins are those of the plugins."""
    cache = world()
    plugin, recorder = Few(cache), MetricsRecorder(lambda: 0.0)
    runner = Runner(pipeline_of({"Few": plugin}, cache), recorder)
    evaluator = Evaluator(runner, cache.nodes)
    evaluator.evaluate(PodInfo.of(make_pod("a")))
    runner.sample(True)
    plugin.calls.clear()
    cache.assume(PodInfo.of(make_pod("b")), "n1")
    evaluator.evaluate(PodInfo.of(make_pod("c")))
    assert plugin.calls == ["rows", "rows"]
    assert recorder.plugins == {
        ("Few", "Filter", "Success"): [0.0],
        ("Few", "Score", "Success"): [0.0],
    }


def test_a_plugin_without_row_functions_is_called() -> None:
    """One such plugin is enough: then all plugins run one by one."""

    class Plain:
        @framework.hookimpl
        def sign_pod(self) -> framework.Signature:
            return framework.Signature(frozenset(), framework.Scope.NODE)

        @framework.hookimpl
        def filter(self) -> framework.FilterResult:
            return framework.FilterResult.of(np.zeros(0, np.int16))

    cache = world()
    runner = Runner(pipeline_of({"Few": Few(cache), "Plain": Plain()}, cache))
    rules = runner.pipeline.rules
    assert rules is not None
    assert rules.rows([(0, "Few"), (1, "Plain")], ()) is None
    assert rules.rows([(0, "Few")], ()) is not None


@settings(max_examples=scaled(60), deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=20),
    most=st.integers(1, 4),
)
def test_row_functions_answer_as_a_fresh_evaluation(
    steps: list[tuple[int, bool]], most: int
) -> None:
    """Whatever comes and goes, also where a row fills up and empties again."""
    cache = world()
    plugins = {"Few": Few(cache, most), "Other": Few(cache, 3)}
    both = Beside(Runner(pipeline_of(plugins, cache)), cache)
    for number, (row, leaves) in enumerate(steps):
        if leaves and both.running:
            both.stop(row)
        else:
            both.start(PodInfo.of(make_pod(f"r{number}")), f"n{row}")
        both.check(PodInfo.of(make_pod(f"p{number}")))


@settings(max_examples=scaled(100), deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 4), st.sampled_from("+++-?")), max_size=40),
    most=st.integers(1, 3),
    kinds=st.sampled_from([(), (Tier,), (Crowd,)]),
    reverse=st.booleans(),
)
def test_rows_that_come_and_go_are_answered_as_by_a_fresh_evaluation(
    steps: list[tuple[int, str]], most: int, kinds: tuple[type, ...], reverse: bool
) -> None:
    """Also several at once, beside filters and normalised scores that have no functions."""
    cache = Cache()
    for number, tier in enumerate(["a", "b", "x-never", "", "c"]):
        cache.add_node(make_node(f"n{number}", labels={"tier": tier} if tier else {}))
    handle = handle_of(cache)
    plugins: dict[str, object] = {
        "Few": Few(cache, most, coded=True),
        "Other": Few(cache, 3, coded=True),
        **{kind.__name__: kind(handle) for kind in kinds},
    }
    runner = Runner(pipeline_of(dict(reversed(plugins.items())) if reverse else plugins, cache))
    both = Beside(runner, cache)
    for number, (row, step) in enumerate(steps):
        if step == "-" and both.running:
            both.stop(row)
        elif step == "+":
            both.start(PodInfo.of(make_pod(f"r{number}")), f"n{row}")
        else:
            both.check(PodInfo.of(make_pod(f"p{number}", labels={"tier": "x"} if row % 2 else {})))


def test_a_row_that_fills_up_is_rejected_by_a_row_function() -> None:
    """Once a filter has described a rejection it is called for no further row."""
    cache = world(4)
    plugin = Few(cache, most=1, coded=True)
    evaluator = Evaluator(Runner(pipeline_of({"Few": plugin}, cache)), cache.nodes)
    for number in range(2):
        evaluator.evaluate(PodInfo.of(make_pod(f"a{number}")))
        cache.assume(PodInfo.of(make_pod(f"b{number}")), f"n{number}")
    evaluator.evaluate(PodInfo.of(make_pod("a2")))
    plugin.calls.clear()
    cache.assume(PodInfo.of(make_pod("b2")), "n2")
    filtering = evaluator.evaluate(PodInfo.of(make_pod("a3"))).filtering
    assert plugin.calls == ["row"]
    assert filtering.statuses() == dict.fromkeys(range(3), FULL.by("Few"))


ZONES = ["", "z1", "z1", "z1", "z2", "z2", "z2", "z2", "z2"]
NAMES = [f"n{number}" for number in range(len(ZONES))]


def zones() -> Cache:
    cache = Cache()
    for name, zone in zip(NAMES, ZONES, strict=True):
        labels = {neighbourhoods.HOSTNAME: name} | ({neighbourhoods.ZONE: zone} if zone else {})
        cache.add_node(make_node(name, labels=labels))
    return cache


@settings(max_examples=scaled(60), deadline=None)
@given(data=st.data())
def test_kept_answers_beside_neighbours_are_those_of_a_fresh_evaluation(
    data: st.DataObject,
) -> None:
    """Whatever comes and goes: rows fill up, are shut by other pods and open again."""
    cache, choose = zones(), chooser(data.draw)
    handle = neighbourhoods.handle_of(cache)
    plugins = {
        "Few": Few(cache, most=3),
        "Grade": Grade(cache, choose([0, 0, 4])),
        "PodTopologySpread": PodTopologySpread({}, handle),
        "InterPodAffinity": InterPodAffinity({}, handle),
    }
    both = Beside(Runner(pipeline_of(plugins, cache)), cache)
    waiting = [data.draw(neighbourhoods.pods(f"w{number}")) for number in range(2)]
    kinds = [*waiting, data.draw(neighbourhoods.pods("other"))]
    for number in range(data.draw(st.integers(1, 10))):
        if both.running and choose([False, False, True]):
            both.stop(choose(range(len(both.running))))
        else:
            model = choose(kinds).pod
            metadata = type(model.metadata)(
                name=f"r{number}",
                namespace=model.metadata.namespace,
                labels=model.metadata.labels,
            )
            pod = PodInfo.of(type(model)(metadata=metadata, spec=model.spec))
            both.start(pod, choose(NAMES))
        for pod in waiting:
            both.check(pod)


class Liked(Grade):
    """Prefers nodes with many pods, by what runs in the whole cluster."""

    @framework.hookimpl
    def sign_pod(self) -> framework.Signature:
        """Say that it reads the whole cluster."""
        return framework.Signature(
            frozenset(),
            framework.Scope.CLUSTER,
            proved=True,
            kernel=framework.RowKernel(normalizes_by_extremes=True),
        )

    @framework.hookimpl
    def score(self, rows: framework.Rows) -> framework.Scores:
        """Return the number of pods, and more in the first rows."""
        table = self._table
        found = [len(table.pods_on(row)) * self._last + row % 3 for row in range(table.n)]
        return np.array(found) if rows is None else np.array(found)[rows]


@settings(max_examples=scaled(60), deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=12),
    each=st.sampled_from([-2, 1, 3]),
)
def test_few_scores_are_normalised_as_all_of_them(steps: list[tuple[int, bool]], each: int) -> None:
    """Whether a changed score is the lowest, the highest or one in between, before or after."""
    cache = zones()
    plugins = {"Few": Few(cache, 3), "Liked": Liked(cache, each)}
    both = Beside(Runner(pipeline_of(plugins, cache)), cache)
    for number, (row, leaves) in enumerate(steps):
        if leaves and both.running:
            both.stop(row)
        else:
            both.start(PodInfo.of(make_pod(f"r{number}")), NAMES[row])
        both.check(PodInfo.of(make_pod(f"p{number}")))


class Sole:
    """Rejects nodes that have pods already; ``answers``: what it returns, the same one again."""

    def __init__(self, cache: Cache) -> None:
        self._table = cache.nodes
        self._codes: framework.Codes | None = None

    @framework.hookimpl
    def sign_pod(self) -> framework.Signature:
        """Say that it reads the whole cluster."""
        return framework.Signature(frozenset(), framework.Scope.CLUSTER)

    @framework.hookimpl
    def filter(self, rows: framework.Rows) -> framework.FilterResult:
        """Write to the codes that were returned before."""
        if self._codes is None:
            self._codes = np.zeros(self._table.n, np.int16)
        self._codes[:] = [bool(self._table.pods_on(row)) for row in range(self._table.n)]
        found = self._codes if rows is None else self._codes[rows]
        return framework.FilterResult.of(found, framework.Status(Code.UNSCHEDULABLE, ("taken",)))


def test_codes_that_a_plugin_writes_to_are_read_anew() -> None:
    """Only a read-only array that is returned again means that nothing has changed."""
    cache = zones()
    runner = Runner(pipeline_of({"Few": Few(cache), "Sole": Sole(cache)}, cache))
    evaluator = Evaluator(runner, cache.nodes)
    for number in range(3):
        filtering = evaluator.evaluate(PodInfo.of(make_pod(f"p{number}"))).filtering
        assert filtering.feasible_rows().tolist() == list(range(number, len(NAMES)))
        cache.assume(PodInfo.of(make_pod(f"r{number}")), NAMES[number])
