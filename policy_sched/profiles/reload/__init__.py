"""Hot reload: watching files, compiling in a child process, swapping the policy set.

A reload is all or nothing; on any problem the previous set stays in force.
"""

from policy_sched.profiles.reload.compiler_process import CompilerProcess
from policy_sched.profiles.reload.inputs import (
    Compilation,
    Config,
    PolicyFiles,
    PolicySet,
    read_policy_set,
)
from policy_sched.profiles.reload.store import PolicySet as StorePolicySet
from policy_sched.profiles.reload.store import PolicyStore, Reload, Result, StoreStatus
from policy_sched.profiles.reload.watch import Watched, changes, frozen_mounts

__all__ = [
    "Compilation",
    "CompilerProcess",
    "Config",
    "PolicyFiles",
    "PolicySet",
    "PolicyStore",
    "Reload",
    "Result",
    "StorePolicySet",
    "StoreStatus",
    "Watched",
    "changes",
    "frozen_mounts",
    "read_policy_set",
]
