"""Retries at once: pods that fitted nowhere are tried whenever something happens, in queue order.

Theory of operation. Schedulers of batch jobs, and their simulators, have no backoff: at every
moment at which something happens they walk the whole queue once, in its order, and start what fits.
Thousands of jobs wait in such a queue, and most of them are alike. Pods with equal signatures are
rejected alike as long as pods only come, so the waiting pods are kept by signature, and only the
first pod of each is tried: if it is rejected, so are those behind it; if it is bound, the next one
follows. The outcome is that of the walk over all pods, where only the attempts that are made count
as attempts. A pod keeps its place in the queue while it waits.

The pods stay in the pool of the scheduling queue, whose events concern none but gated pods then.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Final, TypeAlias

from policy_sched.model import ASSIGNED_POD_ADD, ClusterEvent, QueuedPod, QueueState
from policy_sched.queue import SECOND, HintTable, Rejection, SortKey, Timing
from policy_sched.scheduler import Bind, Outcome, Reject, Scheduler, queue_hints, queue_order

#: The queue retries no pod by time: no simulation is as long.
TIMING: Final = Timing(unschedulable_timeout=10**10 * SECOND)

_Entry: TypeAlias = tuple[SortKey, int, QueuedPod]


class _GatedPods(HintTable):
    """The hints of the plugins, for gated pods alone."""

    def concerns(self, rejection: Rejection, event: ClusterEvent) -> bool:
        """Tell whether an event may end the gating of a group of pods."""
        return bool(rejection.gated_by) and super().concerns(rejection, event)


class Retries:
    """The waiting pods of a scheduler, the first of which are retried by `begin`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._sort_key = queue_order(scheduler.profiles)
        self._hints = queue_hints(scheduler.profiles)
        scheduler.queue.hints = _GatedPods(self._hints.registered)
        self._waiting: dict[Hashable, list[_Entry]] = {}
        self._held: dict[str, int] = {}
        self._tried: dict[str, Hashable] = {}
        self._bound = False

    def begin(self) -> None:
        """Make the first pods ready, when something has happened."""
        self._bound = False
        for alike in list(self._waiting):
            self._try_next(alike)

    def begin_again(self) -> bool:
        """Make the first pods ready that a pod which was bound just now may help; return if any."""
        found = False
        if self._bound:
            self._bound = False
            for alike, entries in list(self._waiting.items()):
                queued = entries[0][2]
                rejection = Rejection(
                    queued.info.scheduler_name, queued.rejected_by, queued.pending, ""
                )
                if self._hints.concerns(rejection, ASSIGNED_POD_ADD):
                    found = self._try_next(alike) or found
        return found

    def note(self, outcome: Outcome) -> None:
        """Take note of what became of a pod."""
        uid = outcome.pod.uid
        alike = self._tried.pop(uid, None)
        queued = self._scheduler.queue.get(uid)
        if queued is not None and queued.place is QueueState.UNSCHEDULABLE:
            self._hold(queued)
        if isinstance(outcome.decision, Bind):
            self._bound = True
        if alike is not None and not isinstance(outcome.decision, Reject):
            self._try_next(alike)

    def _hold(self, queued: QueuedPod) -> None:
        """Keep a pod until something happens; it keeps its place in the order of the queue."""
        queued.enqueued_at = queued.first_enqueued_at
        number = self._held.setdefault(queued.info.uid, len(self._held))
        entry = (self._sort_key(queued), number, queued)
        heapq.heappush(self._waiting.setdefault(self._alike(queued), []), entry)

    def _alike(self, queued: QueuedPod) -> Hashable:
        """Return a key that is equal for pods of which one is rejected if another one is."""
        pod = queued.info
        signature = self._scheduler.profiles[pod.scheduler_name].evaluator.signature_of(pod)
        if signature is None or pod.pod_group or pod.nominated_node_name:
            return pod.uid
        return pod.scheduler_name, pod.priority, signature

    def _try_next(self, alike: Hashable) -> bool:
        """Make the first of some pods that are alike ready; return if there is one."""
        queue, entries = self._scheduler.queue, self._waiting.get(alike)
        while entries:
            _, _, queued = heapq.heappop(entries)
            if not entries:
                del self._waiting[alike]
            uid = queued.info.uid
            if queued.place is QueueState.UNSCHEDULABLE and uid not in self._tried:
                self._tried[uid] = alike
                queue.activate([uid])
                return True
        return False
