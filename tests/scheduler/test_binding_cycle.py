"""From a chosen node to a bound pod: a failure leaves nothing behind."""

from __future__ import annotations

import pytest

from policy_sched.client.memory import MemoryClient, nomination_of
from policy_sched.client.protocol import Done
from policy_sched.client.request import ObjectRequest, ObjectResponse
from policy_sched.errors import ClusterError, PluginError
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.extension_points import POINTS
from policy_sched.framework.hookspecs import hookimpl
from policy_sched.framework.results import PermitResult, PodsToActivate
from policy_sched.framework.status import SKIP, SUCCESS, WAIT, Code, PendingStatus, Status
from policy_sched.model.pod_info import PodInfo, QueueState
from policy_sched.scheduler.event_handlers import pod_gone, pod_seen
from policy_sched.scheduler.scheduler import Scheduler
from policy_sched.scheduler.setup.factory import EPOCH
from policy_sched.testing import SECOND, FakeClock
from tests.scheduler import world

NO = Status(Code.UNSCHEDULABLE, ("no",))
HOLD = PermitResult(WAIT, 60.0)
LATE = "rejected due to timeout after waiting 1m0s at plugin x0"


def place_of(scheduler: Scheduler, name: str = "p") -> QueueState:
    queued = scheduler.queue.get(f"default/{name}")
    return QueueState.OUT if queued is None else queued.place


class TestFailure:
    """Reserve, Permit, PreBind and Bind."""

    @pytest.mark.parametrize("point", ["reserve", "permit", "pre_bind"])
    @pytest.mark.parametrize("answer", [NO, RuntimeError("boom"), Status(Code.ERROR, ("boom",))])
    def test_it_is_undone_in_reverse(self, point: str, answer: object) -> None:
        """Unreserve runs for every Reserve plugin, last first, and the cache forgets the pod."""
        log: list[str] = []
        messages = (
            PermitResult(answer) if point == "permit" and isinstance(answer, Status) else answer
        )
        scheduler = world.scheduler_of(
            world.Recorder("a", log), world.Recorder("b", log, **{point: messages})
        )
        outcome = world.run(scheduler)
        assert outcome.node == ""
        rejection = "no" if point == "pre_bind" else "0/1 nodes are available: 1 no."
        failure = f'running {POINTS[point].name} plugin "x1": boom'
        assert outcome.message == (rejection if answer is NO else failure)
        assert log[-2:] == ["unreserve b", "unreserve a"]
        world.assert_nothing_left(scheduler)

    def test_rejections_wait_for_an_event_and_errors_for_their_backoff(self) -> None:
        """Before Permit has passed; a later failure does not depend on an event."""
        for point, answer, place in (
            ("reserve", NO, QueueState.UNSCHEDULABLE),
            ("reserve", PluginError("boom"), QueueState.BACKOFF),
            ("permit", PermitResult(NO), QueueState.UNSCHEDULABLE),
            ("pre_bind", NO, QueueState.BACKOFF),
            ("pre_bind", PluginError("boom"), QueueState.BACKOFF),
        ):
            scheduler = world.scheduler_of(world.Recorder("a", [], **{point: answer}))
            world.run(scheduler)
            assert place_of(scheduler) is place, (point, answer)

    def test_a_plugin_that_cannot_undo_does_not_keep_others_from_it(self) -> None:
        """The cache forgets the pod in any case."""
        log: list[str] = []
        broken = world.Recorder("b", log, unreserve=RuntimeError("boom"), pre_bind=NO)
        scheduler = world.scheduler_of(world.Recorder("a", log), broken)
        world.run(scheduler)
        assert log[-2:] == ["unreserve b", "unreserve a"]
        world.assert_nothing_left(scheduler)

    def test_a_refused_binding_is_undone_and_tried_again(self) -> None:
        """The cluster's error is in the message; the pod backs off as after an error."""

        class Refusing(MemoryClient):
            def bind(self, pod: PodInfo, node: str, done: Done) -> None:
                raise ClusterError(f"{pod.name} exists on {node}")

        clock = FakeClock(EPOCH)
        scheduler = world.scheduler_of(client=Refusing(), now=clock)
        outcome = world.run(scheduler)
        assert outcome.message == 'running Bind plugin "DefaultBinder": p exists on n0'
        assert world.client_of(scheduler).conditions["default/p"][0] == "SchedulerError"
        world.assert_nothing_left(scheduler)
        assert place_of(scheduler) is QueueState.BACKOFF
        wakeup = scheduler.next_wakeup()
        assert wakeup == EPOCH + 2 * SECOND
        clock.ns = wakeup
        assert scheduler.run_due() == []
        assert place_of(scheduler) is QueueState.ACTIVE

    def test_room_that_is_free_again_wakes_others(self) -> None:
        """A pod that did not fit beside one that was never bound is retried."""
        client = world.SlowClient()
        scheduler = world.scheduler_of(client=client, cpu="1")
        assert world.run(scheduler).waiting
        world.run(scheduler, name="other")
        assert place_of(scheduler, "other") is QueueState.UNSCHEDULABLE
        (binding,) = scheduler._bindings
        assert isinstance(binding.wait, PendingStatus)
        binding.wait.finish(Status(Code.ERROR, ("conflict",)))
        scheduler.run_due()
        assert place_of(scheduler) is QueueState.BACKOFF
        assert place_of(scheduler, "other") is QueueState.BACKOFF

    def test_a_plugin_after_the_binding_changes_nothing(self) -> None:
        """The pod is bound; the error is an event."""
        log: list[str] = []
        broken = world.Recorder("a", log, post_bind=RuntimeError("boom"))
        scheduler = world.scheduler_of(broken, world.Recorder("b", log))
        outcome = world.run(scheduler)
        assert outcome.node == "n0"
        assert log[-2:] == ["post_bind a", "post_bind b"]
        assert world.client_of(scheduler).events[-1].note == 'running PostBind plugin "x0": boom'

    def test_bind_plugins_may_pass(self) -> None:
        """The next one is called; if all skip it is an error."""

        class Passing:
            @hookimpl
            def bind(self) -> Status:
                return SKIP

        scheduler = world.scheduler_of(Passing())
        assert world.run(scheduler).node == "n0"


