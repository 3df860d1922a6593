"""Event handlers for pending pods: updates, deletions, nominations and activations."""

from __future__ import annotations

from policy_sched.framework import Code, Handle, PodsToActivate, Status
from policy_sched.model import ASSIGNED_POD_DELETE, UNSCHEDULED_POD_ADD, GroupKey, PodInfo
from policy_sched.queue import SchedulingQueue
from policy_sched.scheduler.attempt import Attempt


class PodEventHandlers:
    """Tells queue, nominator and pod groups of pods that came, changed or went."""

    def __init__(self, handle: Handle, queue: SchedulingQueue) -> None:
        self.handle = handle
        self.cache = handle.cache
        self.queue = queue
        self.agenda = queue.agenda
        self._arrived: dict[GroupKey, PodInfo] = {}

    def update_pod(self, pod: PodInfo) -> None:
        """Take note that a pending pod changed; one that is not known is queued.

        A pod that holds a node is left alone: it is seen again if it comes back to the queue. But
        once it is on its way out it is not going to be bound, and holds nothing.
        """
        if pod.pod_group:
            self._count_in(pod)
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
        # What only we know of yet stays; what the cluster knew is what the cluster says.
        known = "" if before else self.handle.nominator.node_of(pod.uid)
        self._nominate(pod, pod.nominated_node_name or known)

    def delete_pod(self, uid: str) -> bool:
        """A pod does not wait for a node any more; an attempt of it that waits is given up.

        Tells whether there was one.
        """
        self.queue.delete(uid)
        self.handle.groups.gone(uid)
        self._withdraw(uid)
        return self._give_up(uid)

    def release(self, uid: str) -> None:
        """Remove a pod from its node; its attempt, if it waits, is cancelled."""
        self.agenda.finish()  # earlier events are handled against the earlier cache
        pod = self.cache.pod(uid)
        if pod is not None:
            self.cache.remove_pod(pod)
            self.queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, pod, None)

    def _give_up(self, uid: str) -> bool:
        """End an attempt that waits for permission or for PreBind; tell whether there was one.

        A binding request that was sent cannot be cancelled.
        """
        waiting = self.handle.waiting_pods.get(uid)
        if waiting is not None and not waiting.answered:
            waiting.reject("", "removed")
            return True
        work = self.handle.waiting_pods.pre_binding.get(uid)
        if work is not None:
            work.finish(Status(Code.ERROR, ("the pod was removed",)))
        return work is not None

    def _nominate(self, pod: PodInfo, node: str) -> None:
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
                ASSIGNED_POD_DELETE, pod.on(node), None, but=uid
            )

    def _activate(self, attempt: Attempt) -> None:
        """Make the pods ready that plugins want to be tried now."""
        wanted = attempt.state.read(PodsToActivate)
        if wanted is not None and wanted.uids:
            self.queue.activate(wanted.uids)
            wanted.uids.clear()

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
