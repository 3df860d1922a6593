"""Which events may help a pod that a policy rejected: derived from what its rules read.

Theory of operation. Every field that a rule can read is changed by events that are known, so an
author registers nothing. Where a node's verdict depends on nothing beyond that node, the hint is
the policy itself: it is evaluated again for the one node that changed. Otherwise
every such event is worth an attempt. A pod that may evict others is tried again by any change of
what runs on a node: where it still does not fit, evicting fewer than before may be enough now.
Most rules never accept a node because it got another pod; those that may register that event, too.
Rules that gate a pod read the pod and what it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import reduce
from operator import or_
from typing import Final

from msgspec.structs import replace

from policy_sched.cluster import InputChange
from policy_sched.cluster.tables import Scope
from policy_sched.language import CompiledPolicy, StatedEvents, Unit
from policy_sched.language.ir import Reads
from policy_sched.model import (
    ALL,
    ASSIGNED_POD_ADD,
    DEFAULT_NAMESPACE,
    DEVICE_CLASS_PREFIX,
    TIMER,
    UPDATE,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CoschedulingGroup,
    DeviceClass,
    EventResource,
    Hint,
    Namespace,
    Node,
    PodGroup,
    PodInfo,
    QueuedPod,
    QueueingHint,
    action_label,
)

#: What a rule reads of nodes to the change of a node that can change it (language.md 2.7);
#: fields that are not here have no change of their own.
_NODE_CHANGES: Final = {
    "name": ActionType(0),
    "creationTime": ActionType(0),
    "labels": ActionType.UPDATE_NODE_LABEL,
    "domain": ActionType.UPDATE_NODE_LABEL | ActionType.DELETE,
    "domainNodes": UPDATE | ActionType.DELETE,
    "taints": ActionType.UPDATE_NODE_TAINT,
    "unschedulable": ActionType.UPDATE_NODE_TAINT | ActionType.UPDATE_OTHER,
    "allocatable": ActionType.UPDATE_NODE_ALLOCATABLE,
    "free": ActionType.UPDATE_NODE_ALLOCATABLE,
    "nodes": ActionType.UPDATE_NODE_ALLOCATABLE | ActionType.DELETE,
    "cluster": ActionType.UPDATE_NODE_ALLOCATABLE | ActionType.DELETE,
    "annotations": ActionType.UPDATE_NODE_ANNOTATION,
    "conditions": ActionType.UPDATE_NODE_CONDITION,
    "ready": ActionType.UPDATE_NODE_CONDITION,
    "declaredFeatures": ActionType.UPDATE_NODE_DECLARED_FEATURE,
    "requested": ActionType(0),
    "nonZeroRequested": ActionType(0),
    "podCount": ActionType(0),
    "pods": ActionType(0),
    "usedPorts": ActionType(0),
    "aggregates": ActionType.UPDATE_NODE_LABEL | ActionType.DELETE,
    "quota": ActionType.UPDATE_NODE_ALLOCATABLE | ActionType.DELETE,
    "quotas": ActionType.UPDATE_NODE_ALLOCATABLE | ActionType.DELETE,
    "demand": ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE | ActionType.DELETE,
    "aggregatesOfNode": ActionType(0),
    "deviceResources": ActionType(0),
    "deviceAllocatable": ActionType.UPDATE_NODE_LABEL,
    "deviceRequested": ActionType.UPDATE_NODE_LABEL,
    "devices": ActionType.UPDATE_NODE_LABEL,
    "allocation": ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE,
    "input": ActionType(0),
    "object": UPDATE,
}
_GOES: Final = ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN
_COMES: Final = ActionType.ADD | ActionType.UPDATE_POD_LABEL
#: The same for bound pods.
_POD_CHANGES: Final = {
    "free": _GOES,
    "requested": _GOES,
    "nonZeroRequested": _GOES,
    "podCount": _GOES,
    "usedPorts": _GOES,
    "pods": _GOES | _COMES,
    "domain": _GOES | _COMES,
    "domainNodes": _GOES | _COMES,
    "cluster": _GOES | _COMES,
    "aggregates": _GOES | _COMES,
    "aggregatesOfNode": _GOES | _COMES,
    "quota": _GOES | ActionType.UPDATE_POD_LABEL,
    "quotas": _GOES | ActionType.UPDATE_POD_LABEL,
    "demand": _GOES | ActionType.UPDATE_POD_LABEL,
}
#: What of a waiting pod can change, as PodInfo has it.
_OWN_CHANGES: Final = {
    "labels": ActionType.UPDATE_POD_LABEL,
    "tolerations": ActionType.UPDATE_POD_TOLERATION,
    "requests": ActionType.UPDATE_POD_SCALE_DOWN,
    "non_zero_requests": ActionType.UPDATE_POD_SCALE_DOWN,
    "scheduling_gates": (
        ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED | ActionType.UPDATE_OTHER
    ),
    "annotations": ActionType.UPDATE_OTHER,
    "node_selector": ActionType.UPDATE_OTHER,
    "node_affinity": ActionType.UPDATE_OTHER,
    "nominated_node_name": ActionType.UPDATE_OTHER,
    "object": UPDATE,
}
_DEVICE_CLASS: Final = ClusterEvent(
    EventResource.DEVICE_CLASS, ActionType.ADD | ActionType.UPDATE_OTHER
)
_DEVICES: Final = (
    ClusterEvent(EventResource.RESOURCE_SLICE, ALL),
    ClusterEvent(EventResource.RESOURCE_CLAIM, ALL),
    _DEVICE_CLASS,
)
_WAITING_POD: Final = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ALL)
_INPUT: Final = ClusterEvent(EventResource.INPUT, ALL)
_NAMESPACE: Final = ClusterEvent(EventResource.NAMESPACE, ActionType.ADD | UPDATE)
#: Events that change the counts of a group, other than its pods that wait for Permit.
_OF_A_GROUP: Final = (
    ClusterEvent(EventResource.POD_GROUP, ALL),
    ClusterEvent(
        EventResource.POD, ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL
    ),
)

_KINDS: Final = {
    resource.value.rpartition("/")[2]: resource
    for resource in EventResource
    if resource
    not in (*(EventResource.WILDCARD, EventResource.ASSIGNED_POD, EventResource.UNSCHEDULABLE_POD),)
}
"""Kinds of objects by the names that policies call them."""
_ACTION_OF: Final = {**{action_label(action): action for action in ActionType}, "Update": UPDATE}
_ACTIONS: Final = ("Add", "Delete", "Update")
_WHOLE: Final = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_OTHER
_PARTED: Final = {
    kind: reduce(or_, (a for a in ActionType if f"_{kind.upper()}_" in str(a.name)), _WHOLE)
    for kind in ("Node", "Pod")
}
"""What happens to objects whose updates are parted; of others an update is one event."""

Helps = Callable[[PodInfo, str], bool]
"""Return whether a policy has nothing against a pod on the node of that name, as it is now."""
Trees = Callable[[PodInfo], tuple[Hashable, ...]]
"""Return the tree of quotas that a pod counts in, for each entry of the policy's; None: in none."""
Alike = Callable[[PodInfo], Hashable]
"""Return a key of pods that `Helps` and `MayEvict` do not distinguish."""
MayEvict = Callable[[PodInfo], bool]
"""Return whether there are pods that a pod could evict."""
OwnHint = Callable[[Unit, str, str], ClusterEventWithHint]
"""From a hint, the kind of an object and what was done to it to an event with that hint."""


