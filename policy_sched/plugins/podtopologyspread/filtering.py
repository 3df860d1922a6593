"""Filtering: the hard spread constraints of a pod over the domains of their labels.

A node passes if it has the label and ``pods there + itself - fewest anywhere <= maxSkew``, for
every hard constraint in order (kube-scheduler's podtopologyspread/filtering.go).

Theory of operation. After pods came to or left some rows only the domains of these rows have other
counts. A constraint allows as many pods in a domain as before unless the fewest pods anywhere have
changed. The rows of the domains that it opens or shuts have other codes (`recounted`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched import thresholds
from policy_sched.framework import PASSES, Code, Codes, FilterResult, Rows, Status
from policy_sched.model import PodInfo
from policy_sched.plugins.podtopologyspread.constraints import (
    Constraint,
    Distribution,
    Mask,
    SpreadCounter,
)

NOT_MATCHED: Final = "node(s) didn't match pod topology spread constraints"
NO_LABEL: Final = f"{NOT_MATCHED} (missing required label)"

_MISSING: Final = 1
_SKEWED: Final = 2
_STATUSES: Final = (
    Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (NO_LABEL,)),
    Status(Code.UNSCHEDULABLE, (NOT_MATCHED,)),
)
#: The fewest pods if no domain has a node that counts (Go's MaxInt32).
_NO_MINIMUM: Final = 2**31 - 1

NO_ROWS: Final = np.empty(0, np.intp)


class Hard(msgspec.Struct, frozen=True, eq=False):
    """One hard constraint with the pods that count for it."""

    constraint: Constraint
    itself: int
    """Whether the pod counts for the constraint, 1 or 0."""
    live: Distribution
    totals: NDArray[np.int64]
    """The pods by domain in this attempt, shape (domain.count + 1,)."""
    allowed: int
    """How many pods a domain may have for a node in it to pass."""
    codes: Codes | None
    """The code of a node in each domain, shape (count + 1,); None if every node passes."""

    @staticmethod
    def of(
        constraint: Constraint, itself: int, live: Distribution, totals: NDArray[np.int64]
    ) -> Hard:
        """Return the constraint with these totals, which are not to change."""
        allowed = _allowed(constraint, live, totals, itself)
        codes = _codes(live, totals, allowed)
        return Hard(constraint, itself, live, totals, allowed, codes)


class HardSpread(msgspec.Struct, frozen=True, eq=False):
    """The pod's hard constraints, for the filter of this attempt.

    ``labelled``: rows that have every constraint's label, None for all.
    """

    labelled: Mask | None
    each: tuple[Hard, ...]


def hard_spread(
    counter: SpreadCounter, pod: PodInfo, constraints: Sequence[Constraint]
) -> HardSpread:
    """Count pods for the hard constraints of a pod."""
    keys = tuple([c.spread.topology_key for c in constraints])
    # A single constraint's nodes without the label have their own domain.
    wanted = keys if len(keys) > 1 else ()
    each = []
    for constraint in constraints:
        live = counter.distribution(pod, constraint, wanted)
        itself = int(constraint.selector.matches(pod.labels))
        each.append(Hard.of(constraint, itself, live, live.totals.copy()))
    return HardSpread(counter.labelled(keys), tuple(each))


def verdict(state: HardSpread, rows: Rows) -> FilterResult:
    """Return the result of the filter for the rows."""
    codes: Codes | None = None
    for hard in state.each:
        if hard.codes is not None:
            domain, table = hard.live.domain, hard.codes
            others = domain.of_rows(table) if rows is None else table[domain.ids[rows]]
            codes = others if codes is None else np.where(codes == 0, others, codes)
    if codes is None:
        return PASSES
    if rows is None:
        codes.flags.writeable = False  # the evaluator keeps it without a copy
    return FilterResult.of(codes, *_STATUSES)


def moved(state: HardSpread, pod: PodInfo, other: PodInfo, row: int, by: int) -> HardSpread:
    """Return the state with `other` added to a row (`by` 1) or removed from it (-1).

    As upstream, terminating pods count here, although they did not before.
    """
    if other.namespace != pod.namespace:
        return state
    if state.labelled is not None and not state.labelled[row]:
        return state
    each, changed = list(state.each), False
    for position, hard in enumerate(each):
        included = hard.live.included
        outside = included is not None and not included.mask[row]
        if outside or not hard.constraint.selector.matches(other.labels):
            continue
        totals = hard.totals.copy()
        totals[hard.live.domain.ids[row]] += by
        each[position] = Hard.of(hard.constraint, hard.itself, hard.live, totals)
        changed = True
    return HardSpread(state.labelled, tuple(each)) if changed else state


def recounted(hard: Hard, changed: Sequence[int]) -> tuple[Hard, NDArray[np.intp]]:
    """Return the constraint with the counts as they are, and the rows that it opens or shuts.

    ``changed``: the domains with another count.
    """
    live, before, after, limit = hard.live, hard.totals, hard.live.totals.copy(), hard.allowed
    fewest, recount = limit - hard.constraint.spread.max_skew + hard.itself, False
    turned: list[int] = []
    for number in changed:
        was, now = before.item(number), after.item(number)
        if was <= fewest or now < fewest:
            recount = True
        if (was > limit) != (now > limit):
            turned.append(number)
    allowed = _allowed(hard.constraint, live, after, hard.itself) if recount else limit
    rows, codes = NO_ROWS, hard.codes
    if allowed != limit or len(turned) > 1:
        differs = (before > limit) != (after > allowed)
        turned = differs.nonzero()[0].tolist()
        if len(turned) > 1:
            rows = differs.take(live.domain.ids).nonzero()[0]
    if len(turned) == 1:
        rows = live.domain.rows_of(turned)
    if turned:
        codes = _codes(live, after, allowed)
    return Hard(hard.constraint, hard.itself, live, after, allowed, codes), rows


def _allowed(
    constraint: Constraint, live: Distribution, totals: NDArray[np.int64], itself: int
) -> int:
    """Return how many pods a domain may have for a node in it to pass."""
    counted, spread = totals[:-1], constraint.spread
    if live.included is not None:
        counted = counted[live.included.exists]
    if counted.size < spread.min_domains:
        fewest = 0
    elif counted.size <= thresholds.FEW_ROWS:
        fewest = min(counted.tolist(), default=_NO_MINIMUM)
    else:
        fewest = int(np.minimum.reduce(counted))
    return spread.max_skew + fewest - itself


def _codes(live: Distribution, totals: NDArray[np.int64], allowed: int) -> Codes | None:
    """Return the code of a node in each domain, shape (count + 1,); None if every node passes."""
    domain = live.domain
    skewed = totals[:-1] > allowed
    if domain.complete and not np.count_nonzero(skewed):
        return None
    codes = np.empty(domain.count + 1, np.int16)
    np.multiply(skewed, _SKEWED, out=codes[:-1], casting="unsafe")
    codes[-1] = _MISSING
    return codes
