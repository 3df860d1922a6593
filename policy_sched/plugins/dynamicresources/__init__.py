"""DynamicResources: claims of devices, allocated with the pods that use them.

Pools are what a node reaches of the published slices; the allocator finds devices for claims on one
node; the plugin reserves what was found and writes it before the pod is bound.
"""

from policy_sched.plugins.dynamicresources.binding import ClaimCounts, Reservation
from policy_sched.plugins.dynamicresources.device_rules import (
    Allocating,
    Allocations,
    DeviceRules,
    DeviceVerdict,
    RatedDevice,
)
from policy_sched.plugins.dynamicresources.devices import DeviceId, as_record
from policy_sched.plugins.dynamicresources.explanation import (
    AllocatedClaim,
    ClaimChange,
    ClaimsExplained,
    NodeDevices,
    Refusal,
    RequestDevices,
    SelectorOf,
    explain_claims,
)
from policy_sched.plugins.dynamicresources.plugin import DynamicResources
from policy_sched.plugins.dynamicresources.resource_claims import ResourceClaims

__all__ = [
    "AllocatedClaim",
    "Allocating",
    "Allocations",
    "ClaimChange",
    "ClaimCounts",
    "ClaimsExplained",
    "DeviceId",
    "DeviceRules",
    "DeviceVerdict",
    "DynamicResources",
    "NodeDevices",
    "RatedDevice",
    "Refusal",
    "RequestDevices",
    "Reservation",
    "ResourceClaims",
    "SelectorOf",
    "as_record",
    "explain_claims",
]
