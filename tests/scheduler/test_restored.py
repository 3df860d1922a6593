"""A cluster that was restored from a backup: pods bound after the backup are pending again."""

from __future__ import annotations

from policy_sched.scheduler.event_handlers import pod_seen
from tests.scheduler.world import pod_of, scheduler_of


def test_a_pod_that_has_lost_its_node_is_scheduled_again() -> None:
    """The same pod (by UID) is not bound any more: its resources are free, and it is queued."""
    scheduler = scheduler_of()
    bound, unbound = pod_of("web", cpu="4", node_name="n0"), pod_of("web", cpu="4")
    pod_seen(scheduler, bound)
    events = pod_seen(scheduler, unbound)
    assert [event.label for event in events] == ["AssignedPodDelete", "UnschedulablePodAdd"]
    outcome = scheduler.schedule_one()
    assert outcome is not None
    assert outcome.node == "n0"
    assert scheduler.cache.check() == []


def test_the_room_of_another_schedulers_pod_is_free_again() -> None:
    """It is not scheduled here, but it holds no resources."""
    scheduler = scheduler_of()
    pod_seen(scheduler, pod_of("web", cpu="4", node_name="n0", scheduler_name="another"))
    pod_seen(scheduler, pod_of("web", cpu="4", scheduler_name="another"))
    assert scheduler.queue.get(pod_of("web").uid) is None
    assert scheduler.cache.pod(pod_of("web").uid) is None


def test_a_binding_that_the_watch_has_not_seen_yet_is_none_of_that() -> None:
    """Other changes of the pod arrive before it."""
    scheduler = scheduler_of()
    pod_seen(scheduler, pod_of("web", cpu="4"))
    outcome = scheduler.schedule_one()
    assert outcome is not None
    pod_seen(scheduler, pod_of("web", cpu="4", labels={"changed": "meanwhile"}))
    assert scheduler.cache.is_assumed(outcome.pod.uid)
