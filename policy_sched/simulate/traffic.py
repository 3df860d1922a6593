"""Recorded traffic: what happened to a cluster, apart from what its scheduler decided.

Theory of operation. A recording mixes two things. Some changes came from outside: pods and nodes
came, changed and went. Others follow from what the scheduler decided: pods were bound, victims
left, claims were bound or allocated. `Traffic` takes them apart in one pass. `steps` are the
changes from outside, in the order of the recording; `lives` say of each pod what was decided then,
and how long it ran. A simulation plays the steps and decides anew.

A pod that was evicted for another one, and the pod that its controller created in its place, are
one piece of work that was interrupted: the second is the ``successor`` of the first. If another
scheduler evicts nothing there, the first pod goes on, and no successor comes.

Times do not decrease. A change that was recorded with an earlier time than the one before (a clock
was set back) counts at the time of that; `ClockJumps` says how often that was, and by how much.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from policy_sched import model
from policy_sched.errors import PolicySchedError
from policy_sched.recording import Added, Decided, Deleted, Event, PolicyChanged
from policy_sched.scheduler.setup import ENDED

MAX_STEPS: Final = 8_000_000
"""Changes of a recording that are played at a time; they are in memory."""


class StepKind(IntEnum):
    """What a step is about; `Step.what` is an object, the UID of a pod, or a hash."""

    ARRIVES = 0
    """A pod came."""
    CHANGES = 1
    """Something that decisions read of a pod changed."""
    BOUND = 2
    """A pod was bound; ``what`` is the pod on its node."""
    LEAVES = 3
    """A pod began to terminate."""
    ENDS = 4
    """A pod ended, or was deleted."""
    DECIDED = 5
    """A pod was decided; what follows at the same time came after that."""
    OBJECT = 6
    """An object that is no pod came or changed."""
    OBJECT_GONE = 7
    """An object that is no pod was deleted."""
    POLICIES = 8
    """Policies came into force; ``what`` is their hash."""


class Step(NamedTuple):
    """A change from outside; ``time`` is in nanoseconds since 1970."""

    time: int
    kind: StepKind
    what: model.ApiObject | str


class RecordedLife(msgspec.Struct, gc=False):
    """What was recorded about one pod; times are nanoseconds since 1970, None if not recorded."""

    key: str
    arrived: int
    scheduler: str = ""
    waited: bool = False
    """Whether it came without a node."""
    node: str = ""
    """The node that it was bound to."""
    nominated: str = ""
    """The node for which pods were evicted last."""
    bound: int | None = None
    left: int | None = None
    """When it began to terminate."""
    at_once: bool = False
    """Whether it was deleted then, too, and nothing came in between."""
    ended: int | None = None
    completes: bool = False
    """Whether it ends by itself: it has run for a time, wherever and whenever that was."""
    evicted: bool = False
    """Whether the recorded scheduler evicted it for another pod."""
    successor: str = ""
    """The UID of the pod that was created in its place after that."""

    @property
    def ran(self) -> int | None:
        """Nanoseconds for which the pod ran, if it ended by itself."""
        if self.bound is None or self.ended is None or not self.completes:
            return None
        return self.ended - self.bound


@dataclass(slots=True)
class ClockJumps:
    """How often the recorded times went back, and by how many nanoseconds at most."""

    count: int = 0
    longest: int = 0


@dataclass(slots=True)
class Traffic:
    """Recorded traffic from ``start`` to ``end``, in nanoseconds since 1970."""

    start: int
    end: int
    objects: tuple[model.ApiObject, ...]
    """The cluster at the start, without the pods that waited."""
    steps: list[Step] = field(default_factory=list)
    lives: dict[str, RecordedLife] = field(default_factory=dict)
    """By UID of the pod."""
    jumps: ClockJumps = field(default_factory=ClockJumps)


def traffic_of(events: Iterable[Event], start: int, end: int) -> Traffic:
    """Return the traffic of a recording's events; the first say what was there at the start.

    Raises PolicySchedError if there are too many.
    """
    events = iter(events)
    objects, later = at_start(events)
    return _Reading(start, end).read(objects, chain(later, events))


def at_start(events: Iterator[Event]) -> tuple[list[model.ApiObject], list[Event]]:
    """Take what was there at the start off events; return it, and an event that was taken, too."""
    objects: list[model.ApiObject] = []
    first = None
    for event in events:
        if isinstance(event, PolicyChanged):
            continue
        first = event.time if first is None else first
        if not isinstance(event, Added) or event.time != first:
            return objects, [event]
        objects.append(event.object)
    return objects, []


class _Reading:
    """Reads events into a `Traffic`."""

    def __init__(self, start: int, end: int) -> None:
        self._traffic = Traffic(start, end, ())
        self._pods: dict[str, model.Pod] = {}
        self._now = start
        self._victims: set[str] = set()
        # By UID of the controller, evicted pods for which no other pod has come yet.
        self._bereft: dict[str, deque[str]] = defaultdict(deque)

    def read(self, objects: Iterable[model.ApiObject], events: Iterable[Event]) -> Traffic:
        """Read everything."""
        traffic = self._traffic
        there: list[model.ApiObject] = []
        waiting: list[model.Pod] = []
        for thing in objects:
            if not isinstance(thing, model.Pod) or thing.status.phase in ENDED:
                there.append(thing)
            elif thing.spec.node_name:
                there.append(thing)
                self._comes(thing)
            else:
                waiting.append(thing)
        traffic.objects = tuple(there)
        traffic.steps.clear()
        for pod in sorted(waiting, key=_created):
            self._pod(pod)
        for event in events:
            self._take(event)
            if len(traffic.steps) > MAX_STEPS:
                most = f"more than {MAX_STEPS:,} changes"
                raise PolicySchedError(f"{most} are too many; take a part, with --from and --to")
        return traffic

    def _take(self, event: Event) -> None:
        if event.time < self._now:
            jumps = self._traffic.jumps
            jumps.count, jumps.longest = jumps.count + 1, max(jumps.longest, self._now - event.time)
        self._now = max(self._now, event.time)
        if isinstance(event, Decided):
            self._decided(event)
        elif isinstance(event, PolicyChanged):
            self._add(StepKind.POLICIES, event.hash)
        elif isinstance(event, Deleted):
            thing = event.object
            if isinstance(thing, model.Pod):
                self._ends(uid_of(thing), completed=thing.status.phase in ENDED)
            else:
                self._add(StepKind.OBJECT_GONE, thing)
        elif isinstance(event.object, model.Pod):
            self._pod(event.object)
        else:
            self._add(StepKind.OBJECT, event.object)

    def _decided(self, decided: Decided) -> None:
        """Take in a decision: it may evict, or be for an eviction of the pod itself."""
        life = self._traffic.lives.get(decided.uid)
        if life is not None and decided.nominated_node:
            life.nominated = decided.nominated_node
        self._victims.update(decided.victims)
        if decided.evicted:
            self._victims.add(decided.pod)
        elif decided.uid in self._pods:
            self._add(StepKind.DECIDED, decided.uid)

    def _add(self, kind: StepKind, what: model.ApiObject | str) -> None:
        self._traffic.steps.append(Step(self._now, kind, what))

    def _pod(self, pod: model.Pod) -> None:
        """Take in a pod that came or changed."""
        uid = uid_of(pod)
        before = self._pods.get(uid)
        if pod.status.phase in ENDED:
            self._ends(uid, completed=True)
            return
        life = self._traffic.lives.get(uid)
        if before is None:
            if life is None:
                self._comes(pod)
            return
        assert life is not None, "a pod that is known has a life"
        self._pods[uid] = pod
        if pod.spec.node_name and not before.spec.node_name:
            life.node, life.bound = pod.spec.node_name, self._now
            self._add(StepKind.BOUND, pod)
        if pod.metadata.deletion_timestamp and not before.metadata.deletion_timestamp:
            self._leaves(pod, life)
        elif changed(before, pod):
            self._add(StepKind.CHANGES, pod)

    def _comes(self, pod: model.Pod) -> None:
        uid = uid_of(pod)
        self._pods[uid] = pod
        owner = controller(pod)
        completes = owner is not None and owner.kind == "Job"
        key = f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
        waited, scheduler = not pod.spec.node_name, pod.spec.scheduler_name
        life = RecordedLife(
            key,
            self._now,
            scheduler or model.DEFAULT_SCHEDULER,
            waited=waited,
            completes=completes,
        )
        self._traffic.lives[uid] = life
        if pod.spec.node_name:
            since = pod.status.start_time
            life.node, life.bound = pod.spec.node_name, model.nanoseconds(since) or self._now
        elif owner is not None and (bereft := self._bereft.get(owner.uid)):
            self._traffic.lives[bereft.popleft()].successor = uid
        self._add(StepKind.ARRIVES, pod)

    def _leaves(self, pod: model.Pod, life: RecordedLife) -> None:
        uid = uid_of(pod)
        if life.key in self._victims or evicted_for_another(pod):
            self._victims.discard(life.key)
            life.evicted = True
            owner = controller(pod)
            if owner is not None:
                self._bereft[owner.uid].append(uid)
        life.left = self._now
        self._add(StepKind.LEAVES, uid)

    def _ends(self, uid: str, *, completed: bool) -> None:
        life = self._traffic.lives.get(uid)
        pod = self._pods.pop(uid, None)
        if life is None or pod is None:
            return
        if not completed and not pod.metadata.deletion_timestamp:
            self._leaves(pod, life)
            life.at_once = True
        life.ended = self._now
        life.completes = (life.completes or completed) and not life.evicted
        self._add(StepKind.ENDS, uid)


def uid_of(pod: model.Pod) -> str:
    """Return the UID of a pod, its namespace and name if it has none."""
    meta = pod.metadata
    return meta.uid or f"{meta.namespace or 'default'}/{meta.name}"


def controller(pod: model.Pod) -> model.OwnerReference | None:
    """Return the controller that owns a pod."""
    return next((owner for owner in pod.metadata.owner_references if owner.controller), None)


def evicted_for_another(pod: model.Pod) -> bool:
    """Return whether a scheduler says in a pod's status that it evicted it for another."""
    return any(
        condition.type == "DisruptionTarget" and condition.reason == "PreemptionByScheduler"
        for condition in pod.status.conditions
    )


def changed(before: model.Pod, after: model.Pod) -> bool:
    """Return whether something of a pod changed that does not follow from where it runs."""
    was, now = before.metadata, after.metadata
    # For speed: recordings share what did not change.
    if was is not now and (
        was.labels != now.labels
        or was.annotations != now.annotations
        or was.owner_references != now.owner_references
    ):
        return True
    spec = after.spec
    return before.spec is not spec and replace(before.spec, node_name=spec.node_name) != spec


def _created(pod: model.ApiObject) -> int:
    return model.nanoseconds(pod.metadata.creation_timestamp)
