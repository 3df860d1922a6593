"""QueueHeap: pods of several queues; an order of the queues says whose first pod goes next.

Theory of operation. Each queue is a heap of its pods, in the order of QueueSort. The queues are in
a heap themselves, by the key that the order gives to each for its first pod. Such a key reads what
placements change, and the order says which queues it has to be asked for again: only these, and
those whose first pod is another one, move before the next pod is popped. An entry of the heap of
queues is valid as long as its number is the latest of its queue. Queues of equal keys go by the
keys of their first pods, then by which of these came first.

In a strict queue a pod that was tried in vain holds the pods behind it until it is ready again, is
gated, or is gone.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from policy_sched.model import QueuedPod
from policy_sched.queue.heap import SWEEP_FROM, PodHeap, SortKey


@runtime_checkable
class QueueOrder(Protocol):
    """Whose turn it is; what its functions return may change only for what it tells of."""

    def queue_of(self, queued: QueuedPod) -> str:
        """Return the name of the queue that a pod belongs to."""

    def queue_key(self, name: str, head: QueuedPod) -> SortKey:
        """Return the key of a queue whose first pod this is; less comes first."""

    def strict(self, name: str, head: QueuedPod) -> bool:
        """Return whether a pod that was tried in vain holds those behind it in its queue."""

    def take_stale_pods(self) -> list[str]:
        """Return the UIDs of pods whose queue or sort key may differ since the last call."""

    def take_stale_queues(self) -> list[str]:
        """Return the names of queues whose key or strictness may differ since the last call."""

    def forget_pod(self, uid: str) -> None:
        """A pod is gone."""

    def forget_queue(self, name: str) -> None:
        """A queue has no pods any more."""


class _Queue:
    """One queue: its pods that are ready, and those that were tried in vain and wait."""

    def __init__(self, name: str, pods: PodHeap) -> None:
        self.name = name
        self.pods = pods
        self.number = 0
        """Of its latest entry in the heap of queues."""
        self._waiting: dict[str, int] = {}
        self._by_key: list[tuple[SortKey, int, str]] = []
        """Pods that wait, by key, number and UID; valid if `_waiting` has the number."""

    def wait(self, uid: str, key: SortKey, number: int) -> None:
        """A pod was tried in vain."""
        self._waiting[uid] = number
        heapq.heappush(self._by_key, (key, number, uid))
        if len(self._by_key) > max(SWEEP_FROM, 2 * len(self._waiting)):
            self._by_key = [key for key in self._by_key if self._waiting.get(key[2]) == key[1]]
            heapq.heapify(self._by_key)

    def stop_waiting(self, uid: str) -> bool:
        """A pod does not wait any more; return whether it did."""
        return self._waiting.pop(uid, None) is not None

    def first_waiting(self) -> tuple[SortKey, str] | None:
        """Return the key and the UID of the first pod that waits."""
        entries = self._by_key
        while entries:
            key, number, uid = entries[0]
            if self._waiting.get(uid) == number:
                return key, uid
            heapq.heappop(entries)
        return None


class QueueHeap:
    """Pods that are ready, in queues; it takes the place of a `PodHeap`."""

    def __init__(
        self, sort_key: Callable[[QueuedPod], SortKey], order: QueueOrder, tickets: Iterator[int]
    ) -> None:
        self.order = order
        self._sort_key = sort_key
        self._tickets = tickets
        self._queues: dict[str, _Queue] = {}
        self._pods: dict[str, tuple[_Queue, SortKey]] = {}
        """By UID, where a pod is that is ready, and its key."""
        self._waiting: dict[str, _Queue] = {}
        """By UID, the queue of a pod that was tried in vain."""
        self._heap: list[tuple[SortKey, SortKey, int, int, _Queue]] = []
        self._moved: dict[str, None] = {}
        """Queues whose place is to be found anew."""

    def __len__(self) -> int:
        return len(self._pods)

    def push(self, queued: QueuedPod) -> None:
        """Take a pod in that is in no heap."""
        self.release(queued.info.uid)
        queue = self._queue_of(queued)
        self._pods[queued.info.uid] = queue, queue.pods.push(queued)
        self._moved[queue.name] = None

    def push_all(self, pods: Sequence[QueuedPod]) -> None:
        """Take pods in as `push` does one after the other."""
        for queued in pods:
            self.push(queued)

    def pop(self) -> QueuedPod | None:
        """Take the pod out whose turn it is; None if there is none, or each is held."""
        queue = self._first()
        if queue is None:
            return None
        queued = queue.pods.pop()
        assert queued is not None, "a queue in the heap has a pod"
        del self._pods[queued.info.uid]
        self._moved[queue.name] = None
        return queued

    def peek(self) -> QueuedPod | None:
        """Return the pod whose turn it is, which stays."""
        queue = self._first()
        return None if queue is None else queue.pods.peek()

    def remove(self, queued: QueuedPod) -> None:
        """Take out a pod that is ready."""
        queue, _ = self._pods.pop(queued.info.uid)
        queue.pods.remove(queued)
        self._moved[queue.name] = None

    def update(self, queued: QueuedPod) -> None:
        """Find the place of a pod anew; where nothing differs it keeps it."""
        queue, key = self._pods[queued.info.uid]
        if self.order.queue_of(queued) != queue.name or self._sort_key(queued) != key:
            self.remove(queued)
            self.push(queued)
        else:
            self._moved[queue.name] = None  # its head may be another pod now, of equal key

    def wait(self, queued: QueuedPod) -> None:
        """A pod of the queue was tried in vain, and waits; call it before its key changes."""
        uid = queued.info.uid
        self.release(uid)
        queue = self._queue_of(queued)
        self._waiting[uid] = queue
        queue.wait(uid, self._sort_key(queued), next(self._tickets))
        self._moved[queue.name] = None

    def wait_anew(self, queued: QueuedPod) -> None:
        """The queue or the key of a pod may be another one; if it waits, it does so by them."""
        if queued.info.uid in self._waiting:
            self.wait(queued)

    def wait_on(self, queued: QueuedPod) -> None:
        """A pod that was tried in vain backs off: one that was gated meanwhile waits again."""
        if queued.info.uid not in self._waiting:
            self.wait(queued)

    def release(self, uid: str) -> None:
        """A pod that may have waited is ready, under way, gated or gone: it holds no others."""
        queue = self._waiting.pop(uid, None)
        if queue is not None and queue.stop_waiting(uid):
            self._moved[queue.name] = None

    def held_by(self, queued: QueuedPod) -> str:
        """Return the UID of the pod that holds this one in a strict queue; "" if none does."""
        queue = self._queues.get(queued.queue)
        first = None if queue is None else queue.first_waiting()
        if queue is None or first is None or first[1] == queued.info.uid:
            return ""
        self._moved[queue.name] = None
        behind = not self._sort_key(queued) < first[0]
        return first[1] if behind and self.order.strict(queue.name, queued) else ""

    def ordered(self) -> list[QueuedPod]:
        """Return all pods as they would be popped if nothing changed; those held come last."""
        ready: list[tuple[SortKey, SortKey, int, list[QueuedPod], str]] = []
        held: list[tuple[SortKey, int, QueuedPod]] = []

        def next_of(name: str, pods: list[QueuedPod]) -> None:
            if not pods:
                return
            head = pods[-1]
            if self.held_by(head):
                held.extend((self._sort_key(pod), pod.ticket, pod) for pod in pods)
                return
            keys = self.order.queue_key(name, head), self._sort_key(head)
            heapq.heappush(ready, (*keys, head.ticket, pods, name))

        for name, queue in self._queues.items():
            next_of(name, queue.pods.ordered()[::-1])
            self._moved[name] = None  # its key was asked for other pods than its first
        result = []
        while ready:
            *_, pods, name = heapq.heappop(ready)
            result.append(pods.pop())
            next_of(name, pods)
        return result + [queued for _, _, queued in sorted(held)]

    def _queue_of(self, queued: QueuedPod) -> _Queue:
        name = queued.queue = self.order.queue_of(queued)
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = _Queue(name, PodHeap(self._sort_key, self._tickets))
        return queue

    def _first(self) -> _Queue | None:
        """Return the queue whose turn it is."""
        for name in self.order.take_stale_queues():
            self._moved[name] = None
        if self._moved:
            for name in self._moved:
                self._settle(self._queues.get(name))
            self._moved.clear()
        entries = self._heap
        if len(entries) > max(SWEEP_FROM, 2 * len(self._queues)):
            entries = self._heap = [entry for entry in entries if entry[4].number == entry[3]]
            heapq.heapify(entries)
        while entries:
            *_, number, queue = entries[0]
            if queue.number == number:
                return queue
            heapq.heappop(entries)
        return None

    def _settle(self, queue: _Queue | None) -> None:
        """Give a queue the entry that it has by its first pod; none if it is empty, or held."""
        if queue is None:
            return
        queue.number = next(self._tickets)
        entry, waiting = queue.pods.first(), queue.first_waiting()
        if entry is None:
            if waiting is None:
                del self._queues[queue.name]
                self.order.forget_queue(queue.name)
            return
        key, ticket, head = entry
        # Only where a pod waits is it asked whether that one holds others.
        if waiting is not None and self.order.strict(queue.name, head) and not key < waiting[0]:
            return
        place = self.order.queue_key(queue.name, head)
        heapq.heappush(self._heap, (place, key, ticket, queue.number, queue))
