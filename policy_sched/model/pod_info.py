"""PodInfo: a pod as the scheduler and its rules see it, decoded once.

Theory of operation: attributes that every decision reads are slots, set when a PodInfo is made; the
others are computed when they are first read, and kept (`_Lazy`). Whatever a PodInfo hands out is
shared and must not be changed: a changed pod is a new PodInfo.

A QueuedPod is a pod that waits for its turn, with what its earlier attempts left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from enum import IntEnum
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from policy_sched.model.meta import (
    ANY_ADDRESS,
    NO_SECCOMP_PROFILE,
    Condition,
    Container,
    HostPort,
    NodeAffinity,
    OwnerReference,
    SeccompProfile,
    Toleration,
    datetime_of,
    nanoseconds,
)
from policy_sched.model.pod import ContainerPort, ContainerSpec, Pod, PodSpec, SecurityContext
from policy_sched.model.pod_group import POD_GROUP_LABEL
from policy_sched.model.pod_terms import (
    NO_TERMS,
    PodTerms,
    SpreadConstraints,
    pod_terms,
    spread_constraints,
)
from policy_sched.model.quantity import units
from policy_sched.model.requests import container_units, limits, qos_class, totals
from policy_sched.model.storage import PodVolumes, pod_volumes

DEFAULT_SCHEDULER: Final = "default-scheduler"
DEFAULT_NAMESPACE: Final = "default"

_EAGER: Final = (
    "node_affinity",
    "non_zero_requests_key",
    "requests_key",
    "has_claims",
    "has_pod_affinity",
    "host_ports",
    "images",
    "container_count",
    "key",
    "labels",
    "may_need_features",
    "may_use_devices",
    "name",
    "namespace",
    "node_name",
    "node_selector",
    "nominated_node_name",
    "non_zero_added",
    "non_zero_requests",
    "pod_group",
    "priority",
    "requests",
    "scheduler_name",
    "start_time",
    "terminating",
    "tolerations",
    "uid",
)


class PodInfo:
    """A pod, decoded once; times are nanoseconds since 1970, amounts are scheduler units.

    ``uid`` is the pod's "namespace/name" where the pod has no uid of its own, ``namespace`` is
    "default" and ``scheduler_name`` "default-scheduler" where the pod names none. Attributes
    whose name ends in ``_key`` are sorted tuples, equal exactly where the mapping is equal.
    ``non_zero_requests`` is what a pending pod counts for in scoring, ``non_zero_added`` what it
    adds to its node (`requests.Totals`). ``has_claims``: whether it has resource claims. Where
    ``may_use_devices`` is false a pod has neither these nor extended resources; where
    ``may_need_features`` is false, it needs no feature that nodes declare. ``node_name`` is set by
    the cache when the pod is assumed; nothing else changes after a PodInfo is made.
    ``object`` stands for all of the pod's JSON, and is equal where that is.
    ``pending_form`` is set on what `running` returns, and nowhere else.
    """

    __slots__ = (*_EAGER, "__dict__", "pending_form")

    pod: Pod
    key: str
    name: str
    namespace: str
    uid: str
    labels: dict[str, str]
    labels_key: tuple[tuple[str, str], ...]
    annotations: dict[str, str]
    annotations_key: tuple[tuple[str, str], ...]
    node_name: str
    nominated_node_name: str
    scheduler_name: str
    priority: int
    priority_class_name: str
    preemption_policy: str
    qos_class: str
    service_account_name: str
    runtime_class_name: str
    owner_key: tuple[str, str, str] | tuple[()]
    owner_kind: str
    owner_name: str
    owner_uid: str
    pod_group: str
    host_network: bool
    seccomp_profile: SeccompProfile
    terminating: bool
    creation_time: int
    start_time: int
    deletion_time: int
    conditions: tuple[Condition, ...]
    object: bytes
    overhead: dict[str, int]
    overhead_key: tuple[tuple[str, int], ...]
    node_selector: dict[str, str]
    node_selector_key: tuple[tuple[str, str], ...]
    node_affinity: NodeAffinity | None
    tolerations: tuple[Toleration, ...]
    container_count: int
    containers: tuple[Container, ...]
    images: tuple[str, ...]
    host_ports: tuple[HostPort, ...]
    has_pod_affinity: bool
    affinity_terms: PodTerms
    topology_spread: SpreadConstraints
    scheduling_gates: tuple[str, ...]
    pvc_names: tuple[str, ...]
    volumes: PodVolumes | None
    requests: dict[str, int]
    requests_key: tuple[tuple[str, int], ...]
    non_zero_requests: dict[str, int]
    non_zero_added: dict[str, int]
    non_zero_requests_key: tuple[tuple[str, int], ...]
    limits: dict[str, int]
    limits_key: tuple[tuple[str, int], ...]
    may_need_features: bool
    may_use_devices: bool
    has_claims: bool
    pending_form: PodInfo

    @classmethod
    def of(cls, pod: Pod) -> PodInfo:  # noqa: PLR0915 - a statement for each attribute
        """Return the PodInfo of a pod. Raises ValueError if a quantity is not valid."""
        self = cls.__new__(cls)
        meta, spec, status = pod.metadata, pod.spec, pod.status
        total = totals(pod)
        self.pod = pod
        self.name = name = meta.name
        self.namespace = namespace = meta.namespace or DEFAULT_NAMESPACE
        self.key = key = f"{namespace}/{name}"
        self.uid = meta.uid or key
        self.labels = labels = meta.labels
        group = spec.scheduling_group
        self.pod_group = (
            group.pod_group_name if group else labels.get(POD_GROUP_LABEL, "") if labels else ""
        )
        self.node_name = spec.node_name
        self.nominated_node_name = status.nominated_node_name
        self.scheduler_name = spec.scheduler_name or DEFAULT_SCHEDULER
        self.priority = spec.priority or 0
        self.node_selector = spec.node_selector
        self.tolerations = spec.tolerations
        self.requests = total.requests
        self.requests_key = total.requests_key
        self.non_zero_requests = total.non_zero
        self.non_zero_requests_key = total.non_zero_key
        self.non_zero_added = total.non_zero_added
        self.has_claims = claims = bool(spec.resource_claims)
        self.may_use_devices = claims or total.has_others
        self.container_count = len(spec.init_containers) + len(spec.containers)
        affinity = spec.affinity
        if affinity is None:
            self.node_affinity = None
            self.has_pod_affinity = False
        else:
            self.node_affinity = affinity.node_affinity
            self.has_pod_affinity = (
                affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None
            )
        if not spec.volumes:
            self.volumes = None
        if not spec.node_selector:
            self.node_selector_key = ()
        if not labels:
            self.labels_key = ()
        if not spec.scheduling_gates:
            self.scheduling_gates = ()
        self.terminating = meta.deletion_timestamp is not None
        self.start_time = 0 if status.start_time is None else nanoseconds(status.start_time)
        images, exposed = [], False
        featured = spec.host_network
        for container in (*spec.init_containers, *spec.containers):
            featured = featured or bool(container.restart_policy_rules)
            image = container.image
            # Most names have a tag; a colon before the last slash belongs to a port.
            images.append(image if image.rfind(":") > image.rfind("/") else f"{image}:latest")
            for port in container.ports:
                exposed = exposed or port.host_port > 0
        self.may_need_features = featured
        self.images = (*images, *_volume_images(spec)) if spec.volumes else tuple(images)
        self.host_ports = _host_ports(spec) if exposed else ()
        return self

    def like(self, pod: Pod) -> PodInfo:
        """Return the PodInfo of a pod whose spec and status are those of this one's pod."""
        there = PodInfo.__new__(PodInfo)
        meta, spec = pod.metadata, pod.spec
        there.pod = pod
        there.name = name = meta.name
        there.namespace = namespace = meta.namespace or DEFAULT_NAMESPACE
        there.key = key = f"{namespace}/{name}"
        there.uid = meta.uid or key
        there.labels = labels = meta.labels
        if spec.scheduling_group:
            there.pod_group = self.pod_group
        else:
            there.pod_group = labels.get(POD_GROUP_LABEL, "") if labels else ""
        there.terminating = meta.deletion_timestamp is not None
        there.node_name = spec.node_name
        if not labels:
            there.labels_key = ()
        if not spec.volumes:
            there.volumes = None
        if not spec.node_selector:
            there.node_selector_key = ()
        if not spec.scheduling_gates:
            there.scheduling_gates = ()
        there.nominated_node_name = self.nominated_node_name
        there.start_time = self.start_time
        there.scheduler_name = self.scheduler_name
        there.priority = self.priority
        there.node_selector = self.node_selector
        there.node_affinity = self.node_affinity
        there.has_pod_affinity = self.has_pod_affinity
        there.tolerations = self.tolerations
        there.requests = self.requests
        there.requests_key = self.requests_key
        there.non_zero_requests = self.non_zero_requests
        there.non_zero_requests_key = self.non_zero_requests_key
        there.non_zero_added = self.non_zero_added
        there.has_claims = self.has_claims
        there.may_use_devices = self.may_use_devices
        there.may_need_features = self.may_need_features
        there.container_count = self.container_count
        there.images = self.images
        there.host_ports = self.host_ports
        return there

    def on(self, node: str) -> PodInfo:
        """Return the pod as if it were on that node."""
        there = PodInfo.__new__(PodInfo)
        for name in ("pod", *_EAGER):
            setattr(there, name, getattr(self, name))
        there.node_name = node
        return there

    def running(self, node: str, since: int) -> PodInfo:
        """Return the pod as it runs on that node since a time, in nanoseconds.

        It is equal to the PodInfo of `running_form`, which is made when ``pod`` is first read.
        """
        there = PodInfo.__new__(PodInfo)
        there.pending_form = self
        there.node_name = node
        there.nominated_node_name = ""
        there.start_time = since // 1000 * 1000
        there.name = self.name
        there.namespace = self.namespace
        there.key = self.key
        there.uid = self.uid
        there.labels = self.labels
        there.pod_group = self.pod_group
        there.scheduler_name = self.scheduler_name
        there.priority = self.priority
        there.node_selector = self.node_selector
        there.node_affinity = self.node_affinity
        there.has_pod_affinity = self.has_pod_affinity
        there.tolerations = self.tolerations
        there.requests = self.requests
        there.requests_key = self.requests_key
        there.non_zero_requests = self.non_zero_requests
        there.non_zero_requests_key = self.non_zero_requests_key
        there.non_zero_added = self.non_zero_added
        there.may_use_devices = self.may_use_devices
        there.may_need_features = self.may_need_features
        there.has_claims = self.has_claims
        there.container_count = self.container_count
        there.terminating = self.terminating
        there.images = self.images
        there.host_ports = self.host_ports
        return there

    def __repr__(self) -> str:
        return f"PodInfo({self.key})"


