"""What became of resource claims in a step of a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from policy_sched.client import MemoryClient
from policy_sched.cluster import ApiObjects
from policy_sched.framework import Handle
from policy_sched.model import Pod, PodInfo, ResourceClaim
from policy_sched.policytest.expectations import ExpectedOutcome

SPECIAL: Final = "(extended resources)"
"""What the claim is called that is made for a pod's extended resources."""
MANY: Final = 8
"""Consumers of a claim that are named; of more there is only the number."""
_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"


def claims_of_cluster(objects: ApiObjects) -> dict[str, ResourceClaim]:
    """Return the claims by namespace/name."""
    return {
        f"{claim.metadata.namespace or 'default'}/{claim.metadata.name}": claim
        for claim in objects.of(ResourceClaim)
    }


def with_claims(
    outcome: ExpectedOutcome, pod: PodInfo, before: Mapping[str, ResourceClaim], handle: Handle
) -> ExpectedOutcome:
    """Return an outcome with the claims that are reserved for the pod, and those given back."""
    after = claims_of_cluster(handle.objects)
    written = {}
    for claim in after.values():
        if any(consumer.uid == pod.uid for consumer in claim.status.reserved_for):
            special = is_special(claim)
            name = SPECIAL if special else claim.metadata.name
            written[name] = _written(claim, pod, handle if special else None)
    gone = tuple(
        name
        for name, claim in before.items()
        if (name not in after or _given_back(claim, after[name])) and not outcome.feasible
    )
    return replace(outcome, claims=written or None, deallocated=gone or None)


def is_special(claim: ResourceClaim) -> bool:
    """Return whether a claim was made for a pod's extended resources."""
    return claim.metadata.annotations.get(_ANNOTATION) == "true"


def _given_back(before: ResourceClaim, after: ResourceClaim) -> bool:
    return before.status.allocation is not None and after.status.allocation is None


def _written(claim: ResourceClaim, pod: PodInfo, handle: Handle | None) -> dict[str, object]:
    allocation = _plain(claim.status.allocation)
    allocation.pop("allocationTimestamp", None)
    for result in allocation["devices"].get("results", ()):
        if "shareID" in result:
            result["shareID"] = "(random)"
    found: dict[str, object] = {
        "allocation": allocation,
        "finalizers": list(claim.metadata.finalizers),
    }
    names = [consumer.name for consumer in claim.status.reserved_for]
    if len(names) > MANY:
        found["reservedForCount"] = len(names)
    else:
        found["reservedFor"] = names
    if handle is not None:
        found["requests"] = _plain(claim.spec.devices.requests)
        found["requestMappings"] = _mappings(pod, handle)
    return found


def _mappings(pod: PodInfo, handle: Handle) -> object:
    client = handle.client
    assert isinstance(client, MemoryClient), "scenarios have no other cluster"
    for request in reversed(client.requests):
        if request.kind is Pod and (request.namespace, request.name) == (pod.namespace, pod.name):
            return request.body["status"]["extendedResourceClaimStatus"]["requestMappings"]
    return None


def _plain(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))
