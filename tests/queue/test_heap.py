"""The heap: smallest key first, equal keys in turn, and what was removed never comes."""

from __future__ import annotations

from itertools import count

from hypothesis import given, strategies as st

from policy_sched.model.pod_info import QueuedPod
from policy_sched.queue.heap import MANY, SWEEP_FROM, PodHeap
from tests.queue.pods import names, queued


def by_priority(pod: QueuedPod) -> tuple[int]:
    return (-pod.info.priority,)


def empty_heap() -> PodHeap:
    return PodHeap(by_priority, count(1))


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans()), max_size=30))
def test_pods_are_popped_in_the_order_of_a_stable_sort(pods: list[tuple[int, bool]]) -> None:
    """Whatever is removed in between is never seen again."""
    heap = empty_heap()
    all_pods = [queued(f"p{i}", priority=priority) for i, (priority, _) in enumerate(pods)]
    for pod in all_pods:
        heap.push(pod)
    kept = [pod for pod, (_, stays) in zip(all_pods, pods, strict=True) if stays]
    for pod, (_, stays) in zip(all_pods, pods, strict=True):
        if not stays:
            heap.remove(pod)
    expected = sorted(kept, key=by_priority)
    assert len(heap) == len(kept)
    assert heap.ordered() == expected
    assert [heap.pop() for _ in kept] == expected
    assert heap.pop() is None
    assert heap.peek() is None


def test_an_updated_pod_finds_its_new_place() -> None:
    """The old entry is skipped; the pod leaves once."""
    heap = empty_heap()
    low, high = queued("a", priority=0), queued("b", priority=5)
    heap.push(low)
    heap.push(high)
    low.info = queued("a", priority=9).info
    heap.update(low)
    assert names(heap.ordered()) == ["a", "b"]
    assert heap.peek() is low
    assert [heap.pop(), heap.pop(), heap.pop()] == [low, high, None]


def test_stale_entries_are_swept_out() -> None:
    """The heap never holds many more entries than pods."""
    heap = empty_heap()
    pods = [queued(f"p{i}") for i in range(4 * SWEEP_FROM)]
    for pod in pods:
        heap.push(pod)
    for pod in pods[1:]:
        heap.remove(pod)
    assert len(heap._entries) <= SWEEP_FROM + 1
    assert heap.pop() is pods[0]


def test_rekey_orders_the_pods_by_the_new_key() -> None:
    """Equal keys still leave in the order in which they came."""
    heap = empty_heap()
    for name, priority in (("b", 2), ("a", 1), ("c", 1)):
        heap.push(queued(name, priority=priority))
    heap.rekey(lambda pod: (pod.info.priority,))
    assert names(heap.ordered()) == ["a", "c", "b"]


def test_a_pod_moves_from_one_heap_to_another_and_back() -> None:
    """Heaps that share their tickets never mistake an old entry for a new one."""
    tickets = count(1)
    one, other = PodHeap(by_priority, tickets), PodHeap(by_priority, tickets)
    pod = queued()
    one.push(pod)
    one.remove(pod)
    other.push(pod)
    assert one.pop() is None
    other.remove(pod)
    one.push(pod)
    assert other.pop() is None
    assert one.pop() is pod


@given(
    st.lists(st.integers(-3, 3), max_size=20),
    st.lists(st.integers(-3, 3), max_size=20),
    st.sampled_from((1, MANY)),
)
def test_many_pods_are_ordered_as_pods_that_come_one_by_one(
    before: list[int], many: list[int], times: int
) -> None:
    """The order of a heap does not depend on how its pods were pushed."""
    one_by_one, at_once = empty_heap(), empty_heap()
    for i, priority in enumerate(before):
        for heap in (one_by_one, at_once):
            heap.push(queued(f"b{i}", priority=priority))
    many *= times
    for i, priority in enumerate(many):
        one_by_one.push(queued(f"m{i}", priority=priority))
    at_once.push_all([queued(f"m{i}", priority=priority) for i, priority in enumerate(many)])
    expected = names(list(iter(one_by_one.pop, None)))
    assert names(list(iter(at_once.pop, None))) == expected


@given(st.lists(st.integers(-3, 3), max_size=20), st.integers(-3, 3), st.sampled_from((1, MANY)))
def test_pods_are_taken_until_one_is_not_wanted(
    priorities: list[int], least: int, times: int
) -> None:
    """However many are taken, they come in the order of `pop`, and the others stay in theirs."""
    heap = empty_heap()
    for i, priority in enumerate(priorities * times):
        heap.push(queued(f"p{i}", priority=priority))
    for pod in heap.ordered()[::7]:
        heap.remove(pod)
    ordered = heap.ordered()
    wanted = [pod for pod in ordered if pod.info.priority >= least]
    assert heap.take_while(lambda pod: pod.info.priority >= least) == wanted
    assert all(pod.ticket == 0 for pod in wanted)
    assert len(heap) == len(ordered) - len(wanted)
    assert list(iter(heap.pop, None)) == ordered[len(wanted) :]
