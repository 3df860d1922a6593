"""What can make a pod fit that DynamicResources rejected, and for which pods it matters."""

from __future__ import annotations

from typing import Final

from policy_sched import model
from policy_sched.errors import PluginError
from policy_sched.plugins.dynamicresources.resource_claims import (
    ClaimError,
    Lookup,
    claims_of,
    uid_of,
)

QUEUE: Final = model.QueueingHint.QUEUE
SKIP: Final = model.QueueingHint.SKIP
_CHANGE: Final = model.ActionType.ADD | model.ActionType.UPDATE_OTHER
_NODE: Final = (
    model.ActionType.ADD
    | model.ActionType.UPDATE_NODE_LABEL
    | model.ActionType.UPDATE_NODE_ALLOCATABLE
)


def of(lookup: Lookup) -> tuple[model.ClusterEventWithHint, ...]:
    """Return the events with their hints; ``lookup`` finds claims."""

    def claim_changed(pod: model.PodInfo, old: object, new: object) -> model.QueueingHint:
        """A claim came or changed: one of the pod's, or one that gave its devices back."""
        if not isinstance(new, model.ResourceClaim):
            raise PluginError(f"expected a ResourceClaim, got {type(new).__name__}")
        try:
            claims = claims_of(pod, lookup)
        except ClaimError:
            return SKIP
        before = old if isinstance(old, model.ResourceClaim) else None
        if before is not None and before.status.allocation and not new.status.allocation:
            return QUEUE
        if all(uid_of(claim) != uid_of(new) for claim in claims):
            return SKIP
        return SKIP if before is not None and before.status == new.status else QUEUE

    def pod_changed(pod: model.PodInfo, _old: object, new: object) -> model.QueueingHint:
        """The pod's own claims were made."""
        if not isinstance(new, model.PodInfo) or new.uid != pod.uid:
            return SKIP
        try:
            claims_of(new, lookup)
        except ClaimError:
            return SKIP
        return QUEUE

    def on(resource: model.EventResource, action: model.ActionType) -> model.ClusterEvent:
        return model.ClusterEvent(resource, action)

    return (
        model.ClusterEventWithHint(on(model.EventResource.NODE, _NODE)),
        model.NODE_TAINT_UPDATE,
        model.ClusterEventWithHint(on(model.EventResource.RESOURCE_CLAIM, _CHANGE), claim_changed),
        model.ClusterEventWithHint(
            on(model.EventResource.POD, model.ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM),
            pod_changed,
        ),
        model.ClusterEventWithHint(on(model.EventResource.DEVICE_CLASS, _CHANGE)),
        model.ClusterEventWithHint(on(model.EventResource.RESOURCE_SLICE, _CHANGE)),
    )
