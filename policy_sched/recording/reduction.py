"""The form of objects in snapshots and recordings: reduced to what decisions read.

The structs of `model` have no field for environment variables, commands, managed fields and the
like, so decoding drops these. This module drops annotations that no decision reads, messages of
conditions, volumes without a source that matters, parameters of drivers, templates of workloads,
and versions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final, TypeVar

from msgspec.structs import astuple, replace

from policy_sched import model

TAKEN: Final = tuple(
    kind
    for kind in model.KINDS.values()
    if kind not in (model.Deployment, model.DaemonSet, model.Job)
)
"""The kinds that decisions read."""

ANNOTATIONS: Final = frozenset(
    {
        model.DURATION_ANNOTATION,
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
M = TypeVar("M", bound=model.ObjectMeta)


def reduced(
    objects: Iterable[model.ApiObject],
    annotations: Collection[str] = (),
    inputs: Collection[model.Kind] = (),
) -> list[model.ApiObject]:
    """Return the objects that decisions read, with what they read of them.

    ``annotations``: names of further annotations that are kept. ``inputs``: further kinds, which
    inputs of policies declare; their objects keep all.
    """
    kept = ANNOTATIONS.union(annotations)
    return list(_reduced(objects, kept, inputs))


def _reduced(
    objects: Iterable[model.ApiObject], kept: Collection[str], inputs: Collection[model.Kind]
) -> Iterator[model.ApiObject]:
    for obj in objects:
        if (obj.api_version, obj.kind) in inputs and not isinstance(obj, TAKEN):
            yield obj
            continue
        if not isinstance(obj, TAKEN) or (
            isinstance(obj, model.Pod) and obj.status.phase in model.ENDED_PHASES
        ):
            continue
        reduce = _REDUCE.get(model.struct_of(obj))
        reduced = obj if reduce is None else reduce(obj)
        yield replace(reduced, metadata=reduced_metadata(reduced.metadata, kept))


def reduced_metadata(meta: M, kept: Collection[str]) -> M:
    """Return metadata with the kept annotations alone, and without versions."""
    annotations = {k: v for k, v in meta.annotations.items() if k in kept}
    return replace(
        meta, annotations=annotations, resource_version="", generation=0, generate_name=""
    )


def without_messages(conditions: tuple[model.Condition, ...]) -> tuple[model.Condition, ...]:
    """Return conditions without their messages; themselves where they have none."""
    for condition in conditions:
        if condition.message:
            return tuple([replace(each, message="") for each in conditions])
    return conditions


def with_sources(volumes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the volumes that have a source that is read: most pods have one that has none."""
    return tuple([each for each in volumes if any(astuple(each)[1:])])


def _pod(pod: model.Pod) -> model.Pod:
    spec, status = pod.spec, pod.status
    if spec.volumes:
        spec = replace(spec, volumes=with_sources(spec.volumes))
    return replace(
        pod, spec=spec, status=replace(status, conditions=without_messages(status.conditions))
    )


def _node(node: model.Node) -> model.Node:
    status = node.status
    return replace(node, status=replace(status, conditions=without_messages(status.conditions)))


def _group(group: model.PodGroup) -> model.PodGroup:
    status = group.status
    return replace(group, status=replace(status, conditions=without_messages(status.conditions)))


def _replicas(workload: Any) -> Any:
    return replace(workload, spec=replace(workload.spec, template=None))


def _stateful_set(workload: model.StatefulSet) -> model.StatefulSet:
    return replace(workload, spec=replace(workload.spec, template=None, volume_claim_templates=()))


def _without_parameters(configurations: Iterable[T]) -> tuple[T, ...]:
    bare_configurations: list[Any] = []
    for configuration in configurations:
        opaque = getattr(configuration, "opaque", None)
        bare = None if opaque is None else replace(opaque, parameters=None)
        bare_configurations.append(replace(configuration, opaque=bare))  # type: ignore[type-var]  # structs
    return tuple(bare_configurations)


def _claim(claim: model.ResourceClaim) -> model.ResourceClaim:
    devices, status = claim.spec.devices, claim.status
    spec = replace(claim.spec, devices=replace(devices, config=_without_parameters(devices.config)))
    given = status.allocation
    if given is not None:
        allocated = replace(given.devices, config=_without_parameters(given.devices.config))
        given = replace(given, devices=allocated)
    reports = tuple(
        replace(device, conditions=without_messages(device.conditions)) for device in status.devices
    )
    return replace(claim, spec=spec, status=replace(status, allocation=given, devices=reports))


def _template(template: model.ResourceClaimTemplate) -> model.ResourceClaimTemplate:
    spec, devices = template.spec.spec, template.spec.spec.devices
    bare = replace(spec, devices=replace(devices, config=_without_parameters(devices.config)))
    metadata = replace(template.spec.metadata, annotations={})
    return replace(template, spec=replace(template.spec, metadata=metadata, spec=bare))


def _device_class(device_class: model.DeviceClass) -> model.DeviceClass:
    return replace(
        device_class,
        spec=replace(device_class.spec, config=_without_parameters(device_class.spec.config)),
    )


_REDUCE: Final[dict[type[model.ApiObject], Callable[[Any], model.ApiObject]]] = {
    model.Pod: _pod,
    model.Node: _node,
    model.PodGroup: _group,
    model.ReplicaSet: _replicas,
    model.ReplicationController: _replicas,
    model.StatefulSet: _stateful_set,
    model.ResourceClaim: _claim,
    model.ResourceClaimTemplate: _template,
    model.DeviceClass: _device_class,
}
