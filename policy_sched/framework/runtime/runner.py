"""The runner of extension points: calling, combining, timing and attribution, each written once.

Theory of operation. `run` reads the point's row of extension_points.py: after which results the
next plugin runs, and how the results become one `PointResult`. Whatever a plugin raises becomes a
PluginError with the plugin's and the point's name, in upstream's words.

With a recorder, durations are appended to its lists; the metrics make histograms of them later.
Extension points are measured each time they run, single plugins only while they are sampled:
upstream does that in one cycle of ten. Durations are of work that was done: equal pods share
evaluations, so Filter and Score mostly run for the few rows that changed, and a plugin handles all
rows in one call. Such a call counts as Unschedulable if no row passed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from operator import attrgetter
from typing import Any, Final, TypeAlias, TypeVar, cast

import msgspec
from msgspec.structs import replace

from policy_sched.errors import PluginError, TakesLong
from policy_sched.framework import (
    POINTS,
    SKIP,
    SUCCESS,
    WAIT,
    Code,
    Combine,
    FilterResult,
    PendingStatus,
    PermitResult,
    Point,
    PostFilterResult,
    PreFilterResult,
    Status,
    permit_of,
    with_permit,
)
from policy_sched.framework.runtime.pipeline import Hook, Pipeline
from policy_sched.model import PodInfo, field_key

Durations: TypeAlias = list[float]
Hooks: TypeAlias = Mapping[str, tuple[Hook, ...]]
"""The plugins to run, in order, by extension point."""
Parts: TypeAlias = tuple[frozenset[str], str, frozenset[str] | None]
"""The plugins that took no part in an evaluation: those that PreFilter skipped, the one that
rejected the pod there (or ""), and those that PreScore skipped; None if nothing was scored."""

T = TypeVar("T")
_SCORING: Final = {
    "score": "running Score plugins",
    "normalize_score": "running Normalize on Score plugins",
}


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


class PointResult(msgspec.Struct, frozen=True):
    """What the plugins of a point returned together.

    ``returned`` is the result of the plugin that decided: a Status, a PendingStatus, or the result
    type of the point; None where all plugins were content. ``waits``: by plugin, the results with
    Wait. ``node_names``: the only nodes that PreFilter plugins left (None: all), and
    ``narrowed_by`` the plugins that named nodes. ``errors``: of points that run every plugin.
    ``started`` and ``left``: of a pending result, when the point began, and the plugins that
    `Runner.resume` may run then.
    """

    status: Status = SUCCESS
    plugin: str = ""
    returned: object = None
    skipped: frozenset[str] = frozenset()
    node_names: frozenset[str] | None = None
    narrowed_by: tuple[str, ...] = ()
    waits: Mapping[str, PermitResult] = msgspec.field(default_factory=dict)
    errors: tuple[PluginError, ...] = ()
    started: float = 0.0
    left: tuple[Hook, ...] = ()

    @property
    def pending(self) -> bool:
        """Whether the result is a PendingStatus."""
        return isinstance(self.returned, PendingStatus)

    @property
    def made_room(self) -> PostFilterResult | None:
        """The result of PostFilter; None if the profile has no such plugin."""
        return self.returned if isinstance(self.returned, PostFilterResult) else None


_LET_IN: Final = (POINTS["pre_enqueue"].name, Code.SUCCESS.value)
#: Kinds of pods for which is remembered whether they may be gated.
_MAX_GATED: Final = 1000
# An attribute of an enum takes as long as a call of a small function.
_EVERYONE: Final = Combine.EVERYONE
_SUCCEEDED: Final = Code.SUCCESS
_SKIPS: Final = Code.SKIP
_SUCCESS: Final = PointResult()
_SKIPPED: Final = PointResult(SKIP, returned=SKIP)
_EMPTY: Final = {
    point: ((row.name, row.all_skip.value), _SKIPPED if row.all_skip is Code.SKIP else _SUCCESS)
    for point, row in POINTS.items()
}
"""The labels and the result of a point without plugins."""


class Runner:
    """Runs the plugins of one pipeline; measures them if there is a ``recorder``.

    ``evaluations``: how each evaluation was made, and the plugins that took no part in it; the
    metrics clear it. ``sampling``: whether single plugins are measured.
    """

    def __init__(self, pipeline: Pipeline, recorder: MetricsRecorder | None = None) -> None:
        self.pipeline = pipeline
        self.recorder = recorder
        self.sampling = False
        self.evaluations: list[tuple[str, Parts]] = []
        self.hooks: Hooks = {point: pipeline.at(point) for point in POINTS}
        # Methods of its own would be a cycle, left behind by every reload.
        self.active = cache(partial(_active, self.hooks))
        """Returns a point's plugins without those that the point which can skip it left out."""
        self.without = cache(partial(_without, self.hooks))
        """Returns the hooks of all points without those of some plugins."""
        self._gates = _gates(pipeline)
        self._gated: dict[object, bool] = {}
        """Whether PreEnqueue has to run, by the fields of pods that decide it."""

    # Running points.

    def run(self, point: str, *args: object, hooks: tuple[Hook, ...] | None = None) -> PointResult:
        """Run a point's plugins in order and combine their results by the point's rule.

        ``hooks``: the plugins to run, in this order; None: all of the point. Raises PluginError if
        one breaks, unless the point's rule makes that a result.
        """
        recorder = self.recorder
        if hooks is None:
            hooks = self.hooks[point]
        if not hooks:
            labels, result = _EMPTY[point]
            if recorder is not None:
                recorder.points[labels].append(0.0)
            return result
        row = POINTS[point]
        if recorder is None:
            return self._combined(row, hooks, args)
        return self._measured(row, hooks, args, recorder.timer())

    def note_empty(self, *points: str) -> None:
        """Record points that have no plugins to run, as `run` does."""
        if self.recorder is not None:
            for point in points:
                self.recorder.points[_EMPTY[point][0]].append(0.0)

    def may_gate(self, pod: PodInfo) -> bool:
        """Tell whether PreEnqueue has to run for a pod; without that it counts as a success."""
        if self._gates is None:
            return True
        fields, gates = self._gates
        fields_of_pod = fields(pod)
        gated = self._gated.get(fields_of_pod)
        if gated is None:
            if len(self._gated) >= _MAX_GATED:
                self._gated.clear()
            try:
                gated = self._gated[fields_of_pod] = any(may_gate(pod) for may_gate in gates)
            except Exception:  # noqa: BLE001 - a plugin is foreign code; PreEnqueue will report it
                return True
        if not gated and self.recorder is not None:
            self.recorder.points[_LET_IN].append(0.0)
        return gated

    def resume(
        self, point: str, pending: PointResult, status: Status, *args: object
    ) -> PointResult:
        """Go on after a plugin whose result was pending has given it.

        The point's rule decides whether the plugins after it run; ``args`` are those of `run`.
        """
        row = POINTS[point]
        if status.code not in row.proceeds:
            status = status.by(pending.plugin)
            result = PointResult(status, pending.plugin, status)
        elif pending.left:
            return self._measured(row, pending.left, args, pending.started)
        else:
            result = _SKIPPED if status.code is Code.SKIP is row.all_skip else _SUCCESS
        self.ended(point, result.status.code, pending.started)
        return result

    def _measured(
        self, row: Point, hooks: tuple[Hook, ...], args: tuple[object, ...], start: float
    ) -> PointResult:
        """Run plugins and record how long the point took, unless a result is pending."""
        code: Code | None = Code.ERROR
        try:
            result = self._combined(row, hooks, args)
            code = None if result.pending else result.status.code
        finally:
            if code is not None:
                self.ended(row.hook, code, start)
        return result if code is not None else msgspec.structs.replace(result, started=start)

    def undo(self, point: str, *args: object) -> tuple[PluginError, ...]:
        """Run the point that undoes another one; return the errors of plugins that could not."""
        return self.run(POINTS[point].undone_by, *args).errors

    def _combined(
        self, point: Point, hooks: tuple[Hook, ...], args: tuple[object, ...]
    ) -> PointResult:
        if point.combine is _EVERYONE:
            return self._everyone(point, hooks, args)
        skipped: list[str] = []
        seen: _Collected | None = None
        proceeds = point.proceeds
        may_succeed = _SUCCEEDED in proceeds
        for number, hook in enumerate(hooks, 1):
            try:
                returned = (
                    self._timed(point.hook, hook, args) if self.sampling else hook.function(*args)
                )
            except Exception as error:  # noqa: BLE001 - a plugin is foreign code
                return self._failed(point, hook, error)
            if returned is SUCCESS:
                if may_succeed:
                    continue
                return PointResult(SUCCESS, hook.plugin, SUCCESS)
            status: Status | None = (
                returned if isinstance(returned, Status) else getattr(returned, "status", None)
            )
            if status is None:
                if point.pending:
                    return PointResult(plugin=hook.plugin, returned=returned, left=hooks[number:])
                continue
            if status.code is _SKIPS and _SKIPS in proceeds:
                skipped.append(hook.plugin)
                continue
            if status.code not in proceeds:
                return (seen or _Collected(self, skipped)).decided(hook.plugin, returned, status)
            if status.code is not _SUCCEEDED or not isinstance(returned, Status):
                if seen is None:
                    seen = _Collected(self, skipped)
                rejection = seen.collect(hook.plugin, returned, status.code)
                if rejection is not None:
                    return rejection
        if seen is not None:
            first = hooks[0].plugin
            return seen.joined(first) if point.combine is Combine.FIRST_SUCCESS else seen.content()
        if not skipped:
            return _SUCCESS
        all_skip = len(skipped) == len(hooks) and point.all_skip is Code.SKIP
        return _skipping(all_skip, *skipped)

    def _failed(self, point: Point, hook: Hook, error: Exception) -> PointResult:
        """Return Error for what a plugin raised, or raise it; it ends this attempt only."""
        failure = self.failure(point.hook, hook, error)
        if not point.raises:
            status = Status(Code.ERROR, (str(failure),), hook.plugin)
            return PointResult(status, hook.plugin, status)
        if failure is error:
            raise error
        raise failure from error

    def _everyone(
        self, point: Point, hooks: tuple[Hook, ...], args: tuple[object, ...]
    ) -> PointResult:
        errors = []
        for hook in hooks:
            try:
                self.call(point.hook, hook, *args)
            except PluginError as error:
                errors.append(error)
        return PointResult(errors=tuple(errors)) if errors else _SUCCESS

    # Calling single plugins.

    def call_all(self, point: str, hooks: tuple[Hook, ...], *args: object) -> list[object]:
        """Call plugins one after the other, as part of a point; PluginError if one raises."""
        recorder, hook = self.recorder, hooks[0]
        start, code = (0.0 if recorder is None else recorder.timer()), Code.ERROR
        returned = []
        try:
            for hook in hooks:
                if self.sampling:
                    returned.append(self._timed(point, hook, args))
                else:
                    returned.append(hook.function(*args))
            code = Code.SUCCESS
        except Exception as error:
            failure = self.failure(point, hook, error)
            if failure is error:
                raise
            raise failure from error
        finally:
            if recorder is not None:
                self.ended(point, code, start)
        return returned

    def measure(self, point: str, work: Callable[..., T], *args: object) -> T:
        """Do work of a point and record how long it took."""
        recorder = self.recorder
        if recorder is None:
            return work(*args)
        start, code = recorder.timer(), Code.ERROR
        try:
            result = work(*args)
            code = result.status.code if isinstance(result, PointResult) else Code.SUCCESS
        finally:
            self.ended(point, code, start)
        return result

    def call(self, point: str, hook: Hook, *args: object) -> Any:
        """Call one plugin; PluginError if it raises."""
        try:
            if self.sampling:
                return self._timed(point, hook, args)
            return hook.function(*args)
        except Exception as error:
            failure = self.failure(point, hook, error)
            if failure is error:
                raise
            raise failure from error

    def filter(self, hook: Hook, *args: object) -> FilterResult:
        """Call a filter; PluginError if it raises, or cannot filter at all."""
        result: FilterResult = self.call("filter", hook, *args)
        if result.error is not None:
            raise PluginError(f'running "{hook.plugin}" filter plugin: {result.error}')
        return result

    def failure(self, point: str, hook: Hook, error: Exception) -> PluginError:
        """Count what a plugin raised, and return it as a PluginError that names the plugin."""
        if isinstance(error, TakesLong):
            return error  # no failure: the attempt is made again
        self.count_failure(point, hook)
        if isinstance(error, PluginError):
            return error
        return PluginError(broken(point, hook.plugin, error))

    def count_failure(self, point: str, hook: Hook) -> None:
        """Count an error of a plugin."""
        if self.recorder is not None:
            self.recorder.broken[hook.plugin, POINTS[point].name] += 1

    # Measuring.

    def began(self) -> float:
        """Return the start of a measured span in seconds; 0 without a recorder."""
        return 0.0 if self.recorder is None else self.recorder.timer()

    def ended(self, point: str, code: Code, start: float) -> None:
        """Record that a point ran since ``start``, and its status."""
        recorder = self.recorder
        if recorder is not None:
            took = recorder.timer() - start
            recorder.points[POINTS[point].name, code].append(took)

    def waited(self, code: Code, seconds: float) -> None:
        """Record how long a pod waited for Permit, by result."""
        if self.recorder is not None:
            self.recorder.waits[(code,)].append(seconds)

    def sample(self, wanted: bool) -> None:
        """Turn the measuring of single plugins on or off."""
        self.sampling = wanted and self.recorder is not None

    def _timed(self, point: str, hook: Hook, args: tuple[object, ...]) -> object:
        recorder = self.recorder
        assert recorder is not None, "plugins are sampled for a recorder"
        start = recorder.timer()
        code = Code.ERROR
        try:
            returned = hook.function(*args)
            code = _code_of(returned)
        finally:
            took = recorder.timer() - start
            if POINTS[point].measured:
                recorder.plugins[hook.plugin, POINTS[point].name, code].append(took)
        return returned


