"""Hot reload: watching files, compiling in a child process, swapping the policy set.

A reload is all or nothing; on any problem the previous set stays in force. What only a running
process needs (processes, event loops) is imported when it is first named.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from policy_sched.profiles.reload.inputs import (
    MOST_ROLLOUTS as MOST_ROLLOUTS,
    Compilation as Compilation,
    CompiledFiles as CompiledFiles,
    Config as Config,
    PolicyFiles as PolicyFiles,
    RolloutText as RolloutText,
    checked_rollout as checked_rollout,
    compiled_set as compiled_set,
    first_compilation as first_compilation,
    given_by as given_by,
    is_place as is_place,
    judged_alone as judged_alone,
    read_policy_set as read_policy_set,
    text_of as text_of,
    warmed as warmed,
)
from policy_sched.profiles.reload.store import (
    ActivePolicies as ActivePolicies,
    PolicyStore as PolicyStore,
    Reload as Reload,
    ReloadResult as ReloadResult,
    StoreStatus as StoreStatus,
)

if TYPE_CHECKING:
    from policy_sched.profiles.reload.limited_process import (
        CompilerProcess as CompilerProcess,
        LimitedProcess as LimitedProcess,
        NoResultError as NoResultError,
        ProcessLimits as ProcessLimits,
        end_with_parent as end_with_parent,
    )
    from policy_sched.profiles.reload.watch import (
        Watched as Watched,
        changes as changes,
        frozen_mounts as frozen_mounts,
    )


_LATER: Final = {
    "CompilerProcess": "limited_process",
    "LimitedProcess": "limited_process",
    "ProcessLimits": "limited_process",
    "NoResultError": "limited_process",
    "Watched": "watch",
    "changes": "watch",
    "end_with_parent": "limited_process",
    "frozen_mounts": "watch",
}
"""Names and their modules."""


def __getattr__(name: str) -> Any:
    """Import what only a running process needs."""
    module = _LATER.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
