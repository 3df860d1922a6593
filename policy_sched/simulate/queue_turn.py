"""A pod's turn in the scheduling queue: the pods ahead of it, and its decision after theirs."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from policy_sched.cluster.tables import NodeTable
from policy_sched.explain import Explanation, explain
from policy_sched.framework import Handle
from policy_sched.model import Pod, PodInfo
from policy_sched.queue import SchedulingQueue
from policy_sched.scheduler import Attempt, Decision, GroupTurn, Scheduler
from policy_sched.simulate.one_shot import run_queue, turned_away


def waiting_with(pod: Pod, pods: Sequence[Pod], pending: Sequence[Pod]) -> list[PodInfo]:
    """Return the pods that wait, `pod` among them as if it had no node yet, in the order of `pods`.

    ``pending``: those of ``pods`` that have no node.
    """
    waiting = {id(one) for one in pending}
    infos = [PodInfo.of(one) for one in pods if one is pod or id(one) in waiting]
    for info in infos:
        info.node_name = ""
    return infos


def explain_now(scheduler: Scheduler, infos: Sequence[PodInfo], uid: str, top: int) -> Explanation:
    """Explain a pod on the cluster as it is, and count the pods ahead of it in the queue.

    No pod is ahead of one that has a node already.
    """
    for info in infos:
        turned_away(scheduler, info)
    scheduler.run_due()
    pod = next(info for info in infos if info.uid == uid)
    found = explain(scheduler, pod, top=top)
    if not pod.pod.spec.node_name:
        order = [queued.info.uid for queued in scheduler.queue.active()]
        found.ahead = order.index(uid) if uid in order else 0
    return found


def explain_after_queue(
    scheduler: Scheduler, infos: Sequence[PodInfo], uid: str, top: int
) -> Explanation:
    """Decide all pods that wait, as `simulate` does, and explain a pod when its turn has come.

    The explanation carries what became of the pod in the end: its node, or why it has none.
    """
    pod = next(info for info in infos if info.uid == uid)
    turn = _Turn(scheduler, pod, top)
    scheduler.decide, scheduler.schedule_group = turn.decide, turn.schedule_group
    run = run_queue(scheduler, infos, lambda _more: None)
    found = turn.found or explain(scheduler, pod, top=top)
    number = next(i for i, info in enumerate(infos) if info.uid == uid)
    placement = run.placements[number]
    found.ahead, found.after_queue = turn.ahead, True
    found.node, found.message = placement.node or "", placement.message
    return found


class _Turn:
    """Takes the place of a scheduler's parts, does as they do, and explains one pod on the way."""

    def __init__(self, scheduler: Scheduler, pod: PodInfo, top: int) -> None:
        self.found: Explanation | None = None
        self.ahead = 0
        self._decided = 0
        self._scheduler, self._pod, self._top = scheduler, pod, top
        self._decide, self._schedule_group = scheduler.decide, scheduler.schedule_group

    def decide(self, attempt: Attempt, table: NodeTable, rng: Random) -> Decision:
        """Decide a pod by itself."""
        if attempt.queued.info.uid == self._pod.uid:
            self.found, self.ahead = self._explained(), self._decided
        self._decided += 1
        return self._decide(attempt, table, rng)

    def schedule_group(
        self, first: Attempt, queue: SchedulingQueue, handle: Handle, rng: Random
    ) -> GroupTurn | None:
        """Decide a pod together with its group, if it is of one."""
        pod, other = self._pod, first.queued.info
        mates = (pod.namespace, pod.pod_group) == (other.namespace, other.pod_group)
        found = self._explained() if mates else None
        group = self._schedule_group(first, queue, handle, rng)
        if group is None:
            return None
        if any(one.attempt.queued.info.uid == pod.uid for one in group.verdicts):
            self.found, self.ahead = found, self._decided
        self._decided += len(group.verdicts)
        return group

    def _explained(self) -> Explanation:
        """Explain the pod; afterwards plugins break ties as if it had not run."""
        random = self._scheduler.handle.random
        state = random.getstate()
        found = explain(self._scheduler, self._pod, top=self._top)
        random.setstate(state)
        return found
