"""Decodes API objects from plain data, and checks them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeAlias

import msgspec

from policy_sched import model
from policy_sched.errors import nearest
from policy_sched.manifests.struct_errors import (
    BAD_VALUE,
    MISSING,
    MOST_PROBLEMS,
    WRONG_TYPE,
    Path,
    Report,
    fit,
)
from policy_sched.manifests.workload_expansion import MOST_PODS
from policy_sched.source import shortened

Structs: TypeAlias = Mapping[model.Kind, type[model.ApiObject]]
"""How kinds are decoded that policies read: custom ones, and those with more fields than usual."""
NO_STRUCTS: Final[Structs] = {}
Problem: TypeAlias = tuple[Path, str, str, str]
"""Path, code, message and hint of a problem."""
UNKNOWN_FIELD: Final = "PS702"
UNKNOWN_KIND: Final = "PS706"
NOT_APPLIED: Final = "PS719"
OF_ADMISSION: Final = {
    "LimitRange": "pods have the requests and limits that they state",
    "ResourceQuota": "no pod is refused for it",
    "MutatingWebhookConfiguration": "no webhook changes a pod",
    "ValidatingWebhookConfiguration": "no webhook refuses a pod",
    "ValidatingAdmissionPolicy": "no pod is refused for it",
}
"""Kinds that change or refuse new pods in a cluster and that scheduling does not read; what holds
without them."""
MOST_INT32: Final = 2**31 - 1
_ALL_FIT: Final = model.MOST_COUNTED * model.MICRO
"""Nano-units that are not too many of any resource."""

_OWN_KINDS: Final = {
    "KubeSchedulerConfiguration": "a scheduler configuration is given with --config",
    "Policy": "policies are given with --policies",
    "Experiment": "experiments are run by `policy-sched sweep`",
    "PolicyTest": "scenarios are run by `policy-sched test`",
}
"""Kinds of files that are not manifests, and the options they belong to."""


def decode_object(
    value: object, report: Report, custom: Structs = NO_STRUCTS
) -> model.ApiObject | None:
    """Return the API object that plain data (of JSON or YAML) describes.

    None if scheduling does not read its kind, or after its problems were reported, each with its
    path inside the object. ``custom``: see `Structs`.
    """
    kind = kind_of(value, report, custom)
    if kind is None:
        return None
    if kind not in model.KINDS and kind in custom:
        return decode_custom(value, report)
    if kind in model.SKIPPED_KINDS:
        return None
    return decode_as(value, custom.get(kind, model.KINDS[kind]), report)


def unknown_fields(api_version: str, kind: str, data: object) -> Iterator[Problem]:
    """Yield a problem for each field that no object of the kind has, as kubectl apply does."""
    message = model.messages.message_of(api_version, kind)
    unknown = model.messages.unknown_fields(message, data) if isinstance(data, dict) else ()
    for path in islice(unknown, MOST_PROBLEMS) if message else ():
        known = model.messages.fields_at(message, path[:-1])
        close = nearest(str(path[-1]), known)
        hint = f"did you mean {close!r}?" if close else "kubectl apply refuses it"
        text = f"unknown field {shortened(model.messages.path_text(path))}, which is not read"
        yield path, UNKNOWN_FIELD, text, hint


def not_applied(kind: str) -> Problem:
    """Return what is said of an object that would change or refuse new pods in a cluster."""
    hint = "state its defaults in the pods" if kind == "LimitRange" else ""
    text = f"the {kind} is not applied: {OF_ADMISSION[kind]}"
    return ("kind",), NOT_APPLIED, text, hint


def decode_custom(value: object, report: Report) -> model.CustomObject | None:
    """Return an object of a kind that rules alone read; None after its problems were reported."""
    assert isinstance(value, dict), "it has a kind"
    head = {key: value[key] for key in ("apiVersion", "kind", "metadata") if key in value}
    decoded = decode_as(head, model.CustomObject, report)
    if isinstance(decoded, model.CustomObject):
        decoded.content = value
        return decoded
    return None


_META: Final = msgspec.json.Decoder(model.ObjectMeta)
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""An annotation that is as long as its object, and says nothing else."""


