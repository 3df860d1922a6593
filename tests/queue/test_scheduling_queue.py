"""The queue: what moves a pod from one place to another, and where it goes."""

from __future__ import annotations

import pytest

from policy_sched.model import cluster_event
from policy_sched.model.pod_info import NO_PLUGINS, QueuedPod, QueueState
from policy_sched.queue.backoff import SECOND, Timing
from policy_sched.queue.queue_state import QueueStateError
from policy_sched.queue.scheduling_queue import SchedulingQueue
from policy_sched.testing import FakeClock
from tests.queue.pods import NOWHERE, gates, hint_table, info, make_queue, names

ROOM, PICKY, DEAF = (frozenset({name}) for name in ("Room", "Picky", "Deaf"))


def popped(queue: SchedulingQueue, name: str = "p", **fields: object) -> QueuedPod:
    """Add a pod and pop it."""
    queue.add(info(name, **fields))
    pod = queue.pop()
    assert pod is not None
    return pod


def rejected(queue: SchedulingQueue, plugins: frozenset[str], name: str = "p") -> QueuedPod:
    """Add a pod, pop it and bring it back as one that plugins rejected."""
    pod = popped(queue, name)
    queue.add_unschedulable_if_not_present(pod, plugins)
    return pod


class TestPopping:
    """The order of pops."""

    def test_the_most_important_pod_goes_first(self) -> None:
        """Equal pods go in the order in which they came."""
        queue = make_queue()
        for name, priority in (("a", 0), ("b", 5), ("c", 5), ("d", 9)):
            queue.add(info(name, priority=priority))
        assert names(queue.active()) == ["d", "b", "c", "a"]
        assert [pod.info.name for pod in iter(queue.pop, None)] == ["d", "b", "c", "a"]

    def test_a_popped_pod_is_in_flight_until_it_is_done(self) -> None:
        """Each pop counts an attempt; what rejected the pod before is forgotten."""
        queue = make_queue()
        pod = popped(queue)
        assert (pod.attempts, names(queue.in_flight())) == (1, ["p"])
        queue.done(pod.info.uid)
        assert (len(queue), pod.place, queue.in_flight()) == (0, QueueState.OUT, [])

    def test_a_pod_in_backoff_is_popped_when_no_other_is_ready(self) -> None:
        """Only one that plugins rejected, and only if the queue is told to."""
        for early in (True, False):
            queue = make_queue(timing=Timing(pop_from_backoff=early))
            pod = rejected(queue, DEAF)
            queue.activate([pod.info.uid])
            pod = queue.pop() or pod
            queue.add_unschedulable_if_not_present(pod, ROOM)
            queue.move_all_to_active_or_backoff(cluster_event.NODE_ADD, None, "n")
            assert names(queue.backoff()) == ["p"]
            assert queue.idle() is not early
            assert (queue.pop() is pod) is early
        assert queue.incoming()["active", "PopFromBackoffQ"] == 0

    def test_a_pod_is_put_off_untried(self) -> None:
        """Hopeless pods that take seconds to decide kept all others waiting, one after the other.

        One that is put off is no attempt more, and is not popped before its time.
        """
        clock = FakeClock(100 * SECOND)
        queue = make_queue(clock)
        pod = popped(queue)
        queue.put_off(pod, clock.ns + 5 * SECOND)
        assert (pod.place, pod.attempts, queue.pop()) == (QueueState.BACKOFF, 0, None)
        clock.ns += 5 * SECOND
        queue.flush()
        assert queue.pop() is None
        clock.ns += SECOND
        assert queue.next_flush() == clock.ns
        queue.flush()
        assert queue.pop() is pod
        queue.add_unschedulable_if_not_present(pod)
        assert (pod.attempts, pod.backoff_until) == (1, clock.ns + SECOND)
        with pytest.raises(QueueStateError):
            queue.put_off(pod, clock.ns)

    def test_done_is_only_for_pods_under_way(self) -> None:
        """A binding by another scheduler does not remove the pod from the queue."""
        queue = make_queue()
        queue.add(info("p"))
        queue.done("default/p")
        queue.done("default/unknown")
        assert names(queue.active()) == ["p"]


