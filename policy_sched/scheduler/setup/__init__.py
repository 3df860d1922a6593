"""Assembling a scheduler, and applying a reload to it.

The only place where profiles, cache, queue and client meet.
"""

from policy_sched.scheduler.setup.factory import (
    ENDED as ENDED,
    EPOCH as EPOCH,
    assemble as assemble,
    assemble_with_assembly as assemble_with_assembly,
    build as build,
    load_cluster as load_cluster,
    read as read,
    read_policies as read_policies,
)
from policy_sched.scheduler.setup.profiles import Assembly as Assembly
from policy_sched.scheduler.setup.reload import Reloader as Reloader
