"""What is told of a pod that was not scheduled: condition and event, in upstream's words."""

from __future__ import annotations

from typing import Final

from policy_sched.framework.handle import Handle
from policy_sched.framework.status import Code, Status
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.queued_pod import NOBODY
from policy_sched.scheduler.attempt import Preempt, Reject
from policy_sched.scheduler.queueing import no_profile

#: Longest note of an event, in characters, and what a longer one ends with (kube-scheduler's).
NOTE_LIMIT: Final = 1024
NOTE_SUFFIX: Final = " ..."


def record_failure(
    pod: PodInfo, status: Status, message: str, handle: Handle, nominated: str | None = None
) -> str:
    """Set the pod's condition and record the event; return the message that was written.

    ``nominated``: the node that the pod is nominated to from now on, empty if it is nominated
    nowhere any more, None where that stays as it is.
    Without a message the status comes from Reserve, Permit or Bind, which speak of one node:
    a rejection is worded as upstream words a FitError over that node.
    """
    if not message:
        text = status.message()
        message = f"0/1 nodes are available: 1 {text}." if status.rejected else text
    reason = "Unschedulable" if status.rejected else "SchedulerError"
    handle.client.set_unschedulable(pod, reason, message, nominated)
    handle.client.record_event(pod, "Warning", "FailedScheduling", "Scheduling", note(message))
    return message


def announce_no_profile(pod: PodInfo, handle: Handle) -> None:
    """Say that a pod waits because its profile is gone, and for what."""
    message = f"{no_profile(pod)}; the pod waits until one has"
    handle.client.set_unschedulable(pod, "Unschedulable", message)
    handle.client.record_event(pod, "Warning", "FailedScheduling", "Scheduling", note(message))


def rejectors(failure: Reject | Preempt | Status) -> tuple[frozenset[str], frozenset[str]]:
    """Return the plugins that rejected a pod, and those that answered Pending.

    Both are empty where an unexpected error, and no plugin, ended the attempt.
    """
    if not isinstance(failure, Status):
        if failure.diagnosis is None or not failure.status.rejected:
            return NOBODY, NOBODY
        return failure.diagnosis.rejectors()
    plugin = frozenset({failure.plugin} - {""})
    if not failure.rejected:
        return NOBODY, NOBODY
    return (NOBODY, plugin) if failure.code is Code.PENDING else (plugin, NOBODY)


def note(message: str) -> str:
    """Return the message as an event's note: cut to 1,024 characters."""
    if len(message) <= NOTE_LIMIT:
        return message
    return message[: NOTE_LIMIT - len(NOTE_SUFFIX)] + NOTE_SUFFIX
