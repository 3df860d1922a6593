"""Configuration, Policy and PolicyTest as pydantic models, and their JSON Schemas.

Field docstrings are the documentation of fields.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from policy_sched.profiles.models import (
    kube_scheduler_configuration as kube_scheduler_configuration,
)
from policy_sched.profiles.models.defaults import (
    CONFIGURATION_FILE as CONFIGURATION_FILE,
    DEFAULT_PLUGINS as DEFAULT_PLUGINS,
    DEFAULT_SCHEDULER as DEFAULT_SCHEDULER,
    EXPERIMENT_FILE as EXPERIMENT_FILE,
    FEATURE_GATES as FEATURE_GATES,
    GENERIC_WORKLOAD as GENERIC_WORKLOAD,
    MULTI_POINT as MULTI_POINT,
    PLUGIN_GATES as PLUGIN_GATES,
    PLUGIN_POINTS as PLUGIN_POINTS,
    PLUGIN_READS as PLUGIN_READS,
    POINT_TYPES as POINT_TYPES,
    POINTS as POINTS,
    POLICY_FILE as POLICY_FILE,
    PROOF_FILE as PROOF_FILE,
    REMOVED_PLUGINS as REMOVED_PLUGINS,
    ROLLOUT_FILE as ROLLOUT_FILE,
    TEST_FILE as TEST_FILE,
    default_plugins as default_plugins,
    default_policies as default_policies,
    docs_directory as docs_directory,
    enabled_gates as enabled_gates,
    gate_faults as gate_faults,
    gates_of as gates_of,
    policies_directory as policies_directory,
    schemas_directory as schemas_directory,
    settled_gates as settled_gates,
)
from policy_sched.profiles.models.kube_scheduler_configuration import (
    API_VERSION as API_VERSION,
    KIND as KIND,
    SECOND as SECOND,
    Extender as Extender,
    ExtenderPodSelector as ExtenderPodSelector,
    ExtenderTLSConfig as ExtenderTLSConfig,
    KubeSchedulerConfiguration as KubeSchedulerConfiguration,
    KubeSchedulerProfile as KubeSchedulerProfile,
    LeaderElection as LeaderElection,
    Plugin as Plugin,
    Plugins as Plugins,
    PluginSet as PluginSet,
)
from policy_sched.profiles.models.plugin_args import (
    ARGS as ARGS,
    AddedNodeAffinity as AddedNodeAffinity,
    DefaultPreemptionArgs as DefaultPreemptionArgs,
    DynamicResourcesArgs as DynamicResourcesArgs,
    NodeAffinityArgs as NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs as NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs as NodeResourcesFitArgs,
    NodeSelectorTerm as NodeSelectorTerm,
    PluginArgs as PluginArgs,
    PodTopologySpreadArgs as PodTopologySpreadArgs,
    ScoringStrategy as ScoringStrategy,
    UtilizationShapePoint as UtilizationShapePoint,
    VolumeBindingArgs as VolumeBindingArgs,
)
from policy_sched.profiles.models.policy import (
    AGGREGATE_KINDS as AGGREGATE_KINDS,
    EXPERIMENT_KIND as EXPERIMENT_KIND,
    GROUP as GROUP,
    POLICY_API_VERSION as POLICY_API_VERSION,
    POLICY_KIND as POLICY_KIND,
    PROOF_KIND as PROOF_KIND,
    ROLLOUT_KIND as ROLLOUT_KIND,
    TEST_KINDS as TEST_KINDS,
    Aggregate as Aggregate,
    Devices as Devices,
    Evict as Evict,
    FilterRule as FilterRule,
    Input as Input,
    NormalizeExpression as NormalizeExpression,
    Permit as Permit,
    Policy as Policy,
    PolicySpec as PolicySpec,
    Preemption as Preemption,
    PreEnqueueRule as PreEnqueueRule,
    PreFilterRuleEntry as PreFilterRuleEntry,
    Quota as Quota,
    QuotaObjects as QuotaObjects,
    VetoRule as VetoRule,
)
from policy_sched.profiles.models.types import (
    BAD_VALUE as BAD_VALUE,
    DEFAULT_NOW as DEFAULT_NOW,
    DUPLICATE as DUPLICATE,
    DURATION_PATTERN as DURATION_PATTERN,
    MISSING_KEY as MISSING_KEY,
    NOT_BUILT as NOT_BUILT,
    TOO_LARGE as TOO_LARGE,
    UNKNOWN_KEY as UNKNOWN_KEY,
    UNKNOWN_PLUGIN as UNKNOWN_PLUGIN,
    UNLIKE_QUEUE_SORT as UNLIKE_QUEUE_SORT,
    WRONG_TYPE as WRONG_TYPE,
    Document as Document,
    ModelProblem as ModelProblem,
    Path as Path,
    did_you_mean as did_you_mean,
    duplicate as duplicate,
    forbidden as forbidden,
    invalid as invalid,
    is_address as is_address,
    moment_of as moment_of,
    path_text as path_text,
    problem_at as problem_at,
    required as required,
    unsupported as unsupported,
    without_followers as without_followers,
)

if TYPE_CHECKING:
    from policy_sched.profiles.models.custom_resources import (
        CUSTOM_RESOURCES as CUSTOM_RESOURCES,
        CustomResource as CustomResource,
        definition_of as definition_of,
    )
    from policy_sched.profiles.models.experiment import (
        Axis as Axis,
        CountedDevices as CountedDevices,
        Experiment as Experiment,
        ExperimentSpec as ExperimentSpec,
        Figure as Figure,
        Measure as Measure,
        SearchAxis as SearchAxis,
        Variant as Variant,
    )
    from policy_sched.profiles.models.policy_proof import (
        CLAIM_FORMS as CLAIM_FORMS,
        PolicyProof as PolicyProof,
    )
    from policy_sched.profiles.models.policy_test import (
        Amount as Amount,
        ClaimEntry as ClaimEntry,
        DeviceEntry as DeviceEntry,
        Expectation as Expectation,
        GroupEntry as GroupEntry,
        Limits as Limits,
        Manifest as Manifest,
        NamespaceEntry as NamespaceEntry,
        NodeEntry as NodeEntry,
        Pattern as Pattern,
        PodEntry as PodEntry,
        PolicyTest as PolicyTest,
        QuotaEntry as QuotaEntry,
        ScoreEntry as ScoreEntry,
        StatusEntry as StatusEntry,
        full_name as full_name,
        keys_of as keys_of,
    )
    from policy_sched.profiles.models.rollout import (
        OF_AUDITS as OF_AUDITS,
        OF_CANARIES as OF_CANARIES,
        AbortCondition as AbortCondition,
        AuditStep as AuditStep,
        CanaryStep as CanaryStep,
        Rollout as Rollout,
        RolloutStep as RolloutStep,
    )
    from policy_sched.profiles.models.schema import schemas as schemas


_LATER: Final = {
    "custom_resources": ["CUSTOM_RESOURCES", "CustomResource", "definition_of"],
    "experiment": [
        "Axis",
        "CountedDevices",
        "Experiment",
        "ExperimentSpec",
        "Figure",
        "Measure",
        "SearchAxis",
        "Variant",
    ],
    "policy_proof": [
        "CLAIM_FORMS",
        "PolicyProof",
    ],
    "policy_test": [
        "ClaimEntry",
        "Amount",
        "DeviceEntry",
        "Expectation",
        "GroupEntry",
        "Limits",
        "NamespaceEntry",
        "Manifest",
        "NodeEntry",
        "Pattern",
        "PodEntry",
        "QuotaEntry",
        "PolicyTest",
        "ScoreEntry",
        "StatusEntry",
        "full_name",
        "keys_of",
    ],
    "rollout": [
        "OF_AUDITS",
        "OF_CANARIES",
        "AbortCondition",
        "AuditStep",
        "CanaryStep",
        "Rollout",
        "RolloutStep",
    ],
    "schema": ["schemas"],
}
"""Modules of which most commands need nothing: they are imported when a name is first used."""


def __getattr__(name: str) -> object:
    for module, names in _LATER.items():
        if name in names:
            value: object = getattr(import_module(f"{__name__}.{module}"), name)
            return globals().setdefault(name, value)  # it is not asked for again
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
