"""The score of InterPodAffinity: the sum of weights in a node's domains, scaled to 0..100.

Theory of operation. For each topology key a table has the sum of each domain, and a node's raw
score is the sum over the keys. Rows with equal scores are one group (`GroupedScores`), so that
equal pods need no look at all rows: a pod that comes to or leaves a row changes one domain per key.
Where a key has few domains, the domain is a part of what makes a group, and the raw score of its
groups changes; where it has many, such as the host name, their sums do, and the rows of the
domain move to another group.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.counts import (
    Counts,
    Domain,
    DomainScores,
    GroupKey,
    PodCounts,
    group_rows,
)
from policy_sched.framework import Feasible, GroupedScores, Rescored, Rows, Scores
from policy_sched.model import PodInfo
from policy_sched.plugins.interpodaffinity.terms import OwnTerms

BEST: Final = 100
#: With more groups than this, scores are computed anew each time.
MOST_GROUPS: Final = 512
#: More rows do not move to another group one by one.
MOST_MOVED: Final = 64


class Weighted(msgspec.Struct, frozen=True, eq=False):
    """What is counted for a pod, by which topology key, and its weight."""

    counts: Counts
    key: str
    weight: int


class PreferredTerms(msgspec.Struct, frozen=True, eq=False):
    """Per topology key the score of a node in each domain, shape (domain.count + 1,).

    ``by_domain``: the same where there is one key with far fewer values than nodes.
    ``weighted``: what they are made of, and ``idle`` the counts that have no pod.
    """

    tables: tuple[tuple[Domain, NDArray[np.int64]], ...]
    by_domain: DomainScores | None
    weighted: tuple[Weighted, ...]
    idle: tuple[Counts, ...]

    def same_counts(self) -> bool:
        """Return whether the same of the pod's own terms select pods as before."""
        for one in self.weighted:
            if not one.counts.by_row:
                return False
        return not self.idle or not any(counts.by_row for counts in self.idle)


def preferred_terms(
    counts: PodCounts,
    pod: PodInfo,
    own: OwnTerms | None,
    hard_weight: int,
    before: PreferredTerms | None = None,
) -> PreferredTerms:
    """Return the weights for a pod; there are no tables if no term applies.

    ``before``: the weights for an equal pod.
    """
    tables: dict[str, tuple[Domain, NDArray[np.int64]]] = {}
    weighted, idle = _weighted(counts, pod, own, hard_weight)
    for one in weighted:
        key, weight, found = one.key, one.weight, one.counts
        if key in tables:
            domain, table = tables[key]
            table += found.by(domain) if weight == 1 else found.by(domain) * weight
        else:
            domain = counts.domains.of(key)
            tables[key] = domain, found.by(domain) * weight
    for _, table in tables.values():
        table[-1] = 0  # a node without the label is in no domain
    by_domain: DomainScores | None = None
    if len(tables) == 1:
        known = None if before is None else before.by_domain
        if known is not None and known.domain is domain:
            by_domain = known.changed(table)
        elif DomainScores.pays(domain):
            by_domain = DomainScores(domain, table)
    return PreferredTerms(tuple(tables.values()), by_domain, tuple(weighted), tuple(idle))


def _weighted(
    counts: PodCounts, pod: PodInfo, own: OwnTerms | None, hard_weight: int
) -> tuple[list[Weighted], list[Counts]]:
    """Return what is counted for the pod, and the counts of its own terms that have no pod."""
    found: list[Weighted] = []
    idle: list[Counts] = []
    if own is not None:
        for weight, match, key in own.preferred:
            selected = counts.selected.of(match)
            if selected.by_row:
                found.append(Weighted(selected, key, weight))
            else:
                idle.append(selected)
    carried = counts.carried
    for kind, weight in ((carried.preferred, 1), (carried.affinity, hard_weight)):
        if weight and kind.live:
            found += [
                Weighted(one.counts, one.term.topology_key, weight)
                for one in kind.meaning(pod)
                if one.counts.by_row
            ]
    return found, idle


def score(state: PreferredTerms, rows: Rows) -> Scores:
    """Return the raw scores of the rows; they may be negative."""
    if state.by_domain is not None:
        scores = state.by_domain.raw()
        return scores if rows is None else scores[rows]
    total: Scores | None = None
    for domain, table in state.tables:
        part = domain.of_rows(table) if rows is None else table[domain.ids[rows]]
        total = part if total is None else total + part
    assert total is not None, "without tables PreScore skips"
    return total


def normalized(scores: Scores) -> Scores:
    """Scale the raw scores of all feasible nodes to 0..100, truncating as Go does."""
    fewest, most = int(np.minimum.reduce(scores)), int(np.maximum.reduce(scores))
    if most == fewest:
        return np.zeros(scores.size, np.int64)
    share: NDArray[np.float64] = np.subtract(scores, fewest, dtype=np.float64)
    share /= most - fewest
    share *= BEST
    return share.astype(np.int64)


class _DomainSums:
    """The sum of each domain of one topology key, brought up to date for the rows that change."""

    __slots__ = ("domain", "sums", "totals")

    def __init__(self, state: PreferredTerms, domain: Domain, table: Scores) -> None:
        self.domain = domain
        self.sums: memoryview[int] = table.copy().data
        self.totals = [
            (one.counts.by(domain), one.weight) for one in state.weighted if one.key == domain.key
        ]

    def update(self, rows: Sequence[int]) -> list[tuple[int, int]]:
        """Return the domains of these rows whose sums are others now, and by how much they rose."""
        ids, outside, sums = self.domain.id_view, self.domain.count, self.sums
        found = []
        for row in rows:
            place = ids[row]
            if place != outside:
                now = 0
                for totals, weight in self.totals:
                    now += totals.item(place) * weight
                if now != sums[place]:
                    found.append((place, now - sums[place]))
                    sums[place] = now
        return found


