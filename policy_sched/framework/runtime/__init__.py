"""Pipelines and the runner that executes them.

A pipeline is a profile's hooks in order, frozen at policy time. The runner calls them, with
metrics and plugin attribution.
"""

from policy_sched.framework.runtime.contract import checked
from policy_sched.framework.runtime.pipeline import (
    ENTRY_POINT_GROUP,
    Hook,
    Implementations,
    Percentage,
    Pipeline,
    freeze,
    implementations,
    points_of,
)
from policy_sched.framework.runtime.runner import (
    Hooks,
    MetricsRecorder,
    Parts,
    PointResult,
    Runner,
    broken,
)

__all__ = [
    "ENTRY_POINT_GROUP",
    "Hook",
    "Hooks",
    "Implementations",
    "MetricsRecorder",
    "Parts",
    "Percentage",
    "Pipeline",
    "PointResult",
    "Runner",
    "broken",
    "checked",
    "freeze",
    "implementations",
    "points_of",
]
