"""Work in slices: done in order and wholly; wherever it is cut, the queue ends up the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from policy_sched.model.cluster_event import ASSIGNED_POD_DELETE, NODE_ADD, ClusterEvent
from policy_sched.model.queued_pod import QueuedPod, QueueState
from policy_sched.queue.backoff import SECOND, Timing
from policy_sched.queue.cooperative_tasks import Agenda
from policy_sched.queue.scheduling_queue import SchedulingQueue
from policy_sched.testing import FakeClock
from tests.queue.pods import HINTS, NOWHERE, by_priority, gates, hint_table, info, make_queue

T = TypeVar("T")
NAMES = st.sampled_from([f"p{i}" for i in range(8)])
PLUGINS = st.frozensets(st.sampled_from(sorted(set(HINTS) - {"Gates"})), max_size=2)
SLICES = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 1.0, 2.0, 30.0])), max_size=4)
EVENTS = st.sampled_from([NODE_ADD, ASSIGNED_POD_DELETE, NOWHERE])

SHOWN = (
    *("place", "enqueued_at", "ready_at", "backoff_until", "attempts"),
    *("rejected_by", "pending", "gated_by", "flushed", "deleted"),
)


def counting(done: list[str], name: str, steps: int) -> Iterator[None]:
    """Work that notes each of its steps."""
    for step in range(steps):
        done.append(f"{name}{step}")
        yield


class TestAgenda:
    """In which order work is done, and when."""

    def test_work_is_done_at_once_when_there_is_time(self) -> None:
        """Without slices nothing is ever half done."""
        agenda, done = Agenda(), list[str]()
        agenda.begin(counting(done, "a", 3))
        assert (done, agenda.half_done) == (["a0", "a1", "a2"], False)

    def test_a_slice_ends_work_in_the_middle_and_the_rest_comes_first(self) -> None:
        """Later work waits for it, and what cannot wait has all of it done."""
        agenda, done = Agenda(), list[str]()
        agenda.over = lambda: len(done) % 2 == 0
        agenda.begin(counting(done, "a", 3))
        agenda.begin(counting(done, "b", 2))
        assert (done, agenda.half_done) == (["a0", "a1"], True)
        assert not agenda.go_on()
        assert done == ["a0", "a1", "a2", "b0"]
        agenda.finish()
        assert (done, agenda.half_done) == (["a0", "a1", "a2", "b0", "b1"], False)
        assert agenda.go_on()

    def test_what_work_begins_is_part_of_it(self) -> None:
        """It is done at once, and to finish means nothing meanwhile."""
        agenda, done = Agenda(), list[str]()
        agenda.over = lambda: True

        def outer() -> Iterator[None]:
            agenda.begin(counting(done, "inner", 2))
            agenda.finish()
            done.append("outer")
            yield

        agenda.begin(outer())
        assert done == ["inner0", "inner1", "outer"]
        assert agenda.half_done
        assert agenda.go_on()

    def test_work_that_breaks_is_given_up(self) -> None:
        """What stands behind it is done later all the same."""
        agenda, done = Agenda(), list[str]()
        agenda.over = lambda: True

        def broken() -> Iterator[None]:
            yield
            raise ValueError("no")

        agenda.begin(broken())
        agenda.begin(counting(done, "a", 1))
        with pytest.raises(ValueError, match="no"):
            agenda.finish()
        assert agenda.half_done
        agenda.finish()
        assert done == ["a0"]


def state(queue: SchedulingQueue) -> tuple[object, ...]:
    """Return everything that can be seen of a queue, orders and counts included."""

    def shown(pods: list[QueuedPod]) -> list[tuple[object, ...]]:
        return [(p.info.key, *(getattr(p, field) for field in SHOWN)) for p in pods]

    places = (queue.active(), queue.backoff(), queue.unschedulable(), queue.gated())
    under_way = (queue.in_flight(), queue.binding())
    counts = (queue.incoming(), queue.hints.results, queue.lengths())
    times = (queue.next_flush(), queue.events_in_flight())
    return tuple(shown(pods) for pods in (*places, *under_way)), counts, times


class TwinMachine(RuleBasedStateMachine):
    """Does the same to a queue that does everything at once and to one whose slices are short."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock(1000 * SECOND)
        timing = Timing(unschedulable_timeout=20 * SECOND, sweep=7 * SECOND)
        self.whole, self.sliced = make_queue(self.clock, timing), make_queue(self.clock, timing)
        self.left = 0
        self.sliced.agenda.over = self._over

    def _over(self) -> bool:
        self.left -= 1
        return self.left < 0

    def both(self, act: Callable[[SchedulingQueue], T]) -> T:
        """Do something to both, which has to answer the same."""
        found, other = act(self.whole), act(self.sliced)
        if isinstance(found, QueuedPod):
            assert isinstance(other, QueuedPod)
            assert found.info.uid == other.info.uid
        else:
            assert found == other
        return found

    def _go_on(self, slices: list[tuple[int, float]]) -> None:
        """Take some slices of so many pods, and so much time after each of them."""
        for pods, wait in slices:
            if self.sliced.agenda.half_done:
                self.clock.ns += round(wait * SECOND)
            self.left = pods
            self.sliced.agenda.go_on()

    @rule(names=st.lists(NAMES, min_size=1, max_size=6), priority=st.integers(0, 2))
    def pods_seen(self, names: list[str], priority: int) -> None:
        """Pods came or changed."""
        for name in names:
            pod = info(name, priority=priority, gates=["g"] if name == "p7" else [])
            self.both(lambda queue, pod=pod: queue.update(pod).place)  # type: ignore[misc]

    @rule(name=NAMES)
    def pod_opened(self, name: str) -> None:
        """A gate is taken away."""
        self.both(lambda queue: queue.update(info(name)).place)

    @rule(name=NAMES)
    def pod_gone(self, name: str) -> None:
        """A pod was deleted."""
        self.both(lambda queue: queue.delete(f"default/{name}"))

    @rule(rejected_by=PLUGINS, pending=PLUGINS)
    def all_are_tried_in_vain(self, rejected_by: frozenset[str], pending: frozenset[str]) -> None:
        """Pods that are ready return."""
        for _ in range(len(self.whole.active())):
            pod = self.both(SchedulingQueue.pop)
            assert pod is not None
            self._put_back(pod, rejected_by, pending)

    @rule()
    def pop(self) -> None:
        """The next pod is decided."""
        self.both(SchedulingQueue.pop)

    @precondition(lambda self: self.whole.in_flight())
    @rule(data=st.data(), rejected_by=PLUGINS, pending=PLUGINS)
    def comes_back(
        self, data: st.DataObject, rejected_by: frozenset[str], pending: frozenset[str]
    ) -> None:
        """One attempt ends in vain."""
        pod = data.draw(st.sampled_from(self.whole.in_flight()))
        self._put_back(pod, rejected_by, pending)

    def _put_back(
        self, pod: QueuedPod, rejected_by: frozenset[str], pending: frozenset[str]
    ) -> None:
        def back(queue: SchedulingQueue) -> QueueState:
            own = queue.get(pod.info.uid)
            assert own is not None
            return queue.add_unschedulable_if_not_present(own, rejected_by, pending)

        self.both(back)

    @rule(events=st.lists(EVENTS, min_size=1, max_size=3), but=NAMES, slices=SLICES)
    def things_happen(
        self, events: list[ClusterEvent], but: str, slices: list[tuple[int, float]]
    ) -> None:
        """Several events, the later ones while the first is not done with."""
        for event in events:
            new = object()
            self.both(
                lambda queue, event=event, new=new: queue.move_all_to_active_or_backoff(  # type: ignore[misc]
                    event, None, new, but=f"default/{but}"
                )
            )
        self._go_on(slices)

    @rule(names=st.lists(NAMES, max_size=5), event=EVENTS)
    def something_happens_to_a_few(self, names: list[str], event: ClusterEvent) -> None:
        """An event for a group of pods."""
        uids = [f"default/{name}" for name in dict.fromkeys(names)]
        self.both(lambda queue: queue.move_among(uids, event, None))

    @rule(names=st.lists(NAMES, max_size=3))
    def activate(self, names: list[str]) -> None:
        """A plugin wants pods to be tried now."""
        self.both(lambda queue: queue.activate(f"default/{name}" for name in names))

    @rule(seconds=st.sampled_from([0.3, 1, 11, 40]), slices=SLICES)
    def time_passes(self, seconds: float, slices: list[tuple[int, float]]) -> None:
        """A flush comes."""
        self.clock.ns += round(seconds * SECOND)
        self.both(SchedulingQueue.flush)
        self._go_on(slices)

    @rule(order=st.booleans(), regate=st.booleans(), slices=SLICES)
    def reload(self, order: bool, regate: bool, slices: list[tuple[int, float]]) -> None:
        """Other policies decide from now on."""
        for queue in (self.whole, self.sliced):
            queue.reload(
                gates,
                hint_table(),
                sort_key=by_priority if order else None,
                regate=["default-scheduler"] if regate else (),
            )
        self._go_on(slices)

    @invariant()
    def in_the_middle_each_pod_is_in_one_place(self) -> None:
        """Wherever work is cut."""
        queue = self.sliced
        places = (queue.active(), queue.backoff(), queue.unschedulable(), queue.gated())
        found = [p.info.uid for pods in (*places, queue.in_flight(), queue.binding()) for p in pods]
        assert len(found) == len(set(found)) == len(queue) == len(self.whole)

    @invariant()
    def the_end_is_the_same(self) -> None:
        """When all tasks are done the two queues are equal."""
        if not self.sliced.agenda.half_done:
            assert state(self.sliced) == state(self.whole)

    def teardown(self) -> None:
        """What is left is done in the end."""
        self.sliced.agenda.finish()
        self.the_end_is_the_same()


TestTwinMachine = TwinMachine.TestCase
TestTwinMachine.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
