"""The scheduler's loop: pop, decide, enact; and what happens by itself between two pods.

Theory of operation. `schedule_one` decides one pod, and carries the decision out as far as it
goes without waiting. An attempt that has to wait is set aside with its node held (see `Bindings`)
and ends in a later `tick`, which does everything that is due: the queue's flushes, answers to
waiting pods, deadlines. Nothing here sleeps or blocks; `next_wakeup` says when `tick` has
something to do, so the same loop runs under a clock that is moved by hand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias

from policy_sched.cluster.node_table import NodeTable
from policy_sched.framework.handle import Handle
from policy_sched.framework.pipeline import Pipeline
from policy_sched.framework.results import PodsToActivate
from policy_sched.framework.status import SUCCESS, WAIT, Code, Status
from policy_sched.model.events import ASSIGNED_POD_DELETE, UNSCHEDULED_POD_ADD
from policy_sched.model.pod_group import GroupKey
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.queued_pod import NOBODY, Place
from policy_sched.queue.scheduling_queue import SchedulingQueue
from policy_sched.scheduler.announcing import announce
from policy_sched.scheduler.attempt import Attempt, Bind, Decision, Preempt, Profile, Reject
from policy_sched.scheduler.binding_cycle import binding_cycle, reserve_and_permit, undo
from policy_sched.scheduler.bindings import Binding, Bindings
from policy_sched.scheduler.eviction import make_room
from policy_sched.scheduler.failure import announce_no_profile, record_failure, rejectors
from policy_sched.scheduler.group_cycle import GroupTurn, Verdict, schedule_group, tell_group
from policy_sched.scheduler.queueing import NO_PROFILE, objection
from policy_sched.scheduler.scheduling_cycle import decide

Decide: TypeAlias = Callable[[Attempt, NodeTable, Random], Decision]
MakeRoom: TypeAlias = Callable[[PodInfo, Preempt, Handle], str]
ScheduleGroup: TypeAlias = Callable[[Attempt, SchedulingQueue, Handle, Random], GroupTurn | None]
TellGroup: TypeAlias = Callable[[PodInfo, Status, Handle], None]


@dataclass(slots=True, eq=False)
class Outcome:
    """What became of a pod: bound to `node`; or not, and why.

    ``waiting`` means that it holds the node, and that a later `tick` says how it ends.
    ``pipeline`` is what decided, None for a pod that was not let into the queue; ``attempt`` is
    None also where a pod was passed over.
    """

    pod: PodInfo
    decision: Decision | None
    node: str = ""
    message: str = ""
    status: Status = SUCCESS
    waiting: bool = False
    pipeline: Pipeline | None = None
    attempt: Attempt | None = None

    @property
    def generation(self) -> int:
        """Which set of policies decided; 0 for none."""
        return 0 if self.pipeline is None else self.pipeline.generation

    @property
    def content_hash(self) -> str:
        """What that set said, as a hash; empty for none."""
        return "" if self.pipeline is None else self.pipeline.content_hash


class Scheduler:
    """One cache, one queue, and a profile per schedulerName.

    ``rng`` breaks ties. All effects go through `handle`. ``profiles`` may be replaced as a whole
    between two calls; attempts end with the profile that they began with. So may ``decide``,
    ``make_room``, ``schedule_group`` and ``tell_group``, by what does the same and takes its time.
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
        self.decide: Decide = decide
        self.make_room: MakeRoom = make_room
        self.schedule_group: ScheduleGroup = schedule_group
        self.tell_group: TellGroup = tell_group
        self._rng = rng
        self._bindings = Bindings(lambda: handle.objects.version)
        self._arrived: dict[GroupKey, PodInfo] = {}
        self._told: deque[Outcome] = deque()

    # News of pods.

    def add_pod(self, pod: PodInfo) -> Outcome | None:
        """Queue a pending pod; an Outcome if a PreEnqueue plugin keeps it out (it is gated)."""
        if pod.pod_group:
            self._count_in(pod)
        queued = self.queue.add(pod)
        if queued.place is Place.GATED:
            status = objection(self.profiles, pod, queued.gated_by)
            return Outcome(pod, None, message=status.message(), status=status)
        if pod.nominated_node_name:
            self.handle.nominator.nominate(pod, pod.nominated_node_name)
        return None

    def update_pod(self, pod: PodInfo) -> None:
        """Take note that a pending pod changed; one that is not known is queued.

        A pod that holds a node is left alone: it is seen again if it comes back to the queue.
        """
        if pod.pod_group:
            self._count_in(pod)
        if self.cache.is_assumed(pod.uid):
            if self.queue.get(pod.uid) is not None:
                self.queue.update(pod)
            return
        queued = self.queue.get(pod.uid)
        before = "" if queued is None else queued.info.nominated_node_name
        self.queue.add(pod)
        # What only we know of yet stays; what the cluster knew is what the cluster says.
        known = "" if before else self.handle.nominator.node_of(pod.uid)
        self._nominate(pod, pod.nominated_node_name or known)

    def delete_pod(self, uid: str) -> None:
        """A pod does not wait for a node any more; an attempt of it that waits is given up."""
        self.queue.delete(uid)
        self.handle.groups.gone(uid)
        self._withdraw(uid)
        waiting = self.handle.waiting_pods.get(uid)
        if waiting is not None:
            waiting.reject("", "removed")
        work = self.handle.waiting_pods.pre_binding.get(uid)
        if work is not None:
            work.finish(Status(Code.ERROR, ("the pod was removed",)))

    def _nominate(self, pod: PodInfo, node: str) -> None:
        """Nominate the pod to that node from now on, or to none if it is empty."""
        nominator = self.handle.nominator
        if nominator.node_of(pod.uid) != node:
            self._withdraw(pod.uid)
        if node:
            nominator.nominate(pod, node)

    def _withdraw(self, uid: str) -> None:
        """End a nomination: to those who had to count on it, its pod has left the node."""
        node = self.handle.nominator.node_of(uid)
        pod = self.handle.nominator.clear(uid)
        if pod is not None:
            self.queue.move(ASSIGNED_POD_DELETE, pod.on(node), None, but=uid)

    def _count_in(self, pod: PodInfo) -> None:
        """A member of a pod group is news to those that wait for the group."""
        new = self.queue.get(pod.uid) is None and not self.cache.is_assumed(pod.uid)
        self.handle.groups.seen(pod)
        if new:
            self._arrived[pod.namespace, pod.pod_group] = pod

    def _tell_siblings(self) -> None:
        """Pods came since the last time: once for each group, however many they were."""
        siblings = self.handle.groups.siblings
        for pod in self._arrived.values():
            self.queue.move_among(siblings(pod), UNSCHEDULED_POD_ADD, pod)
        self._arrived.clear()

    # One pod.

    def schedule_one(self) -> Outcome | None:
        """Decide and enact the next pod; None if none is ready.

        Of a group whose pods go to one place together, all are: the others' outcomes come next.
        """
        if self._told:
            return self._told.popleft()
        if self._arrived:
            self._tell_siblings()
        queued = self.queue.pop()
        if queued is None:
            return None
        attempt = Attempt(queued, self.profiles[queued.info.scheduler_name])
        if queued.info.terminating:
            return self._pass_over(attempt)
        group = self.schedule_group(attempt, self.queue, self.handle, self._rng)
        if group is None:
            outcome = self.enact(attempt, self.decide(attempt, self.handle.nodes, self._rng))
        else:
            self._told.extend(self._enact_member(verdict) for verdict in group.verdicts)
            self.tell_group(queued.info, group.status, self.handle)
            outcome = self._told.popleft()
        if self.handle.waiting_pods:
            self.handle.waiting_pods.ask_again()
        return outcome

    def enact(self, attempt: Attempt, decision: Decision) -> Outcome:
        """Carry the decision out as far as it goes without waiting."""
        if not isinstance(decision, Bind):
            return self._fail(attempt, decision)
        # What was found may be shared with equal pods; what is reserved is this pod's own.
        attempt.state = attempt.state.clone()
        status, waiting = reserve_and_permit(attempt, decision.node, self.handle)
        if not status.ok:
            return self._give_back(attempt, decision, status)
        self._activate(attempt)
        steps = binding_cycle(attempt, decision.node, waiting, self.handle)
        outcome = self._advance(Binding(attempt, decision, steps))
        if outcome is not None:
            return outcome
        pod, pipeline = attempt.queued.info, attempt.profile.pipeline
        return Outcome(pod, decision, decision.node, "", WAIT, True, pipeline, attempt)

    def _enact_member(self, verdict: Verdict) -> Outcome:
        """Carry out what was decided about a pod together with its group."""
        attempt, decision = verdict.attempt, verdict.decision
        if isinstance(decision, Bind):
            return self.enact(attempt, decision)
        node = None if decision.nominated else ""
        return self._queue_again(
            attempt, decision, decision.status, verdict.who, decision.message, node
        )

    def _pass_over(self, attempt: Attempt) -> Outcome:
        """A pod on its way out is not scheduled."""
        pod = attempt.queued.info
        self.queue.done(pod.uid)
        text = f"skip schedule deleting pod: {pod.key}"
        announce(self.handle, pod, "Warning", "FailedScheduling", "Scheduling", text)
        status = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))
        return Outcome(pod, None, "", text, status, pipeline=attempt.profile.pipeline)

    def _fail(self, attempt: Attempt, decision: Preempt | Reject) -> Outcome:
        """Make room for the pod if it was found; queue it again and say what happened."""
        pod = attempt.queued.info
        message, node = decision.message, None
        if isinstance(decision, Preempt):
            error = self.make_room(pod, decision, self.handle)
            if error:
                message = f"{message} {error}"
                # Nobody may leave now, so that no event would bring the pod back.
                self.queue.activate([pod.uid])
            else:
                node = decision.node
        elif not decision.nominated:
            node = ""
        who = rejectors(decision)
        return self._queue_again(attempt, decision, decision.status, who, message, node)

    # What waits.

    @property
    def in_flight(self) -> int:
        """How many attempts hold a node and wait: for permission, a plugin or the cluster."""
        return len(self._bindings)

    def tick(self) -> list[Outcome]:
        """Do what is due now; return what became of pods that had to wait."""
        now = self.handle.now()
        if self._arrived:
            self._tell_siblings()
        self.queue.flush()
        if self.cache.time_to_live:
            for pod in self.cache.expire(now):
                self.queue.move(ASSIGNED_POD_DELETE, pod, None)
        outcomes: list[Outcome] = []
        while self._bindings:
            self.handle.waiting_pods.ask_again()
            due = self._bindings.due(now)
            if not due:
                break
            ended = (self._advance(binding) for binding in due)
            outcomes += [outcome for outcome in ended if outcome is not None]
        return outcomes

    def next_wakeup(self) -> int | None:
        """Return when `tick` has something to do, in nanoseconds since 1970; None: never."""
        if self._told or self._arrived or self._bindings.has_answer():
            return self.handle.now()
        expiry = self.cache.next_expiry() if self.cache.time_to_live else None
        times = (self.queue.next_flush(), self._bindings.next_time(), expiry)
        return min((time for time in times if time is not None), default=None)

    def idle(self) -> bool:
        """Tell whether neither `schedule_one` nor `tick` has anything to do now."""
        if self._told or self._arrived or not self.queue.idle():
            return False
        wakeup = self.next_wakeup()
        return wakeup is None or wakeup > self.handle.now()

    def abandon(self, message: str) -> list[Outcome]:
        """Give up attempts that wait for permission or for a PreBind plugin; return them.

        What the cluster was asked to bind is not given up: its answer comes to `tick`.
        """
        outcomes = []
        pods = self.handle.waiting_pods
        for binding in self._bindings:
            uid = binding.attempt.queued.info.uid
            if pods.get(uid) is not None or uid in pods.pre_binding:
                self._bindings.take(uid)
                binding.steps.close()
                status = Status(Code.ERROR, (message,))
                outcomes.append(self._break_off(binding.attempt, binding.decision, status))
        return outcomes

    def _advance(self, binding: Binding) -> Outcome | None:
        """Go on with an attempt until it ends, or has to wait (None)."""
        attempt = binding.attempt
        try:
            binding.wait = next(binding.steps)
        except StopIteration as end:
            return self._end(attempt, binding.decision, end.value)
        if attempt.permitted and attempt.queued.place is Place.IN_FLIGHT:
            self.queue.begin_binding(attempt.queued)
        self._bindings.set_aside(binding, self.handle.now())
        return None

    # How it ends.

    def _end(self, attempt: Attempt, decision: Bind, status: Status) -> Outcome:
        if not status.ok:
            return self._break_off(attempt, decision, status)
        pod = attempt.queued.info
        self.queue.done(pod.uid)
        self._activate(attempt)
        pipeline = attempt.profile.pipeline
        return Outcome(pod, decision, decision.node, pipeline=pipeline, attempt=attempt)

    def _break_off(self, attempt: Attempt, decision: Bind, status: Status) -> Outcome:
        """Undo an attempt that held its node for a while, so that others may have counted on it.

        Room that is free again is an event for the others; for the pod itself only if something
        broke, for what rejected it did not change by its own leaving.
        """
        pod = attempt.queued.info
        if not undo(attempt, decision.node, self.handle):
            return self._give_back(attempt, decision, status)
        gone = pod.on(decision.node)
        if not status.rejected:
            self.queue.move(ASSIGNED_POD_DELETE, gone, None)
        outcome = self._give_back(attempt, decision, status)
        if status.rejected:
            self.queue.move(ASSIGNED_POD_DELETE, gone, None, but=pod.uid)
        return outcome

    def _give_back(self, attempt: Attempt, decision: Bind, status: Status) -> Outcome:
        """Queue a pod again that was chosen a node for.

        Until it is permitted a rejection speaks of one node, as upstream words it; later nothing
        can make a pod unschedulable, and it is tried again after a backoff.
        """
        message, who = status.message(), _BROKEN
        if not attempt.permitted:
            who = rejectors(status)
            if status.rejected:
                message = f"0/1 nodes are available: 1 {message}."
        return self._queue_again(attempt, decision, status, who, message, "")

    def _queue_again(
        self,
        attempt: Attempt,
        decision: Decision,
        status: Status,
        who: tuple[frozenset[str], frozenset[str]],
        message: str,
        nominated: str | None,
    ) -> Outcome:
        """Put the pod back and say why, with its nomination from now on (None: as it was)."""
        queued, pod = attempt.queued, attempt.queued.info
        if nominated is not None:
            self._nominate(pod, nominated)
        there = self.queue.put_back(queued, *who) is not Place.OUT
        record_failure(pod, status, message, self.handle, nominated, there=there)
        if queued.gated_by == NO_PROFILE:
            announce_no_profile(pod, self.handle)
        pipeline = attempt.profile.pipeline
        return Outcome(pod, decision, "", message, status, pipeline=pipeline, attempt=attempt)

    def _activate(self, attempt: Attempt) -> None:
        """Make the pods ready that plugins want to be tried now."""
        wanted = attempt.state.read(PodsToActivate)
        if wanted is not None and wanted.uids:
            self.queue.activate(wanted.uids)
            wanted.uids.clear()


_BROKEN: Final = (NOBODY, NOBODY)
