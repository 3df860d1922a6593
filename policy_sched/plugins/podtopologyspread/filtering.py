"""Hard spread constraints: which nodes would make the spread worse than a constraint allows.

A node passes if it has the label and ``pods there + itself - fewest anywhere <= maxSkew``, for
every constraint in order (kube-scheduler's podtopologyspread/filtering.go).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.counts import Domain
from policy_sched.framework import PASSES, Code, Codes, FilterResult, Rows, Status
from policy_sched.model import PodInfo
from policy_sched.plugins.podtopologyspread.constraints import Constraint
from policy_sched.plugins.podtopologyspread.counts import Spread, SpreadCounter

NOT_MATCHED: Final = "node(s) didn't match pod topology spread constraints"
NO_LABEL: Final = f"{NOT_MATCHED} (missing required label)"

_MISSING: Final = 1
_SKEWED: Final = 2
_STATUSES: Final = (
    Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (NO_LABEL,)),
    Status(Code.UNSCHEDULABLE, (NOT_MATCHED,)),
)
#: What counts as the fewest where no domain has a node that counts (Go's MaxInt32).
_NO_MINIMUM: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class HardSpread:
    """The pod's hard constraints and how their pods are spread, for the filter of this attempt.

    ``labelled``: rows that have every constraint's label, None for all. ``tables``: for each
    constraint that some node breaks, in order, its domains and the code of each.
    """

    constraints: tuple[Constraint, ...]
    spreads: tuple[Spread, ...]
    labelled: NDArray[np.bool_] | None
    tables: tuple[tuple[Domain, Codes], ...]


def hard_spread(
    counter: SpreadCounter, pod: PodInfo, constraints: tuple[Constraint, ...]
) -> HardSpread:
    """Count for the hard constraints of a pod."""
    keys = tuple(c.spread.topology_key for c in constraints)
    # A lone constraint's nodes without the label are distinguished by its domain already.
    wanted = keys if len(keys) > 1 else ()
    spreads = tuple(counter.spread(pod, c, wanted) for c in constraints)
    tables = _tables(constraints, spreads, pod)
    return HardSpread(constraints, spreads, counter.labelled(keys), tables)


def verdict(state: HardSpread, rows: Rows) -> FilterResult:
    """Return the filter's answer for the rows."""
    codes: Codes | None = None
    for domain, table in state.tables:
        ids = domain.ids if rows is None else domain.ids[rows]
        found: Codes = table.take(ids, mode="clip")
        if codes is None:
            codes = found
        else:
            np.copyto(codes, found, where=codes == 0)
    if codes is None:
        return PASSES
    return FilterResult.of(codes, *_STATUSES)


def moved(state: HardSpread, pod: PodInfo, other: PodInfo, row: int, by: int) -> HardSpread:
    """Return the state as if `other` had come to a row (`by` 1) or left it (-1).

    As upstream has it, pods that are being deleted count here, although they did not before.
    """
    if other.namespace != pod.namespace:
        return state
    if state.labelled is not None and not state.labelled[row]:
        return state
    spreads, changed = list(state.spreads), False
    for index, (constraint, spread) in enumerate(zip(state.constraints, spreads, strict=True)):
        outside = spread.included is not None and not spread.included.mask[row]
        if outside or not constraint.selector.matches(other.labels):
            continue
        totals = spread.totals.copy()
        totals[spread.domain.ids[row]] += by
        spreads[index] = replace(spread, totals=totals)
        changed = True
    if not changed:
        return state
    tables = _tables(state.constraints, spreads, pod)
    return HardSpread(state.constraints, tuple(spreads), state.labelled, tables)


def _tables(
    constraints: Sequence[Constraint], spreads: Sequence[Spread], pod: PodInfo
) -> tuple[tuple[Domain, Codes], ...]:
    """Leave out the constraints that every node meets."""
    tables = [_table(c, s, pod) for c, s in zip(constraints, spreads, strict=True)]
    return tuple(
        (spread.domain, table)
        for spread, table in zip(spreads, tables, strict=True)
        if not spread.domain.complete or table[:-1].any()
    )


def _table(constraint: Constraint, spread: Spread, pod: PodInfo) -> Codes:
    """Return the code of a node in each domain, shape (count + 1,)."""
    totals = spread.totals[:-1]
    counted = totals if spread.included is None else totals[spread.included.exists]
    fewest = int(counted.min()) if counted.size else _NO_MINIMUM
    if counted.size < constraint.spread.min_domains:
        fewest = 0
    itself = int(constraint.selector.matches(pod.labels))
    room = constraint.spread.max_skew + fewest - itself
    table = np.empty(spread.domain.count + 1, np.int16)
    np.multiply(totals > room, _SKEWED, out=table[:-1], casting="unsafe")
    table[-1] = _MISSING
    return table
