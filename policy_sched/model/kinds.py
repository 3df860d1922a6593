"""The kinds of API objects: the struct of each, and the kinds that scheduling does not read."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec

from policy_sched.model import cluster_objects, resource, storage
from policy_sched.model.meta import ApiObject
from policy_sched.model.pod import Pod
from policy_sched.model.pod_group import SCHEDULING_VERSION, CoschedulingGroup, PodGroup

Kind = tuple[str, str]
"""apiVersion and kind."""

KINDS: Final[dict[Kind, type[ApiObject]]] = {
    ("v1", "Pod"): Pod,
    ("v1", "Node"): cluster_objects.Node,
    ("v1", "Namespace"): cluster_objects.Namespace,
    ("v1", "Service"): cluster_objects.Service,
    ("v1", "ReplicationController"): cluster_objects.ReplicationController,
    ("v1", "PersistentVolume"): storage.PersistentVolume,
    ("v1", "PersistentVolumeClaim"): storage.PersistentVolumeClaim,
    ("apps/v1", "ReplicaSet"): cluster_objects.ReplicaSet,
    ("apps/v1", "StatefulSet"): cluster_objects.StatefulSet,
    ("apps/v1", "Deployment"): cluster_objects.Deployment,
    ("apps/v1", "DaemonSet"): cluster_objects.DaemonSet,
    ("batch/v1", "Job"): cluster_objects.Job,
    ("policy/v1", "PodDisruptionBudget"): cluster_objects.PodDisruptionBudget,
    ("scheduling.k8s.io/v1", "PriorityClass"): cluster_objects.PriorityClass,
    ("node.k8s.io/v1", "RuntimeClass"): cluster_objects.RuntimeClass,
    (SCHEDULING_VERSION, "PodGroup"): PodGroup,
    ("scheduling.x-k8s.io/v1alpha1", "PodGroup"): CoschedulingGroup,
    ("resource.k8s.io/v1", "DeviceClass"): resource.DeviceClass,
    ("resource.k8s.io/v1", "ResourceClaim"): resource.ResourceClaim,
    ("resource.k8s.io/v1", "ResourceClaimTemplate"): resource.ResourceClaimTemplate,
    ("resource.k8s.io/v1", "ResourceSlice"): resource.ResourceSlice,
    ("storage.k8s.io/v1", "StorageClass"): storage.StorageClass,
    ("storage.k8s.io/v1", "CSINode"): storage.CsiNode,
    ("storage.k8s.io/v1", "CSIDriver"): storage.CsiDriver,
    ("storage.k8s.io/v1", "CSIStorageCapacity"): storage.CsiStorageCapacity,
    ("storage.k8s.io/v1", "VolumeAttachment"): storage.VolumeAttachment,
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


_STRUCTS: Final = frozenset(KINDS.values())


def struct_of(item: ApiObject) -> type[ApiObject]:
    """Return the struct of an object's kind: its own, or the one that its own adds fields to."""
    own = type(item)
    return own if own in _STRUCTS else _base(own)


@cache
def _base(own: type[ApiObject]) -> type[ApiObject]:
    return next((base for base in own.__mro__ if base in _STRUCTS), own)


@cache
def decoder(kind: type[ApiObject]) -> msgspec.json.Decoder[Any]:
    """Return the JSON decoder of a kind; it raises msgspec.ValidationError on a wrong type."""
    return msgspec.json.Decoder(kind)
