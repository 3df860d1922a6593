"""The queue under random treatment: each pod in exactly one place, and none is lost."""

from __future__ import annotations

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from policy_sched.model.cluster_event import ASSIGNED_POD_DELETE, NODE_ADD
from policy_sched.model.pod_info import QueueState
from policy_sched.queue.backoff import SECOND, Timing
from policy_sched.testing import FakeClock
from tests.examples import scaled
from tests.queue.pods import HINTS, by_priority, by_state, gates, hint_table, info, make_queue

NAMES = st.sampled_from([f"p{i}" for i in range(6)])
PLUGINS = st.frozensets(st.sampled_from(sorted(set(HINTS) - {"Gates"})), max_size=2)


class QueueMachine(RuleBasedStateMachine):
    """Does everything to a queue that a scheduler does, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock(1000 * SECOND)
        self.queue = make_queue(
            self.clock, Timing(unschedulable_timeout=20 * SECOND, sweep=7 * SECOND)
        )
        self.known: set[str] = set()

    @rule(name=NAMES, priority=st.integers(0, 2), gated=st.booleans(), label=st.booleans())
    def pod_seen(self, name: str, priority: int, gated: bool, label: bool) -> None:
        """A pod came or changed."""
        labels = {"a": "b"} if label else {}
        pod = info(name, priority=priority, gates=["g"] if gated else [], labels=labels)
        self.queue.update(pod)
        self.known.add(pod.uid)

    @rule(name=NAMES)
    def pod_gone(self, name: str) -> None:
        """A pod was deleted."""
        self.queue.delete(f"default/{name}")
        self.known.discard(f"default/{name}")

    @rule()
    def pop(self) -> None:
        """The next pod is decided."""
        ready = [pod.info.uid for pod in self.queue.active()]
        pod = self.queue.pop()
        if ready:
            assert pod is not None
            assert pod.info.uid == ready[0]
        assert pod is None or pod.place is QueueState.IN_FLIGHT

    @precondition(lambda self: self.queue.in_flight())
    @rule(data=st.data())
    def permitted(self, data: st.DataObject) -> None:
        """A binding takes its time."""
        self.queue.mark_binding(data.draw(st.sampled_from(self.queue.in_flight())))

    @precondition(lambda self: self.queue.in_flight() or self.queue.binding())
    @rule(data=st.data(), rejected_by=PLUGINS, pending=PLUGINS, bound=st.booleans())
    def attempt_ends(
        self,
        data: st.DataObject,
        rejected_by: frozenset[str],
        pending: frozenset[str],
        bound: bool,
    ) -> None:
        """A pod is bound, or comes back."""
        under_way = [*self.queue.in_flight(), *self.queue.binding()]
        pod = data.draw(st.sampled_from(under_way))
        if bound:
            self.queue.done(pod.info.uid)
            self.known.discard(pod.info.uid)
        else:
            gone = pod.deleted
            place = self.queue.add_unschedulable_if_not_present(pod, rejected_by, pending)
            assert (place is QueueState.OUT) is gone

    @rule(event=st.sampled_from([NODE_ADD, ASSIGNED_POD_DELETE]))
    def something_happens(self, event: object) -> None:
        """An event that some plugins listen to."""
        self.queue.move_all_to_active_or_backoff(
            NODE_ADD if event is NODE_ADD else ASSIGNED_POD_DELETE, None, object()
        )

    @rule(names=st.lists(NAMES, max_size=3))
    def activate(self, names: list[str]) -> None:
        """A plugin wants pods to be tried now."""
        self.queue.activate(f"default/{name}" for name in names)

    @rule(seconds=st.sampled_from([0.3, 1, 2.5, 11, 40]))
    def time_passes(self, seconds: float) -> None:
        """Flushes happen when they are due."""
        until = self.clock.ns + round(seconds * SECOND)
        while (due := self.queue.next_flush()) is not None and due <= until:
            self.clock.ns = max(due, self.clock.ns)
            self.queue.flush()
            after = self.queue.next_flush()
            assert after is None or after > self.clock.ns, "a flush does what it was due for"
        self.clock.ns = until

    @rule(order=st.booleans(), helps=st.booleans(), regate=st.booleans())
    def reload(self, order: bool, helps: bool, regate: bool) -> None:
        """Other policies decide from now on."""
        self.queue.reload(
            gates,
            hint_table(),
            sort_key=by_priority if order else None,
            helps=(lambda group: "Room" in group.rejected_by) if helps else None,
            regate=lambda _: regate,
        )

    @invariant()
    def each_pod_is_in_exactly_one_place(self) -> None:
        """The views add up to the whole, and each says what the pod says."""
        for _, pod in by_state(self.queue):
            assert self.queue.get(pod.info.uid) is pod

    @invariant()
    def no_pod_is_lost(self) -> None:
        """Every pod that is not bound or deleted is there; others only while they are decided."""
        pods = [*self.queue.in_flight(), *self.queue.binding()]
        leaving = {pod.info.uid for pod in pods if pod.deleted}
        there = {uid for uid in (f"default/p{i}" for i in range(6)) if self.queue.get(uid)}
        assert there == self.known | leaving

    @invariant()
    def only_gated_pods_are_gated(self) -> None:
        """No gated pod is in activeQ, unless it was gated while there."""
        for pod in self.queue.gated():
            assert pod.gated_by == "Gates"
        for pod in self.queue.unschedulable():
            assert pod.rejected_by or pod.pending

    @invariant()
    def events_are_kept_for_nobody(self) -> None:
        """Without pods in flight no event is kept."""
        if not self.queue.in_flight():
            assert self.queue._in_flight.events == ()

    def teardown(self) -> None:
        """In the end every pod that is not gated becomes active without any event."""
        for pod in [*self.queue.in_flight(), *self.queue.binding()]:
            self.queue.add_unschedulable_if_not_present(pod, frozenset({"Deaf"}))
        self.time_passes(60)
        assert self.queue.backoff() == []
        assert self.queue.unschedulable() == []


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(
    max_examples=scaled(150), stateful_step_count=40, deadline=None
)