class TestTakingAlong:
    """A pod is tried out of its turn, along with another one of its group."""

    def test_a_popped_member_is_in_flight(self) -> None:
        """From wherever it waited: ready, backing off, or for an event."""
        for cause in ("active", "backoff", "unschedulable"):
            queue = make_queue()
            if cause == "active":
                queue.add(info("p"))
            else:
                rejected(queue, DEAF if cause == "unschedulable" else NO_PLUGINS)
            attempts = queue.get("default/p").attempts  # type: ignore[union-attr]  # it is there
            pod = queue.pop_member("default/p")
            assert pod is not None
            assert (pod.place, pod.attempts) == (QueueState.IN_FLIGHT, attempts + 1)
            assert pod.rejected_by == NO_PLUGINS
            assert queue.lengths() == dict.fromkeys(queue.lengths(), 0)
            queue.add_unschedulable_if_not_present(pod, ROOM)
            assert pod.place is QueueState.UNSCHEDULABLE

    def test_a_member_that_cannot_be_tried_stays(self) -> None:
        """A gated pod, one in flight, and an unknown one."""
        queue = make_queue()
        queue.add(info("p", gates=["wait"]))
        assert queue.pop_member("default/p") is None
        pod = popped(queue, "q")
        assert queue.pop_member("default/q") is None
        assert queue.pop_member("default/unknown") is None
        assert (names(queue.gated()), names(queue.in_flight())) == (["p"], [pod.info.name])


class TestComingBack:
    """An attempt in vain."""

    def test_rejected_pods_wait_for_an_event(self) -> None:
        """Nothing happened while it was decided, so trying again would end as before."""
        queue = make_queue()
        pod = rejected(queue, ROOM)
        assert names(queue.unschedulable()) == ["p"]
        assert (pod.unschedulable_count, pod.consecutive_errors, pod.rejected_by) == (1, 0, ROOM)
        assert queue.rejections() == {("Room", "default-scheduler"): 1}

    def test_errors_are_tried_again_after_their_backoff(self) -> None:
        """No event is waited for; rejections and errors are counted apart."""
        queue = make_queue()
        pod = popped(queue)
        assert queue.add_unschedulable_if_not_present(pod) is QueueState.BACKOFF
        assert (pod.unschedulable_count, pod.consecutive_errors) == (0, 1)

    @pytest.mark.parametrize(
        ("plugins", "pending", "place"),
        [
            (ROOM, NO_PLUGINS, QueueState.BACKOFF),
            (PICKY, NO_PLUGINS, QueueState.UNSCHEDULABLE),
            (NO_PLUGINS, ROOM, QueueState.ACTIVE),
        ],
    )
    def test_events_during_an_attempt_count_afterwards(
        self, plugins: frozenset[str], pending: frozenset[str], place: QueueState
    ) -> None:
        """A node that came while the pod was decided may help it."""
        queue = make_queue()
        pod = popped(queue)
        queue.move_all_to_active_or_backoff(cluster_event.NODE_ADD, None, "n")
        assert queue.add_unschedulable_if_not_present(pod, plugins, pending) is place

    def test_events_before_the_pop_do_not_count(self) -> None:
        """The attempt has seen the node."""
        queue = make_queue()
        other = popped(queue, "other")
        queue.add(info("p"))
        queue.move_all_to_active_or_backoff(cluster_event.NODE_ADD, None, "n")
        pod = queue.pop()
        assert pod is not None
        assert queue.add_unschedulable_if_not_present(pod, ROOM) is QueueState.UNSCHEDULABLE
        assert queue.add_unschedulable_if_not_present(other, ROOM) is QueueState.BACKOFF

    def test_a_permitted_pod_is_tried_again_after_its_backoff(self) -> None:
        """No event is kept for a binding that takes time, so none can be missed."""
        queue = make_queue()
        pod = popped(queue)
        queue.mark_binding(pod)
        assert (names(queue.binding()), queue.in_flight()) == (["p"], [])
        assert queue.add_unschedulable_if_not_present(pod, DEAF) is QueueState.BACKOFF
        assert queue.binding() == []

    def test_only_pods_under_way_come_back(self) -> None:
        """Returning a pod that is not in flight raises."""
        queue = make_queue()
        pod = queue.add(info("p"))
        with pytest.raises(QueueStateError, match="pod default/p comes back, but is ACTIVE"):
            queue.add_unschedulable_if_not_present(pod)
        with pytest.raises(QueueStateError):
            queue.mark_binding(pod)


