"""Policy as a pydantic model: the sections of a plugin that is written as data.

Expressions are text here; the rule language reads them later, from their place in the file.

Sections for what follows the choice of a node may be written as the rule alone, or as a mapping
with the consequence of an error.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationInfo, WithJsonSchema, field_validator
from pydantic_core import PydanticCustomError

from policy_sched.profiles.models.types import Document, Duration, Expression, Many

MAX_LEVELS: Final = 8
"""Levels of domains: the group is tried in each domain of each of them."""


class Placement(Document):
    """Which nodes the pods of a group go to together: all of them to those of one domain."""

    domain: Expression | Annotated[Many[Expression], Field(max_length=MAX_LEVELS)] | None = None
    """The domain that a node belongs to, such as its rack. A node on which the rule fails, or is
    empty, belongs to none. Absent: another policy has the rule, or none. A list of rules has the
    narrowest domains first; a group goes to the first level with room for it, or nowhere."""
    score: Expression | None = None
    """How good a domain is with the group in it, 0 to 100. Absent: all are equal."""
    on_error: Literal["Zero", "Abort"] | None = None
    """What an error in score means; default Abort."""


class SortKey(Document):
    """One key of an order."""

    expression: Expression
    """Value that is compared."""
    order: Literal["Ascending", "Descending"] = "Ascending"
    """Direction."""


class QueueOrder(Document):
    """Several queues of pods: whose turn it is. Within a queue `queueSort` orders the pods."""

    by: Expression
    """Name of the queue that a pod belongs to."""
    keys: Many[SortKey] = ()
    """Order of the queues: the first key, among equals the next one, at last queueSort's order."""
    strict: bool | Expression = False
    """Does a pod of the queue that fits nowhere hold those behind it, until it is tried again?"""


class Preemption(Document):
    """How room is made for a pod that fits nowhere; what is absent is as kube-scheduler does it."""

    eligible: Expression | None = None
    """May the pod evict others at all?"""
    victim: Expression | None = None
    """May the pod evict this one?"""
    victim_order: Many[SortKey] = ()
    """Order of victims, the most important first: it is the first to be spared."""
    node_order: Many[SortKey] = ()
    """Order of nodes on which evicting pods would help, the best first."""
    unit: Expression | None = None
    """What is evicted together: a text of each running pod, which is pod here. Pods of one group,
    or without one, whose texts are equal go together, or none of them. Empty: the pod alone."""


class Evict(Document):
    """Running pods that are evicted although no pod needs their room."""

    every: Duration
    """How often the pods that run are looked at, at least 10s."""
    victim: Expression
    """Is this pod to be evicted?"""
    order: Many[SortKey] = ()
    """Order of the pods to be evicted: the first ones go first. Among equals the least priority
    goes first, then what began last."""
    most: Annotated[int, Field(ge=1, le=1000)] = 1
    """How many pods are evicted each time, at most."""
    message: str = ""
    """Why, as constant text; the event about the pod says it."""
    message_expression: Expression | None = None
    """Why, as a string expression."""


EventKind = Literal[
    "Pod",
    "Node",
    "Namespace",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
    "VolumeAttachment",
    "ResourceClaim",
    "ResourceSlice",
    "DeviceClass",
    "PodGroup",
    "Input",
]
"""Kinds of objects whose changes the scheduling queue hears of."""
EventAction = Literal[
    "Add",
    "Delete",
    "Update",
    "UpdateNodeAllocatable",
    "UpdateNodeLabel",
    "UpdateNodeTaint",
    "UpdateNodeCondition",
    "UpdateNodeAnnotation",
    "UpdateNodeDeclaredFeature",
    "UpdatePodLabel",
    "UpdatePodScaleDown",
    "UpdatePodToleration",
    "UpdatePodSchedulingGatesEliminated",
    "UpdatePodGeneratedResourceClaim",
]
"""kube-scheduler's words for what happens to an object."""


class VetoRule(Document):
    """A rule that can stop a binding, and the reason it gives."""

    expression: Expression
    """False sends the pod back to the queue."""
    message: str = ""
    """Why, as constant text."""
    message_expression: Expression | None = None
    """Why, as a string expression."""
    on_error: Literal["Reject", "Allow", "Abort"] | None = None
    """What an error in the expression means; default Abort."""


