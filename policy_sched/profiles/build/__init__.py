"""A resolved plan becomes pipelines.

Policies are compiled, plugins made, hooks registered with pluggy and frozen in profile order.
"""

from policy_sched.profiles.build.compile import compiled as compiled
from policy_sched.profiles.build.pipeline import (
    CompiledPlan as CompiledPlan,
    PluginCache as PluginCache,
    build_pipeline as build_pipeline,
    compile_profiles as compile_profiles,
    declared_inputs as declared_inputs,
    declared_kinds as declared_kinds,
    decoded_kinds as decoded_kinds,
    foreign_problems as foreign_problems,
    kinds_read as kinds_read,
    published_inputs as published_inputs,
    raise_errors as raise_errors,
    reads_pod_groups as reads_pod_groups,
    structs_read as structs_read,
)
from policy_sched.profiles.build.plan_diff import (
    PlanDiff as PlanDiff,
    diff_plans as diff_plans,
    policy_names as policy_names,
    restarts_between as restarts_between,
)
