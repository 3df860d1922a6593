"""Preferred pod affinity: nodes near pods that are liked, and that like the pod, are better.

The score of a node is, over its topology labels, the sum of the weights in its domain: those of
the pod's preferred terms times the pods they mean, those of running pods' preferred terms that
mean the pod, and hardPodAffinityWeight for each required affinity term that does
(kube-scheduler's interpodaffinity/scoring.go).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.counts import Domain, PodCounts
from policy_sched.framework import Rows, Scores
from policy_sched.model import PodInfo
from policy_sched.plugins.interpodaffinity.filtering import OwnTerms

BEST = 100


@dataclass(frozen=True, slots=True)
class PreferredTerms:
    """Per topology key what a node in each domain scores, shape (domain.count + 1,)."""

    tables: tuple[tuple[Domain, NDArray[np.int64]], ...]


def preferred_terms(
    counts: PodCounts, pod: PodInfo, own: OwnTerms | None, hard_weight: int
) -> PreferredTerms | None:
    """Add up the weights for a pod; None if nothing concerns it."""
    tables: dict[str, tuple[Domain, NDArray[np.int64]]] = {}

    def add(key: str, by: NDArray[np.int64], weight: int) -> None:
        part = by * weight
        if key in tables:
            part += tables[key][1]
        tables[key] = (counts.domains.of(key), part)

    if own is not None:
        for weight, match, key in own.preferred:
            found = counts.selected.of(match)
            if found.by_row:
                add(key, found.by(counts.domains.of(key)), weight)
    carried = counts.carried
    for kind, weight in ((carried.preferred, 1), (carried.affinity, hard_weight)):
        if weight and kind.live:
            for one in kind.meaning(pod):
                if one.counts.by_row:
                    key = one.term.topology_key
                    add(key, one.counts.by(counts.domains.of(key)), weight)
    if not tables:
        return None
    for _, table in tables.values():
        table[-1] = 0  # a node without the label is in no domain
    return PreferredTerms(tuple(tables.values()))


def score(state: PreferredTerms, rows: Rows) -> Scores:
    """Return the raw scores of the rows; they may be below zero."""
    total: Scores | None = None
    for domain, table in state.tables:
        part = table.take(domain.ids if rows is None else domain.ids[rows], mode="clip")
        if total is None:
            total = part
        else:
            total += part
    assert total is not None, "without tables PreScore skips"
    return total


def normalized(scores: Scores) -> Scores:
    """Stretch the raw scores of all feasible nodes over 0..100, cutting as Go does."""
    fewest, most = int(scores.min()), int(scores.max())
    if most == fewest:
        return np.zeros_like(scores)
    share = (scores - fewest) / (most - fewest)
    share *= BEST
    return share.astype(np.int64)
