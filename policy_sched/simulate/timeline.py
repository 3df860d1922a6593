"""Simulates a cluster over virtual time: pods arrive, wait, run for their duration and end.

Theory of operation. `FutureEvents` has the known events: arrivals of nodes and pods, completions,
and ends of grace periods. The clock jumps to the first of these, or to the next deadline of the
scheduler (the end of a backoff, a timeout), whichever is earlier; then the scheduler decides until
no pod is ready. Deciding, binding and starting take no time. At one instant, ends are applied
first, then nodes, then pods in their order, so the same input gives the same result. Pods that
fitted nowhere are retried as in a cluster, or at once (see `Retries`).

A controller recreates an evicted pod under another name, and it runs from the beginning; a pod
without a controller is lost. Otherwise controllers do nothing over time: a job's pods are those
that run at first, and daemons are for the given nodes. The simulation ends when no event is left
and every pending pod has had another attempt.

Recorded traffic is played, too (see `replayed`): its steps are events like others, and it says how
long pods run. Such a simulation ends where the traffic does.
"""

from __future__ import annotations

import gc
import heapq
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from itertools import islice
from random import Random
from typing import Any, Final, Literal, Protocol, TypeAlias

from policy_sched import model
from policy_sched.client import VirtualClient
from policy_sched.errors import PolicySchedError
from policy_sched.framework import PodToEvict
from policy_sched.model import ASSIGNED_POD_ADD, ClusterEvent, QueuedPod, QueueState
from policy_sched.profiles.build import CompiledPlan
from policy_sched.profiles.reload import Compilation, PolicyFiles, PolicyStore
from policy_sched.queue import SECOND, HintTable, Rejection, SortKey, Timing
from policy_sched.report import Advance, unshown
from policy_sched.scheduler import (
    Bind,
    EvictionTimes,
    Outcome,
    Preempt,
    Reject,
    Scheduler,
    candidates,
    free_claims,
    in_turn,
    make_claims,
    node_gone,
    node_seen,
    pod_ended,
    pod_gone,
    pod_runs,
    pod_seen,
    queue_hints,
    queue_sort,
)
from policy_sched.scheduler.setup import ENDED, EPOCH, Reloader, assemble_with_assembly
from policy_sched.simulate import one_shot, timeline_result
from policy_sched.simulate.report import Application
from policy_sched.simulate.timeline_result import StepFunction
from policy_sched.simulate.traffic import Step, Traffic

#: The queue retries no pod by time: no simulation is as long.
TIMING: Final = Timing(unschedulable_timeout=10**10 * SECOND)

_Entry: TypeAlias = tuple[SortKey, int, QueuedPod]


class _GatedPods(HintTable):
    """The hints of the plugins, for gated pods alone."""

    def concerns(self, rejection: Rejection, event: ClusterEvent) -> bool:
        """Tell whether an event may end the gating of a group of pods."""
        return bool(rejection.gated_by) and super().concerns(rejection, event)


