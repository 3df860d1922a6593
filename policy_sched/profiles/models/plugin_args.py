"""Arguments of kube-scheduler's own plugins as pydantic models: fields, defaults and ranges.

Sources: ``staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go``,
``pkg/scheduler/apis/config/v1/defaults.go`` and ``.../validation/validation_pluginargs.go`` of
Kubernetes 1.36. What spans several fields is checked in validate/configuration.py.
"""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from policy_sched.profiles.models.kube_scheduler_configuration import INT32_MAX, SECOND, message
from policy_sched.profiles.models.types import Document, Duration, Many

WORDS_0_100: Final = message("not in valid range [0, 100]")

NodeOperator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]


class PluginArgs(Document):
    """Arguments of one plugin; apiVersion and kind may be written out, as upstream allows."""

    api_version: Literal["kubescheduler.config.k8s.io/v1"] | None = None
    """Version of the arguments; may be left out."""
    kind: str | None = None
    """Name of the plugin followed by Args; may be left out."""


class ResourceSpec(Document):
    """One resource, and how much it counts."""

    name: str
    """Name of the resource."""
    weight: int = 0
    """Weight of the resource, 1 to 100; 0 or absent means 1."""


def default_resources() -> tuple[ResourceSpec, ...]:
    """Return the resources that count where none are named: cpu and memory alike."""
    make = ResourceSpec.model_construct  # without the validator, which takes a start some time
    return (make(name="cpu", weight=1), make(name="memory", weight=1))


def _with_weights(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    """Return the resources with upstream's defaults: cpu and memory if none, weight 1 for 0."""
    if not resources:
        return default_resources()
    return tuple(r if r.weight else r.model_copy(update={"weight": 1}) for r in resources)


class UtilizationShapePoint(Document):
    """One point of a scoring function."""

    utilization: Annotated[int, Field(ge=0, le=100, json_schema_extra=WORDS_0_100)]
    """Utilization in percent."""
    score: Annotated[
        int, Field(ge=0, le=10, json_schema_extra=message("not in valid range [0, 10]"))
    ]
    """Score at that utilization."""


class RequestedToCapacityRatioParam(Document):
    """The scoring function of the strategy RequestedToCapacityRatio."""

    shape: Many[UtilizationShapePoint] = ()
    """Points in increasing order of utilization."""


class ScoringStrategy(Document):
    """How NodeResourcesFit scores."""

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]
    """Name of the strategy."""
    resources: Many[ResourceSpec] = ()
    """Resources that count; default cpu and memory alike."""
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None
    """The scoring function; for RequestedToCapacityRatio only."""

    @model_validator(mode="after")
    def _defaults(self) -> Self:
        """Fill in upstream's default resources and weights."""
        object.__setattr__(self, "resources", _with_weights(self.resources))
        return self


class NodeResourcesFitArgs(PluginArgs):
    """Arguments of NodeResourcesFit."""

    ignored_resources: Many[str] = ()
    """Resources that the filter ignores; scoring does not."""
    ignored_resource_groups: Many[str] = ()
    """Groups (the part of a name before the slash) that the filter ignores; scoring does not."""
    scoring_strategy: ScoringStrategy = ScoringStrategy.model_construct(
        type="LeastAllocated", resources=default_resources()
    )
    """How to score; default LeastAllocated over cpu and memory."""


class NodeResourcesBalancedAllocationArgs(PluginArgs):
    """Arguments of NodeResourcesBalancedAllocation."""

    resources: Many[ResourceSpec] = default_resources()
    """Resources that should be used evenly; default cpu and memory. Weights must be 1."""

    @model_validator(mode="after")
    def _defaults(self) -> Self:
        """Fill in upstream's default resources and weights."""
        object.__setattr__(self, "resources", _with_weights(self.resources))
        return self


class DefaultPreemptionArgs(PluginArgs):
    """Arguments of DefaultPreemption."""

    min_candidate_nodes_percentage: Annotated[
        int, Field(ge=0, le=100, json_schema_extra=WORDS_0_100)
    ] = 10
    """Fewest candidate nodes, in percent of all nodes; default 10."""
    min_candidate_nodes_absolute: Annotated[
        int, Field(ge=0, le=INT32_MAX, json_schema_extra=message("not in valid range [0, inf)"))
    ] = 100
    """Fewest candidate nodes; default 100."""