class TestClientFailures:
    """The scheduler survives every error of the cluster."""

    @pytest.mark.parametrize("call", ["send", "record_event"])
    def test_a_plugins_failure_in_post_bind_does_not_matter(self, call: str) -> None:
        """The pod is bound, or requeued, in any case."""

        def refuse(*_: object) -> None:
            raise ClusterError("no")

        client = type("Refusing", (MemoryClient,), {call: refuse})()
        scheduler = world.scheduler_of(world.Recorder("a", [], permit=HOLD), client=client)
        assert world.run(scheduler, name="big", cpu="9").node == ""
        assert place_of(scheduler, "big") is QueueState.UNSCHEDULABLE
        assert world.run(scheduler).waiting
        waiting = scheduler.handle.waiting_pods.get("default/p")
        assert waiting is not None
        waiting.allow("x0")
        (bound,) = scheduler.run_due()
        assert bound.node == "n0"


class TestPermission:
    """Waiting pods."""

    def test_a_waiting_pod_holds_its_node_until_it_is_allowed(self) -> None:
        """A waiting pod counts on the node and is nominated to it; then it is bound."""
        scheduler = world.scheduler_of(world.Recorder("a", [], permit=HOLD))
        outcome = world.run(scheduler)
        assert (outcome.waiting, outcome.node) == (True, "n0")
        assert scheduler.cache.nodes.pod_total == 1
        assert world.client_of(scheduler).nominations == {"default/p": "n0"}
        assert scheduler.run_due() == []
        held = scheduler.handle.waiting_pods.get("default/p")
        assert held is not None
        held.allow("x0")
        assert scheduler.next_wakeup() == EPOCH
        assert not scheduler.idle()
        (bound,) = scheduler.run_due()
        assert bound.node == "n0"
        assert world.client_of(scheduler).bindings == {"default/p": "n0"}
        assert world.client_of(scheduler).nominations == {}
        assert scheduler.idle()

    def test_all_plugins_have_to_allow_it(self) -> None:
        """The longest wait counts."""
        slow = PermitResult(WAIT, 90.0)
        scheduler = world.scheduler_of(
            world.Recorder("a", [], permit=HOLD), world.Recorder("b", [], permit=slow)
        )
        world.run(scheduler)
        held = scheduler.handle.waiting_pods.get("default/p")
        assert held is not None
        assert held.pending_plugins == ("x0", "x1")
        assert scheduler.next_wakeup() == EPOCH + 60 * SECOND
        held.allow("x0")
        assert scheduler.run_due() == []
        assert scheduler.next_wakeup() == EPOCH + 90 * SECOND
        held.reject("x1", "no")
        (outcome,) = scheduler.run_due()
        assert outcome.message == "0/1 nodes are available: 1 no."
        assert place_of(scheduler) is QueueState.UNSCHEDULABLE

    def test_a_pod_that_waits_too_long_is_undone(self) -> None:
        """The message is upstream's, and the node is free again."""
        log: list[str] = []
        clock = FakeClock(EPOCH)
        scheduler = world.scheduler_of(world.Recorder("a", log, permit=HOLD), now=clock)
        world.run(scheduler)
        clock.advance(59.999)
        assert scheduler.run_due() == []
        clock.advance(0.001)
        (late,) = scheduler.run_due()
        assert late.message == f"0/1 nodes are available: 1 {LATE}."
        assert log[-1] == "unreserve a"
        assert world.client_of(scheduler).conditions["default/p"] == ("Unschedulable", late.message)
        assert world.client_of(scheduler).nominations == {}
        world.assert_nothing_left(scheduler)

    def test_a_pending_plugin_is_called_again(self) -> None:
        """The result counts as if it were the first."""
        answers = [WAIT, SUCCESS]
        held = PermitResult(WAIT, 60.0, lambda: answers.pop(0))
        scheduler = world.scheduler_of(world.Recorder("a", [], permit=held))
        world.run(scheduler)
        outcomes = [outcome for _ in range(3) for outcome in scheduler.run_due()]
        assert [outcome.node for outcome in outcomes] == ["n0"]

    def test_a_deleted_pod_waits_no_longer(self) -> None:
        """Its node is free again, it is not requeued, and its condition is not written."""
        scheduler = world.scheduler_of(world.Recorder("a", [], permit=HOLD))
        world.run(scheduler)
        pod_gone(scheduler, world.pod_of())
        (outcome,) = scheduler.run_due()
        assert outcome.message == "0/1 nodes are available: 1 removed."
        assert world.client_of(scheduler).conditions == {}
        assert len(scheduler.queue) == 0
        world.assert_nothing_left(scheduler)

    def test_an_updated_pod_comes_back_as_it_is_now(self) -> None:
        """The attempt ends with the pod that it began with."""
        scheduler = world.scheduler_of(world.Recorder("a", [], permit=HOLD))
        world.run(scheduler)
        pod_seen(scheduler, world.pod_of(labels={"a": "b"}))
        held = scheduler.handle.waiting_pods.get("default/p")
        assert held is not None
        held.reject("x0", "no")
        scheduler.run_due()
        queued = scheduler.queue.get("default/p")
        assert queued is not None
        assert queued.info.labels == {"a": "b"}
        world.assert_nothing_left(scheduler)

    def test_a_pod_bound_by_another_scheduler_is_not_requeued(self) -> None:
        """The watch decides; the attempt undoes only its own changes."""
        log: list[str] = []
        scheduler = world.scheduler_of(world.Recorder("a", log, permit=HOLD), nodes=2)
        outcome = world.run(scheduler)
        elsewhere = "n1" if outcome.node == "n0" else "n0"
        pod_seen(scheduler, world.pod_of(node_name=elsewhere))
        assert scheduler.cache.node_of("default/p") == elsewhere
        scheduler.run_due()
        assert log[-1] == "unreserve a"
        assert scheduler.cache.node_of("default/p") == elsewhere
        assert len(scheduler.queue) == 0
        assert scheduler.cache.check() == []

    def test_a_preempted_pod_backs_off(self) -> None:
        """It backs off as after an error: it waits for no event."""
        scheduler = world.scheduler_of(world.Recorder("a", [], permit=HOLD))
        world.run(scheduler)
        assert scheduler.handle.waiting_pods.preempt("default/p", "DefaultPreemption")
        (outcome,) = scheduler.run_due()
        assert outcome.message == "waiting on permit for pod: preempted"
        assert place_of(scheduler) is QueueState.BACKOFF
        world.assert_nothing_left(scheduler)


