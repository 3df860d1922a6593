"""What the API server fills in before a scheduler sees a pod; manifests from files lack it.

Requests that are left out are the limits, a pod on the host's network takes its containers'
ports there, resources set for the whole pod cover what its containers ask for, and a priority
class stands for its number; what has no creationTimestamp is created now. (apis/core/v1
defaults.go; the Priority admission plugin.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from policy_sched.model import (
    NANO,
    Amount,
    ApiObject,
    ContainerSpec,
    Pod,
    PriorityClass,
    container_sum,
    datetime_of,
    is_pod_level_resource,
)

SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""The two priority classes that every cluster has."""


def fill_in(pod: Pod) -> None:
    """Complete a pod's requests and host ports in place. Raises ValueError on a bad quantity."""
    spec = pod.spec
    for container in (*spec.containers, *spec.init_containers):
        if container.resources.limits:
            container.resources.requests = container.resources.limits | container.resources.requests
        if spec.host_network and container.ports:
            _take_host_ports(container)
    whole = spec.resources
    if whole is not None and (whole.requests or whole.limits):
        asked: dict[str, Amount] = {
            name: _amount(nanos)
            for name, nanos in container_sum(pod).items()
            if nanos and is_pod_level_resource(name)
        }
        limits = {k: v for k, v in whole.limits.items() if is_pod_level_resource(k)}
        whole.requests = limits | asked | whole.requests


def set_creation_times(objects: Iterable[ApiObject], now: int) -> None:
    """Set the creationTimestamp of objects that have none, as if they were created ``now``."""
    created = datetime_of(now)
    for one in objects:
        if one.metadata.creation_timestamp is None:
            one.metadata.creation_timestamp = created


def _amount(nanos: int) -> str:
    return str(nanos // NANO) if nanos % NANO == 0 else f"{nanos}n"


def _take_host_ports(container: ContainerSpec) -> None:
    container.ports = tuple(
        port if port.host_port else msgspec.structs.replace(port, host_port=port.container_port)
        for port in container.ports
    )


class Priorities:
    """The priority classes of a cluster."""

    def __init__(self, classes: Iterable[PriorityClass] = ()) -> None:
        self._classes: dict[str, PriorityClass] = {c.metadata.name: c for c in classes}
        defaults = [c for c in self._classes.values() if c.global_default]
        # Of several defaults the API server takes the lowest, by name where they are equal.
        self._default = min(defaults, key=lambda c: (c.value, c.metadata.name), default=None)

    @property
    def names(self) -> Mapping[str, int]:
        """Every class and its priority."""
        return SYSTEM_PRIORITIES | {name: c.value for name, c in self._classes.items()}

    def admit(self, pod: Pod) -> bool:
        """Set a pod's priority and preemption policy from its class, where the pod has none.

        Returns False if there is no such class; the pod stays as it is.
        """
        spec = pod.spec
        if spec.priority is not None:
            return True
        if not spec.priority_class_name:
            if self._default is not None:
                spec.priority_class_name = self._default.metadata.name
                self._set(pod, self._default)
            return True
        found = self._classes.get(spec.priority_class_name)
        if found is not None:
            self._set(pod, found)
            return True
        spec.priority = SYSTEM_PRIORITIES.get(spec.priority_class_name)
        return spec.priority is not None

    @staticmethod
    def _set(pod: Pod, found: PriorityClass) -> None:
        pod.spec.priority = found.value
        pod.spec.preemption_policy = pod.spec.preemption_policy or found.preemption_policy
