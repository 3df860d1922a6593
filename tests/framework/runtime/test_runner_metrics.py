"""A watched runner: durations by point, plugin and status, under a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from policy_sched.errors import PluginError
from policy_sched.framework import results
from policy_sched.framework.runtime.pipeline import Hook, Pipeline
from policy_sched.framework.runtime.runner import MetricsRecorder, Runner
from policy_sched.framework.status import SKIP, SUCCESS, WAIT, Code, Status

NO = Status(Code.UNSCHEDULABLE, ("no",))


class Watch:
    """A clock, a tape, and plugins that take a second each."""

    def __init__(self, point: str, **answers: object) -> None:
        self.seconds = 0.0
        self.recorder = MetricsRecorder(lambda: self.seconds)
        hooks = {point: tuple(Hook(name, self._slow(a)) for name, a in answers.items())}
        self.runner = Runner(Pipeline("s", hooks, {}), self.recorder)

    def _slow(self, answer: object) -> Callable[..., object]:
        def function(*_args: object) -> object:
            self.seconds += 1.0
            if isinstance(answer, Exception):
                raise answer
            return answer

        return function

    def points(self) -> dict[tuple[str, str], list[float]]:
        """Return what was measured of points."""
        return {labels: took for labels, took in self.recorder.points.items() if took}


@pytest.mark.parametrize(
    ("point", "answers", "status", "seconds"),
    [
        ("reserve", {"a": SUCCESS, "b": SUCCESS}, "Success", 2.0),
        ("reserve", {"a": NO, "b": SUCCESS}, "Unschedulable", 1.0),
        ("reserve", {"a": PluginError("x")}, "Error", 1.0),
        ("reserve", {}, "Success", 0.0),
    ],
)
def test_a_point_takes_as_long_as_its_plugins(
    point: str, answers: dict[str, object], status: str, seconds: float
) -> None:
    """Under the status that it ended with; a point without plugins takes no time."""
    watch = Watch(point, **answers)
    if status == "Error":
        with pytest.raises(PluginError):
            watch.runner.run(point)
    else:
        watch.runner.run(point)
    assert watch.points() == {("Reserve", status): [seconds]}


def test_points_with_result_types_are_measured() -> None:
    """PreFilter, PreScore, PostFilter and Permit."""
    watch = Watch("pre_filter", a=results.PreFilterResult())
    watch.runner.run("pre_filter")
    assert watch.points() == {("PreFilter", "Success"): [1.0]}
    watch = Watch("pre_score", a=SKIP, b=NO)
    watch.runner.run("pre_score")
    assert watch.points() == {("PreScore", "Unschedulable"): [2.0]}
    watch = Watch("post_filter", a=results.PostFilterResult(NO))
    watch.runner.run("post_filter")
    assert watch.points() == {("PostFilter", "Unschedulable"): [1.0]}
    watch = Watch("permit", a=results.PermitResult(WAIT, 1.0))
    watch.runner.run("permit")
    assert watch.points() == {("Permit", "Wait"): [1.0]}
    watch = Watch("reserve")
    assert watch.runner.run("permit").status == SUCCESS
    assert watch.points() == {("Permit", "Success"): [0.0]}


def test_durations_measured_by_callers_are_recorded() -> None:
    """A point that began, and how it ended; a wait for permission."""
    watch = Watch("score")
    start = watch.runner.began()
    watch.seconds += 0.5
    watch.runner.ended("score", Code.SUCCESS, start)
    watch.runner.ended("score", Code.ERROR, start)
    watch.runner.waited(Code.UNSCHEDULABLE, 3.0)
    assert watch.points() == {("Score", "Success"): [0.5], ("Score", "Error"): [0.5]}
    assert watch.recorder.waits == {("Unschedulable",): [3.0]}


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (SUCCESS, "Success"),
        (results.PreFilterResult(SKIP), "Skip"),
        (results.PASSES, "Success"),
        (results.FilterResult.of(np.array([1, 0], np.int16), NO), "Success"),
        (results.FilterResult.of(np.array([1, 1], np.int16), NO), "Unschedulable"),
        (results.FilterResult(None, lambda _rows, _codes: [], error="broken"), "Error"),
        (np.zeros(2, np.int64), "Success"),
        (ValueError("boom"), "Error"),
    ],
)
def test_single_plugins_are_measured_while_they_are_sampled(answer: object, status: str) -> None:
    """By what their answer amounts to; not before, and not after."""
    watch = Watch("filter", a=answer)
    (hook,) = watch.runner.pipeline.at("filter")
    for sampled in (False, True, False):
        watch.runner.sample(sampled)
        try:
            watch.runner.call("filter", hook)
        except PluginError:
            assert status == "Error"
    assert watch.recorder.plugins == {("a", "Filter", status): [1.0]}


def test_errors_of_plugins_are_counted() -> None:
    """Each of them, sampled or not."""
    watch = Watch("filter", a=ValueError("boom"), b=PluginError("ours"))
    for hook in watch.runner.pipeline.at("filter"):
        with pytest.raises(PluginError):
            watch.runner.call("filter", hook)
    assert watch.recorder.broken == {("a", "Filter"): 1, ("b", "Filter"): 1}


def test_a_runner_without_a_recorder_measures_nothing() -> None:
    """Spans are 0 and single plugins are never sampled."""
    runner = Runner(Pipeline("s", {}, {}))
    assert runner.began() == 0.0
    runner.ended("filter", Code.SUCCESS, 0.0)
    runner.waited(Code.SUCCESS, 1.0)
    runner.sample(True)
    assert not runner.sampling
    assert runner.evaluations == []
