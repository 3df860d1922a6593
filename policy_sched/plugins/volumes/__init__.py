"""VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits.

Which nodes reach a pod's volumes, which can take them, and how claims are bound.
"""

from policy_sched.plugins.volumes.binding import VolumeBinding
from policy_sched.plugins.volumes.limits import NodeVolumeLimits
from policy_sched.plugins.volumes.listers import SELECTED_NODE
from policy_sched.plugins.volumes.restrictions import VolumeRestrictions
from policy_sched.plugins.volumes.zone import VolumeZone

__all__ = [
    "SELECTED_NODE",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
]
