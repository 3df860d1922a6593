"""DefaultPreemption, as far as it is built: it explains why no pod can be evicted.

When no node that could be helped runs a pod of lower priority, kube-scheduler's answer is known
without a search, and it is given here in its words. Otherwise victims would have to be chosen,
which this version does not do: the pod is refused with a message that says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.diagnosis import Diagnosis
from policy_sched.framework.handle import Handle
from policy_sched.framework.hookspecs import hookimpl
from policy_sched.framework.results import PostFilterResult
from policy_sched.framework.status import Code, Status
from policy_sched.model.pod_info import PodInfo

NAME: Final = "DefaultPreemption"
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NO_VICTIMS: Final = "No preemption victims found for incoming pod"
NEVER: Final = "not eligible due to preemptionPolicy=Never."
NOT_BUILT: Final = (
    "this version does not preempt yet, and pods of lower priority run on "
    "nodes that would have to be searched for victims"
)


class DefaultPreemption:
    """Answers PostFilter where no search for victims is needed."""

    def __init__(self, args: Mapping[str, object], handle: Handle) -> None:  # noqa: ARG002 - every plugin is made alike
        self._handle = handle

    @hookimpl
    def post_filter(
        self,
        state: CycleState,  # noqa: ARG002 - the hook's arguments
        pod: PodInfo,
        diagnosis: Diagnosis,
    ) -> PostFilterResult:
        """Say why preemption does not help, or that it would have to be tried."""
        if pod.preemption_policy == "Never":
            return _unschedulable(f"preemption: {NEVER}")
        helped = [
            row
            for row, status in diagnosis.statuses.items()
            if status.code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        ]
        pods_on = self._handle.nodes.pods_on
        for row in helped:
            if any(other.priority < pod.priority for other in pods_on(row).values()):
                return PostFilterResult(Status(Code.ERROR, (f"preemption: {NOT_BUILT}",)))
        counts = Counter({NO_VICTIMS: len(helped), NOT_HELPFUL: diagnosis.node_count - len(helped)})
        parts = sorted(f"{count} {reason}" for reason, count in counts.items() if count)
        text = f"0/{diagnosis.node_count} nodes are available: {', '.join(parts)}."
        return _unschedulable(f"preemption: {text}")


def _unschedulable(reason: str) -> PostFilterResult:
    return PostFilterResult(Status(Code.UNSCHEDULABLE, (reason,)))
