"""The dry run of preemption: the victims of a node, node by node or for all nodes at once.

Theory of operation. Where a filter looks beyond a node, nodes are tried one after the other.
Plugins that keep counts for the attempt (spread, pod affinity) get RemovePod and AddPod for every
pod, on a copy of their state; also for pods nominated to the node.

Where every filter looks at nothing but its own node, all possible victims are removed from all
nodes, and the filters run once. Then, line by line, the next victim of every feasible node is put
back and the filters run; where the pod no longer fits, the victim is removed for good. A later,
smaller pod can be reprieved after a bigger one was not, so this is a sweep and no search for a
prefix. On nodes with nominated pods the filters run twice, the second time with those pods added.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.overlay import AddedPods, NodeOverlay
from policy_sched.framework import CycleState, FirstRejection, Status
from policy_sched.model import PodInfo
from policy_sched.preemption.attempt import DryRunResult, PreemptionAttempt, Victims


class Unit(msgspec.Struct, frozen=True):
    """Pods that go together or stay together, with the rows of their nodes.

    ``needs``: positions of units before this one; if one of them goes, it goes, too.
    """

    pods: tuple[tuple[int, PodInfo], ...]
    needs: frozenset[int] = frozenset()


def search_each(attempt: PreemptionAttempt, victims: Victims) -> DryRunResult:
    """Return what becomes of the pod on each node, and why it does not fit."""
    infos = attempt.cache.pods.infos
    fits = np.zeros(victims.rows.size, np.bool_)
    gone = np.zeros(victims.pods.rows.shape, np.bool_)
    statuses: dict[int, Status] = {}
    promised = attempt.nominations.nominated_pods_on(attempt.pod, victims.rows.tolist())
    for place, row in enumerate(victims.rows.tolist()):
        column = victims.column(place)
        units = [Unit(((row, pod),)) for _, i in column if (pod := infos[i]) is not None]
        reprieved = _OneNode(attempt, row, promised.get(row, ())).reprieve(units)
        if isinstance(reprieved, Status):
            statuses[row] = reprieved
        else:
            fits[place] = True
            gone[[column[i][0] for i in reprieved], place] = True
    return DryRunResult(fits, gone, statuses)


def search_units(attempt: PreemptionAttempt, row: int, units: Sequence[Unit]) -> list[int] | Status:
    """Return the positions of the units that must go to make room on a row, or why none do."""
    promised = attempt.nominations.nominated_pods_on(attempt.pod, (row,))
    return _OneNode(attempt, row, promised.get(row, ())).reprieve(units)


class _OneNode:
    """One node for which pods go, from others too; all is as before when `reprieve` returns."""

    def __init__(self, attempt: PreemptionAttempt, row: int, rivals: tuple[PodInfo, ...]) -> None:
        self._attempt = attempt
        self._nodes = attempt.cache.overlay
        self._row = row
        self._rivals = rivals
        self._state: CycleState = attempt.state.clone()

    def reprieve(self, units: Sequence[Unit]) -> list[int] | Status:
        """Return the positions of the units that must go, or why all of them do not suffice."""
        pod, filters = self._attempt.pod, self._attempt.filter_dry_run
        with self._nodes:
            for unit in units:
                self._remove(unit)
            rejection = self._rejection()
            if rejection is not None:
                return rejection
            victims: list[int] = []
            for position, unit in enumerate(units):
                if not unit.needs.isdisjoint(victims):
                    victims.append(position)
                    continue
                for row, other in unit.pods:
                    self._nodes.add(row, other)
                    filters.add_pod(self._state, pod, other, row)
                if not self._fits():
                    self._remove(unit)
                    victims.append(position)
            return victims

    def _remove(self, unit: Unit) -> None:
        for row, other in unit.pods:
            self._nodes.remove(row, other)
            self._attempt.filter_dry_run.remove_pod(self._state, self._attempt.pod, other, row)

    def _rejection(self) -> Status | None:
        """Return why the pod does not fit, with its nominated pods or without them."""
        attempt = self._attempt
        rejections = self._with_nominated_pods() or attempt.filter_dry_run.rejections(
            self._nodes, self._state, attempt.pod, np.array([self._row], np.intp)
        )
        return rejections[self._row][1] if rejections else None

    def _fits(self) -> bool:
        attempt = self._attempt
        if self._with_nominated_pods():
            return False
        rows = np.array([self._row], np.intp)
        return bool(
            attempt.filter_dry_run.fits(self._nodes, self._state, attempt.pod, rows, moved=True)[0]
        )

    def _with_nominated_pods(self) -> dict[int, tuple[int, Status]]:
        if not self._rivals:
            return {}
        attempt = self._attempt
        promised = {self._row: self._rivals}
        return attempt.filter_dry_run.rejections_with(
            self._nodes, self._state, attempt.pod, promised
        )


def search_one(attempt: PreemptionAttempt, row: int, pods: list[PodInfo]) -> list[int] | None:
    """Return the positions of the pods that must leave a row; None if all do not suffice.

    The filters that read no pods pass there, and the others are functions of a row.
    """
    nodes, pod = attempt.cache.overlay, attempt.pod
    rejection = attempt.filter_dry_run.first_rejection(nodes)
    assert rejection is not None, "the filters are functions of a row"
    rivals = attempt.nominations.nominated_pods_on(pod, (row,)).get(row, ())
    with nodes:
        for other in pods:
            nodes.remove(row, other)
        if not _fits(nodes, rejection, pod, row, rivals):
            return None
        lost = []
        for position, other in enumerate(pods):
            nodes.add(row, other)
            if not _fits(nodes, rejection, pod, row, rivals):
                nodes.remove(row, other)
                lost.append(position)
        return lost


def _fits(
    nodes: NodeOverlay,
    rejection: FirstRejection,
    pod: PodInfo,
    row: int,
    rivals: tuple[PodInfo, ...],
) -> bool:
    """Return whether the pod passes on a row, also with its nominated pods."""
    if rivals:
        with nodes:
            for rival in rivals:
                nodes.add(row, rival)
            if rejection(pod, row) is not None:
                return False
    return rejection(pod, row) is None


def search_all(attempt: PreemptionAttempt, victims: Victims) -> DryRunResult:
    """Return what becomes of the pod on each node; without the reasons where it does not fit."""
    pods = victims.in_order_of_reprieve()
    gone = np.zeros(pods.there.shape, np.bool_)
    with attempt.cache.overlay as nodes:
        nodes.remove_block(victims.rows, pods, attempt.filter_dry_run.reads)
        feasibility = _Feasibility(attempt, victims.rows)
        fits = feasibility.fits(victims.some)
        if fits.any():
            for step, there in enumerate(pods.there):
                if not there.any():
                    continue
                nodes.put_back(step)
                lost = there > feasibility.fits(fits, moved=True)
                nodes.take_off(step, lost)
                gone[step] = lost
    gone &= fits
    return DryRunResult(fits, victims.in_order_of_importance(gone, pods), {})


def why_not(attempt: PreemptionAttempt, victims: Victims) -> dict[int, Status]:
    """Return by row why the pod does not even fit without the victims, where it does not."""
    pod, state, filter_dry_run = attempt.pod, attempt.state, attempt.filter_dry_run
    rows = victims.rows
    with attempt.cache.overlay as nodes:
        nodes.remove_block(rows, victims.pods)
        promised = attempt.nominations.nominated_pods_on(pod, rows.tolist())
        rejections = filter_dry_run.rejections_with(nodes, state, pod, promised)
        rest = rows[~np.isin(rows, list(rejections))] if rejections else rows
        rejections |= filter_dry_run.rejections(nodes, state, pod, rest)
    return {row: status for row, (_, status) in rejections.items()}


class _Feasibility:
    """Runs the filters on nodes without their victims, with and without nominated pods."""

    def __init__(self, attempt: PreemptionAttempt, rows: NDArray[np.intp]) -> None:
        self._attempt = attempt
        self._nodes = attempt.cache.overlay
        self._rows = rows
        nominations = attempt.nominations
        promised = {}
        if nominations.nodes:
            promised = nominations.nominated_pods_on(attempt.pod, rows.tolist())
        self._added = AddedPods(promised) if promised else None
        if self._added is not None:
            self._shared = np.isin(rows, self._added.rows)

    def fits(self, among: NDArray[np.bool_], *, moved: bool = False) -> NDArray[np.bool_]:
        """Return on which of some nodes the pod fits, shape (m,); see `FilterDryRun.fits`."""
        attempt, nodes, rows = self._attempt, self._nodes, self._rows
        pod, state, filters = attempt.pod, attempt.state, attempt.filter_dry_run
        chosen = None if nodes.covers_all_rows else rows
        fits = filters.fits(nodes, state, pod, chosen, among, moved=moved)
        if self._added is not None:
            again = np.flatnonzero(fits & self._shared)
            if again.size:
                with nodes:
                    nodes.add_all(self._added)
                    fits[again] = filters.fits(nodes, state, pod, rows[again], moved=True)
        return fits
