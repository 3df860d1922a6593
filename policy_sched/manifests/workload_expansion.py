"""Expands workloads to the pods that their controllers create, with the same names and labels.

Input and output are plain JSON data, so that all of a user's template is kept.
Suffixes and hashes are computed from the workload: the same workload has the same pods.

The nodes for a daemon set's pods are found with the daemon set controller's own predicates.

Claims that a cluster makes of templates for the pods are made here, too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from policy_sched import model
from policy_sched.model import Node, Pod, equality_selector, required_matches, tolerated


def should_run(pod: Pod, node: Node) -> bool:
    """Return whether a daemon's pod (of its template) should be started on a node."""
    return _reaches(pod, node) and not _repelled(pod, node, ("NoSchedule", "NoExecute"))


def may_stay(pod: Pod, node: Node) -> bool:
    """Return whether a daemon's pod that runs on a node may stay there."""
    return _reaches(pod, node) and not _repelled(pod, node, ("NoExecute",))


def _reaches(pod: Pod, node: Node) -> bool:
    spec, name, labels = pod.spec, node.metadata.name, node.metadata.labels
    if spec.node_name and spec.node_name != name:
        return False
    if not equality_selector(spec.node_selector).matches(labels):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    return required_matches(affinity, labels, name)


def _repelled(pod: Pod, node: Node, effects: tuple[str, ...]) -> bool:
    taints = [taint for taint in node.spec.taints if taint.effect in effects]
    return any(not tolerated(taint, pod.spec.tolerations) for taint in taints)


Plain = dict[str, Any]
"""A mapping of plain JSON data."""

ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Letters of generated names: no vowels, and no letters that look like digits."""

MOST_PODS: Final = 150_000
"""The most pods that workloads are expanded to: Kubernetes' limit for a cluster."""
NAME_LIMIT: Final = 63
SUFFIX_LENGTH: Final = 5
HASH_LENGTH: Final = 10

TEMPLATE_HASH: Final = "pod-template-hash"
REVISION_HASH: Final = "controller-revision-hash"
JOB_INDEX: Final = "batch.kubernetes.io/job-completion-index"
POD_INDEX: Final = "apps.kubernetes.io/pod-index"

_DAEMON_TOLERATIONS: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_HOST_NETWORK_TOLERATION: Final = ("node.kubernetes.io/network-unavailable", "NoSchedule")


class Owner(msgspec.Struct, frozen=True):
    """The controller of pods: an owner reference, and its namespace."""

    api_version: str
    kind: str
    name: str
    namespace: str
    uid: str

    @classmethod
    def of(cls, workload: Mapping[str, Any]) -> Owner:
        """Return the owner for a workload's pods."""
        meta = workload["metadata"]
        return cls(
            workload["apiVersion"],
            workload["kind"],
            meta["name"],
            meta.get("namespace") or "default",
            meta.get("uid") or "",
        )

    def reference(self) -> Plain:
        """Return the owner reference that the controller sets."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def _copied(value: Any) -> Any:
    """Return a copy of plain JSON data."""
    return msgspec.json.decode(msgspec.json.encode(value))


def suffix(seed: str, length: int = SUFFIX_LENGTH) -> str:
    """Return letters for a generated name; the same seed gives the same letters."""
    digest = hashlib.sha256(seed.encode()).digest()
    return "".join(ALPHABET[byte % len(ALPHABET)] for byte in digest[:length])


def template_hash(template: Mapping[str, Any]) -> str:
    """Return the hash of a pod template that labels and names contain."""
    return suffix(json.dumps(template, sort_keys=True), HASH_LENGTH)


def generated_name(base: str, seed: str) -> str:
    """Return a name of the form base-xxxxx; a base that is too long is cut."""
    return f"{f'{base}-'[: NAME_LIMIT - SUFFIX_LENGTH]}{suffix(f'{base}/{seed}')}"


def pod_of(
    owner: Owner, template: Mapping[str, Any], name: str, labels: Mapping[str, str] | None = None
) -> Plain:
    """Return a pod from a template; ``labels`` are added to the template's."""
    given = template.get("metadata") or {}
    meta: Plain = {
        "name": name,
        "namespace": owner.namespace,
        "labels": {**(given.get("labels") or {}), **(labels or {})},
        "ownerReferences": [owner.reference()],
    }
    for field in ("annotations", "finalizers"):
        if given.get(field):
            meta[field] = _copied(given[field])
    spec = _copied(dict(template.get("spec") or {}))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def replicas_of(workload: Mapping[str, Any]) -> int:
    """Return a workload's replicas; the default is one."""
    count = (workload.get("spec") or {}).get("replicas")
    return 1 if count is None else int(count)


