"""What is written about a pod that was not scheduled."""

from __future__ import annotations

import pytest

from policy_sched.framework.status import Code, Status
from policy_sched.model.pod import PodCondition
from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler.failure import handle_scheduling_failure
from policy_sched.testing import make_pod
from tests.scheduler import world

WRITTEN = PodCondition("PodScheduled", "False", "Unschedulable", "no", observed_generation=2)
STATUS = Status(Code.UNSCHEDULABLE, ("no",))


def is_written(condition: PodCondition, message: str, nominated: str | None) -> bool:
    """Return whether a failure of a pod with a condition is written; it is nominated to n1."""
    pod = make_pod("web")
    pod.metadata.generation = 2
    pod.status.conditions = (condition,)
    pod.status.nominated_node_name = "n1"
    scheduler = world.scheduler_of()
    handle_scheduling_failure(PodInfo.of(pod), STATUS, message, scheduler.handle, nominated)
    client = world.client_of(scheduler)
    assert [event.note for event in client.events] == [message]
    return bool(client.conditions)


@pytest.mark.parametrize("nominated", [None, "n1"])
def test_a_condition_that_is_written_already_is_not_written_again(nominated: str | None) -> None:
    """As upstream's updatePod.

    A pod that waits for its victims is tried at each event; each try sent a patch, so that its own
    binding waited behind those for up to 24 seconds where the client is limited to 50 requests/s.
    """
    assert not is_written(WRITTEN, "no", nominated)


@pytest.mark.parametrize(
    ("condition", "message", "nominated"),
    [
        (WRITTEN, "other", None),
        (WRITTEN, "no", ""),
        (WRITTEN, "no", "n2"),
        (PodCondition("PodScheduled", "False", "SchedulerError", "no", None, 2), "no", None),
        (PodCondition("PodScheduled", "True", "Unschedulable", "no", None, 2), "no", None),
        (PodCondition("PodScheduled", "False", "Unschedulable", "no", None, 1), "no", None),
        (PodCondition("Ready", "False", "Unschedulable", "no", None, 2), "no", None),
    ],
)
def test_a_change_of_condition_or_nomination_is_written(
    condition: PodCondition, message: str, nominated: str | None
) -> None:
    """State, reason, message, the generation that was seen, and the node."""
    assert is_written(condition, message, nominated)
