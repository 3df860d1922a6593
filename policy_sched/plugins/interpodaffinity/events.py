"""What can make a pod fit that InterPodAffinity rejected: kube-scheduler's events and hints.

As there, a hint looks at a term's namespaces without the labels of namespaces. A pod that waits for
one of a namespace that only labels select is retried when it has waited too long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from policy_sched.model import (
    NODE_TAINT_UPDATE,
    ActionType,
    AffinityTerm,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    Node,
    PodInfo,
    QueueingHint,
    before_and_after,
)

_NO_LABELS: Final[dict[str, str]] = {}


def _selected(terms: Sequence[AffinityTerm], pod: PodInfo | None) -> list[bool]:
    """Return of each term whether it selects a pod."""
    if pod is None:
        return [False] * len(terms)
    return [term.matches(pod.namespace, pod.labels, _NO_LABELS) for term in terms]


def _pod_changed(pod: PodInfo, old: object, new: object) -> QueueingHint:
    """Queue for the pod's own labels, and for a pod that it needs, or that no longer repels."""
    before, after = before_and_after(PodInfo, old, new)
    if after is not None and after.uid == pod.uid:
        return QueueingHint.queue_if(before is None or before.labels != after.labels)
    if not all(
        version.node_name or version.nominated_node_name for version in (before, after) if version
    ):
        return QueueingHint.SKIP
    needed, repelled = pod.affinity_terms.affinity, pod.affinity_terms.anti_affinity
    was_needed, is_needed = _selected(needed, before), _selected(needed, after)
    if after is not None and needed and all(is_needed) and not all(was_needed):
        return QueueingHint.QUEUE
    if before is None:
        return QueueingHint.SKIP
    if any(_selected(repelled, before)) and not any(_selected(repelled, after)):
        return QueueingHint.QUEUE
    return QueueingHint.queue_if(
        after is None and any(_selected(before.affinity_terms.anti_affinity, pod))
    )


def _node_changed(pod: PodInfo, old: object, new: object) -> QueueingHint:
    """Queue for a node that came into a domain of the pod's terms, or left one."""
    if not isinstance(new, Node):
        return QueueingHint.SKIP
    before = old.metadata.labels if isinstance(old, Node) else None
    after = new.metadata.labels
    for term in pod.affinity_terms.affinity:
        value = after.get(term.topology_key)
        if value is not None and (before is None or before.get(term.topology_key) != value):
            return QueueingHint.QUEUE
    for term in pod.affinity_terms.anti_affinity:
        key = term.topology_key
        if before is None or (key in before and before[key] != after.get(key)):
            return QueueingHint.QUEUE
    return QueueingHint.SKIP


_PODS: Final = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL
_NODES: Final = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
EVENTS: Final = (
    ClusterEventWithHint(ClusterEvent(EventResource.POD, _PODS), _pod_changed),
    ClusterEventWithHint(ClusterEvent(EventResource.NODE, _NODES), _node_changed),
    NODE_TAINT_UPDATE,
)
