"""Recorded lives of a scheduler: their file form, and what differs from what was recorded.

A life is one line of a ``.jsonl`` file: a cluster, what happens in it over time, and a step for the
start, for each event and for each evicted pod that is gone. At each step the clock is set, backoffs
that are over and pods that waited too long are flushed, pods are scheduled until none is ready, the
change is delivered, and pods are scheduled again. A step states every attempt, and the queue and
the claims afterwards.

Two things are compared. The fates: pods bound where, evicted and nominated, and which devices
claims have. And everything (exact): also which pod was tried when, with which scores and messages,
and where in the queue each pod waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any

import msgspec

from policy_sched.errors import Diagnostic, PolicyError
from policy_sched.manifests import Admission, ApiObject, decode_object
from policy_sched.model import ResourceClaim
from policy_sched.policytest.comparison import Deviation
from policy_sched.policytest.reader import WRONG_VALUE
from policy_sched.policytest.sequence import decoded_lines
from policy_sched.profiles.models import gates_of


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
    found = decoded_lines(path, {"events", "objects"}, Life)
    if found is None:
        return None
    problems: list[Diagnostic] = []
    for number, life in found:
        blank = Diagnostic(path, number, 1, WRONG_VALUE, "")
        problems += (replace(blank, message=text) for text in _faults(life))
        for place, manifest in _manifests(life):
            decoded(manifest, replace(blank, message=place), problems)
    if problems:
        raise PolicyError(problems)
    return found


def _faults(life: Life) -> Iterator[str]:
    """Yield what is wrong with a life besides its objects."""
    try:
        gates_of(life.gates)
    except ValueError as error:
        yield f"gates: {error}"
    if not life.expect:
        yield f'the test "{life.name}" expects nothing'


def _manifests(life: Life) -> Iterator[tuple[str, object]]:
    yield from ((f"objects[{i}]", one) for i, one in enumerate(life.objects))
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
        problems.append(replace(blank, code=code, message=f"{where}: {message}", hint=hint))

    found = decode_object(manifest, report)
    if found is None and len(problems) == before:
        report((), WRONG_VALUE, "scheduling does not read this kind", "leave it out")
    if isinstance(found, ResourceClaim):
        # Other objects are recorded as an API server had them; of claims less was written down.
        Admission([]).admit(found, report)
    return found


def differences(expected: LifeStep, found: LifeStep, *, exact: bool) -> Iterator[Deviation]:
    """Yield what a step differs in: in the fates of pods, or (``exact``) in anything."""
    if not exact:
        expected, found = _fates(expected), _fates(found)
    elif expected.at != found.at or expected.ends != found.ends:
        yield Deviation("at", _when(expected), _when(found))
    if _comparable(expected.attempts) != _comparable(found.attempts):
        yield Deviation("attempts", _texts(expected.attempts), _texts(found.attempts))
    for name in Queue.__struct_fields__:
        wanted, ours = getattr(expected.after, name), getattr(found.after, name)
        if wanted != ours:
            yield Deviation(f"after.{name}", _shown(wanted), _shown(ours))
    for name in sorted({*expected.claims, *found.claims}):
        claim, other = expected.claims.get(name), found.claims.get(name)
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
        return [f"{name}: {one}" for name, one in sorted(value.items())]
    return value
