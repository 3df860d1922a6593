"""The scheduler's loop: pop, decide, enact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from policy_sched.framework.handle import Handle
from policy_sched.framework.status import SUCCESS, Code, Status
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.queued_pod import QueuedPod
from policy_sched.queue.scheduling_queue import SchedulingQueue
from policy_sched.scheduler.attempt import Attempt, Bind, Decision, Preempt, Profile, Reject
from policy_sched.scheduler.binding_cycle import bind, reserve_and_permit, undo
from policy_sched.scheduler.eviction import make_room
from policy_sched.scheduler.failure import record_failure
from policy_sched.scheduler.scheduling_cycle import decide


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a pod: bound to `node`; or not, and why.

    ``waiting`` means that it holds the node until Permit plugins answer.
    """

    pod: PodInfo
    decision: Decision | None
    node: str = ""
    message: str = ""
    status: Status = SUCCESS
    waiting: bool = False


class Scheduler:
    """One cache, one queue, and a profile per schedulerName.

    ``rng`` breaks ties. All effects go through `handle`.
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
        self._rng = rng
        self._waiting: dict[str, Attempt] = {}

    def add_pod(self, pod: PodInfo) -> Outcome | None:
        """Queue a pending pod; an Outcome if a PreEnqueue plugin keeps it out (it is gated)."""
        now = self.handle.now()
        queued = QueuedPod(pod, enqueued_at=now, first_enqueued_at=now)
        status = self.profiles[pod.scheduler_name].runner.first_rejection("pre_enqueue", pod)
        if status.ok:
            if pod.nominated_node_name:
                self.handle.nominator.nominate(pod, pod.nominated_node_name)
            self.queue.add(queued)
            return None
        self.queue.gate(queued)
        return Outcome(pod, None, message=status.message(), status=status)

    def schedule_one(self) -> Outcome | None:
        """Decide and enact the next pod; None if the queue is empty."""
        queued = self.queue.pop()
        if queued is None:
            return None
        attempt = Attempt(queued, self.profiles[queued.info.scheduler_name])
        decision = decide(attempt, self.handle.nodes, self._rng)
        return self.enact(attempt, decision)

    def enact(self, attempt: Attempt, decision: Decision) -> Outcome:
        """Carry the decision out."""
        pod = attempt.queued.info
        if not isinstance(decision, Bind):
            return self._fail(pod, decision)
        status = reserve_and_permit(attempt, decision.node, self.handle)
        if status.code is Code.WAIT:
            self._waiting[pod.uid] = attempt
            return Outcome(pod, decision, decision.node, "", status, waiting=True)
        return self._finish(attempt, decision, status)

    def _fail(self, pod: PodInfo, decision: Preempt | Reject) -> Outcome:
        """Make room for the pod if it was found; say that it was not scheduled."""
        message, node = decision.message, None
        if isinstance(decision, Preempt):
            error = make_room(pod, decision, self.handle)
            if error:
                message = f"{message} {error}"
            else:
                node = decision.node
        elif not decision.nominated:
            self.handle.nominator.clear(pod.uid)
            node = ""
        if node:
            self.handle.nominator.nominate(pod, node)
        record_failure(pod, decision.status, message, self.handle, node)
        self.queue.done(pod.uid)
        return Outcome(pod, decision, message=message, status=decision.status)

    def resolve_waiting(self, now: float) -> list[Outcome]:
        """Go on with waiting pods that were allowed, rejected or are late at `now` (seconds)."""
        outcomes = []
        for waiting in self.handle.waiting_pods:
            status = waiting.answer(now)
            if status is None:
                continue
            self.handle.waiting_pods.remove(waiting.pod.uid)
            attempt = self._waiting.pop(waiting.pod.uid)
            if not status.ok:
                undo(attempt, waiting.node, self.handle)
            outcomes.append(self._finish(attempt, None, status, waiting.node))
        return outcomes

    def _finish(
        self, attempt: Attempt, decision: Bind | None, status: Status, node: str = ""
    ) -> Outcome:
        pod = attempt.queued.info
        node = decision.node if decision is not None else node
        if status.ok:
            status = bind(attempt, node, self.handle)
        self.queue.done(pod.uid)
        if status.ok:
            return Outcome(pod, decision, node)
        message = record_failure(pod, status, "", self.handle)
        return Outcome(pod, decision, message=message, status=status)
