"""VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits.

They find the nodes that reach a pod's volumes and can attach them, and bind claims.
"""

from policy_sched.plugins.volumes.binding import VolumeBinding as VolumeBinding
from policy_sched.plugins.volumes.limits import NodeVolumeLimits as NodeVolumeLimits
from policy_sched.plugins.volumes.listers import SELECTED_NODE as SELECTED_NODE
from policy_sched.plugins.volumes.restrictions import VolumeRestrictions as VolumeRestrictions
from policy_sched.plugins.volumes.zone import VolumeZone as VolumeZone
