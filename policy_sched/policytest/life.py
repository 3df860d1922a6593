"""Recorded lives of a scheduler: their file form, and what differs from what was recorded.

A life is one line of a ``.jsonl`` file: a cluster, what happens in it over time, and a step for the
start, for each event and for each evicted pod that is gone. At each step the clock is set, backoffs
that are over and pods that waited too long are flushed, pods are scheduled until none is ready, the
change is delivered, and pods are scheduled again. A step states every attempt, and the queue and
the claims afterwards.

Two things are compared. The fates: pods bound where, evicted and nominated, and which devices
claims have. And everything (exact): also which pod was tried when, with which scores and messages,
and where in the queue each pod waits.

A `LifeCluster` lives a recorded life again: what the scheduler writes is delivered to it as an
update after each attempt, in order, as a watch would do. Claims and volumes are written, and seen,
at once. The clock advances only between steps.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from random import Random
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from policy_sched import model
from policy_sched.client import Done, MemoryClient, ObjectRequest, condition_of, nomination_of
from policy_sched.cluster.tables import NodeTable
from policy_sched.embedded.store import merge
from policy_sched.errors import Diagnostic, PolicyError
from policy_sched.manifests import Admission, ApiObject, decode_object
from policy_sched.model import ResourceClaim
from policy_sched.policytest.comparison import Deviation
from policy_sched.policytest.observed import SPECIAL, is_special
from policy_sched.policytest.reader import WRONG_VALUE
from policy_sched.policytest.report import StepResult
from policy_sched.policytest.sequence import decoded_lines
from policy_sched.profiles.models import gates_of, moment_of
from policy_sched.queue import SECOND
from policy_sched.scheduler import (
    Attempt as SchedulingAttempt,
    Bind,
    Decision,
    GroupDecision,
    Outcome,
    decide,
    node_gone,
    node_seen,
    object_gone,
    object_seen,
    pod_gone,
    pod_seen,
    rejectors,
    schedule_group,
)
from policy_sched.scheduler.setup import ENDED, assemble, read
from policy_sched.simulate import VirtualClock, leaving_form


class ObjectName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An object by kind and name; ``namespace`` is empty where the kind has none."""

    kind: str
    name: str
    namespace: str = ""


class LifeEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change at a time, in milliseconds: one of put, target with patch, delete, tick.

    ``put``: the object comes, or is replaced. ``patch``: a JSON merge patch of the target as it is
    then; none if it is gone. ``tick``: nothing but the time changes.
    """

    at: int
    put: dict[str, Any] | None = None
    target: ObjectName | None = None
    patch: dict[str, Any] | None = None
    delete: ObjectName | None = None
    tick: bool = False

    @property
    def words(self) -> str:
        """What happens, in a few words."""
        if self.put is not None:
            name = self.put.get("metadata", {}).get("name", "")
            return f"put {self.put.get('kind', '')} {name}"
        if self.delete is not None:
            return f"delete {self.delete.kind} {self.delete.name}"
        return "tick" if self.target is None else f"patch {self.target.kind} {self.target.name}"


class WrittenCondition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The condition PodGroupScheduled as it was written."""

    status: str
    reason: str
    message: str = ""


class LifeAttempt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What became of a pod that was tried, or the condition of a group that was.

    A bound pod has a ``node``, and where several were feasible their total ``scores`` and the
    ``best``. Another has ``reason`` and ``message``; ``nominated`` is None where that stays as it
    was. A pod that was passed over, because it is being deleted, has neither.
    """

    pod: str = ""
    node: str = ""
    best: list[str] = []
    scores: dict[str, int] = {}
    reason: str = ""
    message: str = ""
    nominated: str | None = None
    plugins: list[str] = []
    pending: list[str] = []
    victims: list[str] = []
    deallocated: list[str] = []
    group: str = ""
    condition: WrittenCondition | None = None


class Queue(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The queue after a step: names of pods, by pod the end of its backoff in milliseconds.

    ``nominated`` has the nodes of all nominated pods.
    """

    backoff: dict[str, int] = {}
    unschedulable: list[str] = []
    gated: list[str] = []
    nominated: dict[str, str] = {}
    active: list[str] = []
    in_flight: list[str] = []