class Permit(Document):
    """Whether a pod that has a node may be bound now, or waits for permission."""

    allow: Expression
    """True lets the binding begin. A waiting pod is evaluated again."""
    timeout: Expression | None = None
    """How long a pod waits for permission before it is rejected, at most 15m: a duration such as
    2m, or a rule. Absent: it does not wait."""
    message: str = ""
    """Why the pod waits, or is rejected without waiting, as constant text."""
    message_expression: Expression | None = None
    """Why, as a string expression."""
    reject: Expression | None = None
    """True sends a waiting pod back, and with it those that wait for the same; evaluated again like
    allow. For a pod of a group that found no node it says whether the group failed."""
    reject_message: str = ""
    """Why a waiting pod is sent back, as constant text."""
    reject_message_expression: Expression | None = None
    """Why, as a string expression."""
    activate: Expression | None = None
    """Whether a pod that begins to wait has the others of its group tried now. Absent: where allow
    reads podGroup."""
    on_error: Literal["Reject", "Allow", "Abort"] | None = None
    """What an error in a rule means; default Abort."""


class BindRule(Document):
    """Whether this policy binds the pod."""

    expression: Expression
    """True binds the pod through the scheduler's client; false leaves it to the next plugin."""
    on_error: Literal["Skip", "Abort"] | None = None
    """What an error in the expression means; default Abort."""


class EventRule(Document):
    """The note of an event about a pod that was bound."""

    expression: Expression
    """The note; an empty one is not written."""
    on_error: Literal["Ignore", "Abort"] | None = None
    """What an error in the expression means; default Abort: a warning about the pod."""


class PostFilterRule(Document):
    """What a pod that found no node is told besides what nodes lack."""

    expression: Expression
    """The reason; an empty one is left out."""
    on_error: Literal["Ignore", "Abort"] | None = None
    """What an error in the expression means; default Abort."""


class RequeueEvent(Document):
    """A kind of events that may help a pod which this policy rejected."""

    kind: EventKind
    """What they happen to, as in event.kind."""
    actions: Annotated[Many[EventAction], Field(min_length=1)]
    """What happens, as in event.action; Update stands for every change of an object."""
    hint: Expression | None = None
    """Whether such an event is worth an attempt. Absent: the section's hint, or always."""

    @field_validator("actions")
    @classmethod
    def _happen_to_the_kind(
        cls, actions: tuple[EventAction, ...], info: ValidationInfo
    ) -> tuple[EventAction, ...]:
        """Refuse updates of nodes and pods for other kinds: they never happen."""
        kind = info.data.get("kind", "")
        for action in actions:
            owner = next((word for word in ("Node", "Pod") if f"Update{word}" in action), kind)
            if kind and owner != kind:
                why = f"{action} happens to kind {owner}, not to {kind}"
                raise PydanticCustomError("event", "{why}", {"why": why})
        return actions


class Requeue(Document):
    """When a pod that this policy rejected is tried again."""

    events: Many[RequeueEvent] | None = None
    """The events that may help it, in place of those that are derived from what the rules read."""
    hint: Expression | None = None
    """Whether an event is worth an attempt: of those in events, or else of all that happen."""
    every: Expression | None = None
    """The pod is tried again at least so often: a duration such as 1m, or a rule over params."""


POLICY_API_VERSION: Final = "policysched.dev/v1alpha1"
GROUP: Final = "policysched.dev/"
POLICY_KIND: Final = "Policy"
TEST_KINDS: Final = frozenset({"PolicyTest", "Scenario"})
"""Kinds of the same group that ``policy-sched test`` reads; policies skip them."""
PROOF_KIND: Final = "PolicyProof"
ROLLOUT_KIND: Final = "Rollout"
"""The kind that ``policy-sched prove`` reads beside policies; they skip it, too."""
EXPERIMENT_KIND: Final = "Experiment"
"""The kind that ``policy-sched sweep`` reads; policies skip it, too."""

NAME_PATTERN: Final = r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$"
IDENTIFIER_PATTERN: Final = r"^[A-Za-z_][A-Za-z0-9_]*$"

Identifier = Annotated[
    str,
    Field(
        pattern=IDENTIFIER_PATTERN,
        json_schema_extra={"errorMessage": "must be a name: letters, digits and _, no digit first"},
    ),
]


