"""PolicyTest as pydantic models, and so its JSON Schema; `policytest` says what they mean.

Where absent and empty differ, what is absent is None.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeVar

import re2
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from policy_sched.profiles.models.types import Document, FileName, Many

T = TypeVar("T")


def full_name(name: str) -> str:
    """Return ``namespace/name``; a bare name is in the namespace ``default``."""
    return name if "/" in name else f"default/{name}"


def _listed(value: object) -> object:
    return () if value is None else value


def _texts(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _reasons(value: object) -> object:
    return (value,) if isinstance(value, str | dict) else value


def _reply(value: object) -> object:
    return {"reasons": value} if isinstance(value, str | list) else value


Listed = Annotated[Many[T], BeforeValidator(_listed)]
"""A list; a key without a value is an empty one."""
FirstOf = Annotated[T, Field(union_mode="left_to_right")]
"""The first form that fits."""
Texts = Annotated[Many[str], BeforeValidator(_texts)]
"""Texts; one is a list of one."""
PodName = Annotated[str, AfterValidator(full_name)]
"""A pod: name, or namespace/name."""
PodNames = Annotated[Many[PodName], BeforeValidator(_texts)]
OneOrMany = Annotated[Many[T], BeforeValidator(_texts, json_schema_input_type=str | Many[str])]
"""A text, or a list of texts."""
Named = dict[str, Any]
"""A mapping whose content Kubernetes defines."""
Amount = str | int | float
"""A quantity: a number, or a text such as 500m or 8Gi."""
StatusCode = Literal[
    "Success", "Error", "Unschedulable", "UnschedulableAndUnresolvable", "Wait", "Skip", "Pending"
]
"""kube-scheduler's words for the status code of a plugin."""


class Stated(Document):
    """Something that is expected, where what is left out is not compared: a mistake, if empty."""

    _may_be_null: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _has_values(cls, value: object) -> object:
        """Refuse keys without a value."""
        if isinstance(value, dict):
            for key, item in value.items():
                if item is None and key not in cls._may_be_null:
                    raise PydanticCustomError("empty", "a key has no value")
        return value


class Pattern(Document):
    """A text that is expected by a regular expression."""

    matches: str
    """RE2 pattern that is found in the text."""

    def fits(self, text: str) -> bool:
        """Return whether the text has the pattern in it."""
        return re2.search(self.matches, text) is not None

    def __str__(self) -> str:
        return f"matches {self.matches}"


class Limits(Stated):
    """A number that is expected within limits, both included."""

    min: int | None = None
    """The least."""
    max: int | None = None
    """The most."""

    def fits(self, number: int) -> bool:
        """Return whether the number is within the limits."""
        return (self.min is None or number >= self.min) and (self.max is None or number <= self.max)

    def __str__(self) -> str:
        if self.min is None:
            return f"at most {self.max}"
        return f"at least {self.min}" if self.max is None else f"{self.min} to {self.max}"


Reasons = Annotated[
    Many[str | Pattern],
    BeforeValidator(_reasons, json_schema_input_type=str | Pattern | Many[str | Pattern]),
]


class StatusEntry(Stated):
    """The status that is expected of a plugin; what is left out is not compared."""

    code: StatusCode | None = None
    """Status code."""
    plugin: str | None = None
    """Name of the plugin, which a policy is too."""
    rule: str | None = None
    """The rule of the policy, such as filter[0]; of rejected nodes only."""
    reasons: Reasons | None = None
    """The reasons in their order; one text is a list of one."""


class QuotaEntry(Stated):
    """What is expected of a quota; what is left out is not compared.

    An amount is that of each resource that is stated; {}: there is none of any resource.
    """

    used: dict[str, Amount] | None = None
    """What its pods use."""
    nominal: dict[str, Amount] | None = None
    """What is its own."""
    limit: dict[str, Amount] | None = None
    """What it may use at most."""
    available: dict[str, Amount] | None = None
    """What it may still use; below zero in debt."""
    borrowed: dict[str, Amount] | None = None
    """What it uses beyond what is its own."""
    share: int | None = None
    """The greatest of ``borrowed`` by what its parent could have, in thousandths."""


