"""Dynamic resources, resource.k8s.io/v1: devices, their classes, and claims of them."""

from datetime import datetime
from typing import Any, Final

from msgspec import field

from policy_sched.model import meta
from policy_sched.model.quantity import Amount

DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Before the name of a device class: the extended resource that the class always serves."""


class CelSelector(meta.ApiValue, frozen=True, gc=False):
    """An expression of CEL over one device."""

    expression: str = ""


class DeviceSelector(meta.ApiValue, frozen=True, gc=False):
    """What a device must be."""

    cel: CelSelector | None = None


class CapacityRequirements(meta.ApiValue, frozen=True, gc=False):
    """How much of a device's capacities is requested, by name."""

    requests: dict[str, Amount] = field(default_factory=dict)


class DeviceRequestParts(meta.ApiValue, frozen=True, gc=False):
    """What requests and subrequests have in common."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: meta.Int64 = 0
    tolerations: tuple[meta.Toleration, ...] = ()
    capacity: CapacityRequirements | None = None


class ExactDeviceRequest(DeviceRequestParts, frozen=True, gc=False):
    """Devices of one kind."""

    admin_access: bool = False


class DeviceSubRequest(DeviceRequestParts, frozen=True, gc=False):
    """One of the alternatives of a request."""

    name: str = ""


class DeviceRequest(meta.ApiValue, frozen=True, gc=False):
    """A request: exactly these devices, or the first alternative that is available."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(meta.ApiValue, frozen=True, gc=False):
    """What all devices of some requests must have in common, or must not."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class OpaqueDeviceConfiguration(meta.ApiStruct):
    """Parameters that only a driver reads."""

    driver: str = ""
    parameters: Any = None


class DeviceClassConfiguration(meta.ApiStruct):
    """A configuration of all devices of a class."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaimConfiguration(DeviceClassConfiguration):
    """A configuration of the devices of some requests; without any, of all."""

    requests: tuple[str, ...] = ()


class DeviceAllocationConfiguration(DeviceClaimConfiguration):
    """A configuration of allocated devices: FromClass or FromClaim."""

    source: str = ""


class DeviceClaim(meta.ApiStruct):
    """The requests of a claim, their constraints and configurations."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(meta.ApiStruct):
    """What a claim requests."""

    devices: DeviceClaim = field(default_factory=DeviceClaim)


class DeviceRequestAllocationResult(meta.ApiValue, frozen=True, gc=False):
    """One device that was allocated for a request."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool = False
    tolerations: tuple[meta.Toleration, ...] = ()
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = field(default=None, name="shareID")
    consumed_capacity: dict[str, Amount] = field(default_factory=dict)


class DeviceAllocationResult(meta.ApiStruct):
    """The devices of a claim and their configurations."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(meta.ApiStruct):
    """What a claim was given, and the nodes that reach it."""

    devices: DeviceAllocationResult = field(default_factory=DeviceAllocationResult)
    node_selector: meta.NodeSelector | None = None
    allocation_timestamp: datetime | None = None


class ResourceClaimConsumerReference(meta.ApiValue, frozen=True, gc=False):
    """A consumer for which a claim is reserved."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(meta.ApiValue, frozen=True, gc=False):
    """What a driver reports of an allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = field(default=None, name="shareID")
    conditions: tuple[meta.Condition, ...] = ()


class ResourceClaimStatus(meta.ApiStruct):
    """What became of a claim."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ClaimMeta(meta.ObjectMeta):
    """A claim's metadata, its finalizers too."""

    finalizers: tuple[str, ...] = ()


class ResourceClaim(meta.ApiObject):
    """A claim of devices."""

    metadata: ClaimMeta = field(default_factory=ClaimMeta)
    spec: ResourceClaimSpec = field(default_factory=ResourceClaimSpec)
    status: ResourceClaimStatus = field(default_factory=ResourceClaimStatus)


class ResourceClaimTemplateSpec(meta.ApiStruct):
    """The claim that is made for each pod."""

    metadata: meta.ObjectMeta = field(default_factory=meta.ObjectMeta)
    spec: ResourceClaimSpec = field(default_factory=ResourceClaimSpec)


class ResourceClaimTemplate(meta.ApiObject):
    """A template of claims."""

    spec: ResourceClaimTemplateSpec = field(default_factory=ResourceClaimTemplateSpec)


class DeviceClassSpec(meta.ApiStruct):
    """What devices of a class are, their configuration, and the extended resource they serve."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(meta.ApiObject):
    """A class of devices."""

    spec: DeviceClassSpec = field(default_factory=DeviceClassSpec)


class DeviceAttribute(meta.ApiValue, frozen=True, gc=False):
    """A value of one kind; none of them is set where it is of a kind that is not known here."""

    int_value: meta.Int64 | None = field(default=None, name="int")
    bool_value: bool | None = field(default=None, name="bool")
    string: str | None = None
    version: str | None = None


class CapacityRange(meta.ApiValue, frozen=True, gc=False):
    """Amounts from a least one in steps to a largest one."""

    min: Amount | None = None
    max: Amount | None = None
    step: Amount | None = None


class CapacityRequestPolicy(meta.ApiValue, frozen=True, gc=False):
    """Which amounts of a capacity can be requested."""

    default: Amount | None = None
    valid_values: tuple[Amount, ...] = ()
    valid_range: CapacityRange | None = None


class DeviceCapacity(meta.ApiValue, frozen=True, gc=False):
    """How much of something a device has."""

    value: Amount = "0"
    request_policy: CapacityRequestPolicy | None = None


class Counter(meta.ApiValue, frozen=True, gc=False):
    """An amount of a counter."""

    value: Amount = "0"


class CounterSet(meta.ApiValue, frozen=True, gc=False):
    """Counters that devices of a pool share."""

    name: str = ""
    counters: dict[str, Counter] = field(default_factory=dict)


class DeviceCounterConsumption(meta.ApiValue, frozen=True, gc=False):
    """What a device takes of the counters of a set."""

    counter_set: str = ""
    counters: dict[str, Counter] = field(default_factory=dict)


class Device(meta.ApiStruct):
    """A device as its driver publishes it."""

    name: str = ""
    attributes: dict[str, DeviceAttribute] = field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = field(default_factory=dict)
    consumes_counters: tuple[DeviceCounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: meta.NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[meta.Taint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    allow_multiple_allocations: bool = False


class ResourcePool(meta.ApiValue, frozen=True, gc=False):
    """The pool that a slice belongs to, and of how many slices it consists."""

    name: str = ""
    generation: meta.Int64 = 0
    resource_slice_count: meta.Int64 = 0


class ResourceSliceSpec(meta.ApiStruct):
    """A part of a pool: the devices, or the counters, and the nodes that reach them."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: meta.NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(meta.ApiObject):
    """Devices of a driver on one node or on many."""

    spec: ResourceSliceSpec = field(default_factory=ResourceSliceSpec)
