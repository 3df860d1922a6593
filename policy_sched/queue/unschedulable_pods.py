"""Pool: pods that wait for an event, and pods that are gated.

Theory of operation. Whether an event concerns a pod depends on the pod's profile and on the plugins
that rejected it, and there are few such combinations however many pods there are: pods are kept in
a group for each, so that an event is matched once per group, and pods of other groups are not even
looked at. A pod's ticket says when it came; those that wait for an event come straight from an
attempt, so that they are in the order of `enqueued_at`.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from operator import attrgetter
from typing import NamedTuple

from policy_sched.model import QueuedPod, QueueState


class Rejection(NamedTuple):
    """What pods of one group have in common."""

    profile: str
    rejected_by: frozenset[str]
    pending: frozenset[str]
    gated_by: str


class UnschedulablePods:
    """Pods by UID; ``arrivals`` counts them by the label of the cause."""

    def __init__(self, tickets: Iterator[int]) -> None:
        self._tickets = tickets
        self._groups: dict[Rejection, dict[str, QueuedPod]] = {}
        self.group_of: dict[str, dict[str, QueuedPod]] = {}
        """By UID, the group that a pod is in; to be read only."""
        self._in_turn: OrderedDict[str, QueuedPod] = OrderedDict()
        self.arrivals: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.group_of)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self.of_groups(lambda _: True))

    def gated(self) -> int:
        """Return how many of the pods are gated."""
        return sum(len(group) for rejection, group in self._groups.items() if rejection.gated_by)

    def add(self, queued: QueuedPod, cause: str) -> None:
        """Take a pod in."""
        queued.ticket = next(self._tickets)
        self._file(queued)
        if queued.place is QueueState.UNSCHEDULABLE:
            self._in_turn[queued.info.uid] = queued
        self.arrivals[cause] += 1

    def remove(self, queued: QueuedPod) -> None:
        """Take a pod out."""
        self.remove_all((queued,))

    def remove_all(self, pods: Iterable[QueuedPod]) -> None:
        """Take pods out."""
        group_of, in_turn, emptied = self.group_of, self._in_turn, False
        for queued in pods:
            uid = queued.info.uid
            group = group_of.pop(uid)
            del group[uid]
            emptied = emptied or not group
            in_turn.pop(uid, None)
            queued.ticket = 0
        if emptied:
            self._drop_empty_groups()

    def any_before(self, time: int) -> bool:
        """Return whether a pod waits since before a time, for an event or gated."""
        return any(
            queued.enqueued_at < time
            for group in self._groups.values()
            for queued in group.values()
        )

    def oldest(self) -> int | None:
        """Return since when the pod waits for an event that has waited for longest; None: none."""
        turns = self._in_turn
        while turns:
            queued = next(iter(turns.values()))
            if queued.place is QueueState.UNSCHEDULABLE:
                return queued.enqueued_at
            turns.popitem(last=False)  # it is gated now
        return None

    def regroup(self, queued: QueuedPod) -> None:
        """File a pod again after its rejecting plugins changed; it keeps its position."""
        group = self.group_of[queued.info.uid]
        del group[queued.info.uid]
        self._file(queued)
        if not group:
            self._drop_empty_groups()

    def groups(
        self, concerned: Callable[[Rejection], bool], except_uid: str = ""
    ) -> Iterator[list[QueuedPod]]:
        """Yield the pods of each group that is concerned, without the pod of ``except_uid``."""
        for rejection in list(filter(concerned, self._groups)):
            group = self._groups[rejection]
            if except_uid in group:
                yield [queued for uid, queued in group.items() if uid != except_uid]
            else:
                yield list(group.values())

    def of_groups(self, concerned: Callable[[Rejection], bool]) -> list[QueuedPod]:
        """Return the pods of all groups that are concerned, in the order in which they came."""
        pods = [queued for group in self.groups(concerned) for queued in group]
        pods.sort(key=_TICKET)
        return pods

    def _drop_empty_groups(self) -> None:
        self._groups = {rejection: group for rejection, group in self._groups.items() if group}

    def _file(self, queued: QueuedPod) -> None:
        info = queued.info
        rejection = Rejection(
            info.scheduler_name, queued.rejected_by, queued.pending, queued.gated_by
        )
        group = self._groups.get(rejection)
        if group is None:
            group = self._groups[rejection] = {}
        self.group_of[info.uid] = group
        group[info.uid] = queued


_TICKET: Callable[[QueuedPod], int] = attrgetter("ticket")


_UNSCHEDULABLE = (QueueState.UNSCHEDULABLE, QueueState.GATED)


class Timers:
    """When pods of the pool are retried because a plugin that rejected them asks for it.

    Times are nanoseconds since 1970. A pod has at most one, its latest; times of pods that have
    left the pool, or have a later one, are skipped when they come up.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._pods: dict[str, tuple[int, QueuedPod]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def set(self, queued: QueuedPod, due: int) -> None:
        """The pod is due then, and not before."""
        uid = queued.info.uid
        self._pods[uid] = (due, queued)
        heappush(self._heap, (due, uid))

    def next(self) -> int | None:
        """Return when the first pod is due; None without any."""
        while self._heap:
            due, uid = self._heap[0]
            timer = self._pods.get(uid)
            if timer is not None and timer[0] == due:
                if timer[1].place in _UNSCHEDULABLE:
                    return due
                del self._pods[uid]
            heappop(self._heap)
        return None

    def take(self, now: int) -> Iterator[QueuedPod]:
        """Take out the pods that are due at ``now``."""
        while (due := self.next()) is not None and due <= now:
            _, uid = heappop(self._heap)
            yield self._pods.pop(uid)[1]
