"""VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits.

They find the nodes that reach a pod's volumes and can attach them, and bind claims.
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
