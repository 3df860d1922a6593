"""Loads the objects of a cluster into a cache."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from policy_sched.cluster import Cache
from policy_sched.model import ApiObject, Namespace, Node, Pod, PodInfo

ENDED: Final = frozenset({"Succeeded", "Failed"})
"""Phases in which a pod holds no resources; kube-scheduler does not watch such pods."""


def load_cluster(cache: Cache, objects: Iterable[ApiObject]) -> list[Pod]:
    """Add nodes, namespaces and running pods; return the pods without a node, in order."""
    running: list[Pod] = []
    pending: list[Pod] = []
    for one in objects:
        if isinstance(one, Node):
            cache.add_node(one)
        elif isinstance(one, Namespace):
            cache.set_namespace(one)
        elif isinstance(one, Pod) and one.status.phase not in ENDED:
            (running if one.spec.node_name else pending).append(one)
    for pod in running:
        cache.add_pod(PodInfo.of(pod))
    return pending
