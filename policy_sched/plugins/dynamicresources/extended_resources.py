"""Extended resources that device classes serve: the claim that a pod needs for them on a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from policy_sched import model
from policy_sched.errors import PolicySchedError
from policy_sched.framework import Handle

ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
IN_MEMORY: Final = "<extended-resources>"
_EXACT_COUNT: Final = "ExactCount"
_MAX: Final = 2**63 - 1


class ExtendedResourceError(PolicySchedError):
    """A node is rejected with these words before anything is allocated."""


class ExtendedResources:
    """Which class serves which resource; it follows events, and is never made anew."""

    def __init__(self, handle: Handle) -> None:
        self._objects = objects = handle.objects
        self._classes: dict[str, model.DeviceClass] = {}
        for device_class in objects.of(model.DeviceClass):
            self._seen(None, device_class)
        objects.listen(model.DeviceClass, self._seen)

    def class_of(self, resource: str) -> str | None:
        """Return the name of the class that serves a resource."""
        device_class = self._classes.get(resource)
        return None if device_class is None else device_class.metadata.name

    def device_class(self, name: str) -> model.DeviceClass | None:
        """Return a class by its own name."""
        return self._objects.named(model.DeviceClass, "", name)

    def names(self) -> Mapping[str, model.DeviceClass]:
        """Return the resources that classes serve; the mapping follows events."""
        return self._classes

    def _seen(self, old: model.ApiObject | None, new: model.ApiObject | None) -> None:
        before = old.spec.extended_resource_name if isinstance(old, model.DeviceClass) else None
        if isinstance(new, model.DeviceClass):
            after = new.spec.extended_resource_name
            if old is not None and before == after:
                return
            if before:
                self._classes.pop(before, None)
            self._add(new, after)
        elif isinstance(old, model.DeviceClass):
            self._classes.pop(before or "", None)
            self._classes.pop(model.DEVICE_CLASS_PREFIX + old.metadata.name, None)

    def _add(self, device_class: model.DeviceClass, name: str | None) -> None:
        if name:
            winner = self._classes.get(name)
            if winner is not None and not _wins(device_class, winner):
                return
            self._classes[name] = device_class
        self._classes[model.DEVICE_CLASS_PREFIX + device_class.metadata.name] = device_class


def _wins(device_class: model.DeviceClass, other: model.DeviceClass) -> bool:
    mine, its = (model.nanoseconds(c.metadata.creation_timestamp) for c in (device_class, other))
    return mine > its or (mine == its and device_class.metadata.name < other.metadata.name)


def eligible(resource: str) -> bool:
    """Tell whether a class may serve a resource."""
    return resource.startswith(model.DEVICE_CLASS_PREFIX) or model.is_extended_resource(resource)


def wanted(pod: model.PodInfo, served: Mapping[str, model.DeviceClass]) -> bool:
    """Tell whether a pod requests a resource that a class serves."""
    requests = pod.requests
    if served.keys().isdisjoint(requests):
        return False
    return any(amount and name in served and eligible(name) for name, amount in requests.items())


def left_over(pod: model.PodInfo, claims: list[model.ResourceClaim]) -> model.ResourceClaim | None:
    """Return the claim for extended resources that was made for a pod in an earlier attempt."""
    for claim in claims:
        if claim.metadata.annotations.get(ANNOTATION) == "true" and any(
            o.controller and o.name == pod.name and o.uid == pod.pod.metadata.uid
            for o in claim.metadata.owner_references
        ):
            return claim
    return None


def in_memory(pod: model.PodInfo) -> model.ResourceClaim:
    """Return a claim that is made when its pod is bound, without requests."""
    owner = model.OwnerReference(
        api_version="v1", kind="Pod", name=pod.name, uid=pod.pod.metadata.uid, controller=True
    )
    metadata = model.ClaimMeta(
        name=IN_MEMORY,
        generate_name=f"{pod.name}-extended-resources-",
        namespace=pod.namespace,
        uid=f"{IN_MEMORY}/{pod.uid}",
        annotations={ANNOTATION: "true"},
        owner_references=(owner,),
    )
    return model.ResourceClaim(
        api_version="resource.k8s.io/v1", kind="ResourceClaim", metadata=metadata
    )


class Variant(msgspec.Struct, frozen=True):
    """The claim for extended resources as one node needs it, and what each request serves."""

    claim: model.ResourceClaim
    mappings: tuple[model.ContainerExtendedResourceRequest, ...]


def variant(
    extended_claim: model.ResourceClaim, pod: model.PodInfo, classes: Mapping[str, str]
) -> Variant:
    """Return the claim for the resources that are served by devices: the class of each by name."""
    requests: dict[str, model.ExactDeviceRequest] = {}
    mappings: list[model.ContainerExtendedResourceRequest] = []
    for resource in sorted(classes):
        _serve(resource, classes[resource], pod, requests, mappings)
    ordered = tuple(model.DeviceRequest(name=n, exactly=requests[n]) for n in sorted(requests))
    spec = model.ResourceClaimSpec(devices=model.DeviceClaim(requests=ordered))
    return Variant(replace(extended_claim, spec=spec), tuple(mappings))


def variant_on(
    node: model.Node,
    extended_claim: model.ResourceClaim,
    pod: model.PodInfo,
    extended: ExtendedResources,
) -> Variant | None:
    """Return the claim for what devices serve on a node; None if there is nothing.

    Raises ExtendedResourceError.
    """
    if extended_claim.spec.devices.requests:
        raise ExtendedResourceError("cannot schedule extended resource claim")
    served: dict[str, str] = {}
    allocatable = node.status.allocatable
    for resource, amount in pod.requests.items():
        if not amount or not eligible(resource):
            continue
        device_class = extended.class_of(resource)
        there = allocatable.get(resource)
        if device_class is not None and (there is None or model.quantity(there).nanos == 0):
            served[resource] = device_class
        elif there is None:
            raise ExtendedResourceError("cannot fit resource")
    return variant(extended_claim, pod, served) if served else None


class _Request(msgspec.Struct):
    """One request of one container: place among long-lived containers, name, count."""

    index: int
    name: str
    count: int


def _serve(
    resource: str,
    device_class: str,
    pod: model.PodInfo,
    requests: dict[str, model.ExactDeviceRequest],
    mappings: list[model.ContainerExtendedResourceRequest],
) -> None:
    """Add the requests for one resource, and which container uses which."""
    long_lived: list[_Request] = []
    starting: list[tuple[int, model.ContainerSpec, int]] = []
    for index, container, short in _containers(pod):
        count = _count(container, resource)
        if not count:
            continue
        if short:
            starting.append((index, container, count))
            continue
        request = _Request(index, _name(index, container, resource), count)
        long_lived.append(request)
        mappings.append(_mapping(container, resource, request.name))
    largest: _Request | None = None
    own: list[int] = []
    for index, container, count in starting:
        missing = count
        for request in long_lived:
            if missing <= 0:
                break
            if request.index >= index:
                mappings.append(_mapping(container, resource, request.name))
                missing -= request.count
        if missing > 0:
            extra = _Request(index, _name(index, container, resource), missing)
            own.append(len(mappings))
            mappings.append(_mapping(container, resource, extra.name))
            if largest is None or extra.count > largest.count:
                largest = extra
    if largest is not None:
        for position in own:
            mappings[position] = replace(mappings[position], request_name=largest.name)
        long_lived.append(largest)
    for request in long_lived:
        requests[request.name] = model.ExactDeviceRequest(
            device_class_name=device_class, allocation_mode=_EXACT_COUNT, count=request.count
        )


def _containers(pod: model.PodInfo) -> Iterator[tuple[int, model.ContainerSpec, bool]]:
    """Yield containers with their index, and whether they end before the pod runs."""
    spec = pod.pod.spec
    yield from ((i, c, not model.is_sidecar(c)) for i, c in enumerate(spec.init_containers))
    first = len(spec.init_containers)
    yield from ((first + i, c, False) for i, c in enumerate(spec.containers))


def _count(container: model.ContainerSpec, resource: str) -> int:
    amount = container.resources.requests.get(resource)
    if amount is None:
        return 0
    exact = model.quantity(amount)
    whole, rest = divmod(exact.nanos, 10**9)
    return whole if not rest and 0 < whole <= _MAX else 0


def _name(index: int, container: model.ContainerSpec, resource: str) -> str:
    position = sorted(container.resources.requests).index(resource)
    return f"container-{index}-request-{position}"


def _mapping(
    container: model.ContainerSpec, resource: str, request: str
) -> model.ContainerExtendedResourceRequest:
    return model.ContainerExtendedResourceRequest(
        container_name=container.name, resource_name=resource, request_name=request
    )
