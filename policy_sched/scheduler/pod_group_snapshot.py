"""Pods of a group, assumed for the time of a trial as in kube-scheduler's snapshot.

Theory of operation. A pod is assumed in the cache, so that the next one sees it, and taken back in
the end. One thing differs from a pod that is really assumed. kube-scheduler's snapshot lists the
nodes whose pods have affinity terms, and does not add to these lists while a group is decided. So
where no other pod of a node has required anti-affinity, that of the group's pods there is not
respected; and where none has any affinity, their terms do not score, except for pods that have
preferred terms themselves. These terms are taken out of the counts meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from policy_sched.framework import Handle
from policy_sched.model import PodInfo
from policy_sched.scheduler.attempt import Attempt
from policy_sched.scheduler.binding_cycle import undo


@dataclass(slots=True)
class Held:
    """A pod that is assumed on a node for now; ``nominated``: where it was nominated before.

    ``unlisted`` and ``unscored``: its terms do not count as required anti-affinity, and for scores.
    """

    attempt: Attempt
    node: str
    nominated: str
    unlisted: bool = False
    unscored: bool = False

    @property
    def pod(self) -> PodInfo:
        """The pod."""
        return self.attempt.queued.info


class AssumedMembers:
    """A context in which pods of a group are assumed; all are taken back at its end.

    ``absent``: pods that were taken off their nodes for the trial.
    """

    def __init__(self, handle: Handle, absent: Iterable[PodInfo] = ()) -> None:
        self.held: list[Held] = []
        self._uids: set[str] = set()
        self._handle = handle
        self._absent = tuple(pod for pod in absent if pod.has_pod_affinity)
        self._scoring = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self.held:
            self.take_back(self.held[-1])

    def look(self, pod: PodInfo) -> None:
        """Prepare the counts for the evaluation of a pod."""
        own = pod.has_pod_affinity and bool(pod.affinity_terms.preferred)
        if own is not self._scoring:
            for held in self.held:
                if held.unscored:
                    self._count_scored(held, 1 if own else -1)
            self._scoring = own

    def assume(self, attempt: Attempt, node: str) -> Held:
        """Assume a pod on a node. Raises PodStateError if it is assumed already."""
        pod, handle = attempt.queued.info, self._handle
        nominated = handle.nominator.node_of(pod.uid)
        handle.cache.assume(pod, node)
        handle.nominator.clear(pod.uid)  # it counts on its node now
        held = Held(attempt, node, nominated)
        self.held.append(held)
        self._uids.add(pod.uid)
        if pod.has_pod_affinity:
            others = self._others(node)
            held.unlisted = not any(other.affinity_terms.anti_affinity for other in others)
            held.unscored = not others
            self._count_unlisted(held, -1)
            if not self._scoring:
                self._count_scored(held, -1)
        return held

    def take_back(self, held: Held) -> None:
        """Undo a pod, and what its Reserve plugins did."""
        assert held is self.held[-1], "the last one is taken back first"
        self.held.pop()
        self._uids.discard(held.pod.uid)
        self._count_unlisted(held, 1)
        if not self._scoring:
            self._count_scored(held, 1)
        undo(held.attempt, held.node, self._handle)
        if held.nominated:
            self._handle.nominator.nominate(held.pod, held.nominated)

    def _others(self, node: str) -> list[PodInfo]:
        """Return the pods with affinity terms that were on a node before."""
        there = self._handle.nodes.pods_on(self._handle.nodes.row_of[node]).values()
        pods = [pod for pod in there if pod.has_pod_affinity and pod.uid not in self._uids]
        return pods + [pod for pod in self._absent if pod.node_name == node]

    def _count_unlisted(self, held: Held, sign: int) -> None:
        if held.unlisted:
            row, carried = self._handle.nodes.row_of[held.node], self._handle.cache.counts.carried
            for term in held.pod.affinity_terms.anti_affinity:
                carried.anti_affinity.add(term, row, sign)

    def _count_scored(self, held: Held, sign: int) -> None:
        if held.unscored:
            row, carried = self._handle.nodes.row_of[held.node], self._handle.cache.counts.carried
            terms = held.pod.affinity_terms
            for term in terms.affinity:
                carried.affinity.add(term, row, sign)
            for weight, term in terms.preferred:
                carried.preferred.add(term, row, sign * weight)
