"""What nominations mean for other pods: promised room is respected before it is taken.

Theory of operation: where pods of equal or higher priority are nominated to a node, the filters
must pass twice: with those pods on it, and without them, for they may never come. The second
answer is the ordinary one; this module finds the first, for the few rows that need it. Nothing
of it is kept: nominations are not in the journal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from policy_sched.cluster.cache import Cache
from policy_sched.cluster.what_if import WhatIf
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.status import Status
from policy_sched.framework.trial import Trial
from policy_sched.model.pod_info import PodInfo
from policy_sched.queue.nominator import Nominator

Rivals: TypeAlias = Mapping[int, tuple[PodInfo, ...]]
"""By row of the node table: the nominated pods that come before the pod in question."""


class Nominations:
    """The nominator, as the evaluation of a pod sees it."""

    def __init__(self, cache: Cache, nominator: Nominator) -> None:
        self._cache = cache
        self._nominator = nominator

    def __bool__(self) -> bool:
        return len(self._nominator) > 0

    def row_of(self, pod: PodInfo) -> int | None:
        """Return the row that the pod itself is nominated to, None without a live one."""
        return self._cache.nodes.row_of.get(self._nominator.node_of(pod.uid))

    def rivals(self, pod: PodInfo) -> Rivals:
        """Return the other pods of equal or higher priority that are nominated to live rows."""
        row_of = self._cache.nodes.row_of
        found: dict[int, tuple[PodInfo, ...]] = {}
        for node, pods in self._nominator.nominated():
            others = tuple(p for p in pods if p.priority >= pod.priority and p.uid != pod.uid)
            if others and node in row_of:
                found[row_of[node]] = others
        return found

    def rejections(
        self, trial: Trial, state: CycleState, pod: PodInfo, rivals: Rivals
    ) -> dict[int, tuple[int, Status]]:
        """Return the rows on which the pod does not fit beside its rivals, as `Trial` says it."""
        if not trial.node_by_node:
            with WhatIf(self._cache) as what_if:
                for row, others in rivals.items():
                    for other in others:
                        what_if.add(row, other)
                return trial.rejections(state, pod, np.array(list(rivals), np.intp))
        answers: dict[int, tuple[int, Status]] = {}
        for row, others in rivals.items():
            twin = state.clone()
            with WhatIf(self._cache) as what_if:
                for other in others:
                    what_if.add(row, other)
                    trial.add_pod(twin, pod, other, row)
                answers |= trial.rejections(twin, pod, np.array([row], np.intp))
        return answers
