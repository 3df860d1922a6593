"""Nodes and what storage there is; a table of messages."""

from __future__ import annotations

from typing import Final

CLUSTER: Final = """
Taint: 1 key s, 2 value s, 3 effect s, 4 timeAdded Time
NodeSpec: 1 podCIDR s, 2 externalID s, 3 providerID s, 4 unschedulable b, 5 taints *Taint, \
  7 podCIDRs *s
NodeCondition: 1 type s, 2 status s, 3 lastHeartbeatTime Time, 4 lastTransitionTime Time, \
  5 reason s, 6 message s
NodeAddress: 1 type s, 2 address s
DaemonEndpoint: 1 Port i
NodeDaemonEndpoints: 1 kubeletEndpoint DaemonEndpoint
NodeSystemInfo: 1 machineID s, 2 systemUUID s, 3 bootID s, 4 kernelVersion s, 5 osImage s, \
  6 containerRuntimeVersion s, 7 kubeletVersion s, 8 kubeProxyVersion s, 9 operatingSystem s, \
  10 architecture s
ContainerImage: 1 names *s, 2 sizeBytes i
AttachedVolume: 1 name s, 2 devicePath s
NodeStatus: 1 capacity map:Quantity, 2 allocatable map:Quantity, 3 phase s, \
  4 conditions *NodeCondition, 5 addresses *NodeAddress, 6 daemonEndpoints NodeDaemonEndpoints, \
  7 nodeInfo NodeSystemInfo, 8 images *ContainerImage, 9 volumesInUse *s, \
  10 volumesAttached *AttachedVolume
v1/Node: 1 metadata ObjectMeta, 2 spec NodeSpec, 3 status NodeStatus

TopologyRequirement: 1 key s, 2 values *s
TopologySelectorTerm: 1 matchLabelExpressions *TopologyRequirement
storage.k8s.io/v1/StorageClass: 1 metadata ObjectMeta, 2 provisioner s, 3 parameters map:s, \
  4 reclaimPolicy ?s, 5 mountOptions *s, 6 allowVolumeExpansion ?b, 7 volumeBindingMode ?s, \
  8 allowedTopologies *TopologySelectorTerm
VolumeNodeResources: 1 count ?i
CSINodeDriver: 1 name s, 2 nodeID s, 3 topologyKeys *s, 4 allocatable ?VolumeNodeResources
CSINodeSpec: 1 drivers *CSINodeDriver
storage.k8s.io/v1/CSINode: 1 metadata ObjectMeta, 2 spec CSINodeSpec
CSITokenRequest: 1 audience s, 2 expirationSeconds ?i
CSIDriverSpec: 1 attachRequired ?b, 2 podInfoOnMount ?b, 3 volumeLifecycleModes *s, \
  4 storageCapacity ?b, 5 fsGroupPolicy ?s, 6 tokenRequests *CSITokenRequest, \
  7 requiresRepublish ?b, 8 seLinuxMount ?b, 9 nodeAllocatableUpdatePeriodSeconds ?i
storage.k8s.io/v1/CSIDriver: 1 metadata ObjectMeta, 2 spec CSIDriverSpec
"""
