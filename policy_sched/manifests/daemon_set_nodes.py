"""Which nodes a daemon set's pod runs on: the daemon set controller's own, few, predicates.

The pod that is asked about is `expansion.daemon_candidate`'s.
"""

from __future__ import annotations

from policy_sched.model import Node, Pod, Taint, equality_selector, required_matches


def should_run(pod: Pod, node: Node) -> bool:
    """Tell whether a daemon's pod (of its template) should be started on a node."""
    return _reaches(pod, node) and not _repelled(pod, node, ("NoSchedule", "NoExecute"))


def may_stay(pod: Pod, node: Node) -> bool:
    """Tell whether a daemon's pod that runs on a node may stay there."""
    return _reaches(pod, node) and not _repelled(pod, node, ("NoExecute",))


def _reaches(pod: Pod, node: Node) -> bool:
    spec, name, labels = pod.spec, node.metadata.name, node.metadata.labels
    if spec.node_name and spec.node_name != name:
        return False
    if not equality_selector(spec.node_selector).matches(labels):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    return required_matches(affinity, labels, name)


def _repelled(pod: Pod, node: Node, effects: tuple[str, ...]) -> bool:
    taints = [taint for taint in node.spec.taints if taint.effect in effects]
    return any(not _borne(pod, taint) for taint in taints)


def _borne(pod: Pod, taint: Taint) -> bool:
    return any(t.tolerates(taint.key, taint.value, taint.effect) for t in pod.spec.tolerations)
