"""Plays recorded traffic on a simulation that decides anew.

Theory of operation. Whatever follows from decisions is left to the simulation: where pods run,
which are evicted, which volumes and devices claims get. The rest happens as it was recorded. A pod
that runs elsewhere than recorded is changed and ends when the recorded one was; one that ends by
itself (a pod of a Job, or one that was seen to succeed or fail) ends after the same running time. A
pod that was bound before it was seen to wait stays where it was, and so do pods for which there is
no profile.

A recorded pod may be represented by another one: a controller recreated it after an eviction that
was not recorded, or it goes on in place of its successor, as the eviction that was recorded did not
take place. What was recorded about it then concerns the other pod.

Of nodes with equal scores the recorded one is taken (`RecordedTies`), and so is the recorded node
of a preemption if the one that was found is no better. So the same policies decide the same.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Final

from msgspec.structs import replace

from policy_sched import model
from policy_sched.cluster.tables import NodeTable
from policy_sched.profiles.build import CompiledPlan
from policy_sched.scheduler import (
    Attempt,
    Decision,
    Preempt,
    Rows,
    Scheduler,
    Ties,
    decide,
    object_gone,
    object_seen,
)
from policy_sched.simulate.timeline import Timeline
from policy_sched.simulate.timeline_result import TimelineResult
from policy_sched.simulate.traffic import RecordedLife, Step, StepKind, Traffic, uid_of

POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"
"""The annotation of a claim that was made of a template for a pod."""
AT_ONCE: Final = model.SECOND
"""Nanoseconds within which a recorded pod leaves that needs no other pod in its place."""
_WAIT: Final = "WaitForFirstConsumer"
_BINDING: Final = (
    "volume.kubernetes.io/selected-node",
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
)


class RecordedTies(Ties):
    """Takes the node that was recorded for a pod where it is among the best, else any of them.

    ``nodes``: their names by the UID of the pod.
    """

    def __init__(self, seed: int, nodes: Mapping[str, str]) -> None:
        super().__init__(seed)
        self._nodes = nodes
        self.row_of: Mapping[str, int] = {}

    def choose(self, pod: model.PodInfo, best: Rows) -> int:
        """Return the recorded row, or one of the best with the same chance for each."""
        row = self.row_of.get(self._nodes.get(pod.uid, ""))
        if row is not None:
            at = bisect_left(best, row)
            if at < len(best) and best[at] == row:
                return row
        return super().choose(pod, best)


class Replayed:
    """Plays the steps of ``traffic`` on ``timeline``."""

    def __init__(self, traffic: Traffic, timeline: Timeline) -> None:
        self._timeline = timeline
        self._lives = traffic.lives
        # By UID of a recorded pod the pod that stands for it, and the other way round.
        self._standing: dict[str, str] = {}
        self._meant: dict[str, str] = {}
        # Recorded pods for which another one already stands when they come.
        self._awaited: dict[str, str] = {}
        # Pods that controllers would create here, whose recorded pods have ended meanwhile.
        self._over: set[str] = set()
        self._handlers: dict[StepKind, Callable[..., None]] = {
            StepKind.ARRIVES: self._arrives,
            StepKind.CHANGES: self._changes,
            StepKind.BOUND: self._bound,
            StepKind.LEAVES: self._leaves,
            StepKind.ENDS: self._ends,
            StepKind.DECIDED: self._decided,
            StepKind.OBJECT: self._object,
            StepKind.OBJECT_GONE: self._object_gone,
            StepKind.POLICIES: timeline.change_policies,
        }

    def play(self, step: Step) -> None:
        """Apply one step."""
        self._handlers[step.kind](step.what)

    def end_of(self, uid: str, since: int) -> int | None:
        """Return when a pod ends that runs from now on; None if the traffic says so in its time."""
        life = self._lives.get(self._meant.get(uid, uid))
        if life is None or life.ran is None or since == life.bound:
            return None
        return since + life.ran

    def leaves_itself(self, uid: str) -> bool:
        """Return whether a pod that is evicted was deleted in the recording by now, too.

        When it ends, and what its controller creates in its place, was recorded then.
        """
        recorded = self._meant.get(uid, uid)
        life = self._lives.get(recorded)
        if life is None or life.left is None or life.left > self._timeline.now + AT_ONCE:
            return False
        self._awaited.pop(life.successor, None)
        return True

    def stands_for(self, pod: model.Pod, uid: str) -> None:
        """A pod is created in place of another one, and of the recorded pod that this stood for."""
        self._represent(self._meant.get(uid, uid), uid_of(pod))

    def comes_again(self, pod: model.Pod) -> None:
        """A controller creates the pod that it was to create, unless it is not wanted any more."""
        if uid_of(pod) in self._over:
            self._over.discard(uid_of(pod))
        else:
            self._timeline.arrives(pod)

    def _represent(self, recorded: str, uid: str) -> None:
        self._standing[recorded], self._meant[uid] = uid, recorded

    # Pods. The simulation knows a pod by the UID of what stands for it.

    def _arrives(self, pod: model.Pod) -> None:
        timeline, uid = self._timeline, uid_of(pod)
        if uid in self._awaited:
            standing = self._awaited.pop(uid)
            self._represent(uid, standing)
            here = timeline.lives.get(standing)
            since = None if here is None else here.bound
            until = None if since is None else self.end_of(standing, since)
            if until is not None:
                timeline.ends_at(standing, until)
        elif pod.spec.node_name:
            timeline.place(model.PodInfo.of(pod), timeline.now)
        elif self._decides(pod):
            timeline.arrives(pod)

    def _decides(self, pod: model.Pod) -> bool:
        name = pod.spec.scheduler_name or model.DEFAULT_SCHEDULER
        return name in self._timeline.scheduler.profiles

    def _changes(self, pod: model.Pod) -> None:
        timeline, uid = self._timeline, uid_of(pod)
        if uid in self._standing:
            return  # a pod of another name
        running = timeline.runs(uid)
        queued = timeline.scheduler.queue.get(uid)
        if running is not None:
            timeline.changes(model.PodInfo.of(_as(pod, running.pod)))
        elif queued is not None:
            timeline.changes(model.PodInfo.of(_as(pod, queued.info.pod)))

    def _bound(self, pod: model.Pod) -> None:
        """Place a pod that is not decided here."""
        timeline, uid = self._timeline, uid_of(pod)
        if uid not in timeline.lives and timeline.runs(uid) is None:
            timeline.place(model.PodInfo.of(pod), timeline.now)

    def _leaves(self, uid: str) -> None:
        standing = self._standing.get(uid, uid)
        life, timeline = self._lives[uid], self._timeline
        if life.evicted and self._goes_on(standing):
            if life.successor:
                self._awaited[life.successor] = standing
            return
        if timeline.runs(standing) is None:
            timeline.withdraws(standing)
        elif life.evicted or (life.ran is None and not life.at_once):
            timeline.terminates(standing)

    def _goes_on(self, uid: str) -> bool:
        """Return whether a pod that the recorded scheduler evicted was not evicted here."""
        running = self._timeline.runs(uid)
        if running is not None:
            return uid in self._timeline.lives and not running.terminating
        return self._timeline.scheduler.queue.get(uid) is not None

    def _ends(self, uid: str) -> None:
        standing = self._standing.pop(uid, uid)
        life, timeline = self._lives[uid], self._timeline
        if standing not in timeline.lives:
            self._over.add(standing)
        running = timeline.runs(standing)
        if life.evicted and (running is None or not running.terminating):
            return  # it was not evicted here, or has ended
        if running is None:
            if life.ran is None:
                timeline.withdraws(standing)
        elif life.ran is None or self._is_now(standing, life):
            timeline.ends(standing)

    def _decided(self, uid: str) -> None:
        """Decide what was decided before whatever else was recorded at this time."""
        self._timeline.settle(self._standing.get(uid, uid))

    def _is_now(self, uid: str, life: RecordedLife) -> bool:
        """Return whether a pod that ends by itself began when the recorded one did."""
        here = self._timeline.lives.get(uid)
        return here is None or here.bound is None or here.bound == life.bound

    # Other objects.

    def _object(self, thing: model.ApiObject) -> None:
        timeline = self._timeline
        scheduler = timeline.scheduler
        if isinstance(thing, model.Node):
            timeline.joins(thing)
            return
        old = _current(scheduler, thing)
        new = _undecided(scheduler, old, thing)
        if new is not None:
            object_seen(scheduler, old, new)

    def _object_gone(self, thing: model.ApiObject) -> None:
        timeline = self._timeline
        scheduler = timeline.scheduler
        if isinstance(thing, model.Node):
            self._node_gone(thing)
            return
        old = _current(scheduler, thing)
        if old is None or _is_made_here(thing):
            return
        object_gone(scheduler, old)
        if isinstance(old, model.PersistentVolumeClaim) and old.spec.volume_name:
            named = scheduler.handle.objects.named
            volume = named(model.PersistentVolume, "", old.spec.volume_name)
            if volume is not None and volume.metadata.creation_timestamp is None:
                object_gone(scheduler, volume)  # it was provided here

    def _node_gone(self, node: model.Node) -> None:
        timeline, name = self._timeline, node.metadata.name
        table = timeline.scheduler.cache.nodes
        row = table.row_of.get(name)
        if row is None:
            return
        there = list(table.pods_on(row))
        timeline.parts(node)
        for uid in there:
            life = self._lives.get(self._meant.get(uid, uid))
            if uid in timeline.lives and (life is None or life.node != name):
                timeline.loses(uid)  # of the others the recording says what became of them


def play_traffic(
    traffic: Traffic, plans: Sequence[CompiledPlan], *, seed: int = 0, until: int | None = None
) -> TimelineResult:
    """Decide recorded traffic again; ``seed`` breaks ties that the recording does not.

    ``until``: nanoseconds after the start at which the simulation stops. Raises PolicySchedError if
    a decision cannot be executed.
    """
    started = time.perf_counter()
    timeline = replaying(traffic, plans, seed)
    timeline.run(until)
    return timeline.result(time.perf_counter() - started)


def replaying(traffic: Traffic, plans: Sequence[CompiledPlan], seed: int) -> Timeline:
    """Return a simulation of recorded traffic.

    Of equal nodes it takes the recorded one, and it preempts where it was recorded if that is as
    good.
    """
    lives = traffic.lives
    ties = RecordedTies(seed, {uid: life.node for uid, life in lives.items()})
    timeline = Timeline(traffic, plans, seed, ties=ties, course=partial(Replayed, traffic))
    ties.row_of = timeline.scheduler.cache.nodes.row_of

    def preferring(attempt: Attempt, table: NodeTable, rng: Random) -> Decision:
        decision = decide(attempt, table, rng)
        if not isinstance(decision, Preempt) or decision.elsewhere is None:
            return decision
        life = lives.get(attempt.queued.info.uid)
        if life is None or life.nominated in ("", decision.node):
            return decision
        other = decision.elsewhere(life.nominated)
        if other is None or not other.as_good:
            return decision
        return replace(decision, node=life.nominated, victims=other.victims)

    timeline.scheduler.decide = preferring
    return timeline


def _as(pod: model.Pod, here: model.Pod) -> model.Pod:
    """Return a recorded pod, on the node and in the state that it has here."""
    deleted = here.metadata.deletion_timestamp
    metadata = replace(pod.metadata, deletion_timestamp=deleted)
    spec = replace(pod.spec, node_name=here.spec.node_name)
    return replace(pod, metadata=metadata, spec=spec, status=here.status)


def _current(scheduler: Scheduler, thing: model.ApiObject) -> model.ApiObject | None:
    """Return an object as it is here, None if it is not."""
    if isinstance(thing, model.Namespace):
        return scheduler.cache.nodes.namespaces.get(thing.metadata.name)
    meta = thing.metadata
    return scheduler.handle.objects.named(type(thing), meta.namespace, meta.name)


def _is_made_here(thing: model.ApiObject) -> bool:
    """Return whether an object is a claim of a pod, which the simulation makes and deletes."""
    return isinstance(thing, model.ResourceClaim) and POD_CLAIM in thing.metadata.annotations


def _undecided(
    scheduler: Scheduler, old: model.ApiObject | None, new: model.ApiObject
) -> model.ApiObject | None:
    """Return a recorded object with what was decided here; None if it follows from decisions."""
    if _is_made_here(new):
        return None
    if isinstance(new, model.ResourceClaim):
        status = old.status if isinstance(old, model.ResourceClaim) else model.ResourceClaimStatus()
        return replace(new, status=status)
    if isinstance(new, model.PersistentVolumeClaim) and _waits_for_pod(scheduler, new):
        before = old if isinstance(old, model.PersistentVolumeClaim) else None
        return _claim_as(before, new)
    if isinstance(new, model.PersistentVolume) and new.spec.claim_ref is not None:
        named, reference = scheduler.handle.objects.named, new.spec.claim_ref
        claim = named(model.PersistentVolumeClaim, reference.namespace, reference.name)
        if claim is not None and _waits_for_pod(scheduler, claim):
            if not isinstance(old, model.PersistentVolume):
                return None  # it was provided for a node that was decided on
            spec = replace(new.spec, claim_ref=old.spec.claim_ref)
            return replace(new, spec=spec, status=old.status)
    return new


def _waits_for_pod(scheduler: Scheduler, claim: model.PersistentVolumeClaim) -> bool:
    """Return whether a claim is bound when a pod that uses it gets its node."""
    named, name = scheduler.handle.objects.named, claim.spec.storage_class_name
    storage_class = named(model.StorageClass, "", name or "")
    return storage_class is not None and storage_class.volume_binding_mode == _WAIT


def _claim_as(
    old: model.PersistentVolumeClaim | None, new: model.PersistentVolumeClaim
) -> model.PersistentVolumeClaim:
    """Return a claim as it came or changed, bound as it is here."""
    kept = {k: v for k, v in new.metadata.annotations.items() if k not in _BINDING}
    if old is None:
        return replace(
            new,
            metadata=replace(new.metadata, annotations=kept),
            spec=replace(new.spec, volume_name=""),
            status=type(new.status)(),
        )
    kept |= {k: v for k, v in old.metadata.annotations.items() if k in _BINDING}
    metadata = replace(new.metadata, annotations=kept)
    spec = replace(new.spec, volume_name=old.spec.volume_name)
    return replace(new, metadata=metadata, spec=spec, status=old.status)
