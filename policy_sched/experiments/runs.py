"""One run: a variant and a seed on the inputs of an experiment; pure, and the same every time.

Theory of operation. Pods without arrival times have one attempt each, in their order: an
unschedulable pod is dropped, and victims of preemption leave at once. If no plugin acts outside of
the decision, such a run needs neither queue nor binding cycle. Otherwise the run is a simulation
over virtual time. After each event the measures are noted; at the end they become points of curves
and a value each. Whatever a run raises is its failure, and stops no other run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any, Final

import msgspec

from policy_sched.client import VirtualClient
from policy_sched.cluster import Cache
from policy_sched.errors import PolicySchedError
from policy_sched.experiments.inputs import (
    START,
    DeviceAgent,
    Inputs,
    ranked,
    renamed,
    without_departure,
)
from policy_sched.experiments.measures import (
    Level,
    MeasureRules,
    Series,
    Sums,
    of_allocation,
    of_times,
    rounded,
    with_rounded_points,
)
from policy_sched.experiments.reading import HOUR, MAX_PODS
from policy_sched.experiments.tables import SEED
from policy_sched.language import Expression
from policy_sched.manifests import set_creation_times
from policy_sched.model import SECOND, ApiObject, Node, Pod, PodInfo, PodInfos, QueuedPod
from policy_sched.profiles.build import CompiledPlan
from policy_sched.profiles.models import ExperimentSpec, Measure
from policy_sched.scheduler import (
    Attempt,
    Bind,
    Preempt,
    Profile,
    Scheduler,
    decide_without_reasons,
    pod_gone,
)
from policy_sched.scheduler.setup import EPOCH, assemble, load_cluster
from policy_sched.simulate import Timeline, TimelineResult, enqueue, replaying

DEFAULT_BINDER: Final = "DefaultBinder"
_AROUND: Final = (
    "pre_enqueue",
    "post_filter",
    "reserve",
    "permit",
    "pre_bind_pre_flight",
    "pre_bind",
    "post_bind",
)
NO_TIME: Final = -1
"""The time of events where no time passes."""


@dataclass(frozen=True, slots=True)
class RunVariant:
    """The compiled plans of a run, and the rules of its measures."""

    name: str
    plans: tuple[CompiledPlan, ...]
    rules: Mapping[str, MeasureRules]
    devices: Expression | None = None

    def device_agent(self, spec: ExperimentSpec, scheduler: Scheduler) -> DeviceAgent | None:
        """Return what gives bound pods their devices, if devices are counted."""
        counted = spec.cluster.devices
        if counted is None or self.devices is None:
            return None
        return DeviceAgent(scheduler, counted.resource, self.devices)


@dataclass(slots=True)
class RunResult:
    """The result of a run: plain data.

    ``values`` by measure, None for none; ``curve`` has the column ``x`` and one for each measure
    over events.
    """

    values: dict[str, float | None] = field(default_factory=dict)
    curve: dict[str, list[float]] = field(default_factory=dict)
    pods: list[dict[str, Any]] = field(default_factory=list)
    """The records of all pods, if they are asked for."""


class LowestRank(Random):
    """Breaks ties by the order of nodes: always the first of them."""

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """Return the first number of a range."""
        del step
        return 0 if stop is None else start


def run(inputs: Inputs, spec: ExperimentSpec, variant: RunVariant, seed: int) -> RunResult:
    """Run a variant with a seed.

    Raises PolicySchedError if a decision cannot be executed or a measure has no value.
    """
    if inputs.traffic is not None:
        return _measured(replaying(inputs.traffic, variant.plans, seed), spec, variant)
    column = spec.tie_break.column.replace(SEED, str(seed))
    given = ranked(inputs, column)
    ties = LowestRank() if spec.tie_break.order == "Given" else None
    pods = arriving(given, spec, seed)
    arrivals = spec.workload.arrivals
    if arrivals is not None and arrivals.every is None:
        return _Attempts(given, spec, variant, seed, ties).run(pods)
    return _timed(given, spec, variant, (seed, ties, pods))


# The pods that arrive.


def arriving(inputs: Inputs, spec: ExperimentSpec, seed: int) -> list[Pod]:
    """Return the pods in the order of their arrival; pods that arrive again have other names."""
    arrivals, pods = spec.workload.arrivals, inputs.pods
    if not spec.workload.departures:
        pods = tuple(map(without_departure, pods))
    if arrivals is None:
        return list(pods)
    if arrivals.file is not None:
        order: Sequence[int] = inputs.arrivals[arrivals.column.replace(SEED, str(seed))]
    else:
        order = _sampled(inputs, spec, Random(seed))  # noqa: S311 - a seed makes it repeatable
    arriving: list[Pod] = []
    times: Counter[int] = Counter()
    for position, index in enumerate(order):
        pod, before = pods[index], times[index]
        times[index] += 1
        if before:
            pod = renamed(pod, f"-{before + 1}")
        if arrivals.every is not None:
            created = START + timedelta(microseconds=position * arrivals.every // 1000)
            metadata = msgspec.structs.replace(pod.metadata, creation_timestamp=created)
            pod = msgspec.structs.replace(pod, metadata=metadata)
        arriving.append(pod)
    return arriving


def _sampled(inputs: Inputs, spec: ExperimentSpec, rng: Random) -> list[int]:
    arrivals = spec.workload.arrivals
    assert arrivals is not None, "the caller has them"
    order = list(range(len(inputs.pods)))
    if arrivals.order != "Given":
        order.sort(key=lambda number: inputs.pods[number].metadata.name)
    if arrivals.order == "Shuffled":
        rng.shuffle(order)
    if arrivals.inflate is None:
        return order
    resource = arrivals.inflate.resource
    requests = [PodInfo.of(pod).requests.get(resource, 0) for pod in inputs.pods]
    target = arrivals.inflate.percent * _capacity(inputs, resource) / 100
    total = sum(requests)
    any_requests = total > 0
    while total > target and order:
        total -= requests[order.pop(rng.randrange(len(order)))]
    while any_requests:
        number = rng.randrange(len(requests))
        if total + requests[number] > target:
            break
        if len(order) == MAX_PODS:
            raise PolicySchedError(f"more than {MAX_PODS:,} pods are drawn")
        total += requests[number]
        order.append(number)
    return order


def _capacity(inputs: Inputs, resource: str) -> int:
    """Return what the nodes have of a resource, in the scheduler's units."""
    cache = Cache()
    load_cluster(cache, (node for node in inputs.cluster if isinstance(node, Node)))
    return cache.nodes.total_allocatable(resource)


