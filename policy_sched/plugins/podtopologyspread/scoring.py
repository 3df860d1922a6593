"""Soft spread constraints: nodes in domains with few of the pods are better.

The score of a node is, over the constraints, the pods of its domain times the logarithm of the
number of domains, rounded; fewer is better, and normalising turns that round. Float operations
are those of kube-scheduler's podtopologyspread/scoring.go, in its order.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.counts import Domain
from policy_sched.framework import Rows, Scores
from policy_sched.model import PodInfo
from policy_sched.plugins.podtopologyspread.constraints import HOSTNAME, Constraint, Constraints
from policy_sched.plugins.podtopologyspread.counts import SpreadCounter
from policy_sched.plugins.podtopologyspread.node_inclusion import Mask

#: The score of a node that is left out: it has not all labels. Normalised, it is 0.
IGNORED: Final = -1
BEST: Final = 100

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SoftSpread:
    """What scoring reads in this attempt.

    ``credits``: per constraint a number per group of rows, and the group of each row (None: the
    groups are the rows). ``ignored``: rows that are left out, None for none.
    """

    credits: tuple[tuple[Floats, NDArray[np.intp] | None], ...]
    ignored: Mask | None


def soft_spread(
    counter: SpreadCounter,
    pod: PodInfo,
    constraints: Constraints,
    feasible: NDArray[np.intp],
    live: int,
) -> SoftSpread:
    """Count for the soft constraints of a pod; ``live`` is how many nodes there are."""
    keys = tuple(c.spread.topology_key for c in constraints.soft) if constraints.all_labels else ()
    labelled = counter.labelled(keys)
    scored = feasible if labelled is None else feasible[labelled[feasible]]
    found: list[tuple[Floats, NDArray[np.intp] | None]] = []
    for constraint in constraints.soft:
        key = constraint.spread.topology_key
        domain = counter.domain(key)
        if key == HOSTNAME:
            credit = _credit(constraint, counter.by_row(constraint), scored.size)
            if not domain.complete:
                credit[~domain.present] = 0.0
            found.append((credit, None))
            continue
        totals = counter.spread(pod, constraint, keys).totals
        whole = scored.size == live
        size = _size(domain, None if whole else scored, not constraints.all_labels)
        if not constraints.all_labels and domain.empty < domain.count:
            # A missing label and an empty one are the same value where both are let in.
            totals[domain.empty] += totals[-1]
        credit = _credit(constraint, totals, size)
        credit[-1] = 0.0
        found.append((credit, domain.ids))
    return SoftSpread(tuple(found), None if labelled is None else ~labelled)


def score(state: SoftSpread, rows: Rows) -> Scores:
    """Return the raw scores of the rows: fewer is better, IGNORED is left out."""
    total: Floats | None = None
    for credit, ids in state.credits:
        if ids is None:
            part = credit.copy() if rows is None else credit[rows]
        else:
            part = credit.take(ids if rows is None else ids[rows], mode="clip")
        if total is None:
            total = part
        else:
            total += part
    assert total is not None, "without constraints PreScore skips"
    scores = _rounded(total)
    if state.ignored is not None:
        scores[state.ignored if rows is None else state.ignored[rows]] = IGNORED
    return scores


def normalized(scores: Scores) -> Scores:
    """Turn raw scores of all feasible nodes round, into 0..100."""
    ignored = scores == IGNORED
    left_out = bool(ignored.any())
    counted = scores[~ignored] if left_out else scores
    if not counted.size:
        return np.zeros_like(scores)
    most, fewest = int(counted.max()), int(counted.min())
    if most == 0:
        answer = np.full(scores.shape, BEST, np.int64)
    else:
        # Whole numbers below 2**53: the quotient of floats, cut, is that of integers.
        answer = (BEST * (most + fewest - scores) / most).astype(np.int64)
    if left_out:
        answer[ignored] = 0
    return answer


def _credit(constraint: Constraint, totals: NDArray[np.int64], size: int) -> Floats:
    credit: Floats = totals.astype(np.float64)
    credit *= log(size + 2)
    credit += constraint.spread.max_skew - 1
    return credit


def _size(domain: Domain, rows: NDArray[np.intp] | None, with_missing: bool) -> int:
    """Return how many values of the label the rows have (None: all nodes); a missing one may be
    a value, too: the empty text.
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
    """Round half away from zero, as Go does; the numbers are not below zero."""
    whole: Floats = np.floor(numbers)
    numbers -= whole
    whole += numbers >= 0.5
    return whole.astype(np.int64)
