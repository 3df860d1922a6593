"""Kinds that schedulers, operators and kubectl send besides workloads; a table of messages."""

from __future__ import annotations

from typing import Final

SMALL: Final = """
TypeMeta: 1 apiVersion s, 2 kind s
Unknown: 1 typeMeta TypeMeta, 2 raw x, 3 contentEncoding s, 4 contentType s
OwnerReference: 1 kind s, 3 name s, 4 uid s, 5 apiVersion s, 6 controller ?b, \
  7 blockOwnerDeletion ?b
ManagedFieldsEntry: 1 manager s, 2 operation s, 3 apiVersion s, 4 time Time, 6 fieldsType s, \
  7 fieldsV1 FieldsV1, 8 subresource s
ObjectMeta: 1 name s, 2 generateName s, 3 namespace s, 4 selfLink s, 5 uid s, \
  6 resourceVersion s, 7 generation l, 8 creationTimestamp Time, 9 deletionTimestamp Time, \
  10 deletionGracePeriodSeconds ?l, 11 labels map:s, 12 annotations map:s, \
  13 ownerReferences *OwnerReference, 14 finalizers *s, 17 managedFields *ManagedFieldsEntry
Preconditions: 1 uid ?s, 2 resourceVersion ?s
DeleteOptions: 1 gracePeriodSeconds ?l, 2 preconditions Preconditions, 3 orphanDependents ?b, \
  4 propagationPolicy ?s, 5 dryRun *s, 6 ignoreStoreReadErrorWithClusterBreakingPotential ?b
LabelSelectorRequirement: 1 key s, 2 operator s, 3 values *s
LabelSelector: 1 matchLabels map:s, 2 matchExpressions *LabelSelectorRequirement
ObjectReference: 1 kind s, 2 namespace s, 3 name s, 4 uid s, 5 apiVersion s, 6 resourceVersion s, \
  7 fieldPath s
Condition: 1 type s, 2 status s, 3 lastProbeTime Time, 4 lastTransitionTime Time, 5 reason s, \
  6 message s, 7 observedGeneration l

v1/Binding: 1 metadata ObjectMeta, 2 target ObjectReference
EventSource: 1 component s, 2 host s
EventSeries: 1 count i, 2 lastObservedTime MicroTime
v1/Event: 1 metadata ObjectMeta, 2 involvedObject ObjectReference, 3 reason s, 4 message s, \
  5 source EventSource, 6 firstTimestamp Time, 7 lastTimestamp Time, 8 count i, 9 type s, \
  10 eventTime MicroTime, 11 series EventSeries, 12 action s, 13 related ObjectReference, \
  14 reportingComponent s, 15 reportingInstance s
events.k8s.io/v1/Event: 1 metadata ObjectMeta, 2 eventTime MicroTime, 3 series EventSeries, \
  4 reportingController s, 5 reportingInstance s, 6 action s, 7 reason s, \
  8 regarding ObjectReference, 9 related ObjectReference, 10 note s, 11 type s, \
  12 deprecatedSource EventSource, 13 deprecatedFirstTimestamp Time, \
  14 deprecatedLastTimestamp Time, 15 deprecatedCount i
LeaseSpec: 1 holderIdentity ?s, 2 leaseDurationSeconds ?i, 3 acquireTime MicroTime, \
  4 renewTime MicroTime, 5 leaseTransitions ?i, 6 strategy ?s, 7 preferredHolder ?s
coordination.k8s.io/v1/Lease: 1 metadata ObjectMeta, 2 spec LeaseSpec

UserInfo: 1 username s, 2 uid s, 3 groups *s, 4 extra map:ExtraValue
TokenReviewSpec: 1 token s, 2 audiences *s
TokenReviewStatus: 1 authenticated b, 2 user UserInfo, 3 error s, 4 audiences *s
authentication.k8s.io/v1/TokenReview: 1 metadata ObjectMeta, 2 spec TokenReviewSpec, \
  3 status TokenReviewStatus
SelfSubjectReviewStatus: 1 userInfo UserInfo
authentication.k8s.io/v1/SelfSubjectReview: 1 metadata ObjectMeta, 2 status SelfSubjectReviewStatus
BoundObjectReference: 1 kind s, 2 apiVersion s, 3 name s, 4 uid s
TokenRequestSpec: 1 audiences *s, 3 boundObjectRef ?BoundObjectReference, 4 expirationSeconds ?l
TokenRequestStatus: 1 token s, 2 expirationTimestamp Time
authentication.k8s.io/v1/TokenRequest: 1 metadata ObjectMeta, 2 spec TokenRequestSpec, \
  3 status TokenRequestStatus
SelectorAttributes: 1 rawSelector s, 2 requirements *LabelSelectorRequirement
ResourceAttributes: 1 namespace s, 2 verb s, 3 group s, 4 version s, 5 resource s, \
  6 subresource s, 7 name s, 8 fieldSelector ?SelectorAttributes, \
  9 labelSelector ?SelectorAttributes
NonResourceAttributes: 1 path s, 2 verb s
AccessReviewSpec: 1 resourceAttributes ?ResourceAttributes, \
  2 nonResourceAttributes ?NonResourceAttributes, 3 user s, 4 groups *s, 5 extra map:ExtraValue, \
  6 uid s
AccessReviewStatus: 1 allowed b, 2 reason s, 3 evaluationError s, 4 denied b
authorization.k8s.io/v1/SubjectAccessReview: 1 metadata ObjectMeta, 2 spec AccessReviewSpec, \
  3 status AccessReviewStatus
authorization.k8s.io/v1/LocalSubjectAccessReview: 1 metadata ObjectMeta, 2 spec AccessReviewSpec, \
  3 status AccessReviewStatus
authorization.k8s.io/v1/SelfSubjectAccessReview: 1 metadata ObjectMeta, 2 spec AccessReviewSpec, \
  3 status AccessReviewStatus
RulesReviewSpec: 1 namespace s
ResourceRule: 1 verbs *s, 2 apiGroups *s, 3 resources *s, 4 resourceNames *s
NonResourceRule: 1 verbs *s, 2 nonResourceURLs *s
RulesReviewStatus: 1 resourceRules *ResourceRule, 2 nonResourceRules *NonResourceRule, \
  3 incomplete b, 4 evaluationError s
authorization.k8s.io/v1/SelfSubjectRulesReview: 1 metadata ObjectMeta, 2 spec RulesReviewSpec, \
  3 status RulesReviewStatus
policy/v1/Eviction: 1 metadata ObjectMeta, 2 deleteOptions ?DeleteOptions
policy/v1beta1/Eviction: 1 metadata ObjectMeta, 2 deleteOptions ?DeleteOptions
ScaleSpec: 1 replicas i
ScaleStatus: 1 replicas i, 2 selector s
autoscaling/v1/Scale: 1 metadata ObjectMeta, 2 spec ScaleSpec, 3 status ScaleStatus

v1/ConfigMap: 1 metadata ObjectMeta, 2 data map:s, 3 binaryData map:x, 4 immutable ?b
v1/ServiceAccount: 1 metadata ObjectMeta, 2 secrets *ObjectReference, \
  3 imagePullSecrets *LocalObjectReference, 4 automountServiceAccountToken ?b
LocalObjectReference: 1 name s
NamespaceSpec: 1 finalizers *s
NamespaceCondition: 1 type s, 2 status s, 4 lastTransitionTime Time, 5 reason s, 6 message s
NamespaceStatus: 1 phase s, 2 conditions *NamespaceCondition
v1/Namespace: 1 metadata ObjectMeta, 2 spec NamespaceSpec, 3 status NamespaceStatus

TypedLocalObjectReference: 1 apiGroup ?s, 2 kind s, 3 name s
TypedObjectReference: 1 apiGroup ?s, 2 kind s, 3 name s, 4 namespace ?s
VolumeResourceRequirements: 1 limits map:Quantity, 2 requests map:Quantity
ClaimSpec: 1 accessModes *s, 2 resources VolumeResourceRequirements, 3 volumeName s, \
  4 selector ?LabelSelector, 5 storageClassName ?s, 6 volumeMode ?s, \
  7 dataSource ?TypedLocalObjectReference, 8 dataSourceRef ?TypedObjectReference, \
  9 volumeAttributesClassName ?s
ModifyVolumeStatus: 1 targetVolumeAttributesClassName s, 2 status s
ClaimStatus: 1 phase s, 2 accessModes *s, 3 capacity map:Quantity, 4 conditions *Condition, \
  5 allocatedResources map:Quantity, 7 allocatedResourceStatuses map:s, \
  8 currentVolumeAttributesClassName ?s, 9 modifyVolumeStatus ?ModifyVolumeStatus
v1/PersistentVolumeClaim: 1 metadata ObjectMeta, 2 spec ClaimSpec, 3 status ClaimStatus
DiskSource: 1 pdName s, 2 fsType s, 3 partition i, 4 readOnly b
BlockSource: 1 volumeID s, 2 fsType s, 3 partition i, 4 readOnly b
HostPathSource: 1 path s, 2 type ?s
NfsSource: 1 server s, 2 path s, 3 readOnly b
LocalSource: 1 path s, 2 fsType ?s
SecretReference: 1 name s, 2 namespace s
CsiSource: 1 driver s, 2 volumeHandle s, 3 readOnly b, 4 fsType s, 5 volumeAttributes map:s, \
  6 controllerPublishSecretRef ?SecretReference, 7 nodeStageSecretRef ?SecretReference, \
  8 nodePublishSecretRef ?SecretReference, 9 controllerExpandSecretRef ?SecretReference, \
  10 nodeExpandSecretRef ?SecretReference
VolumeSource: 1 gcePersistentDisk ?DiskSource, 2 awsElasticBlockStore ?BlockSource, \
  3 hostPath ?HostPathSource, 4 glusterfs ?GlusterfsVolume, 5 nfs ?NfsSource, 6 rbd ?RbdSource, \
  7 iscsi ?IscsiSource, 8 cinder ?CinderSource, 9 cephfs ?CephFsSource, 10 fc ?FcSource, \
  11 flocker ?FlockerSource, 12 flexVolume ?FlexSource, 13 azureFile ?AzureFileSource, \
  14 vsphereVolume ?VsphereSource, 15 quobyte ?QuobyteSource, 16 azureDisk ?AzureDiskSource, \
  17 photonPersistentDisk ?PhotonSource, 18 portworxVolume ?PortworxSource, \
  19 scaleIO ?ScaleIoSource, 20 local ?LocalSource, 21 storageos ?StorageOsSource, \
  22 csi ?CsiSource
GlusterfsVolume: 1 endpoints s, 2 path s, 3 readOnly b, 4 endpointsNamespace ?s
RbdSource: 1 monitors *s, 2 image s, 3 fsType s, 4 pool s, 5 user s, 6 keyring s, \
  7 secretRef ?SecretReference, 8 readOnly b
IscsiSource: 1 targetPortal s, 2 iqn s, 3 lun i, 4 iscsiInterface s, 5 fsType s, 6 readOnly b, \
  7 portals *s, 8 chapAuthDiscovery b, 10 secretRef ?SecretReference, 11 chapAuthSession b, \
  12 initiatorName ?s
CinderSource: 1 volumeID s, 2 fsType s, 3 readOnly b, 4 secretRef ?SecretReference
CephFsSource: 1 monitors *s, 2 path s, 3 user s, 4 secretFile s, 5 secretRef ?SecretReference, \
  6 readOnly b
FlexSource: 1 driver s, 2 fsType s, 3 secretRef ?SecretReference, 4 readOnly b, 5 options map:s
AzureFileSource: 1 secretName s, 2 shareName s, 3 readOnly b, 4 secretNamespace ?s
ScaleIoSource: 1 gateway s, 2 system s, 3 secretRef ?SecretReference, 4 sslEnabled b, \
  5 protectionDomain s, 6 storagePool s, 7 storageMode s, 8 volumeName s, 9 fsType s, \
  10 readOnly b
StorageOsSource: 1 volumeName s, 2 volumeNamespace s, 3 fsType s, 4 readOnly b, \
  5 secretRef ?ObjectReference
NodeSelectorRequirement: 1 key s, 2 operator s, 3 values *s
NodeSelectorTerm: 1 matchExpressions *NodeSelectorRequirement, \
  2 matchFields *NodeSelectorRequirement
NodeSelector: 1 nodeSelectorTerms *NodeSelectorTerm
VolumeNodeAffinity: 1 required ?NodeSelector
VolumeSpec: 1 capacity map:Quantity, 2 - VolumeSource, 3 accessModes *s, \
  4 claimRef ?ObjectReference, 5 persistentVolumeReclaimPolicy s, 6 storageClassName s, \
  7 mountOptions *s, 8 volumeMode ?s, 9 nodeAffinity ?VolumeNodeAffinity, \
  10 volumeAttributesClassName ?s
VolumeStatus: 1 phase s, 2 message s, 3 reason s, 4 lastPhaseTransitionTime Time
v1/PersistentVolume: 1 metadata ObjectMeta, 2 spec VolumeSpec, 3 status VolumeStatus

v1/Secret: 1 metadata ObjectMeta, 2 data map:x, 3 type s, 4 stringData map:s, 5 immutable ?b
PolicyRule: 1 verbs *s, 2 apiGroups *s, 3 resources *s, 4 resourceNames *s, 5 nonResourceURLs *s
AggregationRule: 1 clusterRoleSelectors *LabelSelector
rbac.authorization.k8s.io/v1/Role: 1 metadata ObjectMeta, 2 rules *PolicyRule
rbac.authorization.k8s.io/v1/ClusterRole: 1 metadata ObjectMeta, 2 rules *PolicyRule, \
  3 aggregationRule ?AggregationRule
Subject: 1 kind s, 2 apiGroup s, 3 name s, 4 namespace s
RoleRef: 1 apiGroup s, 2 kind s, 3 name s
rbac.authorization.k8s.io/v1/RoleBinding: 1 metadata ObjectMeta, 2 subjects *Subject, \
  3 roleRef RoleRef
rbac.authorization.k8s.io/v1/ClusterRoleBinding: 1 metadata ObjectMeta, 2 subjects *Subject, \
  3 roleRef RoleRef
scheduling.k8s.io/v1/PriorityClass: 1 metadata ObjectMeta, 2 value i, 3 globalDefault b, \
  4 description s, 5 preemptionPolicy ?s
MetaCondition: 1 type s, 2 status s, 3 observedGeneration l, 4 lastTransitionTime Time, \
  5 reason s, 6 message s
BudgetSpec: 1 minAvailable ?IntOrString, 2 selector ?LabelSelector, \
  3 maxUnavailable ?IntOrString, 4 unhealthyPodEvictionPolicy ?s
BudgetStatus: 1 observedGeneration l, 2 disruptedPods map:Time, 3 disruptionsAllowed i, \
  4 currentHealthy i, 5 desiredHealthy i, 6 expectedPods i, 7 conditions *MetaCondition
policy/v1/PodDisruptionBudget: 1 metadata ObjectMeta, 2 spec BudgetSpec, 3 status BudgetStatus
ScopedRequirement: 1 scopeName s, 2 operator s, 3 values *s
ScopeSelector: 1 matchExpressions *ScopedRequirement
QuotaSpec: 1 hard map:Quantity, 2 scopes *s, 3 scopeSelector ?ScopeSelector
QuotaStatus: 1 hard map:Quantity, 2 used map:Quantity
v1/ResourceQuota: 1 metadata ObjectMeta, 2 spec QuotaSpec, 3 status QuotaStatus

LimitRangeItem: 1 type s, 2 max map:Quantity, 3 min map:Quantity, 4 default map:Quantity, \
  5 defaultRequest map:Quantity, 6 maxLimitRequestRatio map:Quantity
LimitRangeSpec: 1 limits *LimitRangeItem
v1/LimitRange: 1 metadata ObjectMeta, 2 spec LimitRangeSpec

CrossVersionReference: 1 kind s, 2 name s, 3 apiVersion s
autoscaling/v1/HorizontalPodAutoscaler: 1 metadata ObjectMeta, 2 spec AutoscalerSpecV1, \
  3 status AutoscalerStatusV1
AutoscalerSpecV1: 1 scaleTargetRef CrossVersionReference, 2 minReplicas ?i, 3 maxReplicas i, \
  4 targetCPUUtilizationPercentage ?i
AutoscalerStatusV1: 1 observedGeneration ?l, 2 lastScaleTime Time, 3 currentReplicas i, \
  4 desiredReplicas i, 5 currentCPUUtilizationPercentage ?i
MetricTarget: 1 type s, 2 value ?Quantity, 3 averageValue ?Quantity, 4 averageUtilization ?i
MetricIdentifier: 1 name s, 2 selector ?LabelSelector
ObjectMetric: 1 describedObject CrossVersionReference, 2 target MetricTarget, \
  3 metric MetricIdentifier
PodsMetric: 1 metric MetricIdentifier, 2 target MetricTarget
ResourceMetric: 1 name s, 2 target MetricTarget
ContainerMetric: 1 name s, 2 target MetricTarget, 3 container s
MetricSpec: 1 type s, 2 object ?ObjectMetric, 3 pods ?PodsMetric, 4 resource ?ResourceMetric, \
  5 external ?PodsMetric, 7 containerResource ?ContainerMetric
ScalingPolicy: 1 type s, 2 value i, 3 periodSeconds i
ScalingRules: 1 selectPolicy ?s, 2 policies *ScalingPolicy, 3 stabilizationWindowSeconds ?i, \
  4 tolerance ?Quantity
ScalingBehavior: 1 scaleUp ?ScalingRules, 2 scaleDown ?ScalingRules
AutoscalerSpec: 1 scaleTargetRef CrossVersionReference, 2 minReplicas ?i, 3 maxReplicas i, \
  4 metrics *MetricSpec, 5 behavior ?ScalingBehavior
AutoscalerCondition: 1 type s, 2 status s, 3 lastTransitionTime Time, 4 reason s, 5 message s, \
  - observedGeneration l
AutoscalerStatus: 1 observedGeneration ?l, 2 lastScaleTime Time, 3 currentReplicas i, \
  4 desiredReplicas i, 5 currentMetrics *MetricStatus, 6 conditions *AutoscalerCondition
MetricValueStatus: 1 value ?Quantity, 2 averageValue ?Quantity, 3 averageUtilization ?i
ObjectMetricStatus: 1 metric MetricIdentifier, 2 current MetricValueStatus, \
  3 describedObject CrossVersionReference
PodsMetricStatus: 1 metric MetricIdentifier, 2 current MetricValueStatus
ResourceMetricStatus: 1 name s, 2 current MetricValueStatus
ContainerMetricStatus: 1 name s, 2 current MetricValueStatus, 3 container s
MetricStatus: 1 type s, 2 object ?ObjectMetricStatus, 3 pods ?PodsMetricStatus, \
  4 resource ?ResourceMetricStatus, 5 external ?PodsMetricStatus, \
  7 containerResource ?ContainerMetricStatus
autoscaling/v2/HorizontalPodAutoscaler: 1 metadata ObjectMeta, 2 spec AutoscalerSpec, \
  3 status AutoscalerStatus

ServicePort: 1 name s, 2 protocol s, 3 port i, 4 targetPort IntOrString, 5 nodePort i, \
  6 appProtocol ?s
ServiceSpec: 1 ports *ServicePort, 2 selector map:s, 3 clusterIP s, 4 type s, 5 externalIPs *s, \
  7 sessionAffinity s, 8 loadBalancerIP s, 9 loadBalancerSourceRanges *s, 10 externalName s, \
  11 externalTrafficPolicy s, 12 healthCheckNodePort i, 13 publishNotReadyAddresses b, \
  14 sessionAffinityConfig ?SessionAffinityConfig, 17 ipFamilyPolicy ?s, 18 clusterIPs *s, \
  19 ipFamilies *s, 20 allocateLoadBalancerNodePorts ?b, 21 loadBalancerClass ?s, \
  22 internalTrafficPolicy ?s, 23 trafficDistribution ?s
ClientIPConfig: 1 timeoutSeconds ?i
SessionAffinityConfig: 1 clientIP ?ClientIPConfig
PortStatus: 1 port i, 2 protocol s, 3 error ?s
LoadBalancerIngress: 1 ip s, 2 hostname s, 3 ipMode ?s, 4 ports *PortStatus
LoadBalancerStatus: 1 ingress *LoadBalancerIngress
ServiceStatus: 1 loadBalancer LoadBalancerStatus, 2 conditions *MetaCondition
v1/Service: 1 metadata ObjectMeta, 2 spec ServiceSpec, 3 status ServiceStatus
BackendPort: 1 name s, 2 number i
BackendService: 1 name s, 2 port BackendPort
IngressBackend: 3 resource ?TypedLocalObjectReference, 4 service ?BackendService
HttpPath: 1 path s, 2 backend IngressBackend, 3 pathType ?s
HttpRule: 1 paths *HttpPath
IngressRuleValue: 1 http ?HttpRule
IngressRule: 1 host s, 2 - IngressRuleValue
IngressTls: 1 hosts *s, 2 secretName s
IngressSpec: 1 defaultBackend ?IngressBackend, 2 tls *IngressTls, 3 rules *IngressRule, \
  4 ingressClassName ?s
IngressStatus: 1 loadBalancer LoadBalancerStatus
networking.k8s.io/v1/Ingress: 1 metadata ObjectMeta, 2 spec IngressSpec, 3 status IngressStatus
"""