# Without time.


class _Attempts:
    """A run in which no time passes: each pod has one attempt when it arrives."""

    def __init__(
        self,
        inputs: Inputs,
        spec: ExperimentSpec,
        variant: RunVariant,
        seed: int,
        ties: Random | None,
    ) -> None:
        objects = [*inputs.cluster, *inputs.others]
        set_creation_times(objects, EPOCH)
        self._spec = spec
        self._client = VirtualClient()
        self._scheduler = assemble(
            variant.plans, seed=seed, objects=objects, client=self._client, ties=ties
        )
        self._client.objects = self._scheduler.handle.objects
        self._scheduler.decide = decide_without_reasons
        load_cluster(self._scheduler.cache, objects)
        self._devices = variant.device_agent(spec, self._scheduler)
        self._at_once = all(map(_decides_at_once, self._scheduler.profiles.values()))
        self._pods = PodInfos()
        self._arrived = self._placed = self._evicted = 0
        self._requested = 0
        self._infos: dict[str, PodInfo] = {}
        counts: dict[str, Level] = {
            "Arrived": lambda: self._arrived,
            "Placed": lambda: self._placed,
            "Unplaced": lambda: self._arrived - self._placed,
            "Pending": lambda: len(self._scheduler.queue),
            "Running": lambda: self._placed - self._evicted,
            "Evicted": lambda: self._evicted,
        }
        self._levels = levels(spec, variant, self._scheduler, counts)

    def run(self, pods: Sequence[Pod]) -> RunResult:
        """Try all pods, and return the result."""
        spec, series, stop = self._spec, Series.of(list(self._levels)), self._spec.stop
        set_creation_times(pods, EPOCH)
        journal, version = self._scheduler.cache.nodes.journal, -1
        counted = {measure.name for measure in spec.measures if measure.pods is not None}
        measured = [(name in counted, level) for name, level in self._levels.items()]
        where = self._axis()
        for pod in pods:
            info = self._pods.of(pod)
            self._arrives(info)
            series.times.append(NO_TIME)
            series.x.append(where(info))
            moved, version = version != journal.version, journal.version
            for column, (counts, level) in zip(series.values, measured, strict=True):
                # Only a change of a node changes what is measured over nodes.
                column.append(level() if moved or counts else column[-1])
            if stop.arrived is not None and self._arrived >= stop.arrived:
                break
            if stop.unplaced is not None and self._arrived - self._placed >= stop.unplaced:
                break
        result = RunResult(values=_values(spec, series, 0))
        if spec.curve is not None:
            curve = series.by_points(spec.curve.step, spec.curve.value)
            result.curve = with_rounded_points(curve, spec.measures)
        if "Pods" in spec.record:
            result.pods = list(self._records())
        return result

    def _axis(self) -> Callable[[PodInfo], float]:
        """Return the function from a pod that arrived to its place on the curve's axis."""
        curve = self._spec.curve
        if curve is None or curve.arrived is None:
            return lambda _info: self._arrived
        resource = curve.arrived
        whole = self._scheduler.cache.nodes.total_allocatable(resource)

        def share(info: PodInfo) -> float:
            self._requested += info.requests.get(resource, 0)
            return 100.0 * self._requested / whole if whole else 0.0

        return share

    def _arrives(self, info: PodInfo) -> None:
        scheduler, client = self._scheduler, self._client
        self._arrived += 1
        self._infos[info.uid] = info
        profile = scheduler.profiles.get(info.scheduler_name)
        self._at_once = self._at_once and not info.pod_group
        if self._at_once and profile is not None:
            self._decide(info, profile)
            return
        if enqueue(scheduler, info) is not None:
            return
        while (decided := scheduler.schedule_one()) is not None:
            retry = False
            for outcome in (decided, *decided.others):
                decision = outcome.decision
                if isinstance(decision, Preempt) and client.leaving:
                    for deletion in client.leaving:
                        victim = self._infos.get(deletion.uid) or scheduler.cache.pod(deletion.uid)
                        assert victim is not None, "it holds room"
                        pod_gone(scheduler, victim.on(decision.node))
                        self._evicted += 1
                    client.leaving.clear()
                    scheduler.queue.activate([outcome.pod.uid])
                    retry = True
                elif not outcome.node and scheduler.queue.get(outcome.pod.uid) is not None:
                    pod_gone(scheduler, outcome.pod)
            if self._devices is not None:
                for pod, node in client.bound:
                    self._infos[pod.uid] = self._devices.give(pod, node)
            self._placed += len(client.bound)
            client.bound.clear()
            client.nominated.clear()
            if not retry and not scheduler.queue.active():
                break

    def _decide(self, info: PodInfo, profile: Profile) -> None:
        """Decide a pod, and count it on its node: no plugin runs besides those that decide."""
        scheduler = self._scheduler
        chosen = scheduler.choose(Attempt(QueuedPod(info), profile))
        if not isinstance(chosen, Bind):
            return
        if self._devices is not None:
            info = self._infos[info.uid] = self._devices.given(info, chosen.node)
        scheduler.cache.assume(info, chosen.node)
        self._client.bindings[info.uid] = chosen.node
        self._placed += 1

    def _records(self) -> Iterator[dict[str, Any]]:
        nodes = self._client.bindings
        for index, (uid, info) in enumerate(self._infos.items()):
            yield {
                "position": index,
                "pod": info.key,
                "node": nodes.get(uid, ""),
                **_devices_of(self._devices, info.key),
            }