def template_of(workload: Mapping[str, Any]) -> Plain:
    """Return a workload's pod template, empty if it has none."""
    return dict((workload.get("spec") or {}).get("template") or {})


def replica_set_of(
    deployment: Mapping[str, Any], replicas: int | None = None, fingerprint: str = ""
) -> Plain:
    """Return the replica set of a deployment's current template, without uid.

    ``fingerprint``: the template's hash, if another controller has set it.
    """
    owner, template = Owner.of(deployment), template_of(deployment)
    spec = deployment["spec"]
    fingerprint = fingerprint or template_hash(template)
    meta = template.get("metadata") or {}
    labels = {**(meta.get("labels") or {}), TEMPLATE_HASH: fingerprint}
    selector = _copied(spec.get("selector") or {})
    selector["matchLabels"] = {**selector.get("matchLabels", {}), TEMPLATE_HASH: fingerprint}
    copied = {**_copied(template), "metadata": {**_copied(meta), "labels": labels}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{owner.name}-{fingerprint}",
            "namespace": owner.namespace,
            "labels": labels,
            "ownerReferences": [owner.reference()],
        },
        "spec": {
            "replicas": replicas_of(deployment) if replicas is None else replicas,
            "selector": selector,
            "template": copied,
        },
    }


def replica(owner: Owner, template: Mapping[str, Any], seed: str) -> Plain:
    """Return a pod of a replica set or replication controller, with a generated name."""
    return pod_of(owner, template, generated_name(owner.name, seed))


def stateful_name(name: str, ordinal: int) -> str:
    """Return the name of a stateful set's pod."""
    return f"{name}-{ordinal}"


def first_ordinal(stateful_set: Mapping[str, Any]) -> int:
    """Return the number of a stateful set's first pod."""
    return int((stateful_set["spec"].get("ordinals") or {}).get("start") or 0)


def stateful_pod(stateful_set: Mapping[str, Any], ordinal: int) -> Plain:
    """Return a stateful set's pod; its claims are volumes with the names of the templates."""
    owner, template, spec = Owner.of(stateful_set), template_of(stateful_set), stateful_set["spec"]
    name = stateful_name(owner.name, ordinal)
    labels = {
        "statefulset.kubernetes.io/pod-name": name,
        POD_INDEX: str(ordinal),
        REVISION_HASH: revision(owner.name, template),
    }
    pod = pod_of(owner, template, name, labels)
    pod["spec"]["hostname"] = name
    if spec.get("serviceName"):
        pod["spec"]["subdomain"] = spec["serviceName"]
    wanted = dict.fromkeys(_name(claim) for claim in spec.get("volumeClaimTemplates") or ())
    if wanted:
        others = [v for v in pod["spec"].get("volumes") or () if v.get("name") not in wanted]
        pod["spec"]["volumes"] = others + [
            {"name": volume, "persistentVolumeClaim": {"claimName": f"{volume}-{name}"}}
            for volume in wanted
        ]
    return pod


def _name(template: Mapping[str, Any]) -> str:
    """Return the name of a claim template."""
    return str((template.get("metadata") or {}).get("name") or "")