class TestMeantime:
    """Updates and deletions while a pod is under way."""

    @pytest.mark.parametrize("binding", [False, True])
    def test_a_deleted_pod_does_not_come_back(self, binding: bool) -> None:
        """It leaves when its attempt is over."""
        queue = make_queue()
        pod = popped(queue)
        if binding:
            queue.mark_binding(pod)
        queue.delete(pod.info.uid)
        assert queue.get(pod.info.uid) is pod
        assert queue.add_unschedulable_if_not_present(pod, ROOM) is QueueState.OUT
        assert len(queue) == 0

    @pytest.mark.parametrize("binding", [False, True])
    def test_an_updated_pod_comes_back_in_its_newer_form(self, binding: bool) -> None:
        """The attempt itself goes on with the pod that it began with."""
        queue = make_queue()
        pod = popped(queue)
        before = pod.info
        if binding:
            queue.mark_binding(pod)
        queue.update(info("p", labels={"a": "b"}))
        assert pod.info is before
        queue.add_unschedulable_if_not_present(pod, ROOM)
        assert pod.info.labels == {"a": "b"}

    def test_an_update_of_the_pod_may_move_it(self) -> None:
        """The change is an event like others."""
        queue = make_queue()
        pod = popped(queue)
        queue.update(info("p", labels={"a": "b"}))
        assert (
            queue.add_unschedulable_if_not_present(pod, frozenset({"Self"})) is QueueState.BACKOFF
        )

    def test_a_pod_that_was_deleted_and_created_again_is_queued(self) -> None:
        """The later news counts."""
        queue = make_queue()
        pod = popped(queue)
        queue.delete(pod.info.uid)
        queue.update(info("p", labels={"a": "b"}))
        assert queue.add_unschedulable_if_not_present(pod, ROOM) is QueueState.UNSCHEDULABLE


class TestGates:
    """PreEnqueue."""

    def test_a_gated_pod_is_queued_when_its_gates_are_removed(self) -> None:
        """The update that opens the last gate makes it ready."""
        queue = make_queue()
        pod = queue.add(info("p", gates=["g"]))
        assert (names(queue.gated()), queue.pop(), pod.gated_by) == (["p"], None, "Gates")
        queue.update(info("p", gates=["g"], labels={"a": "b"}))
        assert names(queue.gated()) == ["p"]
        queue.update(info("p"))
        assert (names(queue.active()), pod.gated_by) == (["p"], "")

    def test_activating_a_gated_pod_leaves_it_gated(self) -> None:
        """A gate is stronger than another plugin's wish."""
        queue = make_queue()
        queue.add(info("p", gates=["g"]))
        queue.activate(["default/p", "default/unknown"])
        assert names(queue.gated()) == ["p"]

    def test_a_pod_may_be_gated_after_an_attempt(self) -> None:
        """It is asked about anew whenever it is to become ready."""
        queue = make_queue()
        pod = popped(queue)
        queue.update(info("p", gates=["g"]))
        assert queue.add_unschedulable_if_not_present(pod) is QueueState.GATED


class TestEvents:
    """Which events move which pods."""

    def test_an_event_moves_the_pods_that_it_may_help(self) -> None:
        """After their backoff; the others stay."""
        clock = FakeClock()
        queue = make_queue(clock)
        for name, plugins in (("a", ROOM), ("b", DEAF), ("c", PICKY)):
            rejected(queue, plugins, name)
        queue.move_all_to_active_or_backoff(cluster_event.NODE_ADD, None, "n")
        assert names(queue.backoff()) == ["a"]
        assert names(queue.unschedulable()) == ["b", "c"]
        clock.advance(10)
        rejected(queue, ROOM, "d")
        clock.advance(10)
        queue.move_all_to_active_or_backoff(cluster_event.ASSIGNED_POD_DELETE, None, None)
        assert "d" in names(queue.active())

    def test_one_pod_may_be_left_out_of_a_move(self) -> None:
        """A pod is not woken by the room that it left itself."""
        queue = make_queue()
        rejected(queue, ROOM, "a")
        rejected(queue, ROOM, "b")
        queue.move_all_to_active_or_backoff(
            cluster_event.ASSIGNED_POD_DELETE, None, None, except_uid="default/a"
        )
        assert (names(queue.unschedulable()), names(queue.backoff())) == (["a"], ["b"])

    def test_an_event_without_a_registration_moves_no_pod(self) -> None:
        """And pods in flight do not record it."""
        queue = make_queue()
        pod = popped(queue)
        queue.move_all_to_active_or_backoff(NOWHERE, None, None)
        assert queue.add_unschedulable_if_not_present(pod, ROOM) is QueueState.UNSCHEDULABLE

    def test_activating_moves_a_pod_to_the_active_queue(self) -> None:
        """No backoff; a pod in flight is tried again when it comes back."""
        queue = make_queue()
        rejected(queue, DEAF, "a")
        flying = popped(queue, "b")
        queue.activate(["default/a", "default/b"])
        assert names(queue.active()) == ["a"]
        assert queue.add_unschedulable_if_not_present(flying, DEAF) is QueueState.BACKOFF

    def test_activating_a_binding_pod_changes_nothing(self) -> None:
        """It comes back by itself if it has to."""
        queue = make_queue()
        pod = popped(queue)
        queue.mark_binding(pod)
        queue.activate([pod.info.uid])
        assert pod.place is QueueState.BINDING