def _decides_at_once(profile: Profile) -> bool:
    """Return whether a pod is bound if there is a node for it, and is done with otherwise.

    So it is where no plugin runs besides PreFilter, Filter and scores: pods neither wait for others
    nor make any leave, and the queue and the binding cycle change nothing.
    """
    hooks = profile.runner.hooks
    binding = [hook.plugin for hook in hooks["bind"]]
    if profile.extenders or binding != [DEFAULT_BINDER]:
        return False
    return not any(hooks[point] for point in _AROUND)


def levels(
    spec: ExperimentSpec,
    variant: RunVariant,
    scheduler: Scheduler,
    counts: Mapping[str, Level],
) -> dict[str, Level]:
    """Return the measures that have a value at every event, by name."""
    table, pods = scheduler.cache.nodes, scheduler.cache.pods
    levels: dict[str, Level] = {}
    sums = Sums(table, pods)
    for measure in spec.measures:
        if measure.allocation is not None:
            levels[measure.name] = of_allocation(measure.allocation, table, sums.recent)
        elif measure.pods is not None:
            levels[measure.name] = counts[measure.pods]
        elif measure.time is None:
            levels[measure.name] = sums.level(measure.name, variant.rules[measure.name])
        if measure.decimals is not None and measure.name in levels:
            levels[measure.name] = rounded(levels[measure.name], measure.decimals)
    return levels