def stateful_claims(stateful_set: Mapping[str, Any], ordinal: int) -> list[Plain]:
    """Return the claims that a stateful set creates for one of its pods; they outlive the pod."""
    owner, spec = Owner.of(stateful_set), stateful_set["spec"]
    claims = []
    for template in spec.get("volumeClaimTemplates") or ():
        meta = template.get("metadata") or {}
        labels = (spec.get("selector") or {}).get("matchLabels") or {}
        claims.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": f"{_name(template)}-{stateful_name(owner.name, ordinal)}",
                    "namespace": owner.namespace,
                    "labels": {**(meta.get("labels") or {}), **labels},
                    "annotations": dict(meta.get("annotations") or {}),
                },
                "spec": _copied(template.get("spec") or {}),
            }
        )
    return claims


def revision(name: str, template: Mapping[str, Any]) -> str:
    """Return the revision name of a stateful set's template."""
    return f"{name}-{template_hash(template)}"


def job_pod(job: Mapping[str, Any], seed: str, index: int | None = None) -> Plain:
    """Return a pod of a job; ``index`` is its completion index in an Indexed job."""
    owner, template = Owner.of(job), template_of(job)
    labels = {
        "batch.kubernetes.io/controller-uid": owner.uid,
        "batch.kubernetes.io/job-name": owner.name,
        "controller-uid": owner.uid,
        "job-name": owner.name,
    }
    base = owner.name if index is None else f"{owner.name}-{index}"
    pod = pod_of(owner, template, generated_name(base, seed), labels)
    if index is not None:
        pod["metadata"]["labels"][JOB_INDEX] = str(index)
        pod["metadata"].setdefault("annotations", {})[JOB_INDEX] = str(index)
        pod["spec"].setdefault("hostname", base)
    return pod


def daemon_candidate(daemon_set: Mapping[str, Any], seed: str = "") -> Plain:
    """Return a daemon set's pod before a node is chosen; it tolerates the daemon taints."""
    owner, template = Owner.of(daemon_set), template_of(daemon_set)
    labels = {REVISION_HASH: template_hash(template)}
    pod = pod_of(owner, template, generated_name(owner.name, seed), labels)
    spec = pod["spec"]
    spec["tolerations"] = _with_daemon_tolerations(
        spec.get("tolerations") or [], host_network=bool(spec.get("hostNetwork"))
    )
    return pod


def daemon_pod(daemon_set: Mapping[str, Any], node: str, seed: str = "") -> Plain:
    """Return a daemon set's pod that is bound to one node by affinity."""
    pod = daemon_candidate(daemon_set, f"{node}/{seed}")
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    affinity = pod["spec"]["affinity"] = pod["spec"].get("affinity") or {}
    node_affinity = affinity["nodeAffinity"] = affinity.get("nodeAffinity") or {}
    # The template's own node affinity was checked before; the node's replaces it.
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
        "nodeSelectorTerms": [{"matchFields": [field]}]
    }
    return pod


def _with_daemon_tolerations(given: Sequence[Plain], *, host_network: bool) -> list[Plain]:
    wanted = [*_DAEMON_TOLERATIONS, *([_HOST_NETWORK_TOLERATION] if host_network else [])]
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in wanted]
    return [*given, *(toleration for toleration in added if toleration not in given)]


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
        (obj.metadata.namespace or "default", obj.metadata.name): obj
        for obj in objects
        if isinstance(obj, model.ResourceClaimTemplate)
    }
    if not templates:
        return list(objects)
    expanded: list[model.ApiObject] = []
    for obj in objects:
        if isinstance(obj, model.Pod) and obj.spec.resource_claims:
            made, pod = _made(obj, templates)
            expanded += [*made, pod]
        else:
            expanded.append(obj)
    return expanded


def _made(
    pod: model.Pod, templates: dict[tuple[str, str], model.ResourceClaimTemplate]
) -> tuple[list[model.ResourceClaim], model.Pod]:
    namespace = pod.metadata.namespace or "default"
    statuses = list(pod.status.resource_claim_statuses)
    known = {claim_status.name for claim_status in statuses}
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
