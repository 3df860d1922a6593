"""Objects as tables, which kubectl prints: columns and cells by kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from policy_sched.embedded.apiserver.printers import others, workloads
from policy_sched.embedded.apiserver.printers.workloads import NONE, UNKNOWN, age, selector_text
from policy_sched.manifests import Plain

Cells = Callable[[Plain, int], list[Any]]
"""The cells of an object, given the time in ns since 1970."""
_ROLE: Final = "node-role.kubernetes.io/"
_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def _node(data: Plain, now: int) -> list[Any]:
    meta, status = data["metadata"], data.get("status") or {}
    ready = [c for c in status.get("conditions") or () if c.get("type") == "Ready"]
    words = [("Ready" if c.get("status") == "True" else "NotReady") for c in ready] or ["Unknown"]
    if (data.get("spec") or {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    labels = meta.get("labels") or {}
    roles = sorted(key[len(_ROLE) :] for key in labels if key.startswith(_ROLE))
    info = status.get("nodeInfo") or {}
    addresses = {one.get("type"): one.get("address") for one in status.get("addresses") or ()}
    return [
        meta["name"],
        ",".join(words),
        ",".join(roles) or NONE,
        age(meta.get("creationTimestamp"), now),
        info.get("kubeletVersion") or "",
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _namespace(data: Plain, now: int) -> list[Any]:
    phase = "Terminating" if data["metadata"].get("deletionTimestamp") else None
    return [_name(data), phase or (data.get("status") or {}).get("phase") or "", _born(data, now)]


def _volume(data: Plain, now: int) -> list[Any]:
    spec, status = data.get("spec") or {}, data.get("status") or {}
    claim = spec.get("claimRef") or {}
    phase = "Terminating" if data["metadata"].get("deletionTimestamp") else status.get("phase")
    return [
        _name(data),
        str((spec.get("capacity") or {}).get("storage", "")),
        _access(spec),
        spec.get("persistentVolumeReclaimPolicy") or "Retain",
        phase or "",
        f"{claim.get('namespace')}/{claim.get('name')}" if claim else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or "<unset>",
        status.get("reason") or "",
        _born(data, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _claim(data: Plain, now: int) -> list[Any]:
    spec, status = data.get("spec") or {}, data.get("status") or {}
    bound = bool(spec.get("volumeName"))
    phase = "Terminating" if data["metadata"].get("deletionTimestamp") else status.get("phase")
    return [
        _name(data),
        phase or "",
        spec.get("volumeName") or "",
        str((status.get("capacity") or {}).get("storage", "")) if bound else "",
        _access(status) if bound else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or "<unset>",
        _born(data, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _storage_class(data: Plain, now: int) -> list[Any]:
    annotations = data["metadata"].get("annotations") or {}
    default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    return [
        _name(data) + (" (default)" if default else ""),
        data.get("provisioner") or "",
        data.get("reclaimPolicy") or "Delete",
        data.get("volumeBindingMode") or "Immediate",
        bool(data.get("allowVolumeExpansion")),
        _born(data, now),
    ]


def _priority_class(data: Plain, now: int) -> list[Any]:
    policy = data.get("preemptionPolicy") or ""
    value, default = data.get("value") or 0, bool(data.get("globalDefault"))
    return [_name(data), value, default, _born(data, now), policy]


def _lease(data: Plain, now: int) -> list[Any]:
    return [_name(data), (data.get("spec") or {}).get("holderIdentity") or "", _born(data, now)]


def _csi_node(data: Plain, now: int) -> list[Any]:
    return [_name(data), len((data.get("spec") or {}).get("drivers") or ()), _born(data, now)]


def _config_map(data: Plain, now: int) -> list[Any]:
    count = len(data.get("data") or {}) + len(data.get("binaryData") or {})
    return [_name(data), str(count), _born(data, now)]


def _secret(data: Plain, now: int) -> list[Any]:
    return [
        _name(data),
        data.get("type") or "Opaque",
        len(data.get("data") or {}),
        _born(data, now),
    ]


def _event(data: Plain, now: int) -> list[Any]:
    about = data.get("involvedObject") or data.get("regarding") or {}
    source = data.get("source") or data.get("deprecatedSource") or {}
    series = data.get("series") or {}
    first = data.get("firstTimestamp") or data.get("eventTime")
    last = series.get("lastObservedTime") or data.get("lastTimestamp") or first
    reporter = data.get("reportingComponent") or data.get("reportingController") or ""
    return [
        age(last, now),
        data.get("type") or "",
        data.get("reason") or "",
        f"{str(about.get('kind') or '').lower()}/{about.get('name') or ''}",
        about.get("fieldPath") or "",
        source.get("component") or reporter,
        str(data.get("message") or data.get("note") or "").strip(),
        age(first, now),
        series.get("count") or data.get("count") or data.get("deprecatedCount") or 1,
        _name(data),
    ]


def _other(data: Plain, now: int) -> list[Any]:  # noqa: ARG001 - one signature for all
    return [_name(data), data["metadata"].get("creationTimestamp")]


def _endpoints(data: Plain, now: int) -> list[Any]:
    return [_name(data), NONE, _born(data, now)]


def _network_policy(data: Plain, now: int) -> list[Any]:
    return [
        _name(data),
        selector_text((data.get("spec") or {}).get("podSelector")),
        _born(data, now),
    ]


def _name(data: Plain) -> str:
    return str(data["metadata"].get("name") or "")


def _born(data: Plain, now: int) -> str:
    return age(data["metadata"].get("creationTimestamp"), now)


def _access(source: Plain) -> str:
    return ",".join(_MODES.get(mode, mode) for mode in source.get("accessModes") or ())


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of a kind, as definitions of the API, and what fills them."""

    definitions: tuple[Plain, ...]
    cells: Cells


