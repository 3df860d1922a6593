"""Event handlers of the watches: they update the cache first and then the queue.

The cache is updated first, so that pods requeued by an event see the cluster after it. A pod that
another scheduler bound leaves the queue; one that this scheduler bound has left it already. Each
handler returns the cluster events it raised, none for changes that no plugin can register for.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec.structs import replace

from policy_sched import model
from policy_sched.cluster import InputChange, PodState
from policy_sched.manifests import with_claims
from policy_sched.plugins.rules import inputs_of
from policy_sched.queue import node_changes, pod_changes
from policy_sched.scheduler.scheduler import Scheduler

ClusterChange: TypeAlias = tuple[model.ClusterEvent, ...]
_NODE_DELETE: Final = model.ClusterEvent(model.EventResource.NODE, model.ActionType.DELETE)
_POD_UPDATE: Final = model.ClusterEvent(model.EventResource.UNSCHEDULABLE_POD, model.UPDATE)
_POD_DELETE: Final = model.ClusterEvent(
    model.EventResource.UNSCHEDULABLE_POD, model.ActionType.DELETE
)
_NOTHING: Final[ClusterChange] = ()
_ASSIGNED_POD_DELETED: Final[ClusterChange] = (model.ASSIGNED_POD_DELETE,)
_RESOURCES: Final[dict[type[model.ApiObject], model.EventResource]] = {
    model.Namespace: model.EventResource.NAMESPACE,
    model.PersistentVolume: model.EventResource.PERSISTENT_VOLUME,
    model.PersistentVolumeClaim: model.EventResource.PERSISTENT_VOLUME_CLAIM,
    model.StorageClass: model.EventResource.STORAGE_CLASS,
    model.CsiNode: model.EventResource.CSI_NODE,
    model.CsiDriver: model.EventResource.CSI_DRIVER,
    model.VolumeAttachment: model.EventResource.VOLUME_ATTACHMENT,
    model.ResourceClaim: model.EventResource.RESOURCE_CLAIM,
    model.ResourceSlice: model.EventResource.RESOURCE_SLICE,
    model.DeviceClass: model.EventResource.DEVICE_CLASS,
    model.CsiStorageCapacity: model.EventResource.CSI_STORAGE_CAPACITY,
    model.PodGroup: model.EventResource.POD_GROUP,
    model.CoschedulingGroup: model.EventResource.POD_GROUP,
}
"""The kinds whose changes a plugin can wait for; others are only looked up."""


def object_changed(
    scheduler: Scheduler, old: model.ApiObject | None, new: model.ApiObject | None
) -> ClusterChange:
    """Hand a change of any kind to its handler.

    ``old`` is None for an object that came, ``new`` for one that was deleted.
    """
    changed = old if new is None else new
    if isinstance(changed, model.Pod):
        if new is None:
            return pod_gone(scheduler, model.PodInfo.of(changed))
        bound = scheduler.cache.confirm_binding(changed)  # a short way, which most changes take
        if bound is None:
            return pod_seen(scheduler, model.PodInfo.of(changed))
        return _placed(scheduler, bound)
    if isinstance(changed, model.Node):
        return node_gone(scheduler, changed) if new is None else node_seen(scheduler, changed)
    if new is not None:
        return object_seen(scheduler, old, new)
    return _NOTHING if old is None else object_gone(scheduler, old)


def node_seen(scheduler: Scheduler, node: model.Node) -> ClusterChange:
    """Handle an added or updated node."""
    table = scheduler.cache.nodes
    row = table.row_of.get(node.metadata.name)
    old = None if row is None else table.nodes[row]
    scheduler.cache.add_node(node)
    if old is None:
        scheduler.queue.move_all_to_active_or_backoff(model.NODE_ADD, None, node)
        return (model.NODE_ADD,)
    events = node_changes(old, node)
    for event in events:
        scheduler.queue.move_all_to_active_or_backoff(event, old, node)
    return events


def node_gone(scheduler: Scheduler, node: model.Node) -> ClusterChange:
    """Handle a deleted node."""
    scheduler.cache.remove_node(node)
    scheduler.queue.move_all_to_active_or_backoff(_NODE_DELETE, node, None)
    return (_NODE_DELETE,)


def pod_seen(scheduler: Scheduler, pod: model.PodInfo) -> ClusterChange:
    """A pod came or changed; it has a node, or waits for one.

    A pod of another scheduler is passed over, one whose profile is gone is not.
    """
    if not pod.node_name:
        if scheduler.cache.state(pod.uid) is PodState.ADDED:
            return (*pod_gone(scheduler, pod), *pod_seen(scheduler, pod))  # etcd was restored
        queued = scheduler.queue.get(pod.uid) is not None
        if not queued and pod.scheduler_name not in scheduler.profiles:
            return _NOTHING
        scheduler.update_pod(pod)
        if not queued and scheduler.cache.nodes.aggregates.used:  # of pods that wait, perhaps
            queue, event = scheduler.queue, model.UNSCHEDULED_POD_ADD
            queue.move_all_to_active_or_backoff(event, None, pod, except_uid=pod.uid)
        return (_POD_UPDATE,) if queued else (model.UNSCHEDULED_POD_ADD,)
    cache = scheduler.cache
    before = cache.pod(pod.uid)
    assumed = cache.is_assumed(pod.uid)
    if before is None or assumed:
        moved = assumed and cache.node_of(pod.uid) != pod.node_name
        cache.add_pod(pod)
        events = _placed(scheduler, pod)
        if not moved:
            return events
        # Another scheduler bound the pod elsewhere: the node it was assumed on has room again.
        scheduler.queue.move_all_to_active_or_backoff(model.ASSIGNED_POD_DELETE, before, None)
        return (*events, model.ASSIGNED_POD_DELETE)
    cache.update_pod(pod)
    events = pod_changes(before, pod)
    for event in events:
        scheduler.queue.move_all_to_active_or_backoff(event, before, pod)
    return events


def _placed(scheduler: Scheduler, pod: model.PodInfo) -> ClusterChange:
    """A pod of the cache has a node: it waits for none, and others may wait for it."""
    scheduler.delete_pod(pod.uid)
    scheduler.queue.move_all_to_active_or_backoff(model.ASSIGNED_POD_ADD, None, pod)
    return (model.ASSIGNED_POD_ADD,)


def pod_runs(scheduler: Scheduler, pod: model.PodInfo) -> None:
    """A pod that this scheduler bound runs on its node, and nothing else of it changed.

    It does what `pod_seen` does then, in a cluster whose only scheduler this is.
    """
    scheduler.cache.confirm(pod)
    if pod.pod_group:
        scheduler.handle.groups.gone(pod.uid)
    scheduler.queue.move_all_to_active_or_backoff(model.ASSIGNED_POD_ADD, None, pod)


def pod_ended(scheduler: Scheduler, pod: model.PodInfo) -> None:
    """A pod that runs, as `pod_runs` or `pod_seen` took it in the last time, has ended.

    It does what `pod_gone` does for such a pod: it waits for nothing.
    """
    scheduler.cache.remove_pod(pod)
    if pod.pod_group:
        scheduler.handle.groups.gone(pod.uid)
        scheduler.handle.groups.left(pod)
    scheduler.queue.move_all_to_active_or_backoff(model.ASSIGNED_POD_DELETE, pod, None)


def pod_gone(scheduler: Scheduler, pod: model.PodInfo) -> ClusterChange:
    """A pod was deleted, or has ended; ``pod`` may be an older form of it.

    A pod that is assumed and was never bound is taken back by its attempt, if that ends now; if the
    cluster has been requested to bind it, its node does not wait for the response.
    """
    cache = scheduler.cache
    waited = scheduler.queue.get(pod.uid) is not None
    state = cache.state(pod.uid)
    running = cache.pod(pod.uid) if state is PodState.ADDED and not waited else None
    if running is not None and pod.uid not in scheduler.handle.nominator.node_by_uid:
        pod_ended(scheduler, running)
        return _ASSIGNED_POD_DELETED
    unbound = state is PodState.ASSUMED and not pod.node_name
    given_up = scheduler.delete_pod(pod.uid)
    if not (unbound and given_up):
        scheduler.release(pod.uid)
    if pod.pod_group:
        scheduler.handle.groups.left(pod)
    if unbound or state is PodState.INITIAL:
        if waited and cache.nodes.aggregates.used:  # as above
            scheduler.queue.move_all_to_active_or_backoff(_POD_DELETE, pod, None)
        return (_POD_DELETE,) if waited else _NOTHING
    return _ASSIGNED_POD_DELETED


def object_seen(
    scheduler: Scheduler, old: model.ApiObject | None, new: model.ApiObject
) -> ClusterChange:
    """An object that is neither node nor pod came (``old`` is None) or changed."""
    before = None
    if scheduler.cache.nodes.inputs:  # claims change with each pod: without inputs, no call
        before = scheduler.handle.shared(inputs_of).keys_of(new)
    if isinstance(new, model.Namespace):
        scheduler.cache.set_namespace(new)
    else:
        scheduler.handle.objects.put(new)
    action = model.ActionType.ADD if old is None else model.UPDATE
    events = _broadcast(scheduler, type(new), action, (old, new))
    if before is None:
        return events
    after = scheduler.handle.shared(inputs_of).keys_of(new)
    return (*events, _tell_input(scheduler, action, before, after))


def object_gone(scheduler: Scheduler, old: model.ApiObject) -> ClusterChange:
    """An object that is neither node nor pod was deleted."""
    before = None
    if scheduler.cache.nodes.inputs:  # as above
        before = scheduler.handle.shared(inputs_of).keys_of(old)
    if isinstance(old, model.Namespace):
        scheduler.cache.remove_namespace(old.metadata.name)
    else:
        scheduler.handle.objects.remove(old)
    action = model.ActionType.DELETE
    events = _broadcast(scheduler, type(old), action, (old, None))
    return events if before is None else (*events, _tell_input(scheduler, action, before, None))


def _tell_input(
    scheduler: Scheduler, action: model.ActionType, before: InputChange, after: InputChange | None
) -> model.ClusterEvent:
    """Tell the queue of an object that inputs of policies read."""
    event = model.ClusterEvent(model.EventResource.INPUT, action)
    scheduler.queue.move_all_to_active_or_backoff(event, before, after)
    return event


def _broadcast(
    scheduler: Scheduler,
    kind: type[model.ApiObject],
    action: model.ActionType,
    objects: tuple[object, object],
) -> ClusterChange:
    resource = _RESOURCES.get(kind)
    if resource is None:  # of a kind that rules read more of, perhaps
        resource = next((_RESOURCES[base] for base in kind.__mro__ if base in _RESOURCES), None)
    if resource is None:
        return _NOTHING
    event = model.ClusterEvent(resource, action)
    scheduler.queue.move_all_to_active_or_backoff(event, *objects)
    return (event,)


def make_claims(scheduler: Scheduler, pod: model.Pod) -> model.Pod:
    """Make the claims of a pod that comes, where templates call for some; return the pod."""
    if not pod.spec.resource_claims:
        return pod
    templates = scheduler.handle.objects.of(model.ResourceClaimTemplate)
    for created in with_claims([*templates, pod]):
        if isinstance(created, model.ResourceClaim):
            object_seen(scheduler, None, created)
        elif isinstance(created, model.Pod):
            pod = created
    return pod


def free_claims(scheduler: Scheduler, pod: model.PodInfo) -> None:
    """Give back what a pod that has ended used: its own claims go, shared ones lose a consumer."""
    for claim in scheduler.handle.objects.of(model.ResourceClaim):
        status = claim.status
        left = tuple(reference for reference in status.reserved_for if reference.uid != pod.uid)
        if len(left) == len(status.reserved_for):
            continue
        changed = replace(status, reserved_for=left) if left else model.ResourceClaimStatus()
        freed = replace(claim, status=changed)
        object_seen(scheduler, claim, freed)
        owners = claim.metadata.owner_references
        if any(owner.controller and owner.uid == pod.uid for owner in owners):
            object_gone(scheduler, freed)
