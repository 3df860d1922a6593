"""Claims of devices for pods of manifests: those that a cluster makes of templates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from policy_sched import model

POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"
"""On a claim that was made for a pod: the pod's entry."""
LONGEST: Final = 57
"""Characters of a name that is generated, without those that are made up."""


def claim_prefix(pod: str, entry: str) -> str:
    """Return how the names of claims for an entry of a pod begin."""
    length = len(pod) + 1 + len(entry)
    if length > LONGEST:
        pod = pod[: len(pod) * LONGEST // length]
        entry = entry[: len(entry) * LONGEST // length]
    return f"{pod}-{entry}-"


def with_claims(objects: Sequence[model.ApiObject]) -> list[model.ApiObject]:
    """Return objects with the claims of templates that their pods use, before the pods.

    An entry whose template is missing stays as it is: such a pod waits.
    """
    templates = {
        (one.metadata.namespace or "default", one.metadata.name): one
        for one in objects
        if isinstance(one, model.ResourceClaimTemplate)
    }
    if not templates:
        return list(objects)
    found: list[model.ApiObject] = []
    for one in objects:
        if isinstance(one, model.Pod) and one.spec.resource_claims:
            made, pod = _made(one, templates)
            found += [*made, pod]
        else:
            found.append(one)
    return found


def _made(
    pod: model.Pod, templates: dict[tuple[str, str], model.ResourceClaimTemplate]
) -> tuple[list[model.ResourceClaim], model.Pod]:
    namespace = pod.metadata.namespace or "default"
    statuses = list(pod.status.resource_claim_statuses)
    known = {one.name for one in statuses}
    uid = pod.metadata.uid or f"{namespace}/{pod.metadata.name}"
    claims = []
    for entry in pod.spec.resource_claims:
        template = templates.get((namespace, entry.resource_claim_template_name or ""))
        if template is None or entry.name in known:
            continue
        name = f"{claim_prefix(pod.metadata.name, entry.name)}00000"
        owner = model.OwnerReference(
            api_version="v1", kind="Pod", name=pod.metadata.name, uid=uid, controller=True
        )
        meta = template.spec.metadata
        claims.append(
            model.ResourceClaim(
                api_version="resource.k8s.io/v1",
                kind="ResourceClaim",
                metadata=model.ClaimMeta(
                    name=name,
                    namespace=namespace,
                    uid=f"{namespace}/{name}",
                    labels=meta.labels,
                    annotations={**meta.annotations, POD_CLAIM: entry.name},
                    owner_references=(owner,),
                    creation_timestamp=pod.metadata.creation_timestamp,
                ),
                spec=template.spec.spec,
            )
        )
        statuses.append(model.PodResourceClaimStatus(name=entry.name, resource_claim_name=name))
    if not claims:
        return [], pod
    metadata = replace(pod.metadata, uid=uid)
    status = replace(pod.status, resource_claim_statuses=tuple(statuses))
    return claims, replace(pod, metadata=metadata, status=status)