class PodInfos:
    """Makes the PodInfo of pods; specs are shared, and what follows from one is worked out once."""

    def __init__(self) -> None:
        self._by_spec: dict[int, PodInfo] = {}

    def of(self, pod: Pod) -> PodInfo:
        """Return the PodInfo of a pod. Raises ValueError if a quantity is not valid."""
        info = self._by_spec.get(id(pod.spec))
        if info is not None and info.pod.status == pod.status:
            return info.like(pod)
        if len(self._by_spec) >= _KEPT_SPECS:
            self._by_spec.clear()
        info = self._by_spec[id(pod.spec)] = PodInfo.of(pod)
        return info


_KEPT_SPECS: Final = 4096


def running_form(pod: Pod, node: str, since: int) -> Pod:
    """Return a pod that runs on a node since a time, in nanoseconds."""
    status = replace(
        pod.status, phase="Running", start_time=datetime_of(since), nominated_node_name=""
    )
    return replace(pod, spec=replace(pod.spec, node_name=node), status=status)


def normalized_image(name: str) -> str:
    """Return an image name with its tag: "latest" where it has none, as ImageLocality does."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


def is_sidecar(container: ContainerSpec) -> bool:
    """Tell whether an init container keeps running beside the main containers."""
    return container.restart_policy == "Always"


def _controller(info: PodInfo) -> OwnerReference:
    for reference in info.pod.metadata.owner_references:
        if reference.controller:
            return reference
    return OwnerReference()


def _owner_key(info: PodInfo) -> tuple[str, str, str] | tuple[()]:
    """Return apiVersion, kind and name of the controlling owner; () without one."""
    if not info.pod.metadata.owner_references:
        return ()
    owner = _controller(info)
    return (owner.api_version, owner.kind, owner.name) if owner.kind else ()


def _seccomp_profile(context: SecurityContext | None) -> SeccompProfile:
    return (context and context.seccomp_profile) or NO_SECCOMP_PROFILE


def _containers(info: PodInfo) -> tuple[Container, ...]:
    spec = info.pod.spec
    kinds = [("sidecar" if is_sidecar(c) else "init", c) for c in spec.init_containers]
    kinds += [("main", c) for c in spec.containers]
    return tuple(
        Container(
            name=c.name,
            image=c.image,
            kind=kind,
            requests=container_units(c.resources.requests),
            limits=container_units(c.resources.limits),
            seccomp_profile=_seccomp_profile(c.security_context),
        )
        for kind, c in kinds
    )


def _volume_images(spec: PodSpec) -> Iterator[str]:
    for volume in spec.volumes:
        if volume.image is not None:
            yield normalized_image(volume.image.reference)


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    ports: list[ContainerPort] = []
    for container in spec.containers:
        ports += container.ports
    for container in spec.init_containers:
        if is_sidecar(container):
            ports += container.ports
    return tuple(
        HostPort(port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
        for port in ports
        if port.host_port > 0
    )


def _pvc_names(info: PodInfo) -> tuple[str, ...]:
    names = []
    for volume in info.pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            names.append(volume.persistent_volume_claim.claim_name)
        elif volume.ephemeral is not None:
            names.append(f"{info.name}-{volume.name}")
    return tuple(names)


def _volumes(info: PodInfo) -> PodVolumes | None:
    spec = info.pod.spec
    if not spec.volumes:
        return None
    return pod_volumes(spec.volumes, info.namespace, info.name, info.pod.metadata.uid)


_COMPUTE: Final[dict[str, Callable[[PodInfo], Hashable | dict[str, Any] | Pod]]] = {
    "affinity_terms": lambda i: (
        pod_terms(i.pod.spec.affinity, i.namespace) if i.has_pod_affinity else NO_TERMS
    ),
    "annotations": lambda i: i.pod.metadata.annotations,
    "annotations_key": lambda i: tuple(sorted(i.annotations.items())),
    "object": lambda i: msgspec.json.encode(i.pod),
    "conditions": lambda i: i.pod.status.conditions,
    "containers": _containers,
    "deletion_time": lambda i: nanoseconds(i.pod.metadata.deletion_timestamp),
    "overhead": lambda i: {n: units(n, a) for n, a in i.pod.spec.overhead.items()},
    "creation_time": lambda i: nanoseconds(i.pod.metadata.creation_timestamp),
    "host_network": lambda i: i.pod.spec.host_network,
    "labels_key": lambda i: tuple(sorted(i.labels.items())),
    "limits": lambda i: limits(i.pod),
    "limits_key": lambda i: tuple(sorted(i.limits.items())),
    "node_selector_key": lambda i: tuple(sorted(i.node_selector.items())),
    "overhead_key": lambda i: tuple(sorted(i.overhead.items())),
    "owner_key": _owner_key,
    "owner_kind": lambda i: _controller(i).kind,
    "owner_name": lambda i: _controller(i).name,
    "owner_uid": lambda i: _controller(i).uid,
    "pod": lambda i: running_form(i.pending_form.pod, i.node_name, i.start_time),
    "preemption_policy": lambda i: i.pod.spec.preemption_policy,
    "priority_class_name": lambda i: i.pod.spec.priority_class_name,
    "pvc_names": _pvc_names,
    "qos_class": lambda i: qos_class(i.pod),
    "runtime_class_name": lambda i: i.pod.spec.runtime_class_name,
    "scheduling_gates": lambda i: tuple(g.name for g in i.pod.spec.scheduling_gates),
    "seccomp_profile": lambda i: _seccomp_profile(i.pod.spec.security_context),
    "service_account_name": lambda i: i.pod.spec.service_account_name,
    "topology_spread": lambda i: spread_constraints(i.pod.spec.topology_spread_constraints),
    "volumes": _volumes,
}

FIELDS: Final = frozenset((*_EAGER, *_COMPUTE)) - {
    "pod", "key", "non_zero_added", "has_pod_affinity",
}  # fmt: skip
"""Every attribute that describes the pod."""


class _Lazy:
    """An attribute that is computed when it is first read.

    It is kept where Python looks for it before it asks this descriptor, which ``__getattr__`` would
    slow down: every attribute of a class that has one is looked for in vain first.
    """

    def __init__(self, name: str, compute: Callable[[PodInfo], Any]) -> None:
        self._name, self._compute = name, compute

    def __get__(self, info: PodInfo, owner: type[PodInfo]) -> Any:
        value = self._compute(info)
        setattr(info, self._name, value)
        return value


for _name, _compute in _COMPUTE.items():
    setattr(PodInfo, _name, _Lazy(_name, _compute))


def field_key(name: str) -> str:
    """Return the attribute that is hashable and equal exactly where the field ``name`` is.

    ``name`` is the attribute's name (``node_selector``). Raises KeyError for an unknown one.
    """
    if name not in FIELDS:
        raise KeyError(name)
    keyed = f"{name}_key"
    return keyed if keyed in FIELDS else name


NO_PLUGINS: Final[frozenset[str]] = frozenset()


class QueueState(IntEnum):
    """Where the scheduling queue has a pod; it is in exactly one place."""

    OUT = 0
    """Not in the queue."""
    ACTIVE = 1
    """Ready: it is popped when its turn comes."""
    BACKOFF = 2
    """Worth another attempt when its backoff is over, or when nothing else is ready."""
    UNSCHEDULABLE = 3
    """Waits for an event that may help it."""
    GATED = 4
    """A PreEnqueue plugin keeps it out."""
    IN_FLIGHT = 5
    """Popped, and not yet permitted to be bound, or back."""
    BINDING = 6
    """Permitted, and not yet bound or back: no event changes that."""


class QueuedPod(msgspec.Struct, eq=False):
    """A pod in the queue. Times are nanoseconds since 1970.

    ``enqueued_at`` is when it was put into the queue, or came back from an attempt, the last time;
    ``first_enqueued_at`` when it came for the first time, ``last_failed_at`` when its last attempt
    ended in vain (0: none did), ``ready_at`` when it was ready to be
    popped for the first time (0: not yet). ``attempts`` counts scheduling attempts,
    ``unschedulable_count`` those of them that plugins rejected, ``consecutive_errors`` the latest
    ones that met an unexpected error; the last two set the backoff, which ends at
    ``backoff_until`` (0: not worked out).

    ``rejected_by`` are the plugins that rejected the pod in its last attempt or keep it gated,
    ``pending`` those of its last attempt that returned Pending, ``gated_by`` the PreEnqueue plugin
    that keeps it out. ``flushed``: it is tried again because it waited for too long; no event
    brought it back. ``newer`` is what the pod was changed to while it was in flight, and
    ``deleted``: it was deleted then: an attempt goes on with the pod that it began with.
    ``queue`` is the name of its queue where there are several. ``place``, ``ticket`` (its turn in a
    heap or the pool), ``seen`` (how many events had come when it was popped) and ``activated``
    (since then) are the queue's own.
    """

    info: PodInfo
    enqueued_at: int = 0
    first_enqueued_at: int = 0
    last_failed_at: int = 0
    ready_at: int = 0
    attempts: int = 0
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    backoff_until: int = 0
    rejected_by: frozenset[str] = NO_PLUGINS
    pending: frozenset[str] = NO_PLUGINS
    gated_by: str = ""
    queue: str = ""
    flushed: bool = False
    place: QueueState = QueueState.OUT
    ticket: int = 0
    seen: int = 0
    activated: bool = False
    newer: PodInfo | None = None
    deleted: bool = False
