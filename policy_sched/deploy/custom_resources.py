"""What policies as objects need of a cluster: their definition and roles.

The definition comes first, so that objects can be applied at once. An author writes policies and
not their status; what an author may do to pods by that is the same as with a policy in a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy_sched.client import kube
from policy_sched.deploy.manifests import RBAC, Options, Plain, labelled, named, rules
from policy_sched.profiles.models import CUSTOM_RESOURCES, definition_of

READ: Final = ("get", "list", "watch")
WRITTEN: Final = (*READ, "create", "update", "patch", "delete")
_TO_VIEW: Final = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}


def custom_resources(options: Options) -> Iterator[Plain]:
    """Yield the definitions and roles."""
    objects = [definition_of(resource) for resource in CUSTOM_RESOURCES]
    objects += _roles(options)
    return (labelled(options, obj) for obj in objects)


def _roles(options: Options) -> Iterator[Plain]:
    """Yield the roles of people: to bind, and for readers a part of ``view`` as well."""
    for who, verbs in (("author", WRITTEN), ("reader", READ)):
        role = named(f"{RBAC}/v1", "ClusterRole", f"{options.name}:policy-{who}")
        if who == "reader":
            role["metadata"]["labels"] = dict(_TO_VIEW)
        rights = [
            kube.Right(resource.group, resource.plural, verb)
            for resource in CUSTOM_RESOURCES
            for verb in verbs
        ]
        yield role | {"rules": rules(rights)}
