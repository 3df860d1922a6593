"""Shadow mode: decide beside another scheduler and compare, without writing.

The comparison is pure; the instance watches the cluster and writes a log.
"""

from policy_sched.instance.shadow.choice import choose as choose
from policy_sched.instance.shadow.instance import (
    ShadowInstance as ShadowInstance,
    ShadowOptions as ShadowOptions,
)
from policy_sched.instance.shadow.log import (
    Agreement as Agreement,
    Comparison as Comparison,
    NodeSeen as NodeSeen,
    PodGone as PodGone,
    PodPlaced as PodPlaced,
    ShadowRecord as ShadowRecord,
    Start as Start,
)
