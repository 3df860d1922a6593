"""Updates: results for one pod after pods came to or left some rows, without a look at all rows.

Theory of operation. Only the domains of the changed rows have other counts than before.

- A hard constraint allows as many pods in a domain as before unless the fewest pods anywhere have
  changed; then only the domains of changed rows are compared with it. The rows of the domains that
  it opens or shuts have other codes.
- Nodes with the same domains, and as many pods where a constraint counts by hostname, have the
  same score, and are one group. Scores are computed by group. A row that has more pods now goes
  over to another group.

Everything else (nodes that change, totals that are dropped, more groups than `MANY_GROUPS`) is up
to the plugin, as of filtering.py and scoring.py, and the updates begin anew from its results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from policy_sched.cluster import ApiObjects
from policy_sched.cluster.counts import Domain, GroupKey, group_rows
from policy_sched.framework import (
    SAME_CODES,
    CycleState,
    Feasible,
    GroupedScores,
    Refiltered,
    Rescored,
)
from policy_sched.plugins.podtopologyspread.constraints import (
    HOSTNAME,
    LiveTotals,
    Spread,
    SpreadCounter,
)
from policy_sched.plugins.podtopologyspread.filtering import (
    HardSpread,
    most_allowed,
    table_of,
    verdict,
)
from policy_sched.plugins.podtopologyspread.scoring import BEST, IGNORED, SoftSpread, weights_of

#: With more groups than that all rows are scored.
MANY_GROUPS: Final = 512

_NO_ROWS: Final = np.empty(0, np.intp)


class SpreadUpdates:
    """What updates the results for one pod; either part is None without such constraints."""

    def __init__(
        self, objects: ApiObjects, hard: HardUpdates | None, soft: SoftUpdates | None
    ) -> None:
        self._objects = objects
        self._version = objects.version
        self.filter = _same_codes if hard is None else hard.filter
        self.score = _no_scores if soft is None else soft.score
        self.scores = None if soft is None else soft.scores

    def holds(self) -> bool:
        """Return whether the same services and workloads select the pod."""
        return self._objects.version == self._version


def _same_codes(_state: CycleState, _rows: Sequence[int]) -> Refiltered | None:
    return SAME_CODES


def _no_scores(_state: CycleState, _rows: Sequence[int]) -> Rescored | None:
    return None


class HardUpdates:
    """The codes of the nodes of one pod with hard constraints."""

    def __init__(self, counter: SpreadCounter, hard: HardSpread) -> None:
        self._hard = hard
        pairs = list(zip(hard.constraints, hard.spreads, hard.itself, strict=True))
        self._live = [counter.live(one, by.domain, by.included) for one, by, _ in pairs]
        self._allowed = [most_allowed(one.spread, by, itself) for one, by, itself in pairs]
        self._tables = [
            table_of(by, most) for by, most in zip(hard.spreads, self._allowed, strict=True)
        ]

    def filter(self, state: CycleState, rows: Sequence[int]) -> Refiltered | None:
        """Count again in the domains of the rows; write the counts to the state."""
        hard, turned = self._hard, _NO_ROWS
        spreads: list[Spread] | None = None
        for place, live in enumerate(self._live):
            if live.counts.version != live.version:
                return None
            spread, now = hard.spreads[place], live.view
            ids, before = spread.domain.id_view, spread.totals
            changed: list[int] = []
            for row in rows:
                number = ids[row]
                if now[number] != before.item(number):
                    changed.append(number)
            if changed:
                spreads = list(hard.spreads) if spreads is None else spreads
                spreads[place] = Spread(spread.domain, live.totals.copy(), spread.included)
                others = self._turned(place, spread, spreads[place], changed)
                if others.size:
                    self._tables[place] = table_of(spreads[place], self._allowed[place])
                    turned = np.union1d(turned, others) if turned.size else others
        if spreads is None:
            return SAME_CODES
        tables, result = hard.tables, hard.result
        if turned.size:
            pairs = zip(spreads, self._tables, strict=True)
            tables = tuple([(by.domain, table) for by, table in pairs if table is not None])
            result = None
        self._hard = hard = HardSpread(
            hard.constraints,
            hard.version,
            hard.itself,
            tuple(spreads),
            hard.labelled,
            tables,
            result,
        )
        state.write(hard)
        return Refiltered(turned, verdict(hard, turned)) if turned.size else SAME_CODES

    def _turned(self, place: int, old: Spread, new: Spread, changed: list[int]) -> NDArray[np.intp]:
        """Return the rows that a constraint opens or shuts, ascending.

        ``changed``: the domains with another count.
        """
        constraint, itself = self._hard.constraints[place].spread, self._hard.itself[place]
        domain, before, after = new.domain, old.totals, new.totals
        limit = allowed = self._allowed[place]
        fewest, recount = limit - constraint.max_skew + itself, False
        turned: list[int] = []
        for number in changed:
            was, now = before.item(number), after.item(number)
            if was <= fewest or now < fewest:
                recount = True
            if (was > limit) != (now > limit):
                turned.append(number)
        if recount:
            allowed = self._allowed[place] = most_allowed(constraint, new, itself)
        if allowed == limit and len(turned) <= 1:
            return domain.rows_of(turned[0]) if turned else _NO_ROWS
        differs = (before > limit) != (after > allowed)
        turned = differs.nonzero()[0].tolist()
        if len(turned) <= 1:
            return domain.rows_of(turned[0]) if turned else _NO_ROWS
        rows: NDArray[np.intp] = differs.take(domain.ids).nonzero()[0]
        return rows


def soft_updates(
    counter: SpreadCounter, soft: SoftSpread, feasible: Feasible, nodes: int
) -> SoftUpdates | None:
    """Return what follows the scores of feasible rows; None if there are too many groups.

    A group is by constraint the domain, or one more than the pods on the row (0: no hostname); at
    the end 0 if the row is ignored. ``nodes``: how many there are.
    """
    columns: list[NDArray[np.intp]] = []
    for constraint, spread in zip(soft.constraints.soft, soft.spreads, strict=True):
        if spread is None:
            column = counter.by_row(constraint) + 1
            domain = counter.domain(HOSTNAME)
            if not domain.complete:
                column[~domain.present] = 0
        else:
            column = spread.domain.ids
        columns.append(column)
    n = len(columns[0])
    columns.append(np.ones(n, np.intp) if soft.labelled is None else soft.labelled.astype(np.intp))
    grouped = group_rows(columns, MANY_GROUPS)
    if grouped is None:
        return None
    groups, keys = grouped
    return SoftUpdates(counter, soft, feasible, nodes, groups, keys)


class _Credits:
    """What one constraint adds to the scores of nodes, by domain.

    ``groups``: the groups in each domain. ``merged``: the domain that nodes without the label count
    for, -1 if there is none.
    """

    def __init__(self, live: LiveTotals, domain: Domain, *, merges: bool) -> None:
        self._view = live.view
        self._ids = domain.id_view
        self._count = domain.count
        self._merged = domain.empty if merges and domain.empty < domain.count else -1
        self._weight, self._more = 0.0, 0
        self._totals: list[int] = []
        self.groups: dict[int, list[int]] = {}
        self.by_domain: list[float] = []

    def weigh(self, weight: float, more: int) -> None:
        """Compute all: the number of pods times ``weight``, and ``more``."""
        self._weight, self._more = weight, more
        self._totals = self._view.tolist()
        if self._merged >= 0:
            self._totals[self._merged] += self._totals[-1]
        self.by_domain = [total * weight + more for total in self._totals]
        self.by_domain[-1] = 0.0

    def recount(self, rows: Sequence[int]) -> Sequence[int]:
        """Count again in the domains of the rows; return the groups for which that matters."""
        changed: Sequence[int] = ()
        for row in rows:
            number = self._ids[row]
            if number == self._count:
                number = self._merged
                if number < 0:
                    continue
            total = self._view[number]
            if number == self._merged:
                total += self._view[self._count]
            if total != self._totals[number]:
                self._totals[number] = total
                self.by_domain[number] = total * self._weight + self._more
                changed = [*changed, *self.groups.get(number, ())]
        return changed


class SoftUpdates:
    """The scores of the nodes for one pod with soft constraints.

    ``groups``: the group of each row, and ``keys`` what its rows have in common. ``members``: how
    many feasible rows each group has.
    """

    def __init__(
        self,
        counter: SpreadCounter,
        soft: SoftSpread,
        feasible: Feasible,
        nodes: int,
        groups: NDArray[np.intp],
        keys: list[GroupKey],
    ) -> None:
        self._nodes = nodes
        self._soft = soft
        self._groups: memoryview[int] = groups.data
        self._keys: list[GroupKey] = []
        self._number_of: dict[GroupKey, int] = {}
        self._live: list[LiveTotals] = []
        self._credits: list[_Credits | None] = []
        for one, spread in zip(soft.constraints.soft, soft.spreads, strict=True):
            if spread is None:
                self._live.append(counter.live_by_row(one))
                self._credits.append(None)
            else:
                live = counter.live(one, spread.domain, spread.included)
                self._live.append(live)
                merges = not soft.constraints.all_labels
                self._credits.append(_Credits(live, spread.domain, merges=merges))
        self._by_row = [place for place, by in enumerate(self._credits) if by is None]
        self._by_domain = [by for by in self._credits if by is not None]
        self.scores = GroupedScores(groups, [], [])
        self._extremes: tuple[int, int] | None = None
        """The most and the fewest by which scores were normalised the last time."""
        for key in keys:
            self._add_group(key)
        self._weigh(feasible)
        self._normalize({})

    def score(self, state: CycleState, rows: Sequence[int]) -> Rescored | None:
        """Update the scores after a change of ``rows``."""
        for live in self._live:
            if live.counts.version != live.version:
                return None
        feasible, scores, keys = state.read(Feasible), self.scores, self._keys
        assert feasible is not None, "it is there from PreScore on"
        now, groups = scores.normalized, self._groups
        changed: list[int] = []
        for by in self._by_domain:
            changed += by.recount(rows)
        for group in changed:
            scores.raw[group] = self._raw(keys[group])
        before = self._move(rows) if self._by_row else {}
        if len(keys) > MANY_GROUPS:
            return None
        if feasible is not self._feasible:
            self._weigh(feasible)
        else:
            changed += [groups[row] for row in before]
        gains = self._normalize(before, changed)
        return Rescored(gains, [(row, now[groups[row]] - old) for row, old in before.items()])

    def _add_group(self, key: GroupKey) -> int:
        number = self._number_of[key] = len(self._keys)
        self._keys.append(key)
        for place, by in enumerate(self._credits):
            if by is not None:
                by.groups.setdefault(key[place], []).append(number)
        self.scores.raw.append(0)
        self.scores.normalized.append(0)
        return number

    def _weigh(self, feasible: Feasible) -> None:
        """Count the members of groups, weigh the constraints, and score all groups."""
        self._extremes = None
        self._feasible, rows, groups = feasible, feasible.rows, self.scores.groups
        self._members = np.bincount(groups[rows], minlength=len(self._keys)).tolist()
        self._is_feasible = np.zeros(groups.size, np.bool_)
        self._is_feasible[rows] = True
        self._soft = replace(self._soft, feasible=feasible)
        self._weights = weights_of(self._soft, self._nodes)
        self._more = [one.spread.max_skew - 1 for one in self._soft.constraints.soft]
        for by, weight, more in zip(self._credits, self._weights, self._more, strict=True):
            if by is not None:
                by.weigh(weight, more)
        self.scores.raw[:] = [self._raw(key) for key in self._keys]

    def _raw(self, key: GroupKey) -> int:
        """Return the raw score of a group: the operations of scoring.py in the same order."""
        if not key[-1]:
            return IGNORED
        total = 0.0
        for place, by in enumerate(self._credits):
            number = key[place]
            if by is not None:
                total += by.by_domain[number]
            elif number:
                total += (number - 1) * self._weights[place] + self._more[place]
        return int(total + 0.5)

    def _move(self, rows: Sequence[int]) -> dict[int, int]:
        """Put rows with other counts into other groups; return their normalised scores so far."""
        before: dict[int, int] = {}
        groups, scores, members = self._groups, self.scores, self._members
        for row in rows:
            old = groups[row]
            key = self._keys[old]
            for place in self._by_row:
                if key[place]:
                    key = (*key[:place], self._live[place].view[row] + 1, *key[place + 1 :])
            new = self._number_of.get(key)
            if new == old:
                continue
            if new is None:
                new = self._add_group(key)
                members.append(0)
                scores.raw[new] = self._raw(key)
            before[row] = scores.normalized[old]
            groups[row] = new
            if self._is_feasible[row]:
                members[old] -= 1
                members[new] += 1
        return before

    def _normalize(self, moved: Mapping[int, int], changed: Iterable[int] = ()) -> list[int] | None:
        """Normalise the scores of groups with feasible rows; return by how much they rose.

        None where that is for no other rows than those ``moved``. ``changed``: the groups that have
        another raw score, or a first row, since the last time.
        """
        scores, members, own = self.scores, self._members, dict[int, int]()
        for row in moved:
            if self._is_feasible[row]:
                group = self._groups[row]
                own[group] = own.get(group, 0) + 1
        raw, normalized = scores.raw, scores.normalized
        there = [one for one, size in zip(raw, members, strict=True) if size and one != IGNORED]
        extremes = most, fewest = max(there, default=IGNORED), min(there, default=IGNORED)
        if extremes != self._extremes:
            self._extremes, changed = extremes, range(len(raw))
        gains: list[int] | None = None
        top = most + fewest
        for group in changed:
            if size := members[group]:
                now, one = 0, raw[group]
                if one != IGNORED:
                    now = (top - one) * BEST // most if most else BEST
                if now != normalized[group]:
                    if size > own.get(group, 0):
                        gains = [0] * len(raw) if gains is None else gains
                        gains[group] = now - normalized[group]
                    normalized[group] = now
        return gains
