"""Scoring: the soft spread constraints of a pod over the domains of their labels.

The score of a node is, over the constraints, the pods of its domain times the logarithm of the
number of domains, rounded; fewer is better, and normalisation reverses the order. Float operations
are those of podtopologyspread/scoring.go, in its order. `score` computes all rows; `grouped` does
so by group of rows, and follows pods that come and go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.counts import Domain
from policy_sched.framework import Addend, Feasible, Formula, GroupedSums, Rows, Scores
from policy_sched.model import HOSTNAME, PodInfo
from policy_sched.plugins.podtopologyspread.constraints import (
    Constraint,
    Constraints,
    Distribution,
    Mask,
    SpreadCounter,
)

#: The raw score of an ignored node, which lacks a label. Its normalised score is 0.
IGNORED: Final = -1
BEST: Final = 100

Floats: TypeAlias = NDArray[np.float64]


class Soft(msgspec.Struct, frozen=True, eq=False):
    """One soft constraint with the pods that count for it, by row where it is over hosts."""

    constraint: Constraint
    live: Distribution
    present: Mask
    """The rows that have the label."""
    merged: bool
    """Pods on nodes without the label count for the domain of the empty value, as upstream."""

    @property
    def by_host(self) -> bool:
        """Whether each node is a domain of its own, whatever its label says."""
        return self.constraint.spread.topology_key == HOSTNAME


class SoftSpread(msgspec.Struct, frozen=True, eq=False):
    """The pod's soft constraints, for the scores of this attempt."""

    each: tuple[Soft, ...]
    all_labels: bool
    """Nodes without one of the labels are ignored; else a missing label is the empty value."""
    labelled: Mask | None
    """Rows that have every label, None for all; the others are ignored."""
    live_count: int
    """The number of nodes."""

    def weights(self, rows: NDArray[np.intp]) -> list[tuple[float, int]]:
        """Return of each constraint what its counts are multiplied by, and what is added.

        ``rows``: the feasible ones.
        """
        scored = rows if self.labelled is None else rows[self.labelled[rows]]
        some = None if scored.size == self.live_count else scored
        weights = []
        for soft in self.each:
            size = scored.size
            if not soft.by_host:
                size = _size(soft.live.domain, some, not self.all_labels)
            weights.append((log(size + 2), soft.constraint.spread.max_skew - 1))
        return weights


def soft_spread(counter: SpreadCounter, pod: PodInfo, constraints: Constraints) -> SoftSpread:
    """Count pods for the soft constraints of a pod."""
    keys = tuple([c.spread.topology_key for c in constraints.soft])
    wanted = keys if constraints.all_labels else ()
    each = []
    for key, constraint in zip(keys, constraints.soft, strict=True):
        by_host, domain = key == HOSTNAME, counter.domain(key)
        live = counter.by_row(constraint) if by_host else None
        live = live or counter.distribution(pod, constraint, wanted)
        merged = not (by_host or constraints.all_labels) and domain.empty < domain.count
        each.append(Soft(constraint, live, domain.present, merged))
    labelled = counter.labelled(wanted)
    return SoftSpread(tuple(each), constraints.all_labels, labelled, counter.live_count)


def score(state: SoftSpread, feasible: Feasible, rows: Rows) -> Scores:
    """Return the raw scores of the rows: fewer is better, IGNORED marks ignored rows."""
    total: Floats | None = None
    for soft, (weight, more) in zip(state.each, state.weights(feasible.rows), strict=True):
        domain, totals = soft.live.domain, soft.live.totals
        if soft.merged:
            totals = totals.copy()
            totals[domain.empty] += totals[-1]
        credit = np.multiply(totals, weight, dtype=np.float64)
        credit += more
        credit[-1] = 0.0
        if soft.by_host:
            credit[:-1][~soft.present] = 0.0
        part = domain.of_rows(credit) if rows is None else credit[domain.ids[rows]]
        total = part if total is None else total + part
    assert total is not None, "without constraints PreScore skips"
    scores = _rounded(total)
    if state.labelled is not None:
        scores[~(state.labelled if rows is None else state.labelled[rows])] = IGNORED
    return scores


def normalized(scores: Scores) -> Scores:
    """Reverse the raw scores of all feasible nodes, into 0..100."""
    if not scores.size:
        return np.zeros_like(scores)
    most, fewest = int(np.maximum.reduce(scores)), int(np.minimum.reduce(scores))
    if most == IGNORED:
        return np.zeros_like(scores)
    left_out = fewest == IGNORED
    if left_out:
        fewest = int(scores[scores != IGNORED].min())
    if most == 0:
        normalized = np.full(scores.shape, BEST, np.int64)
    else:
        # Whole numbers below 2**53: the truncated quotient of floats is that of integers.
        share = np.subtract(most + fewest, scores, dtype=np.float64)
        share *= BEST
        share /= most
        normalized = share.astype(np.int64)
    if left_out:
        normalized[scores == IGNORED] = 0
    return normalized


def grouped(state: SoftSpread, feasible: Feasible) -> GroupedSums | None:
    """Return the scores by group of rows; None if all rows must be scored each time."""
    if any(soft.merged for soft in state.each):
        return None  # an amount would be that of two domains
    addends = [
        Addend(soft.live.domain, ((soft.live.totals, 1),), soft.present) for soft in state.each
    ]
    ignored = IGNORED if state.all_labels else None
    # A half more, cut off, rounds as `_rounded` does.
    return GroupedSums.of(addends, Formula(state.weights, _reversed, ignored, 0.5), feasible)


def _reversed(raw: Sequence[int], groups: Iterable[int], lowest: int, highest: int) -> list[int]:
    """Reverse the raw scores of groups, into 0..100, as `normalized` does."""
    both = lowest + highest
    return [(both - raw[group]) * BEST // highest if highest else BEST for group in groups]


def _size(domain: Domain, rows: NDArray[np.intp] | None, with_missing: bool) -> int:
    """Return the number of values of the label on the rows (None: all nodes).

    ``with_missing``: a missing label counts as the empty value.
    """
    if rows is None:
        missing = with_missing and not domain.complete and domain.empty == domain.count
        return domain.count + missing
    seen = np.zeros(domain.count + 1, np.bool_)
    seen[domain.ids[rows]] = True
    if with_missing and seen[-1]:
        seen[domain.empty] = True
        return int(np.count_nonzero(seen)) - (domain.empty < domain.count)
    return int(np.count_nonzero(seen[:-1]))


def _rounded(numbers: Floats) -> Scores:
    """Round half away from zero, as Go does.

    The numbers are whole or at least log(2), and below 2**52: then their sum with one half is
    below the next whole number where that is not the nearest.
    """
    return (numbers + 0.5).astype(np.int64)
