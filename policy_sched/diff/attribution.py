"""Why a pod moves between two runs over one cluster: a policy, a tie, or what moved before it.

Theory of operation. While the first run decides, the second set of policies is asked about every
pod on the very same cluster, just before its decision. If the node that the first run chooses is
not among its best, a policy moves the pod. Otherwise the second set has nothing against that node:
the pod moves since another of the best nodes was drawn (a tie), or since the cluster of the second
run is another one by then (it follows from earlier moves).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from random import Random

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import PluginError
from policy_sched.model import PodInfo
from policy_sched.profiles.build import CompiledPlan
from policy_sched.scheduler import Attempt, Decision, Scheduler
from policy_sched.scheduler.setup import Assembly


class Cause(StrEnum):
    """Why a pod moves."""

    POLICY = "policy"
    """On the same cluster, the other set of policies decides otherwise."""
    TIE = "tie"
    """Both nodes have the highest score; only the random choice differs."""
    FOLLOWS = "follows"
    """Other pods moved before, and left another cluster."""
    GROUP = "group"
    """The pod is placed together with its group, which attribution does not support."""


class Attribution:
    """Asks a second set of policies about each pod that a scheduler decides.

    It takes the place of the scheduler's ``decide``, and decides as that does.
    """

    def __init__(self, scheduler: Scheduler, plans: Sequence[CompiledPlan]) -> None:
        self._profiles = Assembly(scheduler.handle, []).build(plans).profiles
        self._table = scheduler.handle.nodes
        self._best: dict[str, NDArray[np.uint8]] = {}
        """By pod the rows that are best for the second set, a bit each."""
        self._groups: set[str] = set()
        self._decide = scheduler.decide
        scheduler.decide = self.decide

    def decide(self, attempt: Attempt, table: NodeTable, rng: Random) -> Decision:
        """Ask the second set, and decide with the first."""
        info = attempt.queued.info
        self._best[info.key] = np.packbits(self._asked(info))
        return self._decide(attempt, table, rng)

    def saw(self, infos: Sequence[PodInfo]) -> None:
        """Take note of the pods' groups."""
        self._groups = {info.key for info in infos if info.pod_group}

    def cause(self, pod: str, old: str | None, new: str | None) -> Cause:
        """Return why a pod is on ``new`` in the second run, not on ``old``; None is no node."""
        packed = self._best.get(pod)
        if packed is None:
            return Cause.GROUP if pod in self._groups else Cause.POLICY
        best = np.unpackbits(packed, count=self._table.n)
        if old is None:
            return Cause.POLICY if best.any() else Cause.FOLLOWS
        if not best[self._table.row_of[old]]:
            # Another node is better, or none will do. Without a node in the end, although there was
            # a better one here, the pod lacks the room that others took.
            return Cause.POLICY if new is not None or not best.any() else Cause.FOLLOWS
        tied = new is not None and best[self._table.row_of[new]]
        return Cause.TIE if tied else Cause.FOLLOWS

    def _asked(self, info: PodInfo) -> NDArray[np.bool_]:
        """Return the rows that are best for a pod now; none if it would not be placed."""
        best = np.zeros(self._table.n, np.bool_)
        profile = self._profiles.get(info.scheduler_name)
        if profile is None or profile.unsupported_features.reason(info):
            return best
        try:
            if profile.runner.first_rejection("pre_enqueue", info).ok:
                best[profile.evaluator.evaluate(info).best()] = True
        except PluginError:
            return best  # the run with that set tells what broke
        return best
