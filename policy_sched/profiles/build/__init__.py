"""A resolved plan becomes pipelines.

Policies are compiled, plugins made, hooks registered with pluggy and frozen in profile order.
"""

from policy_sched.profiles.build.compile import (
    compiled,
)
from policy_sched.profiles.build.kinds_read import kinds_read, reads_pod_groups
from policy_sched.profiles.build.pipeline import (
    CompiledPlan,
    PluginCache,
    build_pipeline,
    compile_profiles,
    foreign_problems,
    raise_errors,
)
from policy_sched.profiles.build.plan_diff import (
    PlanDiff,
    diff_plans,
    policy_names,
    restarts_between,
)

__all__ = [
    "CompiledPlan",
    "PlanDiff",
    "PluginCache",
    "build_pipeline",
    "compile_profiles",
    "compiled",
    "diff_plans",
    "foreign_problems",
    "kinds_read",
    "policy_names",
    "raise_errors",
    "reads_pod_groups",
    "restarts_between",
]