class TestTime:
    """What happens by itself."""

    def test_a_flush_activates_pods_whose_backoff_is_over(self) -> None:
        """The queue says when."""
        clock = FakeClock()
        queue = make_queue(clock)
        queue.add_unschedulable_if_not_present(popped(queue))
        assert queue.next_flush() == 2 * SECOND
        clock.ns = 2 * SECOND - 1
        queue.flush()
        assert queue.active() == []
        clock.ns = 2 * SECOND
        queue.flush()
        assert names(queue.active()) == ["p"]
        assert queue.next_flush() is None

    def test_no_pod_waits_for_an_event_for_longer_than_five_minutes(self) -> None:
        """Pods are moved to activeQ or backoffQ after the maximum time in unschedulablePods."""
        clock = FakeClock()
        queue = make_queue(clock)
        rejected(queue, DEAF)
        due = queue.next_flush()
        assert due == 330 * SECOND, "the first sweep after five minutes"
        for time in (300 * SECOND, due - 1):
            clock.ns = time
            queue.flush()
            assert names(queue.unschedulable()) == ["p"]
        clock.ns = due
        queue.flush()
        assert names(queue.active()) == ["p"]
        assert queue.incoming()["active", cluster_event.UNSCHEDULABLE_TIMEOUT.label] == 1


class TestReload:
    """Other policies."""

    def test_a_reload_moves_the_pods_that_it_may_help(self) -> None:
        """After their backoff, as after any event; the others stay untouched."""
        queue = make_queue()
        for name, plugins in (("a", DEAF), ("b", PICKY)):
            rejected(queue, plugins, name)
        queue.reload(gates, hint_table(), helps=lambda group: group.rejected_by == DEAF)
        assert (names(queue.backoff()), names(queue.unschedulable())) == (["a"], ["b"])
        assert queue.incoming()["backoff", cluster_event.POLICY_RELOAD.label] == 1

    def test_a_reload_orders_active_pods_by_the_new_key(self) -> None:
        """The next pop follows the new key."""
        queue = make_queue()
        for name, priority in (("a", 1), ("b", 2)):
            queue.add(info(name, priority=priority))
        queue.reload(gates, hint_table(), sort_key=lambda pod: (pod.info.priority,))
        assert names(queue.active()) == ["a", "b"]

    def test_a_reload_runs_the_new_gates_for_active_pods(self) -> None:
        """Of the profiles whose PreEnqueue plugins are others now."""
        queue = make_queue()
        queue.add(info("p"))
        queue.reload(lambda _pod, _first: "New", hint_table(), regate=lambda _: False)
        assert names(queue.active()) == ["p"]
        queue.reload(lambda _pod, _first: "New", hint_table(), regate=lambda _: True)
        assert names(queue.gated()) == ["p"]
        queue.reload(gates, hint_table())
        assert names(queue.active()) == ["p"]

    def test_an_error_of_a_gate_loses_no_pod(self) -> None:
        """Each pod is asked about once, and what was answered holds."""
        queue = make_queue()
        queue.add(info("p"))
        answers = iter(["Broken"])
        queue.reload(lambda _pod, _first: next(answers, ""), hint_table(), regate=lambda _: True)
        assert names([*queue.gated(), *queue.active(), *queue.backoff()]) == ["p"]

    def test_a_pod_in_flight_returns_under_the_new_policies(self) -> None:
        """It was decided by the old ones, which may have been what was wrong."""
        queue = make_queue()
        pod = popped(queue)
        queue.reload(gates, hint_table())
        assert queue.add_unschedulable_if_not_present(pod, DEAF) is QueueState.BACKOFF


def test_adding_again_is_an_update() -> None:
    """No pod is in the queue twice."""
    queue = make_queue()
    queue.add(info("p"))
    queue.add(info("p", priority=3))
    assert len(queue) == 1
    first = queue.pop()
    assert first is not None
    assert first.info.priority == 3


@pytest.mark.parametrize("gated", [False, True])
def test_delete_removes_a_pod_from_every_state(gated: bool) -> None:
    """Deleting twice is no error."""
    queue = make_queue()
    queue.add(info("p", gates=["g"] if gated else []))
    queue.delete("default/p")
    queue.delete("default/p")
    assert (len(queue), queue.pop()) == (0, None)
