"""What policies as objects need of a cluster: their definition, roles, and the webhook.

The definition comes first, so that objects can be applied at once. An author writes policies and
not their status; what an author may do to pods by that is the same as with a policy in a file.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Final

from policy_sched.client import kube
from policy_sched.deploy.manifests import APP, RBAC, Options, Plain, labelled, named, rules
from policy_sched.profiles.models import CUSTOM_RESOURCES, definition_of

READ: Final = ("get", "list", "watch")
WRITTEN: Final = (*READ, "create", "update", "patch", "delete")
TIMEOUT: Final = 5
"""Seconds in which a webhook answers; then the object is let in, and judged by the watch."""
_INJECTED: Final = "cert-manager.io/inject-ca-from-secret"
_TO_VIEW: Final = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}


def custom_resources(
    options: Options, *, webhook: bool = False, authority: bytes = b""
) -> Iterator[Plain]:
    """Yield the definitions and roles, and with ``webhook`` what has the API server ask us.

    ``authority``: the certificates (PEM) that sign that of the endpoints; without them
    cert-manager fills them in from the Secret.
    """
    objects = [definition_of(resource) for resource in CUSTOM_RESOURCES]
    objects += _roles(options)
    if webhook:
        objects += _webhook(options, authority)
    return (labelled(options, obj) for obj in objects)


def _roles(options: Options) -> Iterator[Plain]:
    """Yield the roles of people: to bind, and for readers a part of ``view`` as well."""
    for role_name, verbs in (("author", WRITTEN), ("reader", READ)):
        role = named(f"{RBAC}/v1", "ClusterRole", f"{options.name}:policy-{role_name}")
        if role_name == "reader":
            role["metadata"]["labels"] = dict(_TO_VIEW)
        rights = [
            kube.Right(resource.group, resource.plural, verb)
            for resource in CUSTOM_RESOURCES
            for verb in verbs
        ]
        yield role | {"rules": rules(rights)}


def _webhook(options: Options, authority: bytes) -> Iterator[Plain]:
    name = f"{options.name}-webhook"
    ports = [{"name": "https", "port": 443, "targetPort": "https"}]
    service = named("v1", "Service", name, options.namespace)
    yield service | {"spec": {"selector": {APP: options.name}, "ports": ports}}
    place = {"name": name, "namespace": options.namespace, "path": "/validate", "port": 443}
    client: dict[str, Any] = {"service": place}
    configuration = named(
        "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", options.name
    )
    if authority:
        client["caBundle"] = b64encode(authority).decode()
    else:
        secret = f"{options.namespace}/{options.tls_secret}"
        configuration["metadata"]["annotations"] = {_INJECTED: secret}
    yield configuration | {
        "webhooks": [
            {
                "name": f"validate.{resource.name}",
                "clientConfig": client,
                "rules": [
                    {
                        "apiGroups": [resource.group],
                        "apiVersions": [resource.api_version.partition("/")[2]],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": [resource.plural],
                        "scope": "Cluster",
                    }
                ],
                "matchPolicy": "Equivalent",
                "failurePolicy": "Ignore",
                "sideEffects": "None",
                "timeoutSeconds": TIMEOUT,
                "admissionReviewVersions": ["v1"],
            }
            for resource in CUSTOM_RESOURCES
        ]
    }
