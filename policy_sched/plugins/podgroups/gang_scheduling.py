"""GangScheduling: pods of a gang enter the queue and are bound only when there are enough of them.

PreEnqueue waits for the PodGroup and for as many pods as it needs; Permit holds the pods that have
nodes until as many of them do. The group cycle tries a whole group before any of that is done, so
that pods wait here only while their siblings are on their way.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Final

from policy_sched.framework import (
    SUCCESS,
    Code,
    CycleState,
    DryRunMarker,
    Gate,
    Handle,
    PermitResult,
    PodsToActivate,
    Scope,
    Signature,
    Status,
    hookimpl,
)
from policy_sched.model import (
    DEFAULT_NAMESPACE,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    PodGroup,
    PodInfo,
    QueueingHint,
)

NAME: Final = "GangScheduling"
#: How long a pod waits for its siblings, in seconds.
TIMEOUT: Final = 5 * 60.0
MISSING: Final = 'waiting for pods\'s pod group "{}" to appear in scheduling queue'
TOO_FEW: Final = "waiting for minCount pods from a gang to appear in scheduling queue"
WAITING: Final = Status(Code.WAIT, ("waiting for minCount pods from a gang to be scheduled",))

_ENOUGH: Final = PermitResult()


class GangScheduling:
    """Holds the pods of a gang until there are as many as it needs."""

    def __init__(self, _args: Mapping[str, object], handle: Handle) -> None:
        self._handle = handle

    @hookimpl
    def sign_pod(self) -> Signature:
        """Only pods of a group can be gated."""
        fields = frozenset({("pod_group",)})
        gate = Gate(attrgetter("pod_group"), fields, by_group=True)
        return Signature(frozenset(), Scope.STATIC, gate=gate)

    @hookimpl
    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Gate a pod whose PodGroup is missing, or whose gang has too few pods."""
        name = group_name(pod)
        if not name:
            return SUCCESS
        group = self._handle.objects.named(PodGroup, pod.namespace, name)
        if group is None:
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (MISSING.format(name),))
        if group.min_count and self._handle.groups.counts(pod).members < group.min_count:
            return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (TOO_FEW,))
        return SUCCESS

    @hookimpl
    def permit(self, state: CycleState, pod: PodInfo) -> PermitResult:
        """Wait until enough pods of the gang have nodes; the pod that makes it so releases all."""
        name = group_name(pod)
        if not name:
            return _ENOUGH
        handle, key = self._handle, (pod.namespace, name)
        group = handle.objects.named(PodGroup, *key)
        if group is None:
            text = f'failed to get podGroup {pod.namespace}/{name}: podgroup "{name}" not found'
            return PermitResult(Status(Code.ERROR, (text,)))
        if not group.min_count:
            return _ENOUGH
        tried = state.read(DryRunMarker) is not None
        if len(handle.cache.groups.pods(key)) >= group.min_count:
            if not tried:
                for waiting in reversed(tuple(handle.waiting_pods.of_group(key).values())):
                    if NAME not in waiting.pending_plugins:
                        break  # so it was allowed, as were those that have waited for longer
                    waiting.allow(NAME)
            return _ENOUGH
        if not tried:
            state.write(PodsToActivate(groups={key}))
        return PermitResult(WAITING, TIMEOUT)

    @hookimpl
    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        """Retry a pod when a pod of its group or its PodGroup comes."""
        pods = ClusterEvent(EventResource.POD, ActionType.ADD)
        groups = ClusterEvent(EventResource.POD_GROUP, ActionType.ADD)
        return ClusterEventWithHint(pods, _sibling_came), ClusterEventWithHint(groups, _group_came)


def group_name(pod: PodInfo) -> str:
    """Return the group in a pod's ``spec.schedulingGroup``, or an empty string.

    The label of the coscheduling plugin names no group here.
    """
    group = pod.pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name


def _sibling_came(pod: PodInfo, _old: object, new: object) -> QueueingHint:
    same = (
        isinstance(new, PodInfo)
        and new.namespace == pod.namespace
        and group_name(new) == group_name(pod) != ""
    )
    return QueueingHint.QUEUE if same else QueueingHint.SKIP


def _group_came(pod: PodInfo, _old: object, new: object) -> QueueingHint:
    same = (
        isinstance(new, PodGroup)
        and (new.metadata.namespace or DEFAULT_NAMESPACE) == pod.namespace
        and new.metadata.name == group_name(pod)
    )
    return QueueingHint.QUEUE if same else QueueingHint.SKIP
