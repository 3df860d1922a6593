"""Functions of rows: what plugins say of a few changed rows, with the answers of their hooks."""

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
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled
from tests.framework.evaluate.test_evaluator import assert_equal, handle_of, pipeline_of
from tests.framework.examples import Crowd, Tier

FULL = framework.Status(Code.UNSCHEDULABLE, ("full",))


class Few:
    """At most ``most`` pods on a node, and the fewer the better; fails on a node with ``poison``.

    ``coded``: its function of a row knows the code. ``calls``: how it was called, by rows or by
    the functions of one row.
    """

    def __init__(
        self, cache: Cache, most: int = 3, poison: int = -1, *, coded: bool = False
    ) -> None:
        self._table = cache.nodes
        self._coded = coded
        self._most = most
        self._poison = poison
        self.calls: list[str] = []

    @framework.hookimpl
    def sign_pod(self) -> framework.Signature:
        """Read the pods of the node alone."""
        kernel = framework.RowKernel(
            framework.RowRule(self._row_code), framework.RowRule(self._row_score)
        )
        return framework.Signature(frozenset(), framework.Scope.NODE, proved=True, kernel=kernel)

    def _row_code(self, _pod: PodInfo, row: int) -> int:
        self.calls.append("row")
        rejected = 1 if self._coded else framework.NO_CODE
        return rejected if self._count(row) >= self._most else 0

    def _row_score(self, _pod: PodInfo, row: int) -> int:
        self.calls.append("row")
        return 100 - self._count(row)

    def _count(self, row: int) -> int:
        count = len(self._table.pods_on(row))
        if count == self._poison:
            raise ValueError("poison")
        return count

    def _counts(self, rows: framework.Rows) -> list[int]:
        self.calls.append("rows")
        return [self._count(row) for row in (range(self._table.n) if rows is None else rows)]

    @framework.hookimpl
    def filter(self, rows: framework.Rows) -> framework.FilterResult:
        """Refuse nodes that are full."""
        codes = [int(count >= self._most) for count in self._counts(rows)]
        return framework.FilterResult.of(np.array(codes, np.int16), FULL)

    @framework.hookimpl
    def score(self, state: framework.CycleState, rows: framework.Rows) -> framework.Scores:
        """Prefer nodes with few pods."""
        assert state is not None
        return np.array([100 - count for count in self._counts(rows)], np.int64)


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
    pipeline = pipeline_of({"Few": Few(cache, most), "Other": Few(cache, 3)}, cache)
    runner = Runner(pipeline)
    kept, plain = (
        Evaluator(runner, cache.nodes),
        Evaluator(runner, cache.nodes, cached=False),
    )
    running: list[PodInfo] = []
    for number, (row, leaves) in enumerate(steps):
        if leaves and running:
            cache.forget(running.pop(row % len(running)).uid)
        else:
            running.append(PodInfo.of(make_pod(f"r{number}")))
            cache.assume(running[-1], f"n{row}")
        pod = PodInfo.of(make_pod(f"p{number}"))
        assert_equal(kept.evaluate(pod), plain.evaluate(pod))


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
    kept, plain = (
        Evaluator(runner, cache.nodes),
        Evaluator(runner, cache.nodes, cached=False),
    )
    running: list[PodInfo] = []
    for number, (row, step) in enumerate(steps):
        if step == "-" and running:
            cache.forget(running.pop(row % len(running)).uid)
        elif step == "+":
            running.append(PodInfo.of(make_pod(f"r{number}")))
            cache.assume(running[-1], f"n{row}")
        else:
            pod = PodInfo.of(make_pod(f"p{number}", labels={"tier": "x"} if row % 2 else {}))
            assert_equal(kept.evaluate(pod), plain.evaluate(pod))


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