class InterPodAffinityArgs(PluginArgs):
    """Arguments of InterPodAffinity."""

    hard_pod_affinity_weight: Annotated[int, Field(ge=0, le=100, json_schema_extra=WORDS_0_100)] = 1
    """Score of an existing pod's required affinity to the incoming pod; default 1."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """Ignore preferred terms of existing pods, unless the incoming pod has terms of its own."""


class NodeSelectorRequirement(Document):
    """One condition on a label or field of a node."""

    key: str
    """Label key, or metadata.name in matchFields."""
    operator: NodeOperator
    """Relation of the key to the values."""
    values: Many[str] = ()
    """Values; none for Exists and DoesNotExist, one integer for Gt and Lt."""


class NodeSelectorTerm(Document):
    """Conditions that must all hold; a term without any selects nothing."""

    match_expressions: Many[NodeSelectorRequirement] = ()
    """Conditions on labels."""
    match_fields: Many[NodeSelectorRequirement] = ()
    """Conditions on fields."""


class NodeSelector(Document):
    """Terms of which one must hold."""

    node_selector_terms: Many[NodeSelectorTerm]
    """The terms."""


class PreferredSchedulingTerm(Document):
    """A term that is preferred, not required."""

    weight: int
    """Added to the score of a node that matches."""
    preference: NodeSelectorTerm
    """The term."""


class AddedNodeAffinity(Document):
    """A node affinity, as in a pod."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    """Nodes must match one of these terms."""
    preferred_during_scheduling_ignored_during_execution: Many[PreferredSchedulingTerm] = ()
    """Nodes that match are preferred."""


class NodeAffinityArgs(PluginArgs):
    """Arguments of NodeAffinity."""

    added_affinity: AddedNodeAffinity | None = None
    """Holds for every pod of the profile besides the pod's own node affinity."""


class TopologySpreadConstraint(Document):
    """A default constraint of PodTopologySpread; its selector is deduced for each pod."""

    max_skew: Annotated[
        int, Field(ge=1, le=INT32_MAX, json_schema_extra=message("not in valid range (0, inf)"))
    ]
    """Largest difference between domains."""
    topology_key: str
    """Node label whose values are the domains."""
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    """Whether the constraint is hard or soft."""
    label_selector: dict[str, Any] | None = None
    """Must be absent: the selector is deduced for each pod."""
    min_domains: int | None = None
    """Fewest domains."""
    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    """Whether the pod's node affinity limits the domains."""
    node_taints_policy: Literal["Honor", "Ignore"] | None = None
    """Whether taints limit the domains."""
    match_label_keys: Many[str] = ()
    """Label keys of the pod that join the selector."""


class PodTopologySpreadArgs(PluginArgs):
    """Arguments of PodTopologySpread."""

    default_constraints: Many[TopologySpreadConstraint] = ()
    """For pods without constraints of their own."""
    defaulting_type: Literal["System", "List"] = "System"
    """System: hostname and zone, softly; List: defaultConstraints."""


class VolumeBindingArgs(PluginArgs):
    """Arguments of VolumeBinding."""

    bind_timeout_seconds: Annotated[
        int,
        Field(
            ge=0,
            json_schema_extra=message("invalid BindTimeoutSeconds, should not be a negative value"),
        ),
    ] = 600
    """Longest wait for volumes to be bound; default 600."""
    shape: Many[UtilizationShapePoint] | None = None
    """Scoring function; needs the feature gate StorageCapacityScoring, which is off."""


class DynamicResourcesArgs(PluginArgs):
    """Arguments of DynamicResources."""

    filter_timeout: Duration = 10 * SECOND
    """Longest search for devices in one attempt; 0: only its work is limited; default 10s."""
    binding_timeout: Duration = 600 * SECOND
    """Longest wait for a device's binding conditions; at least 1s, default 600s."""


ARGS: Final[dict[str, type[PluginArgs]]] = {
    "DefaultPreemption": DefaultPreemptionArgs,
    "DynamicResources": DynamicResourcesArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "NodeAffinity": NodeAffinityArgs,
    "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
    "NodeResourcesFit": NodeResourcesFitArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
}
"""The model of every plugin that has arguments."""
