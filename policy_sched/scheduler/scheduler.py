"""The scheduler: pop, decide, execute; and what is due between two pods.

Theory of operation. The scheduler is synchronous and owns cache, queue, nominator and profiles.
`schedule_one` pops a pod, decides it and executes the decision until it has to wait. A waiting
attempt keeps its node assumed (see `InFlightBindings`) and ends in a later `run_due`, which does
everything that is due: queue flushes, results for waiting pods, deadlines. Nothing here sleeps or
blocks, but for requests to HTTP extenders; `next_wakeup` returns when `run_due` has work, so the
same code runs under a simulated clock.

Changes of the cluster, results of bindings and other policies are applied between two pods only. A
caller that must not block makes an attempt ``brief``: `choose` raises TakesLong where it would take
long. The caller then runs it in a worker thread, and leaves the scheduler alone until it returns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final, TypeAlias

from policy_sched import model
from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import TakesLong
from policy_sched.framework import WAIT, Code, Handle, PodGroupMember, PodsToActivate, Status
from policy_sched.language.values import remaining
from policy_sched.queue import SchedulingQueue
from policy_sched.scheduler import binding_cycle, failure, pod_group_cycle
from policy_sched.scheduler.api_calls import record_event
from policy_sched.scheduler.attempt import (
    Attempt,
    Bind,
    Decision,
    Outcome,
    Preempt,
    Profile,
    Reject,
)
from policy_sched.scheduler.canary import Canary
from policy_sched.scheduler.eviction import evict_for_group, prepare_candidate
from policy_sched.scheduler.queueing_hints import NO_PROFILE, objection, worth_judging
from policy_sched.scheduler.scheduling_cycle import decide

Decide: TypeAlias = Callable[[Attempt, NodeTable, Random], Decision]
ScheduleGroup: TypeAlias = Callable[
    [Attempt, SchedulingQueue, Handle, Random], pod_group_cycle.GroupDecision | None
]


@dataclass(slots=True)
class Observers:
    """Functions that are told what a scheduler does, in their order; empty lists cost nothing.

    They change nothing that decisions read.
    """

    timer: Callable[[], float] = time.perf_counter
    """Returns seconds from a monotonic clock; what follows gets the time of a beginning."""
    deciding: list[Callable[[Attempt], None]] = field(default_factory=list)
    """A pod is about to be decided by itself."""
    decided: list[Callable[[Attempt, Decision, float], None]] = field(default_factory=list)
    """A pod was decided by itself."""
    group_decided: list[Callable[[pod_group_cycle.GroupDecision, float], None]] = field(
        default_factory=list
    )
    """The pods of a group were decided together."""
    group_executed: list[Callable[[model.PodInfo, pod_group_cycle.GroupDecision], None]] = field(
        default_factory=list
    )
    """The decision for the group of a pod was executed."""
    evicted: list[Callable[[model.PodInfo, Preempt, str, float], None]] = field(
        default_factory=list
    )
    """Victims were evicted for a pod, or an error kept them, which is empty otherwise."""


class Scheduler:
    """One cache, one queue, and a profile per schedulerName.

    ``rng`` breaks ties. All effects go through `handle`. ``profiles`` may be replaced as a whole
    between two calls; attempts end with the profile that they began with. ``decide`` and
    ``schedule_group`` are the algorithms, which a simulation may replace by ones that choose
    otherwise; ``observers`` only look on.
    """

    def __init__(
        self,
        handle: Handle,
        queue: SchedulingQueue,
        profiles: Mapping[str, Profile],
        rng: Random,
    ) -> None:
        self.handle = handle
        self.cache = handle.cache
        self.queue = queue
        self.profiles = profiles
        self.canary: Canary | None = None
        """What decides some of the pods in place of `profiles`."""
        self.observers = Observers()
        self.decide: Decide = decide
        self.schedule_group: ScheduleGroup = pod_group_cycle.schedule_group
        self._rng = rng
        self._bindings = binding_cycle.InFlightBindings(lambda: handle.objects.changes, handle.now)
        self._new_members: dict[model.GroupKey, model.PodInfo] = {}
        self._activated: set[model.GroupKey] = set()
        self._activated_at = -1
        aggregates = handle.nodes.aggregates
        aggregates.join_queue(queue.by_uid, lambda: queue.tell(aggregates.queued))

    # One pod.

    def schedule_one(self) -> Outcome | None:
        """Pop the next pod, decide it and execute the decision; None if no pod is ready."""
        attempt = self.pop()
        if attempt is None:
            return None
        return self.execute(attempt, self.choose(attempt))

    def pop(self) -> Attempt | None:
        """Return an attempt for the pod that goes next; None if none is ready."""
        if self._new_members:
            self._requeue_siblings()
        queued = self.queue.pop()
        if queued is None:
            return None
        profile = self.profiles[queued.info.scheduler_name]
        if self.canary is not None:
            profile = self.canary.profile_of(queued.info) or profile
        return Attempt(queued, profile)

    def profile_of(self, pod: model.PodInfo) -> Profile | None:
        """Return the profile that decides a pod, None if there is none of that name any more."""
        canary = None if self.canary is None else self.canary.profile_of(pod)
        return self.profiles.get(pod.scheduler_name) if canary is None else canary

    def choose(self, attempt: Attempt) -> Decision | pod_group_cycle.GroupDecision | None:
        """Decide a pod, and the others of its group if they are placed together.

        None for a pod that is being deleted. Raises TakesLong for a brief attempt.
        """
        pod, profile = attempt.queued.info, attempt.profile
        if pod.terminating:
            return None
        together = pod.pod_group and pod_group_cycle.decided_together(pod, profile.pipeline)
        if attempt.brief and (together or profile.extenders):
            raise TakesLong("extenders are called, or a group is placed")
        chosen: Decision | pod_group_cycle.GroupDecision
        budget, observers = self.handle.budget, self.observers
        start = observers.timer() if observers.decided else 0.0
        # For most pods there is nothing to limit.
        steps = remaining() if attempt.brief else None
        if steps is not None:
            steps.begin_brief()
        if attempt.brief or together or pod.may_use_devices:
            budget.begin(brief=attempt.brief)
        try:
            group = None
            if together:
                group = self.schedule_group(attempt, self.queue, self.handle, self._rng)
            if group is not None:
                chosen = group
                for group_decided in observers.group_decided:
                    group_decided(group, start)
            else:
                for deciding in observers.deciding:
                    deciding(attempt)
                attempt.began = attempt.began or start
                chosen = decision = self.decide(attempt, self.cache.nodes, self._rng)
                for decided in observers.decided:
                    decided(attempt, decision, start)
        finally:
            budget.under_way = False
            if steps is not None:
                steps.end_brief()
        if steps is not None and (budget.exceeded or steps.exceeded):
            raise TakesLong("the attempt takes long", worked=True)
        return chosen

    def execute(
        self, attempt: Attempt, chosen: Decision | pod_group_cycle.GroupDecision | None
    ) -> Outcome:
        """Execute what `choose` returned, until it has to wait."""
        if chosen is None:
            return self._skip_pod(attempt)
        if isinstance(chosen, pod_group_cycle.GroupDecision):
            first, *others = self.execute_group(attempt, chosen)
            first.others = tuple(others)
            return first
        budget, paid = self.handle.budget, attempt.queued.info.may_use_devices
        if paid:
            budget.resume()
        if isinstance(chosen, Bind):
            outcome = self._bind(attempt, chosen)
        else:
            outcome = self._fail(attempt, chosen)
        budget.under_way = False
        if self.handle.waiting_pods.pods:
            self.handle.waiting_pods.recheck()
        return outcome

    def execute_group(
        self, attempt: Attempt, chosen: pod_group_cycle.GroupDecision
    ) -> Iterator[Outcome]:
        """Execute the decision for a group, and yield the outcome of each pod.

        Until the last one the caller leaves the scheduler alone.
        """
        self.handle.budget.resume()
        if chosen.victims:
            evict_for_group(attempt.queued.info, chosen.victims, self.handle)
        yield from map(self._execute_member, chosen.members)
        pod_group_cycle.update_group_condition(attempt.queued.info, chosen, self.handle)
        for told in self.observers.group_executed:
            told(attempt.queued.info, chosen)
        self.handle.budget.under_way = False
        if self.handle.waiting_pods.pods:
            self.handle.waiting_pods.recheck()

    def _bind(self, attempt: Attempt, decision: Bind, *, grouped: bool = False) -> Outcome:
        # Pods with equal signatures may share the evaluation; reservations belong to this pod
        # alone.
        evaluation = decision.evaluation
        attempt.state, attempt.hooks = evaluation.state.clone(), evaluation.filtering.hooks
        if grouped:
            attempt.state.write(PodGroupMember())
        pod = attempt.queued.info
        if pod.pod_group:
            self.handle.groups.tried(pod, self.handle.now())
        status, waiting = binding_cycle.reserve_and_permit(attempt, decision.node, self.handle)
        if status.code is not _SUCCESS:
            return self._handle_binding_failure(attempt, decision, status)
        begun = binding_cycle.begin_binding(attempt, decision.node, waiting, self.handle)
        ended = (
            begun
            if isinstance(begun, Status)
            else self._advance(binding_cycle.InFlightBinding(attempt, decision, begun))
        )
        if ended is not None and ended.code is _SUCCESS:
            return self._end(attempt, decision, ended)
        if (wanted := attempt.state.read(PodsToActivate)) is not None:
            self._activate(wanted)
        if ended is not None:
            return self._end(attempt, decision, ended)
        pipeline = attempt.profile.pipeline
        return Outcome(pod, decision, decision.node, "", WAIT, True, pipeline, attempt)

    def _evict(self, pod: model.PodInfo, decision: Preempt) -> str:
        """Evict the victims; return what went wrong, empty if nothing did."""
        start = self.observers.timer()
        error = prepare_candidate(pod, decision, self.handle)
        for told in self.observers.evicted:
            told(pod, decision, error, start)
        return error

    def _execute_member(self, member: pod_group_cycle.MemberDecision) -> Outcome:
        """Execute the decision for a pod of a group."""
        attempt, decision, message = member.attempt, member.decision, member.message
        if isinstance(decision, Bind):
            return self._bind(attempt, decision, grouped=True)
        node = member.nominated
        failure.note_group_failure(attempt.queued.info, decision, attempt.state, self.handle)
        if isinstance(decision, Preempt):
            error = self._evict(attempt.queued.info, decision)
            if error:
                message, node = f"{message} {error}", None
        by = member.rejected_by
        return self._queue_again(attempt, decision, member.status, by, message, node)

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
            error = self._evict(pod, decision)
            if error:
                message = f"{message} {error}"
                # No pod may be evicted, so no event would requeue this pod.
                self.queue.activate([pod.uid])
            else:
                node = decision.node
        elif not decision.nominated:
            node = ""
        if pod.pod_group:
            failure.note_group_failure(pod, decision, attempt.state, self.handle)
        rejected_by = failure.rejectors(decision)
        return self._queue_again(attempt, decision, decision.status, rejected_by, message, node)

    # What waits.

    @property
    def in_flight(self) -> int:
        """The number of attempts that hold a node and wait for Permit, a plugin or the API
        server."""
        return len(self._bindings)

    def run_due(self) -> list[Outcome]:
        """Run everything that is due; return the outcomes of attempts that waited."""
        now = self.handle.now()
        if self._new_members:
            self._requeue_siblings()
        self.queue.flush()
        if self.cache.time_to_live:
            for pod in self.cache.expire(now):
                self.queue.move_all_to_active_or_backoff(model.ASSIGNED_POD_DELETE, pod, None)
        outcomes: list[Outcome] = []
        bindings, waiting_pods = self._bindings, self.handle.waiting_pods
        while bindings:
            if waiting_pods.pods:
                waiting_pods.recheck()
            due = bindings.due(now)
            if not due:
                break
            for binding in due:
                ended = self._advance(binding)
                if ended is not None:
                    outcomes.append(self._end(binding.attempt, binding.decision, ended))
        return outcomes

    def permit_again(self, profiles: Container[str]) -> None:
        """Run the Permit plugins now in force for the pods of some profiles that wait for older."""
        waiting_pods = self.handle.waiting_pods
        for binding in self._bindings:
            attempt = binding.attempt
            pod = attempt.queued.info
            waiting = waiting_pods.get(pod.uid)
            if waiting is not None and not waiting.ended and pod.scheduler_name in profiles:
                profile = self.profiles[pod.scheduler_name]
                if attempt.profile.pipeline.content_hash != profile.pipeline.content_hash:
                    binding_cycle.permit_again(waiting, attempt, profile.runner, self.handle)

    def has_woken(self) -> bool:
        """Return whether an attempt that waits was woken, for which `run_due` is called then."""
        return self._bindings.has_woken()

    def next_wakeup(self) -> int | None:
        """Return when `run_due` has something to do, in nanoseconds since 1970; None: never."""
        if self._new_members or self._bindings.has_woken():
            return self.handle.now()
        expiry = self.cache.next_expiry() if self.cache.time_to_live else None
        times = (self.queue.next_flush(), self._bindings.next_time(), expiry)
        return min((time for time in times if time is not None), default=None)

    def idle(self) -> bool:
        """Tell whether neither `schedule_one` nor `run_due` has anything to do now."""
        if self._new_members or not self.queue.idle():
            return False
        wakeup = self.next_wakeup()
        return wakeup is None or wakeup > self.handle.now()

    def shutdown(self, message: str) -> list[Outcome]:
        """Cancel attempts that wait for Permit or for a PreBind plugin; return them.

        Binding requests that were sent are not cancelled: `run_due` handles their responses.
        """
        status, pods = Status(Code.ERROR, (message,)), self.handle.waiting_pods
        outcomes = []
        for binding in self._bindings:
            uid = binding.attempt.queued.info.uid
            if pods.get(uid) is not None or uid in pods.pre_binding:
                self._bindings.take(uid)
                binding.steps.close()
                outcomes.append(self._end(binding.attempt, binding.decision, status))
        return outcomes

    def _advance(self, binding: binding_cycle.InFlightBinding) -> Status | None:
        """Resume an attempt; return its status, or None if it has to wait."""
        attempt = binding.attempt
        try:
            binding.wait = next(binding.steps)
        except StopIteration as end:
            status: Status = end.value
            return status
        if attempt.permitted and attempt.queued.place is model.QueueState.IN_FLIGHT:
            self.queue.mark_binding(attempt.queued)
        self._bindings.set_aside(binding, self.handle.now())
        return None

    # How it ends.

    def _end(self, attempt: Attempt, decision: Bind, status: Status) -> Outcome:
        """End an attempt; one that failed is undone, and others may have counted on it.

        Room that is free again is an event for the others; for the pod itself only if something
        broke, for what rejected it did not change by its own leaving.
        """
        pod = attempt.queued.info
        if status.code is _SUCCESS:
            self.queue.done(pod.uid)
            if (wanted := attempt.state.read(PodsToActivate)) is not None:
                self._activate(wanted)
            pipeline = attempt.profile.pipeline
            return Outcome(pod, decision, decision.node, pipeline=pipeline, attempt=attempt)
        if not binding_cycle.undo(attempt, decision.node, self.handle):
            return self._handle_binding_failure(attempt, decision, status)
        gone = pod.on(decision.node)
        if not status.rejected:
            self.queue.move_all_to_active_or_backoff(model.ASSIGNED_POD_DELETE, gone, None)
        outcome = self._handle_binding_failure(attempt, decision, status)
        if status.rejected:
            self.queue.move_all_to_active_or_backoff(
                model.ASSIGNED_POD_DELETE, gone, None, except_uid=pod.uid
            )
        return outcome

    def _handle_binding_failure(self, attempt: Attempt, decision: Bind, status: Status) -> Outcome:
        """Queue a pod again that was chosen a node for.

        Until it is permitted a rejection speaks of one node, as upstream words it; later nothing
        can make a pod unschedulable, and it is tried again after a backoff.
        """
        message, rejected_by = status.message(), _BROKEN
        pod = attempt.queued.info
        if pod.pod_group:
            self.handle.groups.sent_back(pod, self.handle.now(), rejected=status.rejected)
        if not attempt.permitted:
            rejected_by = failure.rejectors(status)
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
        """Put the pod back with the reason, with its nomination from now on (None: as it was)."""
        queued, pod = attempt.queued, attempt.queued.info
        if nominated is not None:
            self._nominate(pod, nominated)
        # As upstream has it, no event retries a pod that is tried with its group.
        after_backoff = bool(pod.pod_group) and pod_group_cycle.gated(pod, attempt.profile.pipeline)
        if after_backoff and not attempt.early:
            rejected_by = _BROKEN  # so that its backoff does not end early
        state = self.queue.add_unschedulable_if_not_present(
            queued, *rejected_by, after_backoff=after_backoff
        )
        there = state is not model.QueueState.OUT
        failure.handle_scheduling_failure(pod, status, message, self.handle, nominated, there=there)
        if queued.gated_by == NO_PROFILE:
            failure.record_no_profile(pod, self.handle)
        pipeline = attempt.profile.pipeline
        return Outcome(pod, decision, "", message, status, False, pipeline, attempt, nominated)

    # Changes of pending pods.

    def add_pod(self, pod: model.PodInfo) -> Outcome | None:
        """Queue a pending pod; an Outcome if a PreEnqueue plugin keeps it out (it is gated)."""
        if pod.pod_group:
            self._note_member(pod)
        queued = self.queue.add(pod)
        if queued.place is _GATED:
            status = objection(self.profile_of, pod, queued.gated_by)
            return Outcome(pod, None, message=status.message(), status=status)
        if pod.nominated_node_name:
            self.handle.nominator.nominate(pod, pod.nominated_node_name)
        return None

    def update_pod(self, pod: model.PodInfo) -> None:
        """Take note that a pending pod changed; one that is not known is queued.

        A pod that holds a node is left alone: it is seen again if it comes back to the queue. But
        once it is on its way out it is not going to be bound, and holds nothing.
        """
        if pod.pod_group:
            self._note_member(pod)
        queued = self.queue.get(pod.uid)
        if self.cache.is_assumed(pod.uid):
            if queued is not None:
                leaves = pod.terminating and not (queued.newer or queued.info).terminating
                self.queue.update(pod)
                if leaves and not self._give_up(pod.uid):
                    self.release(pod.uid)
            return
        before = "" if queued is None else queued.info.nominated_node_name
        self.queue.add(pod)
        # What only we know of yet stays; the rest is as the cluster has it.
        nomination = "" if before else self.handle.nominator.node_of(pod.uid)
        self._nominate(pod, pod.nominated_node_name or nomination)

    def delete_pod(self, uid: str) -> bool:
        """A pod does not wait for a node any more; an attempt of it that waits is given up.

        Tells whether there was one.
        """
        self.queue.delete(uid)
        self.handle.groups.gone(uid)
        if uid in self.handle.nominator.node_by_uid:
            self._withdraw(uid)
        return self._give_up(uid)

    def release(self, uid: str) -> None:
        """Remove a pod from its node; its attempt, if it waits, is cancelled."""
        pod = self.cache.pod(uid)
        if pod is not None:
            self.cache.remove_pod(pod)
            self.queue.move_all_to_active_or_backoff(model.ASSIGNED_POD_DELETE, pod, None)

    def _give_up(self, uid: str) -> bool:
        """End an attempt that waits for permission or for PreBind; return whether there was one.

        A binding request that was sent cannot be cancelled.
        """
        pods = self.handle.waiting_pods
        waiting = pods.pods.get(uid)
        if waiting is not None and not waiting.ended:
            waiting.reject("", "removed")
            return True
        work = pods.pre_binding.get(uid)
        if work is not None:
            work.finish(Status(Code.ERROR, ("the pod was removed",)))
        return work is not None

    def _nominate(self, pod: model.PodInfo, node: str) -> None:
        """Nominate the pod to that node from now on, or to none if it is empty."""
        nominator = self.handle.nominator
        if nominator.node_of(pod.uid) != node:
            self._withdraw(pod.uid)
        if node:
            nominator.nominate(pod, node)

    def _withdraw(self, uid: str) -> None:
        """Clear a nomination; for the pods that respected it, this is a pod leaving the node."""
        node = self.handle.nominator.node_of(uid)
        pod = self.handle.nominator.clear(uid)
        if pod is not None:
            self.queue.move_all_to_active_or_backoff(
                model.ASSIGNED_POD_DELETE, pod.on(node), None, except_uid=uid
            )

    def _activate(self, wanted: PodsToActivate) -> None:
        """Make the pods ready that plugins want to be tried now.

        Each pod of a gang that waits activates all others: nothing is to be done again until one
        of them waits in the queue, or is popped with others.
        """
        queue = self.queue
        if wanted.uids:
            queue.activate(wanted.uids)
            wanted.uids.clear()
        for key in wanted.groups:
            changed = self._activated_at != queue.activatable
            if changed or len(self._activated) >= _MOST_GROUPS:
                self._activated_at = queue.activatable
                self._activated.clear()
            if key not in self._activated:
                self._activated.add(key)
                queue.activate(self.handle.groups.without_nodes(key))
        wanted.groups.clear()

    def _note_member(self, pod: model.PodInfo) -> None:
        """Record a member of a pod group, and wake the pods that wait for the group."""
        new = self.queue.get(pod.uid) is None and not self.cache.is_assumed(pod.uid)
        ungated = self.handle.groups.seen(pod)
        if new or ungated:
            self._new_members[pod.namespace, pod.pod_group] = pod

    def _requeue_siblings(self) -> None:
        """Pods came since the last time: once for each group, however many they were."""
        siblings = self.handle.groups.siblings
        for pod in self._new_members.values():
            uids = worth_judging(siblings(pod), self.queue, self.profile_of)
            self.queue.move_among(uids, model.UNSCHEDULED_POD_ADD, pod)
        self._new_members.clear()


_MOST_GROUPS: Final = 1000
"""Groups of which is known that their pods are active."""
_BROKEN: Final = (model.NO_PLUGINS, model.NO_PLUGINS)
# An attribute of an enum takes as long as a call of a small function.
_SUCCESS: Final = Code.SUCCESS
_GATED: Final = model.QueueState.GATED


def single_pass(scheduler: Scheduler) -> Iterator[Outcome]:
    """Decide the pods that are ready, and those that become ready meanwhile, in queue order.

    The pass ends when every ready pod was decided: pods that were requeued are not retried.
    """
    scheduler.run_due()
    decided: set[str] = set()
    left = _ready(scheduler)
    while left:
        first = scheduler.schedule_one()
        if first is None:
            return
        for outcome in (first, *first.others):
            decided.add(outcome.pod.uid)
            left.discard(outcome.pod.uid)
            yield outcome
        if not left:
            left = _ready(scheduler) - decided


def _ready(scheduler: Scheduler) -> set[str]:
    return {queued.info.uid for queued in scheduler.queue.active()}
