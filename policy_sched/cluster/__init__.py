"""The scheduler cache: what is known of nodes and pods, as columns.

tables/ holds one row per node and per pod, counts/ the aggregates that are updated with them,
overlay/ views of hypothetical pods, debug/ consistency checks. The cache is the table: assume,
forget and events update rows in place.
"""

from policy_sched.cluster.cache import (
    Cache as Cache,
    PodState as PodState,
    PodStateError as PodStateError,
    TakenOff as TakenOff,
)
from policy_sched.cluster.group_index import (
    Group as Group,
    GroupIndex as GroupIndex,
    WatchedGroups as WatchedGroups,
)
from policy_sched.cluster.inputs import (
    DeclaredInput as DeclaredInput,
    InputChange as InputChange,
    InputProblem as InputProblem,
    Inputs as Inputs,
)
from policy_sched.cluster.listers import ApiObjects as ApiObjects
from policy_sched.cluster.pods_by_importance import Keys as Keys, PodOrder as PodOrder
