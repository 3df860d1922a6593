"""Extenders in preemption: which candidates stay, and which victims are evicted there.

Extenders are called in order, each with the result of the one before. What the last one returns
are the candidates: it may name other victims, even other nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from policy_sched.cluster import Cache
from policy_sched.cluster.tables import PodRows
from policy_sched.errors import PluginError
from policy_sched.framework import Extender, NamedVictims, NodeVictims
from policy_sched.framework.evaluate import skip
from policy_sched.model import PodInfo
from policy_sched.preemption.rules import Candidates


def consulted(
    extenders: Sequence[Extender], pod: PodInfo, victims: Mapping[str, NodeVictims], cache: Cache
) -> Mapping[str, NodeVictims]:
    """Return what extenders leave of the victims by node; the same mapping if none was called.

    Raises PluginError if one fails that is not ignorable, or names what is not there.
    """
    for extender in extenders:
        if not victims:
            break
        if not extender.preempts or not extender.interested(pod):
            continue
        try:
            response = extender.preempt(pod, victims)
            victims = _accepted(extender, _resolved(extender, response, cache))
        except PluginError as error:
            if not extender.ignorable:
                raise
            skip(extender, error)
    return victims


def candidates_of(victims: Mapping[str, NodeVictims], cache: Cache) -> Candidates:
    """Return victims by node as candidates, in the mapping's order."""
    rows = [cache.nodes.row_of[name] for name in victims]
    depth = max((len(victim.pods) for victim in victims.values()), default=0)
    block = np.full((depth, len(rows)), -1, np.intp)
    for place, victim in enumerate(victims.values()):
        for line, pod in enumerate(victim.pods):
            row = cache.pod_row(pod.uid)
            assert row is not None, "victims are pods of the cache"
            block[line, place] = row
    violations = [victim.violations for victim in victims.values()]
    victims_of_all = PodRows(cache.pods, block)
    return Candidates(np.array(rows, np.intp), victims_of_all, np.array(violations, np.int64))


def _resolved(
    extender: Extender, response: Mapping[str, NamedVictims], cache: Cache
) -> dict[str, NodeVictims]:
    """Return the pods that the extender names."""
    resolved: dict[str, NodeVictims] = {}
    for name, named in response.items():
        row = cache.nodes.row_of.get(name)
        if row is None:
            raise PluginError(f'nodeinfo not found for node name "{name}"')
        there = cache.nodes.pods_on(row)
        for uid in named.uids:
            if uid not in there:
                raise PluginError(
                    f"extender: {extender.name} claims to preempt pod (UID: {uid}) on node: "
                    f"{name}, but the pod is not found on that node"
                )
        resolved[name] = NodeVictims(tuple(there[uid] for uid in named.uids), named.violations)
    return resolved


def _accepted(extender: Extender, proposed: dict[str, NodeVictims]) -> dict[str, NodeVictims]:
    """Return the nodes that have victims; one without is an error, or ignored with its extender."""
    empty = [name for name, victims in proposed.items() if not victims.pods]
    if empty and not extender.ignorable:
        raise PluginError(f'expected at least one victim pod on node "{empty[0]}"')
    return {name: victims for name, victims in proposed.items() if victims.pods}
