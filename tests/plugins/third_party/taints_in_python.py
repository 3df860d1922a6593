"""A third party's plugin: TaintToleration's filter and score, written in Python and NumPy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from policy_sched.framework import FilterResult, Rows, Scope, Scores, Signature
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.handle import Handle
from policy_sched.framework.hookspecs import hookimpl
from policy_sched.framework.status import Code, Status
from policy_sched.model import cluster_event
from policy_sched.model.pod_info import PodInfo

REASON = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("node(s) had untolerated taint(s)",))


class TaintsInPython:
    """Counts, for each distinct set of taints, those that the pod does not tolerate."""

    def __init__(self, args: Mapping[str, object], handle: Handle) -> None:
        if args:
            raise ValueError(f"takes no arguments, got {sorted(args)}")
        self._table = handle.nodes
        self._sets = handle.nodes.column(("taints",))

    @hookimpl
    def sign_pod(self) -> Signature:
        return Signature(frozenset({("tolerations",)}), Scope.STATIC)

    @hookimpl
    def events_to_register(self) -> tuple[cluster_event.ClusterEventWithHint, ...]:
        taint = cluster_event.ClusterEvent(
            cluster_event.EventResource.NODE, cluster_event.ActionType.UPDATE_NODE_TAINT
        )
        return (
            cluster_event.ClusterEventWithHint(cluster_event.NODE_ADD),
            cluster_event.ClusterEventWithHint(taint),
        )

    @hookimpl
    def filter(self, state: CycleState, pod: PodInfo, rows: Rows) -> FilterResult:
        codes = self._untolerated(pod, rows, "NoSchedule", "NoExecute") > 0
        return FilterResult.of(codes.astype(np.int16), REASON)

    @hookimpl
    def score(self, state: CycleState, pod: PodInfo, rows: Rows) -> Scores:
        return self._untolerated(pod, rows, "PreferNoSchedule")

    @hookimpl
    def normalize_score(self, state: CycleState, pod: PodInfo, scores: Scores) -> Scores:
        most = int(scores.max())
        if most == 0:
            return np.full(scores.shape, 100, np.int64)
        return 100 - scores * 100 // most

    def _untolerated(self, pod: PodInfo, rows: Rows, *effects: str) -> NDArray[np.int64]:
        taints = self._table.taint_sets
        counts = np.array(
            [
                sum(
                    taint.effect in effects
                    and not any(
                        t.tolerates(taint.key, taint.value, taint.effect) for t in pod.tolerations
                    )
                    for taint in members
                )
                for members in taints.sets
            ],
            np.int64,
        )
        sets = self._sets.values[: self._table.n] if rows is None else self._sets.values[rows]
        return counts[sets]
