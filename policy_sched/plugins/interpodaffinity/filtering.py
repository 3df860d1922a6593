"""The filter of InterPodAffinity: which domains reject a pod, and what changed rows do to that.

Theory of operation. For each topology key a table has the code of each domain. A pod that comes to
or leaves a row changes the code of at most one domain per key, so an evaluation of equal pods is
brought up to date by looking at the domains of the rows that have changed (`changed_codes`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched import framework
from policy_sched.cluster.counts import Domain, PodCounts
from policy_sched.model import PodInfo
from policy_sched.plugins.interpodaffinity.terms import OwnTerms

EXISTING: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
ANTI_AFFINITY: Final = "node(s) didn't match pod anti-affinity rules"
AFFINITY: Final = "node(s) didn't match pod affinity rules"

# The highest code of a node wins; the codes are indexes of the statuses.
_EXISTING, _ANTI, _AFFINITY = 1, 2, 3
_STATUSES: Final = (
    framework.Status(framework.Code.UNSCHEDULABLE, (EXISTING,)),
    framework.Status(framework.Code.UNSCHEDULABLE, (ANTI_AFFINITY,)),
    framework.Status(framework.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (AFFINITY,)),
)

Totals: TypeAlias = dict[str, tuple[NDArray[np.int64], ...]]
"""By topology key counts in each domain, shape (domain.count + 1,), whose sum counts.