Reply = Annotated[
    StatusEntry,
    BeforeValidator(_reply, json_schema_input_type=str | Many[str | Pattern] | StatusEntry),
]
"""A text or a list is short for the reasons alone."""


class ScoreEntry(Stated):
    """The score of a node; what is left out is not compared."""

    total: int | Limits | None = None
    """The sum over all plugins."""
    plugins: dict[str, int | Limits] | None = None
    """By plugin: its normalised score times its weight."""
    min: int | None = None
    """The least total."""
    max: int | None = None
    """The greatest total."""


class EvictionEntry(Document):
    """One acceptable way to make room."""

    node: str
    """The node that the pod is nominated to."""
    victims: PodNames = ()
    """The pods (namespace/name, or name) that leave it."""


class ConditionEntry(Document):
    """The condition PodGroupScheduled."""

    status: str = ""
    """True or False."""
    reason: str = ""
    """Scheduled, Unschedulable or SchedulerError."""
    message: str = ""
    """Why the group is not scheduled."""


class GroupEntry(Stated):
    """What became of a pod group that was decided together."""

    name: PodName | None = None
    """The group: name, or namespace/name."""
    order: PodNames | None = None
    """Its pods, in the order in which they are decided."""
    code: str | None = None
    """Success, Unschedulable or Error."""
    waiting_on_preemption: bool | None = None
    """Whether it fits when victims are gone."""
    victims: PodNames | None = None
    """The pods that are evicted for it or for one of its pods."""
    condition: ConditionEntry | None = None
    """Its condition PodGroupScheduled."""


class Expectation(Stated):
    """What is expected of one pending pod; what is left out is not compared."""

    _may_be_null = frozenset({"chosen", "message", "nominated", "placement"})

    queue: Many[OneOrMany[PodName]] | None = None
    """Pods that wait, in the order of the queue; those in a list of their own are equal. Beside
    ``pod`` before it is decided, else at the start, or at the next ``order`` of ``ops``."""
    op: Literal["order"] | None = None
    """In records: the step is the order of the queue, which is skipped where it is none."""
    evicted: PodNames | None = None
    """Without ``pod``: the running pods that policies evict at the next ``evict`` of ``ops``."""
    pod: PodName = ""
    """Name of the pod, or namespace/name; without it ``queue`` or ``evicted`` is stated."""
    chosen: str | None = None
    """The node that is among the best; null: the pod fits nowhere."""
    not_on: Texts | None = None
    """Nodes on which the pod is not placed."""
    feasible: Texts | None = None
    """All nodes on which the pod can run."""
    best: Texts | None = None
    """The nodes with the highest score."""
    rejected: dict[str, Reply] | None = None
    """By node: why the pod cannot run there."""
    scores: dict[str, int | ScoreEntry] | None = None
    """By node: its score; a number is the total."""
    raw: dict[str, int | float] | None = None
    """By node: the score of the test's ``plugin`` before normalisation."""
    order: Many[OneOrMany[str]] | None = None
    """Nodes by their total score, the best first; those in a list of their own are equal. In a
    record with ``op``: pods, as ``queue``."""
    message: str | Pattern | None = None
    """The message of the pod's condition when it fits nowhere."""
    pre_enqueue: Reply | None = None
    """Why the pod does not enter the queue."""
    pre_filter: Reply | None = None
    """Why the pod fits nowhere before nodes are looked at."""
    post_filter: Reply | None = None
    """The status of preemption."""
    preemption: Many[EvictionEntry] | None = None
    """The acceptable ways to make room; the one that is taken must be among them."""
    victims: PodNames | None = None
    """The victims, on whichever node; [] for none."""
    reserve: Reply | None = None
    """The status of Reserve for the chosen node."""
    permit: Reply | None = None
    """The status of Permit for the chosen node."""
    nominated: str | None = None
    """The node that a pod that fits nowhere is nominated to from then on; "" if to none."""
    pre_bind: Reply | None = None
    """The status of PreBind where it refuses; the test has ``bind`` then."""
    claims: dict[str, dict[str, object]] | None = None
    """By name of a resource claim that is reserved for the pod then: ``allocation``,
    ``reservedFor``, ``finalizers``; with ``bind`` only."""
    devices: Texts | dict[str, Texts] | None = None
    """The devices that the pod's claims get on the chosen node: of all, or by request."""
    deallocated: Texts | None = None
    """Resource claims (namespace/name) whose devices were taken back for the pod."""
    errors: Texts | None = None
    """Messages of which any is right, where several nodes fail in different ways."""
    placement: str | None = None
    """The domain that the pod's group goes to as a whole; null: to none of them."""
    placements: dict[str, int | None] | None = None
    """By domain: its score with the group in it; null: the group has no room there."""
    group: GroupEntry | None = None
    """What became of the pod's group; at the first pod in the order in which they are decided."""
    allowed: PodNames | None = None
    """Waiting pods that this decision lets through."""
    rejected_waiting: PodNames | dict[PodName, Reply] | None = None
    """Waiting pods that this decision sends back to the queue, or by pod: why."""
    activates: PodNames | None = None
    """Pods of the group that are tried now, wherever they are in the queue."""
    quotas: dict[str, QuotaEntry] | None = None
    """By key of a quota: its amounts after the step. A victim counts until it is deleted."""
    used: dict[str, dict[str, int]] | None = None
    """In records: by namespace, what its quota counts after the step."""
    error_at: str | None = None
    """In records: where the plugin failed. The step is skipped, as nothing was decided."""
    pods: Texts | None = None
    """In records with ``op``: all pods that wait."""
    less: Texts | None = None
    """In records with ``op``: a row for each pod, < where it comes before the other."""


