"""Shadow mode: decide beside another scheduler and compare, without writing.

The comparison is pure; the instance watches the cluster and writes a log.
"""

from policy_sched.instance.shadow.causes import LastChanges as LastChanges
from policy_sched.instance.shadow.choice import (
    ShadowDecision as ShadowDecision,
    choose as choose,
    decision_with_group as decision_with_group,
    described as described,
)
from policy_sched.instance.shadow.comparison import (
    Shadow as Shadow,
    judged as judged,
    unscored_result as unscored_result,
)
from policy_sched.instance.shadow.instance import (
    ShadowInstance as ShadowInstance,
    ShadowOptions as ShadowOptions,
    why as why,
)
from policy_sched.instance.shadow.log import (
    Agreement as Agreement,
    Comparison as Comparison,
    LoggedDecision as LoggedDecision,
    NodeSeen as NodeSeen,
    PodGone as PodGone,
    PodPlaced as PodPlaced,
    ShadowMetrics as ShadowMetrics,
    ShadowRecord as ShadowRecord,
    Start as Start,
)
