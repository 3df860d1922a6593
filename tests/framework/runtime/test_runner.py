"""Runner: each combine rule does what the table of points says, with attribution."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from policy_sched.errors import PluginError
from policy_sched.framework.results import PermitResult, PostFilterResult, PreFilterResult
from policy_sched.framework.runtime.pipeline import Hook, Pipeline
from policy_sched.framework.runtime.runner import Runner
from policy_sched.framework.status import SKIP, SUCCESS, Code, Status

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

    def test_stops_at_the_first_no_and_says_who(self) -> None:
        """Later plugins are not asked; the status carries the plugin's name."""
        asked: list[str] = []
        runner = runner_of("reserve", {"a": SUCCESS, "b": NO, "c": NEVER}, asked)
        assert runner.first_rejection("reserve") == NO.by("b")
        assert asked == ["a", "b"]

    def test_all_agree(self) -> None:
        """Without a rejection the answer is Success."""
        assert runner_of("reserve", {"a": SUCCESS}).first_rejection("reserve") is SUCCESS

    def test_what_a_plugin_raises_names_it_and_the_point(self) -> None:
        """Foreign exceptions become PluginError in upstream's words."""
        runner = runner_of("pre_bind", {"a": ValueError("boom")})
        with pytest.raises(PluginError, match='running PreBind plugin "a": boom'):
            runner.first_rejection("pre_bind")


class TestFirstSuccess:
    """Bind."""

    def test_skip_means_ask_the_next(self) -> None:
        """The first plugin that does not skip settles it."""
        asked: list[str] = []
        runner = runner_of("bind", {"a": SKIP, "b": SUCCESS, "c": NO}, asked)
        assert runner.first_success("bind") == ("b", SUCCESS)
        assert asked == ["a", "b"]

    def test_all_skip(self) -> None:
        """If all plugins skip, the result is Skip."""
        assert runner_of("bind", {"a": SKIP}).first_success("bind") == ("", SKIP)


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
        expected = (SUCCESS, frozenset({"a"}), frozenset({"y"}), ("b", "d"))
        assert runner.pre_filter() == expected

    def test_names_that_leave_no_node_reject_the_pod(self) -> None:
        """The words are upstream's, for one plugin and for several."""
        empty = PreFilterResult(node_names=frozenset())
        (status, *_) = runner_of("pre_filter", {"a": empty}).pre_filter()
        assert status.reasons == ("node(s) didn't satisfy plugin a",)
        left = PreFilterResult(node_names=frozenset({"x"}))
        right = PreFilterResult(node_names=frozenset({"y"}))
        (status, *_) = runner_of("pre_filter", {"b": left, "a": right}).pre_filter()
        assert status.reasons == ("node(s) didn't satisfy plugin(s) [a b] simultaneously",)
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE

    def test_a_rejection_ends_it(self) -> None:
        """The first rejection is the answer, attributed."""
        (status, *_) = runner_of("pre_filter", {"a": PreFilterResult(NO)}).pre_filter()
        assert status == NO.by("a")


class TestPostFilter:
    """The reasons of all plugins that ran are kept."""

    def test_success_ends_it(self) -> None:
        """A plugin that made room is the last one asked."""
        asked: list[str] = []
        made = PostFilterResult(SUCCESS, "n1")
        runner = runner_of("post_filter", {"a": PostFilterResult(NO), "b": made, "c": made}, asked)
        result = runner.post_filter()
        assert result == PostFilterResult(SUCCESS.by("b"), "n1")
        assert asked == ["a", "b"]

    def test_reasons_are_joined(self) -> None:
        """As those of the first plugin."""
        answers = {"a": PostFilterResult(NO), "b": PostFilterResult(NO, nominated_node="")}
        result = runner_of("post_filter", answers).post_filter()
        assert result == PostFilterResult(Status(NO.code, ("no", "no"), "a"), "")

    def test_a_second_preemption_is_told_by_its_plugin(self) -> None:
        """A message had "preemption: ..., preemption: ..." where two plugins preempt."""
        first, second = (Status(NO.code, (f"preemption: {text}",)) for text in ("x", "y"))
        answers = {"a": PostFilterResult(first), "B": PostFilterResult(second)}
        result = runner_of("post_filter", answers).post_filter()
        assert result is not None
        assert result.status.message() == "preemption: x, B: y"

    def test_an_unresolvable_no_ends_it_and_is_all_that_is_said(self) -> None:
        """As upstream, the rest is skipped and earlier results are dropped."""
        answers = {
            "a": PostFilterResult(NO),
            "b": PostFilterResult(NEVER),
            "c": PostFilterResult(NO),
        }
        result = runner_of("post_filter", answers).post_filter()
        assert result is not None
        assert result == PostFilterResult(NEVER.by("b"))

    def test_an_error_ends_it(self) -> None:
        """Nothing is nominated, whatever was said before."""
        broken = Status(Code.ERROR, ("broken",))
        answers = {"a": PostFilterResult(NO, ""), "b": PostFilterResult(broken, "n1")}
        result = runner_of("post_filter", answers).post_filter()
        assert result == PostFilterResult(broken.by("b"))

    def test_nobody_to_ask(self) -> None:
        """Without PostFilter plugins there is no answer."""
        assert runner_of("post_filter", {}).post_filter() is None


class TestPermit:
    """Waits are collected."""

    def test_several_may_wait(self) -> None:
        """Each waiting plugin's time-out is kept."""
        wait = Status(Code.WAIT)
        answers = {
            "a": PermitResult(wait, 10.0),
            "b": PermitResult(),
            "c": PermitResult(wait, 20.0),
        }
        status, waits = runner_of("permit", answers).permit()
        assert status.code is Code.WAIT
        assert {plugin: result.timeout for plugin, result in waits.items()} == {
            "a": 10.0,
            "c": 20.0,
        }

    def test_a_denial_beats_a_wait(self) -> None:
        """A later rejection makes the earlier wait void."""
        answers = {"a": PermitResult(Status(Code.WAIT), 10.0), "b": PermitResult(NO)}
        assert runner_of("permit", answers).permit() == (NO.by("b"), {})


def test_pre_score_collects_skips() -> None:
    """A plugin that skips is left out of Score; a rejection is attributed."""
    assert runner_of("pre_score", {"a": SKIP, "b": SUCCESS}).pre_score() == (
        SUCCESS,
        frozenset({"a"}),
    )
    assert runner_of("pre_score", {"a": NO}).pre_score()[0] == NO.by("a")
