"""The process around a scheduler: event loop, informers, manifests, reload, end.

Effects happen here; decisions are made in `scheduler`.
"""

from policy_sched.instance.app.cluster_instance import Candidacy, ClusterInstance, LeaseLost, tell
from policy_sched.instance.app.embedded_instance import EmbeddedInstance, Sources
from policy_sched.instance.app.gc_tuning import freeze_loaded, tuned_gc
from policy_sched.instance.app.instance import Instance
from policy_sched.instance.app.run_loop import LONGEST_SLEEP, RunLoop
from policy_sched.instance.app.worker import in_event_loop

__all__ = [
    "LONGEST_SLEEP",
    "Candidacy",
    "ClusterInstance",
    "EmbeddedInstance",
    "Instance",
    "LeaseLost",
    "RunLoop",
    "Sources",
    "freeze_loaded",
    "in_event_loop",
    "tell",
    "tuned_gc",
]