def events_of(  # noqa: PLR0913 - each answers another question about the policy's pods
    policy: CompiledPolicy,
    helps: Helps,
    own_hint: OwnHint,
    may_evict: MayEvict,
    alike: Alike,
    *,
    trees: Trees,
    moment: Callable[[QueuedPod], int],
) -> tuple[ClusterEventWithHint, ...]:
    """Return the events that may help a pod which the policy rejected or gated.

    Without events of its own a policy with its own hint is evaluated for every event. ``moment``:
    when the time itself may help a pod; see `ClusterEventWithHint`.
    """
    life = policy.life
    if life.events is not None:
        events = _stated(life.events, own_hint)
    elif life.hint is not None:
        events = _stated([StatedEvents(kind, _ACTIONS, life.hint) for kind in _KINDS], own_hint)
    else:
        events = _events(policy, helps, may_evict, alike, trees)
    timer = (ClusterEventWithHint(TIMER, every=life.every),) if life.every else ()
    timed = (ClusterEventWithHint(TIMER, moment=moment),) if policy.sections.moments else ()
    return (*events, *timer, *timed)


def _stated(events: Iterable[StatedEvents], own_hint: OwnHint) -> Iterator[ClusterEventWithHint]:
    """Yield the events that a policy states, each action with the hint about it."""
    for entry in events:
        resource, parted = _KINDS[entry.kind], _PARTED.get(entry.kind)
        stated = reduce(or_, (_ACTION_OF[action] for action in entry.actions))
        if entry.hint is None:
            yield ClusterEventWithHint(ClusterEvent(resource, stated))
            continue
        actions = list(stated & parted) if parted else [_ACTION_OF[name] for name in entry.actions]
        for action in actions:
            hinted = own_hint(entry.hint, entry.kind, action_label(action))
            yield replace(hinted, event=ClusterEvent(resource, action))


