"""The process around a scheduler: event loop, informers, manifests, reload, shutdown.

Effects happen here; decisions are made in `scheduler`. `EmbeddedInstance` is imported when it is
first used, so that a scheduler on a real cluster does not load the embedded one.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from policy_sched.instance.app.cluster_instance import (
    Candidacy as Candidacy,
    ClusterInstance as ClusterInstance,
    LeaseLost as LeaseLost,
    listed as listed,
)
from policy_sched.instance.app.gc_tuning import (
    GcPauses as GcPauses,
    freeze_loaded as freeze_loaded,
    tuned_gc as tuned_gc,
)
from policy_sched.instance.app.instance import (
    POLICY as POLICY,
    ROLLOUT as ROLLOUT,
    SHARE as SHARE,
    Instance as Instance,
    Sources as Sources,
)
from policy_sched.instance.app.manifest_sync import manifests_below as manifests_below
from policy_sched.instance.app.policy_objects import (
    CustomRecord as CustomRecord,
    policy_object as policy_object,
)
from policy_sched.instance.app.run_loop import LONGEST_SLEEP as LONGEST_SLEEP, RunLoop as RunLoop
from policy_sched.instance.app.worker import Worker as Worker, in_event_loop as in_event_loop

if TYPE_CHECKING:
    from policy_sched.instance.app.audit import (
        DIFFERENT as DIFFERENT,
        SKIPPED as SKIPPED,
        count_decision as count_decision,
        count_verdict as count_verdict,
        judged as judged,
    )
    from policy_sched.instance.app.embedded_instance import EmbeddedInstance as EmbeddedInstance
    from policy_sched.instance.app.rollout_storage import require_state as require_state


_LATER: Final = {
    "EmbeddedInstance": "embedded_instance",
    "require_state": "rollout_storage",
    **dict.fromkeys(("DIFFERENT", "SKIPPED", "count_decision", "count_verdict", "judged"), "audit"),
}
"""Names and their modules."""


def __getattr__(name: str) -> Any:
    """Import what a scheduler on a real cluster mostly does without."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
