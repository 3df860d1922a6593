"""The one runner of extension points: combining, attribution and errors, written once.

The methods are the combine rules of points.py. Every call of a plugin goes through `call`,
which is also the only place that catches whatever a plugin raises: it becomes a PluginError with
the plugin's and the point's name, in upstream's words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar, cast

from policy_sched.errors import PluginError
from policy_sched.framework import (
    POINTS,
    SKIP,
    SUCCESS,
    WAIT,
    Code,
    PendingStatus,
    PermitResult,
    PostFilterResult,
    PreFilterResult,
    Scope,
    Status,
    asked_of,
    asking,
)
from policy_sched.framework.runtime.pipeline import Hook, Pipeline

T = TypeVar("T")

_SCORING: Final = {
    "score": "running Score plugins",
    "normalize_score": "running Normalize on Score plugins",
}
Call: TypeAlias = Callable[..., object]
"""From the name of a hook, the hook of one plugin, and its arguments to the plugin's answer."""
Parts: TypeAlias = tuple[frozenset[str], str, frozenset[str] | None]
"""The plugins that took no part in an evaluation: those that PreFilter skipped, the one that
rejected the pod there (or ""), and those that PreScore skipped; None if nothing was scored."""


class Evaluated(Protocol):
    """What all plugins said about all nodes."""

    @property
    def parts(self) -> Parts:
        """The plugins that took no part in it."""


Ended: TypeAlias = Callable[[str, Code, float], None]


def _not_measured(_point: str, _code: Code, _start: float) -> None:
    """No-op callback."""


def _not_counted(_how: str, _evaluation: Evaluated) -> None:
    """No-op callback."""


