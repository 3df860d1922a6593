"""Jobs: pods until so many have succeeded, or too many have failed.

Theory of operation: every pod of a job carries a finalizer, so that it cannot go before it was
counted. Counting it and taking the finalizer away is one change of the store; a job therefore
counts each of its pods once, whenever the process ends. What was counted stands in the status.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from policy_sched.client.apimachinery import JOB, POD, SECOND, Stored, readable, timestamp
from policy_sched.embedded.controllers import job_numbers
from policy_sched.embedded.controllers.controller_refs import (
    OwnedPods,
    Standing,
    controller_of,
    moved,
    owner_key,
    pod_of,
    standing,
)
from policy_sched.embedded.controllers.workqueue import Controller
from policy_sched.embedded.controllers.writing import (
    RETRY,
    burst,
    condition,
    create,
    remove,
)
from policy_sched.embedded.store import DELETED, Change, Key, ObjectStore
from policy_sched.manifests import Plain
from policy_sched.manifests import workload_expansion as expansion
from policy_sched.model import job_indexes

TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""The finalizer of a pod that was not counted yet."""
_OVER: Final = ("Complete", "Failed")


class JobController(Controller):
    """Makes, counts and ends the pods of jobs."""

    kinds = frozenset({JOB, POD})
    name = "job"

    def __init__(self, store: ObjectStore, owned: OwnedPods) -> None:
        super().__init__(store)
        self._owned = owned
        self._uncounted: dict[Key, dict[str, Stored]] = {}
        self._not_before: dict[str, int] = {}

    def observe(self, change: Change) -> None:
        """Take note of a job that changed, or of one of its pods."""
        new = change.new
        if new.resource.key == JOB:
            self._queue.add(Key(JOB, *new.place))
            if change.type == DELETED:
                self._not_before.pop(new.uid, None)
        elif new.resource.key == POD:
            owner = controller_of(new)
            moves = moved(change) is not None
            if moves and owner is not None and (owner.api_version, owner.kind) == JOB:
                key = owner_key(new, owner)
                self._queue.add(key)
                over = standing(pod_of(new)) >= Standing.LEAVING
                waiting = self._uncounted.setdefault(key, {})
                if over and change.type != DELETED:
                    waiting[new.uid] = new
                else:
                    waiting.pop(new.uid, None)

    def sync(self, key: Key) -> bool:
        """Count a job's pods that ended, and create those that are missing."""
        stored = self._store.find(key.kind, key.namespace, key.name)
        waiting = list(self._waiting(key))
        if stored is None:
            self._store.revise_all((pod, _released(pod)) for pod in waiting)
        acted = bool(waiting) if stored is None else self._look(key, stored, waiting)
        self._uncounted.pop(key, None)
        return acted

    def _waiting(self, key: Key) -> Iterator[Stored]:
        """Yield the pods that are to be counted, as they are now."""
        for pod in self._uncounted.get(key, {}).values():
            present = self._store.find(POD, *pod.place)
            if present is not None and present.uid == pod.uid and _tracked(present):
                yield present

    def _look(self, key: Key, stored: Stored, waiting: Sequence[Stored]) -> bool:
        data, now = stored.data, self._store.now()
        spec = data["spec"]
        status = data["status"] = dict(data.get("status") or {})
        old = stored.data.get("status") or {}
        _start(spec, status, now)
        failed = self._count(spec, status, waiting)
        if failed:
            delay = job_numbers.backoff(status.get("failed", 0))
            self._not_before[stored.uid] = now + delay
        active = self._owned.active(stored.uid)
        if not _over(status):
            self._judge(spec, status, active, now)
        acted = False
        if _over(status) or spec.get("suspend"):
            acted = self._end(stored, active)
            if self._forget(key, stored, status, now):
                return True
        elif not stored.deleting:
            acted = self._fill(key, data, status, active, burst(stored))
        status["active"] = active
        status["ready"] = self._owned.count(stored.uid, Standing.READY)
        status["terminating"] = self._owned.count(stored.uid, Standing.LEAVING)
        for field in ("active", "terminating"):
            if not status[field]:
                del status[field]
        if status == old and not waiting:
            return acted
        released = [(pod, _released(pod)) for pod in waiting]
        self._store.revise_all([(stored, data), *released])
        return True

    def _count(self, spec: Plain, status: Plain, waiting: Sequence[Stored]) -> bool:
        """Count pods that have ended, in place; tell whether one of them has failed."""
        indexed = job_numbers.indexed(spec)
        completions = int(spec["completions"]) if indexed else 0
        done: list[int] = []
        failed = False
        for stored in waiting:
            pod = pod_of(stored)
            index = job_numbers.index_of(pod)
            if standing(pod) == Standing.SUCCEEDED:
                if not indexed:
                    status["succeeded"] = status.get("succeeded", 0) + 1
                elif 0 <= index < completions:
                    done.append(index)
            elif not job_numbers.ignored(spec, pod) and not spec.get("suspend"):
                status["failed"] = status.get("failed", 0) + 1
                failed = failed or standing(pod) == Standing.FAILED
        if indexed:
            before = job_indexes.runs_of(status.get("completedIndexes", ""), completions)
            runs = job_indexes.with_indexes(before, done)
            status["completedIndexes"] = job_indexes.text_of(runs)
            if done:
                status["succeeded"] = sum(map(len, runs))
        return failed

    def _judge(self, spec: Plain, status: Plain, active: int, now: int) -> None:
        """Write that a job is complete, or has failed, if so it is."""
        limit = job_numbers.number(spec, "backoffLimit")
        limit = job_numbers.BACKOFF_LIMIT if limit is None else limit
        if job_numbers.complete(spec, status.get("succeeded", 0), active):
            message = "Reached expected number of succeeded pods"
            for kind in ("SuccessCriteriaMet", "Complete"):
                condition(status, kind, "True", "CompletionsReached", message, now)
            status["completionTime"] = timestamp(now)
        elif status.get("failed", 0) > limit:
            message = "Job has reached the specified backoff limit"
            for kind in ("FailureTarget", "Failed"):
                condition(status, kind, "True", "BackoffLimitExceeded", message, now)
        elif (deadline := _deadline(spec, status)) is not None and now >= deadline:
            message = "Job was active longer than specified deadline"
            for kind in ("FailureTarget", "Failed"):
                condition(status, kind, "True", "DeadlineExceeded", message, now)

    def _end(self, stored: Stored, active: int) -> bool:
        """Delete the pods that still run."""
        if not active:
            return False
        for pod in self._running(stored.uid):
            self._dismiss(pod)
        return True

    def _running(self, uid: str) -> list[Stored]:
        return [p for p in self._owned.of(uid) if standing(pod_of(p)) <= Standing.READY]

    def _dismiss(self, pod: Stored) -> None:
        """Delete a pod that is not wanted any more; it counts for nothing."""
        present = self._store.find(POD, *pod.place)
        if present is not None and present.uid == pod.uid:
            remove(self._store, self._store.revise(present, _released(present)))

    def _fill(self, key: Key, data: Plain, status: Plain, active: int, most: int) -> bool:
        """Make the pods that are missing, delete those that are too many."""
        spec, now, uid = data["spec"], self._store.now(), data["metadata"]["uid"]
        deadline = _deadline(spec, status)
        if deadline is not None:
            self._queue.add_at(key, deadline)
        wanted = job_numbers.wanted(spec, status.get("succeeded", 0))
        if active > wanted and not (spec.get("completions") is None and status.get("succeeded")):
            for one in sorted(self._running(uid), key=lambda one: -one.version)[: active - wanted]:
                self._dismiss(one)
            return True
        missing = wanted - active
        if missing <= 0 or not expansion.template_of(data):
            return False
        due = self._not_before.get(uid, 0)
        if due > now:
            self._queue.add_at(key, due if deadline is None else min(due, deadline))
            return False
        missing = min(missing, most)
        indexes: Sequence[int | None] = [None] * missing
        if job_numbers.indexed(spec):
            taken = {job_numbers.index_of(pod_of(pod)) for pod in self._running(uid)}
            count = int(spec["completions"])
            done = job_indexes.runs_of(status.get("completedIndexes", ""), count)
            indexes = list(islice(job_indexes.open_indexes(done, taken, count), missing))
        for index in indexes:
            pod = expansion.job_pod(data, str(self._store.version), index)
            finalizers = pod["metadata"].get("finalizers") or []
            pod["metadata"]["finalizers"] = [*finalizers, TRACKING]
            if create(self._store, pod) is None:
                self._queue.add_at(key, now + RETRY)
                break
        return True

    def _forget(self, key: Key, stored: Stored, status: Plain, now: int) -> bool:
        """Delete a job that is over, once its time to live has passed; tell whether it was."""
        lifetime = job_numbers.number(stored.data["spec"], "ttlSecondsAfterFinished")
        if lifetime is None or not _over(status) or stored.deleting:
            return False
        ended = [c for c in status["conditions"] if c.get("type") in _OVER]
        since = readable(ended[0].get("lastTransitionTime"))
        if since is None:
            return False
        due = since + lifetime * SECOND
        if due > now:
            self._queue.add_at(key, due)
            return False
        remove(self._store, stored)
        return True


def _start(spec: Plain, status: Plain, now: int) -> None:
    if spec.get("suspend"):
        status.pop("startTime", None)
    else:
        status.setdefault("startTime", timestamp(now))


def _over(status: Plain) -> bool:
    conditions = status.get("conditions") or ()
    return any(c.get("type") in _OVER and c.get("status") == "True" for c in conditions)


def _deadline(spec: Plain, status: Plain) -> int | None:
    seconds = job_numbers.number(spec, "activeDeadlineSeconds")
    started = readable(status.get("startTime"))
    return started + seconds * SECOND if seconds is not None and started is not None else None


def _tracked(pod: Stored) -> bool:
    return TRACKING in (pod.data["metadata"].get("finalizers") or ())


def _released(pod: Stored) -> Plain:
    """Return a pod without the job's finalizer."""
    data = pod.data
    left = [one for one in data["metadata"].get("finalizers") or () if one != TRACKING]
    if left:
        data["metadata"]["finalizers"] = left
    else:
        data["metadata"].pop("finalizers", None)
    return data
