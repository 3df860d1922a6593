"""Leader election with a Lease.

The state machine is pure; lease_lock reads and writes the Lease object.
"""

from policy_sched.client.kube.leaderelection.lease_lock import Elector as Elector, Lease as Lease
from policy_sched.client.kube.leaderelection.state_machine import (
    Election as Election,
    ElectionSettings as ElectionSettings,
)