class Metadata(Document):
    """Whose policy this is."""

    name: Annotated[
        str,
        Field(
            pattern=NAME_PATTERN,
            json_schema_extra={
                "errorMessage": "must be letters, digits and -_./, and start and end with a letter"
                " or digit"
            },
        ),
    ]
    """Name of the plugin that this policy is."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Free labels; not read."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Free annotations, but for one: policysched.dev/cost-limit, how many nanoseconds a rule may
    cost for each node, 500 unless stated.
    """


class Input(Document):
    """Objects of a kind, what an API or a URL answers, or JSON in annotations, that rules look up.

    By a key, or by the pod, node or object that has the annotation.
    """

    name: Identifier
    """Rules read it as inputs.NAME."""
    api_version: str = ""
    """Version of the objects' API, such as scheduling.k8s.io/v1."""
    kind: str = ""
    """Their kind, such as PriorityClass."""
    schema_file: str = Field(default="", alias="schema")
    """A CustomResourceDefinition, or a JSON schema of the fields that rules read: a file beside
    this one. Kinds that scheduling reads, and a few others, need none."""
    key: Expression | None = None
    """The key of an object: a rule over object. Absent: namespace/name, or the name."""
    optional: bool = False
    """Whether the scheduler starts where the cluster has no such kind."""
    fields: dict[str, str] = Field(default_factory=dict)
    """Types of fields, by path, whose types the schema does not state; without one, of all that
    rules read."""
    most: Annotated[int, Field(ge=0, le=10_000)] = 0
    """How many objects there may be where a rule reads them all."""
    poll: Duration | None = None
    """How often the API, which cannot be watched, or the URL is asked."""
    url: str = ""
    """Where the answer comes from, in place of apiVersion and kind: http://HOST:PORT/PATH, in which
    $(params.NAME) stands for a parameter.
    """
    items: str = ""
    """The path to the list or map of objects in the answer of the URL."""
    annotation: str = ""
    """The annotation that has a JSON object, in place of apiVersion and kind: rules look up the
    pod, node, namespace or object that has it."""


class Function(Document):
    """A function of this policy; not recursive."""

    name: Identifier
    """Name by which rules call it."""
    params: dict[str, str] = Field(default_factory=dict)
    """Parameter names and their types, such as string, int or list(Pod)."""
    expression: Expression
    """Value of the function."""


class Variable(Document):
    """A named sub-expression, evaluated where it is used."""

    name: Identifier
    """Rules read it as variables.NAME."""
    expression: Expression
    """Value of the variable."""


class PreEnqueueRule(Document):
    """A rule that gates pods."""

    expression: Expression
    """False gates the pod."""
    message: str = ""
    """Why, as constant text."""
    message_expression: Expression | None = None
    """Why, as a string expression."""
    reasons: Expression | None = None
    """Why, as a list of strings; each one is a reason of its own."""
    on_error: Literal["Reject", "Allow", "Abort"] | None = None
    """What an error in the expression means; default Reject."""


class PreFilterRuleEntry(Document):
    """A rule about the pod alone, before any node is looked at, and the reason it gives."""

    expression: Expression
    """False rejects the pod; preemption may help, and the rule holds in its dry runs."""
    message: str = ""
    """Why, as constant text."""
    message_expression: Expression | None = None
    """Why, as a string expression."""
    resolvable: bool = True
    """Could preemption make room? False means UnschedulableAndUnresolvable."""
    on_error: Literal["Reject", "Allow"] | None = None
    """What an error in the expression means; default Reject."""


AGGREGATE_KINDS: Final = ("count", "sum", "max", "min", "union")


class Aggregate(Document):
    """A number, or a set, of pods by key: kept by events, read as aggregates.NAME[KEY].

    It has one of count, sum, max, min and union.
    """

    name: Identifier
    """Rules read it as aggregates.NAME[KEY]."""
    by: Expression | Many[Expression]
    """Key that a pod counts for; several texts make a key that is a list of them."""
    of: Annotated[Many[Literal["bound", "nominated", "queued", "gated"]], Field(min_length=1)] = (
        "bound",
    )
    """Pods that count: those on nodes, reserved ones too; those nominated to one; those that wait
    in the queue for a node; those that preEnqueue keeps out of it."""
    where: Expression | None = None
    """Does the pod count? Absent: all do."""
    since: Expression | None = None
    """Pods of a key count that began at this moment or later, and those that have not begun."""
    half_life: Duration | None = None
    """The value is amounts times hours: of what a pod counts with, for as long as it does. Half of
    it is forgotten in this time. For count and sum."""
    count: Literal[True] | None = None
    """The number of pods."""
    sum: Expression | None = None
    """The sum of ints, doubles, quantities or resources."""
    max: Expression | None = None
    """The greatest of numbers, times or quantities; 0 where no pod counts."""
    min: Expression | None = None
    """The least of them."""
    union: Expression | None = None
    """The texts that are in the list of any pod, in order."""


