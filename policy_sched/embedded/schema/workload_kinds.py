"""Pods and what makes them; a table of messages."""

from __future__ import annotations

from typing import Final

WORKLOADS: Final = """
ContainerPort: 1 name s, 2 hostPort i, 3 containerPort i, 4 protocol s, 5 hostIP s
ObjectFieldSelector: 1 apiVersion s, 2 fieldPath s
ResourceFieldSelector: 1 containerName s, 2 resource s, 3 divisor Quantity
KeySelector: 1 - LocalObjectReference, 2 key s, 3 optional ?b
EnvVarSource: 1 fieldRef ?ObjectFieldSelector, 2 resourceFieldRef ?ResourceFieldSelector, \
  3 configMapKeyRef ?KeySelector, 4 secretKeyRef ?KeySelector, 5 fileKeyRef ?FileKeySelector
FileKeySelector: 1 volumeName s, 2 path s, 3 key s, 4 optional ?b
EnvVar: 1 name s, 2 value s, 3 valueFrom ?EnvVarSource
EnvSource: 1 - LocalObjectReference, 2 optional ?b
EnvFromSource: 1 prefix s, 2 configMapRef ?EnvSource, 3 secretRef ?EnvSource
ResourceClaim: 1 name s, 2 request s
ResourceRequirements: 1 limits map:Quantity, 2 requests map:Quantity, 3 claims *ResourceClaim
VolumeMount: 1 name s, 2 readOnly b, 3 mountPath s, 4 subPath s, 5 mountPropagation ?s, \
  6 subPathExpr s, 7 recursiveReadOnly ?s
VolumeDevice: 1 name s, 2 devicePath s
ContainerResizePolicy: 1 resourceName s, 2 restartPolicy s
ExecAction: 1 command *s
HTTPHeader: 1 name s, 2 value s
HTTPGetAction: 1 path s, 2 port IntOrString, 3 host s, 4 scheme s, 5 httpHeaders *HTTPHeader
TCPSocketAction: 1 port IntOrString, 2 host s
GRPCAction: 1 port i, 2 service ?s
ProbeHandler: 1 exec ?ExecAction, 2 httpGet ?HTTPGetAction, 3 tcpSocket ?TCPSocketAction, \
  4 grpc ?GRPCAction
Probe: 1 - ProbeHandler, 2 initialDelaySeconds i, 3 timeoutSeconds i, 4 periodSeconds i, \
  5 successThreshold i, 6 failureThreshold i, 7 terminationGracePeriodSeconds ?l
SleepAction: 1 seconds l
LifecycleHandler: 1 exec ?ExecAction, 2 httpGet ?HTTPGetAction, 3 tcpSocket ?TCPSocketAction, \
  4 sleep ?SleepAction
Lifecycle: 1 postStart ?LifecycleHandler, 2 preStop ?LifecycleHandler, 3 stopSignal ?s
WindowsOptions: 1 gmsaCredentialSpecName ?s, 2 gmsaCredentialSpec ?s, 3 runAsUserName ?s, \
  4 hostProcess ?b
Capabilities: 1 add *s, 2 drop *s
SELinuxOptions: 1 user s, 2 role s, 3 type s, 4 level s
SecurityProfile: 1 type s, 2 localhostProfile ?s
SecurityContext: 1 capabilities ?Capabilities, 2 privileged ?b, 3 seLinuxOptions ?SELinuxOptions, \
  4 runAsUser ?l, 5 runAsNonRoot ?b, 6 readOnlyRootFilesystem ?b, 7 allowPrivilegeEscalation ?b, \
  8 runAsGroup ?l, 9 procMount ?s, 10 windowsOptions ?WindowsOptions, \
  11 seccompProfile ?SecurityProfile, 12 appArmorProfile ?SecurityProfile
Container: 1 name s, 2 image s, 3 command *s, 4 args *s, 5 workingDir s, 6 ports *ContainerPort, \
  7 env *EnvVar, 8 resources ResourceRequirements, 9 volumeMounts *VolumeMount, \
  10 livenessProbe ?Probe, 11 readinessProbe ?Probe, 12 lifecycle ?Lifecycle, \
  13 terminationMessagePath s, 14 imagePullPolicy s, 15 securityContext ?SecurityContext, \
  16 stdin b, 17 stdinOnce b, 18 tty b, 19 envFrom *EnvFromSource, 20 terminationMessagePolicy s, \
  21 volumeDevices *VolumeDevice, 22 startupProbe ?Probe, 23 resizePolicy *ContainerResizePolicy, \
  24 restartPolicy ?s, 25 restartPolicyRules *RestartRule
RestartRule: 1 action s, 2 exitCodes ?RestartExitCodes
RestartExitCodes: 1 operator s, 2 values *i
EphemeralContainer: 1 - Container, 2 targetContainerName s

Toleration: 1 key s, 2 operator s, 3 value s, 4 effect s, 5 tolerationSeconds ?l
PreferredSchedulingTerm: 1 weight i, 2 preference NodeSelectorTerm
NodeAffinity: 1 requiredDuringSchedulingIgnoredDuringExecution ?NodeSelector, \
  2 preferredDuringSchedulingIgnoredDuringExecution *PreferredSchedulingTerm
PodAffinityTerm: 1 labelSelector ?LabelSelector, 2 namespaces *s, 3 topologyKey s, \
  4 namespaceSelector ?LabelSelector, 5 matchLabelKeys *s, 6 mismatchLabelKeys *s
WeightedPodAffinityTerm: 1 weight i, 2 podAffinityTerm PodAffinityTerm
PodAffinity: 1 requiredDuringSchedulingIgnoredDuringExecution *PodAffinityTerm, \
  2 preferredDuringSchedulingIgnoredDuringExecution *WeightedPodAffinityTerm
Affinity: 1 nodeAffinity ?NodeAffinity, 2 podAffinity ?PodAffinity, 3 podAntiAffinity ?PodAffinity
TopologySpreadConstraint: 1 maxSkew i, 2 topologyKey s, 3 whenUnsatisfiable s, \
  4 labelSelector ?LabelSelector, 5 minDomains ?i, 6 nodeAffinityPolicy ?s, \
  7 nodeTaintsPolicy ?s, 8 matchLabelKeys *s
PodSchedulingGate: 1 name s
PodReadinessGate: 1 conditionType s
HostAlias: 1 ip s, 2 hostnames *s
PodOs: 1 name s
PodResourceClaim: 1 name s, 3 resourceClaimName ?s, 4 resourceClaimTemplateName ?s
Sysctl: 1 name s, 2 value s
PodSecurityContext: 1 seLinuxOptions ?SELinuxOptions, 2 runAsUser ?l, 3 runAsNonRoot ?b, \
  4 supplementalGroups *l, 5 fsGroup ?l, 6 runAsGroup ?l, 7 sysctls *Sysctl, \
  8 windowsOptions ?WindowsOptions, 9 fsGroupChangePolicy ?s, 10 seccompProfile ?SecurityProfile, \
  11 appArmorProfile ?SecurityProfile, 12 supplementalGroupsPolicy ?s, 13 seLinuxChangePolicy ?s
DnsOption: 1 name s, 2 value ?s
DnsConfig: 1 nameservers *s, 2 searches *s, 3 options *DnsOption

EmptyDir: 1 medium s, 2 sizeLimit ?Quantity
KeyToPath: 1 key s, 2 path s, 3 mode ?i
SecretVolume: 1 secretName s, 2 items *KeyToPath, 3 defaultMode ?i, 4 optional ?b
ConfigMapVolume: 1 - LocalObjectReference, 2 items *KeyToPath, 3 defaultMode ?i, 4 optional ?b
ClaimVolume: 1 claimName s, 2 readOnly b
PodVolumeSource: 1 hostPath ?HostPathSource, 2 emptyDir ?EmptyDir, \
  3 gcePersistentDisk ?DiskSource, 4 awsElasticBlockStore ?BlockSource, 6 secret ?SecretVolume, \
  5 gitRepo ?GitRepoSource, 7 nfs ?NfsSource, 8 iscsi ?IscsiVolume, 9 glusterfs ?GlusterfsSource, \
  10 persistentVolumeClaim ?ClaimVolume, 11 rbd ?RbdVolume, 12 flexVolume ?FlexVolume, \
  13 cinder ?CinderVolume, 14 cephfs ?CephFsVolume, 15 flocker ?FlockerSource, \
  16 downwardAPI ?DownwardVolume, 17 fc ?FcSource, 18 azureFile ?AzureFileVolume, \
  19 configMap ?ConfigMapVolume, 20 vsphereVolume ?VsphereSource, 21 quobyte ?QuobyteSource, \
  22 azureDisk ?AzureDiskSource, 23 photonPersistentDisk ?PhotonSource, \
  24 portworxVolume ?PortworxSource, 25 scaleIO ?ScaleIoVolume, 26 projected ?ProjectedVolume, \
  27 storageos ?StorageOsVolume, 28 csi ?CsiVolume, 29 ephemeral ?EphemeralVolume, \
  30 image ?ImageVolume
GitRepoSource: 1 repository s, 2 revision s, 3 directory s
IscsiVolume: 1 targetPortal s, 2 iqn s, 3 lun i, 4 iscsiInterface s, 5 fsType s, 6 readOnly b, \
  7 portals *s, 8 chapAuthDiscovery b, 10 secretRef ?LocalObjectReference, 11 chapAuthSession b, \
  12 initiatorName ?s
GlusterfsSource: 1 endpoints s, 2 path s, 3 readOnly b
RbdVolume: 1 monitors *s, 2 image s, 3 fsType s, 4 pool s, 5 user s, 6 keyring s, \
  7 secretRef ?LocalObjectReference, 8 readOnly b
FlexVolume: 1 driver s, 2 fsType s, 3 secretRef ?LocalObjectReference, 4 readOnly b, 5 options map:s
CinderVolume: 1 volumeID s, 2 fsType s, 3 readOnly b, 4 secretRef ?LocalObjectReference
CephFsVolume: 1 monitors *s, 2 path s, 3 user s, 4 secretFile s, \
  5 secretRef ?LocalObjectReference, 6 readOnly b
FlockerSource: 1 datasetName s, 2 datasetUUID s
DownwardFile: 1 path s, 2 fieldRef ?ObjectFieldSelector, \
  3 resourceFieldRef ?ResourceFieldSelector, 4 mode ?i
DownwardVolume: 1 items *DownwardFile, 2 defaultMode ?i
FcSource: 1 targetWWNs *s, 2 lun ?i, 3 fsType s, 4 readOnly b, 5 wwids *s
AzureFileVolume: 1 secretName s, 2 shareName s, 3 readOnly b
VsphereSource: 1 volumePath s, 2 fsType s, 3 storagePolicyName s, 4 storagePolicyID s
QuobyteSource: 1 registry s, 2 volume s, 3 readOnly b, 4 user s, 5 group s, 6 tenant s
AzureDiskSource: 1 diskName s, 2 diskURI s, 3 cachingMode ?s, 4 fsType ?s, 5 readOnly ?b, 6 kind ?s
PhotonSource: 1 pdID s, 2 fsType s
PortworxSource: 1 volumeID s, 2 fsType s, 3 readOnly b
ScaleIoVolume: 1 gateway s, 2 system s, 3 secretRef ?LocalObjectReference, 4 sslEnabled b, \
  5 protectionDomain s, 6 storagePool s, 7 storageMode s, 8 volumeName s, 9 fsType s, \
  10 readOnly b
SecretProjection: 1 - LocalObjectReference, 2 items *KeyToPath, 4 optional ?b
DownwardProjection: 1 items *DownwardFile
TokenProjection: 1 audience s, 2 expirationSeconds ?l, 3 path s
TrustBundleProjection: 1 name ?s, 2 signerName ?s, 3 labelSelector ?LabelSelector, 4 path s, \
  5 optional ?b
CertificateProjection: 1 signerName s, 2 keyType s, 3 maxExpirationSeconds ?i, \
  4 credentialBundlePath s, 5 keyPath s, 6 certificateChainPath s, 7 userAnnotations map:s
VolumeProjection: 1 secret ?SecretProjection, 2 downwardAPI ?DownwardProjection, \
  3 configMap ?SecretProjection, 4 serviceAccountToken ?TokenProjection, \
  5 clusterTrustBundle ?TrustBundleProjection, 6 podCertificate ?CertificateProjection
ProjectedVolume: 1 sources *VolumeProjection, 2 defaultMode ?i
StorageOsVolume: 1 volumeName s, 2 volumeNamespace s, 3 fsType s, 4 readOnly b, \
  5 secretRef ?LocalObjectReference
CsiVolume: 1 driver s, 2 readOnly ?b, 3 fsType ?s, 4 volumeAttributes map:s, \
  5 nodePublishSecretRef ?LocalObjectReference
ClaimTemplate: 1 metadata ObjectMeta, 2 spec ClaimSpec
EphemeralVolume: 1 volumeClaimTemplate ?ClaimTemplate
ImageVolume: 1 reference s, 2 pullPolicy s
Volume: 1 name s, 2 - PodVolumeSource
PodSpec: 1 volumes *Volume, 2 containers *Container, 3 restartPolicy s, \
  4 terminationGracePeriodSeconds ?l, 5 activeDeadlineSeconds ?l, 6 dnsPolicy s, \
  7 nodeSelector map:s, 8 serviceAccountName s, 9 serviceAccount s, 10 nodeName s, \
  11 hostNetwork b, 12 hostPID b, 13 hostIPC b, 14 securityContext ?PodSecurityContext, \
  15 imagePullSecrets *LocalObjectReference, 16 hostname s, 17 subdomain s, \
  18 affinity ?Affinity, 19 schedulerName s, 20 initContainers *Container, \
  21 automountServiceAccountToken ?b, 22 tolerations *Toleration, 23 hostAliases *HostAlias, \
  24 priorityClassName s, 25 priority ?i, 26 dnsConfig ?DnsConfig, 27 shareProcessNamespace ?b, \
  28 readinessGates *PodReadinessGate, 29 runtimeClassName ?s, 30 enableServiceLinks ?b, \
  31 preemptionPolicy ?s, 32 overhead map:Quantity, \
  33 topologySpreadConstraints *TopologySpreadConstraint, \
  34 ephemeralContainers *EphemeralContainer, 35 setHostnameAsFQDN ?b, 36 os ?PodOs, \
  37 hostUsers ?b, 38 schedulingGates *PodSchedulingGate, 39 resourceClaims *PodResourceClaim, \
  40 resources ?ResourceRequirements, 41 hostnameOverride ?s, - workloadRef Object, \
  - schedulingGroup ?SchedulingGroup
SchedulingGroup: 1 podGroupName ?s
ContainerStateWaiting: 1 reason s, 2 message s
ContainerStateRunning: 1 startedAt Time
ContainerStateTerminated: 1 exitCode i, 2 signal i, 3 reason s, 4 message s, 5 startedAt Time, \
  6 finishedAt Time, 7 containerID s
ContainerState: 1 waiting ?ContainerStateWaiting, 2 running ?ContainerStateRunning, \
  3 terminated ?ContainerStateTerminated
VolumeMountStatus: 1 name s, 2 mountPath s, 3 readOnly b, 4 recursiveReadOnly ?s, \
  - volumeStatus Object
LinuxContainerUser: 1 uid l, 2 gid l, 3 supplementalGroups *l
ContainerUser: 1 linux ?LinuxContainerUser
ResourceHealth: 1 resourceID s, 2 health s, - message ?s
ResourceStatus: 1 name s, 2 resources *ResourceHealth
ContainerStatus: 1 name s, 2 state ContainerState, 3 lastState ContainerState, 4 ready b, \
  5 restartCount i, 6 image s, 7 imageID s, 8 containerID s, 9 started ?b, \
  10 allocatedResources map:Quantity, 11 resources ?ResourceRequirements, \
  12 volumeMounts *VolumeMountStatus, 13 user ?ContainerUser, \
  14 allocatedResourcesStatus *ResourceStatus, 15 stopSignal ?s
PodIP: 1 ip s
PodClaimStatus: 1 name s, 2 resourceClaimName ?s
ExtendedResourceRequest: 1 containerName s, 2 resourceName s, 3 requestName s
ExtendedResourceClaimStatus: 1 requestMappings *ExtendedResourceRequest, 2 resourceClaimName s
PodStatus: 1 phase s, 2 conditions *Condition, 3 message s, 4 reason s, 5 hostIP s, 6 podIP s, \
  7 startTime Time, 8 containerStatuses *ContainerStatus, 9 qosClass s, \
  10 initContainerStatuses *ContainerStatus, 11 nominatedNodeName s, 12 podIPs *PodIP, \
  13 ephemeralContainerStatuses *ContainerStatus, 14 resize s, \
  15 resourceClaimStatuses *PodClaimStatus, 16 hostIPs *PodIP, 17 observedGeneration l, \
  18 extendedResourceClaimStatus ?ExtendedResourceClaimStatus, 19 allocatedResources map:Quantity, \
  20 resources ?ResourceRequirements, - nodeAllocatableResourceClaimStatuses *Object
v1/Pod: 1 metadata ObjectMeta, 2 spec PodSpec, 3 status PodStatus
PodTemplateSpec: 1 metadata ObjectMeta, 2 spec PodSpec
v1/PodTemplate: 1 metadata ObjectMeta, 2 template PodTemplateSpec

RollingUpdate: 1 maxUnavailable ?IntOrString, 2 maxSurge ?IntOrString
DeploymentStrategy: 1 type s, 2 rollingUpdate ?RollingUpdate
DeploymentSpec: 1 replicas ?i, 2 selector ?LabelSelector, 3 template PodTemplateSpec, \
  4 strategy DeploymentStrategy, 5 minReadySeconds i, 6 revisionHistoryLimit ?i, 7 paused b, \
  9 progressDeadlineSeconds ?i
DeploymentCondition: 1 type s, 2 status s, 4 reason s, 5 message s, 6 lastUpdateTime Time, \
  7 lastTransitionTime Time
DeploymentStatus: 1 observedGeneration l, 2 replicas i, 3 updatedReplicas i, \
  4 availableReplicas i, 5 unavailableReplicas i, 6 conditions *DeploymentCondition, \
  7 readyReplicas i, 8 collisionCount ?i, 9 terminatingReplicas ?i
apps/v1/Deployment: 1 metadata ObjectMeta, 2 spec DeploymentSpec, 3 status DeploymentStatus
SetCondition: 1 type s, 2 status s, 3 lastTransitionTime Time, 4 reason s, 5 message s
ReplicaSetSpec: 1 replicas ?i, 2 selector ?LabelSelector, 3 template PodTemplateSpec, \
  4 minReadySeconds i
ReplicaSetStatus: 1 replicas i, 2 fullyLabeledReplicas i, 3 observedGeneration l, \
  4 readyReplicas i, 5 availableReplicas i, 6 conditions *SetCondition, 7 terminatingReplicas ?i
apps/v1/ReplicaSet: 1 metadata ObjectMeta, 2 spec ReplicaSetSpec, 3 status ReplicaSetStatus
StatefulRollingUpdate: 1 partition ?i, 2 maxUnavailable ?IntOrString
StatefulUpdateStrategy: 1 type s, 2 rollingUpdate ?StatefulRollingUpdate
ClaimRetentionPolicy: 1 whenDeleted s, 2 whenScaled s
StatefulOrdinals: 1 start i
StatefulSetSpec: 1 replicas ?i, 2 selector ?LabelSelector, 3 template PodTemplateSpec, \
  4 volumeClaimTemplates *v1/PersistentVolumeClaim, 5 serviceName s, 6 podManagementPolicy s, \
  7 updateStrategy StatefulUpdateStrategy, 8 revisionHistoryLimit ?i, 9 minReadySeconds i, \
  10 persistentVolumeClaimRetentionPolicy ?ClaimRetentionPolicy, 11 ordinals ?StatefulOrdinals
StatefulSetStatus: 1 observedGeneration l, 2 replicas i, 3 readyReplicas i, 4 currentReplicas i, \
  5 updatedReplicas i, 6 currentRevision s, 7 updateRevision s, 9 collisionCount ?i, \
  10 conditions *SetCondition, 11 availableReplicas i
apps/v1/StatefulSet: 1 metadata ObjectMeta, 2 spec StatefulSetSpec, 3 status StatefulSetStatus
DaemonUpdateStrategy: 1 type s, 2 rollingUpdate ?RollingUpdate
DaemonSetSpec: 1 selector ?LabelSelector, 2 template PodTemplateSpec, \
  3 updateStrategy DaemonUpdateStrategy, 4 minReadySeconds i, 6 revisionHistoryLimit ?i
DaemonSetStatus: 1 currentNumberScheduled i, 2 numberMisscheduled i, 3 desiredNumberScheduled i, \
  4 numberReady i, 5 observedGeneration l, 6 updatedNumberScheduled i, 7 numberAvailable i, \
  8 numberUnavailable i, 9 collisionCount ?i, 10 conditions *SetCondition
apps/v1/ControllerRevision: 1 metadata ObjectMeta, 2 data RawExtension, 3 revision l
apps/v1/DaemonSet: 1 metadata ObjectMeta, 2 spec DaemonSetSpec, 3 status DaemonSetStatus
ControllerSpec: 1 replicas ?i, 2 selector map:s, 3 template ?PodTemplateSpec, 4 minReadySeconds i
ControllerStatus: 1 replicas i, 2 fullyLabeledReplicas i, 3 observedGeneration l, \
  4 readyReplicas i, 5 availableReplicas i, 6 conditions *SetCondition
v1/ReplicationController: 1 metadata ObjectMeta, 2 spec ControllerSpec, 3 status ControllerStatus
JobSpec: 1 parallelism ?i, 2 completions ?i, 3 activeDeadlineSeconds ?l, \
  4 selector ?LabelSelector, 5 manualSelector ?b, 6 template PodTemplateSpec, 7 backoffLimit ?i, \
  8 ttlSecondsAfterFinished ?i, 9 completionMode ?s, 10 suspend ?b, \
  11 podFailurePolicy ?PodFailurePolicy, 12 backoffLimitPerIndex ?i, 13 maxFailedIndexes ?i, \
  14 podReplacementPolicy ?s, 15 managedBy ?s, 16 successPolicy ?SuccessPolicy
OnExitCodes: 1 containerName ?s, 2 operator s, 3 values *i
OnPodCondition: 1 type s, 2 status s
PodFailureRule: 1 action s, 2 onExitCodes ?OnExitCodes, 3 onPodConditions *OnPodCondition
PodFailurePolicy: 1 rules *PodFailureRule
SuccessRule: 1 succeededIndexes ?s, 2 succeededCount ?i
SuccessPolicy: 1 rules *SuccessRule
UncountedPods: 1 succeeded *s, 2 failed *s
JobStatus: 1 conditions *Condition, 2 startTime Time, 3 completionTime Time, 4 active i, \
  5 succeeded i, 6 failed i, 7 completedIndexes s, 8 uncountedTerminatedPods ?UncountedPods, \
  9 ready ?i, 10 failedIndexes ?s, 11 terminating ?i
batch/v1/Job: 1 metadata ObjectMeta, 2 spec JobSpec, 3 status JobStatus
JobTemplate: 1 metadata ObjectMeta, 2 spec JobSpec
CronJobSpec: 1 schedule s, 2 startingDeadlineSeconds ?l, 3 concurrencyPolicy s, 4 suspend ?b, \
  5 jobTemplate JobTemplate, 6 successfulJobsHistoryLimit ?i, 7 failedJobsHistoryLimit ?i, \
  8 timeZone ?s
CronJobStatus: 1 active *ObjectReference, 4 lastScheduleTime Time, 5 lastSuccessfulTime Time
batch/v1/CronJob: 1 metadata ObjectMeta, 2 spec CronJobSpec, 3 status CronJobStatus
"""
