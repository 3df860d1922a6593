"""Devices, claims and reservations; a table of messages (resource.k8s.io)."""

from __future__ import annotations

from typing import Final

DEVICES: Final = """
CELDeviceSelector: 1 expression s
DeviceSelector: 1 cel ?CELDeviceSelector
DeviceToleration: 1 key s, 2 operator s, 3 value s, 4 effect s, 5 tolerationSeconds ?l
DeviceTaint: 1 key s, 2 value s, 3 effect s, 4 timeAdded Time
CapacityRequirements: 1 requests map:Quantity
OpaqueDeviceConfiguration: 1 driver s, 2 parameters RawExtension
DeviceConfiguration: 1 opaque ?OpaqueDeviceConfiguration
ExactDeviceRequest: 1 deviceClassName s, 2 selectors *DeviceSelector, 3 allocationMode s, \
  4 count l, 5 adminAccess ?b, 6 tolerations *DeviceToleration, 7 capacity ?CapacityRequirements
DeviceSubRequest: 1 name s, 2 deviceClassName s, 3 selectors *DeviceSelector, 4 allocationMode s, \
  5 count l, 6 tolerations *DeviceToleration, 7 capacity ?CapacityRequirements
DeviceRequest: 1 name s, 2 exactly ?ExactDeviceRequest, 3 firstAvailable *DeviceSubRequest
DeviceConstraint: 1 requests *s, 2 matchAttribute ?s, 3 distinctAttribute ?s
DeviceClaimConfiguration: 1 requests *s, 2 - DeviceConfiguration
DeviceClaim: 1 requests *DeviceRequest, 2 constraints *DeviceConstraint, \
  3 config *DeviceClaimConfiguration
ClaimToDevicesSpec: 1 devices DeviceClaim
DeviceRequestAllocationResult: 1 request s, 2 driver s, 3 pool s, 4 device s, 5 adminAccess ?b, \
  6 tolerations *DeviceToleration, 7 bindingConditions *s, 8 bindingFailureConditions *s, \
  9 shareID ?s, 10 consumedCapacity map:Quantity
DeviceAllocationConfiguration: 1 source s, 2 requests *s, 3 - DeviceConfiguration
DeviceAllocationResult: 1 results *DeviceRequestAllocationResult, \
  2 config *DeviceAllocationConfiguration
AllocationResult: 1 devices DeviceAllocationResult, 3 nodeSelector ?NodeSelector, \
  5 allocationTimestamp Time
ConsumerReference: 1 apiGroup s, 3 resource s, 4 name s, 5 uid s
NetworkDeviceData: 1 interfaceName s, 2 ips *s, 3 hardwareAddress s
AllocatedDeviceStatus: 1 driver s, 2 pool s, 3 device s, 4 conditions *MetaCondition, \
  5 data ?RawExtension, 6 networkData ?NetworkDeviceData, 7 shareID ?s
ClaimToDevicesStatus: 1 allocation ?AllocationResult, 2 reservedFor *ConsumerReference, \
  4 devices *AllocatedDeviceStatus
resource.k8s.io/v1/ResourceClaim: 1 metadata ObjectMeta, 2 spec ClaimToDevicesSpec, \
  3 status ClaimToDevicesStatus
ClaimToDevicesTemplate: 1 metadata ObjectMeta, 2 spec ClaimToDevicesSpec
resource.k8s.io/v1/ResourceClaimTemplate: 1 metadata ObjectMeta, 2 spec ClaimToDevicesTemplate
DeviceClassConfiguration: 1 - DeviceConfiguration
DeviceClassSpec: 1 selectors *DeviceSelector, 2 config *DeviceClassConfiguration, \
  4 extendedResourceName ?s
resource.k8s.io/v1/DeviceClass: 1 metadata ObjectMeta, 2 spec DeviceClassSpec

DeviceAttribute: 2 int ?l, 3 bool ?b, 4 string ?s, 5 version ?s, - bools *b, - ints *l, \
  - strings *s, - versions *s
CapacityRange: 1 min ?Quantity, 2 max ?Quantity, 3 step ?Quantity
CapacityRequestPolicy: 1 default ?Quantity, 3 validValues *Quantity, 4 validRange ?CapacityRange
DeviceCapacity: 1 value Quantity, 2 requestPolicy ?CapacityRequestPolicy
DeviceCounter: 1 value Quantity
CounterConsumption: 1 counterSet s, 2 counters map:DeviceCounter
CounterSet: 1 name s, 2 counters map:DeviceCounter
Device: 1 name s, 2 attributes map:DeviceAttribute, 3 capacity map:DeviceCapacity, \
  4 consumesCounters *CounterConsumption, 5 nodeName ?s, 6 nodeSelector ?NodeSelector, \
  7 allNodes ?b, 8 taints *DeviceTaint, 9 bindsToNode ?b, 10 bindingConditions *s, \
  11 bindingFailureConditions *s, 12 allowMultipleAllocations ?b, \
  - nodeAllocatableResourceMappings Object
ResourcePool: 1 name s, 2 generation ?l, 3 resourceSliceCount ?l
ResourceSliceSpec: 1 driver s, 2 pool ResourcePool, 3 nodeName ?s, 4 nodeSelector ?NodeSelector, \
  5 allNodes ?b, 6 devices *Device, 7 perDeviceNodeSelection ?b, 8 sharedCounters *CounterSet
resource.k8s.io/v1/ResourceSlice: 1 metadata ObjectMeta, 2 spec ResourceSliceSpec
"""
