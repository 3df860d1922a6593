"""GangScheduling: pods of a gang enter the queue and are bound only when there are enough of them.

PreEnqueue waits for the PodGroup and for as many pods as it needs; Permit holds the pods that have
nodes until as many of them do. The group cycle tries a whole group before any of that is done, so
that pods wait here only while their siblings are on their way.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Final

from policy_sched import framework, model

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
                for waiting in reversed(tuple(handle.waiting_pods.of_group(key).values())):
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