def custom_of_json(raw: bytes | msgspec.Raw, kind: model.Kind) -> model.CustomObject:
    """Return an object of a kind that rules alone read; its content stays JSON, without metadata.

    Raises ValueError or RecursionError.
    """
    fields = _FIELDS.decode(raw)
    fields.pop("apiVersion", None)
    fields.pop("kind", None)
    given = fields.pop("metadata", b"{}")
    try:
        meta = _META.decode(given)
    except msgspec.ValidationError:
        meta = _meta_without_nulls(given)
    meta.annotations.pop(_LAST_APPLIED, None)
    return model.CustomObject(
        api_version=kind[0], kind=kind[1], metadata=meta, content=msgspec.json.encode(fields)
    )


def _meta_without_nulls(given: bytes | msgspec.Raw) -> model.ObjectMeta:
    problems: list[str] = []

    def report(path: Path, _code: str, message: str, _hint: str) -> None:
        problems.append(f"{'.'.join(map(str, ('metadata', *path)))}: {message}")

    meta = fit(msgspec.json.decode(given), model.ObjectMeta, report)
    if meta is None:
        raise ValueError("; ".join(problems)) from None
    return meta


def custom_data(item: model.CustomObject) -> dict[str, Any]:
    """Return an object of a kind that rules alone read as plain data, metadata as it reads them."""
    content = item.content
    if isinstance(content, bytes):
        content = msgspec.json.decode(content)
    head = {"apiVersion": item.api_version, "kind": item.kind, "metadata": item.metadata}
    return {**(content or {}), **msgspec.to_builtins(head)}


def decode_as(value: object, kind: type[model.ApiObject], report: Report) -> model.ApiObject | None:
    """Return plain data decoded as one kind; None after its problems were reported."""
    try:
        decoded: model.ApiObject | None = msgspec.convert(value, kind)
    except msgspec.ValidationError:
        decoded = fit(value, kind, report)
    if decoded is not None and not quantities_valid(decoded):
        decoded = fit(value, kind, report)
    if decoded is not None:
        problem = value_problem(decoded)
        if problem is not None:
            report(*problem)
            return None
    if decoded is not None and not decoded.metadata.name:
        hint = "metadata.generateName is not supported" if decoded.metadata.generate_name else ""
        report(("metadata", "name"), MISSING, f"{kind_name(decoded)} has no metadata.name", hint)
        return None
    return decoded


def decode_json(raw: bytes | msgspec.Raw, kind: type[model.ApiObject]) -> model.ApiObject | None:
    """Return JSON decoded as one kind; None if it does not fit; `decode_as` reports why.

    Raises msgspec.DecodeError if it is not JSON.
    """
    try:
        decoded: model.ApiObject | None = model.decoder(kind).decode(raw)
    except msgspec.ValidationError:
        decoded = None  # perhaps because of nulls, which mean absent
    if decoded is not None and quantities_valid(decoded):
        return decoded
    return fit(msgspec.json.decode(raw), kind, _unreported)


def _unreported(_path: Path, _code: str, _message: str, _hint: str) -> None:
    """Report nothing."""


def value_problem(decoded: model.ApiObject) -> Problem | None:
    """Return the value that the API server rejects in an object of valid types, or None.

    Quantities are checked by `quantities_valid`.
    """
    template: Path = ()
    metadata = spec = None
    if isinstance(decoded, model.Pod):
        metadata, spec = decoded.metadata, decoded.spec
    elif isinstance(decoded, model.Workload) and decoded.spec.template is not None:
        template = ("spec", "template")
        metadata, spec = decoded.spec.template.metadata, decoded.spec.template.spec
    fault = None
    if metadata is not None and model.DURATION_ANNOTATION in metadata.annotations:
        fault = _duration_problem(metadata.annotations[model.DURATION_ANNOTATION])
    if fault is None and spec is not None and len(spec.topology_spread_constraints) > 1:
        fault = _spread_problem(spec)
    if fault is not None:
        return (*template, *fault[0]), BAD_VALUE, fault[1], ""
    return _size_problem(decoded)


def _duration_problem(text: str) -> tuple[Path, str] | None:
    try:
        model.nanoseconds_of(text)
    except ValueError as error:
        return ("metadata", "annotations", model.DURATION_ANNOTATION), str(error)
    return None


def _spread_problem(spec: model.PodSpec) -> tuple[Path, str] | None:
    """Return the problem of two constraints with the same key and the same whenUnsatisfiable."""
    seen = set()
    for index, constraint in enumerate(spec.topology_spread_constraints):
        pair = constraint.topology_key, constraint.when_unsatisfiable
        if pair in seen:
            path: Path = ("spec", "topologySpreadConstraints", index)
            shown = f"{{{shortened(pair[0], quote=False)}, {shortened(pair[1], quote=False)}}}"
            return path, f"duplicate {{topologyKey, whenUnsatisfiable}}: {shown}"
        seen.add(pair)
    return None