class LifeClaim(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A claim that has devices, each as ``request:driver/pool/device``, and its consumers."""

    devices: list[str] = []
    reserved_for: list[str] = []


class LifeStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A step; ``at`` in milliseconds. ``ends``: an evicted pod is gone, and that is all."""

    at: int
    after: Queue
    attempts: list[LifeAttempt] = []
    claims: dict[str, LifeClaim] = {}
    ends: bool = False


class Life(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A life. ``grace``: milliseconds from the eviction of a bound pod until it is gone.

    It may be cut after any step: ``expect`` has as many steps as were recorded.
    """

    name: str
    objects: list[dict[str, Any]]
    events: list[LifeEvent]
    expect: list[LifeStep]
    grace: int = 0
    config: dict[str, Any] | None = None
    gates: str = ""


def load_lives(path: str) -> list[tuple[int, Life]] | None:
    """Return the lives of a file with their lines; None if the file is of another kind.

    Raises PolicyError with every line and every object that is wrong, and OSError if the file
    cannot be read.
    """
    lives = decoded_lines(path, {"events", "objects"}, Life)
    if lives is None:
        return None
    problems: list[Diagnostic] = []
    for line, life in lives:
        blank = Diagnostic(path, line, 1, WRONG_VALUE, "")
        problems += (dataclasses.replace(blank, message=text) for text in _faults(life))
        for where, manifest in _manifests(life):
            decoded(manifest, dataclasses.replace(blank, message=where), problems)
    if problems:
        raise PolicyError(problems)
    return lives


def _faults(life: Life) -> Iterator[str]:
    """Yield what is wrong with a life besides its objects."""
    try:
        gates_of(life.gates)
    except ValueError as error:
        yield f"gates: {error}"
    if not life.expect:
        yield f'the test "{life.name}" expects nothing'


def _manifests(life: Life) -> Iterator[tuple[str, object]]:
    yield from ((f"objects[{i}]", manifest) for i, manifest in enumerate(life.objects))
    for i, event in enumerate(life.events):
        if event.put is not None:
            yield f"events[{i}].put", event.put


def decoded(manifest: object, blank: Diagnostic, problems: list[Diagnostic]) -> ApiObject | None:
    """Return the object of a manifest; None after its problems were noted.

    ``blank`` has the file, the line and, as its message, the place of the manifest in the line.
    """
    before = len(problems)

    def report(at: tuple[str | int, ...], code: str, message: str, hint: str) -> None:
        where = ".".join([blank.message, *map(str, at)])
        problems.append(
            dataclasses.replace(blank, code=code, message=f"{where}: {message}", hint=hint)
        )

    obj = decode_object(manifest, report)
    if obj is None and len(problems) == before:
        report((), WRONG_VALUE, "scheduling does not read this kind", "leave it out")
    if isinstance(obj, ResourceClaim):
        # Other objects are recorded as an API server had them; of claims less was written down.
        Admission([]).admit(obj, report)
    return obj


def differences(expected: LifeStep, actual: LifeStep, *, exact: bool) -> Iterator[Deviation]:
    """Yield what a step differs in: in the fates of pods, or (``exact``) in anything."""
    if not exact:
        expected, actual = _fates(expected), _fates(actual)
    elif expected.at != actual.at or expected.ends != actual.ends:
        yield Deviation("at", _when(expected), _when(actual))
    if _comparable(expected.attempts) != _comparable(actual.attempts):
        yield Deviation("attempts", _texts(expected.attempts), _texts(actual.attempts))
    for name in Queue.__struct_fields__:
        wanted, ours = getattr(expected.after, name), getattr(actual.after, name)
        if wanted != ours:
            yield Deviation(f"after.{name}", _shown(wanted), _shown(ours))
    for name in sorted({*expected.claims, *actual.claims}):
        claim, other = expected.claims.get(name), actual.claims.get(name)
        if claim != other:
            yield Deviation(f"claims.{name}", _text(claim), _text(other))


def _comparable(attempts: list[LifeAttempt]) -> list[list[LifeAttempt]]:
    """Return attempts in runs; those in one list are compared without regard to their order.

    Pods of a group are bound beside each other, and beside the condition of their group.
    """
    runs = [
        list(run)
        for _, run in groupby(attempts, key=lambda attempt: bool(attempt.node or attempt.group))
    ]
    for run in runs:
        if any(attempt.group for attempt in run):
            run.sort(key=lambda attempt: (attempt.group, attempt.pod))
    return runs


def _fates(step: LifeStep) -> LifeStep:
    """Return what became of pods in a step, without how and why."""
    fates = [
        LifeAttempt(
            pod=attempt.pod if attempt.node else "",
            node=attempt.node,
            victims=sorted(attempt.victims),
        )
        for attempt in step.attempts
        if attempt.node or attempt.victims
    ]
    fates.sort(key=lambda attempt: (attempt.pod, attempt.victims))
    nominated = Queue(nominated=step.after.nominated)
    return LifeStep(step.at, nominated, fates, step.claims)


def _when(step: LifeStep) -> str:
    return f"{step.at} ms, the end of a pod" if step.ends else f"{step.at} ms"


def _texts(attempts: list[LifeAttempt]) -> list[str]:
    return [_text(attempt) for attempt in attempts]


def _text(value: object) -> str:
    return "(none)" if value is None else msgspec.json.encode(value).decode()


def _shown(value: dict[str, object] | list[str]) -> list[str]:
    if isinstance(value, dict):
        return [f"{name}: {content}" for name, content in sorted(value.items())]
    return value


T = TypeVar("T", bound=model.ApiObject)
Key: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name of an object."""

MILLISECOND: Final = 1_000_000
START: Final = moment_of("2026-06-01T00:00:00Z")
"""The time at which lives begin, in nanoseconds since 1970."""
FIRST_BINDING: Final = 100_000 * SECOND
"""From the start to the time since which the first pod is said to run; others: a second later."""


class Bound(msgspec.Struct, frozen=True):
    """A pod was bound to a node."""

    pod: model.PodInfo
    node: str


class Refused(msgspec.Struct, frozen=True):
    """A pod was not scheduled, as its event says; no request follows if that is its condition."""

    pod: model.PodInfo


@dataclass(slots=True)
class RecordingClient(MemoryClient):
    """Keeps its writes to pods and groups, in order, until they are delivered."""

    writes: list[Bound | Refused | ObjectRequest] = field(default_factory=list)

    def bind(self, pod: model.PodInfo, node: str, done: Done) -> None:
        """Bind the pod at once."""
        self.writes.append(Bound(pod, node))
        done(None)

    def record_event(
        self,
        pod: model.PodInfo,
        kind: str,  # noqa: ARG002 - see Client
        reason: str,
        action: str,  # noqa: ARG002 - see Client
        note: str,  # noqa: ARG002 - see Client
        related: model.PodInfo | None = None,  # noqa: ARG002 - see Client
    ) -> None:
        """Note that a pod was not scheduled."""
        if reason == "FailedScheduling":
            self.writes.append(Refused(pod))

    def _note(self, request: ObjectRequest) -> None:
        condition = condition_of(request)
        nominates = condition is None and nomination_of(request)
        # The binding follows a nomination by itself, and the deletion a disruption, at once.
        if not nominates and (condition is None or condition.type != "DisruptionTarget"):
            self.writes.append(request)


class NodeRanking(msgspec.Struct, frozen=True):
    """The total scores of the feasible nodes, and the best of these; empty if there is only one."""

    scores: dict[str, int]
    best: list[str]


class LifeCluster:
    """A cluster, the scheduler in it, and the time. Raises PolicyError if a file is wrong."""

    def __init__(self, file: str, life: Life) -> None:
        self._file = file
        self._life = life
        self._clock = VirtualClock(START)
        self._client = RecordingClient()
        plans, _ = read(life.config, (), feature_gates=gates_of(life.gates))
        self._scheduler = assemble(plans, client=self._client, now=self._clock)
        self._client.objects = self
        self._scheduler.decide = self._decide
        self._scheduler.schedule_group = self._schedule_group
        self._objects: dict[Key, model.ApiObject] = {}
        self._ends: list[tuple[int, Key]] = []
        self._bound = 0
        self._rankings: dict[str, NodeRanking] = {}
        self._attempts: list[LifeAttempt] = []

    def steps(self) -> Iterator[tuple[str, LifeStep]]:
        """Yield each step with what happens in it, in a few words."""
        objects = [
            self._decoded(manifest, f"objects[{i}]")
            for i, manifest in enumerate(self._life.objects)
        ]
        objects.sort(key=lambda obj: isinstance(obj, model.Pod))
        yield "start", self._step(0, partial(self._begins, objects))
        for index, event in enumerate(self._life.events):
            yield from self._ended(event.at)
            yield event.words, self._step(event.at, partial(self._happens, event, index))
        yield from self._ended(None)

    # The store that the client writes to, and the watch that brings its changes.

    def named(self, kind: type[T], namespace: str, name: str) -> T | None:
        """Return one object, None if there is none."""
        return self._scheduler.handle.objects.named(kind, namespace, name)

    def put(self, obj: model.ApiObject) -> None:
        """Take an object in, or replace it by its newer form; the scheduler sees that."""
        key = _key(obj)
        old = self._objects.get(key)
        self._objects[key] = obj
        scheduler = self._scheduler
        if isinstance(obj, model.Pod):
            old_pod = old if isinstance(old, model.Pod) and not _ended(old) else None
            if old_pod and (_ended(obj) or old_pod.metadata.uid != obj.metadata.uid):
                pod_gone(scheduler, model.PodInfo.of(old_pod))
            if not _ended(obj):
                pod_seen(scheduler, model.PodInfo.of(obj))
        elif isinstance(obj, model.Node):
            node_seen(scheduler, obj)
        else:
            object_seen(scheduler, old, obj)

    def remove(self, obj: model.ApiObject) -> None:
        """Drop an object if it is known; the scheduler sees that."""
        old = self._objects.pop(_key(obj), None)
        if isinstance(old, model.Pod):
            if not _ended(old):
                pod_gone(self._scheduler, model.PodInfo.of(old))
        elif isinstance(old, model.Node):
            node_gone(self._scheduler, old)
        elif old is not None:
            object_gone(self._scheduler, old)

    def _begins(self, objects: list[model.ApiObject]) -> None:
        for obj in objects:
            self.put(obj)

    def _gone(self, key: Key) -> None:
        pod = self._objects.get(key)
        if pod is not None:
            self.remove(pod)

    def _happens(self, event: LifeEvent, index: int) -> None:
        if event.put is not None:
            self.put(self._decoded(event.put, f"events[{index}].put"))
        target = event.delete or event.target
        target_object = None if target is None else self._objects.get(_key_of(target))
        if target_object is None:
            return
        if event.delete is not None:
            self.remove(target_object)
        else:
            changed = merge(msgspec.to_builtins(target_object), event.patch)
            self.put(self._decoded(changed, f"events[{index}].patch"))

    def _decoded(self, manifest: object, where_stated: str) -> model.ApiObject:
        problems: list[Diagnostic] = []
        where = f"{self._life.name}: {where_stated}"  # the line is in no object any more
        obj = decoded(manifest, Diagnostic(self._file, 1, 1, WRONG_VALUE, where), problems)
        if obj is None:
            raise PolicyError(problems)
        return obj

    # A step.

    def _ended(self, until: int | None) -> Iterator[tuple[str, LifeStep]]:
        """Yield a step for each evicted pod whose grace period is over; None: for all."""
        while self._ends and (until is None or self._ends[0][0] <= until):
            at, key = self._ends.pop(0)
            step = self._step(at, partial(self._gone, key))
            yield f"end of {key[2]}", replace(step, ends=True)

    def _step(self, at: int, change: Callable[[], object]) -> LifeStep:
        self._clock.ns = START + at * MILLISECOND
        self._attempts = []
        queue = self._scheduler.queue
        queue.flush_backoff()
        queue.flush_unschedulable()
        self._schedule()
        change()
        self._schedule()
        return LifeStep(at, self._queue(), self._attempts, self._claims())

    def _schedule(self) -> None:
        """Schedule until no pod is ready; deliver what was written after each attempt."""
        scheduler = self._scheduler
        while True:
            tried = scheduler.schedule_one()
            outcomes = [] if tried is None else [tried, *tried.others]
            outcomes += scheduler.run_due()
            if not outcomes:
                return
            self._note(outcomes)

    def _note(self, outcomes: list[Outcome]) -> None:
        """Note what became of pods, and deliver it."""
        writes, self._client.writes = self._client.writes, []
        by_uid = {outcome.pod.uid: outcome for outcome in outcomes}
        requests = [entry for entry in writes if isinstance(entry, ObjectRequest)]
        victims = sorted(request.key for request in requests if request.verb == "delete")
        for write in writes:
            if isinstance(write, Bound):
                self._attempts.append(self._of_bound(write))
            elif isinstance(write, Refused):
                outcome = by_uid[write.pod.uid]
                if outcome.decision is not None:  # it is not passed over
                    self._attempts.append(_of_refused(outcome, victims))
                    victims = []
            elif write.kind is model.PodGroup and (condition := condition_of(write)) is not None:
                written = WrittenCondition(condition.status, condition.reason, condition.message)
                self._attempts.append(LifeAttempt(group=write.key, condition=written))
        passed_over = (outcome for outcome in outcomes if outcome.decision is None)
        self._attempts += (LifeAttempt(pod=outcome.pod.key) for outcome in passed_over)
        for write in writes:
            self._deliver(write)

    def _of_bound(self, write: Bound) -> LifeAttempt:
        ranking = self._rankings.pop(write.pod.uid, None) or NodeRanking({}, [])
        return LifeAttempt(
            pod=write.pod.key, node=write.node, best=ranking.best, scores=ranking.scores
        )

    def _deliver(self, write: Bound | Refused | ObjectRequest) -> None:
        if isinstance(write, Refused):
            return
        if isinstance(write, Bound):
            key = ("Pod", write.pod.namespace, write.pod.name)
        else:
            key = (write.kind.__name__, write.namespace, write.name)
        pod = self._objects.get(key)
        if isinstance(pod, model.PodGroup) and isinstance(write, ObjectRequest):
            conditions = _conditions(pod.status.conditions, write)
            self.put(replace(pod, status=replace(pod.status, conditions=conditions)))
        if not isinstance(pod, model.Pod):
            return
        if isinstance(write, Bound):
            self._bound += 1
            since = START + FIRST_BINDING + self._bound * SECOND
            running = model.running_form(pod, write.node, since)
            self.put(replace(running, status=replace(running.status, conditions=())))
        elif write.verb == "delete":
            if not pod.spec.node_name:
                self.remove(pod)
            elif pod.metadata.deletion_timestamp is None:
                self.put(leaving_form(pod, self._clock.ns))
                at = (self._clock.ns - START) // MILLISECOND + self._life.grace
                self._ends.append((at, key))
                self._ends.sort(key=lambda end: end[0])
        else:
            conditions, node = _conditions(pod.status.conditions, write), nomination_of(write)
            status = replace(pod.status, conditions=conditions)
            if node is not None:
                status = replace(status, nominated_node_name=node)
            if status != pod.status:
                self.put(replace(pod, status=status))

    # Deciding: as the scheduler does, but of the best nodes the first by name is taken.

    def _decide(self, attempt: SchedulingAttempt, table: NodeTable, rng: Random) -> Decision:
        decision = decide(attempt, table, rng)
        if not isinstance(decision, Bind):
            return decision
        ranking = _ranking(decision, table)
        if not ranking.best:
            return decision
        self._rankings[attempt.queued.info.uid] = ranking
        node = ranking.best[0]
        return Bind(node, table.row_of[node], decision.evaluation)

    def _schedule_group(
        self, first: SchedulingAttempt, queue: object, handle: object, rng: Random
    ) -> GroupDecision | None:
        del queue, handle, rng
        scheduler, pod = self._scheduler, first.queued.info
        watched = {pod.uid, *scheduler.handle.groups.siblings(pod)}
        decision = schedule_group(first, scheduler.queue, scheduler.handle, None, watched)
        if decision is not None:
            for member in decision.members:
                if isinstance(member.decision, Bind):
                    uid = member.attempt.queued.info.uid
                    self._rankings[uid] = _ranking(member.decision, scheduler.cache.nodes)
        return decision

    # What is seen of it afterwards.

    def _queue(self) -> Queue:
        queue, nominator = self._scheduler.queue, self._scheduler.handle.nominator
        return Queue(
            backoff={
                queued.info.key: (queued.backoff_until - START) // MILLISECOND
                for queued in queue.backoff()
            },
            unschedulable=_names(queue.unschedulable()),
            gated=_names(queue.gated()),
            nominated={
                model.PodInfo.of(obj).key: nominator.node_by_uid[obj.metadata.uid]
                for obj in self._objects.values()
                if isinstance(obj, model.Pod) and obj.metadata.uid in nominator.node_by_uid
            },
            active=_names(queue.active()),
            in_flight=_names(queue.in_flight()),
        )

    def _claims(self) -> dict[str, LifeClaim]:
        claims = {}
        for claim in self._scheduler.handle.objects.of(model.ResourceClaim):
            allocation = claim.status.allocation
            if allocation is not None:
                devices = [
                    f"{result.request}:{result.driver}/{result.pool}/{result.device}"
                    for result in allocation.devices.results
                ]
                names = [consumer.name for consumer in claim.status.reserved_for]
                special = is_special(claim)
                name = f"{SPECIAL[:-1]} of [{' '.join(names)}])" if special else _name(claim)
                claims[name] = LifeClaim(devices, names)
        return claims


def run_life(file: str, life: Life, *, exact: bool = False) -> list[StepResult]:
    """Live a life again; return one result per recorded step.

    ``exact``: any difference counts, else those in the fates of pods; see `differences`.
    """
    results = []
    started = time.perf_counter()
    steps = LifeCluster(file, life).steps()
    for step_number, expected in enumerate(life.expect):
        words, step = next(steps, ("nothing", LifeStep(0, Queue())))
        ended = time.perf_counter()
        name = f"{step_number}: {words} at {expected.at} ms"
        every = tuple(differences(expected, step, exact=True))
        wrong = every if exact else tuple(differences(expected, step, exact=False))
        result = StepResult(file, life.name, name, wrong, seconds=ended - started, exact=not every)
        results.append(result)
        started = ended
    return results


def _conditions(
    before: tuple[model.Condition, ...], request: ObjectRequest
) -> tuple[model.Condition, ...]:
    """Return conditions with the one that a request sets, if any."""
    condition = condition_of(request)
    if condition is None or condition in before:
        return before
    return (*(other for other in before if other.type != condition.type), condition)


def _of_refused(outcome: Outcome, victims: list[str]) -> LifeAttempt:
    decision = outcome.decision
    failure = outcome.status if decision is None or isinstance(decision, Bind) else decision
    plugins, pending = rejectors(failure)
    return LifeAttempt(
        pod=outcome.pod.key,
        reason="Unschedulable" if outcome.status.rejected else "SchedulerError",
        message=outcome.message,
        nominated=outcome.nominated,
        plugins=sorted(plugins),
        pending=sorted(pending),
        victims=victims,
    )


def _ranking(decision: Bind, table: NodeTable) -> NodeRanking:
    evaluation, names = decision.evaluation, table.names
    if evaluation.scoring is None:
        return NodeRanking({}, [])
    rows = evaluation.filtering.feasible_rows().tolist()
    if len(rows) < 2:
        return NodeRanking({}, [])
    totals = evaluation.scoring.total
    best = sorted(names[row] for row in evaluation.best().tolist())
    return NodeRanking({names[row]: int(totals[row]) for row in rows}, best)


def _names(queued: list[model.QueuedPod]) -> list[str]:
    return sorted(pod.info.key for pod in queued)


def _name(obj: model.ApiObject) -> str:
    return f"{obj.metadata.namespace or model.DEFAULT_NAMESPACE}/{obj.metadata.name}"


def _key(obj: model.ApiObject) -> Key:
    return _key_of(ObjectName(obj.kind, obj.metadata.name, obj.metadata.namespace))


def _key_of(target: ObjectName) -> Key:
    scoped = target.kind in model.CLUSTER_SCOPED
    return target.kind, "" if scoped else target.namespace or model.DEFAULT_NAMESPACE, target.name


def _ended(pod: model.Pod) -> bool:
    return pod.status.phase in ENDED
