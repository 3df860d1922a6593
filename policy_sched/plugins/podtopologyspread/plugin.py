"""PodTopologySpread: spreads pods over the values of node labels.

A node passes the filter if it has the label and ``pods there + itself - fewest anywhere <=
maxSkew``, for every hard constraint in order (kube-scheduler's podtopologyspread/filtering.go).

The score of a node is, over the soft constraints, the pods of its domain times the logarithm of the
number of domains, rounded; fewer is better, and normalisation reverses the order. Float operations
are those of podtopologyspread/scoring.go, in its order.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.counts import Domain
from policy_sched.framework import (
    PASSES,
    SKIP,
    SUCCESS,
    Code,
    Codes,
    CycleState,
    Feasible,
    FilterResult,
    Handle,
    PodKey,
    PreFilterResult,
    Rows,
    Scope,
    Scores,
    Signature,
    Status,
    hookimpl,
)
from policy_sched.model import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    PodInfo,
)
from policy_sched.plugins.podtopologyspread.constraints import (
    HOSTNAME,
    Constraint,
    ConstraintCache,
    Constraints,
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


@dataclass(frozen=True, slots=True)
class HardSpread:
    """The pod's hard constraints and their counts, for the filter of this attempt.

    ``labelled``: rows that have every constraint's label, None for all. ``tables``: for each
    constraint that some node violates, in order, its domains and the code of each.
    """

    constraints: tuple[Constraint, ...]
    spreads: tuple[Spread, ...]
    labelled: NDArray[np.bool_] | None
    tables: tuple[tuple[Domain, Codes], ...]


def hard_spread(
    counter: SpreadCounter, pod: PodInfo, constraints: tuple[Constraint, ...]
) -> HardSpread:
    """Count pods for the hard constraints of a pod."""
    keys = tuple(c.spread.topology_key for c in constraints)
    # A single constraint's nodes without the label have their own domain.
    wanted = keys if len(keys) > 1 else ()
    spreads = tuple(counter.spread(pod, c, wanted) for c in constraints)
    tables = _tables(constraints, spreads, pod)
    return HardSpread(constraints, spreads, counter.labelled(keys), tables)


def verdict(state: HardSpread, rows: Rows) -> FilterResult:
    """Return the result of the filter for the rows."""
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
    allowed = constraint.spread.max_skew + fewest - itself
    table = np.empty(spread.domain.count + 1, np.int16)
    np.multiply(totals > allowed, _SKEWED, out=table[:-1], casting="unsafe")
    table[-1] = _MISSING
    return table


#: The raw score of an ignored node, which lacks a label. Its normalised score is 0.
IGNORED: Final = -1
BEST: Final = 100

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SoftSpread:
    """The input of scoring in this attempt.

    ``credits``: per constraint a number per group of rows, and the group of each row (None: the
    groups are the rows). ``ignored``: ignored rows, None for none.
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
    """Count pods for the soft constraints of a pod; ``live``: the number of nodes."""
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
            # A missing label and an empty one are the same value if nodes without it count.
            totals[domain.empty] += totals[-1]
        credit = _credit(constraint, totals, size)
        credit[-1] = 0.0
        found.append((credit, domain.ids))
    return SoftSpread(tuple(found), None if labelled is None else ~labelled)


def score(state: SoftSpread, rows: Rows) -> Scores:
    """Return the raw scores of the rows: fewer is better, IGNORED marks ignored rows."""
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
    """Reverse the raw scores of all feasible nodes, into 0..100."""
    ignored = scores == IGNORED
    left_out = bool(ignored.any())
    counted = scores[~ignored] if left_out else scores
    if not counted.size:
        return np.zeros_like(scores)
    most, fewest = int(counted.max()), int(counted.min())
    if most == 0:
        answer = np.full(scores.shape, BEST, np.int64)
    else:
        # Whole numbers below 2**53: the truncated quotient of floats is that of integers.
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
    """Round half away from zero, as Go does; the numbers are not negative."""
    whole: Floats = np.floor(numbers)
    numbers -= whole
    whole += numbers >= 0.5
    return whole.astype(np.int64)


