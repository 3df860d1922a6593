"""The resources that are served: paths, verbs, short names, subresources; a table."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from policy_sched.client import apimachinery
from policy_sched.embedded.apiserver.registry import conversion
from policy_sched.embedded.schema import CustomKinds, CustomVersion
from policy_sched.model import KINDS, SKIPPED_KINDS, ApiObject, Kind

ALL_VERBS: Final[tuple[str, ...]] = (
    "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
)  # fmt: skip
_CHANGE: Final = ("get", "patch", "update")

GROUPS: Final = (
    "", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io",
    "authorization.k8s.io", "autoscaling", "batch", "certificates.k8s.io", "networking.k8s.io",
    "policy", "rbac.authorization.k8s.io", "storage.k8s.io", "admissionregistration.k8s.io",
    "apiextensions.k8s.io", "scheduling.k8s.io", "coordination.k8s.io", "node.k8s.io",
    "discovery.k8s.io", "resource.k8s.io", "flowcontrol.apiserver.k8s.io", "scheduling.x-k8s.io",
)  # fmt: skip
"""In the order in which discovery names them."""

_NOT_SERVED: Final[frozenset[Kind]] = frozenset({
    ("v1", "Binding"), ("v1", "Event"), ("autoscaling/v1", "HorizontalPodAutoscaler"),
})  # fmt: skip
"""No objects, or the same objects as those of another version."""

_COMPUTED: Final[frozenset[Kind]] = frozenset({
    ("v1", "ComponentStatus"), ("apiregistration.k8s.io/v1", "APIService"),
})  # fmt: skip
"""Resources that the server computes; they are only read."""

_SHORT: Final = {
    "componentstatuses": ("cs",),
    "configmaps": ("cm",), "endpoints": ("ep",), "events": ("ev",), "limitranges": ("limits",),
    "namespaces": ("ns",), "nodes": ("no",), "persistentvolumeclaims": ("pvc",),
    "persistentvolumes": ("pv",), "pods": ("po",), "replicationcontrollers": ("rc",),
    "resourcequotas": ("quota",), "serviceaccounts": ("sa",), "services": ("svc",),
    "daemonsets": ("ds",), "deployments": ("deploy",), "replicasets": ("rs",),
    "statefulsets": ("sts",), "horizontalpodautoscalers": ("hpa",), "cronjobs": ("cj",),
    "certificatesigningrequests": ("csr",), "ingresses": ("ing",), "ipaddresses": ("ip",),
    "networkpolicies": ("netpol",), "poddisruptionbudgets": ("pdb",), "storageclasses": ("sc",),
    "volumeattributesclasses": ("vac",), "priorityclasses": ("pc",),
    "customresourcedefinitions": ("crd", "crds"), "podgroups": ("pg",),
}  # fmt: skip
_IN_ALL: Final = frozenset({
    "pods", "services", "replicationcontrollers", "daemonsets", "deployments", "replicasets",
    "statefulsets", "horizontalpodautoscalers", "cronjobs", "jobs",
})  # fmt: skip
_EXTENSIONS: Final = frozenset({
    "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io",
})  # fmt: skip
SCALED: Final = frozenset({
    "deployments", "replicasets", "statefulsets", "replicationcontrollers",
})  # fmt: skip


_REVIEWS: Final = {
    "authentication": ("SelfSubjectReview", "TokenReview"),
    "authorization": (
        "LocalSubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview",
        "SubjectAccessReview",
    ),
}  # fmt: skip


_STREAMS: Final = {
    "attach": ("PodAttachOptions", ("create", "get")),
    "exec": ("PodExecOptions", ("create", "get")),
    "log": ("Pod", ("get",)),
    "portforward": ("PodPortForwardOptions", ("create", "get")),
}
"""Subresources that need a kubelet."""


@dataclass(frozen=True, slots=True)
class Subresource:
    """A part of an object that is served apart."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    of: tuple[str, str] | None = None
    """Group and version, if not those of the resource."""