def _values(spec: ExperimentSpec, series: Series, end: int) -> dict[str, float | None]:
    """Return the values of measures over events."""
    return {
        measure.name: series.summary(
            series.names.index(measure.name), measure.summary or "Last", end
        )
        for measure in spec.measures
        if measure.time is None
    }


# Over virtual time.


def _timed(
    inputs: Inputs,
    spec: ExperimentSpec,
    variant: RunVariant,
    how: tuple[int, Random | None, Sequence[Pod]],
) -> RunResult:
    """Run over virtual time. ``how``: the seed, what breaks ties, and the pods that arrive."""
    seed, ties, pods = how
    objects: list[ApiObject] = [*inputs.cluster, *inputs.others, *pods]
    timeline = Timeline(objects, variant.plans, seed, retry=spec.workload.retry, ties=ties)
    return _measured(timeline, spec, variant)


def _measured(timeline: Timeline, spec: ExperimentSpec, variant: RunVariant) -> RunResult:
    """Run a simulation, and return what is measured."""
    devices = variant.device_agent(spec, timeline.scheduler)
    timeline.give_devices = None if devices is None else devices.give
    counts: dict[str, Level] = {
        "Arrived": lambda: len(timeline.arrived),
        "Placed": lambda: timeline.placed,
        "Unplaced": lambda: len(timeline.arrived) - timeline.placed,
        "Pending": lambda: len(timeline.scheduler.queue),
        "Running": lambda: timeline.running,
        "Evicted": lambda: timeline.evicted,
    }
    measured = levels(spec, variant, timeline.scheduler, counts)
    series, stop, curve = Series.of(list(measured)), spec.stop, spec.curve
    resource = None if curve is None else curve.arrived
    requested, seen = 0, 0

    def noted(now: Timeline) -> bool:
        nonlocal requested, seen
        for info in now.arrived[seen:]:
            requested += 0 if resource is None else info.requests.get(resource, 0)
            seen += 1
        x: float = seen
        if resource is not None:
            whole = now.scheduler.cache.nodes.total_allocatable(resource)
            x = 100.0 * requested / whole if whole else 0.0
        series.note(now.now, x, (level() for level in measured.values()))
        if stop.arrived is not None and seen >= stop.arrived:
            return True
        return stop.unplaced is not None and seen - now.placed >= stop.unplaced

    timeline.run(stop.after, noted)
    played = timeline.result(0.0)
    result = RunResult(values=_values(spec, series, played.end))
    result.values.update(_times(spec.measures, played))
    result.values = {measure.name: result.values[measure.name] for measure in spec.measures}
    if curve is not None:
        step = round(curve.step * HOUR)
        points = (
            series.by_time(played.start, played.end, step, curve.value)
            if curve.time
            else series.by_points(curve.step, curve.value)
        )
        result.curve = with_rounded_points(points, spec.measures)
    if "Pods" in spec.record:
        result.pods = list(_records(played, devices))
    return result


def _times(measures: Sequence[Measure], played: TimelineResult) -> dict[str, float | None]:
    """Return the measures of time, in seconds."""
    values: dict[str, float | None] = {}
    for measure in measures:
        if measure.time == "Makespan":
            values[measure.name] = (played.end - played.start) / SECOND
        elif measure.time is not None:
            ends = [
                life.bound if measure.time == "Waiting" else life.ended
                for life in played.lives
                if measure.time == "Waiting" or not life.evicted
            ]
            begins = [
                life.created
                for life in played.lives
                if measure.time == "Waiting" or not life.evicted
            ]
            lengths = [
                (end - begin) / SECOND
                for begin, end in zip(begins, ends, strict=True)
                if end is not None
            ]
            values[measure.name] = of_times(lengths, measure.summary or "Mean")
    return values


def _devices_of(devices: DeviceAgent | None, pod: str) -> dict[str, str]:
    """Return the column of a pod's devices, if they are counted."""
    if devices is None:
        return {}
    return {"devices": " ".join(map(str, devices.taken.get(pod, ())))}


def _records(played: TimelineResult, devices: DeviceAgent | None) -> Iterator[dict[str, Any]]:
    def since_start(time: int | None) -> float | str:
        return "" if time is None else (time - played.start) / SECOND

    for index, life in enumerate(played.lives):
        yield {
            "position": index,
            "pod": life.pod,
            "node": life.node,
            "created": since_start(life.created),
            "bound": since_start(life.bound),
            "ended": since_start(life.ended),
            "evicted": life.evicted,
            "attempts": life.attempts,
            **_devices_of(devices, life.pod),
        }
