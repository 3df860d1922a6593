"""Preemption: the evicted victims, their events, and the nominations."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from policy_sched.client.memory import MemoryClient, RecordedEvent
from policy_sched.client.request import ObjectRequest, ObjectResponse
from policy_sched.errors import ClusterError
from policy_sched.framework.status import Code
from policy_sched.framework.waiting_pods import WaitingPod
from policy_sched.model.pod_info import PodInfo, QueuedPod
from policy_sched.scheduler.attempt import Attempt, Preempt
from policy_sched.scheduler.event_handlers import pod_gone
from policy_sched.scheduler.scheduler import Outcome, Scheduler
from policy_sched.scheduler.scheduling_cycle import decide
from policy_sched.scheduler.setup.factory import assemble, read
from policy_sched.testing import make_node, make_pod
from tests.scheduler.world import client_of

PLANS = read(None, ())[0]
FULL = "0/1 nodes are available: 1 Insufficient cpu."
CLAIMS = "no new claims to deallocate,"


def full_node(*pods: PodInfo, client: MemoryClient | None = None) -> Scheduler:
    """Return a scheduler with one node of 2 cpus and these pods on it."""
    scheduler = assemble(PLANS, client=client)
    scheduler.cache.add_node(make_node("n0", cpu="2"))
    for pod in pods:
        scheduler.cache.add_pod(pod)
    return scheduler


def low(name: str = "low", *, leaving: str | None = None, **spec: object) -> PodInfo:
    """Return a pod of 1 cpu on the node; ``leaving``: the reason of its DisruptionTarget."""
    given = {"cpu": "1", "node_name": "n0", "started": "2026-01-01T00:00:01Z", **spec}
    pod = make_pod(name, **given)  # type: ignore[arg-type]  # keywords of make_pod
    if leaving is not None:
        value = msgspec.to_builtins(pod)
        value["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        condition = {"type": "DisruptionTarget", "status": "True", "reason": leaving}
        value["status"]["conditions"] = [condition]
        pod = msgspec.convert(value, type(pod))
    return PodInfo.of(pod)


def high(**spec: object) -> PodInfo:
    return PodInfo.of(make_pod(**{"name": "high", "cpu": "2", "priority": 10, **spec}))  # type: ignore[arg-type]  # keywords of make_pod


def run(scheduler: Scheduler, pod: PodInfo) -> Outcome:
    assert scheduler.add_pod(pod) is None
    outcome = scheduler.schedule_one()
    assert outcome is not None
    return outcome


def test_victims_are_evicted_and_the_node_is_nominated() -> None:
    """Condition, deletion, event, nomination: as upstream; the victims still run."""
    scheduler = full_node(low("a"), low("b"))
    pod = high()
    outcome = run(scheduler, pod)
    assert outcome.message == FULL
    assert outcome.node == ""
    client = client_of(scheduler)
    text = "default-scheduler: preempting to accommodate a higher priority pod"
    assert client.disruptions == {"default/a": text, "default/b": text}
    assert sorted(client.deleted) == ["default/a", "default/b"]
    note = "Preempted by pod default/high on node n0"
    assert client.events == [
        RecordedEvent("default/a", "Normal", "Preempted", "Preempting", note),
        RecordedEvent("default/b", "Normal", "Preempted", "Preempting", note),
        RecordedEvent("default/high", "Warning", "FailedScheduling", "Scheduling", FULL),
    ]
    assert client.nominations == {"default/high": "n0"}
    assert client.conditions == {"default/high": ("Unschedulable", FULL)}
    assert scheduler.handle.nominator.node_of(pod.uid) == "n0"
    assert scheduler.cache.nodes.pod_total == 2
    assert scheduler.cache.check() == []


def test_a_decision_changes_nothing() -> None:
    """Deciding to preempt evicts no pod; executing the decision does."""
    scheduler = full_node(low())
    attempt = Attempt(QueuedPod(high()), scheduler.profiles["default-scheduler"])
    decision = decide(attempt, scheduler.handle.nodes, Random(0))
    assert isinstance(decision, Preempt)
    assert (decision.node, [v.name for v in decision.victims]) == ("n0", ["low"])
    assert decision.plugin == "DefaultPreemption"
    assert client_of(scheduler).events == []
    assert len(scheduler.handle.nominator) == 0


def test_the_pod_takes_its_room_when_the_victims_are_gone() -> None:
    """The second attempt binds, and the nomination ends with it."""
    victim, pod = low(), high()
    scheduler = full_node(victim)
    run(scheduler, pod)
    pod_gone(scheduler, victim)
    outcome = scheduler.schedule_one()
    assert outcome is not None
    assert outcome.node == "n0"
    assert len(scheduler.handle.nominator) == 0


def test_lower_nominations_to_the_node_are_taken_back() -> None:
    """Pods of lower priority may not fit any more; equal ones keep their nomination."""
    scheduler = full_node(low())
    others = [high(name=f"other-{p}", cpu="0", priority=p) for p in (5, 10)]
    for other in others:
        scheduler.handle.nominator.nominate(other, "n0")
        client_of(scheduler).nominations[other.uid] = "n0"
    run(scheduler, high())
    assert client_of(scheduler).nominations == {"default/other-10": "n0", "default/high": "n0"}
    assert scheduler.handle.nominator.node_of(others[0].uid) == ""


def test_a_waiting_victim_is_sent_back() -> None:
    """A pod that waits in Permit is not bound: it is rejected, not deleted."""
    scheduler = full_node()
    victim = low(node_name="")
    scheduler.cache.assume(victim, "n0")
    waiting = WaitingPod(victim, "n0", {"Gate": 60.0}, 0)
    scheduler.handle.waiting_pods.add(waiting)
    run(scheduler, high())
    status = waiting.status_at(0)
    assert status is not None
    assert status.code is Code.ERROR
    assert status.reasons == ("waiting on permit for pod: preempted",)
    assert status.plugin == "DefaultPreemption"
    client = client_of(scheduler)
    assert (client.deleted, client.disruptions) == ([], {})
    note = "Preempted by pod default/high on node n0 (in kube-scheduler memory)."
    assert client.events[0].note == note


def test_victims_on_their_way_out_are_left_alone() -> None:
    """No second deletion, and no event; the nomination is set."""
    scheduler = full_node(low(leaving="Eviction"))
    run(scheduler, high())
    client = client_of(scheduler)
    assert (client.deleted, client.disruptions) == ([], {})
    assert client.nominations == {"default/high": "n0"}


class TestEligibility:
    """Which pods may preempt."""

    def test_never_means_never(self) -> None:
        """The policy Never excludes preemption; an older nomination stays."""
        scheduler = full_node(low())
        pod = high(preemption_policy="Never", nominated_node_name="n0")
        outcome = run(scheduler, pod)
        assert (
            outcome.message
            == f"{FULL} {CLAIMS} preemption: not eligible due to preemptionPolicy=Never."
        )
        assert scheduler.handle.nominator.node_of(pod.uid) == "n0"

    def test_the_last_victims_are_waited_for(self) -> None:
        """While victims terminate on its nominated node, the pod evicts no others."""
        scheduler = full_node(low(leaving="PreemptionByScheduler"), low("other"))
        outcome = run(scheduler, high(nominated_node_name="n0"))
        tail = "preemption: not eligible due to a terminating pod on the nominated node."
        assert outcome.message == f"{FULL} {CLAIMS} {tail}"
        assert client_of(scheduler).deleted == []

    @pytest.mark.parametrize(
        "leaving",
        [
            low(leaving="EvictionByEvictionAPI"),
            low(leaving="PreemptionByScheduler", priority=10),
        ],
    )
    def test_others_that_leave_are_not_waited_for(self, leaving: PodInfo) -> None:
        """Pods that terminate for another reason, or that it could not preempt, do not count."""
        scheduler = full_node(leaving, low("other"))
        run(scheduler, high(nominated_node_name="n0", cpu="1"))
        assert client_of(scheduler).deleted == ["default/other"]

    def test_a_hopeless_nomination_does_not_hold_back(self) -> None:
        """If no eviction helps on the node any more, the pod tries others."""
        scheduler = full_node(low(leaving="PreemptionByScheduler"))
        scheduler.cache.update_node(make_node("n0", cpu="2", taints=["gone=:NoSchedule"]))
        scheduler.cache.add_node(make_node("n1", cpu="2"))
        scheduler.cache.add_pod(low("victim", node_name="n1"))
        run(scheduler, high(nominated_node_name="n0"))
        assert client_of(scheduler).nominations == {"default/high": "n1"}


def test_a_nomination_is_cleared_if_preemption_does_not_help() -> None:
    """The pod's nomination is cleared; its message has the reason."""
    scheduler = full_node(low(priority=10))
    client_of(scheduler).nominations["default/high"] = "n0"
    outcome = run(scheduler, high(nominated_node_name="n0"))
    assert outcome.message == (
        f"{FULL} {CLAIMS} preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod."
    )
    assert client_of(scheduler).nominations == {}
    assert len(scheduler.handle.nominator) == 0


def test_a_rejected_eviction_sets_no_nomination() -> None:
    """The cluster's error is in the message, and the pod is not nominated."""

    class Refusing(MemoryClient):
        def send(self, request: ObjectRequest, done: ObjectResponse | None = None) -> None:
            if request.verb == "delete":
                raise ClusterError(f"pods {request.name} is forbidden")
            super().send(request, done)

    scheduler = full_node(low(), client=Refusing())
    outcome = run(scheduler, high())
    assert outcome.message == f"{FULL} preemption: pods low is forbidden"
    assert len(scheduler.handle.nominator) == 0
