"""The scheduler's loop: pop, decide, enact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from policy_sched.framework.handle import Handle
from policy_sched.framework.status import SUCCESS, Code, Status
from policy_sched.model.events import ASSIGNED_POD_DELETE
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.queued_pod import Place
from policy_sched.queue.scheduling_queue import SchedulingQueue
from policy_sched.scheduler.attempt import Attempt, Bind, Decision, Preempt, Profile, Reject
from policy_sched.scheduler.binding_cycle import bind, reserve_and_permit, undo
from policy_sched.scheduler.eviction import make_room
from policy_sched.scheduler.failure import record_failure, rejectors
from policy_sched.scheduler.queueing import first_objection
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
        queued = self.queue.add(pod)
        if queued.place is Place.GATED:
            runner = self.profiles[pod.scheduler_name].runner
            status = first_objection(runner, pod, queued.gated_by)
            return Outcome(pod, None, message=status.message(), status=status)
        if pod.nominated_node_name:
            self.handle.nominator.nominate(pod, pod.nominated_node_name)
        return None

    def update_pod(self, pod: PodInfo) -> None:
        """Take note that a pending pod changed; one that is not known is queued."""
        self.queue.update(pod)
        nominator = self.handle.nominator
        node = pod.nominated_node_name or nominator.node_of(pod.uid)
        if node:
            nominator.nominate(pod, node)

    def delete_pod(self, uid: str) -> None:
        """A pod does not wait for a node any more; if it waits for permission it is rejected."""
        self.queue.delete(uid)
        self.handle.nominator.clear(uid)
        waiting = self.handle.waiting_pods.get(uid)
        if waiting is not None:
            waiting.reject("", "removed")

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
            return self._fail(attempt, decision)
        status = reserve_and_permit(attempt, decision.node, self.handle)
        if status.code is Code.WAIT:
            self._waiting[pod.uid] = attempt
            return Outcome(pod, decision, decision.node, "", status, waiting=True)
        return self._finish(attempt, decision, status)

    def _fail(self, attempt: Attempt, decision: Preempt | Reject) -> Outcome:
        """Make room for the pod if it was found; queue it again and say what happened."""
        pod = attempt.queued.info
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
        self.queue.put_back(attempt.queued, *rejectors(decision))
        record_failure(pod, decision.status, message, self.handle, node)
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
        entered = status.ok
        if entered:
            status = bind(attempt, node, self.handle)
        if status.ok:
            self.queue.done(pod.uid)
            return Outcome(pod, decision, node)
        self._return(attempt, status, node if entered or decision is None else "")
        message = record_failure(pod, status, "", self.handle)
        return Outcome(pod, decision, message=message, status=status)

    def _return(self, attempt: Attempt, status: Status, left: str) -> None:
        """Queue a pod again that was chosen a node for; it held room on the node `left`, if any.

        Room that is free again is an event for the others; for the pod itself only if something
        broke, for what rejected it did not change by its own leaving.
        """
        queued, pod = attempt.queued, attempt.queued.info
        if not left:
            self.queue.put_back(queued, *rejectors(status))
            return
        gone = PodInfo.of(pod.pod)
        gone.node_name = left
        if not status.rejected:
            self.queue.move(ASSIGNED_POD_DELETE, gone, None)
        self.queue.put_back(queued, *rejectors(status))
        if status.rejected:
            self.queue.move(ASSIGNED_POD_DELETE, gone, None, but=pod.uid)
