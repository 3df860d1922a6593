"""Hot reload: watching files, compiling in a child process, swapping the policy set.

A reload is all or nothing; on any problem the previous set stays in force.
"""

from policy_sched.profiles.reload.compiler_process import CompilerProcess
from policy_sched.profiles.reload.inputs import (
    Compilation,
    Config,
    PolicyFiles,
    PolicySet,
    compiled_set,
    read_policy_set,
)
from policy_sched.profiles.reload.limited_process import LimitedProcess, Limits, NoAnswerError
from policy_sched.profiles.reload.store import PolicySet as StorePolicySet
from policy_sched.profiles.reload.store import PolicyStore, Reload, Result, StoreStatus
from policy_sched.profiles.reload.watch import Watched, changes, frozen_mounts

__all__ = [
    "Compilation",
    "CompilerProcess",
    "Config",
    "LimitedProcess",
    "Limits",
    "NoAnswerError",
    "PolicyFiles",
    "PolicySet",
    "PolicyStore",
    "Reload",
    "Result",
    "StorePolicySet",
    "StoreStatus",
    "Watched",
    "changes",
    "compiled_set",
    "frozen_mounts",
    "read_policy_set",
]
