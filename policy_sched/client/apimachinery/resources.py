"""The kinds of the API as resources: group, plural, scope; and the errors of the API."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec

from policy_sched import model
from policy_sched.errors import ClusterError


def cannot_be_handled(kind: model.Kind, why: str) -> ApiError:
    """Return the refusal of what is no object of its kind."""
    version = kind[0].rpartition("/")[2]
    return bad_request(f'{kind[1]} in version "{version}" cannot be handled as a {kind[1]}: {why}')


class ApiError(ClusterError):
    """A refusal; ``status()`` is the metav1.Status that a client gets."""

    def __init__(
        self, code: int, reason: str, message: str, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}

    def status(self) -> dict[str, Any]:
        """Return the body of the response."""
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details:
            body["details"] = self.details
        return {**body, "code": self.code}


def is_gone(error: ClusterError) -> bool:
    """Return whether a request was refused because the object is gone.

    Where another object has its name, a deletion and a binding respond with a conflict that names
    the precondition; a patch that carries the UID is invalid, since no UID can be changed.
    """
    if not isinstance(error, ApiError):
        return False
    if error.code == 409:
        return "precondition" in error.message and "UID" in error.message
    causes = error.details.get("causes") or ()
    another = error.code == 422 and any(cause.get("field") == "metadata.uid" for cause in causes)
    return another or error.code == 404


class Expired(ApiError):  # noqa: N818 - the API's own name of the reason
    """A watch at a version that has expired; list again."""

    def __init__(self, requested: int, oldest: int) -> None:
        super().__init__(410, "Expired", f"too old resource version: {requested} ({oldest})")


def bad_request(message: str) -> ApiError:
    """Return the refusal of something that cannot be read."""
    return ApiError(400, "BadRequest", message)


POD: Final[model.Kind] = ("v1", "Pod")
NODE: Final[model.Kind] = ("v1", "Node")
NAMESPACE: Final[model.Kind] = ("v1", "Namespace")
ACCOUNT: Final[model.Kind] = ("v1", "ServiceAccount")
CLAIM: Final[model.Kind] = ("v1", "PersistentVolumeClaim")
VOLUME: Final[model.Kind] = ("v1", "PersistentVolume")
PRIORITY_CLASS: Final[model.Kind] = ("scheduling.k8s.io/v1", "PriorityClass")
RUNTIME_CLASS: Final[model.Kind] = ("node.k8s.io/v1", "RuntimeClass")
DEVICE_CLAIM: Final[model.Kind] = ("resource.k8s.io/v1", "ResourceClaim")
DEVICE_TEMPLATE: Final[model.Kind] = ("resource.k8s.io/v1", "ResourceClaimTemplate")
GROUP: Final[model.Kind] = (model.SCHEDULING_VERSION, "PodGroup")
WORKLOAD: Final[model.Kind] = (model.SCHEDULING_VERSION, "Workload")
EVENT: Final[model.Kind] = ("events.k8s.io/v1", "Event")
STORAGE_CLASS: Final[model.Kind] = ("storage.k8s.io/v1", "StorageClass")
BUDGET: Final[model.Kind] = ("policy/v1", "PodDisruptionBudget")
CONTROLLER: Final[model.Kind] = ("v1", "ReplicationController")
REPLICA_SET: Final[model.Kind] = ("apps/v1", "ReplicaSet")
DEPLOYMENT: Final[model.Kind] = ("apps/v1", "Deployment")
STATEFUL_SET: Final[model.Kind] = ("apps/v1", "StatefulSet")
DAEMON_SET: Final[model.Kind] = ("apps/v1", "DaemonSet")
REVISION: Final[model.Kind] = ("apps/v1", "ControllerRevision")
JOB: Final[model.Kind] = ("batch/v1", "Job")
DEFINITION: Final[model.Kind] = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CLUSTER_SCOPED: Final = model.CLUSTER_SCOPED | _words(
    "APIService CertificateSigningRequest ClusterRole ClusterRoleBinding ComponentStatus"
    " CustomResourceDefinition DeviceClass FlowSchema IPAddress IngressClass"
    " MutatingWebhookConfiguration PriorityLevelConfiguration ResourceSlice RuntimeClass"
    " ServiceCIDR ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding"
    " ValidatingWebhookConfiguration VolumeAttributesClass"
)
_WITH_STATUS: Final = _words(
    "APIService CertificateSigningRequest CronJob CustomResourceDefinition DaemonSet Deployment"
    " FlowSchema HorizontalPodAutoscaler Ingress Job Namespace Node PersistentVolume"
    " PersistentVolumeClaim Pod PodDisruptionBudget PodGroup PriorityLevelConfiguration ReplicaSet"
    " ReplicationController ResourceClaim ResourceQuota Service ServiceCIDR StatefulSet"
    " ValidatingAdmissionPolicy VolumeAttachment"
)
#: Kinds whose status a creator cannot give; what runs in the cluster reports it.
_STATUS_REPORTED: Final = _words(
    "CronJob DaemonSet Deployment Job PersistentVolumeClaim Pod PodDisruptionBudget ReplicaSet"
    " ReplicationController StatefulSet"
)
_WITHOUT_GENERATION: Final = _words(
    "ComponentStatus ConfigMap CSIDriver CSINode CSIStorageCapacity ControllerRevision Endpoints"
    " Event Lease LimitRange Namespace Node PersistentVolume PersistentVolumeClaim PodTemplate"
    " ResourceQuota Role RoleBinding ClusterRole ClusterRoleBinding RuntimeClass Secret Service"
    " ServiceAccount StorageClass VolumeAttachment"
)
_FREELY_NAMED: Final = frozenset({"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"})


class Resource(msgspec.Struct, frozen=True):
    """One kind as the API serves it.

    ``key`` is apiVersion and kind. ``struct`` decodes it: ApiObject, which reads metadata only,
    for kinds that no decision reads. ``custom``: a CustomResourceDefinition adds it; ``key`` has
    the group alone then, since the objects are the same in all versions.
    """

    key: model.Kind
    api_version: str
    kind: str
    group: str
    plural: str
    namespaced: bool
    has_status: bool
    status_reported: bool
    has_generation: bool
    freely_named: bool
    struct: type[model.ApiObject]
    custom: bool = False

    @property
    def qualified(self) -> str:
        """The name that error messages use: ``pods``, ``leases.coordination.k8s.io``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def plural(kind: str) -> str:
    """Return the resource name of a kind of Kubernetes' own."""
    word = kind.lower()
    if word == "endpoints":
        return word
    if word.endswith("y"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith("s") else f"{word}s"


@cache
def resource(key: model.Kind) -> Resource:
    """Return a kind's resource. Raises ApiError if there is no such kind."""
    version, kind = key
    if key not in model.KINDS and key not in model.SKIPPED_KINDS:
        message = f'no matches for kind "{kind}" in version "{version}"'
        raise ApiError(404, "NotFound", message)
    return Resource(
        key=key,
        api_version=version,
        kind=kind,
        group=version.rpartition("/")[0],
        plural=plural(kind),
        namespaced=kind not in _CLUSTER_SCOPED,
        has_status=kind in _WITH_STATUS,
        status_reported=kind in _STATUS_REPORTED,
        has_generation=kind not in _WITHOUT_GENERATION,
        freely_named=kind in _FREELY_NAMED,
        struct=model.KINDS.get(key, model.ApiObject),
    )
