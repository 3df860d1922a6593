"""The order of a policy's queues, and of pods whose place changes while they wait.

Theory of operation. What the rules read of aggregates, quotas, inputs and namespaces is noted while
they are evaluated; a change of it makes stale what was evaluated, and the queue asks for that again
before it pops the next pod. See `Dependencies`.
"""

from __future__ import annotations

from policy_sched.cluster.tables import Dependencies, NodeTable
from policy_sched.language import BoundUnit, Sections, Unit
from policy_sched.language.runtime import Activation, TracedRuntime
from policy_sched.language.values import Failure
from policy_sched.model import NO_GROUP, GroupCounts, QueuedPod
from policy_sched.plugins.rules.bound_policy import sort_key
from policy_sched.queue import SortKey


class BoundOrder:
    """Whose turn it is; see `QueueOrder`. Without ``queueOrder`` all pods are in one queue.

    A rule that fails: a pod belongs to the queue "", a key is the zero of its type, and the queue
    is not strict.
    """

    def __init__(self, sections: Sections, table: NodeTable) -> None:
        self._names, self._pods, self._queues = Dependencies(), Dependencies(), Dependencies()
        order = self._order = sections.queue_order
        self._descending = sections.descending

        def bound(unit: Unit | None, dependencies: Dependencies) -> BoundUnit | None:
            return None if unit is None else BoundUnit(unit, TracedRuntime(table, dependencies))

        self._sort = bound(sections.queue_sort, self._pods)
        self._by = self._keys = self._strict = None
        if order is not None:
            self._by = bound(order.by, self._names)
            self._keys = bound(order.keys, self._queues)
            if isinstance(order.strict, Unit):
                self._strict = bound(order.strict, self._queues)

    def sort_key(self, queued: QueuedPod, group: GroupCounts = NO_GROUP) -> SortKey:
        """Return the sort key of a pod; less comes first."""
        uid = queued.info.uid
        return self._pods.compute(
            uid, lambda: sort_key(self._sort, self._descending, queued, group)
        )

    def queue_of(self, queued: QueuedPod) -> str:
        """Return the name of the queue that a pod belongs to."""
        by = self._by
        if by is None:
            return ""

        def name() -> str:
            value = by.evaluate(0, queued.info, Activation(queued=queued), 0)
            return "" if isinstance(value, Failure) else str(value)

        return self._names.compute(queued.info.uid, name)

    def queue_key(self, name: str, head: QueuedPod) -> SortKey:
        """Return the key of a queue whose first pod this is; less comes first."""
        keys = self._keys
        if keys is None or self._order is None:
            return ()
        descending = self._order.descending
        return self._queues.compute(_KEY + name, lambda: sort_key(keys, descending, head))

    def strict(self, name: str, head: QueuedPod) -> bool:
        """Return whether a pod that was tried in vain holds those behind it in its queue."""
        unit = self._strict
        if unit is None:
            return self._order is not None and self._order.strict is True

        def holds() -> bool:
            return unit.evaluate(0, head.info, Activation(queued=head), 0) is True

        return self._queues.compute(_STRICT + name, holds)

    def take_stale_pods(self) -> list[str]:
        """Return the UIDs of pods whose queue or sort key may differ since the last call."""
        return list(dict.fromkeys(self._names.take_stale() + self._pods.take_stale()))

    def take_stale_queues(self) -> list[str]:
        """Return the names of queues whose key or strictness may differ since the last call."""
        return list(dict.fromkeys(name[1:] for name in self._queues.take_stale()))

    def forget_pod(self, uid: str) -> None:
        """A pod is gone."""
        self._names.forget(uid)
        self._pods.forget(uid)

    def forget_queue(self, name: str) -> None:
        """A queue has no pods any more."""
        self._queues.forget(_KEY + name)
        self._queues.forget(_STRICT + name)


_KEY, _STRICT = "k", "s"
"""What is kept of a queue begins with one of these, its name follows."""