def _events(
    policy: CompiledPolicy, helps: Helps, may_evict: MayEvict, alike: Alike, trees: Trees
) -> Iterator[ClusterEventWithHint]:
    veto = policy.veto_reads
    reads = policy.rejecting_reads | veto
    sections = policy.sections
    rejects = sections.filter is not None or sections.node_names is not None
    rejects = rejects or policy.pre_filter_reads_pods
    if rejects or veto.node or policy.gate_reads.node:
        alone = reads.scope <= Scope.NODE and not veto.node and "nodes" not in reads.node
        change = ActionType.ADD
        pods = ActionType(0)
        for field in reads.node | policy.gate_reads.node:
            change |= _NODE_CHANGES.get(field, ActionType.UPDATE_OTHER)
            pods |= _POD_CHANGES.get(field, ActionType(0))
        alone = alone and not policy.gate_reads.node
        hint = _asks_again(helps, may_evict if pods else _evicts_none) if alone else None
        yield ClusterEventWithHint(ClusterEvent(EventResource.NODE, change), hint, alike=alike)
        if pods:
            event = ClusterEvent(EventResource.ASSIGNED_POD, pods)
            if {f for f in reads.node | policy.gate_reads.node if f in _POD_CHANGES} == {"quota"}:
                yield ClusterEventWithHint(event, _in_its_tree(trees), alike=trees)
            else:
                yield ClusterEventWithHint(event, hint, alike=alike)
        if policy.passes_with_more_pods and not pods & ActionType.ADD:
            hint = _asks_again(helps, _evicts_none) if alone else None
            yield ClusterEventWithHint(ASSIGNED_POD_ADD, hint, alike=alike)
    waiting = any({"queued", "gated"} & {*aggregate.sources} for aggregate in sections.aggregates)
    read = reads.node | policy.gate_reads.node
    if (waiting and "aggregates" in read) or "demand" in read:
        yield ClusterEventWithHint(_WAITING_POD)
    if policy.sections.inputs:
        yield ClusterEventWithHint(_INPUT, _of_inputs(policy, reads, helps, may_evict), alike=alike)
    if {"deviceAllocatable", "deviceRequested", "devices", "allocation"} & reads.node:
        yield from (ClusterEventWithHint(event) for event in _DEVICES)
    if "deviceResources" in reads.node:
        yield ClusterEventWithHint(_DEVICE_CLASS, _serves_the_pod)
    yield from _of_domains(policy)
    own = ActionType(0)
    belongs = set()
    for path in reads.pod | policy.gate_reads.pod:
        own |= _OWN_CHANGES.get(path[0], ActionType(0))
        belongs.add(path[0])
    if own:
        event = ClusterEvent(EventResource.UNSCHEDULABLE_POD, own)
        fields = tuple(sorted(field for field in belongs if field in _OWN_CHANGES))
        yield ClusterEventWithHint(event, _changes_the_pod(fields))
    if "namespaceObject" in belongs:
        yield ClusterEventWithHint(_NAMESPACE, _is_its_namespace)
    if "podGroup" in belongs:
        yield from (ClusterEventWithHint(event, _is_of_its_group) for event in _OF_A_GROUP)


