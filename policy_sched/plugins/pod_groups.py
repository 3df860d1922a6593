"""Plugins for pod groups of scheduling.k8s.io, under kube-scheduler's names.

Each needs a feature gate.

GangScheduling: pods of a gang enter the queue and are bound only when there are enough of them.
PreEnqueue waits for the PodGroup and for as many pods as it needs; Permit holds the pods that have
nodes until as many of them do. The group cycle tries a whole group before any of that is done, so
that pods wait here only while their siblings are on their way.

TopologyPlacementGenerator makes placements by a label: a PodGroup may name one node label
(``schedulingConstraints.topology``), and all its pods go to nodes with one value of it. Pods that
have nodes already fix the value. PodGroupPodsCount and NodeResourcesFit score placements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from policy_sched import framework, model
from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import PluginError

NAME: Final = "GangScheduling"
#: How long a pod waits for its siblings, in seconds.
TIMEOUT: Final = 5 * 60.0
MISSING: Final = 'waiting for pods\'s pod group "{}" to appear in scheduling queue'
TOO_FEW: Final = "waiting for minCount pods from a gang to appear in scheduling queue"
WAITING: Final = framework.Status(
    framework.Code.WAIT, ("waiting for minCount pods from a gang to be scheduled",)
)

_ENOUGH: Final = framework.PermitResult()


class GangScheduling:
    """Holds the pods of a gang until there are as many as it needs."""

    def __init__(self, _args: Mapping[str, object], handle: framework.Handle) -> None:
        self._handle = handle

    @framework.hookimpl
    def sign_pod(self) -> framework.Signature:
        """Only pods of a group can be gated."""
        fields = frozenset({("pod_group",)})
        gate = framework.Gate(attrgetter("pod_group"), fields, by_group=True)
        return framework.Signature(frozenset(), framework.Scope.STATIC, gate=gate)

    @framework.hookimpl
    def pre_enqueue(self, pod: model.PodInfo) -> framework.Status:
        """Gate a pod whose PodGroup is missing, or whose gang has too few pods."""
        name = group_name(pod)
        if not name:
            return framework.SUCCESS
        group = self._handle.objects.named(model.PodGroup, pod.namespace, name)
        if group is None:
            return framework.Status(
                framework.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (MISSING.format(name),)
            )
        if group.min_count and self._handle.groups.counts(pod).members < group.min_count:
            return framework.Status(framework.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (TOO_FEW,))
        return framework.SUCCESS

    @framework.hookimpl
    def permit(self, state: framework.CycleState, pod: model.PodInfo) -> framework.PermitResult:
        """Wait until enough pods of the gang have nodes; the pod that makes it so releases all."""
        name = group_name(pod)
        if not name:
            return _ENOUGH
        handle, key = self._handle, (pod.namespace, name)
        group = handle.objects.named(model.PodGroup, *key)
        if group is None:
            text = f'failed to get podGroup {pod.namespace}/{name}: podgroup "{name}" not found'
            return framework.PermitResult(framework.Status(framework.Code.ERROR, (text,)))
        if not group.min_count:
            return _ENOUGH
        tried = state.read(framework.DryRunMarker) is not None
        if len(handle.cache.groups.pods(key)) >= group.min_count:
            if not tried:
                for waiting in reversed(handle.waiting_pods.of_group(key).values()):
                    if NAME not in waiting.pending_plugins:
                        break  # so it was allowed, as were those that have waited for longer
                    waiting.allow(NAME)
            return _ENOUGH
        if not tried:
            state.write(framework.PodsToActivate(groups={key}))
        return framework.PermitResult(WAITING, TIMEOUT)

    @framework.hookimpl
    def events_to_register(self) -> tuple[model.ClusterEventWithHint, ...]:
        """Retry a pod when a pod of its group or its PodGroup comes."""
        pods = model.ClusterEvent(model.EventResource.POD, model.ActionType.ADD)
        groups = model.ClusterEvent(model.EventResource.POD_GROUP, model.ActionType.ADD)
        return model.ClusterEventWithHint(pods, _sibling_came), model.ClusterEventWithHint(
            groups, _group_came
        )


def group_name(pod: model.PodInfo) -> str:
    """Return the group in a pod's ``spec.schedulingGroup``, or an empty string.

    The label of the coscheduling plugin names no group here.
    """
    group = pod.pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name


def _sibling_came(pod: model.PodInfo, _old: object, new: object) -> model.QueueingHint:
    same = (
        isinstance(new, model.PodInfo)
        and new.namespace == pod.namespace
        and group_name(new) == group_name(pod) != ""
    )
    return model.QueueingHint.QUEUE if same else model.QueueingHint.SKIP


def _group_came(pod: model.PodInfo, _old: object, new: object) -> model.QueueingHint:
    same = (
        isinstance(new, model.PodGroup)
        and (new.metadata.namespace or model.DEFAULT_NAMESPACE) == pod.namespace
        and new.metadata.name == group_name(pod)
    )
    return model.QueueingHint.QUEUE if same else model.QueueingHint.SKIP


UNKNOWN: Final = "cannot determine domain for already scheduled pods"
NO_PODS_ASSIGNED: Final = "no pods from pod group are assigned to any of the candidate placements"
BEST: Final = 100
_ANYWHERE: Final = framework.Placements(status=framework.SKIP)


class TopologyPlacementGenerator:
    """Parts the nodes by the label that the group names; without one they are one placement."""

    def __init__(self, _args: Mapping[str, object], handle: framework.Handle) -> None:
        self._handle = handle

    @framework.hookimpl
    def placement_generate(self, pods: Sequence[model.PodInfo]) -> framework.Placements:
        """Return a placement for each value of the label, named by the value."""
        pod, handle = pods[0], self._handle
        name = group_name(pod)
        if not name:
            return _ANYWHERE
        key = (pod.namespace, name)
        group = handle.objects.named(model.PodGroup, *key)
        label = "" if group is None else group.topology_key
        if not label:
            table = handle.nodes
            return framework.Placements({"": np.flatnonzero(table.live.values[: table.n])})
        try:
            fixed = self._fixed(key, label)
        except PluginError as error:
            return framework.Placements(
                status=framework.Status(framework.Code.ERROR, (f"{UNKNOWN}: {error}",))
            )
        placements = by_value(handle.nodes, label)
        if fixed is not None:
            placements = {value: rows for value, rows in placements.items() if value == fixed}
        return framework.Placements(placements)

    def _fixed(self, key: model.GroupKey, label: str) -> str | None:
        """Return the value where pods of the group have nodes, None where none has.

        Raises PluginError if there is no such value, or more than one.
        """
        handle = self._handle
        table = handle.nodes
        codes = table.lookup(("label", label)).values
        values: set[str] = set()
        for uid, pod in handle.cache.groups.pods(key).items():
            node = handle.cache.node_of(uid)
            row = table.row_of.get(node)
            if row is None:
                text = f'nodeinfo not found for node name "{node}"'
                raise PluginError(f"getting node for pod {pod.key}: {text}")
            if not codes[row]:
                raise PluginError(f"no topology domain found for pod {pod.key}")
            values.add(table.strings.text(int(codes[row])))
        if len(values) > 1:
            text = ", ".join(sorted(values))
            raise PluginError(f"more than 1 domain found for pod group: {text}")
        return next(iter(values), None)


def by_value(table: NodeTable, label: str) -> dict[str, NDArray[np.intp]]:
    """Return the live rows of each value of a label, ascending; rows without it are left out."""
    codes = table.lookup(("label", label)).values[: table.n]
    rows = np.flatnonzero(table.live.values[: table.n] & (codes != 0))
    order = np.argsort(codes[rows], kind="stable")
    rows = rows[order]
    if not rows.size:
        return {}
    values, starts = np.unique(codes[rows], return_index=True)
    parts = np.split(rows, starts[1:])
    text = table.strings.text
    return {text(code): part for code, part in zip(values.tolist(), parts, strict=True)}


class PodGroupPodsCount:
    """Prefers the placement in which most pods of the group have nodes."""

    def __init__(self, _args: Mapping[str, object], handle: framework.Handle) -> None:
        self._handle = handle

    @framework.hookimpl
    def placement_score(self, pods: Sequence[model.PodInfo]) -> int:
        """Return how many pods of the group have nodes, those that would be here included."""
        pod = pods[0]
        return len(self._handle.cache.groups.pods((pod.namespace, pod.pod_group)))

    @framework.hookimpl
    def normalize_placement_score(self, scores: framework.Scores) -> framework.Scores:
        """Stretch the counts, so that the highest is 100."""
        most = int(scores.max())
        if most == 0:
            raise PluginError(NO_PODS_ASSIGNED)
        return scores * BEST // most


FULL: Final = 100
_NATIVE: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})


class NodeResourcesPlacement:
    """Scores a placement by the plugin's resources and their weights."""

    def __init__(self, args: Mapping[str, Any], handle: framework.Handle) -> None:
        strategy: Mapping[str, Any] = args.get("scoringStrategy") or {}
        resources = strategy.get("resources") or ({"name": "cpu"}, {"name": "memory"})
        self._weights = {
            str(resource["name"]): int(resource.get("weight") or 1) for resource in resources
        }
        self._handle = handle

    @framework.hookimpl
    def placement_score(self, placement: framework.Placement) -> int:
        """Return the mean share of the resources that is then requested, 0 to 100."""
        total = weights = 0
        for resource, weight in self._weights.items():
            requested, allocatable = self._sums(resource, placement)
            if allocatable:
                total += min(requested, allocatable) * FULL // allocatable * weight
                weights += weight
        return total // weights if weights else 0

    def _sums(self, resource: str, placement: framework.Placement) -> tuple[int, int]:
        """Return what is requested on the placement's nodes, the group included, and allocatable.

        The columns count the group's pods, as they are assumed; their own requests are those of
        their containers.
        """
        pods = [pod for pod, _ in placement.assigned]
        own = sum(_request(pod, resource) for pod in pods)
        if not own and resource not in _NATIVE:
            return 0, 0
        table, rows = self._handle.nodes, placement.rows
        counted = table.lookup(("nonZeroRequested", resource)).values[rows]
        allocatable = table.lookup(("allocatable", resource)).values[rows]
        added = sum(pod.non_zero_added.get(resource, 0) for pod in pods)
        requested = int(counted.sum(dtype=np.int64)) - added + own
        return requested, int(allocatable.sum(dtype=np.int64))


def _request(pod: model.PodInfo, resource: str) -> int:
    """Return what the pod's containers request, as scoring sees them."""
    return pod.non_zero_requests.get(resource, 0)
