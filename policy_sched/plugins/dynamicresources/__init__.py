"""DynamicResources: claims of devices, allocated with the pods that use them.

Pools are what a node reaches of the published slices; the allocator finds devices for claims on one
node; the plugin reserves what was found and writes it before the pod is bound.
"""

from policy_sched.plugins.dynamicresources.allocator import (
    MAX_RESULTS as MAX_RESULTS,
    Allocator as Allocator,
)
from policy_sched.plugins.dynamicresources.binding import (
    ClaimCounts as ClaimCounts,
    Reservation as Reservation,
)
from policy_sched.plugins.dynamicresources.claim_store import (
    ClaimStore as ClaimStore,
    ClaimStores as ClaimStores,
)
from policy_sched.plugins.dynamicresources.device_rules import (
    Allocating as Allocating,
    Allocations as Allocations,
    DeviceVerdict as DeviceVerdict,
    Ranking as Ranking,
    RatedDevice as RatedDevice,
)
from policy_sched.plugins.dynamicresources.devices import (
    DeviceId as DeviceId,
    DeviceView as DeviceView,
    NodeView as NodeView,
    SelectorError as SelectorError,
    as_record as as_record,
    selects as selects,
)
from policy_sched.plugins.dynamicresources.extended_resources import (
    ExtendedResourceError as ExtendedResourceError,
    ExtendedResources as ExtendedResources,
    variant_on as variant_on,
)
from policy_sched.plugins.dynamicresources.plugin import DynamicResources as DynamicResources
from policy_sched.plugins.dynamicresources.pools import (
    AllocatedState as AllocatedState,
    Pool as Pool,
    PoolError as PoolError,
)
from policy_sched.plugins.dynamicresources.requests import (
    ALL as ALL,
    AllocationError as AllocationError,
    ClaimPlan as ClaimPlan,
    Request as Request,
    claim_name as claim_name,
)
from policy_sched.plugins.dynamicresources.resource_claims import ResourceClaims as ResourceClaims