class TestPreBind:
    """Slow work of plugins."""

    def test_other_pods_are_decided_meanwhile(self) -> None:
        """The pod holds its node, and is bound when the work is done."""
        work = [PendingStatus(), SUCCESS]
        scheduler = world.scheduler_of(world.Recorder("a", [], pre_bind=lambda: work.pop(0)))
        (first,) = work[:1]
        assert world.run(scheduler).waiting
        assert place_of(scheduler) is QueueState.BINDING
        assert world.run(scheduler, name="q").node == "n0"
        assert scheduler.run_due() == []
        assert isinstance(first, PendingStatus)
        first.finish(SUCCESS)
        (bound,) = scheduler.run_due()
        assert (bound.pod.name, bound.node) == ("p", "n0")
        assert len(scheduler.queue) == 0

    def test_it_is_called_once_a_second_and_when_an_object_changes(self) -> None:
        """It is polled; no callback is needed."""
        requested: list[int] = []
        clock = FakeClock(EPOCH)

        def ask() -> Status | None:
            requested.append(clock.ns - EPOCH)
            return SUCCESS if len(requested) == 4 else None

        scheduler = world.scheduler_of(
            world.Recorder("a", [], pre_bind=PendingStatus(ask)), now=clock
        )
        assert world.run(scheduler).waiting
        assert scheduler.run_due() == []
        wakeup = scheduler.next_wakeup()
        assert wakeup == EPOCH + SECOND
        clock.ns = wakeup
        assert scheduler.run_due() == []
        scheduler.handle.objects.changes += 1
        assert scheduler.run_due() == []
        clock.advance(1)
        (bound,) = scheduler.run_due()
        assert bound.node == "n0"
        assert requested == [0, SECOND, SECOND, 2 * SECOND]

    @pytest.mark.parametrize(
        ("ask", "words"),
        [
            (None, "context deadline exceeded"),
            (lambda: Status(Code.ERROR, ("no disk",)), "no disk"),
            (lambda: 1 // 0, "integer division or modulo by zero"),
        ],
    )
    def test_failures_and_timeouts_are_reported_under_its_name(
        self, ask: object, words: str
    ) -> None:
        """The pod backs off, and nothing is left on its node."""
        clock = FakeClock(EPOCH)
        work = PendingStatus(None, EPOCH + 600 * SECOND)
        scheduler = world.scheduler_of(world.Recorder("a", [], pre_bind=work), now=clock)
        world.run(scheduler)
        assert scheduler.next_wakeup() == EPOCH + 600 * SECOND
        work.poll = ask  # type: ignore[assignment]  # its later result
        clock.advance(600)
        (outcome,) = scheduler.run_due()
        assert outcome.message == f'running PreBind plugin "x0": {words}'
        assert place_of(scheduler) is QueueState.BACKOFF
        world.assert_nothing_left(scheduler)

    @pytest.mark.parametrize("how", ["preempted", "removed"])
    def test_it_can_be_called_off(self, how: str) -> None:
        """For a pod of higher priority, or because the pod is deleted."""
        scheduler = world.scheduler_of(world.Recorder("a", [], pre_bind=PendingStatus()))
        world.run(scheduler)
        if how == "preempted":
            assert scheduler.handle.waiting_pods.preempt("default/p", "DefaultPreemption")
        else:
            pod_gone(scheduler, world.pod_of())
        (outcome,) = scheduler.run_due()
        assert "preempted by DefaultPreemption" in outcome.message or how == "removed"
        assert place_of(scheduler) is (QueueState.BACKOFF if how == "preempted" else QueueState.OUT)
        world.assert_nothing_left(scheduler)

    def test_a_plugin_that_skips_pre_flight_is_not_called(self) -> None:
        """And a pod without such work is not nominated before it is bound."""
        nominations: list[str] = []

        class Client(MemoryClient):
            def send(self, request: ObjectRequest, done: ObjectResponse | None = None) -> None:
                if nomination_of(request):
                    nominations.append(request.name)

        class Flight:
            def __init__(self) -> None:
                self.called = 0

            @hookimpl
            def pre_bind_pre_flight(self, pod: PodInfo) -> Status:
                return SUCCESS if pod.name == "works" else SKIP

            @hookimpl
            def pre_bind(self) -> Status:
                self.called += 1
                return SUCCESS

        plugin = Flight()
        scheduler = world.scheduler_of(plugin, client=Client())
        assert world.run(scheduler, name="skips").node == "n0"
        assert (plugin.called, nominations) == (0, [])
        assert world.run(scheduler, name="works").node == "n0"
        assert (plugin.called, nominations) == (1, ["works"])

    def test_a_flight_that_fails_ends_the_attempt(self) -> None:
        """Before anything has begun."""

        class Flight:
            @hookimpl
            def pre_bind_pre_flight(self) -> Status:
                return NO

            @hookimpl
            def pre_bind(self) -> Status:
                return SUCCESS

        for others in ((), (world.Recorder("a", [], permit=HOLD),)):
            scheduler = world.scheduler_of(Flight(), *others)
            assert world.run(scheduler).message == 'running PreBindPreFlight plugin "x0": no'
            world.assert_nothing_left(scheduler)


class TestSlowCluster:
    """A cluster that responds to a binding later."""

    def test_other_pods_are_decided_before_it_answers(self) -> None:
        """Each ends when its own response arrives, in whatever order."""
        client = world.SlowClient()
        scheduler = world.scheduler_of(client=client)
        for name in "abc":
            assert world.run(scheduler, name=name).waiting
        assert scheduler.in_flight == 3
        for name in "ca":
            client.pending.pop(name)()
        assert [outcome.pod.name for outcome in scheduler.run_due()] == ["c", "a"]
        assert scheduler.in_flight == 1
        client.pending.pop("b")()
        assert [outcome.pod.name for outcome in scheduler.run_due()] == ["b"]
        assert client.bindings == {"default/c": "n0", "default/a": "n0", "default/b": "n0"}
        assert scheduler.cache.check() == []

    def test_the_watch_may_be_faster_than_the_answer(self) -> None:
        """The pod is confirmed already when the response arrives."""
        client = world.SlowClient()
        scheduler = world.scheduler_of(client=client)
        world.run(scheduler)
        pod_seen(scheduler, world.pod_of(node_name="n0"))
        client.pending.pop("p")()
        (bound,) = scheduler.run_due()
        assert bound.node == "n0"
        assert len(scheduler.queue) == 0
        assert scheduler.cache.check() == []

    def test_a_lost_answer_does_not_lose_the_pod(self) -> None:
        """The cluster has bound it, and reports an error: the watch is right."""
        scheduler = world.scheduler_of(client=world.SlowClient())
        world.run(scheduler)
        (binding,) = scheduler._bindings
        pod_seen(scheduler, world.pod_of(node_name="n0"))
        assert isinstance(binding.wait, PendingStatus)
        binding.wait.finish(Status(Code.ERROR, ("timeout",)))
        (outcome,) = scheduler.run_due()
        assert outcome.message == 'running Bind plugin "DefaultBinder": timeout'
        assert scheduler.cache.node_of("default/p") == "n0"
        assert len(scheduler.queue) == 0

    def test_stopping_forgets_bindings_that_were_not_sent(self) -> None:
        """A binding in flight ends with its response; the others leave nothing."""
        client = world.SlowClient()
        permits = [PermitResult(), HOLD]
        scheduler = world.scheduler_of(
            world.Recorder("a", [], permit=lambda: permits.pop(0)), client=client
        )
        world.run(scheduler, name="sent")
        world.run(scheduler, name="held")
        (given_up,) = scheduler.shutdown("the scheduler stops")
        assert (given_up.pod.name, given_up.message) == ("held", "the scheduler stops")
        assert place_of(scheduler, "held") is QueueState.BACKOFF
        assert scheduler.in_flight == 1
        client.pending.pop("sent")()
        (bound,) = scheduler.run_due()
        assert bound.pod.name == "sent"
        assert scheduler.in_flight == 0


class TestActivation:
    """Pods that a plugin activates."""

    def test_pods_are_made_ready_at_the_end_of_a_cycle(self) -> None:
        """At the end of scheduling, and later ones at the end of binding; only if it succeeds."""

        class Caller:
            def __init__(self) -> None:
                self.wanted: list[str] = []
                self.answer = SUCCESS

            @hookimpl
            def reserve(self, state: CycleState) -> Status:
                state.write(PodsToActivate(list(self.wanted)))
                return self.answer

        caller = Caller()
        scheduler = world.scheduler_of(caller)
        world.run(scheduler, name="big", cpu="9")
        caller.wanted, caller.answer = ["default/big"], NO
        world.run(scheduler, name="a")
        assert place_of(scheduler, "big") is QueueState.UNSCHEDULABLE
        caller.answer = SUCCESS
        world.run(scheduler, name="b")
        assert place_of(scheduler, "big") is QueueState.ACTIVE


def test_equal_pods_do_not_share_what_they_reserved() -> None:
    """Filter results may be shared; each attempt has its own state."""

    class Keeper:
        def __init__(self) -> None:
            self.undone: list[str] = []

        @hookimpl
        def reserve(self, state: CycleState, pod: PodInfo) -> Status:
            state.write(pod)
            return SUCCESS

        @hookimpl
        def permit(self) -> PermitResult:
            return HOLD

        @hookimpl
        def unreserve(self, state: CycleState) -> None:
            found = state.read(PodInfo)
            assert found is not None
            self.undone.append(found.name)

    keeper = Keeper()
    scheduler = world.scheduler_of(keeper)
    for name in "ab":
        world.run(scheduler, name=name)
    for name in "ab":
        held = scheduler.handle.waiting_pods.get(f"default/{name}")
        assert held is not None
        held.reject("x0", "no")
    scheduler.run_due()
    assert keeper.undone == ["a", "b"]
