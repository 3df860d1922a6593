"""Persistent volume controller: binds claims to volumes and provisions missing volumes.

A claim of a class that waits for its first consumer is left alone until a scheduler has named a
node or kept a volume for it; any other gets the smallest volume that will do, or a new one. Claims
of pods' ephemeral volumes are made here too. (The persistent volume controllers.)
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from policy_sched import model
from policy_sched.client import complete_binding, provision
from policy_sched.client.apimachinery import CLAIM, POD, STORAGE_CLASS, VOLUME, Stored
from policy_sched.embedded.controllers.pod_control import RETRY, create, remove
from policy_sched.embedded.controllers.workqueue import Controller
from policy_sched.embedded.store import ADDED, DELETED, Key, ObjectStore, StoreChange, merge
from policy_sched.manifests import Owner, Plain

T = TypeVar("T", bound=model.ApiObject)

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_WAITS: Final = "WaitForFirstConsumer"
_KEYS: Final = {struct: kind for kind, struct in model.KINDS.items()}


class _Objects:
    """The store, as `volume_controllers` wants it."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def named(self, kind: type[T], namespace: str, name: str) -> T | None:
        """Return one object, None if there is none."""
        stored = self._store.find(_KEYS[kind], namespace, name)
        return stored.typed if stored is not None and isinstance(stored.typed, kind) else None

    def put(self, written: model.ApiObject) -> None:
        """Write what the controllers set; all else that an object has stays."""
        plain: Plain = msgspec.to_builtins(written)
        plain["apiVersion"], plain["kind"] = _KEYS[type(written)]
        meta = written.metadata
        stored = self._store.find(_KEYS[type(written)], meta.namespace, meta.name)
        if stored is None:
            create(self._store, plain)
            return
        annotations = {"annotations": dict(meta.annotations)} if meta.annotations else {}
        status = {**plain["status"], **self._claim_status(written)}
        changes = {"metadata": annotations, "spec": plain.get("spec", {}), "status": status}
        self._store.revise(stored, merge(stored.data, changes))

    def _claim_status(self, written: model.ApiObject) -> Plain:
        """Return what a claim has got from its volume, for its status."""
        name = written.spec.volume_name if isinstance(written, model.PersistentVolumeClaim) else ""
        volume = self._store.find(VOLUME, "", name) if name else None
        spec = {} if volume is None else volume.data["spec"]
        return {key: spec[key] for key in ("accessModes", "capacity") if key in spec}


