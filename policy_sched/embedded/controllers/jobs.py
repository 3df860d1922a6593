"""Jobs: pods until so many have succeeded, or too many have failed.

Theory of operation: every pod of a job carries a finalizer, so that it cannot go before it was
counted. Counting it and taking the finalizer away is one change of the store; a job therefore
counts each of its pods once, whenever the process ends. What was counted stands in the status.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from policy_sched.client.apimachinery import JOB, POD, SECOND, Stored, readable, timestamp
from policy_sched.embedded.controllers import pod_control
from policy_sched.embedded.store import DELETED, Key, ObjectStore, StoreChange
from policy_sched.manifests import JOB_INDEX, Plain, workload_expansion as expansion
from policy_sched.model import Pod, job_indexes

FIRST_BACKOFF: Final = 10 * SECOND
"""How long the first replacement of a failed pod waits; each further one twice as long."""
LONGEST_BACKOFF: Final = 600 * SECOND
BACKOFF_LIMIT: Final = 6
"""Failures after which a job is given up, unless it has a limit."""


def number(spec: Mapping[str, Any], field: str) -> int | None:
    """Return a field that is a number, None if it is not given."""
    value = spec.get(field)
    return None if value is None else int(value)


def backoff(failures: int) -> int:
    """Return how long the next pod waits after so many failures (ns)."""
    return min(FIRST_BACKOFF << min(failures - 1, 10), LONGEST_BACKOFF) if failures > 0 else 0


def is_indexed(spec: Mapping[str, Any]) -> bool:
    """Return whether each pod of a job stands for a number of its own."""
    return spec.get("completionMode") == "Indexed" and spec.get("completions") is not None


def pods_wanted(spec: Mapping[str, Any], succeeded: int) -> int:
    """Return how many pods should run at a time, after so many successes.

    Without a number of completions the first success is a sign to the others to finish: no pod
    is made any more, and those that run are left alone.
    """
    parallel = number(spec, "parallelism")
    parallel = 1 if parallel is None else parallel
    completions = number(spec, "completions")
    if completions is None:
        return 0 if succeeded else parallel
    return max(0, min(parallel, completions - succeeded))


def is_complete(spec: Mapping[str, Any], succeeded: int, active: int) -> bool:
    """Return whether a job has done what it was to do."""
    completions = number(spec, "completions")
    if completions is None:
        return succeeded > 0 and active == 0
    return succeeded >= completions


def index_of(pod: Pod) -> int:
    """Return a pod's completion index, -1 if it has none."""
    text = pod.metadata.annotations.get(JOB_INDEX) or pod.metadata.labels.get(JOB_INDEX, "")
    return int(text) if text.isdecimal() else -1


def ignored(spec: Mapping[str, Any], pod: Pod) -> bool:
    """Return whether the pod failure policy ignores the failure of a pod (an eviction, say)."""
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            status = pattern.get("status") or "True"
            meant = pattern.get("type"), status
            if any((c.type, c.status) == meant for c in pod.status.conditions):
                return bool(rule.get("action") == "Ignore")
    return False


TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""The finalizer of a pod that was not counted yet."""
_OVER: Final = ("Complete", "Failed")


class JobController(pod_control.WorkloadController):
    """Makes, counts and ends the pods of jobs."""

    kinds = frozenset({JOB, POD})
    workloads = frozenset({JOB})
    name = "job"

    def __init__(self, store: ObjectStore, owned: pod_control.OwnedPods) -> None:
        super().__init__(store, owned)
        self._uncounted: dict[Key, dict[str, Stored]] = {}
        self._not_before: dict[str, int] = {}

    def forget(self, uid: str) -> None:
        """Drop what is kept about a deleted job."""
        self._not_before.pop(uid, None)

    def pod_changed(self, key: Key, change: StoreChange) -> None:
        """Add a job, and note a pod that is to be counted."""
        if pod_control.moved(change) is None:
            return
        new = change.new
        self._queue.add(key)
        waiting = self._uncounted.setdefault(key, {})
        if pod_control.standing_of(new) >= pod_control.Standing.LEAVING and change.type != DELETED:
            waiting[new.uid] = new
        else:
            waiting.pop(new.uid, None)

    def sync(self, key: Key) -> bool:
        """Count the ended pods of a job, and create missing ones."""
        stored = self._store.find(key.kind, key.namespace, key.name)
        waiting = list(islice(self._waiting(key), pod_control.BURST))
        if stored is None:
            self._store.revise_all((pod, _released(pod)) for pod in waiting)
        acted = bool(waiting) if stored is None else self._sync_job(key, stored, waiting)
        if len(waiting) == pod_control.BURST:
            for pod in waiting:
                del self._uncounted[key][pod.uid]
            self._queue.add(key)
        else:
            self._uncounted.pop(key, None)
        return acted

    def _waiting(self, key: Key) -> Iterator[Stored]:
        """Yield the pods that are to be counted, as they are now."""
        for pod in self._uncounted.get(key, {}).values():
            present = self._store.find(POD, *pod.namespaced_name)
            if present is not None and present.uid == pod.uid and _tracked(present):
                yield present

    def _sync_job(self, key: Key, stored: Stored, waiting: Sequence[Stored]) -> bool:
        data, now = stored.data, self._store.now()
        spec = data["spec"]
        status = data["status"] = dict(data.get("status") or {})
        old = stored.data.get("status") or {}
        _start(spec, status, now)
        failed = self._count(spec, status, waiting)
        if failed:
            delay = backoff(status.get("failed", 0))
            self._not_before[stored.uid] = now + delay
        active = self._owned.active(stored.uid)
        if not _over(status):
            self._set_result(spec, status, active, now)
        acted = False
        if _over(status) or spec.get("suspend"):
            acted = self._end(stored, active)
            if self._forget(key, stored, status, now):
                return True
        elif (
            not stored.deleting and len(waiting) < pod_control.BURST
        ):  # otherwise more may have succeeded
            acted = self._fill(key, data, status, active, pod_control.burst(stored))
        status["active"] = active
        status["ready"] = self._owned.count(stored.uid, pod_control.Standing.READY)
        status["terminating"] = self._owned.count(stored.uid, pod_control.Standing.LEAVING)
        for field in ("active", "terminating"):
            if not status[field]:
                del status[field]
        if status == old and not waiting:
            return acted
        released = [(pod, _released(pod)) for pod in waiting]
        self._store.revise_all([(stored, data), *released])
        return True

    def _count(self, spec: Plain, status: Plain, waiting: Sequence[Stored]) -> bool:
        """Count pods that have ended, in place; return whether one of them has failed."""
        numbered = is_indexed(spec)
        completions = int(spec["completions"]) if numbered else 0
        done: list[int] = []
        failed = False
        for stored in waiting:
            pod = pod_control.pod_of(stored)
            index = index_of(pod)
            if pod_control.standing(pod) == pod_control.Standing.SUCCEEDED:
                if not numbered:
                    status["succeeded"] = status.get("succeeded", 0) + 1
                elif 0 <= index < completions:
                    done.append(index)
            elif not ignored(spec, pod) and not spec.get("suspend"):
                status["failed"] = status.get("failed", 0) + 1
                failed = failed or pod_control.standing(pod) == pod_control.Standing.FAILED
        if numbered:
            before = job_indexes.runs_of(status.get("completedIndexes", ""), completions)
            runs = job_indexes.with_indexes(before, done)
            status["completedIndexes"] = job_indexes.text_of(runs)
            if done:
                status["succeeded"] = sum(map(len, runs))
        return failed

    def _set_result(self, spec: Plain, status: Plain, active: int, now: int) -> None:
        """Set the conditions of a job that is complete or has failed."""
        limit = number(spec, "backoffLimit")
        limit = BACKOFF_LIMIT if limit is None else limit
        kinds: tuple[str, ...] = ("FailureTarget", "Failed")
        if is_complete(spec, status.get("succeeded", 0), active):
            kinds = ("SuccessCriteriaMet", "Complete")
            reason, message = "CompletionsReached", "Reached expected number of succeeded pods"
            status["completionTime"] = timestamp(now)
        elif status.get("failed", 0) > limit:
            reason, message = "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        elif (deadline := _deadline(spec, status)) is not None and now >= deadline:
            reason, message = "DeadlineExceeded", "Job was active longer than specified deadline"
        else:
            return
        # As upstream, the condition that stops the pods precedes the one that ends the job.
        for kind in kinds:
            pod_control.condition(status, kind, "True", reason, message, now)

    def _end(self, stored: Stored, active: int) -> bool:
        """Delete pods that still run."""
        if not active:
            return False
        for pod in self._owned.replicas(stored.uid)[: pod_control.BURST]:
            self._delete_unwanted(pod)
        return True

    def _delete_unwanted(self, pod: Stored) -> None:
        """Delete a surplus pod, which is not counted as failed."""
        present = self._store.find(POD, *pod.namespaced_name)
        if present is not None and present.uid == pod.uid:
            pod_control.remove(self._store, self._store.revise(present, _released(present)))

    def _fill(self, key: Key, data: Plain, status: Plain, active: int, most: int) -> bool:
        """Create missing pods, delete surplus ones."""
        spec, now, uid = data["spec"], self._store.now(), data["metadata"]["uid"]
        deadline = _deadline(spec, status)
        if deadline is not None:
            self._queue.add_at(key, deadline)
        wanted = pods_wanted(spec, status.get("succeeded", 0))
        if active > wanted and not (spec.get("completions") is None and status.get("succeeded")):
            surplus = min(active - wanted, pod_control.BURST)
            # The newest pods go first: they have done the least work.
            for p in sorted(self._owned.replicas(uid), key=lambda p: -p.version)[:surplus]:
                self._delete_unwanted(p)
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
        if is_indexed(spec):
            taken = {index_of(pod_control.pod_of(pod)) for pod in self._owned.replicas(uid)}
            count = int(spec["completions"])
            done = job_indexes.runs_of(status.get("completedIndexes", ""), count)
            indexes = list(islice(job_indexes.open_indexes(done, taken, count), missing))
        for index in indexes:
            pod = expansion.job_pod(data, str(self._store.version), index)
            finalizers = pod["metadata"].get("finalizers") or []
            pod["metadata"]["finalizers"] = [*finalizers, TRACKING]
            if pod_control.create(self._store, pod) is None:
                self._queue.add_at(key, now + pod_control.RETRY)
                break
        return True

    def _forget(self, key: Key, stored: Stored, status: Plain, now: int) -> bool:
        """Delete a finished job after its ttlSecondsAfterFinished; return whether it was."""
        lifetime = number(stored.data["spec"], "ttlSecondsAfterFinished")
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
        pod_control.remove(self._store, stored)
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
    seconds = number(spec, "activeDeadlineSeconds")
    started = readable(status.get("startTime"))
    return started + seconds * SECOND if seconds is not None and started is not None else None


def _tracked(pod: Stored) -> bool:
    return TRACKING in (pod.data["metadata"].get("finalizers") or ())


def _released(pod: Stored) -> Plain:
    """Return a pod without the job's finalizer."""
    data = pod.data
    left = [name for name in data["metadata"].get("finalizers") or () if name != TRACKING]
    if left:
        data["metadata"]["finalizers"] = left
    else:
        data["metadata"].pop("finalizers", None)
    return data
