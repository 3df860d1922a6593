"""The hooks of a policy's ``placement`` section: domains of nodes, and how good one is for a group.

Pods of the group that have a node already decide: the others join them in their domain, as with
kube-scheduler's TopologyPlacementGenerator. Where they are in several, each of these will do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from policy_sched.framework import SKIP, Handle, Placement, Placements, hookimpl
from policy_sched.language import CompiledPolicy
from policy_sched.language.runtime import Activation
from policy_sched.language.values import PlacementFacts
from policy_sched.model import PodInfo
from policy_sched.plugins.rules.bound_placement import BoundPlacement, Domains
from policy_sched.plugins.rules.bound_policy import BoundPolicy

_ANYWHERE: Final = Placements(status=SKIP)


def placement_hooks(
    policy: CompiledPolicy, bound: BoundPolicy, handle: Handle, profile: str
) -> dict[str, Callable[..., object]]:
    """Return the hooks of the section, by name."""
    if bound.placement is None:
        return {}
    rules = _Placing(bound, bound.placement, handle, profile)
    hooks: dict[str, Callable[..., object]] = {}
    if policy.domain_reads is not None:
        hooks["placement_generate"] = rules.placement_generate
    if policy.has_placement_score:
        hooks["placement_score"] = rules.placement_score
    return hooks


class _Placing:
    """The hooks of one bound policy."""

    def __init__(
        self, bound: BoundPolicy, placement: BoundPlacement, handle: Handle, profile: str
    ) -> None:
        self._bound = bound
        self._placement = placement
        self._handle = handle
        self._profile = profile

    @hookimpl
    def placement_generate(self, pods: Sequence[PodInfo]) -> Placements:
        """Part the nodes by the policy's domain."""
        pod = pods[0]
        cycle = self._cycle(pod)
        if not self._bound.matches(pod, cycle):
            return _ANYWHERE
        narrowest, *wider = (
            self._with_siblings(pod, domains) or domains
            for domains in self._placement.levels(pod, cycle)
        )
        return Placements(narrowest, wider=tuple(wider))

    def _with_siblings(self, pod: PodInfo, domains: Domains) -> Domains:
        """Return the domains in which pods of the group have a node already."""
        table = self._handle.nodes
        placed = self._handle.cache.groups.pods((pod.namespace, pod.pod_group))
        rows = [table.row_of[node] for uid in placed if (node := self._node(uid)) in table.row_of]
        there = np.array(rows, np.intp)
        return {name: own for name, own in domains.items() if np.isin(there, own).any()}

    @hookimpl
    def placement_score(self, pods: Sequence[PodInfo], placement: Placement) -> int:
        """Rate a domain by the policy's score."""
        pod = pods[0]
        cycle = self._cycle(pod)
        if not self._bound.matches(pod, cycle):
            return 0
        facts = PlacementFacts(
            placement.name,
            placement.rows,
            self._assigned(pod, placement),
            self._handle.nodes,
            placement.level,
        )
        return self._placement.score(pod, cycle, facts)

    def _assigned(self, pod: PodInfo, placement: Placement) -> tuple[PodInfo, ...]:
        """Return the group's pods that run in the domain, and those that would."""
        names = self._handle.nodes.names
        inside = {names[row] for row in placement.rows.tolist()}
        proposed = tuple(member for member, _ in placement.assigned)
        known = {member.uid for member in proposed}
        cache = self._handle.cache
        running = (
            info
            for uid in cache.groups.pods((pod.namespace, pod.pod_group))
            if uid not in known and self._node(uid) in inside and (info := cache.pod(uid))
        )
        return (*running, *proposed)

    def _node(self, uid: str) -> str:
        return self._handle.cache.node_of(uid)

    def _cycle(self, pod: PodInfo) -> Activation:
        handle = self._handle
        return Activation(
            now=handle.now(), profile=self._profile, pod_group=handle.groups.counts(pod)
        )