class AffinityScores:
    """The scores of an evaluation by group of rows, updated after changes of some rows.

    A group is the rows with the same domains of all keys that have few of them, and with the same
    sum in the domain of the one that may have many.
    """

    __slots__ = ("_coarse", "_feasible", "_fine", "_keys", "_members", "_numbers", "scores")

    def __init__(
        self,
        coarse: Sequence[_DomainSums],
        fine: _DomainSums | None,
        keys: list[GroupKey],
        groups: NDArray[np.intp],
        feasible: Feasible,
    ) -> None:
        """``keys``: of each group the domains of ``coarse``, and the sum in the one of ``fine``."""
        self._coarse, self._fine, self._keys = coarse, fine, keys
        self._numbers = {key: number for number, key in enumerate(self._keys)}
        raw = [self._raw(key) for key in self._keys]
        self.scores = GroupedScores(groups, raw, [0] * len(raw))
        self._feasible = feasible
        self._members = self._counted()
        self.scores.normalized = self._normalized()

    @staticmethod
    def of(state: PreferredTerms, feasible: Feasible) -> AffinityScores | None:
        """Return the scores of the rows; None if there are too many groups of them."""
        found = [_DomainSums(state, domain, table) for domain, table in state.tables]
        fine = [one for one in found if not DomainScores.pays(one.domain)]
        if len(fine) > 1:
            return None
        coarse = [one for one in found if one not in fine]
        columns = [one.domain.ids for one in coarse]
        columns += [np.asarray(one.sums)[one.domain.ids] for one in fine]
        grouped = group_rows(columns, MOST_GROUPS)
        if grouped is None:
            return None
        groups, keys = grouped
        return AffinityScores(coarse, fine[0] if fine else None, keys, groups, feasible)

    def _raw(self, key: GroupKey) -> int:
        """Return the raw score of a group."""
        raw = 0 if self._fine is None else key[-1]
        for one, place in zip(self._coarse, key, strict=False):
            raw += one.sums[place]
        return raw

    def _counted(self) -> list[int]:
        """Return how many feasible rows each group has."""
        groups, rows = self.scores.groups, self._feasible.rows
        own = groups if rows.size == groups.size else groups[rows]
        counted: list[int] = np.bincount(own, minlength=len(self._keys)).tolist()
        return counted

    def _normalized(self) -> list[int]:
        """Return the normalised score of each group, as `normalized` does.

        Groups without feasible rows keep theirs.
        """
        scores, members = self.scores, self._members
        there = [raw for raw, many in zip(scores.raw, members, strict=True) if many]
        low, high = min(there, default=0), max(there, default=0)
        span = high - low
        groups = zip(scores.raw, scores.normalized, members, strict=True)
        if not span:
            return [0 if many else before for _, before, many in groups]
        return [int((raw - low) / span * BEST) if many else before for raw, before, many in groups]

    def update(self, rows: Sequence[int], feasible: Feasible) -> Rescored | None:
        """Update the scores after a change of ``rows``; None if they must be computed anew.

        ``feasible`` is the same object as before if the rows on which the pod can run are the same.
        """
        scores, changed = self.scores, feasible is not self._feasible
        for number, one in enumerate(self._coarse):
            for place, more in one.update(rows):
                changed = True
                for group, key in enumerate(self._keys):
                    if key[number] == place:
                        scores.raw[group] += more
        moved: list[tuple[int, int]] = []
        if self._fine is not None:
            for place, _ in self._fine.update(rows):
                there = self._fine.domain.rows_of(place)
                if there.size > MOST_MOVED or len(self._keys) > MOST_GROUPS:
                    return None
                moved += self._move(there.tolist(), self._fine.sums[place])
        settled = self._members
        if feasible is not self._feasible:
            self._feasible = feasible
            settled = self._members = self._counted()
        elif moved:
            settled = self._count(moved)
        elif not changed:
            return SAME_SCORES
        before, after, groups = scores.normalized, self._normalized(), scores.groups
        scores.normalized = after
        gains: list[int] | None = None
        if after != before:
            steps = zip(after, before, settled, strict=True)
            gains = [now - was if members else 0 for now, was, members in steps]
            gains = gains if any(gains) else None
        if not moved:
            return SAME_SCORES if gains is None else Rescored(gains, ())
        return Rescored(gains, [(row, after[groups.item(row)] - before[was]) for row, was in moved])

    def _move(self, rows: list[int], value: int) -> list[tuple[int, int]]:
        """Move rows to the groups with another sum in the domain of the key that has many.

        Returns each with the group that it was in.
        """
        groups, scores, moved = self.scores.groups, self.scores, []
        for row in rows:
            was = groups.item(row)
            key = (*self._keys[was][:-1], value)
            number = self._numbers.get(key)
            if number is None:
                number = self._numbers[key] = len(self._keys)
                self._keys.append(key)
                self._members.append(0)
                scores.raw.append(self._raw(key))
                scores.normalized.append(0)
            groups[row] = number
            moved.append((row, was))
        return moved

    def _count(self, moved: list[tuple[int, int]]) -> list[int]:
        """Count the rows that have moved, as far as they are feasible.

        Returns how many other feasible rows each group has.
        """
        groups, members, rows = self.scores.groups, self._members, self._feasible.rows
        places, came = rows.data, list[int]()
        for row, was in moved:
            place = row if rows.size == groups.size else bisect_left(places, row)
            if place < rows.size and places[place] == row:
                members[was] -= 1
                came.append(groups.item(row))
        settled = members.copy()
        for number in came:
            members[number] += 1
        return settled


SAME_SCORES: Final = Rescored(None, ())
