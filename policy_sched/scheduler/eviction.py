"""Evictions: victims are deleted, and lower nominations to their node are cleared.

As in kube-scheduler the victims keep running until they are gone; the room is only promised.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from policy_sched.errors import ClusterError
from policy_sched.framework import Handle
from policy_sched.model import PodGroup, PodInfo
from policy_sched.scheduler import api_calls
from policy_sched.scheduler.attempt import Preempt

LOG: Final = logging.getLogger(__name__)
#: The node of events about victims of a whole group (kube-scheduler's word), and their plugin.
CLUSTER: Final = "cluster"
DEFAULT_PREEMPTION: Final = "DefaultPreemption"
#: Ends the note of a victim that waited to be bound: nothing was deleted in the cluster.
IN_MEMORY: Final = " (in kube-scheduler memory)."


def prepare_candidate(pod: PodInfo, decision: Preempt, handle: Handle) -> str:
    """Evict the victims; return what went wrong, empty if nothing did.

    Victims that are already terminating are left alone; if all are, so are nominations.
    """
    victims = [victim for victim in decision.victims if not victim.terminating]
    if not victims:
        return ""
    clear_lower_nominations(pod, decision.node, handle)
    note = f"Preempted by pod {pod.uid} on node {decision.node}"
    text = f"{pod.scheduler_name}: preempting to accommodate a higher priority pod"
    try:
        for victim in victims:
            _evict(victim, note, text, decision.plugin, handle, pod)
    except ClusterError as error:
        return f"preemption: {error}"
    return ""


def evict_for_group(pod: PodInfo, victims: Sequence[PodInfo], handle: Handle) -> None:
    """Evict the victims of the group of a pod; what the cluster refuses is logged.

    Victims that are already terminating are left alone. The group is retried in any case.
    """
    group = handle.objects.named(PodGroup, pod.namespace, pod.pod_group)
    uid = "" if group is None else group.metadata.uid
    note = f"Preempted by podgroup {uid} on node {CLUSTER}"
    text = f"{pod.scheduler_name}: preempting to accommodate a higher priority podgroup"
    for victim in victims:
        if victim.terminating:
            continue
        try:
            _evict(victim, note, text, DEFAULT_PREEMPTION, handle)
        except ClusterError as error:
            LOG.warning("cannot evict pod %s: %s", victim.key, error)


def clear_lower_nominations(pod: PodInfo, node: str, handle: Handle) -> None:
    """Clear the nominations of lower-priority pods to the node: they may not fit any more."""
    for other in handle.nominator.pods_on(node):
        if other.priority < pod.priority:
            handle.nominator.clear(other.uid)
            try:
                handle.client.send(api_calls.nomination(other, ""))
            except ClusterError as error:
                # Decisions use the nominator; the status is informational.
                LOG.warning("cannot clear the nomination of pod %s: %s", other.key, error)


def _evict(
    victim: PodInfo,
    note: str,
    text: str,
    plugin: str,
    handle: Handle,
    related: PodInfo | None = None,
) -> None:
    """Send a victim back if it waits for its binding, else delete it; record the event."""
    waiting = handle.waiting_pods
    if (waiting.pods or waiting.pre_binding) and waiting.preempt(victim.uid, plugin):
        note += IN_MEMORY
    else:
        handle.client.send(api_calls.disruption_target(victim, text, handle.now()))
        handle.client.send(api_calls.pod_deletion(victim))
    api_calls.record_event(handle, victim, "Normal", "Preempted", "Preempting", note, related)