class Retries:
    """The unschedulable pods of a scheduler, retried after each event and without a backoff."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._sort_key = queue_sort(scheduler.profiles)
        self._hints = queue_hints(scheduler.profiles)
        scheduler.queue.hints = _GatedPods(self._hints.registered)
        self._waiting: dict[Hashable, list[_Entry]] = {}
        self._held: dict[str, int] = {}
        self._tried: dict[str, Hashable] = {}
        self._bound = False

    def begin(self) -> None:
        """Activate the first pod of each group of equal pods, after an event."""
        self._bound = False
        # For speed, only one of equal pods is tried: if it fits nowhere, none of them does.
        for alike in list(self._waiting):
            self._try_next(alike)

    def begin_again(self) -> bool:
        """Activate the pods that may fit since another one was bound; return whether there are
        any."""
        bound = False
        if self._bound:
            self._bound = False
            for alike, entries in list(self._waiting.items()):
                queued = entries[0][2]
                rejection = Rejection(
                    queued.info.scheduler_name, queued.rejected_by, queued.pending, ""
                )
                if self._hints.concerns(rejection, ASSIGNED_POD_ADD):
                    bound = self._try_next(alike) or bound
        return bound

    def note(self, outcome: Outcome) -> None:
        """Hold a rejected pod, and activate its next equal if it was not rejected."""
        uid = outcome.pod.uid
        alike = self._tried.pop(uid, None)
        queued = self._scheduler.queue.get(uid)
        if queued is not None and queued.place is QueueState.UNSCHEDULABLE:
            self._hold(queued)
        if isinstance(outcome.decision, Bind):
            self._bound = True
        if alike is not None and not isinstance(outcome.decision, Reject):
            self._try_next(alike)

    def _hold(self, queued: QueuedPod) -> None:
        """Hold a pod until the next event; it keeps its position in the order of the queue."""
        queued.enqueued_at = queued.first_enqueued_at
        turn = self._held.setdefault(queued.info.uid, len(self._held))
        entry = (self._sort_key(queued), turn, queued)
        heapq.heappush(self._waiting.setdefault(self._alike(queued), []), entry)

    def _alike(self, queued: QueuedPod) -> Hashable:
        """Return a key that is equal for pods with equal decisions: if one is rejected, so are the
        others."""
        pod = queued.info
        signature = self._scheduler.profiles[pod.scheduler_name].evaluator.signature_of(pod)
        if signature is None or pod.pod_group or pod.nominated_node_name:
            return pod.uid  # its decision depends on more than the signature
        return pod.scheduler_name, pod.priority, signature

    def _try_next(self, alike: Hashable) -> bool:
        """Activate the first of some equal pods; return whether there is one."""
        queue, entries = self._scheduler.queue, self._waiting.get(alike)
        while entries:
            _, _, queued = heapq.heappop(entries)
            if not entries:
                del self._waiting[alike]
            uid = queued.info.uid
            if queued.place is QueueState.UNSCHEDULABLE and uid not in self._tried:
                self._tried[uid] = alike
                queue.activate([uid])
                return True
        return False


#: Kubernetes' default of terminationGracePeriodSeconds.
GRACE_SECONDS: Final = 30
#: How long pods may wait after the last event, beyond the time after which each is retried.
LAST_RETRIES: Final = 60 * SECOND
LONGEST: Final = 100_000_000 * SECOND
"""Virtual time of a simulation at most, three years: pods that wait are tried every 5 minutes."""
#: New objects after which Python looks for cycles.
NEW_OBJECTS: Final = 1_000_000

Retry: TypeAlias = Literal["Backoff", "AtOnce"]
"""When an unschedulable pod is retried: after a backoff and an event that may help it, as in a
cluster; or after every event, without a backoff.
"""


def play(
    objects: Iterable[model.ApiObject],
    plans: Sequence[CompiledPlan],
    *,
    seed: int = 0,
    until: int | None = None,
    retry: Retry = "Backoff",
    advance: Advance = unshown,
) -> timeline_result.TimelineResult:
    """Simulate the objects' cluster under compiled plans.

    ``seed`` breaks ties. ``until``: nanoseconds after the start at which the simulation stops.
    ``advance`` is called with the number of pods that arrived. Raises PolicySchedError if a
    decision cannot be executed.
    """
    started = time.perf_counter()
    timeline = Timeline(list(objects), plans, seed, retry=retry)
    timeline.advance = advance
    timeline.run(until)
    return timeline.result(time.perf_counter() - started)


class Course(Protocol):
    """What happens to a cluster, where that is known: traffic that was recorded."""

    def play(self, step: Step) -> None:
        """Apply one step."""

    def end_of(self, uid: str, since: int) -> int | None:
        """Return when a pod ends that runs from now on; None if a step says so in its time."""

    def leaves_itself(self, uid: str) -> bool:
        """Return whether steps say when a pod that is evicted ends, and what comes in its place."""

    def stands_for(self, pod: model.Pod, uid: str) -> None:
        """A pod is to be created in place of another one."""

    def comes_again(self, pod: model.Pod) -> None:
        """It is time for a pod that is created in place of another one."""


class Timeline:
    """A simulation in progress; ``advance`` is called with the number of pods that arrived.

    ``placed`` and ``evicted`` are numbers of pods so far. ``arrived``: the pods that have arrived,
    in their order; ``lives``: what became of them, by UID, in the same order. ``give_devices``, if
    it is set, is called with each bound pod and its node, and returns the pod as it counts from
    then on. ``objects``: a cluster with pods that wait, or recorded traffic, whose changes of
    policies come into force as far as ``compiled_by_hash`` has them; ``course`` plays it.
    """

    def __init__(
        self,
        objects: Sequence[model.ApiObject] | Traffic,
        plans: Sequence[CompiledPlan],
        seed: int = 0,
        *,
        retry: Retry = "Backoff",
        ties: Random | None = None,
        course: Callable[[Timeline], Course] | None = None,
    ) -> None:
        traffic = None
        if isinstance(objects, Traffic):
            traffic, objects = objects, objects.objects
        self.placed = self.evicted = 0
        self.give_devices: Callable[[model.PodInfo, str], model.PodInfo] | None = None
        waiting = [
            (model.nanoseconds(obj.metadata.creation_timestamp), obj)
            for obj in objects
            if waits(obj)
        ]
        self._start = min([at for at, _ in waiting if at], default=EPOCH)
        self._end = None if traffic is None else traffic.end
        self._start = self._start if traffic is None else traffic.start
        self._clock = one_shot.VirtualClock(self._start)
        self._client = VirtualClient()
        self.scheduler, assembly = assemble_with_assembly(
            plans,
            seed=seed,
            objects=objects,
            client=self._client,
            now=self._clock,
            timing=TIMING if retry == "AtOnce" else None,
            ties=ties,
        )
        self._plans, self._assembly = tuple(plans), assembly
        self._reloader: Reloader | None = None
        self.compiled_by_hash: Mapping[str, Compilation] = {}
        self._retries = Retries(self.scheduler) if retry == "AtOnce" else None
        self._client.objects = self.scheduler.handle.objects
        self.advance: Advance = unshown
        self._course = None if course is None else course(self)
        self._events = FutureEvents(() if traffic is None else traffic.steps)
        self._last = self._start
        self.lives: dict[str, timeline_result.PodTimeline] = {}
        self.arrived: list[model.PodInfo] = []
        self._infos = model.PodInfos()
        self._evictions_due = EvictionTimes()
        self._application = Application(self.scheduler, plans)
        self._running: dict[str, model.PodInfo] = {}
        self._again: Counter[str] = Counter()
        self._origins: dict[str, str] = {}
        self._evictions: list[timeline_result.TimelineEviction] = []
        self._used: Counter[str] = Counter()
        self._changed = {"pods"}
        self._waiting = -1
        self._pending, self._count = StepFunction(), StepFunction()
        self._used_steps: dict[str, StepFunction] = {}
        self._allocatable: dict[str, StepFunction] = {}
        self._span = known_span([pod for _, pod in waiting if isinstance(pod, model.Pod)])
        self._load(objects, waiting)

    def _load(
        self, objects: Iterable[model.ApiObject], waiting: Iterable[tuple[int, model.ApiObject]]
    ) -> None:
        """Take in the cluster as it is at the start, and expect later nodes and pods."""
        for obj in objects:
            if isinstance(obj, model.Node):
                since = model.nanoseconds(obj.metadata.creation_timestamp)
                if since > self._start and self._end is None:
                    self._expect(since, FutureEventKind.NODE, obj)
                else:
                    self.scheduler.cache.add_node(obj)
            elif isinstance(obj, model.Namespace):
                self.scheduler.cache.set_namespace(obj)
            elif (
                isinstance(obj, model.Pod) and obj.spec.node_name and obj.status.phase not in ENDED
            ):
                info = model.PodInfo.of(obj)
                self.place(info, info.start_time or self._start)
        self._note_allocatable()
        self._take_note()
        for at, pod in waiting:
            self._events.add(max(at, self._start), FutureEventKind.POD, pod)
        self._events.put_in_order()

    def place(self, info: model.PodInfo, since: int) -> None:
        """Count a pod on the node that it has; it was not decided here."""
        self.scheduler.cache.add_pod(info)
        self._runs(info, since, info.pod)

    def _expect(self, at: int, kind: FutureEventKind, what: model.ApiObject | str) -> None:
        """Add a future event; one in the past takes place at the start."""
        now = self._clock.ns
        self._events.add(max(now, at), kind, what)

    @property
    def now(self) -> int:
        """The time, in nanoseconds since 1970."""
        return self._clock.ns

    @property
    def running(self) -> int:
        """The number of pods that run."""
        return len(self._running)

    def runs(self, uid: str) -> model.PodInfo | None:
        """Return a pod if it runs."""
        return self._running.get(uid)

    def run(
        self, until: int | None = None, stops: Callable[[Timeline], bool] | None = None
    ) -> None:
        """Simulate to the end, or for a number of nanoseconds.

        ``stops`` is called after each instant at which something happened, and ends the run.
        Raises PolicySchedError, before anything is decided if that can be known, for more virtual
        time than `LONGEST`.
        """
        if self._end is not None:
            left = self._end - self._start
            until = left if until is None else min(until, left)
        require_span(self._span, until)
        with _few_collections():
            self._run(until, stops)
        if self._end is not None:
            self._last = self._start + (until or 0)

    def _run(self, until: int | None, stops: Callable[[Timeline], bool] | None) -> None:
        events, queued = self._events, self.scheduler.queue.by_uid
        happens: dict[FutureEventKind, Callable[[Any], None]] = {
            FutureEventKind.END: self.ends,
            FutureEventKind.NODE: self.joins,
            FutureEventKind.POD: self.arrives,
        }
        if self._course is not None:
            happens[FutureEventKind.STEP] = self._course.play
            happens[FutureEventKind.POD] = self._course.comes_again
        self._evictions_due.take(self.scheduler.profiles, self._clock.ns)
        latest = self._start + min(LONGEST, LONGEST if until is None else until)
        while (at := self._next(until)) is not None:
            if at > latest:
                require_span(at - self._start, until)
                self._last = latest
                return
            self._clock.ns = at
            for _, kind, _, what in events.due(at):
                self._last = at
                happens[kind](what)
            if self._evictions_due.next is not None:
                self._evict_what_is_due(self._evictions_due.next)
            if self._retries is not None:
                self._retries.begin()
            # A pod that is decided or bound is still in the queue: without any nothing is due.
            while queued and (self._decides() or self._retry_others()):
                pass
            self._take_note()
            if stops is not None and stops(self):
                return

    def _next(self, until: int | None) -> int | None:
        """Return the time of the next event; None at the end.

        Looks at the running pods, to evict some, prolong nothing: they happen while something else
        is ahead, or up to ``until``.
        """
        event, look = self._events.next_time(), self._evictions_due.next
        if self.scheduler.queue.by_uid:
            event = self._next_with(event)
        if look is None or not self._running:
            return event
        if event is None:
            return look if until is not None and look <= self._start + until else None
        return min(event, look)

    def _evict_what_is_due(self, look_at: int) -> None:
        scheduler, now = self.scheduler, self._clock.ns
        if look_at > now:
            return
        for look in self._evictions_due.take(scheduler.profiles, now):
            judged = candidates(look, list(self._running.values()), scheduler.handle)
            victims = [victim for victim in judged if isinstance(victim, PodToEvict)]
            for victim in islice(in_turn(victims, scheduler.handle), look.rules.most):
                self._last = now
                self.leaves(victim.pod.uid)

    def _next_with(self, event: int | None) -> int | None:
        """Return the time of the next event while pods are in the queue."""
        scheduler = self.scheduler
        own = scheduler.next_wakeup()
        if own is not None and own <= self._clock.ns:
            own = self._clock.ns + scheduler.queue.timing.sweep
        if event is not None:
            return event if own is None else min(own, event)
        timeout = scheduler.queue.timing.unschedulable_timeout
        patience = LAST_RETRIES + (timeout if self._retries is None else 0)
        late = own is not None and own > self._last + patience
        return None if late and not scheduler.in_flight else own

    def change_policies(self, content_hash: str) -> None:
        """Put other policies in force, if they are given and differ."""
        compilation = self.compiled_by_hash.get(content_hash)
        if compilation is not None:
            self.reloader(compilation).commit(compilation)

    def reloader(self, coming: Compilation) -> Reloader:
        """Return what puts other policies in force, or beside those that are."""
        if self._reloader is None:
            first = Compilation(self._plans, (), coming.settings)
            store = PolicyStore(PolicyFiles(), self._clock, first)
            self._reloader = Reloader(self.scheduler, self._assembly, store)
        return self._reloader

    def joins(self, node: model.Node) -> None:
        """A node came or changed."""
        node_seen(self.scheduler, node)
        self._note_allocatable()

    def parts(self, node: model.Node) -> None:
        """A node was deleted."""
        node_gone(self.scheduler, node)
        self._note_allocatable()

    def arrives(self, pod: model.Pod) -> None:
        """A pod came that waits for a node."""
        now = self._clock.ns
        if pod.spec.resource_claims:
            pod = make_claims(self.scheduler, pod)
        if pod.metadata.creation_timestamp is None:
            pod = one_shot.created_form(pod, now)
        info = self._infos.of(pod)
        life = self.lives[info.uid] = timeline_result.PodTimeline(info.key, info.priority, now)
        self.arrived.append(info)
        life.message = one_shot.enqueue(self.scheduler, info) or ""
        self.advance(1)

    def withdraws(self, uid: str) -> None:
        """A pod that waits for a node was deleted."""
        queued = self.scheduler.queue.get(uid)
        if queued is not None:
            pod_gone(self.scheduler, queued.info)
            self.lives[uid].ended = self._clock.ns

    def ends(self, uid: str) -> None:
        """End a pod that completed or whose grace period is over; it may have ended before."""
        info = self._running.pop(uid, None)
        if info is None:
            return
        pod_ended(self.scheduler, info)
        free_claims(self.scheduler, info)
        self._uses(info, -1)
        life = self.lives.get(uid)
        if life is not None:
            life.ended = self._clock.ns

    def _decides(self) -> bool:
        """Run what is due in the scheduler, and decide until no pod is ready."""
        scheduler = self.scheduler
        ended = scheduler.run_due()
        for outcome in ended:
            self._decided(outcome)
        tried, queued = False, scheduler.queue.by_uid
        while queued and (pod_outcome := scheduler.schedule_one()) is not None:
            tried = True
            self._tried(pod_outcome)
        return tried or bool(ended)

    def settle(self, uid: str) -> None:
        """Decide up to a pod, if it is ready, or taken from backoff as no other is."""
        scheduler = self.scheduler
        queued = scheduler.queue.get(uid)
        if queued is not None and queued.place is QueueState.BACKOFF:
            for late in scheduler.run_due():
                self._decided(late)
        while queued is not None and queued.place in (QueueState.ACTIVE, QueueState.BACKOFF):
            outcome = scheduler.schedule_one()
            if outcome is None:
                return
            self._tried(outcome)
            if outcome.pod.uid == uid:
                return

    def _tried(self, outcome: Outcome) -> None:
        for tried in (outcome, *outcome.others):
            self.lives[tried.pod.uid].attempts += 1
            self._decided(tried)

    def _retry_others(self) -> bool:
        """Activate pods for which a pod that was bound at this instant may have made room."""
        return self._retries is not None and self._retries.begin_again()

    def _decided(self, outcome: Outcome) -> None:
        client = self._client
        self.lives[outcome.pod.uid].message = outcome.message
        if self._retries is not None:
            self._retries.note(outcome)
        if client.bound:
            for pod, node in client.bound:
                self._starts(pod, node)
            client.bound.clear()
        if client.leaving:
            self._evicts(outcome)
        if client.nominated:
            for uid, node in client.nominated:
                queued = self.scheduler.queue.get(uid)
                if queued is not None and queued.info.nominated_node_name != node:
                    pod_seen(
                        self.scheduler,
                        model.PodInfo.of(one_shot.nominated_form(queued.info.pod, node)),
                    )
            client.nominated.clear()

    def _evicts(self, outcome: Outcome) -> None:
        """Record a preemption, and let the victims leave."""
        decision, leaving = outcome.decision, self._client.leaving
        if isinstance(decision, Preempt):
            # Victims that are terminating already are not deleted again.
            victims = tuple(sorted(deletion.key for deletion in leaving))
            self._evictions.append(
                timeline_result.TimelineEviction(
                    self._clock.ns, outcome.pod.key, decision.node, victims
                )
            )
        for deletion in leaving:
            self.leaves(deletion.uid)
        leaving.clear()

    def _starts(self, pod: model.PodInfo, node: str) -> None:
        """Start a bound pod, and deliver the binding to the scheduler."""
        now = self._last = self._clock.ns
        life = self.lives[pod.uid]
        life.bound, life.node = now, node
        self.placed += 1
        if self.give_devices is None:
            info = pod.running(node, now)
            pod_runs(self.scheduler, info)
        else:
            info = model.PodInfo.of(model.running_form(self.give_devices(pod, node).pod, node, now))
            pod_seen(self.scheduler, info)
        self._runs(info, now, pod.pod)

    def _runs(self, info: model.PodInfo, since: int, pod: model.Pod) -> None:
        self._running[info.uid] = info
        self._uses(info, 1)
        if self._course is not None:
            until = self._course.end_of(info.uid, since)
            if until is not None:
                self._expect(until, FutureEventKind.END, info.uid)
            return
        duration = pod.metadata.annotations.get(model.DURATION_ANNOTATION)
        if duration is not None:
            self._expect(since + model.nanoseconds_of(duration), FutureEventKind.END, info.uid)

    def _uses(self, info: model.PodInfo, sign: int) -> None:
        """Count what a pod uses that starts (``sign`` 1) or ends (-1)."""
        used = self._used
        for name, amount in info.requests.items():
            used[name] += sign * amount
        self._changed.update(info.requests)
        self._changed.add("pods")

    def leaves(self, uid: str) -> None:
        """Evict a pod: it ends after its grace period, and its controller may recreate it."""
        info = self._running.get(uid)
        if info is None or info.terminating:
            return
        now = self._clock.ns
        grace = info.pod.spec.termination_grace_period_seconds
        until = now + (GRACE_SECONDS if grace is None else grace) * SECOND
        recorded = self._course is not None and self._course.leaves_itself(uid)
        if not recorded:
            self._expect(until, FutureEventKind.END, uid)
        info = self._running[uid] = model.PodInfo.of(one_shot.leaving_form(info.pod, now))
        pod_seen(self.scheduler, info)
        self.evicted += 1
        life = self.lives.get(info.uid)
        if life is not None:
            life.evicted = True
        if not recorded:
            self._recreate(info, until)

    def _recreate(self, info: model.PodInfo, until: int) -> None:
        """Expect the pod that a controller makes in place of one that ends at a time."""
        owner = next((o for o in info.pod.metadata.owner_references if o.controller), None)
        if owner is None:
            return
        back = until if owner.kind == "StatefulSet" else self._clock.ns
        again = one_shot.next_form(info.pod, self._next_name(info), back)
        if self._course is not None:
            self._course.stands_for(again, info.uid)
        self._expect(back, FutureEventKind.POD, again)

    def ends_at(self, uid: str, at: int) -> None:
        """Expect the end of a pod that runs."""
        self._expect(at, FutureEventKind.END, uid)

    def loses(self, uid: str) -> None:
        """End a pod whose node is gone; its controller may recreate it."""
        info = self._running.get(uid)
        if info is None:
            return
        if not info.terminating:
            self._recreate(info, self._clock.ns)
        life = self.lives.get(uid)
        if life is not None:
            life.evicted = True
        self.ends(uid)

    def terminates(self, uid: str) -> None:
        """A pod that runs is deleted from outside, and ends later."""
        info = self._running.get(uid)
        if info is not None and not info.terminating:
            self.changes(info.like(one_shot.terminating_form(info.pod, self._clock.ns)))

    def changes(self, info: model.PodInfo) -> None:
        """Something of a pod that runs or waits changed, but not where it is."""
        before = self._running.get(info.uid)
        if before is not None:
            self._running[info.uid] = info
            if before.requests is not info.requests:
                self._uses(before, -1)
                self._uses(info, 1)
        pod_seen(self.scheduler, info)

    def _next_name(self, info: model.PodInfo) -> str:
        origin = self._origins.get(info.uid, info.name)
        key = f"{info.namespace}/{origin}"
        self._again[key] += 1
        name = f"{origin}-again-{self._again[key]}"
        self._origins[f"{info.namespace}/{name}"] = origin
        return name

    def _note_allocatable(self) -> None:
        table = self.scheduler.cache.nodes
        for name in one_shot.resource_names(table):
            total = table.live_count and table.total_allocatable(name)
            self._allocatable.setdefault(name, StepFunction()).note(self._clock.ns, total)
            self._changed.add(name)
            # The number of pods on nodes is what they use of the slots for pods.
            self._used_steps.setdefault(name, self._count if name == "pods" else StepFunction())

    def _take_note(self) -> None:
        """Record the number of running and pending pods."""
        now = self._clock.ns
        waiting = len(self.scheduler.queue.by_uid)
        if waiting != self._waiting:
            self._waiting = waiting
            self._pending.note(now, waiting)
        if not self._changed:
            return
        self._count.note(now, len(self._running))
        used = self._used
        for name in self._changed:
            steps = self._used_steps.get(name)
            if steps is not None and steps is not self._count:
                steps.note(now, used[name])
        self._changed.clear()

    def result(self, seconds: float) -> timeline_result.TimelineResult:
        """Return the result."""
        for uid, life in self.lives.items():
            life.message = self.scheduler.queue.why_held(uid) or life.message
        return timeline_result.TimelineResult(
            start=self._start,
            end=self._last,
            nodes=self.scheduler.cache.nodes.live_count,
            lives=tuple(self.lives.values()),
            evictions=tuple(self._evictions),
            pending=self._pending,
            running=self._count,
            used=self._used_steps,
            allocatable=self._allocatable,
            seconds=seconds,
            policies=self._application.report(self.arrived),
        )


@contextmanager
def _few_collections() -> Iterator[None]:
    """Let Python look for cycles seldom in the context: pods make none, and live to the end."""
    before = gc.get_threshold()
    gc.set_threshold(NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def waits(obj: model.ApiObject) -> bool:
    """Return whether an object is a pending pod."""
    return isinstance(obj, model.Pod) and not obj.spec.node_name and obj.status.phase not in ENDED


def known_span(pods: Sequence[model.Pod], *, departures: bool = True) -> int:
    """Return nanoseconds from the first arrival to the last end that pods have without waiting."""
    times = [model.nanoseconds(pod.metadata.creation_timestamp) for pod in pods]
    start = min(filter(None, times), default=EPOCH)
    last = start
    for pod, at in zip(pods, times, strict=True):
        duration = pod.metadata.annotations.get(model.DURATION_ANNOTATION) if departures else None
        last = max(last, max(at, start) + (model.nanoseconds_of(duration) if duration else 0))
    return last - start


def require_span(span: int, until: int | None) -> None:
    """Raise PolicySchedError for a simulation of more than `LONGEST`; ``until``: where it ends."""
    needed = span if until is None else min(span, until)
    if needed > LONGEST:
        long, longest = map(timeline_result.duration_text, (needed, LONGEST))
        text = f"{long} of virtual time are more than {longest}"
        raise PolicySchedError(f"{text}; simulate a part of it, or end it earlier (--until)")


class FutureEventKind(IntEnum):
    """Kinds of future events, in the order in which they are applied at one instant."""

    END = 0
    NODE = 1
    POD = 2
    STEP = 3
    """A step of recorded traffic, whatever it is about."""


Event: TypeAlias = tuple[int, FutureEventKind, int, Any]
"""Time, kind, a serial number for ties, and the object of an event."""


class FutureEvents:
    """The known future events; those of one instant are in the order of their kinds.

    The many first events are sorted once. The few that a run adds are in a heap. ``steps``: of
    recorded traffic, in their order.
    """

    def __init__(self, steps: Sequence[Step] = ()) -> None:
        self._first: list[Event] = [
            (step.time, FutureEventKind.STEP, number, step) for number, step in enumerate(steps)
        ]
        self._first.reverse()
        self._heap: list[Event] = []
        self._number = 0

    def add(self, at: int, kind: FutureEventKind, what: Any) -> None:
        """Add an event."""
        self._number += 1
        heapq.heappush(self._heap, (at, kind, self._number, what))

    def put_in_order(self) -> None:
        """Sort the events that were added up to now."""
        self._first = sorted([*self._first, *self._heap], reverse=True)
        self._heap = []

    def next_time(self) -> int | None:
        """Return when the next event takes place; None if there is none."""
        first, heap = self._first, self._heap
        if first and (not heap or first[-1][0] <= heap[0][0]):
            return first[-1][0]
        return heap[0][0] if heap else None

    def due(self, now: int) -> list[Event]:
        """Take out the events that take place up to ``now``, in their order."""
        first, heap, events = self._first, self._heap, []
        while first and first[-1][0] <= now:
            events.append(first.pop())
        if not heap or heap[0][0] > now:
            return events
        while heap and heap[0][0] <= now:
            events.append(heapq.heappop(heap))
        events.sort()
        return events