@dataclass(frozen=True, slots=True)
class ServedResource:
    """One resource of one group and version; ``resource`` is how the store names it."""

    group: str
    version: str
    resource: apimachinery.Resource
    form: conversion.Form
    subresources: tuple[Subresource, ...]
    verbs: tuple[str, ...] = ALL_VERBS
    review: bool = False
    """Whether its objects are reviews, which are completed and not stored."""
    computed: bool = False
    """Whether its objects follow from the server, and are not stored."""
    custom: CustomVersion | None = None
    """The version of a CustomResourceDefinition that it is."""

    @property
    def name(self) -> str:
        """The name in paths: ``pods``."""
        return self.resource.plural

    @property
    def kind(self) -> str:
        """The kind of its objects."""
        return self.resource.kind

    @property
    def path(self) -> tuple[str, str, str]:
        """Group, version and name, by which requests find it."""
        return self.group, self.version, self.name

    @property
    def group_version(self) -> str:
        """The apiVersion of its objects, as they are served."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """The name of one object."""
        return str(self._named("singular")) if self.custom else self.kind.lower()

    @property
    def list_kind(self) -> str:
        """The kind of a list of its objects."""
        return str(self._named("listKind")) if self.custom else f"{self.kind}List"

    def _named(self, field: str) -> Any:
        assert self.custom is not None
        return self.custom.kind.names.get(field)

    @property
    def short_names(self) -> tuple[str, ...]:
        """What may be typed instead."""
        if self.custom:
            return tuple(self._named("shortNames") or ())
        return _SHORT.get(self.name, ())

    @property
    def categories(self) -> tuple[str, ...]:
        """Under which names it is listed together with others."""
        if self.custom:
            return tuple(self._named("categories") or ())
        if self.name in _IN_ALL:
            return ("all",)
        return ("api-extensions",) if self.group in _EXTENSIONS else ()

    def subresource(self, name: str) -> Subresource | None:
        """Return a subresource by its name."""
        return next((part for part in self.subresources if part.name == name), None)


def _subresources(resource: apimachinery.Resource) -> tuple[Subresource, ...]:
    result = []
    if resource.kind == "Pod":
        result += [Subresource(name, kind, verbs) for name, (kind, verbs) in _STREAMS.items()]
        result.append(Subresource("binding", "Binding", ("create",)))
        result.append(Subresource("ephemeralcontainers", "Pod", _CHANGE))
        result.append(Subresource("eviction", "Eviction", ("create",), ("policy", "v1")))
    if resource.kind == "Namespace":
        result.append(Subresource("finalize", "Namespace", ("update",)))
    if resource.kind == "ServiceAccount":
        of = ("authentication.k8s.io", "v1")
        result.append(Subresource("token", "TokenRequest", ("create",), of))
    if resource.plural in SCALED:
        result.append(Subresource("scale", "Scale", _CHANGE, ("autoscaling", "v1")))
    if resource.has_status:
        result.append(Subresource("status", resource.kind, _CHANGE))
    return tuple(result)


def _served(key: Kind, form: conversion.Form | None = None) -> ServedResource:
    resource = apimachinery.resource(key)
    form = form or conversion.Form(resource.api_version, resource.kind, resource.api_version, {})
    group, _, version = form.api_version.rpartition("/")
    if key in _COMPUTED:
        return ServedResource(group, version, resource, form, (), ("get", "list"), computed=True)
    verbs = ALL_VERBS
    if key == apimachinery.NAMESPACE:
        verbs = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")
    return ServedResource(group, version, resource, form, _subresources(resource), verbs)


def _review(group: str, kind: str) -> ServedResource:
    api_version = f"{group}/v1"
    resource = apimachinery.Resource(
        key=(api_version, kind),
        api_version=api_version,
        kind=kind,
        group=group,
        plural=apimachinery.plural(kind),
        namespaced=kind == "LocalSubjectAccessReview",
        has_status=False,
        status_reported=False,
        has_generation=False,
        freely_named=True,
        struct=ApiObject,
    )
    form = conversion.Form(api_version, kind, api_version, {})
    return ServedResource(group, "v1", resource, form, (), ("create",), review=True)


def _table() -> tuple[ServedResource, ...]:
    keys = sorted({*KINDS, *SKIPPED_KINDS} - _NOT_SERVED)
    table = [_served(key) for key in keys]
    table.append(
        _served(
            apimachinery.EVENT,
            conversion.Form("v1", "Event", apimachinery.EVENT[0], conversion.CORE_EVENT),
        )
    )
    table += [_review(f"{group}.k8s.io", kind) for group in _REVIEWS for kind in _REVIEWS[group]]
    return tuple(table)


_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_MATURITY: Final = {None: 0, "beta": 1, "alpha": 2}


def _rank(version: str) -> tuple[Any, ...]:
    """Return the sort key of a version: stable versions come first, higher ones before lower
    ones."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return 3, 0, 0, version
    return _MATURITY[match[2]], -int(match[1]), -int(match[3] or 0), version


