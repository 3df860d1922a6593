"""Hard spread constraints: which nodes would make the spread worse than a constraint allows.

A node passes if it has the label and ``pods there + itself - fewest anywhere <= maxSkew``, for
every constraint in order (kube-scheduler's podtopologyspread/filtering.go).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.framework.results import PASSES, Codes, Rows, Verdict
from policy_sched.framework.status import Code, Status
from policy_sched.model.pod_info import PodInfo
from policy_sched.plugins.topology_spread_constraints import Constraint
from policy_sched.plugins.topology_spread_counts import Spread, SpreadCounter

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

    ``labelled``: rows that have every constraint's label, None for all.
    """

    constraints: tuple[Constraint, ...]
    spreads: tuple[Spread, ...]
    labelled: NDArray[np.bool_] | None
    tables: list[Codes] = field(default_factory=list)
    """Per constraint the code of each domain, worked out at the first filter."""


def hard_spread(
    counter: SpreadCounter, pod: PodInfo, constraints: tuple[Constraint, ...]
) -> HardSpread:
    """Count for the hard constraints of a pod."""
    labelled = counter.labelled(constraints)
    # A lone constraint's nodes without the label are told apart by its domain already.
    mask = labelled if len(constraints) > 1 else None
    spreads = tuple(counter.spread(pod, c, mask) for c in constraints)
    return HardSpread(constraints, spreads, labelled)


def verdict(state: HardSpread, pod: PodInfo, rows: Rows) -> Verdict:
    """Return the filter's answer for the rows."""
    if not state.tables:
        state.tables.extend(
            _table(c, s, pod) for c, s in zip(state.constraints, state.spreads, strict=True)
        )
    codes: Codes | None = None
    for spread, table in zip(state.spreads, state.tables, strict=True):
        ids = spread.domain.ids if rows is None else spread.domain.ids[rows]
        found: Codes = table.take(ids, mode="clip")
        if codes is None:
            codes = found
        else:
            np.copyto(codes, found, where=codes == 0)
    if codes is None:
        return PASSES
    return Verdict.of(codes, *_STATUSES)


def moved(state: HardSpread, pod: PodInfo, other: PodInfo, row: int, by: int) -> HardSpread:
    """Return the state as if `other` had come to a row (`by` 1) or left it (-1).

    As upstream has it, pods that are being deleted count here, although they did not before.
    """
    if other.namespace != pod.namespace:
        return state
    if state.labelled is not None and not state.labelled[row]:
        return state
    spreads = list(state.spreads)
    for index, (constraint, spread) in enumerate(zip(state.constraints, spreads, strict=True)):
        outside = spread.mask is not None and not spread.mask[row]
        if outside or not constraint.selector.matches(other.labels):
            continue
        totals = spread.totals.copy()
        totals[spread.domain.ids[row]] += by
        spreads[index] = replace(spread, totals=totals)
    return HardSpread(state.constraints, tuple(spreads), state.labelled)


def _table(constraint: Constraint, spread: Spread, pod: PodInfo) -> Codes:
    """Return the code of a node in each domain, shape (count + 1,)."""
    totals = spread.totals[:-1]
    domains = spread.domains()
    counted = totals if domains is None else totals[domains]
    fewest = int(counted.min()) if counted.size else _NO_MINIMUM
    if counted.size < constraint.spread.min_domains:
        fewest = 0
    itself = int(constraint.selector.matches(pod.labels))
    room = constraint.spread.max_skew + fewest - itself
    table = np.empty(spread.domain.count + 1, np.int16)
    np.multiply(totals > room, _SKEWED, out=table[:-1], casting="unsafe")
    table[-1] = _MISSING
    return table
