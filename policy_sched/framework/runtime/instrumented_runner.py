"""Instrumented runner: records durations of extension points and plugins; `Runner` does not.

Theory of operation. Durations are appended to the lists of a recorder. The metrics server turns
them into histograms later. Extension points are measured each time they run, plugins only while
they are sampled: upstream does that in one cycle of ten.

Durations are of work that was done: equal pods share evaluations, so Filter and Score mostly run
for the few rows that changed, and a plugin handles all rows in one call. A call counts as
Unschedulable if no row passed, and as Success if any did.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from policy_sched.framework import (
    POINTS,
    SUCCESS,
    Code,
    FilterResult,
    PendingStatus,
    PermitResult,
    PostFilterResult,
    PreFilterResult,
    Status,
)
from policy_sched.framework.runtime.pipeline import Hook, Pipeline
from policy_sched.framework.runtime.runner import Call, Ended, Evaluated, Parts, Runner

Durations = list[float]
_SUCCESS: Final = Code.SUCCESS
_LABELS: Final = {hook: point.name for hook, point in POINTS.items()}
_UNMEASURED: Final = frozenset({"queue_sort", "events_to_register", "sign_pod"})
"""Points that upstream measures elsewhere or not at all."""


@dataclass(slots=True)
class MetricsRecorder:
    """Durations in seconds, by extension point and status, and by plugin, point and status.

    ``timer`` returns seconds from a monotonic clock. ``waits`` for permission are in seconds, too.
    ``broken`` counts plugins' errors by plugin and point.
    """

    timer: Callable[[], float]
    points: defaultdict[tuple[str, str], Durations] = field(
        default_factory=lambda: defaultdict(list)
    )
    plugins: defaultdict[tuple[str, str, str], Durations] = field(
        default_factory=lambda: defaultdict(list)
    )
    waits: defaultdict[tuple[str], Durations] = field(default_factory=lambda: defaultdict(list))
    broken: defaultdict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))


class _PluginCaller:
    """Calls plugins, and measures the calls while sampling.

    A runner that kept methods of its own would be a cycle, left behind by every reload.
    """

    __slots__ = ("_recorder", "_timer")

    def __init__(self, recorder: MetricsRecorder) -> None:
        self._recorder = recorder
        self._timer = recorder.timer

    called: Call = Runner.called
    """Call one plugin; PluginError if it raises."""

    def broke(self, point: str, hook: Hook) -> None:
        """Count an error of a plugin."""
        self._recorder.broken[hook.plugin, _LABELS[point]] += 1

    def timed(self, point: str, hook: Hook, *args: object) -> object:
        """Call one plugin and record the duration."""
        start = self._timer()
        code = Code.ERROR
        try:
            answer = self.called(point, hook, *args)
            code = _code_of(answer)
        finally:
            took = self._timer() - start
            if point not in _UNMEASURED:
                self._recorder.plugins[hook.plugin, _LABELS[point], code.value].append(took)
        return answer


class InstrumentedRunner(Runner):
    """A runner that records durations in ``recorder``."""

    def __init__(self, pipeline: Pipeline, recorder: MetricsRecorder) -> None:
        super().__init__(pipeline)
        self.recorder = recorder
        self.evaluations: list[tuple[str, Parts]] = []
        """How each evaluation was made, and the plugins that took no part in it; the reader clears
        it."""
        self.began = self._timer = recorder.timer
        self.evaluated = _noted_in(self.evaluations)
        self._caller = _PluginCaller(recorder)
        self.call = self._caller.called
        self._good = {
            hook: recorder.points[label, _SUCCESS.value].append for hook, label in _LABELS.items()
        }
        self.ended = _ended_on(recorder, self._good)

    # What others measure.

    def waited(self, code: Code, seconds: float) -> None:
        """Record how long a pod waited for Permit, by result."""
        self.recorder.waits[(code.value,)].append(seconds)

    # What is measured here.

    def broke(self, point: str, hook: Hook) -> None:
        """Count an error of a plugin."""
        self._caller.broke(point, hook)

    def sample(self, wanted: bool) -> None:
        """Turn the measuring of single plugins on or off."""
        self.call = self._caller.timed if wanted else self._caller.called

    def first_rejection(self, point: str, *args: object) -> Status:
        """As Runner, with timing."""
        if not self.pipeline.at(point):
            self._good[point](0.0)
            return SUCCESS
        start = self._timer()
        code = Code.ERROR
        try:
            status = Runner.first_rejection(self, point, *args)
            code = status.code
        finally:
            self.ended(point, code, start)
        return status

    def post_filter(self, *args: object) -> PostFilterResult | None:
        """As Runner, with timing."""
        start = self._timer()
        code = Code.ERROR
        try:
            found = super().post_filter(*args)
            code = Code.UNSCHEDULABLE if found is None else found.status.code
        finally:
            self.ended("post_filter", code, start)
        return found

    def pre_filter(
        self, *args: object
    ) -> tuple[Status, frozenset[str], frozenset[str] | None, tuple[str, ...]]:
        """As Runner, with timing."""
        start = self._timer()
        code = Code.ERROR
        try:
            found = super().pre_filter(*args)
            code = found[0].code
        finally:
            self.ended("pre_filter", code, start)
        return found

    def pre_score(self, *args: object) -> tuple[Status, frozenset[str]]:
        """As Runner, with timing."""
        start = self._timer()
        code = Code.ERROR
        try:
            found = super().pre_score(*args)
            code = found[0].code
        finally:
            self.ended("pre_score", code, start)
        return found

    def permit(self, *args: object) -> tuple[Status, dict[str, PermitResult]]:
        """As Runner, with timing."""
        if not self.pipeline.at("permit"):
            self._good["permit"](0.0)
            return SUCCESS, {}
        start = self._timer()
        code = Code.ERROR
        try:
            found = super().permit(*args)
            code = found[0].code
        finally:
            self.ended("permit", code, start)
        return found


def _noted_in(evaluations: list[tuple[str, Parts]]) -> Callable[[str, Evaluated], None]:
    """Return the callback that records evaluations."""
    return lambda how, evaluation: evaluations.append((how, evaluation.parts))


def _ended_on(recorder: MetricsRecorder, good: Mapping[str, Callable[[float], None]]) -> Ended:
    """Return the callback for extension points, called about ten times per pod; ``good``:
    successes."""
    timer = recorder.timer

    def ended(point: str, code: Code, start: float) -> None:
        took = timer() - start
        if code is _SUCCESS:
            good[point](took)
        else:
            recorder.points[_LABELS[point], code.value].append(took)

    return ended


def _code_of(answer: object) -> Code:
    """Return the status code of a plugin's result."""
    if isinstance(answer, Status):
        return answer.code
    if isinstance(answer, PreFilterResult | PostFilterResult | PermitResult):
        return answer.status.code
    if isinstance(answer, FilterResult):
        if answer.error is not None:
            return Code.ERROR
        codes = answer.codes
        rejected = codes is not None and bool(codes.size) and bool(codes.all())
        return Code.UNSCHEDULABLE if rejected else Code.SUCCESS
    if isinstance(answer, PendingStatus):
        return Code.WAIT
    return Code.SUCCESS
