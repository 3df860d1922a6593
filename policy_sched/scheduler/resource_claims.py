"""Claims of devices while pods come and go in a cluster without an API server."""

from __future__ import annotations

from msgspec.structs import replace

from policy_sched.manifests import with_claims
from policy_sched.model import (
    Pod,
    PodInfo,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceClaimTemplate,
)
from policy_sched.scheduler.event_handlers import object_gone, object_seen
from policy_sched.scheduler.scheduler import Scheduler


def make_claims(scheduler: Scheduler, pod: Pod) -> Pod:
    """Make the claims of a pod that comes, where templates call for some; return the pod."""
    if not pod.spec.resource_claims:
        return pod
    templates = scheduler.handle.objects.of(ResourceClaimTemplate)
    for one in with_claims([*templates, pod]):
        if isinstance(one, ResourceClaim):
            object_seen(scheduler, None, one)
        elif isinstance(one, Pod):
            pod = one
    return pod


def free_claims(scheduler: Scheduler, pod: PodInfo) -> None:
    """Give back what a pod that has ended used: its own claims go, shared ones lose a consumer."""
    for claim in scheduler.handle.objects.of(ResourceClaim):
        status = claim.status
        left = tuple(reference for reference in status.reserved_for if reference.uid != pod.uid)
        if len(left) == len(status.reserved_for):
            continue
        changed = replace(status, reserved_for=left) if left else ResourceClaimStatus()
        freed = replace(claim, status=changed)
        object_seen(scheduler, claim, freed)
        owners = claim.metadata.owner_references
        if any(owner.controller and owner.uid == pod.uid for owner in owners):
            object_gone(scheduler, freed)
