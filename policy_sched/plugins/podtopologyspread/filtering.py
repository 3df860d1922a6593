"""Filtering: the hard spread constraints of a pod over the domains of their labels.

A node passes if it has the label and ``pods there + itself - fewest anywhere <= maxSkew``, for
every hard constraint in order (kube-scheduler's podtopologyspread/filtering.go).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np

from policy_sched.cluster.counts import Domain
from policy_sched.framework import PASSES, Code, Codes, FilterResult, Rows, Status
from policy_sched.model import PodInfo, SpreadConstraint
from policy_sched.plugins.podtopologyspread.constraints import (
    Constraint,
    Mask,
    Spread,
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
#: The fewest of so many numbers are found faster without arrays.
_FEW_DOMAINS: Final = 32


Tables: TypeAlias = tuple[tuple[Domain, Codes], ...]


class HardSpread(msgspec.Struct, eq=False):
    """The pod's hard constraints and their counts, for the filter of this attempt.

    ``version``: the counter's. ``itself``: whether the pod counts for a constraint, 1 or 0.
    ``labelled``: rows that have every constraint's label, None for all. ``tables``: for each
    constraint that some node violates, in order, its domains and the code of each. ``result``: that
    of all rows, once it was wanted. Nothing else changes after it is made.
    """

    constraints: tuple[Constraint, ...]
    version: int
    itself: tuple[int, ...]
    spreads: tuple[Spread, ...]
    labelled: Mask | None
    tables: Tables
    result: FilterResult | None = None


def hard_spread(
    counter: SpreadCounter,
    pod: PodInfo,
    constraints: tuple[Constraint, ...],
    before: HardSpread | None = None,
) -> HardSpread:
    """Count pods for the hard constraints of a pod.

    ``before``: the counts for an equal pod, which hold but for pods that came or went since.
    """
    if (
        before is not None
        and before.constraints is constraints
        and before.version == counter.version
    ):
        return _counted_again(counter, before)
    keys = tuple([c.spread.topology_key for c in constraints])
    # A single constraint's nodes without the label have their own domain.
    wanted = keys if len(keys) > 1 else ()
    spreads = tuple([counter.spread(pod, c, wanted) for c in constraints])
    itself = tuple([int(c.selector.matches(pod.labels)) for c in constraints])
    tables = tables_of(constraints, spreads, itself)
    return HardSpread(constraints, counter.version, itself, spreads, counter.labelled(keys), tables)


def _counted_again(counter: SpreadCounter, before: HardSpread) -> HardSpread:
    """Return the counts as they are now; the result is the same one if no table has changed."""
    constraints = before.constraints
    spreads = [counter.recount(c, s) for c, s in zip(constraints, before.spreads, strict=True)]
    tables, result = tables_of(constraints, spreads, before.itself), None
    if len(tables) == len(before.tables):
        for (domain, table), (other, kept) in zip(tables, before.tables, strict=True):
            if domain is not other or table.tobytes() != kept.tobytes():
                break
        else:
            tables, result = before.tables, before.result
    return HardSpread(
        constraints,
        before.version,
        before.itself,
        tuple(spreads),
        before.labelled,
        tables,
        result,
    )


def verdict(state: HardSpread, rows: Rows) -> FilterResult:
    """Return the result of the filter for the rows."""
    if not state.tables:
        return PASSES
    if rows is None and state.result is not None:
        return state.result
    codes: Codes | None = None
    for domain, table in state.tables:
        found = domain.of_rows(table) if rows is None else table[domain.ids[rows]]
        codes = found if codes is None else np.where(codes == 0, found, codes)
    assert codes is not None, "there is a table"
    result = FilterResult.of(codes, *_STATUSES)
    if rows is None:
        codes.flags.writeable = False
        state.result = result
    return result


def moved(state: HardSpread, pod: PodInfo, other: PodInfo, row: int, by: int) -> HardSpread:
    """Return the state with `other` added to a row (`by` 1) or removed from it (-1).

    As upstream, terminating pods count here, although they did not before.
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
        spreads[index] = Spread(spread.domain, totals, spread.included)
        changed = True
    if not changed:
        return state
    tables = tables_of(state.constraints, spreads, state.itself)
    return msgspec.structs.replace(state, spreads=tuple(spreads), tables=tables, result=None)


def tables_of(
    constraints: Sequence[Constraint], spreads: Sequence[Spread], itself: Sequence[int]
) -> Tables:
    """Return the codes of nodes by domain; leave out the constraints that every node meets."""
    tables: list[tuple[Domain, Codes]] = []
    for constraint, spread, one in zip(constraints, spreads, itself, strict=True):
        table = table_of(spread, most_allowed(constraint.spread, spread, one))
        if table is not None:
            tables.append((spread.domain, table))
    return tuple(tables)


def most_allowed(constraint: SpreadConstraint, spread: Spread, itself: int) -> int:
    """Return how many pods a domain may have for a node in it to pass."""
    counted = spread.totals[:-1]
    if spread.included is not None:
        counted = counted[spread.included.exists]
    if counted.size < constraint.min_domains:
        fewest = 0
    elif counted.size <= _FEW_DOMAINS:
        fewest = min(counted.tolist(), default=_NO_MINIMUM)
    else:
        fewest = int(np.minimum.reduce(counted))
    return constraint.max_skew + fewest - itself


def table_of(spread: Spread, allowed: int) -> Codes | None:
    """Return the code of a node in each domain, shape (count + 1,); None if every node passes."""
    domain = spread.domain
    skewed = spread.totals[:-1] > allowed
    if domain.complete and not np.count_nonzero(skewed):
        return None
    table = np.empty(domain.count + 1, np.int16)
    np.multiply(skewed, _SKEWED, out=table[:-1], casting="unsafe")
    table[-1] = _MISSING
    return table
