"""Which groups, versions and resources there are: discovery in its classic and aggregated form."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from policy_sched.embedded.apiserver.registry.resources import SERVED, VERSIONS, Served, Subresource
from policy_sched.manifests import Plain

AGGREGATED = "apidiscovery.k8s.io/v2"
VERSION: Plain = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.2+policy-sched",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
"""The API of this version of Kubernetes is the one that is answered."""


def api_versions(address: str) -> Plain:
    """Return the document at /api; ``address``: host and port that the client reached."""
    reached = {"clientCIDR": "0.0.0.0/0", "serverAddress": address}
    return {
        "kind": "APIVersions",
        "versions": list(VERSIONS[""]),
        "serverAddressByClientCIDRs": [reached],
    }


def group_list() -> Plain:
    """Return the document at /apis."""
    groups = [_group(name) for name in VERSIONS if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(name: str) -> Plain | None:
    """Return the document at /apis/GROUP."""
    if not name or name not in VERSIONS:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name)}


def _group(name: str) -> Plain:
    versions = [{"groupVersion": f"{name}/{v}", "version": v} for v in VERSIONS[name]]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def resource_list(name: str, version: str) -> Plain | None:
    """Return the document at /api/v1, or /apis/GROUP/VERSION."""
    if version not in VERSIONS.get(name, ()):
        return None
    found: list[Plain] = []
    for one in SERVED:
        if (one.group, one.version) == (name, version):
            found.append(_classic(one))
            found += [_classic_part(one, part) for part in one.subresources]
    head = {"kind": "APIResourceList"} | ({"apiVersion": "v1"} if name else {})
    head["groupVersion"] = f"{name}/{version}" if name else version
    return {**head, "resources": found}


def _classic(one: Served) -> Plain:
    return {
        "name": one.name,
        "singularName": one.singular,
        "namespaced": one.resource.namespaced,
        "kind": one.kind,
        "verbs": list(one.verbs),
        **_lists("shortNames", one.short_names),
        **_lists("categories", one.categories),
        **({} if one.review else {"storageVersionHash": _hash(one)}),
    }


def _hash(one: Served) -> str:
    """Return what tells apart how objects are stored (StorageVersionHash of the API server).

    An API server stores events in their older form.
    """
    stored = "v1" if one.kind == "Event" else one.resource.api_version
    group, _, version = stored.rpartition("/")
    text = f"{group}/{version}/{one.kind}".encode()
    return base64.b64encode(hashlib.sha256(text).digest()[:8]).decode()


def _classic_part(one: Served, part: Subresource) -> Plain:
    of = {"group": part.of[0], "version": part.of[1]} if part.of else {}
    return {
        "name": f"{one.name}/{part.name}",
        "singularName": "",
        "namespaced": one.resource.namespaced,
        **of,
        "kind": part.kind,
        "verbs": list(part.verbs),
    }


def aggregated(*, core: bool) -> Plain:
    """Return all groups with their resources in one document: at /api (core), and at /apis."""
    names = [name for name in VERSIONS if (name == "") is core]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": AGGREGATED,
        "metadata": {},
        "items": [_aggregated_group(name) for name in names],
    }


def _aggregated_group(name: str) -> Plain:
    versions = [
        {
            "version": version,
            "resources": [
                _aggregated(one) for one in SERVED if (one.group, one.version) == (name, version)
            ],
            "freshness": "Current",
        }
        for version in VERSIONS[name]
    ]
    return {"metadata": {"name": name} if name else {}, "versions": versions}


def _aggregated(one: Served) -> Plain:
    return {
        "resource": one.name,
        "responseKind": {"group": "", "version": "", "kind": one.kind},
        "scope": "Namespaced" if one.resource.namespaced else "Cluster",
        "singularResource": one.singular,
        "verbs": list(one.verbs),
        **_lists("shortNames", one.short_names),
        **_lists("categories", one.categories),
        **_lists("subresources", [_aggregated_part(part) for part in one.subresources]),
    }


def _aggregated_part(part: Subresource) -> Plain:
    group, version = part.of or ("", "")
    return {
        "subresource": part.name,
        "responseKind": {"group": group, "version": version, "kind": part.kind},
        "verbs": list(part.verbs),
    }


def _lists(field: str, values: Any) -> Plain:
    return {field: list(values)} if values else {}