def events_of_devices(reads: Reads) -> Iterator[ClusterEventWithHint]:
    """Yield what can make rules over devices allow one, besides changes of claims and slices."""
    change, pods, own = ActionType(0), ActionType(0), ActionType(0)
    for field in reads.node:
        change |= _NODE_CHANGES.get(field, ActionType.UPDATE_OTHER)
        pods |= _POD_CHANGES.get(field, ActionType(0))
    if change:
        yield ClusterEventWithHint(ClusterEvent(EventResource.NODE, change))
    if pods:
        yield ClusterEventWithHint(ClusterEvent(EventResource.ASSIGNED_POD, pods))
    fields = {path[0] for path in reads.pod}
    for field in fields:
        own |= _OWN_CHANGES.get(field, ActionType(0))
    if own:
        event = ClusterEvent(EventResource.UNSCHEDULABLE_POD, own)
        named = tuple(sorted(field for field in fields if field in _OWN_CHANGES))
        yield ClusterEventWithHint(event, _changes_the_pod(named))
    if "namespaceObject" in fields:
        yield ClusterEventWithHint(_NAMESPACE, _is_its_namespace)


def _of_domains(policy: CompiledPolicy) -> Iterator[ClusterEventWithHint]:
    """Yield what parts the nodes anew, or changes the group.

    Room that becomes free in a domain concerns the plugins that found none there.
    """
    reads = policy.domain_reads
    if reads is None:
        return
    change, pods = ActionType.ADD, ActionType(0)
    for field in reads.node:
        change |= _NODE_CHANGES.get(field, ActionType.UPDATE_OTHER)
        pods |= _POD_CHANGES.get(field, ActionType(0))
    yield ClusterEventWithHint(ClusterEvent(EventResource.NODE, change))
    if pods:
        yield ClusterEventWithHint(ClusterEvent(EventResource.ASSIGNED_POD, pods))
    yield from (ClusterEventWithHint(event, _is_of_its_group) for event in _OF_A_GROUP)


def _of_inputs(policy: CompiledPolicy, reads: Reads, helps: Helps, may_evict: MayEvict) -> Hint:
    """Return the hint about objects of inputs: where one has a node's name, that node is asked."""
    own = {given.identity for given in policy.sections.inputs}
    everywhere = reads.inputs | policy.gate_reads.inputs
    if reads.node & {"aggregates", "aggregatesOfNode"}:
        everywhere |= policy.inputs_of_aggregates
    if reads.scope > Scope.NODE or policy.veto_reads.node:
        everywhere = frozenset(own)
    pods = any(field in _POD_CHANGES for field in reads.node)

    def hint(pod: PodInfo, old: object, new: object) -> QueueingHint:
        changes = [change.keys for change in (old, new) if isinstance(change, InputChange)]
        keys = {(name, key) for keys in changes for name, key in keys.items() if name in own}
        if any(name in everywhere for name, _ in keys) or (keys and pods and may_evict(pod)):
            return QueueingHint.QUEUE
        nodes = {key for _, key in keys if key is not None}
        return QueueingHint.queue_if(any(helps(pod, node) for node in nodes))

    return hint


