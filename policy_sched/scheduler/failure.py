"""Handles a pod that was not scheduled: condition and event, in upstream's words."""

from __future__ import annotations

import logging
from typing import Final

from policy_sched.errors import ClusterError
from policy_sched.framework import Code, CycleState, GroupFailure, Handle, Status
from policy_sched.model import NO_PLUGINS, PodInfo
from policy_sched.scheduler.api_calls import pod_unschedulable, record_event
from policy_sched.scheduler.attempt import Decision, Preempt, Reject
from policy_sched.scheduler.queueing_hints import no_profile

LOG: Final = logging.getLogger(__name__)


def handle_scheduling_failure(
    pod: PodInfo,
    status: Status,
    message: str,
    handle: Handle,
    nominated: str | None = None,
    *,
    there: bool = True,
) -> None:
    """Record the event, and set the pod's condition if the pod is still there.

    ``nominated``: the node that the pod is nominated to from now on, empty if it is nominated
    nowhere any more, None where that stays as it is. What the cluster refuses is logged: the pod
    is queued again all the same.
    """
    record_event(handle, pod, "Warning", "FailedScheduling", "Scheduling", message)
    if not there:
        return
    reason = "Unschedulable" if status.rejected else "SchedulerError"
    if nominated is None or nominated == pod.nominated_node_name:
        told = reason, message, pod.pod.metadata.generation
        for before in pod.pod.status.conditions:
            stated = before.reason, before.message, before.observed_generation
            if before.type == "PodScheduled" and before.status == "False" and stated == told:
                return  # as upstream's updatePod: bindings wait for the tokens of needless requests
    request = pod_unschedulable(pod, reason, message, handle.now(), nominated)
    try:
        handle.client.send(request)
    except ClusterError as error:
        LOG.warning("cannot write the condition of pod %s: %s", pod.key, error)


def note_group_failure(
    pod: PodInfo, decision: Decision | None, state: CycleState, handle: Handle
) -> None:
    """Note that a pod of a group found no node, if that is what was decided.

    ``state``: that of the attempt, in which a plugin may have said that the group did not fail.
    """
    if not isinstance(decision, Reject) or not decision.status.rejected:
        return
    now = handle.now()
    if decision.diagnosis is None or decision.diagnosis.pre_filter is None:
        handle.groups.tried(pod, now)
    said = state.read(GroupFailure)
    handle.groups.failed(pod, now, as_group=said is None or said.failed)


def record_no_profile(pod: PodInfo, handle: Handle) -> None:
    """Report that a pod waits because its profile was removed."""
    message = f"{no_profile(pod)}; the pod waits until one has"
    handle_scheduling_failure(pod, Status(Code.UNSCHEDULABLE, (message,)), message, handle)


def rejectors(failure: Reject | Preempt | Status) -> tuple[frozenset[str], frozenset[str]]:
    """Return the plugins that rejected a pod, and those that returned Pending.

    Both are empty where an unexpected error, and no plugin, ended the attempt.
    """
    if not isinstance(failure, Status):
        if failure.diagnosis is None or not failure.status.rejected:
            return NO_PLUGINS, NO_PLUGINS
        return failure.diagnosis.rejectors()
    plugin = frozenset({failure.plugin} - {""})
    if not failure.rejected:
        return NO_PLUGINS, NO_PLUGINS
    return (NO_PLUGINS, plugin) if failure.code is Code.PENDING else (plugin, NO_PLUGINS)
