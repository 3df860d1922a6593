"""The scheduler's loop: pop, decide, execute; and what happens by itself between two pods.

Theory of operation. `schedule_one` decides one pod and executes the decision until it has to wait.
A waiting attempt keeps its node assumed (see `Bindings`) and ends in a later `run_due`, which does
everything that is due: queue flushes, responses to waiting pods, deadlines. Nothing here sleeps or
blocks; `next_wakeup` returns when `run_due` has work, so the same loop runs under a simulated
clock.

Operations on many pods are tasks of the queue's agenda. With slices a call may return before they
are done; while `half_done` is true no pod is popped, nothing falls due, and the caller reports no
change, so that no decision sees a partial update.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from random import Random
from typing import Final

from policy_sched.framework import WAIT, Code, Handle, Status
from policy_sched.model import ASSIGNED_POD_DELETE, NO_PLUGINS, PodInfo, QueueState
from policy_sched.queue import Finding, SchedulingQueue, Work, at_once
from policy_sched.scheduler.attempt import (
    Attempt,
    Bind,
    Decision,
    PendingDecision,
    Preempt,
    Profile,
    Reject,
)
from policy_sched.scheduler.binding_cycle import binding_cycle, reserve_and_permit, undo
from policy_sched.scheduler.event_recorder import record_event
from policy_sched.scheduler.eviction import prepare_candidate
from policy_sched.scheduler.failure import handle_scheduling_failure, record_no_profile, rejectors
from policy_sched.scheduler.in_flight_bindings import Binding, Bindings
from policy_sched.scheduler.outcome import Outcome
from policy_sched.scheduler.parts import Decide, PrepareCandidate, ScheduleGroup, TellGroup
from policy_sched.scheduler.pod_event_handlers import PodEventHandlers
from policy_sched.scheduler.pod_group_cycle import MemberDecision, schedule_group, tell_group
from policy_sched.scheduler.queueing_hints import NO_PROFILE, objection
from policy_sched.scheduler.scheduling_cycle import begin_to_decide
from policy_sched.scheduler.searches import Searches

__all__ = ["Outcome", "Scheduler"]


class Scheduler(PodEventHandlers):
    """One cache, one queue, and a profile per schedulerName.

    ``rng`` breaks ties. All effects go through `handle`. ``profiles`` may be replaced as a whole
    between two calls; attempts end with the profile that they began with. So may ``decide``,
    ``prepare_candidate``, ``schedule_group`` and ``tell_group``, by instrumented versions.
    """

    def __init__(
        self,
        handle: Handle,
        queue: SchedulingQueue,
        profiles: Mapping[str, Profile],
        rng: Random,
    ) -> None:
        super().__init__(handle, queue)
        self.profiles = profiles
        self.decide: Decide = begin_to_decide
        self.prepare_candidate: PrepareCandidate = prepare_candidate
        self.schedule_group: ScheduleGroup = schedule_group
        self.tell_group: TellGroup = tell_group
        self._rng = rng
        self._bindings = Bindings(lambda: handle.objects.version)
        self._told: deque[Outcome] = deque()
        self._late: list[Outcome] = []
        self._broken: list[tuple[Binding, Status]] = []
        self._searches = Searches(self.agenda)

    # News of pods.

    def add_pod(self, pod: PodInfo) -> Outcome | None:
        """Queue a pending pod; an Outcome if a PreEnqueue plugin keeps it out (it is gated)."""
        if pod.pod_group:
            self._count_in(pod)
        queued = self.queue.add(pod)
        if queued.place is QueueState.GATED:
            status = objection(self.profiles, pod, queued.gated_by)
            return Outcome(pod, None, message=status.message(), status=status)
        if pod.nominated_node_name:
            self.handle.nominator.nominate(pod, pod.nominated_node_name)
        return None

    # One pod.

    def schedule_one(self) -> Outcome | None:
        """Decide and execute the next pod; None if none is ready, or something is half done.

        Of a group whose pods go to one place together, all are: the others' outcomes come next.
        """
        if self._told:
            return self._told.popleft()
        if self._arrived:
            self._tell_siblings()
        if self.half_done:
            return None
        queued = self.queue.pop()
        if queued is None:
            return None
        attempt = Attempt(queued, self.profiles[queued.info.scheduler_name])
        if queued.info.terminating:
            return self._skip_pod(attempt)
        if queued.info.pod_group:
            work = self._with_its_group(attempt)
        else:
            decision = self.decide(attempt, self.handle.nodes, self._rng)
            if not isinstance(decision, PendingDecision):
                outcome = self.execute(attempt, decision)
                if self.handle.waiting_pods:
                    self.handle.waiting_pods.ask_again()
                return outcome
            work = self._finishing(attempt, decision)
        self.agenda.begin(work)
        return self._told.popleft() if self._told else None

    def _with_its_group(self, attempt: Attempt) -> Work:
        """Decide a pod of a group, and the others too if they go to one place together."""
        group = yield from self.schedule_group(attempt, self.queue, self.handle, self._rng)
        if group is None:
            decision = self.decide(attempt, self.handle.nodes, self._rng)
            yield from self._finishing(attempt, decision)
            return
        for verdict in group.verdicts:
            self._told.append(self._execute_member(verdict))
            yield
        self.tell_group(attempt.queued.info, group.status, self.handle)
        if self.handle.waiting_pods:
            self.handle.waiting_pods.ask_again()

    def _finishing(self, attempt: Attempt, begun: Decision | PendingDecision) -> Work:
        decision = yield from self._searches.finished(begun)
        self._told.append(self.execute(attempt, decision))
        if self.handle.waiting_pods:
            self.handle.waiting_pods.ask_again()

    def execute(self, attempt: Attempt, decision: Decision) -> Outcome:
        """Execute the decision until it has to wait."""
        if not isinstance(decision, Bind):
            return self._fail(attempt, decision)
        # Pods with equal signatures may share the evaluation; reservations belong to this pod
        # alone.
        attempt.state = attempt.state.clone()
        status, waiting = reserve_and_permit(attempt, decision.node, self.handle)
        if not status.ok:
            return self._handle_binding_failure(attempt, decision, status)
        self._activate(attempt)
        steps = binding_cycle(attempt, decision.node, waiting, self.handle)
        binding = Binding(attempt, decision, steps)
        ended = self._advance(binding)
        if ended is not None:
            return self._end(binding) if ended.ok else at_once(self._ending(binding, ended))
        pod, pipeline = attempt.queued.info, attempt.profile.pipeline
        return Outcome(pod, decision, decision.node, "", WAIT, True, pipeline, attempt)

    def _execute_member(self, verdict: MemberDecision) -> Outcome:
        """Execute the decision for a pod of a group."""
        attempt, decision = verdict.attempt, verdict.decision
        if isinstance(decision, Bind):
            return self.execute(attempt, decision)
        node = None if decision.nominated else ""
        return self._queue_again(
            attempt, decision, decision.status, verdict.rejected_by, decision.message, node
        )

    def _skip_pod(self, attempt: Attempt) -> Outcome:
        """Skip a pod that is being deleted."""
        pod = attempt.queued.info
        self.queue.done(pod.uid)
        text = f"skip schedule deleting pod: {pod.key}"
        record_event(self.handle, pod, "Warning", "FailedScheduling", "Scheduling", text)
        status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))
        return Outcome(pod, None, "", text, status, pipeline=attempt.profile.pipeline)

    def _fail(self, attempt: Attempt, decision: Preempt | Reject) -> Outcome:
        """Evict the victims if preemption chose any; requeue the pod and report the failure."""
        pod = attempt.queued.info
        message, node = decision.message, None
        if isinstance(decision, Preempt):
            error = self.prepare_candidate(pod, decision, self.handle)
            if error:
                message = f"{message} {error}"
                # No pod may be evicted, so no event would requeue this pod.
                self.queue.activate([pod.uid])
            else:
                node = decision.node
        elif not decision.nominated:
            node = ""
        rejected_by = rejectors(decision)
        return self._queue_again(attempt, decision, decision.status, rejected_by, message, node)

    # What waits.

    @property
    def in_flight(self) -> int:
        """The number of attempts that hold a node and wait for Permit, a plugin or the API
        server."""
        return len(self._bindings) + len(self._broken)

    @property
    def half_done(self) -> bool:
        """Whether a slice ended in the middle of something: nothing else may be begun."""
        return self.agenda.half_done

    def go_on(self) -> bool:
        """Go on with what is half done for a slice; return whether nothing is any more."""
        return self.agenda.go_on()

    def run_due(self) -> list[Outcome]:
        """Run everything that is due; return the outcomes of attempts that waited."""
        if not self.half_done:
            now = self.handle.now()
            if self._arrived:
                self._tell_siblings()
            if not self.half_done:
                self.queue.flush()
            if self.cache.time_to_live:
                for pod in self.cache.expire(now):
                    self.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, pod, None)
            if self._bindings or self._broken:
                self.agenda.begin(self._going_on(now))
        if not self._late:
            return []
        late, self._late = self._late, []
        return late

    def _going_on(self, now: int) -> Work:
        """Resume all attempts that may have a response, until none is left."""
        while self._broken:
            binding, status = self._broken.pop(0)
            self._late.append((yield from self._ending(binding, status)))
        while self._bindings:
            self.handle.waiting_pods.ask_again()
            due = self._bindings.due(now)
            if not due:
                break
            for binding in due:
                if (ended := self._advance(binding)) is not None:
                    self._late.append((yield from self._ending(binding, ended)))
                yield

    def poll_bindings(self) -> list[Outcome]:
        """Resume waiting attempts during a decision; return those that succeeded.

        Failed attempts end in the next `run_due`: undoing them changes the cache that the decision
        reads.
        """
        outcomes = []
        for binding in self._bindings.due(self.handle.now()):
            status = self._advance(binding)
            if status is not None and status.ok:
                outcomes.append(self._end(binding))
            elif status is not None:
                self._broken.append((binding, status))
        return outcomes

    def next_binding_poll(self) -> int | None:
        """Return when `poll_bindings` has something to do, as `next_wakeup` does for `run_due`."""
        return self.handle.now() if self._bindings.has_answer() else self._bindings.next_time()

    def next_wakeup(self) -> int | None:
        """Return when `run_due` has something to do, in nanoseconds since 1970; None: never."""
        if self._unfinished() or self._bindings.has_answer():
            return self.handle.now()
        expiry = self.cache.next_expiry() if self.cache.time_to_live else None
        times = (self.queue.next_flush(), self._bindings.next_time(), expiry)
        return min((time for time in times if time is not None), default=None)

    def idle(self) -> bool:
        """Tell whether neither `schedule_one` nor `run_due` has anything to do now."""
        if self._unfinished() or not self.queue.idle():
            return False
        wakeup = self.next_wakeup()
        return wakeup is None or wakeup > self.handle.now()

    def _unfinished(self) -> bool:
        left = self._told or self._arrived or self._late or self._broken
        return bool(left) or self.agenda.half_done

    def shutdown(self, message: str) -> list[Outcome]:
        """Cancel attempts that wait for Permit or for a PreBind plugin; return them.

        Binding requests that were sent are not cancelled: `run_due` handles their responses, and
        the attempts that are cancelled after the slice is over.
        """
        self.agenda.begin(self._abandoning(Status(Code.ERROR, (message,))))
        late, self._late = self._late, []
        return late

    def _abandoning(self, status: Status) -> Work:
        pods = self.handle.waiting_pods
        for binding in self._bindings:
            uid = binding.attempt.queued.info.uid
            if pods.get(uid) is not None or uid in pods.pre_binding:
                self._bindings.take(uid)
                binding.steps.close()
                self._late.append((yield from self._ending(binding, status)))
                yield

    def _advance(self, binding: Binding) -> Status | None:
        """Resume an attempt; return its status, or None if it has to wait."""
        attempt = binding.attempt
        try:
            binding.wait = next(binding.steps)
        except StopIteration as end:
            status: Status = end.value
            return status
        if attempt.permitted and attempt.queued.place is QueueState.IN_FLIGHT:
            self.queue.mark_binding(attempt.queued)
        self._bindings.set_aside(binding, self.handle.now())
        return None

    # How it ends.

    def _end(self, binding: Binding) -> Outcome:
        """Finish an attempt that succeeded."""
        attempt, decision = binding.attempt, binding.decision
        pod, pipeline = attempt.queued.info, attempt.profile.pipeline
        self.queue.done(pod.uid)
        self._activate(attempt)
        return Outcome(pod, decision, decision.node, pipeline=pipeline, attempt=attempt)

    def _ending(self, binding: Binding, status: Status) -> Finding[Outcome]:
        """End an attempt; one that failed is undone, and others may have counted on it.

        Room that is free again is an event for the others; for the pod itself only if something
        broke, for what rejected it did not change by its own leaving.
        """
        if status.ok:
            return self._end(binding)
        attempt, decision = binding.attempt, binding.decision
        pod = attempt.queued.info
        if not undo(attempt, decision.node, self.handle):
            return self._handle_binding_failure(attempt, decision, status)
        gone = pod.on(decision.node)
        if not status.rejected:
            yield from self.queue.moving(ASSIGNED_POD_DELETE, gone, None)
        outcome = self._handle_binding_failure(attempt, decision, status)
        if status.rejected:
            yield from self.queue.moving(ASSIGNED_POD_DELETE, gone, None, but=pod.uid)
        return outcome

    def _handle_binding_failure(self, attempt: Attempt, decision: Bind, status: Status) -> Outcome:
        """Queue a pod again that was chosen a node for.

        Until it is permitted a rejection speaks of one node, as upstream words it; later nothing
        can make a pod unschedulable, and it is tried again after a backoff.
        """
        message, rejected_by = status.message(), _BROKEN
        if not attempt.permitted:
            rejected_by = rejectors(status)
            if status.rejected:
                message = f"0/1 nodes are available: 1 {message}."
        return self._queue_again(attempt, decision, status, rejected_by, message, "")

    def _queue_again(
        self,
        attempt: Attempt,
        decision: Decision,
        status: Status,
        rejected_by: tuple[frozenset[str], frozenset[str]],
        message: str,
        nominated: str | None,
    ) -> Outcome:
        """Put the pod back and say why, with its nomination from now on (None: as it was)."""
        queued, pod = attempt.queued, attempt.queued.info
        if nominated is not None:
            self._nominate(pod, nominated)
        there = (
            self.queue.add_unschedulable_if_not_present(queued, *rejected_by) is not QueueState.OUT
        )
        handle_scheduling_failure(pod, status, message, self.handle, nominated, there=there)
        if queued.gated_by == NO_PROFILE:
            record_no_profile(pod, self.handle)
        pipeline = attempt.profile.pipeline
        return Outcome(pod, decision, "", message, status, pipeline=pipeline, attempt=attempt)


_BROKEN: Final = (NO_PLUGINS, NO_PLUGINS)
