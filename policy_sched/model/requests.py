"""A pod's effective requests and limits, as kube-scheduler 1.36 computes them.

Main containers and sidecars run together, so they add up; init containers run one at a time
beside the sidecars started before them, so the maximum over time counts. Resources of the
pod replace the sum, and the runtime's overhead is added. While a pod is resized in
place, the larger of requested and allocated amounts counts. Amounts are summed exactly, in
nano-units, and rounded up once at the end. (component-helpers ``resource.PodRequests``.)

The quality-of-service class is computed for pods without one in their status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter, methodcaller
from typing import Any, Final

import msgspec

from policy_sched.model.pod import ContainerSpec, ContainerStatus, Pod, ResourceRequirements
from policy_sched.model.quantity import MICRO, NANO, Amount, nanos, units_of_nanos
from policy_sched.model.selectors import is_qualified_name


def qos_class(pod: Pod) -> str:
    """Return Guaranteed, Burstable or BestEffort: from the status, else from the resources.

    Guaranteed: every container (or the pod as a whole) has equal requests and limits of cpu and
    memory. BestEffort: no container has a request or limit of either.
    """
    if pod.status.qos_class:
        return pod.status.qos_class
    pod_level = pod.spec.resources
    if pod_level is not None and (_positive(pod_level.requests) or _positive(pod_level.limits)):
        parts = [pod_level]
    else:
        parts = [c.resources for c in (*pod.spec.containers, *pod.spec.init_containers)]
    if not any(_positive(part.requests) or _positive(part.limits) for part in parts):
        return "BestEffort"
    return "Guaranteed" if _guaranteed(parts) else "Burstable"


def _positive(amounts: dict[str, Amount]) -> dict[str, int]:
    """Return the positive amounts of cpu and memory in nano-units."""
    positive = {name: nanos(amounts[name]) for name in ("cpu", "memory") if name in amounts}
    return {name: amount for name, amount in positive.items() if amount > 0}


def _guaranteed(parts: list[ResourceRequirements]) -> bool:
    """Return whether every part limits both, with equal requests (or none)."""
    for part in parts:
        limits = _positive(part.limits)
        if len(limits) != 2 or limits | _positive(part.requests) != limits:
            return False
    return True


DEFAULT_MILLI_CPU: Final = 100
"""Milli-cpu of a container without a cpu request, for scoring (upstream's value)."""

DEFAULT_MEMORY: Final = 200 * 1024 * 1024
"""Bytes of a container without a memory request, for scoring (upstream's value)."""

_DEFAULTS: Final = {"cpu": DEFAULT_MILLI_CPU * MICRO, "memory": DEFAULT_MEMORY * NANO}
_BASIC: Final = frozenset({"cpu", "memory", "ephemeral-storage"})

Nanos = dict[str, int]
"""Resource name to nano-units."""

ContainerAmounts = Callable[[ContainerSpec], Nanos]
"""Returns the amounts of one container."""


class Totals(msgspec.Struct, frozen=True, gc=False):
    """Effective requests in scheduler units; shared between equal pods and immutable.

    For scoring, containers without a request of cpu or memory get a default, in two ways which
    differ for pods with resources of the pod: ``non_zero`` is the request of a pending pod (pod-
    level resources are ignored, as in NodeResourcesFit's scorer), and ``non_zero_added`` is the
    amount that a pod adds to its node (pod-level resources replace the sum).
    """

    requests: dict[str, int]
    non_zero: dict[str, int]
    non_zero_added: dict[str, int]
    requests_key: tuple[tuple[str, int], ...]
    non_zero_key: tuple[tuple[str, int], ...]
    has_others: bool = False
    """Whether resources besides cpu, memory and ephemeral storage are requested."""

    @classmethod
    def of(
        cls, requests: dict[str, int], non_zero: dict[str, int], non_zero_added: dict[str, int]
    ) -> Totals:
        """Return totals with their keys, sorted."""
        key = tuple(sorted(requests.items()))
        non_zero_key = key if non_zero is requests else tuple(sorted(non_zero.items()))
        has_others = not requests.keys() <= _BASIC
        return cls(requests, non_zero, non_zero_added, key, non_zero_key, has_others)


def is_scalar_resource(name: str) -> bool:
    """Return whether kube-scheduler counts a resource besides cpu, memory and ephemeral storage.

    True for extended resources, huge pages, attachable volumes and names in kubernetes.io/.
    """
    if "kubernetes.io/" in name or name.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return is_extended_resource(name)


def is_extended_resource(name: str) -> bool:
    """Tell whether a resource is one that device plugins, or devices, may serve."""
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return is_qualified_name(f"requests.{name}")


def is_counted(name: str) -> bool:
    """Return whether a pod's request for a resource counts at all; ``pods`` does not."""
    return name in _BASIC or is_scalar_resource(name)


def is_pod_level_resource(name: str) -> bool:
    """Return whether a resource can be set for a pod as a whole."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def totals(pod: Pod) -> Totals:
    """Return a pod's effective requests. Raises ValueError if a quantity is not valid."""
    spec, status = pod.spec, pod.status
    if (
        not spec.init_containers
        and not spec.overhead
        and spec.resources is None
        and not status.allocated_resources
        and (not status.container_statuses or as_requested(pod))
    ):
        if len(spec.containers) == 1:
            requested = spec.containers[0].resources.requests
            return _totals_of_one(*requested, *requested.values())
        amounts: Iterable[dict[str, Amount]] = map(_requests, spec.containers)
        return _plain_totals(*map(tuple, map(_items, amounts)))
    return _general_totals(pod)


def as_requested(pod: Pod) -> bool:
    """Return whether each container is reported to have what it requests: none is resized."""
    containers, statuses = pod.spec.containers, pod.status.container_statuses
    if len(containers) != len(statuses):
        return False
    for container, status in zip(containers, statuses, strict=True):
        given, requested = status.resources, container.resources
        if (
            container.name != status.name
            or (given is not None and given != requested)
            or (status.allocated_resources and status.allocated_resources != requested.requests)
        ):
            return False
    return True


_requests: Final = attrgetter("resources.requests")
_items: Final = methodcaller("items")


@lru_cache(maxsize=16_384)
def _plain_totals(*containers: tuple[tuple[str, Amount], ...]) -> Totals:
    """Return the totals of a pod whose containers have these requests, and nothing else counts."""
    return _totals_of_each([{n: nanos(amount) for n, amount in own} for own in containers])


@lru_cache(maxsize=16_384)
def _totals_of_one(*requested: Any) -> Totals:
    """Do as `_plain_totals` for a single container: the names of its resources, then the amounts.

    One flat tuple for each of many pods is quickly hashed, and little for the garbage collector.
    """
    half = len(requested) // 2
    return _totals_of_each([dict(zip(requested[:half], map(nanos, requested[half:]), strict=True))])


def _totals_of_each(each: Sequence[Nanos]) -> Totals:
    amounts = _sum(each)
    requested = _in_units(amounts)
    if all(_DEFAULTS.keys() <= container.keys() for container in each):
        return Totals.of(requested, requested, requested)
    non_zero = _in_units(_sum([_DEFAULTS | container for container in each]))
    if non_zero == requested:
        return Totals.of(requested, requested, requested)
    return Totals.of(requested, non_zero, non_zero)


def _general_totals(pod: Pod) -> Totals:
    amounts = _pod_requests(pod, {})
    pod_level = _pod_level(pod.spec.resources.requests if pod.spec.resources else {})
    missing = {
        name: amount for name, amount in _DEFAULTS.items() if not (pod_level and name in amounts)
    }
    added = _in_units(_pod_requests(pod, missing) if missing else amounts)
    requested = _in_units(_pod_requests(pod, _DEFAULTS, with_pod_level=False))
    return Totals.of(_in_units(amounts), requested, added if added != requested else requested)


def requests(pod: Pod) -> dict[str, int]:
    """Return a pod's requests: resource to scheduler units. The result is shared."""
    return totals(pod).requests


def non_zero_requests(pod: Pod) -> dict[str, int]:
    """Return a pending pod's requests for scoring: resource to scheduler units."""
    return totals(pod).non_zero


def limits(pod: Pod) -> dict[str, int]:
    """Return a pod's effective limits: resource to scheduler units."""
    actual = _statuses(pod)

    def of_container(container: ContainerSpec) -> Nanos:
        amounts = _nanos(container.resources.limits)
        status = actual.get(container.name)
        if status is None or status.resources is None:
            return amounts
        given = _nanos(status.resources.limits)
        return given if _resize_infeasible(pod) else _largest(amounts, given)

    total = _sum_containers(pod, of_container)
    if pod.spec.resources is not None:
        total |= _pod_level(pod.spec.resources.limits)
    for name, amount in _nanos(pod.spec.overhead).items():
        if total.get(name):
            total[name] += amount
    return _in_units(total)


def container_sum(pod: Pod) -> Nanos:
    """Return the sum of the containers' requests, in nano-units, without the pod's own."""
    return _sum_containers(pod, lambda container: _nanos(container.resources.requests))


def container_units(amounts: Mapping[str, Amount]) -> dict[str, int]:
    """Return one container's requests or limits in scheduler units, every resource kept."""
    return {name: units_of_nanos(name, nanos(amount)) for name, amount in amounts.items()}


def _pod_requests(pod: Pod, missing: Nanos, *, with_pod_level: bool = True) -> Nanos:
    """Return a pod's requests; containers without a resource of ``missing`` get its amount."""
    actual = _statuses(pod)

    def of_container(container: ContainerSpec) -> Nanos:
        amounts = _nanos(container.resources.requests)
        status = actual.get(container.name)
        if status is not None and status.resources is not None:
            given = _largest(_nanos(status.resources.requests), _nanos(status.allocated_resources))
            amounts = given if _resize_infeasible(pod) else _largest(amounts, given)
        return missing | amounts

    total = _sum_containers(pod, of_container)
    if with_pod_level and pod.spec.resources is not None:
        total |= _pod_level_requests(pod)
    for name, amount in _nanos(pod.spec.overhead).items():
        total[name] = total.get(name, 0) + amount
    return total


def _sum_containers(pod: Pod, of_container: ContainerAmounts) -> Nanos:
    total: Nanos = {}
    for container in pod.spec.containers:
        _add(total, of_container(container))
    sidecars: Nanos = {}
    peak: Nanos = {}
    for container in pod.spec.init_containers:
        amounts = of_container(container)
        if container.restart_policy == "Always":
            _add(total, amounts)
            _add(sidecars, amounts)
            moment = sidecars
        else:
            moment = dict(sidecars)
            _add(moment, amounts)
        peak = _largest(peak, moment)
    return _largest(total, peak)


def _pod_level_requests(pod: Pod) -> Nanos:
    """Return the requests set for the whole pod, or more of them if its resize has come so far.

    What is allocated counts only beside what is in use, and the overhead comes on top of both:
    kube-scheduler's rules.
    """
    assert pod.spec.resources is not None
    requested, running = _pod_level(pod.spec.resources.requests), pod.status.resources
    if running is None:
        return requested
    given = _largest(_nanos(running.requests), _nanos(pod.status.allocated_resources))
    if not _resize_infeasible(pod):
        given = _largest(requested, given)
    return {name: given.get(name, 0) for name in requested}


def _pod_level(amounts: Mapping[str, Amount]) -> Nanos:
    return {name: nanos(a) for name, a in amounts.items() if is_pod_level_resource(name)}


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    """Return the statuses of containers and sidecars by name; plain init containers have none."""
    statuses = {status.name: status for status in pod.status.container_statuses}
    sidecars = {c.name for c in pod.spec.init_containers if c.restart_policy == "Always"}
    statuses |= {s.name: s for s in pod.status.init_container_statuses if s.name in sidecars}
    return statuses


def _resize_infeasible(pod: Pod) -> bool:
    """Return whether the node has rejected the resize of the pod."""
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _nanos(amounts: Mapping[str, Amount]) -> Nanos:
    return {name: nanos(amount) for name, amount in amounts.items()}


def _sum(each: Sequence[Nanos]) -> Nanos:
    if len(each) == 1:
        return each[0]
    total: Nanos = {}
    for amounts in each:
        _add(total, amounts)
    return total


def _add(total: Nanos, amounts: Nanos) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _largest(left: Nanos, right: Nanos) -> Nanos:
    result = dict(left)
    for name, amount in right.items():
        if name not in result or amount > result[name]:
            result[name] = amount
    return result


def _in_units(amounts: Nanos) -> dict[str, int]:
    return {n: units_of_nanos(n, amount) for n, amount in amounts.items() if is_counted(n)}