NAME: Final = "PodTopologySpread"

#: The fields that a pod's constraints depend on, its own and those of its workload.
_read: Final = attrgetter(
    "topology_spread",
    "namespace",
    "labels_key",
    "node_selector_key",
    "node_affinity",
    "tolerations",
    "owner_key",
)
_SKIP_FILTER: Final = PreFilterResult(SKIP)
_ASK_FILTER: Final = PreFilterResult()


class PodTopologySpread:
    """Rejects nodes that violate a hard constraint and scores the soft ones."""

    def __init__(self, args: Mapping[str, object], handle: Handle) -> None:
        self._table = handle.nodes
        self._book = ConstraintCache(args, handle.objects)
        self._counter = SpreadCounter(handle.nodes, handle.cache.counts)

    @hookimpl
    def sign_pod(self) -> Signature:
        """Return the signature: fields that constraints and the nodes that count depend on."""
        own = "pod.spec.topology_spread_constraints"
        key = PodKey(self._key, own, self._book.workloads)
        return Signature(frozenset(), Scope.CLUSTER, proved=True, keys=(key,))

    @hookimpl
    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        """Register pods added, relabelled or deleted, and nodes added, changed or tainted."""
        pods = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL
        nodes = (
            ActionType.ADD
            | ActionType.DELETE
            | ActionType.UPDATE_NODE_LABEL
            | ActionType.UPDATE_NODE_TAINT
        )
        own = ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION
        return (
            ClusterEventWithHint(ClusterEvent(EventResource.ASSIGNED_POD, pods)),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, nodes)),
            ClusterEventWithHint(ClusterEvent(EventResource.UNSCHEDULABLE_POD, own)),
        )

    @hookimpl
    def pre_filter(self, state: CycleState, pod: PodInfo) -> PreFilterResult:
        """Count pods for the hard constraints; skip without any."""
        constraints = self._book.of(pod)
        if constraints.error:
            return PreFilterResult(Status(Code.ERROR, (constraints.error,)))
        if not constraints.hard:
            return _SKIP_FILTER
        state.write(hard_spread(self._counter, pod, constraints.hard))
        return _ASK_FILTER

    @hookimpl
    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        """Add `other` to the row."""
        return _move(state, pod, other, row, 1)

    @hookimpl
    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, row: int) -> Status:
        """Remove `other` from the row."""
        return _move(state, pod, other, row, -1)

    @hookimpl
    def filter(self, state: CycleState, rows: Rows) -> FilterResult:
        """Reject nodes without a label, and nodes whose domain would exceed maxSkew."""
        hard = state.read(HardSpread)
        return PASSES if hard is None else verdict(hard, rows)

    @hookimpl
    def pre_score(self, state: CycleState, pod: PodInfo) -> Status:
        """Count pods for the soft constraints; skip without any."""
        constraints = self._book.of(pod)
        if constraints.error:
            return Status(Code.ERROR, (constraints.error,))
        if not constraints.soft:
            return SKIP
        feasible = state.read(Feasible)
        assert feasible is not None, "PreScore runs after the filters"
        live = self._table.live_count
        state.write(soft_spread(self._counter, pod, constraints, feasible.rows, live))
        return SUCCESS

    def _key(self, pod: PodInfo) -> Hashable:
        return _read(pod) if self._book.may_hold(pod) else None

    @hookimpl
    def score(self, state: CycleState, rows: Rows) -> Scores:
        """Return the weighted number of pods in the nodes' domains: fewer is better."""
        soft = state.read(SoftSpread)
        assert soft is not None, "PreScore stored it"
        return score(soft, rows)

    @hookimpl
    def normalize_score(self, scores: Scores) -> Scores:
        """Reverse the scores, into 0..100."""
        return normalized(scores)


def _move(state: CycleState, pod: PodInfo, other: PodInfo, row: int, by: int) -> Status:
    hard = state.read(HardSpread)
    if hard is not None:
        state.write(moved(hard, pod, other, row, by))
    return SUCCESS
