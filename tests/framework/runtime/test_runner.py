"""Runner: each combine rule does what the table of points says, with attribution."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from policy_sched.errors import PluginError
from policy_sched.framework import (
    Gate,
    PermitResult,
    PostFilterResult,
    PreFilterResult,
    Scope,
    Signature,
)
from policy_sched.framework.runtime.pipeline import Hook, Pipeline
from policy_sched.framework.runtime.runner import MetricsRecorder, PointResult, Runner
from policy_sched.framework.status import SKIP, SUCCESS, Code, PendingStatus, Status
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_pod

NO = Status(Code.UNSCHEDULABLE, ("no",))
NEVER = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("never",))


def runner_of(point: str, answers: Mapping[str, object], asked: list[str] | None = None) -> Runner:
    """Return a runner whose plugins give the answers, raising those that are exceptions."""

    def hook(name: str, answer: object) -> Hook:
        def function(*_args: object) -> object:
            if asked is not None:
                asked.append(name)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return Hook(name, function)

    hooks = {point: tuple(hook(name, answer) for name, answer in answers.items())}
    return Runner(Pipeline("s", hooks, {}))


class TestFirstRejection:
    """PreEnqueue, Reserve, PreBind."""

    def test_the_first_rejection_ends_the_point(self) -> None:
        """Later plugins are not asked; the status carries the plugin's name."""
        asked: list[str] = []
        runner = runner_of("reserve", {"a": SUCCESS, "b": NO, "c": NEVER}, asked)
        assert runner.run("reserve").status == NO.by("b")
        assert asked == ["a", "b"]

    def test_success_of_all_is_success(self) -> None:
        """Without a rejection the answer is Success."""
        assert runner_of("reserve", {"a": SUCCESS}).run("reserve").status is SUCCESS

    def test_an_exception_becomes_an_error_of_plugin_and_point(self) -> None:
        """Foreign exceptions become PluginError in upstream's words."""
        runner = runner_of("pre_bind", {"a": ValueError("boom")})
        with pytest.raises(PluginError, match='running PreBind plugin "a": boom'):
            runner.run("pre_bind")


class TestFirstSuccess:
    """Bind."""

    def test_the_next_plugin_runs_after_skip(self) -> None:
        """The first plugin that does not skip settles it."""
        asked: list[str] = []
        runner = runner_of("bind", {"a": SKIP, "b": SUCCESS, "c": NO}, asked)
        found = runner.run("bind")
        assert (found.plugin, found.returned) == ("b", SUCCESS)
        assert asked == ["a", "b"]

    def test_the_result_is_skip_if_all_plugins_skip(self) -> None:
        """If all plugins skip, the result is Skip."""
        found = runner_of("bind", {"a": SKIP}).run("bind")
        assert (found.plugin, found.status) == ("", SKIP)


class TestPreFilter:
    """Skips and node names are collected."""

    def test_skips_and_names_are_put_together(self) -> None:
        """Node names are intersected; the result lists the plugins that restricted them."""
        runner = runner_of(
            "pre_filter",
            {
                "a": PreFilterResult(SKIP),
                "b": PreFilterResult(node_names=frozenset({"x", "y"})),
                "c": PreFilterResult(),
                "d": PreFilterResult(node_names=frozenset({"y", "z"})),
            },
        )
        assert runner.run("pre_filter") == PointResult(
            SUCCESS,
            skipped=frozenset({"a"}),
            node_names=frozenset({"y"}),
            narrowed_by=("b", "d"),
        )

    def test_names_that_leave_no_node_reject_the_pod(self) -> None:
        """The words are upstream's, for one plugin and for several."""
        empty = PreFilterResult(node_names=frozenset())
        status = runner_of("pre_filter", {"a": empty}).run("pre_filter").status
        assert status.reasons == ("node(s) didn't satisfy plugin a",)
        left = PreFilterResult(node_names=frozenset({"x"}))
        right = PreFilterResult(node_names=frozenset({"y"}))
        status = runner_of("pre_filter", {"b": left, "a": right}).run("pre_filter").status
        assert status.reasons == ("node(s) didn't satisfy plugin(s) [a b] simultaneously",)
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE

    def test_a_rejection_ends_it(self) -> None:
        """The first rejection is the answer, attributed."""
        status = runner_of("pre_filter", {"a": PreFilterResult(NO)}).run("pre_filter").status
        assert status == NO.by("a")


