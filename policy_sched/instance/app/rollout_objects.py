"""Rollouts that are objects of the cluster: which there are, and what their status says.

Theory of operation. The first sound one by name drives, unless a file has a Rollout. Its status is
where the record of the rollout is kept: it is replaced as it was read or written last, or not at
all, so of two schedulers that believe to lead the second one is refused. A conflict in which the
record is the same (a spec, an annotation, or what is said of problems has changed) is tried again.
The leader writes whether each object is accepted; a standby writes nothing.
"""

from __future__ import annotations

import asyncio
import heapq
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import msgspec

from policy_sched import rollout
from policy_sched.client.apimachinery import ApiError, is_gone, timestamp
from policy_sched.errors import ClusterError, Diagnostic, Severity
from policy_sched.instance.app import rollout_storage
from policy_sched.instance.app.policy_objects import LOOK, CustomRecord, Kept, Records, kept_objects
from policy_sched.instance.app.policy_status import (
    ACCEPTED,
    MOST_PROBLEMS,
    Statement,
    condition,
    in_words,
)
from policy_sched.instance.app.rollouts import RolledOut, Rollouts
from policy_sched.instance.observability import WARNING
from policy_sched.profiles.load import PolicyObject, paths_of, problem_of
from policy_sched.profiles.models import DUPLICATE
from policy_sched.profiles.reload import MOST_ROLLOUTS, RolloutText, checked_rollout

CONFLICT: Final = 409
TRIES: Final = 4
"""How often a status is written whose object others change, but for the record."""
AGAIN: Final = 10 * 10**9
"""Nanoseconds after which a status is written again that could not be."""
DELETED: Final = "the Rollout was deleted"


class StatusStorage(rollout_storage.RolloutStorage):
    """The record of a rollout in the status of its object."""

    def __init__(
        self,
        find: Callable[[], CustomRecord | None],
        instance: RolledOut,
        driven: Rollouts,
    ) -> None:
        self._find = find
        self._instance = instance
        self._driven = driven
        self._own: CustomRecord | None = None
        """The object as it was read or written last."""
        self._pending: tuple[rollout_storage.Record, rollout_storage.Done] | None = None

    def excess(self, record: rollout_storage.Record) -> str:
        """Return why a record is too large, or nothing."""
        size = len(rollout_storage.packed(json.dumps(record.sources)))
        return rollout_storage.excess(size, rollout_storage.MOST_IN_STATUS, "select fewer policies")

    def read(self) -> rollout_storage.Record | None:
        """Return the record, None if the status has none. Raises StateError."""
        self._own = self._own or self._find()
        state, policies = _record_of(self._own)
        if state is None and not policies:
            return None
        text = rollout_storage.unpacked(policies, "status.policies") if policies else "{}"
        try:
            sources = msgspec.json.decode(text, type=dict[str, str])
        except msgspec.DecodeError as error:
            raise rollout.StateError(f"status.policies: {error}") from None
        return rollout_storage.record_of(state, sources)

    def write(self, record: rollout_storage.Record, done: rollout_storage.Done) -> None:
        """Have the record written soon."""
        self._pending = record, done

    async def flush(self) -> None:
        """Write what is to be written."""
        if self._pending is None:
            return
        (record, done), self._pending = self._pending, None
        try:
            done(await self._replaced(record))
        except ClusterError as error:
            done(DELETED if is_gone(error) else str(error))

    async def _replaced(self, record: rollout_storage.Record) -> str:
        """Write a record; return why it cannot be, or nothing. Raises ClusterError."""
        last = _record_of(self._own)
        for _ in range(TRIES):
            shown = self._find()
            if shown is None:
                return DELETED
            base = shown if self._own is None or _record_of(shown) == last else self._own
            try:
                self._own = await self._instance.replace_status(base, self._status(base, record))
            except ApiError as error:
                if error.code != CONFLICT or is_gone(error):
                    raise
                self._own = await self._instance.read_rollout(base.metadata.name)
                if _record_of(self._own) != last:
                    return rollout_storage.CHANGED
            else:
                return ""
        return "others change the object all the time"

    def _status(self, base: CustomRecord, record: rollout_storage.Record) -> dict[str, Any]:
        """Return the status; what is said of problems stays."""
        before = base.status if isinstance(base.status, dict) else {}
        accepted = [c for c in before.get("conditions", ()) if c["type"] == ACCEPTED]
        status: dict[str, Any] = {"observedGeneration": base.metadata.generation, "conditions": []}
        state, report = record.state, self._driven.report()
        if state is not None and report is not None:
            percent = self._driven.percent()
            status = rollout.status_of(report, state, base.metadata.generation, percent)
        status["conditions"] = [*accepted, *status["conditions"]]
        status["problems"] = before.get("problems", [])
        status["policies"] = rollout_storage.packed(json.dumps(record.sources))
        annotations = base.metadata.annotations
        kept = {
            action: value
            for action, value in before.get("answered", {}).items()
            if annotations.get(rollout.ANNOTATIONS[action]) == value
        }
        status["answered"] = kept | rollout.answered_by(annotations, state)
        return status

    def requested(self, state: rollout.State) -> rollout.Action | None:
        """Return what the annotations of the object ask for now, if anything."""
        shown = self._find()
        own = None if self._own is None else self._own.status
        answered = own.get("answered") if isinstance(own, dict) else None
        if shown is None:
            return None
        return rollout.requested(shown.metadata.annotations, state, answered)