class QuotaObjects(Document):
    """Objects of an input that are quotas: what each of them says."""

    of: Annotated[str, Field(pattern=r"^inputs\.[A-Za-z_][A-Za-z0-9_]*$")]
    """The input whose objects the quotas are, such as inputs.quota."""
    nominal: Expression
    """Amounts that the object grants."""
    limit: Expression | None = None
    """Amounts that are never to be exceeded. Absent: there are none."""
    parent: Expression | None = None
    """Key of its parent, "" for none; one that no object describes grants nothing of its own."""
    lends: Expression | None = None
    """How much of nominal others may use; a resource that is not named: all of it."""
    borrows: Expression | None = None
    """How much it may use beyond nominal; a resource that is not named: all there is."""
    weight: Expression | None = None
    """Its part of what is shared beyond nominal amounts, against others: an int or a double."""
    priority: Expression | None = None
    """Whose turn it is first where such amounts are shared: greater ones."""
    publish: dict[str, Expression] = Field(default_factory=dict)
    """By number of the quota, such as used: the field of the object's status that shows it."""


class Quota(QuotaObjects):
    """What teams may use: an object of an input grants amounts to the pods of its key."""

    name: Identifier
    """Rules read all of them together as quotas.NAME, the pod's own one as quota."""
    pods: Expression
    """Key of the quota that a pod counts to; a pod whose key has no object has no quota."""
    parents: QuotaObjects | None = None
    """Objects of a kind of their own that parents are, as cohorts of queues."""
    inner: Literal["adds", "caps"] = "adds"
    """What a parent has: its nominal amounts and what its children lend; or the former alone."""
    shares: Literal["nominal", "cluster"] = "nominal"
    """What `quota.fair` shares out: the nominal amounts of each root, or what all nodes have."""


class PreFilter(Document):
    """The result of PreFilter for a pod."""

    rules: Many[PreFilterRuleEntry] = ()
    """Rules that the pod must pass before any node is looked at, in order."""

    node_names: Expression | None = None
    """The only nodes that can run the pod: a list of names, or an optional one."""
    message: str = ""
    """Why the pod is rejected when that list is empty."""


class FilterRule(Document):
    """A rule that removes nodes, and the reason it gives."""

    expression: Expression
    """False removes the node."""
    message: str = ""
    """Why, as constant text."""
    message_expression: Expression | None = None
    """Why, as a string expression."""
    reasons: Expression | None = None
    """Why, as a list of strings; each one is a reason of its own."""
    resolvable: Annotated[bool | str, WithJsonSchema({"type": ["boolean", "string", "number"]})] = (
        True
    )
    """Could preemption make room? False means UnschedulableAndUnresolvable; may be a rule."""
    on_error: Literal["Reject", "Allow", "Abort"] | None = None
    """What an error in the expression means; default Reject."""


class NormalizeExpression(Document):
    """A normalisation of its own."""

    expression: Expression
    """Final score, over score and scores."""


class Score(Document):
    """How nodes are ranked."""

    match_conditions: Many[Expression] = ()
    """Pods for which this score counts: all must hold."""
    expression: Expression
    """Raw score of a node."""
    normalize: (
        Literal["None", "Max", "MaxReverse", "MinMax", "MinMaxReverse"] | NormalizeExpression | None
    ) = None
    """How raw scores become 0 to 100; absent if the rule is proved to stay there."""
    on_error: Literal["Zero", "Abort"] | None = None
    """What an error in the expression means; default Zero."""


class Weight(Document):
    """The weight that a score plugin of the profile has for a pod."""

    plugin: str
    """A plugin that scores in the profile; a policy is one, too."""
    expression: Expression
    """Its weight, 0 to 100, in place of the one that the profile states."""


class StatedMeasure(Document):
    """A value by which experiments judge placements; it decides nothing."""

    name: Identifier
    """Name by which an Experiment refers to it."""
    expression: Expression
    """Value of a node; the values of all nodes are summed."""


