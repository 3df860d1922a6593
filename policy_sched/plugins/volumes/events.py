"""Events that can make a pod schedulable that a volume plugin rejected, with queueing hints."""

from __future__ import annotations

from typing import Final

from policy_sched import model
from policy_sched.plugins.volumes.listers import namespace_of, waits_for_pod
from policy_sched.plugins.volumes.migration import IN_TREE, MIGRATED_PLUGINS
from policy_sched.plugins.volumes.storage_view import largest_volume, pods_conflict, topologies_of

QUEUE: Final = model.QueueingHint.QUEUE
SKIP: Final = model.QueueingHint.SKIP


def _hint(matters: bool) -> model.QueueingHint:
    return QUEUE if matters else SKIP


def _own_claim(pod: model.PodInfo, _old: object, new: object) -> model.QueueingHint:
    """Queue if a claim of the pod, ephemeral ones included, was added or changed."""
    if not isinstance(new, model.PersistentVolumeClaim) or pod.volumes is None:
        return SKIP
    names = {use.name for use in pod.volumes.claims}
    return _hint(namespace_of(new) == pod.volumes.namespace and new.metadata.name in names)


def _named_claim(pod: model.PodInfo, _old: object, new: object) -> model.QueueingHint:
    """Queue if a claim that the pod names was added or changed."""
    if not isinstance(new, model.PersistentVolumeClaim) or pod.volumes is None:
        return SKIP
    names = {use.name for use in pod.volumes.claims if not use.ephemeral}
    return _hint(namespace_of(new) == pod.volumes.namespace and new.metadata.name in names)


def _class_allows_more(_pod: model.PodInfo, old: object, new: object) -> model.QueueingHint:
    """Queue if a class was added, or allows other nodes than before."""
    if not isinstance(old, model.StorageClass) or not isinstance(new, model.StorageClass):
        return QUEUE
    return _hint(old.allowed_topologies != new.allowed_topologies)


def _class_waits(_pod: model.PodInfo, _old: object, new: object) -> model.QueueingHint:
    """Queue if a class was added whose claims are bound with their pod."""
    return _hint(isinstance(new, model.StorageClass) and waits_for_pod(new))


def _migration(_pod: model.PodInfo, old: object, new: object) -> model.QueueingHint:
    """Queue if a node's drivers were added, or its kubelet migrated another plugin."""
    if not isinstance(old, model.CsiNode) or not isinstance(new, model.CsiNode):
        return QUEUE
    before, after = (claim.metadata.annotations.get(MIGRATED_PLUGINS) for claim in (old, new))
    return _hint(before != after)


def _more_attachable(_pod: model.PodInfo, old: object, new: object) -> model.QueueingHint:
    """Queue if a driver can attach more volumes to its node than before."""
    if not isinstance(old, model.CsiNode) or not isinstance(new, model.CsiNode):
        return QUEUE
    before = {d.name: d.allocatable.count for d in old.spec.drivers if d.allocatable}
    for driver in new.spec.drivers:
        count = driver.allocatable.count if driver.allocatable else None
        was = before.get(driver.name)
        if count is not None and was is not None and count > was:
            return QUEUE
    return SKIP


def _capacity_unchecked(pod: model.PodInfo, old: object, new: object) -> model.QueueingHint:
    """Queue if a driver of the pod's inline volumes no longer uses capacity tracking."""
    if not isinstance(old, model.CsiDriver) or not isinstance(new, model.CsiDriver):
        return SKIP
    drivers = {v.csi.driver for v in pod.pod.spec.volumes if v.csi is not None}
    given_up = old.spec.storage_capacity and not new.spec.storage_capacity
    return _hint(given_up and new.metadata.name in drivers)


def _more_capacity(_pod: model.PodInfo, old: object, new: object) -> model.QueueingHint:
    """Queue if a topology can provide a larger volume than before."""
    if not isinstance(old, model.CsiStorageCapacity) or not isinstance(
        new, model.CsiStorageCapacity
    ):
        return QUEUE
    before, after = largest_volume(old), largest_volume(new)
    if after is None:
        return SKIP
    return _hint(before is None or model.quantity(after).value() > model.quantity(before).value())