def _record_of(shown: CustomRecord | None) -> tuple[str | None, str]:
    """Return the state and the packed texts in the status of an object."""
    status = shown.status if shown is not None and isinstance(shown.status, dict) else {}
    state = status.get("state")
    return (json.dumps(state, sort_keys=True) if state else None), status.get("policies") or ""


class RolloutObjects:
    """The Rollouts of a cluster that a scheduler reads as objects. ``run`` it as a task."""

    def __init__(self, instance: RolledOut) -> None:
        self.records: Records = tuple
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
        self._instance = instance
        given = instance.reloader.store.files.rollouts
        self._given: Kept = {each.name: (None, each) for each in given}
        self._judged: dict[str, tuple[Statement, list[Any], int]] = {}
        self._failed: dict[str, int] = {}
        self._storage: StatusStorage | None = None

    def given(self) -> tuple[PolicyObject, ...]:
        """Return the rollouts that there are, in order of name; annotations are no change."""
        records = self.records()
        if records is not None:
            first = heapq.nsmallest(MOST_ROLLOUTS, records, key=lambda each: each.metadata.name)
            self._given = kept_objects(first, self._given, lambda meta: (meta.uid, meta.generation))
        return tuple(given for _, given in self._given.values())

    def judge(self, objects: Iterable[PolicyObject], drives: RolloutText | None) -> None:
        """Judge the objects; ``drives``: by which Rollout changes come in force."""
        self._judged = {
            given.name: (*_judgement(given, drives), given.generation) for given in objects
        }

    def storage(
        self,
        given: PolicyObject,
        uid: str,
        driven: Rollouts,
    ) -> StatusStorage | None:
        """Return where the record of an object is kept; None while the objects are not known."""
        if self.records() is None:
            return None

        def find() -> CustomRecord | None:
            named = (each for each in self.records() or () if each.metadata.name == given.name)
            return next((each for each in named if each.metadata.uid in {uid, ""}), None)

        self._storage = StatusStorage(find, self._instance, driven)
        return self._storage

    async def run(self) -> None:
        """Write what changed, until cancelled."""
        while True:
            await self.sleep(LOOK)
            await self.publish()

    async def publish(self) -> None:
        """Write what is due, once."""
        if self._storage is not None:
            await self._storage.flush()
        instance = self._instance
        for record in list(self.records() or ()):
            name, now = record.metadata.name, instance.now()
            judged = self._judged.get(name)
            waits = now < self._failed.get(name, 0) <= now + AGAIN
            if judged is None or waits or not (instance.ready and instance.leads):
                continue
            shown = record.status if isinstance(record.status, dict) else {}
            status = _with_judgement(shown, *judged, timestamp(now))
            if status == shown:
                continue
            try:
                await instance.replace_status(record, status)
            except ClusterError as error:
                conflicts = isinstance(error, ApiError) and error.code == CONFLICT
                if not is_gone(error) and not conflicts:
                    self._failed[name] = now + AGAIN
                    text = "Failed to write the status of a rollout"
                    instance.log.write(WARNING, text, rollout=name, error=str(error))


def _judgement(
    given: PolicyObject, drives: RolloutText | None
) -> tuple[Statement, list[dict[str, Any]]]:
    """Return whether an object is accepted, and its problems."""
    checked, problems = checked_rollout(given)
    paths = paths_of((given,), problems)
    shown = [problem_of(problem, paths) for problem in problems[:MOST_PROBLEMS]]
    if checked is None:
        first = next(problem for problem in problems if problem.severity is Severity.ERROR)
        stated = Statement("False", first.code, in_words(problems, paths))
    elif drives is not None and drives.path != given.file:
        text = f"there is a Rollout in {drives.path} already; that one counts"
        twice = Diagnostic(given.file, 1, 1, DUPLICATE, text, "delete one of them")
        shown.append(problem_of(twice, paths))
        stated = Statement("False", DUPLICATE, text)
    else:
        stated = Statement("True", ACCEPTED, "changes of policies come in force by it")
    return stated, msgspec.to_builtins(shown)


def _with_judgement(
    shown: dict[str, Any], stated: Statement, problems: list[Any], generation: int, now: str
) -> dict[str, Any]:
    """Return a status with what is to be said of its object."""
    accepted = condition(ACCEPTED, stated, shown, generation, now)
    others = [c for c in shown.get("conditions", ()) if c["type"] != ACCEPTED]
    said = {"observedGeneration": generation, "conditions": [accepted, *others]}
    return {**shown, **said, "problems": problems}
