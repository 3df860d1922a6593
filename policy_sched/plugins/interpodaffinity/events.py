"""What can make a pod fit that InterPodAffinity rejected: kube-scheduler's events and hints.

As there, a hint looks at a term's namespaces without the labels of namespaces. A pod that waits for
one of a namespace that only labels select is retried when it has waited too long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from policy_sched import model

_NO_LABELS: Final[dict[str, str]] = {}


def _selected(terms: Sequence[model.AffinityTerm], pod: model.PodInfo | None) -> list[bool]:
    """Return of each term whether it selects a pod."""
    if pod is None:
        return [False] * len(terms)
    return [term.matches(pod.namespace, pod.labels, _NO_LABELS) for term in terms]


def _pod_changed(pod: model.PodInfo, old: object, new: object) -> model.QueueingHint:
    """Queue for the pod's own labels, and for a pod that it needs, or that no longer repels."""
    before, after = model.before_and_after(model.PodInfo, old, new)
    if after is not None and after.uid == pod.uid:
        return model.QueueingHint.queue_if(before is None or before.labels != after.labels)
    if not all(
        version.node_name or version.nominated_node_name for version in (before, after) if version
    ):
        return model.QueueingHint.SKIP
    needed, repelled = pod.affinity_terms.affinity, pod.affinity_terms.anti_affinity
    was_needed, is_needed = _selected(needed, before), _selected(needed, after)
    if after is not None and needed and all(is_needed) and not all(was_needed):
        return model.QueueingHint.QUEUE
    if before is None:
        return model.QueueingHint.SKIP
    if any(_selected(repelled, before)) and not any(_selected(repelled, after)):
        return model.QueueingHint.QUEUE
    return model.QueueingHint.queue_if(
        after is None and any(_selected(before.affinity_terms.anti_affinity, pod))
    )


def _node_changed(pod: model.PodInfo, old: object, new: object) -> model.QueueingHint:
    """Queue for a node that came into a domain of the pod's terms, or left one."""
    if not isinstance(new, model.Node):
        return model.QueueingHint.SKIP
    before = old.metadata.labels if isinstance(old, model.Node) else None
    after = new.metadata.labels
    for term in pod.affinity_terms.affinity:
        value = after.get(term.topology_key)
        if value is not None and (before is None or before.get(term.topology_key) != value):
            return model.QueueingHint.QUEUE
    for term in pod.affinity_terms.anti_affinity:
        key = term.topology_key
        if before is None or (key in before and before[key] != after.get(key)):
            return model.QueueingHint.QUEUE
    return model.QueueingHint.SKIP


_PODS: Final = model.ActionType.ADD | model.ActionType.DELETE | model.ActionType.UPDATE_POD_LABEL
_NODES: Final = model.ActionType.ADD | model.ActionType.UPDATE_NODE_LABEL
EVENTS: Final = (
    model.ClusterEventWithHint(model.ClusterEvent(model.EventResource.POD, _PODS), _pod_changed),
    model.ClusterEventWithHint(model.ClusterEvent(model.EventResource.NODE, _NODES), _node_changed),
    model.NODE_TAINT_UPDATE,
)