class DeviceEntry(Document):
    """A device of a node in short form."""

    device: str
    """Name."""
    driver: str | None = None
    """Driver; gpu.example.com unless stated."""
    attributes: dict[str, Amount | bool | Named] = Field(default_factory=dict)
    """Attributes: a number, true or false, a text, or as in a ResourceSlice."""
    capacity: dict[str, Amount | Named] = Field(default_factory=dict)
    """Capacities: an amount, or as in a ResourceSlice."""
    shared: bool = False
    """Whether several claims may have shares of it."""
    taints: Listed[Named] = ()
    """Taints, as in a ResourceSlice."""


class ClaimEntry(Document):
    """A claim of a pod in short form, with one request of the claim's name."""

    claim: str | None = None
    """Name of the claim in the pod, and of its request; gpu unless stated."""
    device_class: Annotated[str | None, Field(alias="class")] = None
    """Device class; gpu.example.com unless stated. A class that the objects lack has the devices
    of the driver of that name."""
    count: int | Literal["All"] | None = None
    """How many devices; 1 unless stated."""
    capacity: dict[str, Amount] = Field(default_factory=dict)
    """What it asks for of each capacity of a device."""
    selector: str | None = None
    """A CEL expression that selects devices."""
    match_attribute: str | None = None
    """The attribute that its devices have in common."""
    devices: Texts = ()
    """The devices that it has; of a pod that runs."""


class NodeEntry(Document):
    """A node in short form: 4 cpu, 32Gi of memory and 110 pods by default."""

    node: str
    """Name, which is also the label kubernetes.io/hostname."""
    cpu: Amount | None = None
    """Allocatable cpu."""
    memory: Amount | None = None
    """Allocatable memory."""
    pods: Amount | None = None
    """How many pods it takes."""
    resources: dict[str, Amount] = Field(default_factory=dict)
    """Other allocatable resources."""
    labels: dict[str, Amount | bool] = Field(default_factory=dict)
    """Labels."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations."""
    taints: Listed[str | Named] = ()
    """Taints, as kubectl writes them: key=value:Effect."""
    unschedulable: bool = False
    """Cordoned."""
    images: dict[str, Any] = Field(default_factory=dict)
    """Sizes of images in bytes, by name."""
    devices: Listed[str | DeviceEntry] = ()
    """Devices that a ResourceSlice publishes for it; a name is a device without anything else."""
    spec: Named = Field(default_factory=dict)
    """Anything else of a Node's spec."""