def _active(hooks: Hooks, point: str, skipped: frozenset[str]) -> tuple[Hook, ...]:
    left_out = skipped if POINTS[point].skipped_by else ()
    return tuple(hook for hook in hooks[point] if hook.plugin not in left_out)


def _without(hooks: Hooks, plugins: frozenset[str]) -> Hooks:
    if not plugins:
        return hooks
    return {
        point: tuple(hook for hook in own if hook.plugin not in plugins)
        for point, own in hooks.items()
    }


def _gates(
    pipeline: Pipeline,
) -> tuple[Callable[[PodInfo], object], tuple[Callable[[PodInfo], bool], ...]] | None:
    """Return which pods PreEnqueue plugins may gate, and before that what it depends on.

    None if a plugin does not say.
    """
    rejecting = []
    fields = {"pod_group"}  # attrgetter needs one
    for hook in pipeline.at("pre_enqueue"):
        signature = pipeline.signatures.get(hook.plugin)
        if signature is None or signature.gate.rejects is None:
            return None
        rejecting.append(signature.gate.rejects)
        fields |= {field_key(path[0]) for path in signature.gate.fields}
    return attrgetter(*fields), tuple(rejecting)


@lru_cache(maxsize=1024)
def _skipping(all_skip: bool, *plugins: str) -> PointResult:
    """Return the result of a point that went well, and at which some plugins skipped."""
    return PointResult(SKIP if all_skip else SUCCESS, skipped=frozenset(plugins))