class Catalog:
    """All resources that are served, in the order in which discovery names them.

    ``versions`` has those of each group, the preferred one first.
    """

    def __init__(self, served: Iterable[ServedResource]) -> None:
        self.served = tuple(sorted(served, key=_order))
        self.by_path = {resource.path: resource for resource in self.served}
        groups = (*GROUPS, *(resource.group for resource in self.served))
        self.versions: dict[str, tuple[str, ...]] = dict.fromkeys(groups, ())
        for group, version, _ in self.by_path:
            if version not in self.versions[group]:
                self.versions[group] += (version,)

    def of(self, group: str, version: str) -> tuple[ServedResource, ...]:
        """Return the resources of a version of a group."""
        return tuple(item for item in self.served if item.path[:2] == (group, version))


def _order(served: ServedResource) -> tuple[Any, ...]:
    group = GROUPS.index(served.group) if served.group in GROUPS else len(GROUPS)
    return group, served.group, _rank(served.version), served.name


_TABLE: Final = _table()
BUILT_IN: Final = Catalog(_TABLE)


class Catalogs:
    """The catalog of a store, made anew when its custom kinds have changed."""

    def __init__(self, custom: CustomKinds) -> None:
        self._custom = custom
        self._version = 0
        self._catalog = BUILT_IN

    def present(self) -> Catalog:
        """Return what is served now."""
        if self._version != self._custom.version:
            self._version = self._custom.version
            added = {
                resource.path: resource
                for kind in self._custom
                for resource in map(_custom, kind.versions.values())
                if resource.custom is not None and resource.custom.served
            }
            kept = [resource for resource in _TABLE if resource.path not in added]
            self._catalog = Catalog((*kept, *added.values()))
        return self._catalog


def _custom(version: CustomVersion) -> ServedResource:
    """Return a version of a custom kind as a resource."""
    kind = version.kind
    parts = []
    if version.scale is not None:
        parts.append(Subresource("scale", "Scale", _CHANGE, ("autoscaling", "v1")))
    if version.has_status:
        parts.append(Subresource("status", kind.names["kind"], _CHANGE))
    form = conversion.CustomForm(version)
    return ServedResource(
        kind.group, version.name, kind.resource, form, tuple(parts), custom=version
    )


# Field selectors: which fields they may name, by kind.

_ALWAYS: Final = ("metadata.name", "metadata.namespace")
_ABOUT: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT: Final = ("reason", "type", "reportingController")
SELECTABLE: Final[dict[str, frozenset[str]]] = {
    "Pod": frozenset({
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName",
    }),
    "Node": frozenset({"spec.unschedulable"}),
    "Namespace": frozenset({"status.phase"}),
    "Secret": frozenset({"type"}),
    "Service": frozenset({"spec.clusterIP", "spec.type"}),
    "ReplicaSet": frozenset({"status.replicas"}),
    "ReplicationController": frozenset({"status.replicas"}),
    "Job": frozenset({"status.succeeded"}),
    "Event": frozenset({*(f"regarding.{name}" for name in _ABOUT), *_EVENT,
                        "deprecatedSource.component"}),
}  # fmt: skip
"""Besides name and namespace; by their names in the store."""
_RENAMED: Final = {
    "deprecatedSource": "deprecatedSource.component",
    "status.successful": "status.succeeded",
}


def field_selector(served: ServedResource, text: str) -> apimachinery.Match:
    """Return a test of the fields that a selector names. Raises ApiError if it may not."""
    parts = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        cut = min((index for index in (part.find("="), part.find("!")) if index >= 0), default=-1)
        if cut < 0:
            raise apimachinery.bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        shown, value = part[:cut].strip(), part[cut:]
        path = served.form.field(shown)
        path = _RENAMED.get(path, path)
        if path not in _ALWAYS and path not in _selectable(served):
            raise apimachinery.bad_request(_unknown(served, shown))
        parts.append(path + value)
    return apimachinery.field_match(",".join(parts))


def _selectable(served: ServedResource) -> Iterable[str]:
    return served.custom.selectable if served.custom else SELECTABLE.get(served.kind, ())


def _unknown(served: ServedResource, path: str) -> str:
    if served.custom or served.kind in SELECTABLE:
        return f"field label not supported: {path}"
    selectable = ", ".join(f'"{name}"' for name in _ALWAYS)
    return f'"{path}" is not a known field selector: only {selectable}'
