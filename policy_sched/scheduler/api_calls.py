"""Sends what a scheduler decides about pods and pod groups: requests, and events about pods.

What sets a condition takes the time as nanoseconds since 1970. Events never change a decision, so a
refused event is a log line.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from policy_sched.client import ObjectRequest
from policy_sched.client.apimachinery import timestamp
from policy_sched.errors import ClusterError
from policy_sched.framework import Handle
from policy_sched.model import SCHEDULED, Pod, PodGroup, PodInfo


def nomination(pod: PodInfo, node: str) -> ObjectRequest:
    """Return the request that sets status.nominatedNodeName, or clears it if ``node`` is empty."""
    body = {"status": {"nominatedNodeName": node or None}}
    return ObjectRequest(
        "patch", Pod, pod.namespace, pod.name, body, "status", strategic=True, uid=pod.uid
    )


def pod_unschedulable(
    pod: PodInfo, reason: str, message: str, now: int, nominated: str | None = None
) -> ObjectRequest:
    """Return the request that sets condition PodScheduled=False.

    ``reason`` is ``Unschedulable`` or ``SchedulerError``. ``nominated`` is set as
    status.nominatedNodeName, which None leaves alone.
    """
    condition = _condition(pod.pod, "PodScheduled", "False", reason, message, now)
    status: dict[str, Any] = {"conditions": [condition]}
    if nominated is not None:
        status["nominatedNodeName"] = nominated or None
    body = {"status": status}
    return ObjectRequest(
        "patch", Pod, pod.namespace, pod.name, body, "status", strategic=True, uid=pod.uid
    )


def disruption_target(pod: PodInfo, message: str, now: int) -> ObjectRequest:
    """Return the request that sets condition DisruptionTarget=True of a victim of preemption."""
    reason = "PreemptionByScheduler"
    condition = _condition(pod.pod, "DisruptionTarget", "True", reason, message, now)
    return ObjectRequest(
        "patch",
        Pod,
        pod.namespace,
        pod.name,
        {"status": {"conditions": [condition]}},
        "status",
        strategic=True,
        uid=pod.uid,
        ignore_not_found=True,
    )


def pod_deletion(pod: PodInfo) -> ObjectRequest:
    """Return the request that deletes a pod gracefully."""
    return ObjectRequest("delete", Pod, pod.namespace, pod.name, uid=pod.uid, ignore_not_found=True)


def pod_eviction(pod: PodInfo) -> ObjectRequest:
    """Return the request that deletes a pod gracefully if its disruption budgets allow it."""
    where = pod.namespace, pod.name
    return ObjectRequest(
        "delete", Pod, *where, subresource="eviction", uid=pod.uid, ignore_not_found=True
    )


def group_scheduled(
    group: PodGroup, reason: str, message: str, now: int, *, scheduled: bool
) -> ObjectRequest:
    """Return the request that sets condition PodGroupScheduled.

    ``reason`` is ``Scheduled``, or else ``Unschedulable`` or ``SchedulerError``.
    """
    meta = group.metadata
    condition = _condition(group, SCHEDULED, str(scheduled), reason, message, now)
    return ObjectRequest(
        "patch",
        PodGroup,
        meta.namespace or "default",
        meta.name,
        {"status": {"conditions": [condition]}},
        "status",
        strategic=True,
        uid=meta.uid,
        ignore_not_found=True,
    )


def _condition(
    owner: Pod | PodGroup, kind: str, state: str, reason: str, message: str, now: int
) -> dict[str, Any]:
    """Return the patch of a condition; its time changes only if its state does."""
    condition: dict[str, Any] = {
        "type": kind,
        "status": state,
        "reason": reason,
        "message": message,
    }
    for before in owner.status.conditions:
        if before.type == kind and before.status == state:
            break
    else:
        condition["lastTransitionTime"] = timestamp(now)
    if owner.metadata.generation:
        condition["observedGeneration"] = owner.metadata.generation
    return condition


#: Longest note of an event, in characters, and what a longer one ends with (kube-scheduler's).
NOTE_LIMIT: Final = 1024
NOTE_SUFFIX: Final = " ..."
LOG: Final = logging.getLogger(__name__)


def record_event(  # noqa: PLR0913, PLR0917 - an event has these parts
    handle: Handle,
    pod: PodInfo,
    kind: str,
    reason: str,
    action: str,
    text: str,
    related: PodInfo | None = None,
) -> None:
    """Record an event about the pod; ``kind`` is ``Normal`` or ``Warning``.

    ``related``: the pod on whose behalf something happens to it.
    """
    try:
        short = text if len(text) <= NOTE_LIMIT else note(text)
        handle.client.record_event(pod, kind, reason, action, short, related)
    except ClusterError as error:
        LOG.warning("cannot record event %s of pod %s: %s", reason, pod.key, error)


def note(message: str) -> str:
    """Return the message as an event's note: cut to 1,024 characters."""
    if len(message) <= NOTE_LIMIT:
        return message
    return message[: NOTE_LIMIT - len(NOTE_SUFFIX)] + NOTE_SUFFIX
