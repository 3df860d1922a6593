"""SchedulingQueue: which pod goes next, and when a pod that found no node is tried again.

Theory of operation. Everything the queue knows of a pod is its QueuedPod; `queue_state` says where
a pod may go from where it is. What kube-scheduler's queue does (backend/queue) is done here without
locks, threads or sleeping: time comes from a clock, and the caller runs `flush` when `next_flush`
is due. The queue imports no plugin: the sort key, the PreEnqueue gate and the hints are passed in
as functions. Every method is synchronous and complete when it returns; an event is judged once for
each group of pods that the same plugins rejected, so that one event for 10,000 pods is short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Final, TypeAlias

from policy_sched.model import (
    BACKOFF_COMPLETE,
    FORCE_ACTIVATE,
    NO_PLUGINS,
    POLICY_RELOAD,
    POP_FROM_BACKOFF,
    REQUEUE_EVERY,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULABLE_POD_ADD,
    UNSCHEDULABLE_POD_UPDATE,
    UNSCHEDULABLE_TIMEOUT,
    ClusterEvent,
    PodInfo,
    QueuedPod,
    QueueState,
)
from policy_sched.queue.backoff import Backoff, Timing, window
from policy_sched.queue.changes import pod_changes
from policy_sched.queue.heap import PodHeap, SortKey
from policy_sched.queue.hints import HintTable, Strategy
from policy_sched.queue.in_flight_events import InFlight
from policy_sched.queue.queue_heap import QueueHeap, QueueOrder
from policy_sched.queue.queue_state import QueueStateError, transition
from policy_sched.queue.unschedulable_pods import Rejection, Timers, UnschedulablePods

Gate: TypeAlias = Callable[[PodInfo, str], str]
"""Runs the PreEnqueue plugins for a pod, first the one (if any) that gated it before; returns the
name of the plugin that rejects the pod, or an empty string."""

PUT_OFF: Final = "PutOff"
"""The cause of coming to backoffQ for a pod whose decision would take long, after one that did."""
SCHEDULABLE_WITH_GROUP: Final = (QueueState.ACTIVE, QueueState.BACKOFF, QueueState.UNSCHEDULABLE)
"""Places from which a pod may be tried along with another one of its group."""
_UNSCHEDULABLE: Final = (QueueState.UNSCHEDULABLE, QueueState.GATED)
# An attribute of an enum takes as long as a call of a small function.
_ACTIVE: Final = QueueState.ACTIVE
_IN_FLIGHT: Final = QueueState.IN_FLIGHT
_BINDING: Final = QueueState.BINDING
_OUT: Final = QueueState.OUT
_UNDER_WAY: Final = (_IN_FLIGHT, _BINDING)
_NOT_ACTIVATED: Final = (QueueState.ACTIVE, QueueState.BINDING)


def held_text(name: str, holding: str) -> str:
    """Return why pods of a strict queue are not tried; ``holding``: the pod that holds them."""
    return f'{holding} was tried in vain and holds it in the strict queue "{name}"'


class SchedulingQueue:
    """Pods that are not bound, each in exactly one place.

    ``sort_key`` is the QueueSort plugin of the profiles (it is one for all of them); equal keys
    leave in the order in which they came. With an ``order`` the pods are in several queues, and it
    says whose turn it is. ``clock`` returns nanoseconds since 1970. Without a ``gate`` no pod is
    gated, without ``hints`` no event concerns any pod.
    """

    def __init__(
        self,
        sort_key: Callable[[QueuedPod], SortKey],
        clock: Callable[[], int],
        *,
        gate: Gate | None = None,
        hints: HintTable | None = None,
        timing: Timing | None = None,
        order: QueueOrder | None = None,
    ) -> None:
        self.timing = Timing() if timing is None else timing
        self.hints = HintTable({}) if hints is None else hints
        self._gate = gate
        self._clock = clock
        self._swept = clock() // self.timing.sweep
        tickets = self._tickets = count(1)
        self.by_uid: dict[str, QueuedPod] = {}
        """All pods by UID, wherever they are; to be read only."""
        self._active: PodHeap | QueueHeap = PodHeap(sort_key, tickets)
        self._queues: QueueHeap | None = None
        if order is not None:
            self._active = self._queues = QueueHeap(sort_key, order, tickets)
        self._active_arrivals: Counter[str] = Counter()
        self._backoff = Backoff(sort_key, tickets, self.timing)
        self._unschedulable_pods = UnschedulablePods(tickets)
        self._timers = Timers()
        self._in_flight = InFlight()
        self._binding: dict[str, QueuedPod] = {}
        self._members_popped = 0
        self._transition = transition
        self._changed: Callable[[QueuedPod], None] | None = None

    def tell(self, changed: Callable[[QueuedPod], None]) -> None:
        """Call a function after each change of a pod's place, form or time in the queue."""

        def told(queued: QueuedPod, place: QueueState) -> None:
            transition(queued, place)
            changed(queued)

        self._transition, self._changed = told, changed

    # One pod, from its arrival to its binding.

    def add(self, pod: PodInfo, cause: str = UNSCHEDULABLE_POD_ADD) -> QueuedPod:
        """Add a pending pod; one that is known already is updated."""
        if pod.uid in self.by_uid:
            return self.update(pod)
        now = self._clock()
        queued = self.by_uid[pod.uid] = QueuedPod(pod, now, now)
        plugin = "" if self._gate is None else self._gate(pod, "")
        if plugin:
            self._keep_gated(queued, plugin, cause, now)
        else:
            self._make_ready(queued, cause, now)
        return queued

    def pop(self) -> QueuedPod | None:
        """Remove the pod that goes next; it is in flight from now on. None if none is ready."""
        if self._queues is not None:
            self._sort_anew(self._queues)
        queued = self._active.pop()
        if queued is None:
            queued = self._pop_early() if self.timing.pop_from_backoff else None
            if queued is None:
                return None
            self._active_arrivals[POP_FROM_BACKOFF] += 1
        self._begin_attempt(queued)
        return queued

    def pop_member(self, uid: str) -> QueuedPod | None:
        """Pop a pod out of turn, together with another one of its group.

        None if it cannot be tried: a pod that is gated, or under way already, stays where it is.
        """
        queued = self.by_uid.get(uid)
        if queued is None or queued.place not in SCHEDULABLE_WITH_GROUP:
            return None
        self._take_out(queued)
        self._begin_attempt(queued)
        self._members_popped += 1
        return queued

    def done(self, uid: str) -> None:
        """Forget a pod in flight or binding: it is bound, or not to be tried again."""
        queued = self.by_uid.get(uid)
        if queued is not None and queued.place in _UNDER_WAY:
            if queued.place is _BINDING:
                del self._binding[uid]
            else:
                self._in_flight.remove(queued)
            queued.place = _OUT
            if self._changed is not None:
                self._changed(queued)
            if self._queues is None:  # for speed: most pods leave here
                del self.by_uid[uid]
            else:
                self._forget(uid)

    def mark_binding(self, queued: QueuedPod) -> None:
        """Note that a pod in flight is permitted and its binding takes time; it misses events.

        Raises QueueStateError if the pod is not in flight.
        """
        self._transition(queued, QueueState.BINDING)
        self._in_flight.remove(queued)
        self._binding[queued.info.uid] = queued

    def add_unschedulable_if_not_present(
        self,
        queued: QueuedPod,
        rejected_by: frozenset[str] = NO_PLUGINS,
        pending: frozenset[str] = NO_PLUGINS,
        *,
        after_backoff: bool = False,
    ) -> QueueState:
        """Put a pod back after an attempt in vain, and return where it went.

        ``rejected_by`` and ``pending`` are the plugins that returned so; without any the attempt
        met an unexpected error. A pod that was deleted meanwhile is forgotten. One that binds,
        and any with ``after_backoff``, is tried again after its backoff, whatever rejected it.
        Raises QueueStateError if the pod is neither in flight nor binding.
        """
        if queued.place not in _UNDER_WAY:
            raise QueueStateError(f"pod {queued.info.key} comes back, but is {queued.place.name}")
        if queued.deleted:
            self.done(queued.info.uid)
            return queued.place
        if self._queues is not None:
            self._queues.wait(queued)
        if queued.newer is not None:
            queued.info, queued.newer = queued.newer, None
            if self._queues is not None:
                self._queues.wait_anew(queued)
        queued.rejected_by, queued.pending = rejected_by, pending
        if rejected_by or pending:
            queued.unschedulable_count += 1
            queued.consecutive_errors = 0
        else:
            queued.consecutive_errors += 1
        queued.enqueued_at = queued.last_failed_at = now = self._clock()
        queued.backoff_until, queued.flushed = 0, False
        strategy = Strategy.AFTER_BACKOFF if after_backoff else self._missed_events(queued)
        self._end_attempt(queued)
        self._requeue(queued, strategy, SCHEDULE_ATTEMPT_FAILURE, now)
        return queued.place

    def put_off(self, queued: QueuedPod, until: int) -> None:
        """Put a pod in flight back untried, to be ready again at a time; as one that met an error.

        Raises QueueStateError if the pod is not in flight.
        """
        if queued.place is not QueueState.IN_FLIGHT:
            raise QueueStateError(f"pod {queued.info.key} is put off, but is {queued.place.name}")
        if self._queues is not None:
            self._queues.wait(queued)
        queued.attempts -= 1
        queued.backoff_until = window(until)
        self._in_flight.remove(queued)
        self._transition(queued, QueueState.BACKOFF)
        self._backoff.add(queued, PUT_OFF)

    def update(self, pod: PodInfo) -> QueuedPod:
        """Replace a pod by its newer form; one that is not known is added."""
        queued = self.by_uid.get(pod.uid)
        if queued is None:
            return self.add(pod, UNSCHEDULABLE_POD_UPDATE)
        match queued.place:
            case QueueState.ACTIVE:
                self._take_form(queued, pod)
                self._active.update(queued)
            case QueueState.BACKOFF:
                self._take_form(queued, pod)
                self._backoff.update(queued)
                if self._queues is not None:
                    self._queues.wait_anew(queued)
            case QueueState.IN_FLIGHT | QueueState.BINDING:
                self._update_under_way(queued, pod)
            case _:
                self._update_in_pool(queued, pod)
        return queued

    def delete(self, uid: str) -> None:
        """Remove a pod; one that is in flight or binding leaves when its attempt is over."""
        queued = self.by_uid.get(uid)
        if queued is None:
            return
        if queued.place in _UNDER_WAY:
            queued.deleted = True
            return
        self._take_out(queued)
        self._transition(queued, QueueState.OUT)
        self._forget(uid)

    def activate(self, uids: Iterable[str]) -> None:
        """Make pods ready now, whatever they wait for, except for what keeps them gated.

        A pod in flight is retried if it returns. Unknown pods are ignored.
        """
        for uid in uids:
            queued = self.by_uid.get(uid)
            if queued is None:
                continue
            if queued.place is QueueState.IN_FLIGHT:
                if not queued.activated:  # once is enough: a group's pods activate each other
                    queued.activated = True
                    self._in_flight.note(FORCE_ACTIVATE, None, queued.info)
            elif queued.place not in _NOT_ACTIVATED:
                self._to_active(queued, FORCE_ACTIVATE.label, self._clock())

    @property
    def activatable(self) -> int:
        """A number that rises when pods begin to wait, or are popped along with others."""
        waiting = self._backoff.arrivals.total() + self._unschedulable_pods.arrivals.total()
        return waiting + self._members_popped

    # Many pods: events, timeouts, reloads.

    @property
    def listens(self) -> bool:
        """Whether an event may move a pod, or a pod is in flight."""
        return bool(self._unschedulable_pods.group_of or self._in_flight.pods)

    def move_all_to_active_or_backoff(
        self, event: ClusterEvent, old: object = None, new: object = None, *, except_uid: str = ""
    ) -> None:
        """Move pods that the event may make schedulable to activeQ or backoffQ.

        ``old`` and ``new``: the object before and after (None: it was not there, or is gone).
        ``except_uid`` is the UID of a pod that stays where it is. Pods in flight are judged when
        they come back.
        """
        hints = self.hints
        if not self._unschedulable_pods.group_of and not self._in_flight.pods:
            return  # for speed: most events of a quiet cluster end here
        if not hints.concerns_any_plugin(event):
            return  # as upstream's isEventOfInterest
        groups = self._unschedulable_pods.groups(
            lambda rejection: hints.concerns(rejection, event), except_uid
        )
        self._move(groups, event, old, new)

    def move_among(self, uids: Iterable[str], event: ClusterEvent, new: object) -> None:
        """Move as `move_all_to_active_or_backoff` does, but only these pods."""
        self._in_flight.note(event, None, new)
        now = self._clock()
        for uid in uids:
            queued = self.by_uid.get(uid)
            if queued is not None and queued.place in _UNSCHEDULABLE:
                strategy = self.hints.judge(queued, event, None, new)
                self._move_one(queued, strategy, event.label, now)

    def flush(self) -> None:
        """Do what is due now: end backoffs, retry by time, and sweep the pool of waiting pods."""
        now = self._clock()
        if len(self._active) == len(self.by_uid):
            self._swept = now // self.timing.sweep
            return  # every pod is ready
        end = self._backoff.next_end()
        if end is not None and end <= now:
            self.flush_backoff()
        due = self._timers.next()
        if due is not None and due <= now:
            for queued in self._timers.take(now):
                gated = queued.place is QueueState.GATED
                strategy = Strategy.IMMEDIATELY if gated else Strategy.AFTER_BACKOFF
                self._requeue(queued, strategy, REQUEUE_EVERY.label, now)
        if (sweep := now // self.timing.sweep) != self._swept:
            self._swept = sweep
            self.flush_unschedulable()

    def flush_backoff(self) -> None:
        """Make all pods ready whose backoff is over."""
        self._make_all_ready(
            self._backoff.pop_complete(now := self._clock()), BACKOFF_COMPLETE, now
        )

    def flush_unschedulable(self) -> None:
        """Try pods again for which nothing happened for ``timing.unschedulable_timeout``."""
        latest = self._clock() - self.timing.unschedulable_timeout
        if not self._unschedulable_pods.any_before(latest):
            return
        event = UNSCHEDULABLE_TIMEOUT
        late: list[list[QueuedPod]] = []
        for group in self._unschedulable_pods.groups(lambda r: self.hints.concerns(r, event)):
            late.append([queued for queued in group if queued.enqueued_at < latest])
            for queued in late[-1]:
                queued.flushed = True
        self._move(late, event, None, None)

    def reload(
        self,
        gate: Gate | None,
        hints: HintTable,
        *,
        sort_key: Callable[[QueuedPod], SortKey] | None = None,
        order: QueueOrder | None = None,
        helps: Callable[[Rejection], bool] | None = None,
        regate: Callable[[PodInfo], bool] | None = None,
    ) -> None:
        """Replace the policies; pods in flight are judged when they return.

        ``sort_key``: another order, with ``order`` of several queues; None leaves both as they are.
        ``helps`` tells of pods that were
        rejected or are gated, group by group, whether the reload may help them; the others stay
        untouched. ``regate`` tells of pods that are ready or back off whether their PreEnqueue
        plugins are others now.
        """
        self._gate, self.hints = gate, hints.instead_of(self.hints)
        now = self._clock()
        if sort_key is not None:
            self._order_by(sort_key, order)
        if gate is not None and regate is not None:
            for queued in [*self._active.ordered(), *self._backoff]:
                if regate(queued.info) and (plugin := gate(queued.info, "")):
                    self._take_out(queued)
                    self._keep_gated(queued, plugin, POLICY_RELOAD.label, now)
        for queued in self._unschedulable_pods.of_groups(
            lambda rejection: bool(rejection.gated_by) and (helps is None or helps(rejection))
        ):
            self._to_active(queued, POLICY_RELOAD.label, now)
        waiting = self._unschedulable_pods.groups(
            lambda rejection: not rejection.gated_by and (helps is None or helps(rejection))
        )
        self._move(waiting, POLICY_RELOAD, None, None)

    # What the queue holds.

    def __len__(self) -> int:
        return len(self.by_uid)

    def get(self, uid: str) -> QueuedPod | None:
        """Return the pod with that UID, wherever it is; None if it is not in the queue."""
        return self.by_uid.get(uid)

    def active(self) -> list[QueuedPod]:
        """Return the pods that are ready, in the order in which they will be popped."""
        if self._queues is not None:
            self._sort_anew(self._queues)
        return self._active.ordered()

    def queue_of(self, uid: str) -> tuple[str, str]:
        """Return the name of a pod's queue, and the pod that holds it in a strict queue, if any.

        Both are empty without an order of several queues, or where the pod does not wait.
        """
        queued = self.by_uid.get(uid)
        if self._queues is None or queued is None or queued.place not in SCHEDULABLE_WITH_GROUP:
            return "", ""
        self._sort_anew(self._queues)
        holding = self.by_uid.get(self._queues.held_by(queued))
        return queued.queue, "" if holding is None else holding.info.key

    def why_held(self, uid: str) -> str:
        """Return why a pod that is ready is not tried; "" if no other pod holds it."""
        name, holding = self.queue_of(uid)
        return held_text(name, holding) if holding else ""

    def backoff(self) -> list[QueuedPod]:
        """Return the pods that back off: rejected ones in order, then those that met errors."""
        return list(self._backoff)

    def unschedulable(self) -> list[QueuedPod]:
        """Return the pods that wait for an event, in the order in which they came."""
        return self._unschedulable_pods.of_groups(lambda rejection: not rejection.gated_by)

    def gated(self) -> list[QueuedPod]:
        """Return the pods that PreEnqueue plugins keep out, in the order in which they came."""
        return self._unschedulable_pods.of_groups(lambda rejection: bool(rejection.gated_by))

    def in_flight(self) -> list[QueuedPod]:
        """Return the pods that were popped and are not permitted yet, in popping order."""
        return list(self._in_flight.pods.values())

    def events_in_flight(self) -> list[str]:
        """Return the labels of the events that are kept for pods in flight, oldest first."""
        return [event.event.label for event in self._in_flight.events]

    def binding(self) -> list[QueuedPod]:
        """Return the pods that are permitted and whose binding takes time."""
        return list(self._binding.values())

    def idle(self) -> bool:
        """Return whether nothing can be popped until time passes or an event arrives."""
        if self._queues is not None:
            self._sort_anew(self._queues)
        return self._active.peek() is None and not (
            self.timing.pop_from_backoff and self._backoff.has_early()
        )

    def next_flush(self) -> int | None:
        """Return when `flush` will have something to do; None if only an event can help."""
        oldest, sweep = self._unschedulable_pods.oldest(), self.timing.sweep
        times = [self._backoff.next_end(), self._timers.next()]
        if oldest is not None:
            times.append(((oldest + self.timing.unschedulable_timeout) // sweep + 1) * sweep)
        return min((time for time in times if time is not None), default=None)

    def lengths(self) -> dict[str, int]:
        """Return how many pods wait, by queue (pending_pods)."""
        gated = self._unschedulable_pods.gated()
        return {
            "active": len(self._active),
            "backoff": len(self._backoff),
            "unschedulable": len(self._unschedulable_pods) - gated,
            "gated": gated,
        }

    def incoming(self) -> Counter[tuple[str, str]]:
        """Return how many pods came, by queue and cause (queue_incoming_pods_total)."""
        arrivals = {
            "active": self._active_arrivals,
            "backoff": self._backoff.arrivals,
            "unschedulable": self._unschedulable_pods.arrivals,
        }
        return Counter(
            {(name, cause): n for name, causes in arrivals.items() for cause, n in causes.items()}
        )

    def rejections(self) -> Counter[tuple[str, str]]:
        """Return how many pods each plugin keeps from being bound, by plugin and profile."""
        return Counter(
            (plugin, queued.info.scheduler_name)
            for queued in self.by_uid.values()
            for plugin in queued.rejected_by | queued.pending
        )

    # Several queues.

    def _order_by(self, sort_key: Callable[[QueuedPod], SortKey], order: QueueOrder | None) -> None:
        """Order all pods anew; those that came first are first among equals, as before."""
        ready = sorted(self._active.ordered(), key=lambda queued: queued.ticket)
        waiting = [*self._backoff, *self.unschedulable()]
        self._backoff.rekey(sort_key)
        self._queues, self._active = None, PodHeap(sort_key, self._tickets)
        if order is not None:
            self._active = self._queues = QueueHeap(sort_key, order, self._tickets)
            for queued in waiting:
                self._queues.wait(queued)
        self._active.push_all(ready)

    def _sort_anew(self, queues: QueueHeap) -> None:
        """Find the places of the pods anew of which the order tells that they may differ."""
        for uid in queues.order.take_stale_pods():
            queued = self.by_uid.get(uid)
            if queued is None:
                continue
            if queued.place is QueueState.ACTIVE:
                queues.update(queued)
                continue
            if queued.place is QueueState.BACKOFF:
                self._backoff.update(queued)
            queues.wait_anew(queued)

    def _pop_early(self) -> QueuedPod | None:
        """Pop a pod whose backoff is not over; one that is held in its queue is ready instead."""
        while (queued := self._backoff.pop_early()) is not None:
            if self._queues is None or not self._queues.held_by(queued):
                return queued
            self._make_ready(queued, POP_FROM_BACKOFF, self._clock())
        return None

    def _forget(self, uid: str) -> None:
        """A pod is in no place any more."""
        del self.by_uid[uid]
        if self._queues is not None:
            self._queues.release(uid)
            self._queues.order.forget_pod(uid)

    # Inside. ``now`` is the time of the operation: all its pods are judged at one moment.

    def _move(
        self, groups: Iterable[list[QueuedPod]], event: ClusterEvent, old: object, new: object
    ) -> None:
        """Judge groups of pods with equal rejections, and move those that the event may help."""
        self._in_flight.note(event, old, new)
        moved = [
            (queued.ticket, queued, strategy)
            for group in groups
            for queued, strategy in self.hints.judge_group(group, event, old, new)
        ]
        moved.sort(key=_ticket)
        label, now = event.label, self._clock()
        if len(moved) == 1:
            self._move_one(moved[0][1], moved[0][2], label, now)
        elif moved:
            self._move_all(moved, label, now)

    def _move_all(
        self, moved: Iterable[tuple[int, QueuedPod, Strategy]], cause: str, now: int
    ) -> None:
        """Move pods of the pool as `_move_one` does one after the other.

        What is the same for all of them is done once.
        """
        gate, backing_off = self._gate, self._backoff.backing_off
        ready: list[QueuedPod] = []
        waiting: list[QueuedPod] = []
        for _, queued, strategy in moved:
            plugin = "" if gate is None else gate(queued.info, queued.gated_by)
            if plugin:
                self._keep_gated(queued, plugin, cause, now)
                self._unschedulable_pods.arrivals[cause] += 1
                continue
            queued.gated_by = ""
            if strategy is Strategy.AFTER_BACKOFF and backing_off(queued, now):
                waiting.append(queued)
            else:
                ready.append(queued)
        self._unschedulable_pods.remove_all(ready)
        self._make_all_ready(ready, cause, now)
        self._unschedulable_pods.remove_all(waiting)
        for queued in waiting:
            if self._queues is not None:
                self._queues.wait_on(queued)
            self._transition(queued, QueueState.BACKOFF)
        self._backoff.add_all(waiting, cause)

    def _move_one(self, queued: QueuedPod, strategy: Strategy, cause: str, now: int) -> None:
        """Move a pod of the pool; one that stays gated counts as having come again."""
        if strategy is not Strategy.SKIP:
            self._requeue(queued, strategy, cause, now)
            if queued.place is QueueState.GATED:
                self._unschedulable_pods.arrivals[cause] += 1

    def _begin_attempt(self, queued: QueuedPod) -> None:
        queued.attempts += 1
        if self._queues is not None:
            self._queues.release(queued.info.uid)
        self._transition(queued, _IN_FLIGHT)
        queued.rejected_by = queued.pending = NO_PLUGINS
        queued.activated = False
        self._in_flight.add(queued)

    def _end_attempt(self, queued: QueuedPod) -> None:
        if queued.place is QueueState.BINDING:
            del self._binding[queued.info.uid]
        else:
            self._in_flight.remove(queued)

    def _missed_events(self, queued: QueuedPod) -> Strategy:
        """Return what the events that came while a pod was in flight mean for it."""
        if queued.place is QueueState.BINDING or not (queued.rejected_by or queued.pending):
            return Strategy.AFTER_BACKOFF  # as upstream: no event can mend an unexpected error
        best = Strategy.SKIP
        for event in self._in_flight.since(queued):
            best = max(best, self.hints.judge(queued, event.event, event.old, event.new))
            if best is Strategy.IMMEDIATELY or (best and not queued.pending):
                break  # for speed: nothing better can come
        return best

    def _requeue(self, queued: QueuedPod, strategy: Strategy, cause: str, now: int) -> None:
        if strategy is Strategy.SKIP:
            if queued.place not in _UNSCHEDULABLE:
                self._transition(queued, QueueState.UNSCHEDULABLE)
                self._unschedulable_pods.add(queued, cause)
                self._set_timer(queued, now)
        elif strategy is Strategy.AFTER_BACKOFF and self._backoff.backing_off(queued, now):
            if not self._is_gated(queued, cause, now):
                self._take_out(queued)
                if self._queues is not None:
                    self._queues.wait_on(queued)
                self._transition(queued, QueueState.BACKOFF)
                self._backoff.add(queued, cause)
        else:
            self._to_active(queued, cause, now)

    def _to_active(self, queued: QueuedPod, cause: str, now: int) -> None:
        """Move a pod to activeQ unless it is gated; a pod in backoffQ has passed PreEnqueue."""
        if queued.place is QueueState.BACKOFF or not self._is_gated(queued, cause, now):
            self._take_out(queued)
            self._make_ready(queued, cause, now)

    def _make_ready(self, queued: QueuedPod, cause: str, now: int) -> None:
        self._transition(queued, _ACTIVE)
        if queued.ready_at == 0:
            queued.ready_at = now
        self._active.push(queued)
        self._active_arrivals[cause] += 1

    def _make_all_ready(self, pods: Sequence[QueuedPod], cause: str, now: int) -> None:
        """Make pods ready as `_make_ready` does one after the other."""
        for queued in pods:
            self._transition(queued, _ACTIVE)
            if queued.ready_at == 0:
                queued.ready_at = now
        self._active.push_all(pods)
        if pods:
            self._active_arrivals[cause] += len(pods)

    def _is_gated(self, queued: QueuedPod, cause: str, now: int) -> bool:
        """Run PreEnqueue; a pod that is gated goes to the pool, or stays there."""
        plugin = "" if self._gate is None else self._gate(queued.info, queued.gated_by)
        if not plugin:
            queued.gated_by = ""
            return False
        self._keep_gated(queued, plugin, cause, now)
        return True

    def _keep_gated(self, queued: QueuedPod, plugin: str, cause: str, now: int) -> None:
        was_in_pool = queued.place in _UNSCHEDULABLE
        queued.gated_by, queued.flushed = plugin, False
        queued.rejected_by |= {plugin}
        if self._queues is not None:
            self._queues.release(queued.info.uid)
        self._transition(queued, QueueState.GATED)
        if was_in_pool:
            self._unschedulable_pods.regroup(queued)
        else:
            self._unschedulable_pods.add(queued, cause)
        self._set_timer(queued, now)

    def _set_timer(self, queued: QueuedPod, now: int) -> None:
        """Set when a pod of the pool is retried, if a plugin that rejected it asks for that.

        A gate asks for a time that is over only by mistake: its pod waits twice as long each time,
        as one that is tried in vain.
        """
        due = self.hints.retry_at(queued, now)
        if 0 < due <= now and queued.place is QueueState.GATED:
            least, most = self.timing.initial_backoff, self.timing.max_backoff
            due = now + max(least, min(now - queued.enqueued_at, most))
        if due:
            self._timers.set(queued, due)

    def _take_out(self, queued: QueuedPod) -> None:
        match queued.place:
            case QueueState.ACTIVE:
                self._active.remove(queued)
            case QueueState.BACKOFF:
                self._backoff.remove(queued)
            case QueueState.UNSCHEDULABLE | QueueState.GATED:
                self._unschedulable_pods.remove(queued)

    def _take_form(self, queued: QueuedPod, pod: PodInfo) -> None:
        """Replace a pod that is not under way by its newer form."""
        queued.info = pod
        if self._changed is not None:
            self._changed(queued)

    def _update_under_way(self, queued: QueuedPod, pod: PodInfo) -> None:
        before = queued.info if queued.newer is None else queued.newer
        queued.newer, queued.deleted = pod, False
        if queued.place is QueueState.BINDING:
            return
        for event in pod_changes(before, pod):
            self._in_flight.note(event, before, pod)

    def _update_in_pool(self, queued: QueuedPod, pod: PodInfo) -> None:
        before, now = queued.info, self._clock()
        self._take_form(queued, pod)
        if self._queues is not None:
            self._queues.wait_anew(queued)
        for event in pod_changes(before, pod):
            strategy = self.hints.judge(queued, event, before, pod)
            self._requeue(queued, strategy, event.label, now)
            if queued.place not in _UNSCHEDULABLE:
                break


def _ticket(moved: tuple[int, QueuedPod, Strategy]) -> int:
    return moved[0]
