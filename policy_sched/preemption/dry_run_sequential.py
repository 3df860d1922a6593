"""The dry run on one node after the other, for filters that look beyond a node.

Plugins that keep counts for the attempt (spread, pod affinity) get RemovePod and AddPod for every
pod, on a copy of their state; also for pods nominated to the node.
"""

from __future__ import annotations

import numpy as np

from policy_sched.cluster.overlay import WhatIf
from policy_sched.framework import CycleState, Status
from policy_sched.framework.evaluate import rejections_with_nominated_pods
from policy_sched.model import PodInfo
from policy_sched.preemption.attempt import DryRunResult, PreemptionAttempt, Victims


def search_each(attempt: PreemptionAttempt, victims: Victims) -> DryRunResult:
    """Return what becomes of the pod on each node, and why it does not fit."""
    infos = attempt.cache.pods.infos
    fits = np.zeros(victims.rows.size, np.bool_)
    gone = np.zeros(victims.block.shape, np.bool_)
    statuses: dict[int, Status] = {}
    promised = attempt.nominations.nominated_pods_on(attempt.pod, victims.rows.tolist())
    for place, row in enumerate(victims.rows.tolist()):
        column = [infos[i] for i in victims.block[:, place].tolist() if i >= 0]
        pods = [pod for pod in column if pod is not None]
        answer = _OneNode(attempt, row, promised.get(row, ())).spare(pods)
        if isinstance(answer, Status):
            statuses[row] = answer
        else:
            fits[place] = True
            gone[answer, place] = True
    return DryRunResult(fits, gone, statuses)


class _OneNode:
    """One node from which pods go; everything is as before when `spare` returns."""

    def __init__(self, attempt: PreemptionAttempt, row: int, rivals: tuple[PodInfo, ...]) -> None:
        self._attempt = attempt
        self._row = row
        self._rivals = rivals
        self._state: CycleState = attempt.state.clone()

    def spare(self, pods: list[PodInfo]) -> list[int] | Status:
        """Return the positions of the pods that must go, or why all of them do not suffice."""
        with WhatIf(self._attempt.cache) as what_if:
            for pod in pods:
                self._remove(what_if, pod)
            rejection = self._rejection()
            if rejection is not None:
                return rejection
            victims = []
            for position, pod in enumerate(pods):
                what_if.add(self._row, pod)
                self._attempt.filter_dry_run.add_pod(self._state, self._attempt.pod, pod, self._row)
                if not self._fits():
                    self._remove(what_if, pod)
                    victims.append(position)
            return victims

    def _remove(self, what_if: WhatIf, pod: PodInfo) -> None:
        what_if.remove(self._row, pod)
        self._attempt.filter_dry_run.remove_pod(self._state, self._attempt.pod, pod, self._row)

    def _rejection(self) -> Status | None:
        """Return why the pod does not fit, with its nominated pods or without them."""
        attempt = self._attempt
        found = self._with_nominated_pods() or attempt.filter_dry_run.rejections(
            self._state, attempt.pod, np.array([self._row], np.intp)
        )
        return found[self._row][1] if found else None

    def _fits(self) -> bool:
        attempt = self._attempt
        if self._with_nominated_pods():
            return False
        rows = np.array([self._row], np.intp)
        return bool(attempt.filter_dry_run.fits(self._state, attempt.pod, rows, moved=True)[0])

    def _with_nominated_pods(self) -> dict[int, tuple[int, Status]]:
        if not self._rivals:
            return {}
        attempt = self._attempt
        promised = {self._row: self._rivals}
        return rejections_with_nominated_pods(
            attempt.cache, attempt.filter_dry_run, self._state, attempt.pod, promised
        )
