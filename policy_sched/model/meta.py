"""Common types of API objects: metadata, selectors, affinity, topology spread, base structs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import msgspec
from msgspec import field

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
SECOND: Final = 1_000_000_000
"""Nanoseconds of a second."""
ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"
"""Labels of nodes."""
ENDED_PHASES: Final = frozenset({"Succeeded", "Failed"})
"""Phases of pods that run no more."""

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""The API's int32: counts, weights, priorities."""

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""The API's int64: sizes and seconds."""


class ApiStruct(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """Base of the structs that are decoded straight from API JSON; unknown fields are ignored.

    Decoded data is a tree, so the cycle collector need not traverse it: with 30,000 pods a
    full collection takes 25 ms instead of 110.
    """


class ApiValue(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True, gc=False
):
    """Base of the structs that are immutable after decoding."""


class LabelSelectorRequirement(ApiValue, frozen=True, gc=False):
    """One requirement of a label selector: In, NotIn, Exists or DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(ApiValue, frozen=True):
    """A selector of labels; all requirements must hold, and an empty one selects everything."""

    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class OwnerReference(ApiValue, frozen=True, gc=False):
    """Another object that owns this one; the one with ``controller`` true manages it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(ApiStruct):
    """The fields of an object's metadata that scheduling reads."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    owner_references: tuple[OwnerReference, ...] = ()


class ApiObject(ApiStruct):
    """Base of the objects with a kind; apiVersion and kind are kept for encoding."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)


class CustomObject(ApiObject):
    """An object of a kind that rules alone read, as an input.

    ``content``: all of it as plain data, or as JSON without apiVersion, kind and metadata.
    """

    content: Any = None


def datetime_of(time: int) -> datetime:
    """Return the timestamp of a time in nanoseconds since 1970, rounded to microseconds."""
    return EPOCH + timedelta(microseconds=time // 1000)


def nanoseconds(time: datetime | None) -> int:
    """Return a timestamp as nanoseconds since 1970, 0 for none; a naive time is UTC."""
    if time is None:
        return 0
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - EPOCH) // _MICROSECOND * 1000


class NodeSelectorRequirement(ApiValue, frozen=True, gc=False):
    """One requirement on a node's label or field: In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(ApiValue, frozen=True, gc=False):
    """Requirements that must all hold; a term without any matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(ApiValue, frozen=True, gc=False):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(ApiValue, frozen=True, gc=False):
    """A term, and the score (1 to 100) that a matching node gets."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(ApiValue, frozen=True, gc=False):
    """The required and preferred nodes of a pod; hashable, equal by value."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(ApiValue, frozen=True):
    """Pods to be near to or away from, and the topology label whose value defines near."""

    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    topology_key: str = ""
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(ApiValue, frozen=True):
    """A pod affinity term and its weight (1 to 100)."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = msgspec.field(default_factory=PodAffinityTerm)


class PodAffinity(ApiValue, frozen=True):
    """Required and preferred terms of pod affinity, or of pod anti-affinity."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(ApiValue, frozen=True):
    """The three affinities of a pod."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(ApiValue, frozen=True):
    """The allowed imbalance of matching pods over the values of a node label."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104  # the API's notation for every address of a node


class Taint(ApiValue, frozen=True, gc=False):
    """Keeps pods off a node. Effects: NoSchedule, PreferNoSchedule, NoExecute."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Toleration(ApiValue, frozen=True, gc=False):
    """Tolerates taints. Empty key or effect matches every one; an empty operator is Equal."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None

    def tolerates(self, key: str, value: str, effect: str) -> bool:
        """Return whether a taint is tolerated; not by Lt and Gt, whose feature gate is off."""
        if self.effect and self.effect != effect:
            return False
        if self.key and self.key != key:
            return False
        if self.operator == "Exists":
            return True
        return self.operator in ("", "Equal") and self.value == value


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Return whether one of the tolerations tolerates the taint."""
    return any(t.tolerates(taint.key, taint.value, taint.effect) for t in tolerations)


class HostPort(msgspec.Struct, frozen=True, order=True, gc=False):
    """A port of the node that a pod uses; the address 0.0.0.0 is every address."""

    ip: str
    protocol: str
    port: int

    def conflicts(self, other: "HostPort") -> bool:
        """Return whether two ports cannot be used together on one node."""
        if self.port != other.port or self.protocol != other.protocol:
            return False
        return self.ip == other.ip or ANY_ADDRESS in (self.ip, other.ip)


#: Number of pairs of ports up to which comparing is faster than indexing.
_FEW_PAIRS: Final = 64


class _Index:
    """Ports by protocol and number: their addresses. Keeps the last index."""

    def __init__(self) -> None:
        self._last: tuple[Sequence[HostPort], dict[tuple[str, int], set[str]]] = (), {}

    def of(self, ports: Sequence[HostPort]) -> dict[tuple[str, int], set[str]]:
        """Return the addresses of some ports by protocol and number."""
        last_ports, ips = self._last
        if last_ports is not ports:
            ips = {}
            for port in ports:
                ips.setdefault((port.protocol, port.port), set()).add(port.ip)
            self._last = ports, ips
        return ips


_INDEX: Final = _Index()


def ports_conflict(wanted: Sequence[HostPort], used: Collection[HostPort]) -> bool:
    """Return whether a port of one list conflicts with one of another."""
    if len(wanted) * len(used) <= _FEW_PAIRS:
        return any(port.conflicts(other) for port in wanted for other in used)
    index = _INDEX.of(wanted)
    for port in used:
        addresses = index.get((port.protocol, port.port))
        if addresses and (
            port.ip == ANY_ADDRESS or port.ip in addresses or ANY_ADDRESS in addresses
        ):
            return True
    return False


class Condition(ApiValue, frozen=True, gc=False):
    """One condition of a node's or a pod's status; status is True, False or Unknown."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None

    @property
    def transition_time(self) -> int:
        """When its status changed last, in ns since 1970; 0 if not stated."""
        return nanoseconds(self.last_transition_time)


class SeccompProfile(ApiValue, frozen=True, gc=False):
    """Which system calls the kernel lets through; ``type`` is "" where none is stated.

    ``localhost_profile``: the path of a file on the node, where the type is Localhost.
    """

    type: str = ""
    localhost_profile: str = ""


NO_SECCOMP_PROFILE: Final = SeccompProfile()


class Container(msgspec.Struct, frozen=True, eq=False):
    """A container in rules; ``kind`` is init, sidecar or main.

    ``requests`` and ``limits`` are in scheduler units and must not be changed.
    """

    name: str
    image: str
    kind: str
    requests: Mapping[str, int]
    limits: Mapping[str, int]
    seccomp_profile: SeccompProfile = NO_SECCOMP_PROFILE

    def __eq__(self, other: object) -> bool:
        """Compare by value."""
        if not isinstance(other, Container):
            return NotImplemented
        return (
            self.name == other.name
            and self.image == other.image
            and self.kind == other.kind
            and self.requests == other.requests
            and self.limits == other.limits
            and self.seccomp_profile == other.seccomp_profile
        )

    def __hash__(self) -> int:
        """Return a hash; equal containers have equal hashes."""
        return hash((self.name, self.image, self.kind))
