"""Service account and RBAC rules of a deployment: only what its client requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from policy_sched.client.kube import ELECTING, READING, WRITING, Right
from policy_sched.deploy.options import Options

Plain = dict[str, Any]
RBAC: Final = "rbac.authorization.k8s.io"
FLOWS: Final = "flowcontrol.apiserver.k8s.io/v1"
VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete")
"""In the order in which people read them."""


def named(api_version: str, kind: str, name: str, namespace: str = "") -> Plain:
    """Return the beginning of an object."""
    metadata: Plain = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def access(options: Options, lease: tuple[str, str] | None) -> Iterator[Plain]:
    """Yield service account, roles and bindings; what it may is bound to this account alone."""
    account = named("v1", "ServiceAccount", options.name, options.namespace)
    yield account | {"automountServiceAccountToken": False}
    rights = READING if options.shadow is not None else (*READING, *WRITING)
    yield named(f"{RBAC}/v1", "ClusterRole", options.name) | {"rules": rules(rights)}
    yield _binding(options, "ClusterRoleBinding", options.name, ("ClusterRole", options.name))
    # The API server reviews callers of /metrics: TokenReview and SubjectAccessReview.
    reviews = ("ClusterRole", "system:auth-delegator")
    yield _binding(options, "ClusterRoleBinding", f"{options.name}:auth-delegator", reviews)
    if lease is not None:
        place, lock = lease
        name = f"{options.name}:leader-election"
        yield named(f"{RBAC}/v1", "Role", name, place) | {"rules": rules(ELECTING, lock)}
        yield _binding(options, "RoleBinding", name, ("Role", name), place)


def rules(rights: Iterable[Right], lock: str = "") -> list[Plain]:
    """Return the rules that grant rights: resources with the same verbs together."""
    verbs: dict[tuple[str, str, bool], set[str]] = {}
    for right in rights:
        verbs.setdefault((right.group, right.resource, right.named), set()).add(right.verb)
    together: dict[tuple[str, tuple[str, ...], bool], list[str]] = {}
    for (group, resource, is_named), wanted in verbs.items():
        ordered = tuple(verb for verb in VERBS if verb in wanted)
        together.setdefault((group, ordered, is_named), []).append(resource)
    return [
        {
            "apiGroups": [group],
            "resources": sorted(resources),
            **({"resourceNames": [lock]} if is_named else {}),
            "verbs": list(ordered),
        }
        for (group, ordered, is_named), resources in sorted(together.items())
    ]


def priority(options: Options) -> Iterator[Plain]:
    """Yield what keeps requests from waiting behind everybody's, outside kube-system too."""
    subject = {
        "kind": "ServiceAccount",
        "serviceAccount": {"name": options.name, "namespace": options.namespace},
    }
    everything = {
        "verbs": ["*"],
        "apiGroups": ["*"],
        "resources": ["*"],
        "clusterScope": True,
        "namespaces": ["*"],
    }
    leases = {
        "verbs": ["get", "create", "update"],
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "namespaces": ["*"],
    }
    flows: list[tuple[str, str, int, Plain]] = [("", "workload-high", 800, everything)]
    if options.shadow is None:
        flows.insert(0, (":leader-election", "leader-election", 200, leases))
    for suffix, level, precedence, requests in flows:
        yield named(FLOWS, "FlowSchema", f"{options.name}{suffix}".replace(":", "-")) | {
            "spec": {
                "priorityLevelConfiguration": {"name": level},
                "matchingPrecedence": precedence,
                "distinguisherMethod": {"type": "ByUser"},
                "rules": [{"subjects": [subject], "resourceRules": [requests]}],
            }
        }


def _binding(
    options: Options, kind: str, name: str, role: tuple[str, str], namespace: str = ""
) -> Plain:
    return named(f"{RBAC}/v1", kind, name, namespace) | {
        "roleRef": {"apiGroup": RBAC, "kind": role[0], "name": role[1]},
        "subjects": [
            {"kind": "ServiceAccount", "name": options.name, "namespace": options.namespace}
        ],
    }