def _in_its_tree(trees: Trees) -> Hint:
    """Return the hint that queues a pod if one of its tree of quotas uses less."""

    def hint(pod: PodInfo, old: object, new: object) -> QueueingHint:
        own = trees(pod)
        return QueueingHint.queue_if(
            any(
                tree is not None and tree == other
                for changed in (old, new)
                if isinstance(changed, PodInfo)
                for tree, other in zip(own, trees(changed), strict=True)
            )
        )

    return hint


def _evicts_none(_pod: PodInfo) -> bool:
    """Evictions change nothing that the policy reads."""
    return False


def _asks_again(helps: Helps, may_evict: MayEvict) -> Hint:
    """Return the hint that evaluates the policy on the node that changed."""

    def hint(pod: PodInfo, old: object, new: object) -> QueueingHint:
        if may_evict(pod):
            return QueueingHint.QUEUE
        changed = old if new is None else new
        if isinstance(changed, Node):
            node = changed.metadata.name
        elif isinstance(changed, PodInfo):
            node = changed.node_name
        else:
            return QueueingHint.QUEUE
        return QueueingHint.QUEUE if helps(pod, node) else QueueingHint.SKIP

    return hint


def _changes_the_pod(fields: tuple[str, ...]) -> Hint:
    """Return the hint that queues a pod if one of its fields changed that the rules read."""

    def hint(pod: PodInfo, old: object, new: object) -> QueueingHint:
        if not isinstance(new, PodInfo) or new.uid != pod.uid:
            return QueueingHint.SKIP
        same = isinstance(old, PodInfo) and all(
            getattr(old, field) == getattr(new, field) for field in fields
        )
        return QueueingHint.SKIP if same else QueueingHint.QUEUE

    return hint


def _serves_the_pod(pod: PodInfo, old: object, new: object) -> QueueingHint:
    """Queue if a device class serves a resource now that the pod requests."""
    served = newly_served(old, new)
    return QueueingHint.QUEUE if any(r in pod.requests for r in served) else QueueingHint.SKIP


def newly_served(old: object, new: object) -> tuple[str, ...]:
    """Return the extended resources that a device class serves now, and did not before."""
    if not isinstance(new, DeviceClass):
        return ()
    named = new.spec.extended_resource_name
    if isinstance(old, DeviceClass):
        return (named,) if named and named != old.spec.extended_resource_name else ()
    by_name = DEVICE_CLASS_PREFIX + new.metadata.name
    return (by_name, named) if named else (by_name,)


def _is_its_namespace(pod: PodInfo, old: object, new: object) -> QueueingHint:
    """Queue if the pod's namespace came, or got other labels or annotations."""
    if not isinstance(new, Namespace) or new.metadata.name != pod.namespace:
        return QueueingHint.SKIP
    same = (
        isinstance(old, Namespace)
        and old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
    )
    return QueueingHint.SKIP if same else QueueingHint.QUEUE


def _is_of_its_group(pod: PodInfo, old: object, new: object) -> QueueingHint:
    """Queue for the pod's own group: another pod of it, or the object that describes it.

    A change of only a group's status is no event.
    """
    kinds = PodGroup | CoschedulingGroup
    if isinstance(old, kinds) and isinstance(new, kinds) and old.spec == new.spec:
        return QueueingHint.SKIP
    key = (pod.namespace, pod.pod_group)
    for changed in (old, new):
        if isinstance(changed, PodInfo) and changed.uid != pod.uid:
            other = (changed.namespace, changed.pod_group)
        elif isinstance(changed, PodGroup | CoschedulingGroup):
            other = (changed.metadata.namespace or DEFAULT_NAMESPACE, changed.metadata.name)
        else:
            continue
        if pod.pod_group and other == key:
            return QueueingHint.QUEUE
    return QueueingHint.SKIP
