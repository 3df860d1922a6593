"""Nodes and what storage there is; a table of messages."""

from __future__ import annotations

from typing import Final

CLUSTER: Final = """
Taint: 1 key s, 2 value s, 3 effect s, 4 timeAdded Time
NodeSpec: 1 podCIDR s, 2 externalID s, 3 providerID s, 4 unschedulable b, 5 taints *Taint, \
  6 configSource ?NodeConfigSource, 7 podCIDRs *s
NodeConfigMap: 1 namespace s, 2 name s, 3 uid s, 4 resourceVersion s, 5 kubeletConfigKey s
NodeConfigSource: 2 configMap ?NodeConfigMap
NodeConfigStatus: 1 assigned ?NodeConfigSource, 2 active ?NodeConfigSource, \
  3 lastKnownGood ?NodeConfigSource, 4 error s
RuntimeHandlerFeatures: 1 recursiveReadOnlyMounts ?b, 2 userNamespaces ?b
RuntimeHandler: 1 name s, 2 features ?RuntimeHandlerFeatures
NodeFeatures: 1 supplementalGroupsPolicy ?b
NodeSwapStatus: 1 capacity ?l
NodeCondition: 1 type s, 2 status s, 3 lastHeartbeatTime Time, 4 lastTransitionTime Time, \
  5 reason s, 6 message s
NodeAddress: 1 type s, 2 address s
DaemonEndpoint: 1 Port i
NodeDaemonEndpoints: 1 kubeletEndpoint DaemonEndpoint
NodeSystemInfo: 1 machineID s, 2 systemUUID s, 3 bootID s, 4 kernelVersion s, 5 osImage s, \
  6 containerRuntimeVersion s, 7 kubeletVersion s, 8 kubeProxyVersion s, 9 operatingSystem s, \
  10 architecture s, 11 swap ?NodeSwapStatus, - runningInUserNamespace ?b
ContainerImage: 1 names *s, 2 sizeBytes l
AttachedVolume: 1 name s, 2 devicePath s
NodeStatus: 1 capacity map:Quantity, 2 allocatable map:Quantity, 3 phase s, \
  4 conditions *NodeCondition, 5 addresses *NodeAddress, 6 daemonEndpoints NodeDaemonEndpoints, \
  7 nodeInfo NodeSystemInfo, 8 images *ContainerImage, 9 volumesInUse *s, \
  10 volumesAttached *AttachedVolume, 11 config ?NodeConfigStatus, \
  12 runtimeHandlers *RuntimeHandler, 13 features ?NodeFeatures, 14 declaredFeatures *s
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
CSITokenRequest: 1 audience s, 2 expirationSeconds ?l
CSIDriverSpec: 1 attachRequired ?b, 2 podInfoOnMount ?b, 3 volumeLifecycleModes *s, \
  4 storageCapacity ?b, 5 fsGroupPolicy ?s, 6 tokenRequests *CSITokenRequest, \
  7 requiresRepublish ?b, 8 seLinuxMount ?b, 9 nodeAllocatableUpdatePeriodSeconds ?l, \
  10 serviceAccountTokenInSecrets ?b, - preventPodSchedulingIfMissing ?b
storage.k8s.io/v1/CSIDriver: 1 metadata ObjectMeta, 2 spec CSIDriverSpec
"""
