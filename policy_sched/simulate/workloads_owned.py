"""Pods that a workload has already: whether they count, and for which node."""

from __future__ import annotations

from policy_sched.manifests import TEMPLATE_HASH
from policy_sched.model import Pod, PodTemplate, required_node_names
from policy_sched.simulate.cluster_load import ENDED


def active(pod: Pod) -> bool:
    """Tell whether a pod counts for its controller: it has not ended and is not leaving."""
    return pod.status.phase not in ENDED and pod.metadata.deletion_timestamp is None


def daemon_nodes(pod: Pod) -> frozenset[str]:
    """Return the node that a daemon's pod runs on or was made for."""
    if pod.spec.node_name:
        return frozenset({pod.spec.node_name})
    affinity = pod.spec.affinity
    names = required_node_names(affinity.node_affinity) if affinity is not None else None
    return names or frozenset()


def same_template(one: PodTemplate, other: PodTemplate) -> bool:
    """Tell whether two templates are one, but for the label that the controller adds."""
    if one.spec != other.spec or one.metadata.annotations != other.metadata.annotations:
        return False
    labels, others = dict(one.metadata.labels), dict(other.metadata.labels)
    labels.pop(TEMPLATE_HASH, None)
    others.pop(TEMPLATE_HASH, None)
    return labels == others