def _size_problem(decoded: model.ApiObject) -> Problem | None:
    """Return the problem of a workload with more pods than a cluster supports."""
    path: Path = ("spec", "replicas")
    count = 0
    if isinstance(decoded, model.Job):
        path = ("spec", "parallelism")
        count = min(decoded.spec.parallelism or 1, decoded.spec.completions or MOST_INT32)
    elif isinstance(
        decoded,
        model.Deployment | model.ReplicaSet | model.ReplicationController | model.StatefulSet,
    ):
        count = decoded.spec.replicas
    if count <= MOST_PODS:
        return None
    message = f"{count} pods are more than the {MOST_PODS} that a cluster may have"
    return path, BAD_VALUE, message, ""


def kind_of(value: object, report: Report, custom: Structs = NO_STRUCTS) -> tuple[str, str] | None:
    """Return apiVersion and kind if they are known together; None after reporting the problem."""
    if not isinstance(value, dict):
        report((), WRONG_TYPE, "an object must be a mapping with apiVersion and kind", "")
        return None
    for field in ("apiVersion", "kind"):
        given = value.get(field)
        if given is None:
            report((field,), MISSING, f"the object has no {field}", "")
            return None
        if not isinstance(given, str):
            report((field,), WRONG_TYPE, f"{field} must be text", "")
            return None
    version, kind = value["apiVersion"], value["kind"]
    if any((version, kind) in kinds for kinds in (model.KINDS, model.SKIPPED_KINDS, custom)):
        return version, kind
    report(*_unknown_kind(version, kind))
    return None


def _unknown_kind(version: str, kind: str) -> tuple[Path, str, str, str]:
    """Return the problem of an unknown pair of apiVersion and kind."""
    if kind in _OWN_KINDS:
        return ("kind",), UNKNOWN_KIND, f"a {kind} is not a manifest", _OWN_KINDS[kind]
    known = [*model.KINDS, *sorted(model.SKIPPED_KINDS)]
    versions = [v for v, k in known if k == kind]
    if versions:
        message = f"{kind} is not in apiVersion {version!r}"
        return ("apiVersion",), UNKNOWN_KIND, message, f"write apiVersion: {versions[0]}"
    close = nearest(kind, (k for _, k in known))
    hint = f"did you mean {close!r}?" if close else ""
    return ("kind",), UNKNOWN_KIND, f"unknown kind {kind!r} of {version!r}", hint


def list_items(value: object) -> Iterator[tuple[int, object]] | None:
    """Return the items of a List (or PodList, NodeList, ...) with their indexes; None for others.

    An item of a PodList without a kind is a Pod of the list's version.
    """
    if not isinstance(value, dict):
        return None
    version, kind = value.get("apiVersion"), value.get("kind")
    if not isinstance(kind, str) or not kind.endswith("List"):
        return None
    if isinstance(version, str) and (version, kind) in model.KINDS:
        return None
    items = value.get("items")
    if not isinstance(items, list):
        return None if "items" in value and items is not None else iter(())
    item_kind = kind.removesuffix("List")
    implied = {"apiVersion": version, "kind": item_kind} if item_kind else {}
    return enumerate({**implied, **item} if isinstance(item, dict) else item for item in items)


def kind_name(decoded: model.ApiObject) -> str:
    """Return an object's kind in the API's spelling."""
    return decoded.kind or type(decoded).__name__


def object_key(decoded: model.ApiObject) -> tuple[str, str, str]:
    """Return kind, namespace ("" for cluster-scoped kinds) and name."""
    kind, meta = kind_name(decoded), decoded.metadata
    namespace = "" if kind in model.CLUSTER_SCOPED else meta.namespace or "default"
    return kind, namespace, meta.name


def quantities_valid(decoded: model.ApiObject) -> bool:
    """Return whether every quantity is valid, and none of resources negative or too large."""
    try:
        if isinstance(decoded, model.Pod):  # it has no devices, and comes most often
            all_amounts: Iterable[Mapping[str, model.Amount]] = _pod_amounts(decoded)
        else:
            all_amounts = _amounts(decoded)
            for amount in _device_amounts(decoded):
                model.nanos(amount)
        for amounts in all_amounts:
            for amount in amounts.values():
                amount_in_nanos = model.nanos(amount)
                if not 0 <= amount_in_nanos <= _ALL_FIT and (
                    amount_in_nanos < 0 or _exceeds(amounts)
                ):
                    return False
    except ValueError:
        return False
    return True