class TestPostFilter:
    """The reasons of all plugins that ran are kept."""

    def test_no_plugin_is_called_after_a_post_filter_that_succeeded(self) -> None:
        """A plugin that made room is the last one asked."""
        asked: list[str] = []
        made = PostFilterResult(SUCCESS, "n1")
        runner = runner_of("post_filter", {"a": PostFilterResult(NO), "b": made, "c": made}, asked)
        result = runner.run("post_filter").made_room
        assert result == PostFilterResult(SUCCESS.by("b"), "n1")
        assert asked == ["a", "b"]

    def test_reasons_of_post_filters_are_joined(self) -> None:
        """As those of the first plugin."""
        answers = {"a": PostFilterResult(NO), "b": PostFilterResult(NO, nominated_node="")}
        result = runner_of("post_filter", answers).run("post_filter").made_room
        assert result == PostFilterResult(Status(NO.code, ("no", "no"), "a"), "")

    def test_a_second_preemption_has_its_plugins_name(self) -> None:
        """A message had "preemption: ..., preemption: ..." where two plugins preempt."""
        first, second = (Status(NO.code, (f"preemption: {text}",)) for text in ("x", "y"))
        answers = {"a": PostFilterResult(first), "B": PostFilterResult(second)}
        result = runner_of("post_filter", answers).run("post_filter").made_room
        assert result is not None
        assert result.status.message() == "preemption: x, B: y"

    def test_an_unresolvable_rejection_ends_the_point(self) -> None:
        """As upstream, the rest is skipped and earlier results are dropped."""
        answers = {
            "a": PostFilterResult(NO),
            "b": PostFilterResult(NEVER),
            "c": PostFilterResult(NO),
        }
        result = runner_of("post_filter", answers).run("post_filter").made_room
        assert result is not None
        assert result == PostFilterResult(NEVER.by("b"))

    def test_an_error_ends_it(self) -> None:
        """Nothing is nominated, whatever was said before."""
        broken = Status(Code.ERROR, ("broken",))
        answers = {"a": PostFilterResult(NO, ""), "b": PostFilterResult(broken, "n1")}
        result = runner_of("post_filter", answers).run("post_filter").made_room
        assert result == PostFilterResult(broken.by("b"))

    @pytest.mark.parametrize("last", [PostFilterResult(NO), PostFilterResult(SUCCESS, "n1")])
    def test_what_is_left_to_be_done_waits_for_all_plugins(self, last: PostFilterResult) -> None:
        """A claim was given back before the dry run of preemption, so a pod was evicted for it."""
        done: list[str] = []
        first = PostFilterResult(NO, then=lambda: done.append("given back"))
        runner = runner_of("post_filter", {"a": first, "b": last}, done)
        runner.run("post_filter")
        assert done == ["a", "b", "given back"]

    def test_no_plugin_is_no_answer(self) -> None:
        """Without PostFilter plugins there is no answer."""
        assert runner_of("post_filter", {}).run("post_filter").made_room is None


class TestPermit:
    """Waits are collected."""

    def test_each_plugin_that_waits_keeps_its_timeout(self) -> None:
        """Each waiting plugin's time-out is kept."""
        wait = Status(Code.WAIT)
        answers = {
            "a": PermitResult(wait, 10.0),
            "b": PermitResult(),
            "c": PermitResult(wait, 20.0),
        }
        found = runner_of("permit", answers).run("permit")
        status, waits = found.status, found.waits
        assert status.code is Code.WAIT
        assert {plugin: result.timeout for plugin, result in waits.items()} == {
            "a": 10.0,
            "c": 20.0,
        }

    def test_a_rejection_beats_a_wait(self) -> None:
        """A later rejection makes the earlier wait void."""
        answers = {"a": PermitResult(Status(Code.WAIT), 10.0), "b": PermitResult(NO)}
        found = runner_of("permit", answers).run("permit")
        assert (found.status, found.waits) == (NO.by("b"), {})


def test_pre_score_collects_skips() -> None:
    """A plugin that skips is left out of Score; a rejection is attributed."""
    found = runner_of("pre_score", {"a": SKIP, "b": SUCCESS}).run("pre_score")
    assert (found.status, found.skipped) == (SUCCESS, frozenset({"a"}))
    assert runner_of("pre_score", {"a": NO}).run("pre_score").status == NO.by("a")


