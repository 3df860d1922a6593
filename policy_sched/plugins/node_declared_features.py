"""NodeDeclaredFeatures: a pod that needs features of the kubelet goes where nodes declare them.

A node's list is read as upstream reads it, by a merge with the sorted known names: an unsorted list
loses entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from policy_sched import framework, model

REASON: Final = "node(s) didn't match Pod's required features"
_RESTART_ALL: Final = "RestartAllContainers"


def _restarts_all(spec: model.PodSpec) -> bool:
    return any(
        rule.action == _RESTART_ALL
        for container in (*spec.init_containers, *spec.containers)
        for rule in container.restart_policy_rules
    )


def _user_namespace_of_host(spec: model.PodSpec) -> bool:
    return spec.host_network and spec.host_users is False


def _never(_spec: model.PodSpec) -> bool:
    return False


KNOWN: Final[Mapping[str, Callable[[model.PodSpec], bool]]] = {
    "ExtendWebSocketsToKubelet": _never,
    "InPlacePodLevelResourcesVerticalScaling": _never,
    "InPlacePodVerticalScalingInitContainers": _never,
    "RestartAllContainersOnContainerExits": _restarts_all,
    "UserNamespacesHostNetworkSupport": _user_namespace_of_host,
}
"""The features of 1.36, sorted, and whether a pod needs each to be scheduled."""

_UNFIT: Final = framework.Status(framework.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (REASON,))
_PASSED: Final = framework.PreFilterResult()
_SKIPPED: Final = framework.PreFilterResult(framework.SKIP)


def needed(pod: model.PodInfo) -> frozenset[str]:
    """Return the features that a pod needs."""
    spec = pod.pod.spec
    return frozenset(name for name, needs in KNOWN.items() if needs(spec))


def declared(features: Sequence[str]) -> frozenset[str]:
    """Return the known features of a node's list."""
    names, at = set(), 0
    for name in KNOWN:
        while at < len(features) and features[at] < name:
            at += 1
        if at < len(features) and features[at] == name:
            names.add(name)
    return frozenset(names)


def _node_changed(_pod: model.PodInfo, old: object, new: object) -> model.QueueingHint:
    """A node came, or declares other features."""
    if isinstance(old, model.Node) and isinstance(new, model.Node):
        same = old.status.declared_features == new.status.declared_features
        return model.QueueingHint.SKIP if same else model.QueueingHint.QUEUE
    return model.QueueingHint.QUEUE


def _pod_changed(pod: model.PodInfo, old: object, new: object) -> model.QueueingHint:
    """The pod itself needs other features."""
    if not isinstance(new, model.PodInfo) or new.uid != pod.uid:
        return model.QueueingHint.SKIP
    same = isinstance(old, model.PodInfo) and needed(old) == needed(new)
    return model.QueueingHint.SKIP if same else model.QueueingHint.QUEUE


_EVENTS: Final = (
    model.ClusterEventWithHint(
        model.ClusterEvent(
            model.EventResource.NODE,
            model.ActionType.ADD | model.ActionType.UPDATE_NODE_DECLARED_FEATURE,
        ),
        _node_changed,
    ),
    model.NODE_TAINT_UPDATE,
    model.ClusterEventWithHint(
        model.ClusterEvent(model.EventResource.POD, model.ActionType.UPDATE_OTHER), _pod_changed
    ),
)


class NodeDeclaredFeatures:
    """Refuses nodes that do not declare what a pod needs."""

    def __init__(self, _args: Mapping[str, object], handle: framework.Handle) -> None:
        self._table = handle.nodes

    @framework.hookimpl
    def sign_pod(self) -> framework.Signature:
        """Pods that need the same have equal results."""
        return framework.Signature(frozenset(), framework.Scope.STATIC, proved=True, keys=(_KEY,))

    @framework.hookimpl
    def events_to_register(self) -> tuple[model.ClusterEventWithHint, ...]:
        """Name what can make a rejected pod fit."""
        return _EVENTS

    @framework.hookimpl
    def pre_filter(self, pod: model.PodInfo) -> framework.PreFilterResult:
        """Skip pods that need nothing."""
        return _PASSED if needed(pod) else _SKIPPED

    @framework.hookimpl
    def filter(self, pod: model.PodInfo, rows: framework.Rows) -> framework.FilterResult:
        """Refuse nodes that lack a feature."""
        wanted = needed(pod)
        nodes = self._table.nodes[: self._table.n]
        searched = nodes if rows is None else [nodes[row] for row in rows.tolist()]
        lacking = [
            node is not None and not wanted <= declared(node.status.declared_features)
            for node in searched
        ]
        return framework.FilterResult.of(np.array(lacking, np.int16), _UNFIT)


_KEY: Final = framework.PodKey(lambda pod: needed(pod) or None, "may_need_features")
