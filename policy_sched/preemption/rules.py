"""What preemption leaves to policy: who may evict, whom, in which order, and where rather.

The defaults are kube-scheduler's and stand in this module only; a policy's ``preemption`` section
replaces them one by one. All but `eligible` answer for many pods or nodes at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.columns import MAX_TIME
from policy_sched.cluster.pod_order import Keys
from policy_sched.cluster.pod_table import PodTable
from policy_sched.model.pod_info import PodInfo

#: Added to every priority so that none is below zero: more victims never make a smaller sum.
PRIORITY_SHIFT: Final = 2**31
_NONE: Final = -(2**63)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Nodes on which the pod fits once the victims are gone.

    ``rows``: rows of the node table, shape (m,). ``victims``: rows of the pod table, shape
    (depth, m), -1 where there is none. ``violations``: how many of a node's victims break a
    disruption budget, int64, shape (m,).
    """

    rows: NDArray[np.intp]
    victims: NDArray[np.intp]
    violations: NDArray[np.int64]

    def at(self, places: NDArray[np.intp]) -> Candidates:
        """Return the candidates at some places."""
        return Candidates(self.rows[places], self.victims[:, places], self.violations[places])


NodeKey: TypeAlias = Callable[[Candidates], NDArray[np.int64]]
"""From candidates to one number each, shape (m,); a smaller one is better."""


@dataclass(frozen=True, slots=True)
class PreemptionRules:
    """The choices of one profile.

    ``eligible``: whether the pod may evict at all. ``victim``: which of many pods it may evict:
    from the pod and rows of the pod table, any shape (-1 stands for no pod, the answer for it
    does not count), to bools of that shape. ``victim_order``: the most important pod has the
    smallest key; it is the first to be spared. ``node_order``: keys of candidates, the deciding
    one first; a later one is asked about those only that share the smallest value so far.
    """

    eligible: Callable[[PodInfo], bool]
    victim: Callable[[PodInfo, NDArray[np.intp]], NDArray[np.bool_]]
    victim_order: Keys
    node_order: tuple[NodeKey, ...]


def default_rules(pods: PodTable) -> PreemptionRules:
    """Return kube-scheduler's choices over one pod table."""
    priority, started = pods.column(("priority",)), pods.column(("startTime",))

    def victim(pod: PodInfo, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        lower: NDArray[np.bool_] = priority.values[rows] < pod.priority
        return lower

    def starts(rows: NDArray[np.intp]) -> NDArray[np.int64]:
        times: NDArray[np.int64] = started.values[rows]
        return np.where(times == 0, MAX_TIME, times)  # not started: starts now

    def victim_order(rows: NDArray[np.intp]) -> tuple[NDArray[np.int64], ...]:
        times = starts(rows)
        # Pods that all start now each come before the one that was there earlier: upstream asks
        # the clock at each comparison, and the later answer is the later start.
        last = np.where(times == MAX_TIME, -rows, rows)
        return -priority.values[rows].astype(np.int64), times, last

    def priorities(found: Candidates) -> NDArray[np.int64]:
        return np.where(found.victims >= 0, priority.values[found.victims], _NONE)

    def highest_priority(found: Candidates) -> NDArray[np.int64]:
        highest: NDArray[np.int64] = priorities(found).max(axis=0)
        return highest

    def sum_of_priorities(found: Candidates) -> NDArray[np.int64]:
        shifted = priority.values[found.victims] + PRIORITY_SHIFT
        total: NDArray[np.int64] = np.where(found.victims >= 0, shifted, 0).sum(axis=0)
        return total

    def latest_start(found: Candidates) -> NDArray[np.int64]:
        """Of a node's most important victims the one that started first decides."""
        those = priorities(found)
        times = np.where(those == those.max(axis=0), starts(found.victims), MAX_TIME)
        earliest: NDArray[np.int64] = times.min(axis=0)
        return -earliest

    return PreemptionRules(
        eligible=lambda pod: pod.preemption_policy != "Never",
        victim=victim,
        victim_order=victim_order,
        node_order=(
            lambda found: found.violations,
            highest_priority,
            sum_of_priorities,
            lambda found: (found.victims >= 0).sum(axis=0),
            latest_start,
        ),
    )
