"""What the volume controllers of a cluster do after a scheduler has decided, at once.

A claim and the volume that is kept for it are bound to each other; for a claim that names a node,
a volume of its class's driver is made. Where a driver would say from which nodes the new volume
can be reached, the class's allowed topologies are taken.
"""

from __future__ import annotations

from typing import Final, Protocol, TypeVar

from msgspec.structs import replace

from policy_sched import model

T = TypeVar("T", bound=model.ApiObject)

BOUND: Final = model.Phase("Bound")
_BIND_COMPLETED: Final = {"pv.kubernetes.io/bind-completed": "yes"}


class VolumeStore(Protocol):
    """Where the cluster's API objects are, by kind, namespace ("" without one) and name."""

    def named(self, kind: type[T], namespace: str, name: str) -> T | None:
        """Return one object, None if there is none."""

    def put(self, thing: model.ApiObject) -> None:
        """Add an object, or replace it by its newer version."""


def complete_binding(store: VolumeStore, volume: model.PersistentVolume) -> None:
    """Bind a volume and the claim that it is kept for to each other."""
    store.put(replace(volume, status=BOUND))
    reference = volume.spec.claim_ref
    if reference is None:
        return
    claim = store.named(model.PersistentVolumeClaim, reference.namespace, reference.name)
    if claim is not None:
        store.put(_with_volume(claim, volume.metadata.name))


def provision(store: VolumeStore, claim: model.PersistentVolumeClaim) -> None:
    """Create a volume for a claim and bind them to each other."""
    storage_class = store.named(model.StorageClass, "", claim.spec.storage_class_name or "")
    namespace, name = claim.metadata.namespace or "default", claim.metadata.name
    handle = f"pvc-{claim.metadata.uid or f'{namespace}-{name}'}"
    spec = model.PersistentVolumeSpec(
        capacity=dict(claim.spec.resources.requests),
        access_modes=claim.spec.access_modes,
        claim_ref=model.ClaimReference(namespace, name, claim.metadata.uid),
        storage_class_name=claim.spec.storage_class_name or "",
        volume_mode=claim.spec.volume_mode,
        volume_attributes_class_name=claim.spec.volume_attributes_class_name,
        node_affinity=_affinity(storage_class) if storage_class is not None else None,
        csi=model.CsiSource(storage_class.provisioner if storage_class is not None else "", handle),
    )
    store.put(
        model.PersistentVolume(
            "v1", "PersistentVolume", model.ObjectMeta(name=handle), spec, status=BOUND
        )
    )
    store.put(_with_volume(claim, handle))


def _with_volume(claim: model.PersistentVolumeClaim, volume: str) -> model.PersistentVolumeClaim:
    annotations = claim.metadata.annotations | _BIND_COMPLETED
    return replace(
        claim,
        metadata=replace(claim.metadata, annotations=annotations),
        spec=replace(claim.spec, volume_name=volume),
        status=BOUND,
    )


def _affinity(storage_class: model.StorageClass) -> model.VolumeNodeAffinity | None:
    terms = tuple(
        model.NodeSelectorTerm(
            tuple(
                model.NodeSelectorRequirement(r.key, "In", r.values)
                for r in term.match_label_expressions
            )
        )
        for term in storage_class.allowed_topologies
        if term.match_label_expressions
    )
    return model.VolumeNodeAffinity(model.NodeSelector(terms)) if terms else None
