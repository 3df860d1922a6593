"""Pod groups of scheduling.k8s.io, under kube-scheduler's names; each plugin needs a feature gate.

GangScheduling counts the pods of a group, TopologyPlacementGenerator makes placements by a label,
PodGroupPodsCount and NodeResourcesFit score them.
"""

from policy_sched.plugins.podgroups.gang_scheduling import GangScheduling as GangScheduling
from policy_sched.plugins.podgroups.resources_placement import (
    NodeResourcesPlacement as NodeResourcesPlacement,
)
from policy_sched.plugins.podgroups.topology_placement import (
    PodGroupPodsCount as PodGroupPodsCount,
    TopologyPlacementGenerator as TopologyPlacementGenerator,
)
