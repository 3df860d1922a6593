"""What can make a pod fit that DynamicResources rejected, and for which pods it matters."""

from __future__ import annotations

from typing import Final

from policy_sched.errors import PluginError
from policy_sched.model import (
    NODE_TAINT_UPDATE,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    PodInfo,
    QueueingHint,
    ResourceClaim,
)
from policy_sched.plugins.dynamicresources.resource_claims import (
    ClaimError,
    Lookup,
    claims_of,
    uid_of,
)

QUEUE: Final = QueueingHint.QUEUE
SKIP: Final = QueueingHint.SKIP
_CHANGE: Final = ActionType.ADD | ActionType.UPDATE_OTHER
_NODE: Final = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_ALLOCATABLE


def of(lookup: Lookup) -> tuple[ClusterEventWithHint, ...]:
    """Return the events with their hints; ``lookup`` finds claims."""

    def claim_changed(pod: PodInfo, old: object, new: object) -> QueueingHint:
        """A claim came or changed: one of the pod's, or one that gave its devices back."""
        if not isinstance(new, ResourceClaim):
            raise PluginError(f"expected a ResourceClaim, got {type(new).__name__}")
        try:
            claims = claims_of(pod, lookup)
        except ClaimError:
            return SKIP
        before = old if isinstance(old, ResourceClaim) else None
        if before is not None and before.status.allocation and not new.status.allocation:
            return QUEUE
        if all(uid_of(claim) != uid_of(new) for claim in claims):
            return SKIP
        return SKIP if before is not None and before.status == new.status else QUEUE

    def pod_changed(pod: PodInfo, _old: object, new: object) -> QueueingHint:
        """The pod's own claims were made."""
        if not isinstance(new, PodInfo) or new.uid != pod.uid:
            return SKIP
        try:
            claims_of(new, lookup)
        except ClaimError:
            return SKIP
        return QUEUE

    def on(resource: EventResource, action: ActionType) -> ClusterEvent:
        return ClusterEvent(resource, action)

    return (
        ClusterEventWithHint(on(EventResource.NODE, _NODE)),
        NODE_TAINT_UPDATE,
        ClusterEventWithHint(on(EventResource.RESOURCE_CLAIM, _CHANGE), claim_changed),
        ClusterEventWithHint(
            on(EventResource.POD, ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM), pod_changed
        ),
        ClusterEventWithHint(on(EventResource.DEVICE_CLASS, _CHANGE)),
        ClusterEventWithHint(on(EventResource.RESOURCE_SLICE, _CHANGE)),
    )