class Runner:
    """Runs the plugins of one pipeline; `InstrumentedRunner` measures durations."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.call: Call = self.called
        """Calls one plugin; replaced to measure calls."""
        self.began: Callable[[], float] = float
        """Returns the start of a measured call in seconds; 0 without metrics."""
        self.ended: Ended = _not_measured
        """Told that an extension point ran since something began, and what came of it."""
        self.evaluated: Callable[[str, Evaluated], None] = _not_counted
        """Called after all nodes were filtered and scored, with how (hint used or not) and the
        result."""
        self._active: dict[tuple[str, frozenset[str]], tuple[Hook, ...]] = {}
        self.wide = {
            point: tuple(h for h in pipeline.at(point) if pipeline.scope(h.plugin) > Scope.NODE)
            for point in ("pre_filter", "pre_score")
        }
        """The plugins whose answer before Filter and Score may depend on the whole cluster."""
        flights = {hook.plugin: hook for hook in pipeline.at("pre_bind_pre_flight")}
        self.pre_bind = tuple((hook, flights.get(hook.plugin)) for hook in pipeline.at("pre_bind"))
        """The PreBind plugins, each with what says beforehand whether it has anything to do."""

    def called(self, point: str, hook: Hook, *args: object) -> object:
        """Call one plugin; PluginError if it raises."""
        try:
            return hook.function(*args)
        except PluginError:
            self.broke(point, hook)
            raise
        except Exception as error:
            # A plugin is foreign code: whatever it raises ends this attempt, not the scheduler.
            self.broke(point, hook)
            raise PluginError(broken(point, hook.plugin, error)) from error

    def broke(self, point: str, hook: Hook) -> None:
        """A plugin failed."""

    def waited(self, code: Code, seconds: float) -> None:
        """A pod waited for permission for so long, and that came of it."""

    def first_rejection(self, point: str, *args: object) -> Status:
        """Ask in order until one plugin does not agree; its status, or Success."""
        for hook in self.pipeline.at(point):
            status = cast("Status", self.call(point, hook, *args))
            if not status.ok:
                return status.by(hook.plugin)
        return SUCCESS

    def everyone(self, point: str, *args: object) -> None:
        """Tell every plugin, in the order that the pipeline holds (undoing points: reversed)."""
        for hook in self.pipeline.at(point):
            self.call(point, hook, *args)

    def exactly_one(self, point: str, *args: object) -> object:
        """Return the only plugin's answer."""
        (hook,) = self.pipeline.at(point)
        return self.call(point, hook, *args)

    def first_success(self, point: str, *args: object) -> tuple[str, Status | PendingStatus]:
        """Ask in order until one does not skip; return its name and answer, Skip if all do."""
        for hook in self.pipeline.at(point):
            answer = cast("Status | PendingStatus", self.call(point, hook, *args))
            if isinstance(answer, PendingStatus) or answer.code is not Code.SKIP:
                return hook.plugin, answer
        return "", SKIP

    def post_filter(self, *args: object) -> PostFilterResult | None:
        """First success of PostFilter; without one the reasons of all are joined, as upstream.

        An error or UnschedulableAndUnresolvable ends it, and then only its plugin has spoken. The
        joined answer is the first plugin's. None if the profile has no PostFilter plugin.
        """
        reasons: list[str] = []
        nominated: str | None = None
        hooks = self.pipeline.at("post_filter")
        for hook in hooks:
            result = cast("PostFilterResult", self.call("post_filter", hook, *args))
            status = result.status.by(hook.plugin)
            if status.ok or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return replace(result, status=status)
            if status.code is Code.ERROR:
                return PostFilterResult(status)
            nominated = nominated if result.nominated_node is None else result.nominated_node
            reasons += _beside(reasons, status)
        if not hooks:
            return None
        return PostFilterResult(
            Status(Code.UNSCHEDULABLE, tuple(reasons), hooks[0].plugin), nominated
        )

    def pre_filter(
        self, *args: object
    ) -> tuple[Status, frozenset[str], frozenset[str] | None, tuple[str, ...]]:
        """First rejection of PreFilter, collecting skips and node names.

        Returns the status, the plugins to skip, the intersection of all node names (None: any)
        and the plugins that named nodes.
        """
        skipped: set[str] = set()
        names: frozenset[str] | None = None
        narrowing: list[str] = []
        for hook in self.pipeline.at("pre_filter"):
            result = cast("PreFilterResult", self.call("pre_filter", hook, *args))
            if result.status.code is Code.SKIP:
                skipped.add(hook.plugin)
                continue
            if not result.status.ok:
                return result.status.by(hook.plugin), frozenset(skipped), names, tuple(narrowing)
            if result.node_names is not None:
                narrowing.append(hook.plugin)
                names = result.node_names if names is None else names & result.node_names
                if not names:
                    return _no_node_left(narrowing), frozenset(skipped), names, tuple(narrowing)
        return SUCCESS, frozenset(skipped), names, tuple(narrowing)

    def pre_score(self, *args: object) -> tuple[Status, frozenset[str]]:
        """First rejection of PreScore, collecting skips; returns status and plugins to skip."""
        skipped: set[str] = set()
        for hook in self.pipeline.at("pre_score"):
            status = cast("Status", self.call("pre_score", hook, *args))
            if status.code is Code.SKIP:
                skipped.add(hook.plugin)
            elif not status.ok:
                return status.by(hook.plugin), frozenset(skipped)
        return SUCCESS, frozenset(skipped)

    def _guarded(self, plugin: str, result: PermitResult) -> PermitResult:
        """Return a result whose function, when it raises, raises a PluginError."""
        if result.again is None:
            return result
        ask = partial(self.call, "permit", Hook(plugin, asked_of(result.again)))
        return replace(result, again=asking(result.again, cast("Callable[[], Status]", ask)))

    def permit(self, *args: object) -> tuple[Status, dict[str, PermitResult]]:
        """First rejection of Permit, collecting by plugin the results of those that wait."""
        waits: dict[str, PermitResult] = {}
        for hook in self.pipeline.at("permit"):
            result = cast("PermitResult", self.call("permit", hook, *args))
            if result.status.code is Code.WAIT:
                waits[hook.plugin] = self._guarded(hook.plugin, result)
            elif not result.status.ok:
                return result.status.by(hook.plugin), {}
        return (WAIT if waits else SUCCESS), waits

    def active(self, point: str, skipped: frozenset[str]) -> tuple[Hook, ...]:
        """Return the point's plugins without those that an earlier point left out."""
        found = self._active.get((point, skipped))
        if found is None:
            found = tuple(h for h in self.pipeline.at(point) if h.plugin not in skipped)
            self._active[point, skipped] = found
        return found


def broken(point: str, plugin: str, error: object) -> str:
    """Return upstream's words for a plugin that failed; those of Filter and Score have no
    prefix."""
    if point == "filter":
        return f'running "{plugin}" filter plugin: {error}'
    if point in _SCORING:
        return f'{_SCORING[point]}: plugin "{plugin}" failed with: {error}'
    return f'running {POINTS[point].name} plugin "{plugin}": {error}'


def _no_node_left(plugins: list[str]) -> Status:
    """Return the status for PreFilter results that leave no node, in upstream's words."""
    if len(plugins) == 1:
        text = f"node(s) didn't satisfy plugin {plugins[0]}"
    else:
        text = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously"
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))


def _beside(said: Sequence[str], status: Status) -> Iterator[str]:
    """Yield the reasons of one more PostFilter plugin.

    Two plugins that preempt both begin with "preemption:"; the second is told by its name.
    """
    heads = {reason.partition(": ")[0] for reason in said}
    for reason in status.reasons:
        head, colon, rest = reason.partition(": ")
        if colon and head in heads:
            yield f"{status.plugin}: {rest}"
        else:
            yield reason
