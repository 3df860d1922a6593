"""Evictions: victims are told to go, and lower nominations to their node are taken back.

As in kube-scheduler the victims keep running until they are gone; the room is only promised.
"""

from __future__ import annotations

from typing import Final

from policy_sched.errors import ClusterError
from policy_sched.framework.handle import Handle
from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler.attempt import Preempt

#: Ends the note of a victim that waited for permission and never was in the cluster.
IN_MEMORY: Final = " (in kube-scheduler memory)."


def make_room(pod: PodInfo, decision: Preempt, handle: Handle) -> str:
    """Evict the victims; return what went wrong, empty if nothing did.

    Victims that are on their way out already are left alone; if all are, so are nominations.
    """
    victims = [victim for victim in decision.victims if not victim.terminating]
    if not victims:
        return ""
    dismiss_lower(pod, decision.node, handle)
    try:
        for victim in victims:
            _evict(victim, pod, decision, handle)
    except ClusterError as error:
        return f"preemption: {error}"
    return ""


def dismiss_lower(pod: PodInfo, node: str, handle: Handle) -> None:
    """Take back the nominations of less important pods to the node: they may not fit any more."""
    for other in handle.nominator.pods_on(node):
        if other.priority < pod.priority:
            handle.nominator.clear(other.uid)
            handle.client.clear_nomination(other)


def _evict(victim: PodInfo, pod: PodInfo, decision: Preempt, handle: Handle) -> None:
    note = f"Preempted by pod {pod.uid} on node {decision.node}"
    waiting = handle.waiting_pods.get(victim.uid)
    if waiting is not None:
        waiting.reject(decision.plugin, "preempted")
        note += IN_MEMORY
    else:
        text = f"{pod.scheduler_name}: preempting to accommodate a higher priority pod"
        handle.client.set_disruption_target(victim, text)
        handle.client.delete_pod(victim)
    handle.client.record_event(victim, "Normal", "Preempted", "Preempting", note)
