"""GangScheduling: what keeps pods out of the queue, what lets them in, and what holds them."""

from __future__ import annotations

from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.status import Code
from policy_sched.model.pod_info import PodInfo, QueueState
from policy_sched.plugins.pod_groups import MISSING, NAME, TIMEOUT, TOO_FEW
from policy_sched.scheduler import event_handlers
from policy_sched.testing import make_pod
from tests.scheduler.pod_groups import Groups, member, pod_group


class TestPreEnqueue:
    """A pod of a gang is gated until its PodGroup and enough pods are there."""

    def test_a_group_that_is_missing(self) -> None:
        """Its appearance lets the pod in."""
        run = Groups(a=1)
        run.add(member("x"))
        queued = run.scheduler.queue.get("default/x")
        assert queued is not None
        assert (queued.place, queued.gated_by) == (QueueState.GATED, NAME)
        assert run.scheduler.profiles["default-scheduler"].runner.run(
            "pre_enqueue", queued.info
        ).status.reasons == (MISSING.format("ring"),)
        event_handlers.object_seen(run.scheduler, None, pod_group("other", 1))
        assert run.place("x") is QueueState.GATED
        event_handlers.object_seen(run.scheduler, None, pod_group(count=1))
        run.go()
        assert run.bound == {"x": "a"}

    def test_the_pod_that_completes_a_gang_lets_all_of_it_in(self) -> None:
        """The one that completes the gang lets all of them in; strangers do not."""
        run = Groups(pod_group(count=2), pod_group("other", 1), a=9)
        run.add(member("x"), member("z", of="other"))
        run.go()
        assert set(run.bound) == {"z"}
        runner = run.scheduler.profiles["default-scheduler"].runner
        status = runner.run("pre_enqueue", member("x")).status
        assert (status.code, status.reasons) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (TOO_FEW,))
        run.add(member("y"))
        run.go()
        assert set(run.bound) == {"x", "y", "z"}

    def test_a_pod_with_a_scheduling_gate_counts_for_its_gang(self) -> None:
        """A pod with a scheduling gate is one of the gang, though it is not decided."""
        run = Groups(pod_group(count=2), a=9)
        run.add(member("x"), member("y", scheduling_gates=[{"name": "hold"}]))
        run.go()
        assert run.place("y") is QueueState.GATED
        assert run.place("x") is QueueState.BACKOFF

    def test_the_label_of_coscheduling_names_no_group_here(self) -> None:
        """Such a pod is none of this plugin's concern."""
        run = Groups(pod_group(count=2), a=9)
        labels = {"scheduling.x-k8s.io/pod-group": "ring"}
        run.add(PodInfo.of(make_pod(name="x", cpu="1", labels=labels)))
        run.go()
        assert run.bound == {"x": "a"}


class TestPermit:
    """While siblings are bound, pods with nodes wait for as many as the gang needs."""

    def test_a_group_that_is_gone(self) -> None:
        """The attempt fails with an error that names it."""
        run = Groups(a=1)
        pod = member("x")
        runner = run.scheduler.profiles["default-scheduler"].runner
        found = runner.run("permit", CycleState(), pod, "a").status
        assert found.code is Code.ERROR
        assert found.message() == 'failed to get podGroup default/ring: podgroup "ring" not found'

    def test_it_waits_five_minutes(self) -> None:
        """As upstream's does."""
        assert TIMEOUT == 300