class TestEveryone:
    """PostBind, and Unreserve."""

    def test_all_plugins_run_also_after_one_that_failed(self) -> None:
        """The errors are returned, with the plugin's name."""
        asked: list[str] = []
        runner = runner_of("post_bind", {"a": ValueError("boom"), "b": None}, asked)
        (error,) = runner.run("post_bind").errors
        assert str(error) == 'running PostBind plugin "a": boom'
        assert asked == ["a", "b"]

    def test_a_point_is_undone_by_the_point_of_its_row(self) -> None:
        """Reserve is undone by Unreserve."""
        asked: list[str] = []
        assert runner_of("unreserve", {"a": None}, asked).undo("reserve") == ()
        assert asked == ["a"]


def test_only_points_that_can_be_skipped_leave_plugins_out() -> None:
    """PreFilter leaves Filter plugins out, and no Reserve plugins."""
    runner = runner_of("filter", {"a": None, "b": None})
    assert [hook.plugin for hook in runner.active("filter", frozenset({"a"}))] == ["b"]
    runner = runner_of("reserve", {"a": None})
    assert [hook.plugin for hook in runner.active("reserve", frozenset({"a"}))] == ["a"]


class TestResume:
    """A plugin of PreBind or Bind may answer later."""

    def test_the_plugins_after_it_run_when_it_succeeds(self) -> None:
        """PreBind: the point goes on where it stopped."""
        asked: list[str] = []
        runner = runner_of("pre_bind", {"a": SUCCESS, "b": PendingStatus(), "c": SUCCESS}, asked)
        found = runner.run("pre_bind")
        assert (found.plugin, found.pending, asked) == ("b", True, ["a", "b"])
        assert runner.resume("pre_bind", found, SUCCESS).status == SUCCESS
        assert asked == ["a", "b", "c"]

    def test_a_rejection_ends_the_point(self) -> None:
        """The status names the plugin; later plugins do not run."""
        asked: list[str] = []
        runner = runner_of("pre_bind", {"a": PendingStatus(), "b": SUCCESS}, asked)
        found = runner.resume("pre_bind", runner.run("pre_bind"), NO)
        assert (found.plugin, found.status, asked) == ("a", NO.by("a"), ["a"])

    def test_the_next_bind_plugin_runs_when_it_skips(self) -> None:
        """Bind: the first plugin that does not skip decides; if all skip, the result is Skip."""
        asked: list[str] = []
        runner = runner_of("bind", {"a": PendingStatus(), "b": SUCCESS}, asked)
        assert runner.resume("bind", runner.run("bind"), SKIP).plugin == "b"
        runner = runner_of("bind", {"a": PendingStatus()})
        assert runner.resume("bind", runner.run("bind"), SKIP).status == SKIP


def test_a_point_runs_the_given_plugins_in_the_given_order() -> None:
    """Other plugins of the point do not run."""
    asked: list[str] = []
    runner = runner_of("reserve", {"a": SUCCESS, "b": SUCCESS, "c": SUCCESS}, asked)
    first, _, last = runner.hooks["reserve"]
    runner.run("reserve", hooks=(last, first))
    assert asked == ["c", "a"]


def test_an_error_of_pre_enqueue_is_an_answer() -> None:
    """The pod is gated, and the status names the plugin that failed."""
    found = runner_of("pre_enqueue", {"a": ValueError("boom")}).run("pre_enqueue").status
    assert found == Status(Code.ERROR, ('running PreEnqueue plugin "a": boom',), "a")


@pytest.mark.parametrize(
    ("signatures", "asked"),
    [
        ({}, True),
        ({"a": None}, True),
        ({"a": lambda pod: pod.priority > 0}, False),
        ({"a": lambda pod: pod.priority == 0}, True),
        ({"a": lambda _: 1 / 0}, True),
    ],
)
def test_pre_enqueue_runs_for_pods_that_a_plugin_may_gate(
    signatures: Mapping[str, Callable[[PodInfo], bool] | None], asked: bool
) -> None:
    """A plugin without a promise, or with one that fails, is asked about each pod."""
    hooks = {"pre_enqueue": (Hook("a", lambda *_: SUCCESS),)}
    found = {
        name: Signature(frozenset(), Scope.STATIC, gate=Gate(gates))
        for name, gates in signatures.items()
    }
    recorder = MetricsRecorder(lambda: 0.0)
    runner = Runner(Pipeline("s", hooks, found), recorder)
    assert runner.may_gate(PodInfo.of(make_pod("p"))) is asked
    assert bool(recorder.points) is not asked
