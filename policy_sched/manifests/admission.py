"""Does to objects of files what the API server does when they are created.

Theory of operation. Objects from files lack what the API server sets: requests default to limits, a
pod on the host's network gets host ports, resources of the pod cover its containers, a
priority class becomes a number, a runtime class has an overhead, a claim asks for one device, and a
creationTimestamp is set. (apis/core/v1 and apis/resource/v1 defaults.go; the admission plugins
Priority and RuntimeClass.) Everything that reads files does it here: `Admission`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from policy_sched import model
from policy_sched.errors import nearest
from policy_sched.manifests.struct_errors import BAD_VALUE, Path, Report

T = TypeVar("T", model.ExactDeviceRequest, model.DeviceSubRequest)

NO_CLASS: Final = "PS705"
EXACT_COUNT: Final = "ExactCount"

SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""The two priority classes of every cluster."""


def fill_in(pod: model.Pod) -> None:
    """Default a pod's requests and host ports in place. Raises ValueError on a bad quantity."""
    spec = pod.spec
    for container in (*spec.containers, *spec.init_containers):
        if container.resources.limits:
            container.resources.requests = container.resources.limits | container.resources.requests
        if spec.host_network and container.ports:
            _take_host_ports(container)
    whole = spec.resources
    if whole is not None and (whole.requests or whole.limits):
        requests: dict[str, model.Amount] = {
            name: _amount(nanos)
            for name, nanos in model.container_sum(pod).items()
            if nanos and model.is_pod_level_resource(name)
        }
        limits = {k: v for k, v in whole.limits.items() if model.is_pod_level_resource(k)}
        whole.requests = limits | requests | whole.requests


def set_creation_times(objects: Iterable[model.ApiObject], now: int) -> None:
    """Set the creationTimestamp of objects that have none to ``now``."""
    created = model.datetime_of(now)
    for obj in objects:
        if obj.metadata.creation_timestamp is None:
            obj.metadata.creation_timestamp = created


def _amount(nanos: int) -> str:
    return str(nanos // model.NANO) if nanos % model.NANO == 0 else f"{nanos}n"


def _take_host_ports(container: model.ContainerSpec) -> None:
    container.ports = tuple(
        port if port.host_port else msgspec.structs.replace(port, host_port=port.container_port)
        for port in container.ports
    )


class Priorities:
    """The priority classes of a cluster."""

    def __init__(self, classes: Iterable[model.PriorityClass] = ()) -> None:
        self._classes: dict[str, model.PriorityClass] = {c.metadata.name: c for c in classes}
        defaults = [c for c in self._classes.values() if c.global_default]
        # Of several defaults the API server uses the lowest; among equals, the first by name.
        self._default = min(defaults, key=lambda c: (c.value, c.metadata.name), default=None)

    @property
    def names(self) -> Mapping[str, int]:
        """Every class and its priority."""
        return SYSTEM_PRIORITIES | {name: c.value for name, c in self._classes.items()}

    def admit(self, pod: model.Pod) -> bool:
        """Set a pod's priority and preemption policy from its class, unless the pod has them.

        Returns False, and changes nothing, if the class does not exist.
        """
        spec = pod.spec
        if spec.priority is not None:
            return True
        if not spec.priority_class_name:
            if self._default is not None:
                spec.priority_class_name = self._default.metadata.name
                self._set(pod, self._default)
            return True
        priority_class = self._classes.get(spec.priority_class_name)
        if priority_class is not None:
            self._set(pod, priority_class)
            return True
        spec.priority = SYSTEM_PRIORITIES.get(spec.priority_class_name)
        return spec.priority is not None

    @staticmethod
    def _set(pod: model.Pod, priority_class: model.PriorityClass) -> None:
        pod.spec.priority = priority_class.value
        pod.spec.preemption_policy = pod.spec.preemption_policy or priority_class.preemption_policy


class Admission:
    """What the API server does to new objects, with the classes that ``objects`` hold."""

    def __init__(self, objects: Iterable[model.ApiObject]) -> None:
        given = list(objects)
        self._priorities = Priorities(obj for obj in given if isinstance(obj, model.PriorityClass))
        self._runtimes = {o.metadata.name: o for o in given if isinstance(o, model.RuntimeClass)}

    def admit(self, obj: model.ApiObject, report: Report) -> None:
        """Complete an object in place; what the API server refuses is reported with its path."""
        match obj:
            case model.Pod():
                try:
                    self.complete(obj)
                except model.RejectedError as error:
                    report(("spec", "runtimeClassName"), BAD_VALUE, str(error), "")
                if obj.spec.priority is None:
                    self._check_class(obj.spec.priority_class_name, ("spec",), report)
                runtime = obj.spec.runtime_class_name
                if not obj.metadata.uid and runtime and runtime not in self._runtimes:
                    text = f"there is no RuntimeClass {runtime!r}"
                    hint = did_you_mean(runtime, self._runtimes)
                    report(("spec", "runtimeClassName"), NO_CLASS, text, hint)
            case model.PodGroup():
                self._complete_group(obj)
                if obj.spec.priority is None:
                    self._check_class(obj.spec.priority_class_name, ("spec",), report)
            case model.ResourceClaim():
                obj.spec = _filled(obj.spec)
            case model.ResourceClaimTemplate():
                obj.spec = replace(obj.spec, spec=_filled(obj.spec.spec))
            case _ if isinstance(obj, model.Workload) and obj.spec.template is not None:
                spec = obj.spec.template.spec
                if spec.priority is None:
                    path = ("spec", "template", "spec")
                    self._check_class(spec.priority_class_name, path, report)

    def complete(self, pod: model.Pod) -> None:
        """Complete a pod in place; a priority class that does not exist changes nothing.

        Raises RejectedError for a pod that its runtime class does not let in.
        """
        fill_in(pod)
        self._priorities.admit(pod)
        runtime = self._runtimes.get(pod.spec.runtime_class_name)
        if runtime is not None:
            model.admit(pod.spec, runtime)

    def _complete_group(self, group: model.PodGroup) -> None:
        """Set the priority of a group from its class, as that of a pod."""
        if group.spec.priority is None:
            pod = model.Pod()
            pod.spec.priority_class_name = group.spec.priority_class_name
            self._priorities.admit(pod)
            group.spec.priority_class_name = pod.spec.priority_class_name
            group.spec.priority = pod.spec.priority

    def _check_class(self, name: str, path: Path, report: Report) -> None:
        names = self._priorities.names
        if name and name not in names:
            text = f"there is no PriorityClass {name!r}"
            report((*path, "priorityClassName"), NO_CLASS, text, did_you_mean(name, names))


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the hint that names the one that was probably meant, or nothing."""
    close = nearest(name, names)
    return f"did you mean {close!r}?" if close else ""


def _filled(spec: model.ResourceClaimSpec) -> model.ResourceClaimSpec:
    """Return a spec whose requests have a mode and a count: one device unless they state more."""
    requests = []
    for request in spec.devices.requests:
        if request.exactly is not None:
            request = replace(request, exactly=_counted(request.exactly))  # noqa: PLW2901 - filled in
        alternatives = tuple(map(_counted, request.first_available))
        requests.append(replace(request, first_available=alternatives))
    return replace(spec, devices=replace(spec.devices, requests=tuple(requests)))


def _counted(request: T) -> T:
    mode = request.allocation_mode or EXACT_COUNT
    count = request.count or (1 if mode == EXACT_COUNT else 0)
    return replace(request, allocation_mode=mode, count=count)