def _exceeds(amounts: Mapping[str, model.Amount]) -> bool:
    return any(model.excess(name, model.nanos(amount)) for name, amount in amounts.items())


def _amounts(decoded: model.ApiObject) -> Iterable[Mapping[str, model.Amount]]:
    """Return every map of quantities in an object that is no pod."""
    match decoded:
        case model.Node():
            return decoded.status.allocatable, decoded.status.capacity
        case model.PersistentVolume():
            return (decoded.spec.capacity,)
        case model.PersistentVolumeClaim():
            return decoded.spec.resources.requests, decoded.spec.resources.limits
        case model.RuntimeClass():
            return (decoded.overhead.pod_fixed,) if decoded.overhead is not None else ()
        case model.CsiStorageCapacity():
            sizes = (decoded.capacity, decoded.maximum_volume_size)
            return [{"storage": size} for size in sizes if size is not None]
        case (
            model.Deployment()
            | model.ReplicaSet()
            | model.ReplicationController()
            | model.StatefulSet()
            | model.DaemonSet()
            | model.Job()
        ):
            return _workload_amounts(decoded)
    return ()


def _device_amounts(decoded: model.ApiObject) -> Iterator[model.Amount]:
    """Yield the amounts of devices, counters and claims, which may be negative."""
    match decoded:
        case model.ResourceSlice():
            for counters in decoded.spec.shared_counters:
                yield from (counter.value for counter in counters.counters.values())
            for device in decoded.spec.devices:
                yield from _amounts_of_device(device)
        case model.ResourceClaim() | model.ResourceClaimTemplate():
            claim = decoded.spec if isinstance(decoded, model.ResourceClaim) else decoded.spec.spec
            for request in claim.devices.requests:
                for counter in (request.exactly, *request.first_available):
                    if counter is not None and counter.capacity is not None:
                        yield from counter.capacity.requests.values()
    if isinstance(decoded, model.ResourceClaim) and decoded.status.allocation is not None:
        for result in decoded.status.allocation.devices.results:
            yield from result.consumed_capacity.values()


def _amounts_of_device(device: model.Device) -> Iterator[model.Amount]:
    for taken in device.consumes_counters:
        yield from (counter.value for counter in taken.counters.values())
    for capacity in device.capacity.values():
        yield capacity.value
        policy = capacity.request_policy
        if policy is not None:
            yield from policy.valid_values
            limits = policy.valid_range
            some = (limits.min, limits.max, limits.step) if limits is not None else ()
            yield from (counter for counter in (policy.default, *some) if counter is not None)


def _workload_amounts(workload: model.Workload) -> list[Mapping[str, model.Amount]]:
    template = workload.spec.template
    amounts = [] if template is None else _spec_amounts(template.spec)
    if isinstance(workload, model.StatefulSet):
        for claim in workload.spec.volume_claim_templates:
            amounts += _amounts(claim)
    return amounts


def _pod_amounts(pod: model.Pod) -> list[Mapping[str, model.Amount]]:
    status = pod.status
    amounts = _spec_amounts(pod.spec)
    if status.allocated_resources:
        amounts.append(status.allocated_resources)
    if status.resources is not None:
        amounts += (status.resources.requests, status.resources.limits)
    for given in (*status.container_statuses, *status.init_container_statuses):
        amounts.append(given.allocated_resources)
        if given.resources is not None:
            amounts += (given.resources.requests, given.resources.limits)
    return amounts


def _spec_amounts(spec: model.PodSpec) -> list[Mapping[str, model.Amount]]:
    amounts: list[Mapping[str, model.Amount]] = [spec.overhead] if spec.overhead else []
    for container in (*spec.containers, *spec.init_containers):
        resources = container.resources
        if resources.requests:
            amounts.append(resources.requests)
        if resources.limits:
            amounts.append(resources.limits)
    if spec.resources is not None:
        amounts += (spec.resources.requests, spec.resources.limits)
    for volume in spec.volumes:
        if volume.ephemeral is not None and volume.ephemeral.volume_claim_template is not None:
            amounts.append(volume.ephemeral.volume_claim_template.spec.resources.requests)
    return amounts
