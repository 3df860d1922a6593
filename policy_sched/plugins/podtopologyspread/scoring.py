"""Scoring: the soft spread constraints of a pod over the domains of their labels.

The score of a node is, over the constraints, the pods of its domain times the logarithm of the
number of domains, rounded; fewer is better, and normalisation reverses the order. Float operations
are those of podtopologyspread/scoring.go, in its order.
"""

from __future__ import annotations

from math import log
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.counts import Domain, DomainScores
from policy_sched.framework import Feasible, Rows, Scores
from policy_sched.model import PodInfo
from policy_sched.plugins.podtopologyspread.constraints import (
    HOSTNAME,
    Constraint,
    Constraints,
    Mask,
    Spread,
    SpreadCounter,
)

#: The raw score of an ignored node, which lacks a label. Its normalised score is 0.
IGNORED: Final = -1
BEST: Final = 100

Floats: TypeAlias = NDArray[np.float64]


class SoftSpread(msgspec.Struct, eq=False):
    """The input of scoring in this attempt.

    ``version``: the counter's. ``spreads``: the counts by domain, None of constraints over hosts,
    which count by row. ``feasible``: the rows for which ``weights`` holds, the logarithms of the
    sizes. ``by_domain``: the scores, where one domain decides; else ``credits`` has per constraint
    a number per group of rows, and the group of each row (None: the groups are the rows).
    ``labelled``: rows that have every label, None for all; the others are ignored. ``scores``: of
    all rows, once they were wanted. Nothing else changes after it is made.
    """

    constraints: Constraints
    version: int
    labelled: Mask | None
    spreads: tuple[Spread | None, ...]
    feasible: Feasible
    weights: tuple[float, ...]
    by_domain: DomainScores | None = None
    credits: tuple[tuple[Floats, NDArray[np.intp] | None], ...] = ()
    scores: Scores | None = None


def soft_spread(
    counter: SpreadCounter,
    pod: PodInfo,
    constraints: Constraints,
    feasible: Feasible,
    live: int,
    before: SoftSpread | None = None,
) -> SoftSpread:
    """Count pods for the soft constraints of a pod; ``live``: the number of nodes.

    ``before``: the counts for an equal pod, which hold but for pods that came or went since.
    """
    if before is None or before.constraints is not constraints or before.version != counter.version:
        state = _counted(counter, pod, constraints, feasible)
    else:
        pairs = zip(constraints.soft, before.spreads, strict=True)
        spreads = [None if spread is None else counter.recount(c, spread) for c, spread in pairs]
        state = SoftSpread(
            constraints,
            before.version,
            before.labelled,
            tuple(spreads),
            feasible,
            before.weights if before.feasible is feasible else (),
            before.by_domain,
        )
    if not state.weights:
        state.weights = weights_of(state, live)
    _credit_all(counter, state)
    return state


def _counted(
    counter: SpreadCounter, pod: PodInfo, constraints: Constraints, feasible: Feasible
) -> SoftSpread:
    """Count pods anew; nothing is weighted yet."""
    keys = tuple([c.spread.topology_key for c in constraints.soft])
    wanted = keys if constraints.all_labels else ()
    spreads = [
        None if key == HOSTNAME else counter.spread(pod, constraint, wanted)
        for key, constraint in zip(keys, constraints.soft, strict=True)
    ]
    labelled = counter.labelled(wanted)
    return SoftSpread(constraints, counter.version, labelled, tuple(spreads), feasible, ())


def weights_of(state: SoftSpread, live: int) -> tuple[float, ...]:
    """Return the logarithm that each constraint's counts are multiplied by."""
    rows, labelled = state.feasible.rows, state.labelled
    scored = rows if labelled is None else rows[labelled[rows]]
    weights = []
    for spread in state.spreads:
        if spread is None:
            size = scored.size
        else:
            some = None if scored.size == live else scored
            size = _size(spread.domain, some, not state.constraints.all_labels)
        weights.append(log(size + 2))
    return tuple(weights)


def _credit_all(counter: SpreadCounter, state: SoftSpread) -> None:
    """Work out the scores, or the parts that they are summed from."""
    constraints = state.constraints
    found: list[tuple[Floats, NDArray[np.intp] | None]] = []
    for constraint, spread, weight in zip(
        constraints.soft, state.spreads, state.weights, strict=True
    ):
        if spread is None:
            credit = _credit(constraint, counter.by_row(constraint), weight)
            domain = counter.domain(HOSTNAME)
            if not domain.complete:
                credit[~domain.present] = 0.0
            found.append((credit, None))
            continue
        domain, totals = spread.domain, spread.totals
        if not constraints.all_labels and domain.empty < domain.count:
            # A missing label and an empty one are the same value if nodes without it count.
            totals[domain.empty] += totals[-1]
        credit = _credit(constraint, totals, weight)
        credit[-1] = 0.0
        if len(constraints.soft) == 1 and DomainScores.pays(domain):
            table = _rounded(credit)
            if state.labelled is not None:
                table[-1] = IGNORED
            known = state.by_domain
            state.by_domain = DomainScores(domain, table) if known is None else known.changed(table)
            return
        found.append((credit, domain.ids))
    state.credits = tuple(found)


def score(state: SoftSpread, rows: Rows) -> Scores:
    """Return the raw scores of the rows: fewer is better, IGNORED marks ignored rows."""
    if state.by_domain is not None:
        scores = state.by_domain.raw()
        return scores if rows is None else scores[rows]
    if rows is None and state.scores is not None:
        return state.scores
    total: Floats | None = None
    for credit, ids in state.credits:
        if ids is None:
            part = credit if rows is None else credit[rows]
        else:
            part = credit.take(ids if rows is None else ids[rows], mode="clip")
        total = part if total is None else total + part
    assert total is not None, "without constraints PreScore skips"
    scores = _rounded(total)
    if state.labelled is not None:
        scores[~(state.labelled if rows is None else state.labelled[rows])] = IGNORED
    if rows is None:
        scores.flags.writeable = False
        state.scores = scores
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


def _credit(constraint: Constraint, totals: NDArray[np.int64], weight: float) -> Floats:
    credit = np.multiply(totals, weight, dtype=np.float64)
    credit += constraint.spread.max_skew - 1
    return credit


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
