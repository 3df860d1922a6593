"""Answers that are kept: per pod's fields, until a node changes, and across pipelines."""

from __future__ import annotations

from policy_sched.cluster.cache import Cache
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.evaluate.caches import (
    MISSES,
    EvaluationCache,
    StaticResultCache,
)
from policy_sched.framework.hookspecs import hookimpl
from policy_sched.framework.results import Rows, Scope, Scores, Signature
from policy_sched.framework.runtime.pipeline import Hook, freeze, plugin_manager
from policy_sched.framework.runtime.runner import Runner
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod


class Counting:
    """Scores by how often it was asked; reads one label."""

    def __init__(self, cache: Cache) -> None:
        self._table = cache.nodes
        self.asked = 0

    @hookimpl
    def sign_pod(self) -> Signature:
        return Signature(frozenset({("labels", "app")}), Scope.STATIC)

    @hookimpl
    def score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        self.asked += 1
        values = self._table.live.values[: self._table.n].astype("int64")
        return values if rows is None else values[rows]


def runner_of(**plugins: object) -> Runner:
    """Return a runner of a pipeline whose score plugins these are."""
    order = {"score": [(name, 1) for name in plugins]}
    return Runner(freeze("default-scheduler", plugin_manager(plugins), order))


def ask(answers: StaticResultCache, runner: Runner, app: str = "a") -> None:
    """Ask every score plugin about a pod with that label."""
    pod = PodInfo.of(make_pod("p", labels={"app": app}))
    for hook in hooks(runner):
        answers.call("score", hook, CycleState(), pod)


def hooks(runner: Runner) -> tuple[Hook, ...]:
    """Return the score plugins."""
    return runner.pipeline.at("score")


def test_an_answer_is_kept_per_field_until_a_node_changes() -> None:
    """Another value of the label is another question."""
    cache = Cache()
    cache.add_node(make_node("n"))
    plugin = Counting(cache)
    runner = runner_of(One=plugin)
    answers = StaticResultCache(runner, cache.nodes, kept=True)
    ask(answers, runner)
    ask(answers, runner)
    assert plugin.asked == 1
    ask(answers, runner, "b")
    assert plugin.asked == 2
    cache.update_node(make_node("n", labels={"zone": "z"}))
    ask(answers, runner)
    assert plugin.asked == 3


def test_another_pipeline_takes_over_results_of_unchanged_plugins() -> None:
    """A plugin that was made anew is asked again, and so is everybody after a change of a node."""
    cache = Cache()
    cache.add_node(make_node("n"))
    same, old, new = Counting(cache), Counting(cache), Counting(cache)
    before, after = runner_of(Same=same, Other=old), runner_of(Same=same, Other=new)
    first = StaticResultCache(before, cache.nodes, kept=True)
    ask(first, before)
    second = StaticResultCache(after, cache.nodes, kept=True)
    second.take_over(first)
    ask(second, after)
    assert (same.asked, old.asked, new.asked) == (1, 1, 1)
    ask(second, after, "b")
    ask(first, before, "b")
    assert same.asked == 3  # each goes on by itself
    cache.add_node(make_node("m"))
    ask(second, after)
    assert same.asked == 4


def test_an_uncached_evaluator_takes_nothing_over() -> None:
    """Neither does another table's."""
    cache, other = Cache(), Cache()
    cache.add_node(make_node("n"))
    other.add_node(make_node("n"))
    plugin = Counting(cache)
    runner = runner_of(One=plugin)
    first = StaticResultCache(runner, cache.nodes, kept=True)
    ask(first, runner)
    for answers in (
        StaticResultCache(runner, cache.nodes, kept=False),
        StaticResultCache(runner, other.nodes, kept=True),
    ):
        answers.take_over(first)
        asked = plugin.asked
        ask(answers, runner)
        assert plugin.asked == asked + 1


def test_pods_that_recur_are_found_again_after_many_that_are_all_different() -> None:
    """Different pods are hardly looked up after a while; once one recurs, its result is kept."""
    cache = Cache()
    cache.add_node(make_node("n"))
    plugin = Counting(cache)
    runner = runner_of(One=plugin)
    answers = StaticResultCache(runner, cache.nodes, kept=True)
    (hook,) = hooks(runner)
    for number in range(1000):
        ask(answers, runner, str(number))
    assert plugin.asked == 1000
    for _ in range(100):
        pod = PodInfo.of(make_pod("p", labels={"app": "same"}))
        assert answers.call("score", hook, CycleState(), pod).tolist() == [1]
    assert plugin.asked < 1000 + 20


class Sized:
    """An evaluation of one byte."""

    nbytes = 1


def test_evaluations_of_pods_that_are_all_different_are_not_kept() -> None:
    """A signature that comes again is kept, and so are new ones after it."""
    cache: EvaluationCache[Sized] = EvaluationCache()
    kept = [cache.put((number,), Sized()) for number in range(2 * MISSES)]
    assert all(kept[:MISSES])
    assert not any(kept[MISSES:])
    again = (kept.index(False),)
    assert cache.get(again) is None
    assert cache.put(again, Sized())
    assert cache.get(again) is not None
    assert cache.put(("new",), Sized())