class PodEntry(Document):
    """A pod in short, with one container."""

    pod: str
    """Name, or namespace/name."""
    node: str | None = None
    """The node on which it runs."""
    cpu: Amount | None = None
    """Requested cpu."""
    memory: Amount | None = None
    """Requested memory."""
    requests: dict[str, Amount] = Field(default_factory=dict)
    """Other requests."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Labels."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations."""
    node_selector: dict[str, str] = Field(default_factory=dict)
    """Labels that the node must have."""
    affinity: Named = Field(default_factory=dict)
    """Affinity, as in a Pod's spec."""
    tolerations: Listed[str | Named] = ()
    """Tolerations: key=value:Effect, any value without =value, any effect without :Effect."""
    priority: int | None = None
    """Priority."""
    image: str | None = None
    """The container's image."""
    host_ports: Listed[int | Named] = ()
    """TCP host ports, or ports as in a container."""
    claims: Listed[str | ClaimEntry] = ()
    """Resource claims; a name is one for one device."""
    gates: Texts = ()
    """Scheduling gates."""
    owner: str | None = None
    """Kind/name of the controller, or the name of a ReplicaSet."""
    scheduler_name: str | None = None
    """The profile."""
    created: str | None = None
    """When it was created: 2026-01-01T00:00:00Z."""
    spec: Named = Field(default_factory=dict)
    """Anything else of a Pod's spec."""


class NamespaceEntry(Document):
    """A namespace in short."""

    namespace: str
    """Name."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Labels."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations."""


class Manifest(Document):
    """An API object, as kubectl applies it."""

    model_config = ConfigDict(extra="allow")

    kind: str
    """Kind of the object."""


class Operation(Stated):
    """One event of a test, in the order of its list; it has one of the keys."""

    decide: PodName | None = None
    """The pending pod that is decided now, once more if it was decided before."""
    delete: PodName | None = None
    """The pod that is gone now, pending or running."""
    order: bool = False
    """The order of the queue is looked at now; an entry of ``expect`` without a pod states it."""
    evict: bool = False
    """Policies with ``evict`` look at the running pods now; ``evicted`` of an entry of ``expect``
    without a pod states which of them go. They are gone from then on."""


class TestMetadata(Document):
    """Name of a test that has apiVersion and kind."""

    name: str
    """What the test is called."""


class PolicyTest(Document):
    """A cluster, the pods to place in it one after the other, and what is expected of each."""

    api_version: Literal["policysched.dev/v1alpha1"]
    """Version of this form."""
    kind: Literal["PolicyTest"]
    """Kind of the document."""
    name: str | None = None
    """What is promised, in words."""
    what: str | None = None
    """What the test shows, at more length; it is not compared."""
    metadata: TestMetadata | None = None
    """Another place for the name."""
    policies: OneOrMany[FileName] = ()
    """Policy files that take part, relative to this file."""
    config: FileName | Named | None = None
    """A KubeSchedulerConfiguration, or the path of one; without it the default profile."""
    plugin: str | None = None
    """The plugin that decided a record, or whose scores ``raw`` states: a policy that is enabled,
    or a shipped one that the configuration names."""
    metrics: Named = Field(default_factory=dict)
    """In records: what the load watcher answered."""
    inputs: Named = Field(default_factory=dict)
    """What inputs with a url are answered, by the input's name: the whole answer."""
    now: str | None = None
    """The time while all of it happens, in RFC 3339; 2026-01-01T00:00:00Z unless it is given."""
    objects: Listed[FirstOf[Manifest | NodeEntry | PodEntry | NamespaceEntry]] = ()
    """What is in the cluster: short forms, or whole manifests."""
    pending: Listed[FirstOf[str | Manifest | PodEntry]] = ()
    """The pods to place, in this order; a name is a pod without requests."""
    bind: bool = False
    """What is reserved is written before the next pod: resource claims have their devices then."""
    gang: bool = False
    """Set in recorded decisions: all pending pods are there from the start, and groups are decided
    together."""
    gates: str = ""
    """Feature gates, as --feature-gates takes them: GenericWorkload=true,GangScheduling=true."""
    ops: Listed[Operation] = ()
    """What happens, in this order; without it each pending pod is decided once, in its order."""
    expect: Listed[Expectation] = ()
    """Expected decisions; the second entry of a pod is its second decision."""


def keys_of(model: type[Document]) -> tuple[str, ...]:
    """Return the keys that a mapping of the model may have, as they are written in a file."""
    return tuple(field.alias or name for name, field in model.model_fields.items())
