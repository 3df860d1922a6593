"""Pipelines and the runner that executes them.

A pipeline is a profile's hooks in order, frozen at policy time. The runner calls them, with
metrics and plugin attribution.
"""

from policy_sched.framework.runtime.contract import checked as checked, told as told
from policy_sched.framework.runtime.pipeline import (
    ENTRY_POINT_GROUP as ENTRY_POINT_GROUP,
    Hook as Hook,
    Implementations as Implementations,
    Percentage as Percentage,
    Pipeline as Pipeline,
    freeze as freeze,
    implementations as implementations,
    points_of as points_of,
)
from policy_sched.framework.runtime.runner import (
    Hooks as Hooks,
    MetricsRecorder as MetricsRecorder,
    Parts as Parts,
    PointResult as PointResult,
    Runner as Runner,
    broken as broken,
)
