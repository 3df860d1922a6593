"""What can make a pod fit that PodTopologySpread rejected: kube-scheduler's events and hints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from policy_sched import model
from policy_sched.plugins.podtopologyspread.constraints import Constraint, Constraints

_PODS: Final = (
    model.ActionType.ADD
    | model.ActionType.DELETE
    | model.ActionType.UPDATE_POD_LABEL
    | model.ActionType.UPDATE_POD_TOLERATION
)
_NODES: Final = (
    model.ActionType.ADD
    | model.ActionType.DELETE
    | model.ActionType.UPDATE_NODE_LABEL
    | model.ActionType.UPDATE_NODE_TAINT
)


def of(
    constraints_of: Callable[[model.PodInfo], Constraints],
) -> tuple[model.ClusterEventWithHint, ...]:
    """Return the events with their hints; ``constraints_of`` finds the constraints of a pod."""

    def pod_changed(pod: model.PodInfo, old: object, new: object) -> model.QueueingHint:
        """Queue for a pod that counts, or counted, for one of the hard constraints."""
        before, after = model.before_and_after(model.PodInfo, old, new)
        if not all(_involved(item, pod) for item in (before, after) if item):
            return model.QueueingHint.SKIP
        hard = constraints_of(pod).hard
        if before is None or after is None:
            other = before or after
            counts = other is not None and all(item.selector.matches(other.labels) for item in hard)
            return model.QueueingHint.queue_if(counts)
        tolerates_more = after.uid == pod.uid and after.tolerations != before.tolerations
        if tolerates_more and any(item.spread.honor_taints for item in hard):
            return model.QueueingHint.QUEUE
        return model.QueueingHint.queue_if(
            any(
                item.selector.matches(before.labels) != item.selector.matches(after.labels)
                for item in hard
            )
        )

    def node_changed(pod: model.PodInfo, old: object, new: object) -> model.QueueingHint:
        """Queue for a node that has, or had, all labels of the hard constraints."""
        hard = constraints_of(pod).hard
        before, after = model.before_and_after(model.Node, old, new)
        was = before is not None and _labelled(before.metadata.labels, hard)
        now = after is not None and _labelled(after.metadata.labels, hard)
        if before is None or after is None or was is not now:
            return model.QueueingHint.queue_if(was or now)
        return model.QueueingHint.queue_if(
            now
            and (
                before.spec.taints != after.spec.taints
                or any(
                    _value(before, constraint) != _value(after, constraint) for constraint in hard
                )
            )
        )

    return (
        model.ClusterEventWithHint(model.ClusterEvent(model.EventResource.POD, _PODS), pod_changed),
        model.ClusterEventWithHint(
            model.ClusterEvent(model.EventResource.NODE, _NODES), node_changed
        ),
    )


def _involved(other: model.PodInfo, pod: model.PodInfo) -> bool:
    """Tell whether another pod can count for a pod's constraints."""
    somewhere = bool(other.node_name or other.nominated_node_name)
    return other.uid == pod.uid or (somewhere and other.namespace == pod.namespace)


def _labelled(labels: Mapping[str, str], hard: Sequence[Constraint]) -> bool:
    return all(constraint.spread.topology_key in labels for constraint in hard)


def _value(node: model.Node, constraint: Constraint) -> str | None:
    return node.metadata.labels.get(constraint.spread.topology_key)
