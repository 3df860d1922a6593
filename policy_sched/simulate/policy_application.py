"""How many pods and nodes each policy applies to; one that matches nothing changes nothing.

Theory of operation. Every pod is shown to every policy of its profile, on the cluster as it is just
before the pod's decision; a pod that is not decided by itself (it is gated, or placed together with
its group) on the cluster as it is in the end. The policies of the default profile are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeTable
from policy_sched.framework import Handle
from policy_sched.language import CompiledPolicy
from policy_sched.language.runtime import Activation
from policy_sched.language.values import RuleError
from policy_sched.model import PodInfo
from policy_sched.plugins.rules import bind
from policy_sched.profiles.build import CompiledPlan
from policy_sched.profiles.models import PLUGIN_POINTS
from policy_sched.scheduler import Attempt, Decision, Scheduler


@dataclass(frozen=True, slots=True)
class Applied:
    """What a policy applied to.

    ``matched`` of ``pods`` are of its profile, and no matchCondition is false for them.
    ``rejected``: nodes that its filter rejects for one of them; ``scored``: nodes to which its
    score gives more than 0 for one of them; None without that section.
    """

    policy: str
    profile: str
    matched: int
    pods: int
    rejected: int | None
    scored: int | None
    nodes: int


class Application:
    """Counts what policies apply to while a scheduler decides; decides as that does."""

    def __init__(self, scheduler: Scheduler, plans: Sequence[CompiledPlan]) -> None:
        self._table = scheduler.handle.nodes
        self._policies = [
            _Policy(scheduler.handle, ready.plan.scheduler_name, policy)
            for ready in plans
            for name, policy in ready.policies.items()
            if name not in PLUGIN_POINTS
        ]
        self._seen: set[str] = set()
        if self._policies:
            self._decide = scheduler.decide
            scheduler.decide = self.decide

    def decide(self, attempt: Attempt, table: NodeTable, rng: Random) -> Decision:
        """Show the pod to its policies, and decide it."""
        self.show(attempt.queued.info)
        return self._decide(attempt, table, rng)

    def show(self, info: PodInfo) -> None:
        """Show a pod to the policies of its profile."""
        self._seen.add(info.uid)
        for policy in self._policies:
            if policy.profile == info.scheduler_name:
                policy.show(info)

    def report(self, infos: Sequence[PodInfo]) -> tuple[Applied, ...]:
        """Return what the policies applied to, of these pods."""
        for info in infos:
            if info.uid not in self._seen:
                self.show(info)
        return tuple(policy.applied(infos, self._table) for policy in self._policies)


class _Policy:
    """One policy of one profile, and what it was found to apply to."""

    def __init__(self, handle: Handle, profile: str, policy: CompiledPolicy) -> None:
        self.profile = profile
        self._handle, self._policy = handle, policy
        self._bound = bind(policy, handle.nodes, handle.pods)
        self._matched: set[str] = set()
        self._rejected: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._scored: NDArray[np.bool_] = np.zeros(0, np.bool_)

    def show(self, pod: PodInfo) -> None:
        handle, bound = self._handle, self._bound
        counts = handle.groups.counts(pod)
        cycle = Activation(now=handle.now(), profile=self.profile, pod_group=counts)
        try:
            if not bound.matches(pod, cycle):
                return
        except RuleError:
            return  # the attempt fails, and tells why
        self._matched.add(pod.uid)
        if self._policy.has_filter:
            codes = bound.filter(pod, cycle)
            if codes is not None:
                self._rejected = _either(self._rejected, codes != 0)
        try:
            scores = self._policy.has_score and bound.matches_score(pod, cycle)
        except RuleError:
            return
        if scores:
            self._scored = _either(self._scored, np.asarray(bound.score(pod, cycle)) > 0)

    def applied(self, pods: Sequence[PodInfo], table: NodeTable) -> Applied:
        policy, live = self._policy, table.live.values[: table.n]
        return Applied(
            policy.name,
            self.profile,
            sum(pod.uid in self._matched for pod in pods),
            len(pods),
            _count(self._rejected, live) if policy.has_filter else None,
            _count(self._scored, live) if policy.has_score else None,
            table.live_count,
        )


def _either(known: NDArray[np.bool_], fresh: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return what holds of either; nodes that came since are further rows."""
    found = fresh.copy()
    found[: known.size] |= known[: found.size]
    return found


def _count(rows: NDArray[np.bool_], live: NDArray[np.bool_]) -> int:
    shared = min(rows.size, live.size)
    return int(np.count_nonzero(rows[:shared] & live[:shared]))
