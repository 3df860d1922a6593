"""The claims of a pod: those that it names, and those that were made for it of templates."""

from __future__ import annotations

from collections.abc import Callable

from policy_sched.errors import PolicySchedError
from policy_sched.model import PodInfo, PodResourceClaim, ResourceClaim
from policy_sched.plugins.dynamicresources.requests import claim_name

Lookup = Callable[[str, str], ResourceClaim | None]
"""Finds a claim by namespace and name."""


class ClaimError(PolicySchedError):
    """A claim of a pod that cannot be used (yet)."""


def claims_of(pod: PodInfo, lookup: Lookup) -> list[ResourceClaim]:
    """Return the claims of a pod in order. Raises ClaimError with the first thing wrong."""
    found = []
    for entry in pod.pod.spec.resource_claims:
        named = entry.resource_claim_name or _name(pod, entry)
        if named is None:
            continue
        claim = lookup(pod.namespace, named)
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{pod.namespace}/{named}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimError(f'resourceclaim "{named}" is being deleted')
        if entry.resource_claim_name is None and not is_owned(claim, pod):
            raise ClaimError(
                f"ResourceClaim {claim_name(claim)} was not created for Pod {pod.key} "
                "(Pod is not owner)"
            )
        found.append(claim)
    return found


def _name(pod: PodInfo, entry: PodResourceClaim) -> str | None:
    """Return the name of the claim of an entry, None where none is needed. Raises ClaimError."""
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    if entry.resource_claim_template_name is None:
        raise ClaimError(
            f'pod "{pod.key}", spec.resourceClaim "{entry.name}": none of the supported fields '
            "are set"
        )
    for status in pod.pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name
    raise ClaimError(f'pod "{pod.key}": ResourceClaim not created yet')


def is_owned(claim: ResourceClaim, pod: PodInfo) -> bool:
    """Tell whether a claim was made for a pod."""
    uid = pod.pod.metadata.uid
    return any(owner.controller and owner.uid == uid for owner in claim.metadata.owner_references)


def is_reserved(claim: ResourceClaim, pod: PodInfo) -> bool:
    """Tell whether a pod may use a claim already."""
    return any(one.uid == pod.uid for one in claim.status.reserved_for)
