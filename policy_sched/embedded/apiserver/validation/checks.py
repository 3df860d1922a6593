"""Which checks an object goes through when it is created, and when it is changed; a table."""

from __future__ import annotations

from typing import Final

from policy_sched.client.apimachinery import Resource, Stored
from policy_sched.embedded.apiserver.validation import devices, objects, pod_groups, workloads
from policy_sched.embedded.apiserver.validation.problems import Problems, check_metadata
from policy_sched.embedded.apiserver.validation.workloads import Change, Check
from policy_sched.manifests import Plain
from policy_sched.model import formats

_CHECKS: Final[dict[str, Check]] = {
    "Pod": workloads.check_pod,
    "Deployment": workloads.check_deployment,
    "ReplicaSet": workloads.check_set,
    "StatefulSet": workloads.check_set,
    "DaemonSet": workloads.check_set,
    "ReplicationController": workloads.check_controller,
    "Job": workloads.check_job,
    "CronJob": workloads.check_cron_job,
    "PodDisruptionBudget": workloads.check_budget,
    "HorizontalPodAutoscaler": workloads.check_autoscaler,
    "Node": objects.check_node,
    "ConfigMap": objects.check_config_map,
    "Secret": objects.check_secret,
    "Service": objects.check_service,
    "PriorityClass": objects.check_priority_class,
    "PersistentVolume": objects.check_volume,
    "PersistentVolumeClaim": objects.check_claim,
    "StorageClass": objects.check_storage_class,
    "ResourceQuota": objects.check_resource_quota,
    "Lease": objects.check_lease,
    "Event": objects.check_event,
    "DeviceClass": devices.check_device_class,
    "ResourceClaim": devices.check_claim,
    "ResourceClaimTemplate": devices.check_claim_template,
    "PodGroup": pod_groups.check_pod_group,
    "Workload": pod_groups.check_workload,
}
"""By kind; metadata are checked of all."""
_CHANGES: Final[dict[str, Change]] = {
    "Deployment": workloads.change_selector,
    "ReplicaSet": workloads.change_selector,
    "DaemonSet": workloads.change_selector,
    "StatefulSet": workloads.change_stateful_set,
    "Job": workloads.change_job,
    "ConfigMap": objects.change_immutable,
    "Secret": objects.change_immutable,
    "PriorityClass": objects.change_priority_class,
    "PersistentVolumeClaim": objects.change_claim,
    "StorageClass": objects.change_storage_class,
    "PodGroup": pod_groups.change_spec,
    "Workload": pod_groups.change_spec,
}
_NAMES: Final = {"Namespace": formats.label, "Service": formats.rfc1035_label}
"""Kinds whose names are not subdomains."""


def check_new(resource: Resource, data: Plain) -> None:
    """Raise ApiError with all that is wrong with an object that is to be created."""
    problems = Problems()
    name = data["metadata"].get("name") or ""
    if name and not resource.freely_named:
        form = _NAMES.get(resource.kind, formats.subdomain)
        problems.each("metadata.name", name, form(name))
    _check(problems, resource, data)
    if resource.kind == "Pod" and (data.get("spec") or {}).get("ephemeralContainers"):
        problems.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if problems.causes:
        raise problems.refusal(resource, name)


def check_change(old: Stored, data: Plain, subresource: str) -> None:
    """Raise ApiError with all that is wrong with an object's next state; status is not checked."""
    problems, resource = Problems(), old.resource
    if subresource:
        check_metadata(problems, data["metadata"])
    else:
        _check(problems, resource, data)
        if resource.kind in _CHANGES:
            _CHANGES[resource.kind](problems, old.data, data)
    if problems.causes:
        raise problems.refusal(resource, old.name)


def _check(problems: Problems, resource: Resource, data: Plain) -> None:
    check_metadata(problems, data["metadata"])
    if resource.kind in _CHECKS:
        _CHECKS[resource.kind](problems, data)
