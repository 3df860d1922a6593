"""SchedulingQueue: which pod goes next, and when a pod that found no node is tried again.

Theory of operation. Everything the queue knows of a pod is its QueuedPod, and `places` says where
it may go from where it is. What kube-scheduler's queue does (backend/queue) is done here without
locks, threads or sleeping: time comes from a clock, and the caller runs `flush` when `next_flush`
is due. The queue knows no plugin: the sort key, the PreEnqueue gate and the hints are passed in as
functions.

What concerns many pods is work on the queue's `agenda`, which may be done in slices. Every
other method has what is half done finished first, so that whatever is called when, pods stand
where they would if all had been done at once. For a pod that is in flight an event counts from the
beginning of its work: the pod is either among those that are looked at, or it is in flight and
judged when it returns.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator

from policy_sched.model import (
    BACKOFF_COMPLETE,
    FORCE_ACTIVATE,
    NO_PLUGINS,
    POLICY_RELOAD,
    POP_FROM_BACKOFF,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULABLE_POD_ADD,
    UNSCHEDULABLE_POD_UPDATE,
    UNSCHEDULABLE_TIMEOUT,
    ClusterEvent,
    PodInfo,
    QueuedPod,
    QueueState,
)
from policy_sched.queue.backoff import Timing
from policy_sched.queue.changes import pod_changes
from policy_sched.queue.cooperative_tasks import Work
from policy_sched.queue.heap import SortKey
from policy_sched.queue.hints import HintTable, Strategy
from policy_sched.queue.queue_state import QueueStateError, go
from policy_sched.queue.transfers import POOL, Gate, Transfers
from policy_sched.queue.unschedulable_pods import Rejection

_UNDER_WAY = (QueueState.IN_FLIGHT, QueueState.BINDING)
TAKEN_ALONG = (QueueState.ACTIVE, QueueState.BACKOFF, QueueState.UNSCHEDULABLE)
"""Places from which a pod may be tried along with another one of its group."""
_ON_ITS_WAY = (QueueState.ACTIVE, QueueState.BINDING)


class SchedulingQueue(Transfers):
    """Pods that are not bound, each in exactly one place.

    ``sort_key`` is the QueueSort plugin of the profiles (it is one for all of them); equal keys
    leave in the order in which they came. ``clock`` returns nanoseconds since 1970. Without a
    ``gate`` no pod is gated, without ``hints`` no event concerns anybody.
    """

    def __init__(
        self,
        sort_key: Callable[[QueuedPod], SortKey],
        clock: Callable[[], int],
        *,
        gate: Gate | None = None,
        hints: HintTable | None = None,
        timing: Timing | None = None,
    ) -> None:
        timing = Timing() if timing is None else timing
        super().__init__(sort_key, timing, gate, HintTable({}) if hints is None else hints)
        self._clock = clock
        self._swept = clock() // self.timing.sweep

    # A pod's way.

    def add(self, pod: PodInfo, cause: str = UNSCHEDULABLE_POD_ADD) -> QueuedPod:
        """Take in a pending pod; one that is known already is updated."""
        self.agenda.finish()
        queued = self._pods.get(pod.uid)
        if queued is not None:
            self.update(pod)
            return queued
        now = self._clock()
        queued = QueuedPod(pod, now, now)
        self._pods[pod.uid] = queued
        self._to_active(queued, cause, now)
        return queued

    def pop(self) -> QueuedPod | None:
        """Take the pod that goes next, which is in flight from now on; None if none is ready."""
        self.agenda.finish()
        queued = self._active.pop()
        if queued is None:
            queued = self._backoff.pop_early() if self.timing.pop_from_backoff else None
            if queued is None:
                return None
            self._active_arrivals[POP_FROM_BACKOFF] += 1
        self._sent_off(queued)
        return queued

    def pop_member(self, uid: str) -> QueuedPod | None:
        """Take a pod out of its turn, with another one of its group; None if it cannot be tried.

        A pod that is gated, or under way already, stays where it is.
        """
        self.agenda.finish()
        queued = self._pods.get(uid)
        if queued is None or queued.place not in TAKEN_ALONG:
            return None
        self._take_out(queued)
        self._sent_off(queued)
        return queued

    def _sent_off(self, queued: QueuedPod) -> None:
        go(queued, QueueState.IN_FLIGHT)
        queued.attempts += 1
        queued.rejected_by = queued.pending = NO_PLUGINS
        self._in_flight.add(queued)

    def done(self, uid: str) -> None:
        """A pod in flight or binding is bound, or is not to be tried again; others stay."""
        self.agenda.finish()
        queued = self._pods.get(uid)
        if queued is not None and queued.place in _UNDER_WAY:
            self._let_go(queued)
            go(queued, QueueState.OUT)
            del self._pods[uid]

    def mark_binding(self, queued: QueuedPod) -> None:
        """A pod in flight is permitted to be bound, which takes time; events are not kept for it.

        Raises QueueStateError if the pod is not in flight.
        """
        self.agenda.finish()
        go(queued, QueueState.BINDING)
        self._in_flight.remove(queued)
        self._binding[queued.info.uid] = queued

    def add_unschedulable_if_not_present(
        self,
        queued: QueuedPod,
        rejected_by: frozenset[str] = NO_PLUGINS,
        pending: frozenset[str] = NO_PLUGINS,
    ) -> QueueState:
        """Take a pod back from an attempt in vain, and return where it went.

        ``rejected_by`` and ``pending`` are the plugins that answered so; if there is none, the
        attempt met an unexpected error. A pod that was deleted meanwhile is forgotten. One that
        was binding is tried again after its backoff, whatever rejected it. Raises QueueStateError
        if the pod is neither in flight nor binding.
        """
        self.agenda.finish()
        if queued.place not in _UNDER_WAY:
            raise QueueStateError(f"pod {queued.info.key} comes back, but is {queued.place.name}")
        if queued.deleted:
            self.done(queued.info.uid)
            return queued.place
        if queued.newer is not None:
            queued.info, queued.newer = queued.newer, None
        queued.rejected_by, queued.pending = rejected_by, pending
        if rejected_by or pending:
            queued.unschedulable_count += 1
            queued.consecutive_errors = 0
        else:
            queued.consecutive_errors += 1
        queued.enqueued_at = now = self._clock()
        queued.backoff_until, queued.flushed = 0, False
        strategy = self._judge_what_happened(queued)
        self._let_go(queued)
        self._requeue(queued, strategy, SCHEDULE_ATTEMPT_FAILURE, now)
        return queued.place

    def update(self, pod: PodInfo) -> QueuedPod:
        """Take note that a pod changed; one that is not known is added."""
        self.agenda.finish()
        queued = self._pods.get(pod.uid)
        if queued is None:
            return self.add(pod, UNSCHEDULABLE_POD_UPDATE)
        match queued.place:
            case QueueState.ACTIVE:
                queued.info = pod
                self._active.update(queued)
            case QueueState.BACKOFF:
                queued.info = pod
                self._backoff.update(queued)
            case QueueState.IN_FLIGHT | QueueState.BINDING:
                self._update_under_way(queued, pod)
            case _:
                self._update_in_pool(queued, pod)
        return queued

    def delete(self, uid: str) -> None:
        """The pod is gone; one that is in flight or binding leaves when its attempt is over."""
        self.agenda.finish()
        queued = self._pods.get(uid)
        if queued is None:
            return
        if queued.place in _UNDER_WAY:
            queued.deleted = True
            return
        self._take_out(queued)
        go(queued, QueueState.OUT)
        del self._pods[uid]

    def activate(self, uids: Iterable[str]) -> None:
        """Make pods ready now, whatever they wait for, except for what keeps them gated.

        A pod in flight is retried if it returns. Unknown pods are ignored.
        """
        self.agenda.finish()
        for uid in uids:
            queued = self._pods.get(uid)
            if queued is None:
                continue
            if queued.place is QueueState.IN_FLIGHT:
                self._in_flight.note(FORCE_ACTIVATE, None, queued.info)
            elif queued.place not in _ON_ITS_WAY:
                self._to_active(queued, FORCE_ACTIVATE.label, self._clock())

    # What happens around it.

    def move_all_to_active_or_backoff(
        self, event: ClusterEvent, old: object = None, new: object = None, *, but: str = ""
    ) -> None:
        """Move pods that the event may make schedulable to activeQ or backoffQ.

        ``old`` and ``new``: the object before and after (None: it was not there, or is gone).
        ``but`` is the UID of a pod that stays where it is. Pods in flight are judged when they
        come back.
        """
        if self.agenda.half_done or self.hints.interests_anybody(event):
            self.agenda.begin(self.moving(event, old, new, but=but))

    def moving(
        self, event: ClusterEvent, old: object = None, new: object = None, *, but: str = ""
    ) -> Work:
        """Do what `move_all_to_active_or_backoff` does, as a part of other work."""

        def concerned() -> list[QueuedPod] | None:
            hints = self.hints
            if not hints.interests_anybody(event):
                return None
            return self._unschedulable_pods.of_groups(
                lambda rejection: hints.concerns(rejection, event), but
            )

        return self._moving(concerned, event, old, new, self._clock())

    def move_among(self, uids: Iterable[str], event: ClusterEvent, new: object) -> None:
        """Do as `move_all_to_active_or_backoff` for something that concerns none but these pods."""
        self.agenda.begin(self.moving_among(tuple(uids), event, new))

    def moving_among(self, uids: Iterable[str], event: ClusterEvent, new: object) -> Work:
        """Do what `move_among` does, as a part of other work."""

        def known() -> Iterator[QueuedPod]:
            found = (self._pods[uid] for uid in uids if uid in self._pods)
            return (queued for queued in found if queued.place in POOL)

        return self._moving(known, event, None, new, self._clock())

    def flush_backoff(self) -> None:
        """Make all pods ready whose backoff is over."""
        self.agenda.begin(self._flushing_backoff(self._clock()))

    def flush_unschedulable(self) -> None:
        """Try pods again for which nothing happened for too long."""
        self.agenda.begin(self._sweeping(self._clock()))

    def flush(self) -> None:
        """Do what is due now: end backoffs, and sweep the pool once in ``timing.sweep``."""
        self.agenda.finish()
        now = self._clock()
        end, due = self._backoff.next_end(), self._timers.next()
        if end is not None and end <= now:
            self.agenda.begin(self._flushing_backoff(now))
        if due is not None and due <= now:
            self.agenda.begin(self._trying_by_time(now))
        if (sweep := now // self.timing.sweep) != self._swept:
            self._swept = sweep
            self.agenda.begin(self._sweeping(now))

    def reload(
        self,
        gate: Gate | None,
        hints: HintTable,
        *,
        sort_key: Callable[[QueuedPod], SortKey] | None = None,
        helps: Callable[[Rejection], bool] | None = None,
        regate: Container[str] = (),
    ) -> None:
        """Replace the policies; pods in flight are judged when they return.

        ``sort_key``: another order; None leaves it as it is. ``helps`` tells of pods that were
        rejected or are gated, group by group, whether they may hope now; the others stay
        untouched. ``regate``: profiles whose PreEnqueue plugins are others now, for pods that are
        ready or back off.
        """
        now = self._clock()
        work = self.reloading(gate, hints, now, sort_key=sort_key, helps=helps, regate=regate)
        self.agenda.begin(work)

    def reloading(
        self,
        gate: Gate | None,
        hints: HintTable,
        now: int,
        *,
        sort_key: Callable[[QueuedPod], SortKey] | None = None,
        helps: Callable[[Rejection], bool] | None = None,
        regate: Container[str] = (),
    ) -> Work:
        """Do what `reload` does at that time, as a part of other work."""
        self._gate, self.hints = gate, hints.instead_of(self.hints)
        if sort_key is not None:
            yield from self._active.rekeying(sort_key)
            yield from self._backoff.rekeying(sort_key)
        if gate is not None and regate:
            for queued in [*self._active.ordered(), *self._backoff]:
                if queued.info.scheduler_name in regate and (objector := gate(queued.info, "")):
                    self._take_out(queued)
                    self._keep_out(queued, objector, POLICY_RELOAD.label, now)
                yield
        hopeful = self._unschedulable_pods.of_groups(helps or (lambda _: True))
        for queued in hopeful:
            if queued.place is QueueState.GATED:
                self._to_active(queued, POLICY_RELOAD.label, now)
                yield
        waiting = [queued for queued in hopeful if queued.place is QueueState.UNSCHEDULABLE]
        yield from self._moving(lambda: waiting, POLICY_RELOAD, None, None, now)

    # How it is done.

    def _moving(
        self,
        find: Callable[[], Iterable[QueuedPod] | None],
        event: ClusterEvent,
        old: object,
        new: object,
        now: int,
    ) -> Work:
        pods = find()
        if pods is None:
            return
        self._in_flight.note(event, old, new)
        label = event.label
        for queued in pods:
            strategy = self.hints.judge(queued, event, old, new)
            if strategy is not Strategy.SKIP:
                self._requeue(queued, strategy, label, now)
                if queued.place is QueueState.GATED:
                    self._unschedulable_pods.arrivals[label] += 1
            yield

    def _flushing_backoff(self, now: int) -> Work:
        for queued in self._backoff.pop_complete(now):
            self._make_ready(queued, BACKOFF_COMPLETE, now)
            yield

    def _trying_by_time(self, now: int) -> Work:
        for queued in self._timers.take(now):
            self._tried_by_time(queued, now)
            yield

    def _sweeping(self, now: int) -> Work:
        latest = now - self.timing.unschedulable_timeout
        event = UNSCHEDULABLE_TIMEOUT
        pods = self._unschedulable_pods.of_groups(
            lambda rejection: self.hints.concerns(rejection, event)
        )
        late = [queued for queued in pods if queued.enqueued_at < latest]
        for queued in late:
            queued.flushed = True
        if late or any(queued.enqueued_at < latest for queued in self._unschedulable_pods):
            yield from self._moving(lambda: late, event, None, None, now)

    def _update_under_way(self, queued: QueuedPod, pod: PodInfo) -> None:
        before = queued.info if queued.newer is None else queued.newer
        queued.newer, queued.deleted = pod, False
        if queued.place is QueueState.BINDING:
            return
        for event in pod_changes(before, pod):
            self._in_flight.note(event, before, pod)

    def _update_in_pool(self, queued: QueuedPod, pod: PodInfo) -> None:
        before, queued.info, now = queued.info, pod, self._clock()
        for event in pod_changes(before, pod):
            strategy = self.hints.judge(queued, event, before, pod)
            self._requeue(queued, strategy, event.label, now)
            if queued.place not in POOL:
                break
