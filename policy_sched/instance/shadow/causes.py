"""Why a shadow may know another cluster than the scheduler that it is compared with.

Theory of operation. Each kind has a watch of its own, and bindings run side by side: what happened
at once arrives in any order. A difference that no such cause can explain is one of the policies.
"""

from __future__ import annotations

from typing import Final

from policy_sched.framework import Handle
from policy_sched.model import PersistentVolumeClaim, PodInfo, ResourceClaim

SKEW: Final = 250_000_000
"""Nanoseconds by which what happened at once may arrive apart."""
_OF_VOLUMES: Final = frozenset(
    {"PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode", "CSIDriver"}
    | {"CSIStorageCapacity", "VolumeAttachment"}
)
_OF_DEVICES: Final = frozenset({"ResourceClaim", "ResourceSlice", "DeviceClass"})


class LastChanges:
    """The last change of each kind but pods: its time, and the object's name."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._last: dict[str, tuple[int, str]] = {}

    def note(self, kind: str, name: str) -> None:
        """Note that an object has changed what decisions read."""
        self._last[kind] = self._handle.now(), name

    def cause(self, pod: PodInfo) -> str:
        """Return what of its claims or of other objects may have arrived late; "" for none."""
        named, spec = self._handle.objects.named, pod.pod.spec
        for name in sorted(pod.pvc_names):
            if named(PersistentVolumeClaim, pod.namespace, name) is None:
                return f"its claim {name} has not arrived yet"
        made = {status.name for status in pod.pod.status.resource_claim_statuses}
        for use in spec.resource_claims:
            claim = use.resource_claim_name
            if not claim and use.name not in made:
                return f"its resource claim {use.name} has not been made yet"
            if claim and named(ResourceClaim, pod.namespace, claim) is None:
                return f"its resource claim {claim} has not arrived yet"
        since = self._handle.now() - SKEW
        unread = (() if pod.pvc_names else _OF_VOLUMES, () if spec.resource_claims else _OF_DEVICES)
        for kind, (time, name) in sorted(self._last.items()):
            if time >= since and not any(kind in kinds for kinds in unread):
                return f"{kind} {name} changed at the time; watches of kinds have no common order"
        return "its volumes were provided after it was decided" if pod.pvc_names else ""
