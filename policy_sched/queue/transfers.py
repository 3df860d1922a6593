"""Transfers: how pods come from one place of the queue to another.

Whether a pod is ready, backs off or waits for an event is decided here, and a PreEnqueue plugin
asked where it has a say. ``now`` is always the time at which that began of which a transfer is
part, so that all pods of one event are judged at one moment, however long it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from policy_sched.model import REQUEUE_EVERY, PodInfo, QueuedPod, QueueState
from policy_sched.queue.backoff import Timing
from policy_sched.queue.contents import Contents
from policy_sched.queue.cooperative_tasks import Agenda
from policy_sched.queue.heap import SortKey
from policy_sched.queue.hints import HintTable, Strategy
from policy_sched.queue.queue_state import go

Gate: TypeAlias = Callable[[PodInfo, str], str]
"""Ask PreEnqueue plugins about a pod, first the one (if any) that gated it before; return the
name of the one that objects, or an empty string."""

POOL: Final = (QueueState.UNSCHEDULABLE, QueueState.GATED)


class Transfers(Contents):
    """Contents that can be moved. ``agenda``: what is being done with many of them."""

    def __init__(
        self,
        sort_key: Callable[[QueuedPod], SortKey],
        timing: Timing,
        gate: Gate | None,
        hints: HintTable,
    ) -> None:
        super().__init__(sort_key, timing)
        self.agenda = Agenda()
        self.hints = hints
        self._gate = gate

    def _judge_what_happened(self, queued: QueuedPod) -> Strategy:
        """Return what the events mean for a pod that came while it was in flight."""
        if queued.place is QueueState.BINDING or not (queued.rejected_by or queued.pending):
            return Strategy.AFTER_BACKOFF
        best = Strategy.SKIP
        for one in self._in_flight.since(queued):
            best = max(best, self.hints.judge(queued, one.event, one.old, one.new))
            if best is Strategy.IMMEDIATELY or (best and not queued.pending):
                break
        return best

    def _requeue(self, queued: QueuedPod, strategy: Strategy, cause: str, now: int) -> None:
        if strategy is Strategy.SKIP:
            if queued.place not in POOL:
                go(queued, QueueState.UNSCHEDULABLE)
                self._unschedulable_pods.add(queued, cause)
                self._set_timer(queued, now)
        elif strategy is Strategy.AFTER_BACKOFF and self._backoff.backing_off(queued, now):
            self._to_backoff(queued, cause, now)
        else:
            self._to_active(queued, cause, now)

    def _to_active(self, queued: QueuedPod, cause: str, now: int) -> None:
        """Move a pod to activeQ unless it is gated; PreEnqueue has passed for a pod from
        backoffQ."""
        if queued.place is not QueueState.BACKOFF and self._is_gated(queued, cause, now):
            return
        self._take_out(queued)
        self._make_ready(queued, cause, now)

    def _make_ready(self, queued: QueuedPod, cause: str, now: int) -> None:
        go(queued, QueueState.ACTIVE)
        if queued.ready_at == 0:
            queued.ready_at = now
        self._active.push(queued)
        self._active_arrivals[cause] += 1

    def _to_backoff(self, queued: QueuedPod, cause: str, now: int) -> None:
        if self._is_gated(queued, cause, now):
            return
        self._take_out(queued)
        go(queued, QueueState.BACKOFF)
        self._backoff.add(queued, cause)

    def _is_gated(self, queued: QueuedPod, cause: str, now: int) -> bool:
        """Ask PreEnqueue; a pod that is gated goes to the pool, or stays there."""
        objector = "" if self._gate is None else self._gate(queued.info, queued.gated_by)
        if not objector:
            queued.gated_by = ""
            return False
        self._keep_out(queued, objector, cause, now)
        return True

    def _keep_out(self, queued: QueuedPod, objector: str, cause: str, now: int) -> None:
        was_in_pool = queued.place in POOL
        queued.gated_by, queued.flushed = objector, False
        queued.rejected_by |= {objector}
        go(queued, QueueState.GATED)
        if was_in_pool:
            self._unschedulable_pods.regroup(queued)
        else:
            self._unschedulable_pods.add(queued, cause)
        self._set_timer(queued, now)

    def _set_timer(self, queued: QueuedPod, now: int) -> None:
        """A pod of the pool is due by the time if a plugin that rejected it wants that."""
        every = self.hints.every(queued)
        if every:
            self._timers.set(queued, now + every)

    def _tried_by_time(self, queued: QueuedPod, now: int) -> None:
        if queued.place is QueueState.GATED:
            self._to_active(queued, REQUEUE_EVERY.label, now)
        else:
            self._requeue(queued, Strategy.AFTER_BACKOFF, REQUEUE_EVERY.label, now)
