"""Pods that are deleted while an attempt holds a node for them: the node is free at once."""

from __future__ import annotations

from msgspec.structs import replace

from policy_sched.framework import status
from policy_sched.framework.hookspecs import hookimpl
from policy_sched.framework.results import PermitResult
from policy_sched.model.pod_info import PodInfo, QueueState
from policy_sched.scheduler.event_handlers import pod_gone, pod_seen
from policy_sched.scheduler.scheduler import Scheduler
from policy_sched.testing import make_pod
from tests.scheduler import world

HOLD = PermitResult(status.WAIT, 60.0)
NO = status.Status(status.Code.UNSCHEDULABLE, ("no",))


def leaving() -> PodInfo:
    """Return pod p, deleted and kept by a finalizer."""
    pod = make_pod("p", cpu="3")
    meta = replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return PodInfo.of(replace(pod, metadata=meta))


class Choosy:
    """Always rejects q."""

    @hookimpl
    def permit(self, pod: PodInfo) -> PermitResult:
        return PermitResult(NO) if pod.name == "q" else PermitResult()


def place_of(scheduler: Scheduler, name: str) -> QueueState:
    queued = scheduler.queue.get(f"default/{name}")
    return QueueState.OUT if queued is None else queued.place


def sent() -> Scheduler:
    """Return a scheduler with a binding of p in flight, while q waits for its resources."""
    scheduler = world.scheduler_of(client=world.SlowClient())
    assert world.run(scheduler, cpu="3").waiting
    assert world.run(scheduler, name="q", cpu="3").status.rejected
    assert place_of(scheduler, "q") is QueueState.UNSCHEDULABLE
    return scheduler


def refuse(scheduler: Scheduler, message: str) -> None:
    """Fail the binding that is in flight."""
    (binding,) = scheduler._bindings
    assert isinstance(binding.wait, status.PendingStatus)
    binding.wait.finish(status.Status(status.Code.ERROR, (message,)))


def test_a_pod_that_is_gone_holds_no_node_until_the_cluster_answers() -> None:
    """Others may use its resources at once; the response, not found, changes nothing."""
    scheduler = sent()
    pod_gone(scheduler, world.pod_of(cpu="3"))
    assert scheduler.cache.nodes.pod_total == 0
    assert place_of(scheduler, "q") is not QueueState.UNSCHEDULABLE
    assert place_of(scheduler, "p") is QueueState.BINDING
    refuse(scheduler, 'pods "p" not found')
    (outcome,) = scheduler.run_due()
    assert outcome.message == 'running Bind plugin "DefaultBinder": pods "p" not found'
    assert place_of(scheduler, "p") is QueueState.OUT
    assert "default/p" not in world.client_of(scheduler).conditions
    scheduler.queue.delete("default/q")
    world.assert_nothing_left(scheduler)


def test_a_pod_on_its_way_out_holds_no_node_either() -> None:
    """The cluster rejects its binding; it is not retried after the response."""
    scheduler = sent()
    pod_seen(scheduler, leaving())
    assert scheduler.cache.nodes.pod_total == 0
    assert place_of(scheduler, "q") is not QueueState.UNSCHEDULABLE
    pod_seen(scheduler, leaving())
    refuse(scheduler, "it is being deleted")
    scheduler.run_due()
    assert place_of(scheduler, "p") is QueueState.BACKOFF
    scheduler.queue.activate(["default/p"])
    scheduler.queue.delete("default/q")
    passed_over = scheduler.schedule_one()
    assert passed_over is not None
    assert passed_over.message == "skip schedule deleting pod: default/p"
    world.assert_nothing_left(scheduler)


def test_a_pod_on_its_way_out_does_not_wait_for_permission() -> None:
    """Its attempt ends at once, and releases what it holds."""
    scheduler = world.scheduler_of(world.Recorder("a", [], permit=HOLD))
    assert world.run(scheduler, cpu="3").waiting
    pod_seen(scheduler, leaving())
    (outcome,) = scheduler.run_due()
    assert outcome.message == "0/1 nodes are available: 1 removed."
    world.assert_nothing_left(scheduler)


def test_a_pod_that_is_permitted_already_holds_nothing_once_it_is_gone() -> None:
    """A Permit before the deletion does not keep its node."""
    scheduler = world.scheduler_of(world.Recorder("a", [], permit=HOLD), client=world.SlowClient())
    assert world.run(scheduler, cpu="3").waiting
    (waiting,) = scheduler.handle.waiting_pods
    waiting.allow("x0")
    pod_gone(scheduler, world.pod_of(cpu="3"))
    assert scheduler.cache.nodes.pod_total == 0
    scheduler.run_due()
    refuse(scheduler, 'pods "p" not found')
    scheduler.run_due()
    world.assert_nothing_left(scheduler)


def test_resources_that_plugins_release_at_the_end_are_an_event() -> None:
    """The node is free at once, but its reservations only when the attempt ends."""
    scheduler = world.scheduler_of(Choosy(), client=world.SlowClient())
    assert world.run(scheduler).waiting
    pod_gone(scheduler, world.pod_of())
    assert world.run(scheduler, name="q").status.rejected
    assert place_of(scheduler, "q") is QueueState.UNSCHEDULABLE
    refuse(scheduler, 'pods "p" not found')
    scheduler.run_due()
    assert place_of(scheduler, "q") is QueueState.BACKOFF


def test_a_pod_bound_elsewhere_causes_no_event_at_its_deletion() -> None:
    """It still holds its node; only the attempt has failed."""
    scheduler = world.scheduler_of(Choosy(), client=world.SlowClient())
    assert world.run(scheduler).waiting
    pod_seen(scheduler, world.pod_of(node_name="n0"))
    assert world.run(scheduler, name="q").status.rejected
    refuse(scheduler, "it is assigned already")
    scheduler.run_due()
    assert place_of(scheduler, "q") is QueueState.UNSCHEDULABLE
    assert scheduler.cache.node_of("default/p") == "n0"
