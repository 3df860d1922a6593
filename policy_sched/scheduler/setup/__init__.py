"""Assembling a scheduler, and applying a reload to it.

The only place where profiles, cache, queue and client meet.
"""

from policy_sched.scheduler.setup.cluster import ENDED, load_cluster
from policy_sched.scheduler.setup.factory import (
    EPOCH,
    assemble,
    assemble_with_assembly,
    build,
    read,
    read_policies,
)
from policy_sched.scheduler.setup.profiles import Assembly
from policy_sched.scheduler.setup.reload import Reloader

__all__ = [
    "ENDED",
    "EPOCH",
    "Assembly",
    "Reloader",
    "assemble",
    "assemble_with_assembly",
    "build",
    "load_cluster",
    "read",
    "read_policies",
]
