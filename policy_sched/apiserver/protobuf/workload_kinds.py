"""Pods and what makes them; a table of messages.

Ephemeral containers and rare kinds of volumes are not in it.
"""

from __future__ import annotations

from typing import Final

WORKLOADS: Final = """
ContainerPort: 1 name s, 2 hostPort i, 3 containerPort i, 4 protocol s, 5 hostIP s
ObjectFieldSelector: 1 apiVersion s, 2 fieldPath s
ResourceFieldSelector: 1 containerName s, 2 resource s, 3 divisor Quantity
KeySelector: 1 - LocalObjectReference, 2 key s, 3 optional ?b
EnvVarSource: 1 fieldRef ?ObjectFieldSelector, 2 resourceFieldRef ?ResourceFieldSelector, \
  3 configMapKeyRef ?KeySelector, 4 secretKeyRef ?KeySelector
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
  5 successThreshold i, 6 failureThreshold i, 7 terminationGracePeriodSeconds ?i
SleepAction: 1 seconds i
LifecycleHandler: 1 exec ?ExecAction, 2 httpGet ?HTTPGetAction, 3 tcpSocket ?TCPSocketAction, \
  4 sleep ?SleepAction
Lifecycle: 1 postStart ?LifecycleHandler, 2 preStop ?LifecycleHandler, 3 stopSignal ?s
Capabilities: 1 add *s, 2 drop *s
SELinuxOptions: 1 user s, 2 role s, 3 type s, 4 level s
SecurityProfile: 1 type s, 2 localhostProfile ?s
SecurityContext: 1 capabilities ?Capabilities, 2 privileged ?b, 3 seLinuxOptions ?SELinuxOptions, \
  4 runAsUser ?i, 5 runAsNonRoot ?b, 6 readOnlyRootFilesystem ?b, 7 allowPrivilegeEscalation ?b, \
  8 runAsGroup ?i, 9 procMount ?s, 11 seccompProfile ?SecurityProfile, \
  12 appArmorProfile ?SecurityProfile
Container: 1 name s, 2 image s, 3 command *s, 4 args *s, 5 workingDir s, 6 ports *ContainerPort, \
  7 env *EnvVar, 8 resources ResourceRequirements, 9 volumeMounts *VolumeMount, \
  10 livenessProbe ?Probe, 11 readinessProbe ?Probe, 12 lifecycle ?Lifecycle, \
  13 terminationMessagePath s, 14 imagePullPolicy s, \
  15 securityContext ?SecurityContext, 16 stdin b, 17 stdinOnce b, 18 tty b, \
  19 envFrom *EnvFromSource, 20 terminationMessagePolicy s, 21 volumeDevices *VolumeDevice, \
  22 startupProbe ?Probe, 23 resizePolicy *ContainerResizePolicy, 24 restartPolicy ?s

Toleration: 1 key s, 2 operator s, 3 value s, 4 effect s, 5 tolerationSeconds ?i
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
PodSecurityContext: 1 seLinuxOptions ?SELinuxOptions, 2 runAsUser ?i, 3 runAsNonRoot ?b, \
  4 supplementalGroups *i, 5 fsGroup ?i, 6 runAsGroup ?i, 7 sysctls *Sysctl, \
  9 fsGroupChangePolicy ?s, 10 seccompProfile ?SecurityProfile, \
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
  7 nfs ?NfsSource, 10 persistentVolumeClaim ?ClaimVolume, 19 configMap ?ConfigMapVolume
Volume: 1 name s, 2 - PodVolumeSource
PodSpec: 1 volumes *Volume, 2 containers *Container, 3 restartPolicy s, \
  4 terminationGracePeriodSeconds ?i, 5 activeDeadlineSeconds ?i, 6 dnsPolicy s, \
  7 nodeSelector map:s, 8 serviceAccountName s, 9 serviceAccount s, 10 nodeName s, \
  11 hostNetwork b, 12 hostPID b, 13 hostIPC b, 14 securityContext ?PodSecurityContext, \
  15 imagePullSecrets *LocalObjectReference, 16 hostname s, 17 subdomain s, 18 affinity ?Affinity, \
  19 schedulerName s, 20 initContainers *Container, 21 automountServiceAccountToken ?b, \
  22 tolerations *Toleration, 23 hostAliases *HostAlias, 24 priorityClassName s, 25 priority ?i, \
  26 dnsConfig ?DnsConfig, 27 shareProcessNamespace ?b, 28 readinessGates *PodReadinessGate, \
  29 runtimeClassName ?s, 30 enableServiceLinks ?b, 31 preemptionPolicy ?s, \
  32 overhead map:Quantity, 33 topologySpreadConstraints *TopologySpreadConstraint, \
  35 setHostnameAsFQDN ?b, 36 os ?PodOs, 37 hostUsers ?b, 38 schedulingGates *PodSchedulingGate, \
  39 resourceClaims *PodResourceClaim, \
  40 resources ?ResourceRequirements, 41 hostnameOverride ?s
PodStatus: 1 phase s, 2 conditions *Condition, 3 message s, 4 reason s, 5 hostIP s, 6 podIP s, \
  7 startTime Time, 9 qosClass s, 11 nominatedNodeName s, 14 resize s, 17 observedGeneration i
v1/Pod: 1 metadata ObjectMeta, 2 spec PodSpec, 3 status PodStatus
PodTemplateSpec: 1 metadata ObjectMeta, 2 spec PodSpec

RollingUpdate: 1 maxUnavailable ?IntOrString, 2 maxSurge ?IntOrString
DeploymentStrategy: 1 type s, 2 rollingUpdate ?RollingUpdate
DeploymentSpec: 1 replicas ?i, 2 selector ?LabelSelector, 3 template PodTemplateSpec, \
  4 strategy DeploymentStrategy, 5 minReadySeconds i, 6 revisionHistoryLimit ?i, 7 paused b, \
  9 progressDeadlineSeconds ?i
DeploymentCondition: 1 type s, 2 status s, 4 reason s, 5 message s, 6 lastUpdateTime Time, \
  7 lastTransitionTime Time
DeploymentStatus: 1 observedGeneration i, 2 replicas i, 3 updatedReplicas i, \
  4 availableReplicas i, 5 unavailableReplicas i, 6 conditions *DeploymentCondition, \
  7 readyReplicas i, 8 collisionCount ?i, 9 terminatingReplicas ?i
apps/v1/Deployment: 1 metadata ObjectMeta, 2 spec DeploymentSpec, 3 status DeploymentStatus
SetCondition: 1 type s, 2 status s, 3 lastTransitionTime Time, 4 reason s, 5 message s
ReplicaSetSpec: 1 replicas ?i, 2 selector ?LabelSelector, 3 template PodTemplateSpec, \
  4 minReadySeconds i
ReplicaSetStatus: 1 replicas i, 2 fullyLabeledReplicas i, 3 observedGeneration i, \
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
StatefulSetStatus: 1 observedGeneration i, 2 replicas i, 3 readyReplicas i, 4 currentReplicas i, \
  5 updatedReplicas i, 6 currentRevision s, 7 updateRevision s, 9 collisionCount ?i, \
  10 conditions *SetCondition, 11 availableReplicas i
apps/v1/StatefulSet: 1 metadata ObjectMeta, 2 spec StatefulSetSpec, 3 status StatefulSetStatus
DaemonUpdateStrategy: 1 type s, 2 rollingUpdate ?RollingUpdate
DaemonSetSpec: 1 selector ?LabelSelector, 2 template PodTemplateSpec, \
  3 updateStrategy DaemonUpdateStrategy, 4 minReadySeconds i, 6 revisionHistoryLimit ?i
DaemonSetStatus: 1 currentNumberScheduled i, 2 numberMisscheduled i, 3 desiredNumberScheduled i, \
  4 numberReady i, 5 observedGeneration i, 6 updatedNumberScheduled i, 7 numberAvailable i, \
  8 numberUnavailable i, 9 collisionCount ?i, 10 conditions *SetCondition
apps/v1/DaemonSet: 1 metadata ObjectMeta, 2 spec DaemonSetSpec, 3 status DaemonSetStatus
ControllerSpec: 1 replicas ?i, 2 selector map:s, 3 template ?PodTemplateSpec, 4 minReadySeconds i
ControllerStatus: 1 replicas i, 2 fullyLabeledReplicas i, 3 observedGeneration i, \
  4 readyReplicas i, 5 availableReplicas i, 6 conditions *SetCondition
v1/ReplicationController: 1 metadata ObjectMeta, 2 spec ControllerSpec, 3 status ControllerStatus
JobSpec: 1 parallelism ?i, 2 completions ?i, 3 activeDeadlineSeconds ?i, \
  4 selector ?LabelSelector, 5 manualSelector ?b, 6 template PodTemplateSpec, 7 backoffLimit ?i, \
  8 ttlSecondsAfterFinished ?i, 9 completionMode ?s, 10 suspend ?b, 12 backoffLimitPerIndex ?i, \
  13 maxFailedIndexes ?i, 14 podReplacementPolicy ?s, 15 managedBy ?s
JobStatus: 1 conditions *Condition, 2 startTime Time, 3 completionTime Time, 4 active i, \
  5 succeeded i, 6 failed i, 7 completedIndexes s, 9 ready ?i, 10 failedIndexes ?s, \
  11 terminating ?i
batch/v1/Job: 1 metadata ObjectMeta, 2 spec JobSpec, 3 status JobStatus
JobTemplate: 1 metadata ObjectMeta, 2 spec JobSpec
CronJobSpec: 1 schedule s, 2 startingDeadlineSeconds ?i, 3 concurrencyPolicy s, 4 suspend ?b, \
  5 jobTemplate JobTemplate, 6 successfulJobsHistoryLimit ?i, 7 failedJobsHistoryLimit ?i, \
  8 timeZone ?s
CronJobStatus: 1 active *ObjectReference, 4 lastScheduleTime Time, 5 lastSuccessfulTime Time
batch/v1/CronJob: 1 metadata ObjectMeta, 2 spec CronJobSpec, 3 status CronJobStatus
"""