class DeviceFilterRule(Document):
    """A rule that keeps devices from requests."""

    expression: Expression
    """False keeps the device from the request."""
    message: str = ""
    """Why, as constant text; explanations show it."""
    on_error: Literal["Reject", "Allow", "Abort"] | None = None
    """What an error in the expression means; default Reject."""


class DeviceScore(Document):
    """How the devices of a node are ranked for a request."""

    expression: Expression
    """Score of a device, an int or a double: the highest is tried first."""
    on_error: Literal["Zero", "Abort"] | None = None
    """What an error in the expression means; default Zero."""


class Devices(Document):
    """Which devices the pod's claims get on a node."""

    filter: Many[DeviceFilterRule] = ()
    """Rules that a device must pass to be considered for a request, in order."""
    score: DeviceScore | None = None
    """How the devices that fit are ranked. Absent: the first one that fits is taken."""


class PolicySpec(Document):
    """The sections of a policy; each is optional."""

    enforcement: Literal["Enforce", "Audit"] = "Enforce"
    """Audit: the policy decides nothing; `run` counts which pods it would have sent elsewhere."""
    profiles: Annotated[Many[str], Field(max_length=100)] = ()
    """The profiles that enable this policy where the configuration does not name it."""
    weight: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    """The weight of its score where the configuration states none; 0 or absent means 1."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Parameters and their default values; a profile's pluginConfig sets them."""
    inputs: Many[Input] = ()
    """Objects that rules look up by a key."""
    functions: Many[Function] = ()
    """Functions of this policy."""
    variables: Many[Variable] = ()
    """Named sub-expressions; one may use those before it."""
    aggregates: Many[Aggregate] = ()
    """Numbers and sets of pods by key, kept by events."""
    quotas: Annotated[
        Many[Quota],
        Field(
            max_length=1,
            json_schema_extra={
                "errorMessage": "`quota` is the pod's own: write a second policy for a second one"
            },
        ),
    ] = ()
    """What teams may use; at most one entry, as rules read the pod's quota by itself."""
    match_conditions: Many[Expression] = ()
    """Pods for which this policy counts: all must hold, or no section has any effect."""
    pre_enqueue: Many[PreEnqueueRule] = ()
    """Rules that a pod must pass before it enters the active queue."""
    queue_sort: Many[SortKey] = ()
    """Order of the scheduling queue."""
    queue_order: QueueOrder | None = None
    """Several queues of pods, and whose turn it is."""
    pre_filter: PreFilter | None = None
    """The result of PreFilter for a pod."""
    filter: Many[FilterRule] = ()
    """Rules that a node must pass, in order."""
    score: Score | None = None
    """How nodes are ranked."""
    weights: Annotated[Many[Weight], Field(max_length=100)] = ()
    """Weights of score plugins that differ from pod to pod."""
    devices: Devices | None = None
    """Which devices the pod's claims get on a node."""
    preemption: Preemption | None = None
    """How room is made for a pod that fits nowhere."""
    evict: Evict | None = None
    """Running pods that are evicted from time to time."""
    post_filter: Expression | PostFilterRule | None = None
    """What a pod that found no node is told besides, where no victim made room."""
    reserve: Expression | VetoRule | None = None
    """Whether the pod may have the node that was chosen for it."""
    permit: Permit | None = None
    """Whether the pod may be bound now, or waits."""
    pre_bind: Expression | VetoRule | None = None
    """A last veto before the binding."""
    bind: Expression | BindRule | None = None
    """Whether this policy binds the pod."""
    post_bind: Expression | EventRule | None = None
    """The note of an event about the bound pod."""
    placement: Placement | None = None
    """Which nodes the pods of a group go to together."""
    requeue: Requeue | None = None
    """When a pod that this policy rejected is tried again."""
    measures: Many[StatedMeasure] = ()
    """Values over nodes by which experiments judge placements."""


class Policy(Document):
    """A scheduler plugin written as data, policysched.dev/v1alpha1."""

    api_version: Literal["policysched.dev/v1alpha1"]
    """Version of this format, and level of the rule language."""
    kind: Literal["Policy"]
    """Kind of this document."""
    metadata: Metadata
    """Whose policy this is."""
    spec: PolicySpec
    """The sections of the policy."""
