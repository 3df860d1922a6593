"""Pods in several queues: whose turn it is equals a plain sort by keys that change."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings, strategies as st
from hypothesis.stateful import invariant, rule

from policy_sched.model import QueuedPod, QueueState
from policy_sched.queue.backoff import SECOND, Timing
from policy_sched.queue.hints import HintTable
from policy_sched.queue.scheduling_queue import SchedulingQueue
from policy_sched.testing import FakeClock
from tests.examples import scaled
from tests.queue.pods import SCHEDULER, gates, hint_table, info
from tests.queue.test_queue_machine import NAMES as POD_NAMES, QueueMachine

NAMES = "abc"


class Numbers:
    """An order by a number of each queue, which tells of the numbers that changed."""

    def __init__(self) -> None:
        self.used: Counter[str] = Counter()
        self.strictly: set[str] = set()
        self.rank: Counter[str] = Counter()
        self.queue: dict[str, str] = {}
        self.pods: set[str] = set()
        self.names: set[str] = set()
        self.asked = 0

    def queue_of(self, queued: QueuedPod) -> str:
        """Return what a label says, unless it was decided otherwise."""
        return self.queue.get(queued.info.uid, queued.info.labels.get("queue", ""))

    def queue_key(self, name: str, head: QueuedPod) -> tuple[int, int]:
        """Return the number of the queue, and something of its first pod."""
        self.asked += 1
        return (self.used[name], -head.info.requests.get("cpu", 0))

    def strict(self, name: str, head: QueuedPod) -> bool:
        """Return whether the queue is strict."""
        del head
        return name in self.strictly

    def sort_key(self, queued: QueuedPod) -> tuple[int, int]:
        """Return a number that may change, and the priority."""
        return (self.rank[queued.info.uid], -queued.info.priority)

    def take_stale_pods(self) -> list[str]:
        """Return the pods whose number or queue changed."""
        stale, self.pods = sorted(self.pods), set()
        return stale

    def take_stale_queues(self) -> list[str]:
        """Return the queues whose number changed."""
        stale, self.names = sorted(self.names), set()
        return stale

    def forget_pod(self, uid: str) -> None:
        """Nothing is kept."""

    def forget_queue(self, name: str) -> None:
        """Nothing is kept."""

    def use(self, name: str, amount: int) -> None:
        """Change the number of a queue."""
        self.used[name] += amount
        self.names.add(name)


def first_by_plain_sort(queue: SchedulingQueue, order: Numbers) -> QueuedPod | None:
    """Return the pod whose turn it is: all queues are sorted, whatever was known before."""
    queues: dict[str, list[QueuedPod]] = {}
    for pod in (pod for pod in queue.by_uid.values() if pod.place is QueueState.ACTIVE):
        queues.setdefault(order.queue_of(pod), []).append(pod)
    waiting = [*queue.backoff(), *queue.unschedulable()]
    heads = []
    for name, pods in queues.items():
        head = min(pods, key=lambda pod: (order.sort_key(pod), pod.ticket))
        before = [order.sort_key(pod) for pod in waiting if order.queue_of(pod) == name]
        if name in order.strictly and before and not order.sort_key(head) < min(before):
            continue
        key = order.queue_key(name, head)
        heads.append((key, order.sort_key(head), head.ticket, head))
    return min(heads)[3] if heads else None


class OrderedQueues(QueueMachine):
    """Everything that happens to a queue, and numbers that change, with pods in three queues."""

    def __init__(self) -> None:
        super().__init__()
        self.order = Numbers()
        timing = Timing(unschedulable_timeout=20 * SECOND, sweep=7 * SECOND)
        self.queue = SchedulingQueue(
            self.order.sort_key,
            self.clock,
            gate=gates,
            hints=hint_table(),
            timing=timing,
            order=self.order,
        )

    @rule(name=POD_NAMES, queue=st.sampled_from(NAMES), cpu=st.integers(0, 2))
    def pod_of_a_queue(self, name: str, queue: str, cpu: int) -> None:
        """A pod came, or is in another queue now."""
        pod = info(name, cpu=str(cpu), labels={"queue": queue})
        self.queue.update(pod)
        self.known.add(pod.uid)

    @rule(name=st.sampled_from(NAMES), amount=st.integers(-2, 2))
    def queue_uses(self, name: str, amount: int) -> None:
        """The number of a queue changes."""
        self.order.use(name, amount)

    @rule(name=st.sampled_from(NAMES))
    def queue_turns_strict(self, name: str) -> None:
        """A queue is strict from now on, or no longer."""
        self.order.strictly ^= {name}
        self.order.names.add(name)

    @rule(name=POD_NAMES, rank=st.integers(0, 2), queue=st.sampled_from(["", *NAMES]))
    def object_of_a_pod_changes(self, name: str, rank: int, queue: str) -> None:
        """What the sort key and the queue of a pod read changes."""
        uid = f"default/{name}"
        self.order.rank[uid] = rank
        self.order.queue = {**self.order.queue, uid: queue} if queue else {}
        self.order.pods |= set(self.queue.by_uid)

    @rule(order=st.booleans(), helps=st.booleans(), regate=st.booleans())
    def reload(self, order: bool, helps: bool, regate: bool) -> None:
        """The policies are loaded again; if their order is another one, all is sorted anew."""
        helpful = (lambda group: "Room" in group.rejected_by) if helps else None
        again_gated = (lambda _: True) if regate else None
        if not order:
            self.queue.reload(gates, hint_table(), helps=helpful, regate=again_gated)
            return
        again, self.order = self.order, Numbers()
        for name in ("used", "strictly", "rank", "queue"):
            setattr(self.order, name, getattr(again, name))
        self.queue.reload(
            gates,
            hint_table(),
            sort_key=self.order.sort_key,
            order=self.order,
            helps=helpful,
            regate=again_gated,
        )

    @rule()
    def pop(self) -> None:
        """The pod goes next that a plain sort puts first."""
        expected = first_by_plain_sort(self.queue, self.order)
        early = self.queue.timing.pop_from_backoff and self.queue.backoff()
        pod = self.queue.pop()
        if expected is None and early:
            assert pod is None or pod.place is QueueState.IN_FLIGHT
        else:
            assert pod is expected

    @invariant()
    def the_order_lists_all_that_are_ready(self) -> None:
        """Begin with the pod that goes next, and leave none out."""
        listed = self.queue.active()
        ready = [pod for pod in self.queue.by_uid.values() if pod.place is QueueState.ACTIVE]
        assert sorted(pod.info.uid for pod in listed) == sorted(pod.info.uid for pod in ready)
        expected = first_by_plain_sort(self.queue, self.order)
        if expected is not None:
            assert listed[0] is expected


TestOrderedQueues = OrderedQueues.TestCase
TestOrderedQueues.settings = settings(
    max_examples=scaled(150), stateful_step_count=40, deadline=None
)


def ordered_queue(order: Numbers) -> SchedulingQueue:
    """Return a queue of such an order, with pods that nothing wakes."""
    return SchedulingQueue(
        order.sort_key, FakeClock(1000 * SECOND), order=order, hints=HintTable({SCHEDULER: {}})
    )


def test_a_placement_asks_only_the_queues_that_it_touches() -> None:
    """Queues could not be told by what their teams use without sorting all of them anew."""
    order = Numbers()
    queue = ordered_queue(order)
    for i in range(100):
        for j in range(5):
            queue.add(info(f"p{i}-{j}", labels={"queue": f"q{i}"}))
    assert queue.pop() is not None
    order.asked = 0
    for _ in range(50):
        pod = queue.pop()
        assert pod is not None
        order.use(order.queue_of(pod), 1)
        queue.done(pod.info.uid)
    assert order.asked <= 2 * 50 + 2


def test_a_number_that_changes_moves_its_queue_before_the_next_pod() -> None:
    """A team whose pod had just ended had to wait as if it ran yet, and the other way round."""
    order = Numbers()
    queue = ordered_queue(order)
    for name in ("a1", "a2", "b1", "b2", "c1"):
        queue.add(info(name, labels={"queue": name[0]}))
    popped = []
    for name, amount in (("", 0), ("a", 5), ("b", 7), ("b", -20), ("c", 1)):
        order.use(name, amount)
        pod = queue.pop()
        assert pod is not None
        popped.append(pod.info.name)
    assert popped == ["a1", "b1", "c1", "b2", "a2"]


def test_an_object_that_changes_moves_its_pod_before_the_next_pod() -> None:
    """A pod that is ready has another place in its queue as soon as what its key reads changes."""
    order = Numbers()
    queue = ordered_queue(order)
    for name in ("first", "second"):
        queue.add(info(name, labels={"queue": "a"}))
    order.rank["default/first"] = 1
    order.pods.add("default/first")
    pod = queue.pop()
    assert pod is not None
    assert pod.info.name == "second"


def test_the_head_of_a_strict_queue_holds_those_behind_it() -> None:
    """A small pod went before a large one of its team that had waited for longer, each time."""
    order = Numbers()
    order.strictly.add("a")
    queue = ordered_queue(order)
    for name, where, priority in (("big", "a", 5), ("small", "a", 0), ("other", "b", 0)):
        queue.add(info(name, labels={"queue": where}, priority=priority))
    big = queue.pop()
    assert big is not None
    assert big.info.name == "big"
    queue.add_unschedulable_if_not_present(big, frozenset({"Fit"}))
    assert queue.queue_of("default/small") == ("a", "default/big")
    assert queue.queue_of("default/other") == ("b", "")
    other = queue.pop()
    assert other is not None
    assert other.info.name == "other"
    assert (queue.pop(), queue.idle()) == (None, True)
    assert [pod.info.name for pod in queue.active()] == ["small"]
    queue.add(info("urgent", labels={"queue": "a"}, priority=9))
    urgent = queue.pop()
    assert urgent is not None
    assert urgent.info.name == "urgent"
    queue.delete("default/big")
    small = queue.pop()
    assert small is not None
    assert small.info.name == "small"


def test_what_was_tried_in_vain_holds_no_pod_of_other_queues() -> None:
    """Where a queue is not strict, a pod that does not fit is passed over."""
    queue = ordered_queue(Numbers())
    for name, priority in (("big", 5), ("small", 0)):
        queue.add(info(name, labels={"queue": "a"}, priority=priority))
    big = queue.pop()
    assert big is not None
    queue.add_unschedulable_if_not_present(big, frozenset({"Fit"}))
    small = queue.pop()
    assert small is not None
    assert small.info.name == "small"
