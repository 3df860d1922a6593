"""NodeDeclaredFeatures: a pod that needs features of the kubelet goes where nodes declare them.

A node's list is read as upstream reads it, by a merge with the sorted known names: an unsorted list
loses entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from policy_sched.framework import (
    SKIP,
    Code,
    FilterResult,
    Handle,
    PodKey,
    PreFilterResult,
    Rows,
    Scope,
    Signature,
    Status,
    hookimpl,
)
from policy_sched.model import (
    NODE_TAINT_UPDATE,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    Node,
    PodInfo,
    PodSpec,
    QueueingHint,
)

REASON: Final = "node(s) didn't match Pod's required features"
_RESTART_ALL: Final = "RestartAllContainers"


def _restarts_all(spec: PodSpec) -> bool:
    return any(
        rule.action == _RESTART_ALL
        for container in (*spec.init_containers, *spec.containers)
        for rule in container.restart_policy_rules
    )


def _user_namespace_of_host(spec: PodSpec) -> bool:
    return spec.host_network and spec.host_users is False


def _never(_spec: PodSpec) -> bool:
    return False


KNOWN: Final[Mapping[str, Callable[[PodSpec], bool]]] = {
    "ExtendWebSocketsToKubelet": _never,
    "InPlacePodLevelResourcesVerticalScaling": _never,
    "InPlacePodVerticalScalingInitContainers": _never,
    "RestartAllContainersOnContainerExits": _restarts_all,
    "UserNamespacesHostNetworkSupport": _user_namespace_of_host,
}
"""The features of 1.36, sorted, and whether a pod needs each to be scheduled."""

_UNFIT: Final = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (REASON,))
_PASSED: Final = PreFilterResult()
_SKIPPED: Final = PreFilterResult(SKIP)


def needed(pod: PodInfo) -> frozenset[str]:
    """Return the features that a pod needs."""
    spec = pod.pod.spec
    return frozenset(name for name, needs in KNOWN.items() if needs(spec))


def declared(features: Sequence[str]) -> frozenset[str]:
    """Return the known features of a node's list."""
    found, at = set(), 0
    for name in KNOWN:
        while at < len(features) and features[at] < name:
            at += 1
        if at < len(features) and features[at] == name:
            found.add(name)
    return frozenset(found)


def _node_changed(_pod: PodInfo, old: object, new: object) -> QueueingHint:
    """A node came, or declares other features."""
    if isinstance(old, Node) and isinstance(new, Node):
        same = old.status.declared_features == new.status.declared_features
        return QueueingHint.SKIP if same else QueueingHint.QUEUE
    return QueueingHint.QUEUE


def _pod_changed(pod: PodInfo, old: object, new: object) -> QueueingHint:
    """The pod itself needs other features."""
    if not isinstance(new, PodInfo) or new.uid != pod.uid:
        return QueueingHint.SKIP
    same = isinstance(old, PodInfo) and needed(old) == needed(new)
    return QueueingHint.SKIP if same else QueueingHint.QUEUE


_EVENTS: Final = (
    ClusterEventWithHint(
        ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE),
        _node_changed,
    ),
    NODE_TAINT_UPDATE,
    ClusterEventWithHint(ClusterEvent(EventResource.POD, ActionType.UPDATE_OTHER), _pod_changed),
)


class NodeDeclaredFeatures:
    """Refuses nodes that do not declare what a pod needs."""

    def __init__(self, _args: Mapping[str, object], handle: Handle) -> None:
        self._table = handle.nodes

    @hookimpl
    def sign_pod(self) -> Signature:
        """Pods that need the same have equal results."""
        return Signature(frozenset(), Scope.STATIC, proved=True, keys=(_KEY,))

    @hookimpl
    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        """Name what can make a rejected pod fit."""
        return _EVENTS

    @hookimpl
    def pre_filter(self, pod: PodInfo) -> PreFilterResult:
        """Skip pods that need nothing."""
        return _PASSED if needed(pod) else _SKIPPED

    @hookimpl
    def filter(self, pod: PodInfo, rows: Rows) -> FilterResult:
        """Refuse nodes that lack a feature."""
        wanted = needed(pod)
        nodes = self._table.nodes[: self._table.n]
        searched = nodes if rows is None else [nodes[row] for row in rows.tolist()]
        lacking = [
            node is not None and not wanted <= declared(node.status.declared_features)
            for node in searched
        ]
        return FilterResult.of(np.array(lacking, np.int16), _UNFIT)


_KEY: Final = PodKey(lambda pod: needed(pod) or None, "may_need_features")
