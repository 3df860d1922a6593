"""Resource claim controller: makes claims of templates, and frees those that nothing uses.

A claim of a template is deleted when its pod has ended. A shared claim is deallocated when its last
pod has ended. (kube-controller-manager's resourceclaim controller.)
"""

from __future__ import annotations

from typing import Final

from policy_sched.client.apimachinery import DEVICE_CLAIM, DEVICE_TEMPLATE, POD, Stored
from policy_sched.embedded.admission import fill_in_claim
from policy_sched.embedded.controllers.pod_control import RETRY, create, remove
from policy_sched.embedded.controllers.workqueue import Controller
from policy_sched.embedded.store import DELETED, Key, StoreChange
from policy_sched.manifests import POD_CLAIM, Owner, Plain, claim_prefix
from policy_sched.model import ENDED_PHASES, Pod, PodResourceClaim, ResourceClaim

FINALIZER: Final = "resource.kubernetes.io/delete-protection"


class ResourceClaimController(Controller):
    """Makes, frees and deletes claims of devices."""

    kinds = frozenset({POD, DEVICE_CLAIM, DEVICE_TEMPLATE})
    name = "resource-claim-controller"

    def observe(self, change: StoreChange) -> None:
        """Take note of a claim, a template, or a pod with claims."""
        new, kind = change.new, change.new.resource.key
        if kind == DEVICE_CLAIM:
            self._queue.add(Key(kind, *new.namespaced_name))
        elif kind == DEVICE_TEMPLATE:
            for pod in self._store.select(POD, new.namespace):
                if b"resourceClaims" in pod.raw:
                    self._queue.add(Key(POD, *pod.namespaced_name))
        elif b"resourceClaims" in new.raw or b"extendedResourceClaimStatus" in new.raw:
            if change.type != DELETED:
                self._queue.add(Key(kind, *new.namespaced_name))
            if change.type == DELETED or _ended(new):
                for claim in self._store.select(DEVICE_CLAIM, new.namespace):
                    if new.uid.encode() in claim.raw:
                        self._queue.add(Key(DEVICE_CLAIM, *claim.namespaced_name))

    def sync(self, key: Key) -> bool:
        """Make the claims of a pod, or look whether a claim is still used."""
        before = self._store.version
        stored = self._store.find(key.kind, key.namespace, key.name)
        if stored is None:
            return False
        if isinstance(stored.typed, Pod) and not stored.deleting and not _ended(stored):
            self._pod(key, stored, stored.typed)
        elif isinstance(stored.typed, ResourceClaim):
            self._claim(stored, stored.typed)
        return self._store.version != before

    def _pod(self, key: Key, stored: Stored, pod: Pod) -> None:
        """Make the claims that a pod's templates call for, and name them in its status."""
        made = {claim_status.name for claim_status in pod.status.resource_claim_statuses}
        added: list[Plain] = []
        for entry in pod.spec.resource_claims:
            if entry.resource_claim_template_name is None or entry.name in made:
                continue
            claim = self._existing(stored, entry.name) or self._made(stored, entry)
            if claim is None:
                self._queue.add_at(key, self._store.now() + RETRY)
            else:
                added.append({"name": entry.name, "resourceClaimName": claim.name})
        if added:
            data = stored.data
            status = data["status"] = data.get("status") or {}
            status["resourceClaimStatuses"] = [*status.get("resourceClaimStatuses", ()), *added]
            self._store.revise(stored, data)

    def _existing(self, pod: Stored, entry: str) -> Stored | None:
        for claim in self._store.owned_by(pod.uid, DEVICE_CLAIM):
            annotations = claim.data["metadata"].get("annotations") or {}
            if annotations.get(POD_CLAIM) == entry and not claim.deleting:
                return claim
        return None

    def _made(self, pod: Stored, entry: PodResourceClaim) -> Stored | None:
        name = entry.resource_claim_template_name or ""
        template = self._store.find(DEVICE_TEMPLATE, pod.namespace, name)
        if template is None:
            return None
        spec = template.data["spec"]
        meta = spec.get("metadata") or {}
        owner = Owner("v1", "Pod", pod.name, pod.namespace, pod.uid).reference()
        body: Plain = {
            "apiVersion": DEVICE_CLAIM[0],
            "kind": DEVICE_CLAIM[1],
            "metadata": {
                "generateName": claim_prefix(pod.name, entry.name),
                "namespace": pod.namespace,
                "labels": meta.get("labels") or {},
                "annotations": {**(meta.get("annotations") or {}), POD_CLAIM: entry.name},
                "ownerReferences": [owner],
            },
            "spec": spec.get("spec") or {},
        }
        fill_in_claim(DEVICE_CLAIM[1], body["spec"])
        return create(self._store, body)

    def _claim(self, stored: Stored, claim: ResourceClaim) -> None:
        """Drop consumers that have gone; give devices back, and delete what was a pod's own."""
        uids = {
            consumer.uid
            for consumer in claim.status.reserved_for
            if self._uses(stored, consumer.name, consumer.uid)
        }
        freed = not uids and claim.status.allocation is not None
        gone = len(uids) < len(claim.status.reserved_for)
        if gone or (freed and stored.deleting):
            data = stored.data
            status = data["status"]
            left = [
                consumer
                for consumer in status.get("reservedFor", ())
                if consumer.get("uid") in uids
            ]
            status["reservedFor"] = left
            if not left:
                status.pop("reservedFor")
                status.pop("allocation", None)
                status.pop("devices", None)
                finalizers = data["metadata"].get("finalizers") or []
                data["metadata"]["finalizers"] = [
                    consumer for consumer in finalizers if consumer != FINALIZER
                ]
            stored = self._store.revise(stored, data)
        if not uids and not stored.deleting and self._orphaned(stored):
            remove(self._store, stored)

    def _uses(self, claim: Stored, name: str, uid: str) -> bool:
        """Return whether a pod is there that has not ended."""
        pod = self._store.find(POD, claim.namespace, name)
        return pod is not None and pod.uid == uid and not _ended(pod)

    def _orphaned(self, claim: Stored) -> bool:
        """Return whether a claim was made for a pod that has ended."""
        for owner in claim.typed.metadata.owner_references:
            if owner.controller and owner.kind == "Pod":
                return not self._uses(claim, owner.name, owner.uid)
        return False


def _ended(pod: Stored) -> bool:
    typed = pod.typed
    return isinstance(typed, Pod) and typed.status.phase in ENDED_PHASES
