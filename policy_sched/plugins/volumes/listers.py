"""Claims, volumes and classes as the API server has them, and the meaning of their fields."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from policy_sched import model
from policy_sched.cluster import ApiObjects
from policy_sched.framework import PodKey

#: Older than the field ``storageClassName``, and has precedence over it.
BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
#: On a claim: its binding is complete.
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
#: On a volume or a claim: it was bound by a controller, not by a user.
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
#: On a claim: the node for which a volume is to be provisioned.
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
#: The provisioner of classes whose volumes are created by hand.
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
STORAGE: Final = "storage"
#: What the volume plugins read of a pod: the key of their signatures, None without volumes.
VOLUMES: Final = PodKey(attrgetter("volumes"), "volumes")


class StorageLookup:
    """Finds storage objects by name; the results are shared and must not be changed."""

    def __init__(self, objects: ApiObjects) -> None:
        self._objects = objects

    def claim(self, namespace: str, name: str) -> model.PersistentVolumeClaim | None:
        """Return a claim, None if there is none."""
        return self._objects.named(model.PersistentVolumeClaim, namespace, name)

    def volume(self, name: str) -> model.PersistentVolume | None:
        """Return a volume, None if there is none."""
        return self._objects.named(model.PersistentVolume, "", name)

    def storage_class(self, name: str) -> model.StorageClass | None:
        """Return a storage class, None if there is none."""
        return self._objects.named(model.StorageClass, "", name)


def class_of(volume: model.PersistentVolume | model.PersistentVolumeClaim) -> str:
    """Return the name of the storage class of a volume or a claim, "" for none."""
    beta = volume.metadata.annotations.get(BETA_CLASS)
    return volume.spec.storage_class_name or "" if beta is None else beta


def fully_bound(claim: model.PersistentVolumeClaim) -> bool:
    """Return whether a claim is bound to a volume, and the volume to it."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def waits_for_pod(storage_class: model.StorageClass | None) -> bool:
    """Return whether claims of a class are bound when a pod is scheduled.

    Claims of an unknown class are bound at once, and so are those of a class without a mode: the
    API server's default is Immediate.
    """
    return (
        storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    )


def not_found(kind: str, name: str) -> str:
    """Return the API server's message for a missing object."""
    return f'{kind} "{name}" not found'


def namespace_of(entity: model.ApiObject) -> str:
    """Return the namespace of a namespaced object; the default is "default"."""
    return entity.metadata.namespace or "default"


def foreign(claim: model.PersistentVolumeClaim, use: model.ClaimUse, pod: model.PodInfo) -> str:
    """Return an error if an ephemeral claim belongs to another pod; "" if it does not."""
    if not use.ephemeral:
        return ""
    for owner in claim.metadata.owner_references:
        if owner.controller and owner.uid == pod.pod.metadata.uid:
            return ""
    name = f"{namespace_of(claim)}/{claim.metadata.name}"
    return f"PVC {name} was not created for pod {pod.key} (pod is not owner)"
