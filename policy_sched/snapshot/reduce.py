"""Reduces objects to what decisions read.

The structs of `model` have no field for environment variables, commands, managed fields and the
like, so decoding has dropped these. What remains is dropped here: annotations that no decision
reads, messages of conditions, parameters of drivers, templates of workloads, and versions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from policy_sched.model import (
    DURATION_ANNOTATION,
    KINDS,
    ApiObject,
    Condition,
    DeviceClass,
    Node,
    ObjectMeta,
    Pod,
    PodGroup,
    ReplicaSet,
    ReplicationController,
    ResourceClaim,
    ResourceClaimTemplate,
    StatefulSet,
)
from policy_sched.snapshot.collect import SELECTIONS

TAKEN: Final = tuple(KINDS[selection.kind] for selection in SELECTIONS)
"""The kinds of a snapshot."""
ENDED: Final = frozenset({"Succeeded", "Failed"})

ANNOTATIONS: Final = frozenset(
    {
        DURATION_ANNOTATION,
        "batch.kubernetes.io/job-completion-index",
        "resource.kubernetes.io/pod-claim-name",
        "resource.kubernetes.io/extended-resource-claim",
        "storage.alpha.kubernetes.io/migrated-plugins",
        "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/selected-node",
        "pv.kubernetes.io/bind-completed",
        "pv.kubernetes.io/bound-by-controller",
    }
)
"""The annotations that plugins and simulations read."""

T = TypeVar("T")
M = TypeVar("M", bound=ObjectMeta)


def reduced(objects: Iterable[ApiObject], annotations: Collection[str] = ()) -> list[ApiObject]:
    """Return the objects that decisions read, with what they read of them.

    ``annotations``: names of further annotations that are kept.
    """
    kept = ANNOTATIONS.union(annotations)
    return list(_reduced(objects, kept))


def _reduced(objects: Iterable[ApiObject], kept: Collection[str]) -> Iterator[ApiObject]:
    for one in objects:
        if not isinstance(one, TAKEN) or (isinstance(one, Pod) and one.status.phase in ENDED):
            continue
        reduce = _REDUCE.get(type(one))
        found = one if reduce is None else reduce(one)
        yield replace(found, metadata=_metadata(found.metadata, kept))


def _metadata(meta: M, kept: Collection[str]) -> M:
    annotations = {k: v for k, v in meta.annotations.items() if k in kept}
    return replace(
        meta, annotations=annotations, resource_version="", generation=0, generate_name=""
    )


def _conditions(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    return tuple(replace(one, message="") for one in conditions)


def _pod(pod: Pod) -> Pod:
    return replace(pod, status=replace(pod.status, conditions=_conditions(pod.status.conditions)))


def _node(node: Node) -> Node:
    status = node.status
    return replace(node, status=replace(status, conditions=_conditions(status.conditions)))


def _group(group: PodGroup) -> PodGroup:
    status = group.status
    return replace(group, status=replace(status, conditions=_conditions(status.conditions)))


def _replicas(one: Any) -> Any:
    return replace(one, spec=replace(one.spec, template=None))


def _stateful_set(one: StatefulSet) -> StatefulSet:
    return replace(one, spec=replace(one.spec, template=None, volume_claim_templates=()))


def _without_parameters(configurations: Iterable[T]) -> tuple[T, ...]:
    found: list[Any] = []
    for one in configurations:
        opaque = getattr(one, "opaque", None)
        bare = None if opaque is None else replace(opaque, parameters=None)
        found.append(replace(one, opaque=bare))  # type: ignore[type-var]  # structs
    return tuple(found)


def _claim(claim: ResourceClaim) -> ResourceClaim:
    devices, status = claim.spec.devices, claim.status
    spec = replace(claim.spec, devices=replace(devices, config=_without_parameters(devices.config)))
    given = status.allocation
    if given is not None:
        allocated = replace(given.devices, config=_without_parameters(given.devices.config))
        given = replace(given, devices=allocated)
    reports = tuple(replace(one, conditions=_conditions(one.conditions)) for one in status.devices)
    return replace(claim, spec=spec, status=replace(status, allocation=given, devices=reports))


def _template(one: ResourceClaimTemplate) -> ResourceClaimTemplate:
    spec, devices = one.spec.spec, one.spec.spec.devices
    bare = replace(spec, devices=replace(devices, config=_without_parameters(devices.config)))
    metadata = replace(one.spec.metadata, annotations={})
    return replace(one, spec=replace(one.spec, metadata=metadata, spec=bare))


def _device_class(one: DeviceClass) -> DeviceClass:
    return replace(one, spec=replace(one.spec, config=_without_parameters(one.spec.config)))


_REDUCE: Final[dict[type[ApiObject], Callable[[Any], ApiObject]]] = {
    Pod: _pod,
    Node: _node,
    PodGroup: _group,
    ReplicaSet: _replicas,
    ReplicationController: _replicas,
    StatefulSet: _stateful_set,
    ResourceClaim: _claim,
    ResourceClaimTemplate: _template,
    DeviceClass: _device_class,
}
