"""The kinds of API objects: the struct of each, and the kinds that scheduling does not read."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec

from policy_sched.model.cluster_objects import (
    DaemonSet,
    Deployment,
    Job,
    Namespace,
    Node,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    RuntimeClass,
    Service,
    StatefulSet,
)
from policy_sched.model.meta import ApiObject
from policy_sched.model.pod import Pod
from policy_sched.model.pod_group import SCHEDULING_VERSION, CoschedulingGroup, PodGroup
from policy_sched.model.resource import (
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from policy_sched.model.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

Kind = tuple[str, str]
"""apiVersion and kind."""

KINDS: Final[dict[Kind, type[ApiObject]]] = {
    ("v1", "Pod"): Pod,
    ("v1", "Node"): Node,
    ("v1", "Namespace"): Namespace,
    ("v1", "Service"): Service,
    ("v1", "ReplicationController"): ReplicationController,
    ("v1", "PersistentVolume"): PersistentVolume,
    ("v1", "PersistentVolumeClaim"): PersistentVolumeClaim,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
    ("apps/v1", "Deployment"): Deployment,
    ("apps/v1", "DaemonSet"): DaemonSet,
    ("batch/v1", "Job"): Job,
    ("policy/v1", "PodDisruptionBudget"): PodDisruptionBudget,
    ("scheduling.k8s.io/v1", "PriorityClass"): PriorityClass,
    ("node.k8s.io/v1", "RuntimeClass"): RuntimeClass,
    (SCHEDULING_VERSION, "PodGroup"): PodGroup,
    ("scheduling.x-k8s.io/v1alpha1", "PodGroup"): CoschedulingGroup,
    ("resource.k8s.io/v1", "DeviceClass"): DeviceClass,
    ("resource.k8s.io/v1", "ResourceClaim"): ResourceClaim,
    ("resource.k8s.io/v1", "ResourceClaimTemplate"): ResourceClaimTemplate,
    ("resource.k8s.io/v1", "ResourceSlice"): ResourceSlice,
    ("storage.k8s.io/v1", "StorageClass"): StorageClass,
    ("storage.k8s.io/v1", "CSINode"): CsiNode,
    ("storage.k8s.io/v1", "CSIDriver"): CsiDriver,
    ("storage.k8s.io/v1", "CSIStorageCapacity"): CsiStorageCapacity,
    ("storage.k8s.io/v1", "VolumeAttachment"): VolumeAttachment,
}
"""The kinds that are decoded."""

CLUSTER_SCOPED: Final = frozenset(
    {
        "Node",
        "Namespace",
        "PersistentVolume",
        "PriorityClass",
        "RuntimeClass",
        "StorageClass",
        "CSINode",
        "CSIDriver",
        "VolumeAttachment",
        "DeviceClass",
        "ResourceSlice",
    }
)
"""The decoded kinds that are cluster-scoped."""

SKIPPED_KINDS: Final[frozenset[Kind]] = frozenset(
    (version, kind)
    for version, kinds in {
        "v1": (
            "Binding ComponentStatus ConfigMap Endpoints Event LimitRange PodTemplate"
            " ResourceQuota Secret ServiceAccount"
        ),
        "admissionregistration.k8s.io/v1": (
            "MutatingWebhookConfiguration ValidatingAdmissionPolicy"
            " ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration"
        ),
        "apiextensions.k8s.io/v1": "CustomResourceDefinition",
        "apiregistration.k8s.io/v1": "APIService",
        "apps/v1": "ControllerRevision",
        "autoscaling/v1": "HorizontalPodAutoscaler",
        "autoscaling/v2": "HorizontalPodAutoscaler",
        "batch/v1": "CronJob",
        "certificates.k8s.io/v1": "CertificateSigningRequest",
        "coordination.k8s.io/v1": "Lease",
        "discovery.k8s.io/v1": "EndpointSlice",
        "events.k8s.io/v1": "Event",
        "flowcontrol.apiserver.k8s.io/v1": "FlowSchema PriorityLevelConfiguration",
        "networking.k8s.io/v1": "IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR",
        "rbac.authorization.k8s.io/v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
        SCHEDULING_VERSION: "Workload",
        "storage.k8s.io/v1": "VolumeAttributesClass",
    }.items()
    for kind in kinds.split()
)
"""Kubernetes' own kinds that scheduling does not read; manifests may contain them."""


@cache
def decoder(kind: type[ApiObject]) -> msgspec.json.Decoder[Any]:
    """Return the JSON decoder of a kind; it raises msgspec.ValidationError on a wrong type."""
    return msgspec.json.Decoder(kind)
