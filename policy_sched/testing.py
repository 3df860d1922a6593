"""Builders of pods and nodes, and a clock that stands still: for tests of policies and plugins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from policy_sched.model import Amount, HostPort, Node, Pod, PodSpec, Taint, Toleration

T = TypeVar("T")

SECOND = 1_000_000_000
"""Nanoseconds in a second."""

_SPEC_NAMES = dict(zip(PodSpec.__struct_fields__, PodSpec.__struct_encode_fields__, strict=True))


def make_pod(  # noqa: PLR0913  # a builder: every argument is a keyword that a test may leave out
    name: str = "p",
    *,
    namespace: str = "default",
    uid: str | None = None,
    cpu: Amount | None = None,
    memory: Amount | None = None,
    requests: Mapping[str, Amount] | None = None,
    limits: Mapping[str, Amount] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    tolerations: Iterable[Toleration | Mapping[str, Any]] = (),
    host_ports: Iterable[int | HostPort | Mapping[str, Any]] = (),
    images: Sequence[str] = (),
    gates: Iterable[str] = (),
    created: str | None = None,
    started: str | None = None,
    nominated_node_name: str = "",
    phase: str = "",
    **spec: Any,
) -> Pod:
    """Return a pod with one container per image (one if no image is named).

    ``requests``, ``cpu``, ``memory``, ``limits`` and ``host_ports`` belong to the first container.
    Times are RFC 3339 text. ``uid`` is "namespace/name" unless given. ``spec`` takes any other
    field of PodSpec by its Python name, as structs or as the mappings and lists of a manifest:
    ``node_name``, ``priority``, ``node_selector``, ``affinity``, ``init_containers``, ``volumes``.
    Raises TypeError for an unknown field, msgspec.ValidationError for a wrong type.
    """
    unknown = spec.keys() - _SPEC_NAMES.keys()
    if unknown:
        raise TypeError(f"PodSpec has no field {', '.join(sorted(unknown))}")
    named = {k: v for k, v in (("cpu", cpu), ("memory", memory)) if v is not None}
    resources = {"requests": {**(requests or {}), **named}, "limits": dict(limits or {})}
    containers: list[dict[str, Any]] = [
        {"name": f"c{i}", "image": image} for i, image in enumerate(images or ("",))
    ]
    containers[0] |= {"resources": resources, "ports": [_port(port) for port in host_ports]}
    body = {
        "containers": containers,
        "tolerations": list(tolerations),
        "schedulingGates": [{"name": gate} for gate in gates],
        **{_SPEC_NAMES[field]: value for field, value in spec.items()},
    }
    meta = _metadata(name, labels, annotations)
    meta |= {"namespace": namespace, "creationTimestamp": created}
    meta["uid"] = f"{namespace}/{name}" if uid is None else uid
    status = {"startTime": started, "nominatedNodeName": nominated_node_name, "phase": phase}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body, "status": status}
    return _convert(pod, Pod)


def make_node(  # noqa: PLR0913  # a builder: every argument is a keyword that a test may leave out
    name: str = "n",
    *,
    cpu: Amount = "4",
    memory: Amount = "32Gi",
    pods: Amount = 110,
    resources: Mapping[str, Amount] | None = None,
    capacity: Mapping[str, Amount] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Iterable[Taint | Mapping[str, Any] | str] = (),
    unschedulable: bool = False,
    ready: bool = True,
    images: Mapping[str, int] | None = None,
) -> Node:
    """Return a node that can give cpu, memory, pods and ``resources``, as can its capacity.

    A taint may be written as kubectl writes it, ``key=value:Effect``. ``images`` maps an image's
    name to its size in bytes. Raises msgspec.ValidationError for a wrong type.
    """
    allocatable = {"cpu": cpu, "memory": memory, "pods": pods, **(resources or {})}
    return _convert(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": _metadata(name, labels, annotations),
            "spec": {"taints": [_taint(t) for t in taints], "unschedulable": unschedulable},
            "status": {
                "allocatable": allocatable,
                "capacity": allocatable if capacity is None else dict(capacity),
                "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
                "images": [
                    {"names": [image], "sizeBytes": size} for image, size in (images or {}).items()
                ],
            },
        },
        Node,
    )


def _metadata(
    name: str, labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None
) -> dict[str, Any]:
    return {
        "name": name,
        "uid": name,
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
    }


def _port(port: int | HostPort | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(port, int):
        return {"containerPort": port, "hostPort": port}
    if isinstance(port, HostPort):
        return {
            "containerPort": port.port,
            "hostPort": port.port,
            "hostIP": port.ip,
            "protocol": port.protocol,
        }
    return dict(port)


def _taint(taint: Taint | Mapping[str, Any] | str) -> object:
    if not isinstance(taint, str):
        return taint
    rest, _, effect = taint.rpartition(":")
    key, _, value = rest.partition("=")
    return {"key": key, "value": value, "effect": effect}


def _convert(value: object, kind: type[T]) -> T:
    return msgspec.convert(msgspec.to_builtins(value), kind)


@dataclass(slots=True)
class FakeClock:
    """A clock that moves only when told to; call it for nanoseconds since 1970."""

    ns: int = 0

    def __call__(self) -> int:
        """Return the time in nanoseconds since 1970."""
        return self.ns

    def advance(self, seconds: float) -> None:
        """Move the clock on."""
        self.ns += round(seconds * SECOND)
