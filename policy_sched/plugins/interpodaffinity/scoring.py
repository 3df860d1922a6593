"""The score of InterPodAffinity: the sum of weights in a node's domains, scaled to 0..100.

For each topology key there is the sum of weights in each domain, and a node's raw score is the sum
over the keys. `score` computes all rows; `grouped` does so by group of rows, and follows pods that
come and go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.counts import Counts, Domain, PodCounts
from policy_sched.framework import Addend, Feasible, Formula, GroupedSums, Rows, Scores
from policy_sched.model import PodInfo
from policy_sched.plugins.interpodaffinity.terms import OwnTerms

BEST: Final = 100


class Weighted(msgspec.Struct, frozen=True, eq=False):
    """What is counted for a pod, by which topology key, and its weight."""

    counts: Counts
    key: str
    weight: int


class PreferredTerms(msgspec.Struct, frozen=True, eq=False):
    """What a node's score is the sum of.

    ``weighted``: counts with pods, by topology key. ``empty``: counts of the pod's own terms that
    have no pod.
    """

    weighted: Mapping[Domain, Sequence[Weighted]]
    empty: Sequence[Counts]

    def same_counts(self) -> bool:
        """Return whether the same of the pod's own terms select pods as before."""
        for of_key in self.weighted.values():
            for term in of_key:
                if not term.counts.by_row:
                    return False
        return not self.empty or not any(counts.by_row for counts in self.empty)


def preferred_terms(
    counts: PodCounts, pod: PodInfo, own: OwnTerms | None, hard_weight: int
) -> PreferredTerms:
    """Return what is counted for a pod; nothing is weighted if no term applies."""
    weighted: dict[Domain, list[Weighted]] = {}
    terms, empty = _weighted(counts, pod, own, hard_weight)
    for term in terms:
        weighted.setdefault(counts.domains.of(term.key), []).append(term)
    return PreferredTerms(weighted, empty)


def _weighted(
    counts: PodCounts, pod: PodInfo, own: OwnTerms | None, hard_weight: int
) -> tuple[list[Weighted], list[Counts]]:
    """Return what is counted for the pod, and the counts of its own terms that have no pod."""
    terms: list[Weighted] = []
    empty: list[Counts] = []
    if own is not None:
        for weight, match, key in own.preferred:
            selected = counts.selected.of(match)
            if selected.by_row:
                terms.append(Weighted(selected, key, weight))
            else:
                empty.append(selected)
    carried = counts.carried
    for kind, weight in ((carried.preferred, 1), (carried.affinity, hard_weight)):
        if weight and kind.live:
            terms += [
                Weighted(borne.counts, borne.term.topology_key, weight)
                for borne in kind.meaning(pod)
                if borne.counts.by_row
            ]
    return terms, empty


def score(state: PreferredTerms, rows: Rows) -> Scores:
    """Return the raw scores of the rows; they may be negative."""
    total: Scores | None = None
    for domain, of_key in state.weighted.items():
        table = of_key[0].counts.by(domain) * of_key[0].weight
        for term in of_key[1:]:
            table += term.counts.by(domain) * term.weight
        table[-1] = 0  # a node without the label is in no domain
        part = domain.of_rows(table) if rows is None else table[domain.ids[rows]]
        total = part if total is None else total + part
    assert total is not None, "without terms PreScore skips"
    return total


def grouped(state: PreferredTerms, feasible: Feasible) -> GroupedSums | None:
    """Return the scores by group of rows; None if all rows must be scored each time."""
    addends = [
        Addend(domain, [(term.counts.by(domain), term.weight) for term in of_key])
        for domain, of_key in state.weighted.items()
    ]
    formula = Formula(lambda _: [(1, 0)] * len(addends), _scaled)
    return GroupedSums.of(addends, formula, feasible)


def _scaled(raw: Sequence[int], groups: Iterable[int], lowest: int, highest: int) -> list[int]:
    """Scale the raw scores of groups to 0..100, as `normalized` does."""
    span = highest - lowest
    return [int((raw[group] - lowest) / span * BEST) if span else 0 for group in groups]


def normalized(scores: Scores) -> Scores:
    """Scale the raw scores of all feasible nodes to 0..100, truncating as Go does."""
    fewest, most = int(np.minimum.reduce(scores)), int(np.maximum.reduce(scores))
    if most == fewest:
        return np.zeros(scores.size, np.int64)
    share: NDArray[np.float64] = np.subtract(scores, fewest, dtype=np.float64)
    share /= most - fewest
    share *= BEST
    return share.astype(np.int64)
