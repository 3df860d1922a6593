"""The RBAC rules of a scheduler: resources and verbs, and what each is for.

The informers' part follows from what they read. The rest is a table; a test compares it with the
requests that the client really sends. Deployment manifests grant this, and nothing else.
"""

from __future__ import annotations

from typing import Final

import msgspec

from policy_sched.client.apimachinery import resource
from policy_sched.client.kube.cache import POD_GROUPS, READ
from policy_sched.client.kube.rest import Selection


class Right(msgspec.Struct, frozen=True, order=True):
    """One verb on one resource (``pods/binding`` for a subresource) of an API group ("": core).

    ``named``: only on the object of the lease's name; ``only``: on the one of this name. ``why`` is
    printed in the manifests.
    """

    group: str
    resource: str
    verb: str
    named: bool = False
    why: str = ""
    only: str = ""


def _reading(*selections: Selection) -> tuple[Right, ...]:
    kinds = (resource(selection.kind) for selection in selections)
    return tuple(
        Right(kind.group, kind.plural, verb, why="what decisions are made of")
        for kind in kinds
        for verb in ("list", "watch")
    )


READING: Final[tuple[Right, ...]] = tuple(dict.fromkeys(_reading(*READ)))
"""On the whole cluster, for every instance; all that a shadow needs."""

WRITING: Final[tuple[Right, ...]] = (
    Right("", "pods/binding", "create", why="a pod gets its node"),
    Right("", "pods", "get", why="a binding without a response is looked up"),
    Right("", "pods/status", "patch", why="why a pod waits, and where room is made for it"),
    Right("", "pods", "delete", why="a victim of preemption goes"),
    Right("", "persistentvolumes", "patch", why="a volume is kept for a claim"),
    Right("", "persistentvolumeclaims", "patch", why="a volume is to be made for a node"),
    Right("resource.k8s.io", "resourceclaims", "create", why="a claim serves extended resources"),
    Right("resource.k8s.io", "resourceclaims", "delete", why="such a claim goes with its attempt"),
    Right("resource.k8s.io", "resourceclaims", "get", why="a claim that another changed is read"),
    Right("resource.k8s.io", "resourceclaims", "patch", why="an allocated claim is protected"),
    Right("resource.k8s.io", "resourceclaims/status", "patch", why="a claim gets its devices"),
    Right(
        "resource.k8s.io", "resourceclaims/binding", "patch", why="devices are given, or taken back"
    ),
    Right("", "pods/finalizers", "update", why="such a claim keeps its pod until it has gone"),
    *(
        Right("resource.k8s.io", part, "update", why="a claim whose bytes a patch would change")
        for part in ("resourceclaims", "resourceclaims/status", "resourceclaims/binding")
    ),
    Right("events.k8s.io", "events", "create", why="what became of a pod is recorded"),
    Right("events.k8s.io", "events", "patch", why="an equal event is counted"),
)
"""On the whole cluster, for the instance that leads."""

GROUP_READING: Final[tuple[Right, ...]] = _reading(*POD_GROUPS)
GROUP_WRITING: Final[tuple[Right, ...]] = (
    Right("scheduling.k8s.io", "podgroups/status", "patch", why="whether a group has its nodes"),
)
"""The same where a feature gate or a policy is about pod groups."""

ELECTING: Final[tuple[Right, ...]] = (
    Right("coordination.k8s.io", "leases", "create", why="the first candidate makes the lease"),
    Right("coordination.k8s.io", "leases", "get", named=True, why="the current leader is read"),
    Right(
        "coordination.k8s.io",
        "leases",
        "list",
        named=True,
        why="the lease is watched",
    ),
    Right(
        "coordination.k8s.io",
        "leases",
        "watch",
        named=True,
        why="the lease is watched",
    ),
    Right(
        "coordination.k8s.io", "leases", "update", named=True, why="a lease is taken, kept, left"
    ),
)
"""In the namespace of the lease. An object that is to be made has no name yet."""
