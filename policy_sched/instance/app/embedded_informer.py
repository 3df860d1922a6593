"""The informer of the embedded store: hands its changes to the scheduler, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection

from policy_sched.client.apimachinery import POD, Expired, Stored
from policy_sched.embedded.store import DELETED, Change, Key, ObjectStore
from policy_sched.instance.observability import AttemptMetrics, UpstreamMetrics
from policy_sched.model import DEFAULT_SCHEDULER, ApiObject, Node, Pod, PodInfo
from policy_sched.scheduler import (
    Happened,
    Scheduler,
    node_gone,
    node_seen,
    object_gone,
    object_seen,
    pod_gone,
    pod_seen,
)

ENDED = frozenset({"Succeeded", "Failed"})
"""Phases in which a pod holds nothing any more; kube-scheduler does not watch such pods."""


class Informer:
    """The scheduler's informers: one watch of everything. ``metrics`` take the time."""

    def __init__(
        self, store: ObjectStore, scheduler: Scheduler, metrics: AttemptMetrics | None = None
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._metrics = metrics or AttemptMetrics(UpstreamMetrics())
        self._watch = store.watch()
        self._known: dict[Key, ApiObject] = {}
        self._waiting: deque[Change] = deque()

    @property
    def behind(self) -> bool:
        """Whether the store holds changes that the scheduler has not been told of."""
        return bool(self._waiting) or self._watch.behind

    def process(self, over: Callable[[], bool] = lambda: False) -> int:
        """Tell the scheduler what changed since the last call; return how many changes.

        What is left when it is ``over`` is told the next time.
        """
        waiting = self._waiting
        try:
            waiting.extend(self._watch.drain())
        except Expired:
            while waiting:
                self._dispatch(waiting.popleft())
            waiting.extend(self._again())
        timer = self._metrics.timer
        told = 0
        while waiting and not (told and over()):
            start = timer()
            events = self._dispatch(waiting.popleft())
            self._metrics.happened(events, timer() - start)
            told += 1
        return told

    def adopt(self, profiles: Collection[str]) -> None:
        """Queue the pending pods of new profiles."""
        for stored in self._store.select(POD) if profiles else ():
            pod = stored.typed
            assert isinstance(pod, Pod)
            name = pod.spec.scheduler_name or DEFAULT_SCHEDULER
            if name in profiles and not pod.spec.node_name and not _over(pod):
                pod_seen(self._scheduler, PodInfo.of(pod))

    def _again(self) -> list[Change]:
        """The watch fell behind: return everything that is there, and tell of what is not."""
        self._watch = self._store.watch()
        changes = self._watch.drain()
        present = {_key(change.new) for change in changes}
        for key in [key for key in self._known if key not in present]:
            self._gone(self._known.pop(key))
        return changes

    def _dispatch(self, change: Change) -> Happened:
        key, new = _key(change.new), change.new.typed
        old = self._known.get(key)
        if change.type == DELETED:
            self._known.pop(key, None)
            return self._gone(new)
        if type(new) is ApiObject:
            return ()  # a kind that no decision reads
        self._known[key] = new
        if isinstance(new, Pod):
            seen = pod_gone if _over(new) else pod_seen
            return seen(self._scheduler, PodInfo.of(new))
        if isinstance(new, Node):
            return node_seen(self._scheduler, new)
        return object_seen(self._scheduler, old, new)

    def _gone(self, old: ApiObject) -> Happened:
        if isinstance(old, Pod):
            return pod_gone(self._scheduler, PodInfo.of(old))
        if isinstance(old, Node):
            return node_gone(self._scheduler, old)
        return () if type(old) is ApiObject else object_gone(self._scheduler, old)


def _over(pod: Pod) -> bool:
    return pod.status.phase in ENDED


def _key(stored: Stored) -> Key:
    return Key(stored.resource.key, *stored.place)
