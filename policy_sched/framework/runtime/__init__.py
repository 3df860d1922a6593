"""Pipelines and the runner that executes them.

A pipeline is a profile's hooks in order, frozen at policy time. The runner calls them, with
metrics and plugin attribution.
"""

from policy_sched.framework.runtime.instrumented_runner import InstrumentedRunner, MetricsRecorder
from policy_sched.framework.runtime.pipeline import (
    ENTRY_POINT_GROUP,
    Hook,
    Implementations,
    Percentage,
    Pipeline,
    freeze_implementations,
    implementations,
    points_of,
)
from policy_sched.framework.runtime.runner import Parts, Runner, broken

__all__ = [
    "ENTRY_POINT_GROUP",
    "Hook",
    "Implementations",
    "InstrumentedRunner",
    "MetricsRecorder",
    "Parts",
    "Percentage",
    "Pipeline",
    "Runner",
    "broken",
    "freeze_implementations",
    "implementations",
    "points_of",
]