class PersistentVolumeController(Controller):
    """Binds claims and volumes to each other, and makes volumes."""

    kinds = frozenset({CLAIM, VOLUME, STORAGE_CLASS, POD})
    name = "persistentvolume-binder"

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._objects = _Objects(store)

    def observe(self, change: StoreChange) -> None:
        """Observe claims, volumes, classes, and pods with ephemeral volumes."""
        new, kind = change.new, change.new.resource.key
        if kind in (CLAIM, VOLUME) or (kind == POD and change.type == ADDED and _ephemeral(new)):
            self._queue.add(Key(kind, *new.namespaced_name))
        if kind in (VOLUME, STORAGE_CLASS) or (kind == CLAIM and change.type == DELETED):
            for stored in (*self._store.select(CLAIM), *self._store.select(VOLUME)):
                self._queue.add(stored.key)

    def sync(self, key: Key) -> bool:
        """Bind or provision what a claim or a volume needs."""
        before = self._store.version
        stored = self._store.find(key.kind, key.namespace, key.name)
        if stored is None or stored.deleting:
            return False
        typed = stored.typed
        if isinstance(typed, model.Pod):
            self._own_claims(key, stored, typed)
        elif isinstance(typed, model.PersistentVolume):
            self._volume(stored, typed)
        elif isinstance(typed, model.PersistentVolumeClaim):
            self._claim(stored, typed)
        return self._store.version != before

    def _own_claims(self, key: Key, stored: Stored, pod: model.Pod) -> None:
        """Create the claims of a pod's ephemeral volumes, which the pod owns."""
        owner = Owner("v1", "Pod", stored.name, stored.namespace, stored.uid).reference()
        for volume in stored.data["spec"].get("volumes") or ():
            template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
            name = f"{pod.metadata.name}-{volume.get('name', '')}"
            if template is None or self._store.find(CLAIM, stored.namespace, name) is not None:
                continue
            meta = {"name": name, "namespace": stored.namespace, "ownerReferences": [owner]}
            meta |= {
                k: v
                for k, v in (template.get("metadata") or {}).items()
                if k in ("labels", "annotations")
            }
            claim = {"apiVersion": CLAIM[0], "kind": CLAIM[1], "metadata": meta}
            if create(self._store, {**claim, "spec": template.get("spec") or {}}) is None:
                self._queue.add_at(key, self._store.now() + RETRY)

    def _volume(self, stored: Stored, volume: model.PersistentVolume) -> None:
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            return
        claim = self._objects.named(
            model.PersistentVolumeClaim, reference.namespace, reference.name
        )
        if claim is not None and claim.metadata.uid == reference.uid:
            if claim.spec.volume_name in ("", stored.name):
                self._bind(volume, claim)
        elif volume.status.phase == "Bound":  # the claim has gone
            data = stored.data
            if data["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
                remove(self._store, stored)
            else:
                data["status"] = {**data.get("status", {}), "phase": "Released"}
                self._store.revise(stored, data)

    def _claim(self, stored: Stored, claim: model.PersistentVolumeClaim) -> None:
        if claim.status.phase == "Bound":
            return
        if claim.spec.volume_name:
            volume = self._objects.named(model.PersistentVolume, "", claim.spec.volume_name)
            if volume is not None and _free_for(volume, claim):
                self._bind(volume, claim)
            return
        if claim.spec.storage_class_name is None and self._default_class(stored):
            return  # it comes up again with its class
        waits, makes = self._class(claim)
        chosen = SELECTED_NODE in claim.metadata.annotations
        volume = None if waits else self._smallest(claim)
        if volume is not None:
            self._bind(volume, claim)
        elif makes and (chosen or not waits):
            provision(self._objects, claim)

    def _bind(self, volume: model.PersistentVolume, claim: model.PersistentVolumeClaim) -> None:
        if volume.status.phase == "Bound" and claim.status.phase == "Bound":
            return
        meta = claim.metadata
        reference = model.ClaimReference(meta.namespace or "default", meta.name, meta.uid)
        spec = msgspec.structs.replace(volume.spec, claim_ref=reference)
        complete_binding(self._objects, msgspec.structs.replace(volume, spec=spec))

    def _class(self, claim: model.PersistentVolumeClaim) -> tuple[bool, bool]:
        """Return whether a claim waits for a consumer, and whether volumes can be made for it."""
        name = claim.spec.storage_class_name or ""
        storage_class = self._objects.named(model.StorageClass, "", name) if name else None
        if storage_class is None:
            return False, False
        makes = storage_class.provisioner not in ("", _NO_PROVISIONER)
        return storage_class.volume_binding_mode == _WAITS, makes

    def _default_class(self, stored: Stored) -> bool:
        """Set the default class of a claim without one; return whether there is one."""
        classes = [
            classed
            for classed in self._store.select(STORAGE_CLASS)
            if classed.typed.metadata.annotations.get(DEFAULT_CLASS) == "true"
        ]
        if not classes:
            return False
        data = stored.data
        data["spec"]["storageClassName"] = max(classes, key=lambda classed: classed.version).name
        self._store.revise(stored, data)
        return True

    def _smallest(self, claim: model.PersistentVolumeClaim) -> model.PersistentVolume | None:
        """Return the smallest free volume that will do for a claim."""
        volumes = (volume.typed for volume in self._store.select(VOLUME) if not volume.deleting)
        fitting = [
            v for v in volumes if isinstance(v, model.PersistentVolume) and _serves(v, claim)
        ]
        return min(fitting, key=lambda v: (_size(v), v.metadata.name), default=None)


def _ephemeral(stored: Stored) -> bool:
    pod = stored.typed
    return isinstance(pod, model.Pod) and any(v.ephemeral is not None for v in pod.spec.volumes)


def _free_for(volume: model.PersistentVolume, claim: model.PersistentVolumeClaim) -> bool:
    reference, meta = volume.spec.claim_ref, claim.metadata
    if reference is None:
        return True
    named = (reference.namespace, reference.name) == (meta.namespace, meta.name)
    return named and reference.uid in ("", meta.uid)


def _size(volume: model.PersistentVolume) -> int:
    return model.units("storage", volume.spec.capacity.get("storage", "0"))


def _serves(volume: model.PersistentVolume, claim: model.PersistentVolumeClaim) -> bool:
    spec, wanted = volume.spec, claim.spec
    if volume.status.phase not in ("", "Available") or not _free_for(volume, claim):
        return False
    if spec.storage_class_name != (wanted.storage_class_name or ""):
        return False
    if (spec.volume_mode or "Filesystem") != (wanted.volume_mode or "Filesystem"):
        return False
    if not set(wanted.access_modes) <= set(spec.access_modes):
        return False
    selected = wanted.selector is None or model.label_selector(wanted.selector).matches(
        volume.metadata.labels
    )
    return selected and _size(volume) >= model.units(
        "storage", wanted.resources.requests.get("storage", "0")
    )