def _table(columns: str, cells: Cells) -> Table:
    """Make a table of its columns: a star marks those of ``-o wide``, a colon leads to a type."""
    definitions = []
    for text in columns.split("|"):
        name, _, kind = text.rstrip("*").partition(":")
        definitions.append({
            "name": name,
            "type": kind or "string",
            "format": "name" if name == "Name" and not text.endswith("*") else "",
            "description": "",
            "priority": int(text.endswith("*")),
        })  # fmt: skip
    return Table(tuple(definitions), cells)


OTHER: Final = _table("Name|Created At:date", _other)
TABLES: Final = {
    "Pod": _table(workloads.COLUMNS, workloads.cells),
    "Node": _table(
        "Name|Status|Roles|Age|Version|Internal-IP*|External-IP*|OS-Image*|Kernel-Version*"
        "|Container-Runtime*",
        _node,
    ),
    "Namespace": _table("Name|Status|Age", _namespace),
    "Deployment": _table(workloads.DEPLOYMENT, workloads.deployment),
    "ReplicaSet": _table(workloads.REPLICAS, workloads.replicas),
    "ReplicationController": _table(workloads.REPLICAS, workloads.replicas),
    "StatefulSet": _table(workloads.STATEFUL, workloads.stateful),
    "DaemonSet": _table(workloads.DAEMONS, workloads.daemons),
    "Job": _table(workloads.JOB, workloads.job),
    "CronJob": _table(workloads.CRON_JOB, workloads.cron_job),
    "Service": _table(workloads.SERVICE, workloads.service),
    "PodDisruptionBudget": _table(workloads.BUDGET, workloads.budget),
    "PersistentVolume": _table(
        "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass"
        "|VolumeAttributesClass|Reason|Age|VolumeMode*",
        _volume,
    ),
    "PersistentVolumeClaim": _table(
        "Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age"
        "|VolumeMode*",
        _claim,
    ),
    "StorageClass": _table(
        "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion:boolean|Age",
        _storage_class,
    ),
    "PriorityClass": _table(
        "Name|Value:integer|Global-Default:boolean|Age|PreemptionPolicy", _priority_class
    ),
    "Lease": _table("Name|Holder|Age", _lease),
    "CSINode": _table("Name|Drivers:integer|Age", _csi_node),
    "ConfigMap": _table("Name|Data|Age", _config_map),
    "Secret": _table("Name|Type|Data:integer|Age", _secret),
    "RoleBinding": _table(others.BINDING, others.binding),
    "ClusterRoleBinding": _table(others.BINDING, others.binding),
    "ServiceAccount": _table(others.ACCOUNT, others.account),
    "ResourceQuota": _table(others.QUOTA, others.quota),
    "Ingress": _table(others.INGRESS, others.ingress),
    "Endpoints": _table("Name|Endpoints|Age", _endpoints),
    "NetworkPolicy": _table("Name|Pod-Selector|Age", _network_policy),
    "Scale": _table("Name|Desired:integer|Available:integer|Age", others.scale),
    "HorizontalPodAutoscaler": _table(
        "Name|Reference|Targets|MinPods|MaxPods|Replicas:integer|Age", others.autoscaler
    ),
    "ControllerRevision": _table("Name|Controller|Revision|Age", others.revision),
    "RuntimeClass": _table("Name|Handler|Age", others.runtime_class),
    "CSIDriver": _table(
        "Name|AttachRequired:boolean|PodInfoOnMount:boolean|StorageCapacity:boolean|TokenRequests"
        "|RequiresRepublish:boolean|Modes|Age",
        others.driver,
    ),
    "VolumeAttachment": _table("Name|Attacher|PV|Node|Attached:boolean|Age", others.attachment),
    "CSIStorageCapacity": _table("Name|StorageClassName|Capacity", others.capacity),
    "IngressClass": _table("Name|Controller|Parameters|Age", others.ingress_class),
    "EndpointSlice": _table("Name|AddressType|Ports|Endpoints|Age", others.slice_of_endpoints),
    "ResourceClaim": _table("Name|State|Age", others.claim),
    "ResourceClaimTemplate": _table("Name|Age", others.born),
    "DeviceClass": _table("Name|Age", others.born),
    "ResourceSlice": _table("Name|Node|Driver|Pool|Age", others.resources),
    "FlowSchema": _table(
        "Name|PriorityLevel|MatchingPrecedence:integer|DistinguisherMethod|Age|MissingPL",
        others.flow_schema,
    ),
    "Event": _table(
        "Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count:integer*|Name*",
        _event,
    ),
}
"""By kind."""


def row(kind: str, data: Plain, now: int, included: str) -> Plain:
    """Return the row of an object. ``included``: None, Metadata or Object goes with it."""
    found: Plain = {"cells": _cells(TABLES.get(kind, OTHER), data, now)}
    if included == "Object":
        found["object"] = data
    elif included != "None":
        found["object"] = metadata(data)
    return found


def _cells(table: Table, data: Plain, now: int) -> list[Any]:
    """Return an object's cells; of one that is not shaped like its kind only the name."""
    try:
        return table.cells(data, now)
    except (TypeError, ValueError, AttributeError, LookupError):
        return [_name(data), *["<invalid>"] * (len(table.definitions) - 1)]


def metadata(data: Plain) -> Plain:
    """Return an object's metadata alone."""
    head = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    return {**head, "metadata": data["metadata"]}


def definitions(kind: str) -> list[Plain]:
    """Return the columns of a kind."""
    return list(TABLES.get(kind, OTHER).definitions)
