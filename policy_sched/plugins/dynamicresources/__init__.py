"""DynamicResources: claims of devices, allocated with the pods that use them.

Pools are what a node reaches of the published slices; the allocator finds devices for claims on one
node; the plugin reserves what was found and writes it before the pod is bound.
"""

from policy_sched.plugins.dynamicresources.binding import (
    ClaimCounts as ClaimCounts,
    Reservation as Reservation,
)
from policy_sched.plugins.dynamicresources.device_rules import (
    Allocating as Allocating,
    Allocations as Allocations,
    DeviceVerdict as DeviceVerdict,
    RatedDevice as RatedDevice,
)
from policy_sched.plugins.dynamicresources.devices import (
    DeviceId as DeviceId,
    as_record as as_record,
)
from policy_sched.plugins.dynamicresources.explanation import (
    AllocatedClaim as AllocatedClaim,
    ClaimChange as ClaimChange,
    ClaimsExplained as ClaimsExplained,
    NodeDevices as NodeDevices,
    Refusal as Refusal,
    RequestDevices as RequestDevices,
    SelectorOf as SelectorOf,
    explain_claims as explain_claims,
)
from policy_sched.plugins.dynamicresources.plugin import DynamicResources as DynamicResources
from policy_sched.plugins.dynamicresources.resource_claims import ResourceClaims as ResourceClaims