def _volume_moved(_pod: model.PodInfo, old: object, new: object) -> model.QueueingHint:
    """Queue if a volume was added, or its topology changed."""
    if not isinstance(old, model.PersistentVolume) or not isinstance(new, model.PersistentVolume):
        return QUEUE
    return _hint(topologies_of(old) != topologies_of(new))


def _released(pod: model.PodInfo, old: object, _new: object) -> model.QueueingHint:
    """Queue if a deleted pod used a disk or a claim of the waiting pod."""
    if not isinstance(old, model.PodInfo) or old.volumes is None or pod.volumes is None:
        return SKIP
    if old.namespace != pod.namespace:
        return SKIP
    held = {use.name for use in old.volumes.claims if not use.ephemeral}
    wanted = {use.name for use in pod.volumes.claims if not use.ephemeral}
    return _hint(bool(held & wanted) or pods_conflict(pod.volumes, old.volumes))


def _detaches(_pod: model.PodInfo, old: object, _new: object) -> model.QueueingHint:
    """Queue if a deleted pod had volumes attached to its node."""
    if not isinstance(old, model.PodInfo) or old.volumes is None or not old.node_name:
        return SKIP
    disks = any(disk.source in IN_TREE for disk in old.volumes.disks)
    return _hint(bool(old.volumes.claims) or disks)


def _detached(_pod: model.PodInfo, old: object, _new: object) -> model.QueueingHint:
    """Queue: a volume was detached from its node."""
    return _hint(isinstance(old, model.VolumeAttachment))


def _on(
    resource: model.EventResource, action: model.ActionType, hint: model.Hint | None
) -> model.ClusterEventWithHint:
    return model.ClusterEventWithHint(model.ClusterEvent(resource, action), hint)


_ADD: Final = model.ActionType.ADD
_CHANGE: Final = model.ActionType.ADD | model.ActionType.UPDATE_OTHER
_RELABEL: Final = model.ActionType.ADD | model.ActionType.UPDATE_NODE_LABEL
_CLAIM: Final = model.EventResource.PERSISTENT_VOLUME_CLAIM

BINDING: Final = (
    _on(model.EventResource.STORAGE_CLASS, _CHANGE, _class_allows_more),
    _on(_CLAIM, _CHANGE, _own_claim),
    _on(model.EventResource.PERSISTENT_VOLUME, _CHANGE, None),
    _on(model.EventResource.NODE, _RELABEL, None),
    model.NODE_TAINT_UPDATE,
    _on(model.EventResource.CSI_NODE, _CHANGE, _migration),
    _on(model.EventResource.CSI_DRIVER, model.ActionType.UPDATE_OTHER, _capacity_unchecked),
    _on(model.EventResource.CSI_STORAGE_CAPACITY, _CHANGE, _more_capacity),
)
ZONE: Final = (
    _on(model.EventResource.STORAGE_CLASS, _ADD, _class_waits),
    _on(model.EventResource.NODE, _RELABEL, None),
    model.NODE_TAINT_UPDATE,
    _on(_CLAIM, _CHANGE, _named_claim),
    _on(model.EventResource.PERSISTENT_VOLUME, _CHANGE, _volume_moved),
)
RESTRICTIONS: Final = (
    _on(model.EventResource.ASSIGNED_POD, model.ActionType.DELETE, _released),
    _on(model.EventResource.NODE, _ADD, None),
    model.NODE_TAINT_UPDATE,
    _on(_CLAIM, _ADD, _named_claim),
)
LIMITS: Final = (
    _on(model.EventResource.CSI_NODE, _CHANGE, _more_attachable),
    _on(model.EventResource.ASSIGNED_POD, model.ActionType.DELETE, _detaches),
    _on(_CLAIM, _ADD, _own_claim),
    _on(model.EventResource.VOLUME_ATTACHMENT, model.ActionType.DELETE, _detached),
)
