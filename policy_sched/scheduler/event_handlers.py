"""Event handlers of the watches: they update the cache first and then the queue.

The cache is updated first, so that pods requeued by an event see the cluster after it. A pod that
another scheduler bound leaves the queue; one that this scheduler bound has left it already. Each
handler returns the cluster events it raised, none for changes that no plugin can register for.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec.structs import replace

from policy_sched import model
from policy_sched.cluster import InputChange, Inputs, PodState
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
_ADD, _UPDATE, _DELETE = range(3)


def _events_of(resource: model.EventResource) -> ClusterChange:
    """Return the events of a kind by what happened: `_ADD`, `_UPDATE` or `_DELETE`."""
    actions = model.ActionType.ADD, model.UPDATE, model.ActionType.DELETE
    return tuple(model.ClusterEvent(resource, action) for action in actions)


_OF_INPUTS: Final = _events_of(model.EventResource.INPUT)
_EVENTS: Final[dict[type[model.ApiObject], ClusterChange]] = {
    model.Namespace: _events_of(model.EventResource.NAMESPACE),
    model.PersistentVolume: _events_of(model.EventResource.PERSISTENT_VOLUME),
    model.PersistentVolumeClaim: _events_of(model.EventResource.PERSISTENT_VOLUME_CLAIM),
    model.StorageClass: _events_of(model.EventResource.STORAGE_CLASS),
    model.CsiNode: _events_of(model.EventResource.CSI_NODE),
    model.CsiDriver: _events_of(model.EventResource.CSI_DRIVER),
    model.VolumeAttachment: _events_of(model.EventResource.VOLUME_ATTACHMENT),
    model.ResourceClaim: _events_of(model.EventResource.RESOURCE_CLAIM),
    model.ResourceSlice: _events_of(model.EventResource.RESOURCE_SLICE),
    model.DeviceClass: _events_of(model.EventResource.DEVICE_CLASS),
    model.CsiStorageCapacity: _events_of(model.EventResource.CSI_STORAGE_CAPACITY),
    model.PodGroup: _events_of(model.EventResource.POD_GROUP),
    model.CoschedulingGroup: _events_of(model.EventResource.POD_GROUP),
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
    # Claims change with each pod: without inputs, no call.
    inputs = _reading(scheduler, new) if scheduler.cache.nodes.inputs else None
    before = inputs.keys_of(new) if inputs is not None and scheduler.queue.listens else None
    if isinstance(new, model.Namespace):
        scheduler.cache.set_namespace(new)
    else:
        scheduler.handle.objects.put(new)
    action = _ADD if old is None else _UPDATE
    events = _told(scheduler, new, action, (old, new))
    if inputs is None:
        return events
    after = None if before is None else inputs.keys_of(new)
    return (*events, _told_of_inputs(scheduler, action, before, after))


def object_gone(scheduler: Scheduler, old: model.ApiObject) -> ClusterChange:
    """An object that is neither node nor pod was deleted."""
    inputs = _reading(scheduler, old) if scheduler.cache.nodes.inputs else None  # as above
    before = inputs.keys_of(old) if inputs is not None and scheduler.queue.listens else None
    if isinstance(old, model.Namespace):
        scheduler.cache.remove_namespace(old.metadata.name)
    else:
        scheduler.handle.objects.remove(old)
    events = _told(scheduler, old, _DELETE, (old, None))
    if inputs is None:
        return events
    return (*events, _told_of_inputs(scheduler, _DELETE, before, None))


def _reading(scheduler: Scheduler, item: model.ApiObject) -> Inputs | None:
    """Return the inputs if one of them reads the kind of an object."""
    inputs = scheduler.handle.shared(inputs_of)
    return inputs if inputs.read(item) else None


def _told_of_inputs(
    scheduler: Scheduler, action: int, before: InputChange | None, after: InputChange | None
) -> model.ClusterEvent:
    """Tell the queue of an object that inputs read; ``before`` is None where it does not listen."""
    event = _OF_INPUTS[action]
    if before is not None:
        scheduler.queue.move_all_to_active_or_backoff(event, before, after)
    return event


def _told(
    scheduler: Scheduler, item: model.ApiObject, action: int, objects: tuple[object, object]
) -> ClusterChange:
    """Tell the queue of a change, if plugins can wait for changes of the kind."""
    events = _EVENTS.get(model.struct_of(item))
    if events is None:
        return _NOTHING
    event = events[action]
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