They are those of the cluster and change with it, but for what `moved` changed.
"""


class DomainCodes:
    """The code of each domain of a topology key, shape (domain.count + 1,).

    The last is of nodes without the label. ``rejecting``: counts with the code of domains that have
    such pods, ascending by it; ``affinity``: those of pods to be near to. ``rejects``: False only
    if no code is set.
    """

    __slots__ = ("affinity", "codes", "domain", "rejecting", "rejects")

    def __init__(
        self,
        domain: Domain,
        codes: framework.Codes,
        rejecting: Sequence[tuple[int, NDArray[np.int64]]],
        affinity: NDArray[np.int64] | None,
    ) -> None:
        self.domain, self.codes = domain, codes
        self.rejecting, self.affinity = rejecting, affinity
        self.rejects = bool(np.logical_or.reduce(codes))


class TopologyPairCounts(msgspec.Struct, eq=False):
    """The counts for the filter of this attempt, and its codes.

    ``existing``: pods with anti-affinity that selects the pod. ``anti_affinity`` and
    ``affinity``: pods that the pod's own terms select. ``alone``: the pod selects itself, and
    ``first``: there is no other that it must be near. ``tables`` are computed when they are wanted.
    ``in_domains``: whether each node is in a domain of the pods in ``existing``.
    """

    own: OwnTerms
    domains: dict[str, Domain]
    existing: Totals
    anti_affinity: Totals
    affinity: Totals
    alone: bool
    in_domains: bool = True
    first: bool = False
    tables: tuple[DomainCodes, ...] | None = None


def topology_pair_counts(
    counts: PodCounts, pod: PodInfo, own: OwnTerms | None
) -> TopologyPairCounts:
    """Return the counts for a pod; there are no domains if no term applies."""
    existing: Totals = {}
    domains: dict[str, Domain] = {}
    in_domains = True
    if counts.carried.anti_affinity.live:
        for carried in counts.carried.anti_affinity.meaning(pod):
            if carried.counts.by_row:
                key = carried.term.topology_key
                domain = counts.domains.of(key)
                totals = carried.counts.by(domain)
                in_domains = in_domains and domain.complete
                # Nodes without the label are in no domain.
                if domain.complete or totals[:-1].any():
                    domains[key] = domain
                    existing[key] = (*existing.get(key, ()), totals)
    if own is None or (own.affinity is None and not own.anti_affinity):
        own = _NO_TERMS
    anti_affinity: Totals = {}
    for match, key in own.anti_affinity:
        domain = domains[key] = counts.domains.of(key)
        totals = counts.selected.of(match).by(domain)
        anti_affinity[key] = (*anti_affinity.get(key, ()), totals)
    affinity: Totals = {}
    alone = False
    if own.affinity is not None:
        selected = counts.selected.of(own.affinity)
        alone = own.affinity.selects(pod)
        for key in own.affinity_keys:
            domain = domains[key] = counts.domains.of(key)
            affinity[key] = (selected.by(domain),)
    return TopologyPairCounts(own, domains, existing, anti_affinity, affinity, alone, in_domains)


def verdict(state: TopologyPairCounts, rows: framework.Rows) -> framework.FilterResult:
    """Return the result of the filter for the rows."""
    if state.tables is None:
        state.tables = _tables(state)
    codes: framework.Codes | None = None
    for table in state.tables:
        if table.rejects:
            domain = table.domain
            others = domain.of_rows(table.codes) if rows is None else table.codes[domain.ids[rows]]
            codes = others if codes is None else np.maximum(codes, others)
    if codes is None:
        return framework.PASSES
    if rows is None:
        if codes.base is not None:
            codes = codes.copy()  # the codes of domains change with the pods
        codes.flags.writeable = False  # the evaluator keeps it without a copy
    return framework.FilterResult.of(codes, *_STATUSES)


def changed_codes(state: TopologyPairCounts, rows: Sequence[int]) -> framework.Refiltered | None:
    """Return which rows have another code since pods came to or left some ``rows``.

    None if the codes of all domains may be others. The state is up to date afterwards.
    """
    if state.tables is None:
        return None
    turned: NDArray[np.intp] | None = None
    for table in state.tables:
        changed = _recoded(state, table, rows)
        if changed is None:
            return None
        if changed:
            others = table.domain.rows_of(changed)
            turned = others if turned is None else np.union1d(turned, others)
    if turned is None:
        return framework.SAME_CODES
    return framework.Refiltered(turned, verdict(state, turned))


def _recoded(
    state: TopologyPairCounts, table: DomainCodes, rows: Sequence[int]
) -> list[int] | None:
    """Bring the codes of the domains of these rows up to date; return those that are others.

    None if the codes of other domains may have changed with them.
    """
    domain, codes, affinity = table.domain, table.codes, table.affinity
    ids, outside = domain.id_view, domain.count
    changed = []
    for row in rows:
        number = ids[row]
        if number == outside:
            continue
        before, code = codes.item(number), 0
        for rejected, totals in table.rejecting:
            if totals.item(number) > 0:
                code = rejected
        if affinity is not None:
            empty = affinity.item(number) <= 0
            # Has the first of its kind come, or has the last one gone that it must be near?
            if state.first and not empty:
                return None
            if empty and not state.first:
                if state.alone and before != _AFFINITY:
                    return None
                code = _AFFINITY
        if code != before:
            codes[number] = code
            table.rejects = table.rejects or code > 0
            changed.append(number)
    return changed


def moved(
    state: TopologyPairCounts, pod: PodInfo, other: PodInfo, change: tuple[int, int], means: Means
) -> TopologyPairCounts:
    """Return the state with `other` added to a row or removed from it; ``place``: row, 1 or -1.

    ``means`` returns the topology keys of one pod's anti-affinity terms that select another.
    """
    meant = means(other, pod)
    own = state.own
    selected = own.affinity is not None and own.affinity.selects(other)
    if not (meant or selected or any(match.selects(other) for match, _ in own.anti_affinity)):
        return state
    existing, anti_affinity = dict(state.existing), dict(state.anti_affinity)
    affinity, domains = dict(state.affinity), dict(state.domains)
    for domain in meant:
        domains.setdefault(domain.key, domain)
        _shift(existing, domain, change)
    for match, key in own.anti_affinity:
        if match.selects(other):
            _shift(anti_affinity, domains[key], change)
    if selected:
        for key in own.affinity_keys:
            _shift(affinity, domains[key], change)
    return TopologyPairCounts(own, domains, existing, anti_affinity, affinity, state.alone)


Means: TypeAlias = Callable[[PodInfo, PodInfo], list[Domain]]

_NO_TERMS: Final = OwnTerms(None, (), (), ())


def _shift(totals: Totals, domain: Domain, change: tuple[int, int]) -> None:
    row, by = change
    changed = _sum(totals[domain.key]) if domain.key in totals else _zeros(domain)
    changed[domain.ids[row]] += by
    totals[domain.key] = (changed,)


def _zeros(domain: Domain) -> NDArray[np.int64]:
    return np.zeros(domain.count + 1, np.int64)


def _sum(parts: tuple[NDArray[np.int64], ...]) -> NDArray[np.int64]:
    """Return the sum as an array of its own."""
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def _tables(state: TopologyPairCounts) -> tuple[DomainCodes, ...]:
    """Return the code of each domain for each topology key."""
    first = state.alone
    for parts in state.affinity.values():
        first = first and not np.logical_or.reduce(parts[0][:-1])
    state.first = first
    tables = []
    for key, domain in state.domains.items():
        rejecting = [(_EXISTING, totals) for totals in state.existing.get(key, ())]
        rejecting += [(_ANTI, totals) for totals in state.anti_affinity.get(key, ())]
        affinity = state.affinity[key][0] if key in state.affinity else None
        # Bytes, which a fraction of the time is enough for: True is 1, the code _EXISTING.
        codes: NDArray[np.int8] | None = None
        for code, totals in rejecting:
            codes = _highest(codes, totals > 0, code)
        if affinity is not None and not first:
            codes = _highest(codes, affinity <= 0, _AFFINITY)
        if codes is None:
            codes = np.zeros(domain.count + 1, np.int8)
        codes[-1] = 0 if affinity is None or domain.complete else _AFFINITY
        tables.append(DomainCodes(domain, codes.astype(np.int16), rejecting, affinity))
    return tuple(tables)


def _highest(
    codes: NDArray[np.int8] | None, rejected: NDArray[np.bool_], code: int
) -> NDArray[np.int8]:
    """Return the codes by domain with another one, which is no lower than they are."""
    others = rejected.view(np.int8)
    if code > 1:
        others *= np.int8(code)
    return others if codes is None else np.maximum(codes, others, out=others)
