"""The roles and bindings that a cluster with RBAC begins with; a table.

Of kube-apiserver's those that something here has a use for. An object that is there and says
``rbac.authorization.kubernetes.io/autoupdate: "false"`` stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy_sched.embedded.apiserver.request import AUTHENTICATED, MASTERS, UNAUTHENTICATED
from policy_sched.embedded.apiserver.security.role_objects import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    GROUP,
    ROLE,
    ROLE_BINDING,
)
from policy_sched.embedded.store import ObjectStore
from policy_sched.manifests import Plain
from policy_sched.model import Kind

_READ: Final = "get list watch"
_WRITE: Final = "create delete deletecollection patch update"
_BOTH: Final = f"{_READ} {_WRITE}"
_UPDATED: Final = "rbac.authorization.kubernetes.io/autoupdate"
_AGGREGATE: Final = f"{GROUP}/aggregate-to-"
_SCHEDULER: Final = "system:kube-scheduler"
_CORE_READ: Final = (
    "bindings configmaps endpoints events limitranges namespaces namespaces/status"
    " persistentvolumeclaims persistentvolumeclaims/status pods pods/log pods/status"
    " replicationcontrollers replicationcontrollers/scale replicationcontrollers/status"
    " resourcequotas resourcequotas/status serviceaccounts services services/status"
)
_APPS_READ: Final = (
    "controllerrevisions daemonsets daemonsets/status deployments deployments/scale"
    " deployments/status replicasets replicasets/scale replicasets/status statefulsets"
    " statefulsets/scale statefulsets/status"
)
_APPS_WRITE: Final = (
    "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale"
    " statefulsets statefulsets/scale"
)
_CORE_WRITE: Final = (
    "configmaps events persistentvolumeclaims pods pods/attach pods/exec pods/portforward"
    " pods/proxy replicationcontrollers replicationcontrollers/scale secrets serviceaccounts"
    " services services/proxy"
)
_INFO: Final = "/healthz /livez /readyz /version /version/"

_Row = tuple[str, str, str, str]
"""Verbs, group, resources, names."""

_ROLES: Final[dict[str, tuple[_Row, ...]]] = {
    "cluster-admin": (("*", "*", "*", ""), ("*", "URL", "*", "")),
    "system:discovery": (
        ("get", "URL", f"/api /api/* /apis /apis/* /openapi /openapi/* {_INFO}", ""),
    ),
    "system:public-info-viewer": (("get", "URL", _INFO, ""),),
    "system:basic-user": (
        ("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews", ""),
        ("create", "authentication.k8s.io", "selfsubjectreviews", ""),
    ),
    "system:monitoring": (
        ("get", "URL", "/healthz /healthz/* /livez /livez/* /metrics /readyz /readyz/*", ""),
    ),
    "system:auth-delegator": (
        ("create", "authentication.k8s.io", "tokenreviews", ""),
        ("create", "authorization.k8s.io", "subjectaccessreviews", ""),
    ),
    "system:volume-scheduler": (
        (f"{_READ} patch update", "", "persistentvolumes", ""),
        (_READ, "storage.k8s.io", "storageclasses", ""),
        (f"{_READ} patch update", "", "persistentvolumeclaims", ""),
    ),
    _SCHEDULER: (
        ("create patch update", " events.k8s.io", "events", ""),
        ("create", "coordination.k8s.io", "leases", ""),
        ("get list watch", "coordination.k8s.io", "leases", ""),
        ("get update", "coordination.k8s.io", "leases", "kube-scheduler"),
        (_READ, "", "nodes", ""),
        ("delete get list watch", "", "pods", ""),
        ("create", "", "bindings pods/binding", ""),
        ("patch update", "", "pods/status", ""),
        (_READ, "", "namespaces replicationcontrollers services", ""),
        (_READ, "apps extensions", "replicasets", ""),
        (_READ, "apps", "statefulsets", ""),
        (_READ, "policy", "poddisruptionbudgets", ""),
        (_READ, "", "persistentvolumeclaims persistentvolumes", ""),
        ("create", "authentication.k8s.io", "tokenreviews", ""),
        ("create", "authorization.k8s.io", "subjectaccessreviews", ""),
        (_READ, "storage.k8s.io", "csidrivers csinodes csistoragecapacities", ""),
        (_READ, "storage.k8s.io", "volumeattachments", ""),
        (_READ, "resource.k8s.io", "deviceclasses resourceclaims resourceslices", ""),
        ("patch update", "resource.k8s.io", "resourceclaims resourceclaims/status", ""),
        ("create delete", "resource.k8s.io", "resourceclaims", ""),
    ),
    "system:aggregate-to-admin": (
        ("create", "authorization.k8s.io", "localsubjectaccessreviews", ""),
        (_BOTH, GROUP, "rolebindings roles", ""),
    ),
    "system:aggregate-to-edit": (
        (_READ, "", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy", ""),
        ("impersonate", "", "serviceaccounts", ""),
        (_WRITE, "", _CORE_WRITE, ""),
        ("create", "", "pods/eviction serviceaccounts/token", ""),
        (_WRITE, "apps", _APPS_WRITE, ""),
        (_WRITE, "batch", "cronjobs jobs", ""),
        (_WRITE, "policy", "poddisruptionbudgets", ""),
        (_WRITE, "networking.k8s.io", "ingresses networkpolicies", ""),
        (_BOTH, "coordination.k8s.io", "leases", ""),
    ),
    "system:aggregate-to-view": (
        (_READ, "", _CORE_READ, ""),
        (_READ, "discovery.k8s.io", "endpointslices", ""),
        (_READ, "apps", _APPS_READ, ""),
        (_READ, "batch", "cronjobs cronjobs/status jobs jobs/status", ""),
        (_READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status", ""),
        (_READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies", ""),
    ),
}  # fmt: skip
_AGGREGATED: Final = {"admin": "", "edit": "admin", "view": "edit"}
"""Roles that are made of others, and to which of them each is added."""
_GIVEN: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "cluster-admin": (("Group", MASTERS),),
    "system:discovery": (("Group", AUTHENTICATED),),
    "system:basic-user": (("Group", AUTHENTICATED),),
    "system:public-info-viewer": (("Group", AUTHENTICATED), ("Group", UNAUTHENTICATED)),
    "system:monitoring": (("Group", "system:monitoring"),),
    _SCHEDULER: (("User", _SCHEDULER),),
    "system:volume-scheduler": (("User", _SCHEDULER),),
}
_NAMESPACED: Final[dict[str, tuple[_Row, ...]]] = {
    "extension-apiserver-authentication-reader": (
        (_READ, "", "configmaps", "extension-apiserver-authentication"),
    ),
    "system::leader-locking-kube-scheduler": (
        ("watch", "", "configmaps", ""),
        ("get update", "", "configmaps", "kube-scheduler"),
    ),
}
"""Roles of kube-system, each bound to kube-scheduler."""


def first_roles() -> Iterator[Plain]:
    """Yield the objects."""
    for name, rows in _ROLES.items():
        _, aggregate, to = name.partition("aggregate-to-")
        labels = {f"{_AGGREGATE}{to}": "true"} if aggregate else {}
        yield _object(CLUSTER_ROLE, name, labels, rules=[_rule(row) for row in rows])
    for name, to in _AGGREGATED.items():
        labels = {f"{_AGGREGATE}{to}": "true"} if to else {}
        selectors = [{"matchLabels": {f"{_AGGREGATE}{name}": "true"}}]
        rule = {"clusterRoleSelectors": selectors}
        yield _object(CLUSTER_ROLE, name, labels, aggregationRule=rule, rules=None)
    for name, subjects in _GIVEN.items():
        yield _binding(CLUSTER_ROLE_BINDING, name, "ClusterRole", subjects)
    for name, rows in _NAMESPACED.items():
        yield _object(ROLE, name, {}, rules=[_rule(row) for row in rows])
        yield _binding(ROLE_BINDING, name, "Role", (("User", _SCHEDULER),))


def install(store: ObjectStore) -> None:
    """Let a store have these objects, with these rules and at least these subjects."""
    for data in first_roles():
        meta = data["metadata"]
        key = (data["apiVersion"], data["kind"])
        found = store.find(key, meta.get("namespace", ""), meta["name"])
        if found is None:
            store.create(data)
            continue
        if found.typed.metadata.annotations.get(_UPDATED) == "false":
            continue
        wanted = {field: data[field] for field in ("rules", "subjects") if data.get(field)}
        present = found.data
        if any(present.get(field) != value for field, value in wanted.items()):
            store.revise(found, {**present, **wanted})


def _object(key: Kind, name: str, labels: dict[str, str], **rest: object) -> Plain:
    meta: Plain = {
        "name": name,
        "annotations": {_UPDATED: "true"},
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", **labels},
    }
    if key in (ROLE, ROLE_BINDING):
        meta["namespace"] = "kube-system"
    return {"apiVersion": key[0], "kind": key[1], "metadata": meta, **rest}


def _rule(row: _Row) -> Plain:
    verbs, group, what, names = row
    if group == "URL":
        return {"verbs": verbs.split(), "nonResourceURLs": what.split()}
    rule: Plain = {
        "verbs": verbs.split(),
        "apiGroups": group.split(" "),
        "resources": what.split(),
    }
    if names:
        rule["resourceNames"] = names.split()
    return rule


def _binding(key: Kind, name: str, kind: str, subjects: tuple[tuple[str, str], ...]) -> Plain:
    given = [{"kind": one, "apiGroup": GROUP, "name": who} for one, who in subjects]
    ref = {"apiGroup": GROUP, "kind": kind, "name": name}
    return _object(key, name, {}, subjects=given, roleRef=ref)
