"""Shadow mode: decide beside another scheduler and compare, without writing.

The comparison is pure; the instance watches the cluster and writes a log.
"""

from policy_sched.instance.shadow.choice import Choice, choose
from policy_sched.instance.shadow.instance import ShadowInstance, ShadowOptions
from policy_sched.instance.shadow.log import (
    Comparison,
    NodeSeen,
    PodGone,
    PodPlaced,
    Result,
    ShadowRecord,
    Start,
)

__all__ = [
    "Choice",
    "Comparison",
    "NodeSeen",
    "PodGone",
    "PodPlaced",
    "Result",
    "ShadowInstance",
    "ShadowOptions",
    "ShadowRecord",
    "Start",
    "choose",
]