class _Collected:
    """The results after which the next plugin runs, until they are combined."""

    __slots__ = ("_left", "_names", "_narrowing", "_results", "_runner", "_skipped", "_waits")

    def __init__(self, runner: Runner, skipped: list[str]) -> None:
        self._runner = runner
        self._skipped = skipped
        self._names: frozenset[str] | None = None
        self._narrowing: list[str] = []
        self._waits: dict[str, PermitResult] = {}
        self._results: list[tuple[str, PostFilterResult]] = []
        self._left: list[Hook] = []

    def decided(self, plugin: str, returned: object, status: Status) -> PointResult:
        """Return the result that one plugin's result is."""
        status = status.by(plugin)
        if isinstance(returned, PostFilterResult):
            failed = status.code is Code.ERROR
            returned = PostFilterResult(status) if failed else replace(returned, status=status)
            if returned.then is not None:
                self._left.append(Hook(plugin, returned.then))
            if self._left:
                self._finish()
        return self._with(status, plugin, returned)

    def collect(self, plugin: str, returned: object, code: Code) -> PointResult | None:
        """Take in a result; return the result if no node is left."""
        if isinstance(returned, PostFilterResult):
            self._results.append((plugin, returned))
            if returned.then is not None:
                self._left.append(Hook(plugin, returned.then))
        elif isinstance(returned, PermitResult):
            if code is Code.WAIT:
                self._waits[plugin] = self._guarded(plugin, returned)
        elif isinstance(returned, PreFilterResult) and returned.node_names is not None:
            names = returned.node_names
            self._narrowing.append(plugin)
            self._names = names if self._names is None else self._names & names
            if not self._names:
                return self._with(_no_node_left(self._narrowing), "", None)
        return None

    def content(self) -> PointResult:
        """Return the result where no plugin objected."""
        return self._with(WAIT if self._waits else SUCCESS, "", None, self._waits)

    def _finish(self) -> None:
        """Do what PostFilter plugins have left to be done after all of them."""
        for then in self._left:
            self._runner.call("post_filter", then)

    def joined(self, first: str) -> PointResult:
        """Return the reasons of all PostFilter plugins, attributed to the first, as upstream."""
        reasons: list[str] = []
        nominated: str | None = None
        for plugin, result in self._results:
            if result.nominated_node is not None:
                nominated = result.nominated_node
            reasons += _beside(reasons, result.status.by(plugin))
        if self._left:
            self._finish()
        status = Status(Code.UNSCHEDULABLE, tuple(reasons), first)
        return PointResult(status, first, PostFilterResult(status, nominated))

    def _with(
        self,
        status: Status,
        plugin: str,
        returned: object,
        waits: Mapping[str, PermitResult] | None = None,
    ) -> PointResult:
        return PointResult(
            status,
            plugin,
            returned,
            frozenset(self._skipped),
            self._names,
            tuple(self._narrowing),
            {} if waits is None else waits,
        )

    def _guarded(self, plugin: str, result: PermitResult) -> PermitResult:
        """Return a result whose function, when it raises, raises a PluginError."""
        if result.again is None:
            return result
        permit = partial(self._runner.call, "permit", Hook(plugin, permit_of(result.again)))
        return replace(
            result, again=with_permit(result.again, cast("Callable[[], Status]", permit))
        )


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


def _beside(reasons: Sequence[str], status: Status) -> Iterator[str]:
    """Yield the reasons of one more PostFilter plugin.

    Two plugins that preempt both begin with "preemption:"; the name of the second replaces that.
    """
    heads = {reason.partition(": ")[0] for reason in reasons}
    for reason in status.reasons:
        head, colon, rest = reason.partition(": ")
        if colon and head in heads:
            yield f"{status.plugin}: {rest}"
        else:
            yield reason


def _code_of(returned: object) -> Code:
    """Return the status code of a plugin's result."""
    if isinstance(returned, Status):
        return returned.code
    if isinstance(returned, PreFilterResult | PostFilterResult | PermitResult):
        return returned.status.code
    if isinstance(returned, FilterResult):
        if returned.error is not None:
            return Code.ERROR
        codes = returned.codes
        rejected = codes is not None and bool(codes.size) and bool(codes.all())
        return Code.UNSCHEDULABLE if rejected else Code.SUCCESS
    return Code.WAIT if isinstance(returned, PendingStatus) else Code.SUCCESS
