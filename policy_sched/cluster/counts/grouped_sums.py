"""Scores that are sums over topology keys, by group of rows, as pods come to and leave some rows.

Theory of operation. An `Addend` is the amount in a row's domain of one key, times a weight. Rows
with the same addends have the same score, and are one group. Where a key has far fewer values than
there are rows, rows are grouped by their domain: another amount changes the scores of the groups
of a domain. Else, as by the host name, they are grouped by the amount in it: another amount moves
the rows of a domain to other groups. Either way a pod that comes or goes concerns one domain of
each key, and no row is looked at but those that move.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.counts.counts import Domain

#: With more groups, scoring all rows takes less time.
MANY_GROUPS: Final = 512
#: More rows of one domain do not move one by one.
MANY_ROWS: Final = 64
#: Rows are grouped by domain where a domain has so many rows on average.
ROWS_EACH: Final = 4
#: Up to so many numbers for each row are counted, which is faster than sorting.
_DENSE: Final = 4
#: Stands for the amount of a row without the label, where that is not 0.
_ABSENT: Final = -1

GroupKey: TypeAlias = tuple[int, ...]
"""Of each addend the domain, or the amount in it, of a group's rows."""
Gains: TypeAlias = tuple[list[int] | None, list[tuple[int, int]]]
"""By how much normalised scores rose: by group, None where no group's did; and of each row that
moved to another group its own gain, which is in place of that of the group."""
NO_GAINS: Final[Gains] = (None, [])


class Formula(Protocol):
    """How a plugin makes scores of the sums."""

    @property
    def ignored(self) -> int | None:
        """The raw score of rows that lack a label; None: a missing label adds nothing."""

    def weights(self, rows: NDArray[np.intp]) -> Sequence[tuple[float, int]]:
        """Return of each addend a factor and what is added to the product.

        ``rows``: the feasible ones, ascending.
        """

    def rounded(self, total: float) -> int:
        """Return the raw score that a sum makes."""

    def normalized(self, scores: Sequence[int], lowest: int, highest: int) -> list[int]:
        """Return normalised scores, as of the lowest and highest raw one that is not ignored."""


class Addend:
    """The amount in each domain of one topology key.

    ``counted``: the pods that count by domain, each shape (domain.count + 1,), which change as pods
    come and go, and a factor. ``present``: the rows that have the label, None where a missing label
    is an amount of 0; amounts are not negative then.
    """

    __slots__ = (
        "_counted",
        "absent",
        "amounts",
        "by_amount",
        "domain",
        "groups",
        "more",
        "present",
        "values",
        "weight",
    )

    def __init__(
        self,
        domain: Domain,
        counted: Sequence[tuple[NDArray[np.int64], int]],
        present: NDArray[np.bool_] | None = None,
    ) -> None:
        self.domain = domain
        self.present = present
        self._counted = [(totals.data, factor) for totals, factor in counted]
        amounts = np.zeros(domain.count + 1, np.int64)
        for totals, factor in counted:
            amounts += totals * factor
        amounts[-1] = 0  # a row without the label is in no domain
        self.amounts: memoryview[int] = amounts.data
        self.by_amount = domain.count * ROWS_EACH > domain.ids.size
        self.absent = None if present is None else _ABSENT if self.by_amount else domain.count
        """The number of rows without the label in the key of their group; None: it is as others."""
        self.groups: dict[int, list[int]] = {}
        """The groups in each domain, where rows are grouped by domain."""
        self.values: list[float] = []
        """The weighted amount of each domain, where rows are grouped by domain."""
        self.weight, self.more = 0.0, 0

    def column(self) -> NDArray[np.intp]:
        """Return of each row its number in the key of its group, shape (n,)."""
        ids = self.domain.ids
        if not self.by_amount:
            return ids
        column = np.asarray(self.amounts)[ids]
        if self.present is not None:
            column[~self.present] = _ABSENT
        return column

    def weigh(self, weight: float, more: int) -> None:
        """Set the weight, and what is added."""
        self.weight, self.more = weight, more
        if not self.by_amount:
            self.values = [amount * weight + more for amount in self.amounts]
            self.values[-1] = 0

    def recount(self, rows: Iterable[int]) -> list[int]:
        """Return the domains of these rows whose amounts are others now."""
        ids, outside, amounts = self.domain.id_view, self.domain.count, self.amounts
        changed = []
        for row in rows:
            number = ids[row]
            if number != outside:
                amount = 0
                for totals, factor in self._counted:
                    amount += totals[number] * factor
                if amount != amounts[number]:
                    amounts[number] = amount
                    if not self.by_amount:
                        self.values[number] = amount * self.weight + self.more
                    changed.append(number)
        return changed

    def rows_of(self, number: int) -> Sequence[int]:
        """Return the rows of a domain."""
        domain = self.domain
        return (number,) if domain.in_order else domain.rows_of(number).tolist()


class GroupedSums:
    """The scores of the rows of one node table.

    ``groups``: the group of each row, shape (n,). ``raw``, ``normalized``: the score of each group;
    that of a group without feasible rows may be anything.
    """

    __slots__ = (
        "_addends",
        "_extremes",
        "_feasible",
        "_formula",
        "_group_of",
        "_ignored",
        "_keys",
        "_members",
        "_numbers",
        "groups",
        "normalized",
        "raw",
    )

    def __init__(
        self,
        addends: Sequence[Addend],
        formula: Formula,
        groups: NDArray[np.intp],
        keys: Sequence[GroupKey],
        feasible: NDArray[np.intp],
    ) -> None:
        self._addends, self._formula, self._ignored = addends, formula, formula.ignored
        self.groups = groups
        self._group_of: memoryview[int] = groups.data
        """The same numbers, which are read faster one by one."""
        self.raw: list[int] = []
        self.normalized: list[int] = []
        self._keys: list[GroupKey] = []
        self._numbers: dict[GroupKey, int] = {}
        self._members: list[int] = []
        """How many feasible rows each group has."""
        self._extremes: tuple[int, int] | None = None
        """The lowest and highest raw score by which scores were normalised the last time."""
        for key in keys:
            self._add_group(key)
        self._weigh(feasible)
        self._normalize((), {})

    @staticmethod
    def of(
        addends: Sequence[Addend], formula: Formula, feasible: NDArray[np.intp]
    ) -> GroupedSums | None:
        """Return the scores; None if there are too many groups.

        ``feasible``: the rows on which the pod can run, ascending.
        """
        grouped = group_rows([addend.column() for addend in addends], MANY_GROUPS)
        return None if grouped is None else GroupedSums(addends, formula, *grouped, feasible)

    def update(self, rows: Sequence[int], feasible: NDArray[np.intp]) -> Gains | None:
        """Update the scores after a change of ``rows``; None if all rows must be scored.

        ``feasible`` is the same array as before if the rows on which the pod can run are the same.
        """
        changed: list[int] = []
        moves: dict[int, GroupKey] = {}
        for place, addend in enumerate(self._addends):
            for number in addend.recount(rows):
                if not addend.by_amount:
                    changed += addend.groups.get(number, ())
                elif not self._plan_moves(moves, place, number):
                    return None
        if feasible is not self._feasible:
            self._weigh(feasible)
        elif not changed and not moves:
            return NO_GAINS
        for group in changed:
            self.raw[group] = self._raw(self._keys[group])
        if not moves:
            return self._normalize(changed, {}), []
        before, own = self._move(moves)
        if len(self._keys) > MANY_GROUPS:
            return None
        gains, groups, normalized = self._normalize(changed, own), self._group_of, self.normalized
        return gains, [(row, normalized[groups[row]] - old) for row, old in before]

    def _plan_moves(self, moves: dict[int, GroupKey], place: int, number: int) -> bool:
        """Note the keys that the rows of a domain have with its new amount.

        Returns False if these are too many rows.
        """
        addend, keys, groups = self._addends[place], self._keys, self._group_of
        rows = addend.rows_of(number)
        if len(rows) > MANY_ROWS:
            return False
        for row in rows:
            key = moves.get(row) or keys[groups[row]]
            if key[place] != addend.absent:
                moves[row] = (*key[:place], addend.amounts[number], *key[place + 1 :])
        return True

    def _add_group(self, key: GroupKey) -> int:
        number = self._numbers[key] = len(self._keys)
        self._keys.append(key)
        for addend, of_addend in zip(self._addends, key, strict=True):
            if not addend.by_amount:
                addend.groups.setdefault(of_addend, []).append(number)
        self.raw.append(0)
        self.normalized.append(0)
        self._members.append(0)
        return number

    def _weigh(self, feasible: NDArray[np.intp]) -> None:
        """Count the members of groups and weigh the addends, as of other feasible rows."""
        self._feasible, self._extremes, groups = feasible, None, self.groups
        own = groups if feasible.size == groups.size else groups[feasible]
        self._members = np.bincount(own, minlength=len(self._keys)).tolist()
        reweighed, weights = False, self._formula.weights(feasible)
        for addend, (weight, more) in zip(self._addends, weights, strict=True):
            if (weight, more) != (addend.weight, addend.more):
                addend.weigh(weight, more)
                reweighed = True
        if reweighed:
            self.raw[:] = [self._raw(key) for key in self._keys]

    def _raw(self, key: GroupKey) -> int:
        """Return the raw score of a group."""
        total = 0.0
        for addend, number in zip(self._addends, key, strict=True):
            if number == addend.absent:
                if self._ignored is not None:
                    return self._ignored
            elif addend.by_amount:
                total += number * addend.weight + addend.more
            else:
                total += addend.values[number]
        return self._formula.rounded(total)

    def _move(self, moves: Mapping[int, GroupKey]) -> tuple[list[tuple[int, int]], dict[int, int]]:
        """Put rows into the groups of these keys.

        Returns their normalised scores so far, and how many feasible ones each group has got.
        """
        before: list[tuple[int, int]] = []
        own: dict[int, int] = {}
        groups, members, feasible = self._group_of, self._members, self._feasible.data
        everywhere = len(feasible) == len(groups)
        for row, key in moves.items():
            old, new = groups[row], self._numbers.get(key)
            if new is None:
                new = self._add_group(key)
                self.raw[new] = self._raw(key)
            before.append((row, self.normalized[old]))
            groups[row] = new
            place = row if everywhere else bisect_left(feasible, row)
            if place < len(feasible) and feasible[place] == row:
                members[old] -= 1
                members[new] += 1
                own[new] = own.get(new, 0) + 1
            else:
                own.setdefault(new, 0)
        return before, own

    def _normalize(self, changed: Sequence[int], own: Mapping[int, int]) -> list[int] | None:
        """Normalise the scores of groups with feasible rows; return by how much they rose.

        None where that is for no other rows than those that moved. ``changed``: the groups that
        have another raw score since the last time. ``own``: how many feasible rows moved to each.
        """
        raw, normalized, members, ignored = self.raw, self.normalized, self._members, self._ignored
        numbers = [group for group, size in enumerate(members) if size]
        scores = [raw[group] for group in numbers]
        counted = scores if ignored is None else [one for one in scores if one != ignored]
        extremes = lowest, highest = min(counted, default=0), max(counted, default=0)
        if extremes == self._extremes:  # the scores of the other groups are as they were
            numbers = [*changed, *own]
            scores = [raw[group] for group in numbers]
        self._extremes = extremes
        gains: list[int] | None = None
        after = self._formula.normalized(scores, lowest, highest)
        for group, now in zip(numbers, after, strict=True):
            if now != normalized[group]:
                if members[group] > own.get(group, 0):
                    gains = [0] * len(raw) if gains is None else gains
                    gains[group] = now - normalized[group]
                normalized[group] = now
        return gains


def group_rows(
    columns: Sequence[NDArray[np.intp]], most: int
) -> tuple[NDArray[np.intp], list[GroupKey]] | None:
    """Return the group of each row, and what its rows have in common; None beyond ``most`` groups.

    All columns have one number for each row, and there is at least one column.
    """
    groups, keys = np.zeros(columns[0].size, np.intp), list[GroupKey]([()])
    for column in columns:
        low = int(column.min(initial=0))
        size = int(column.max(initial=0)) - low + 1
        found, groups = _numbered(groups * size + (column - low), len(keys) * size)
        if found.size > most:
            return None
        keys = [(*keys[code // size], code % size + low) for code in found.tolist()]
    return groups, keys


def _numbered(codes: NDArray[np.intp], limit: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return which codes there are, and for each row the place of its code among them."""
    if limit > _DENSE * codes.size:
        found, places = np.unique(codes, return_inverse=True)
        return found, places.astype(np.intp)
    found = np.bincount(codes, minlength=limit).nonzero()[0]
    place_of = np.zeros(limit, np.intp)
    place_of[found] = np.arange(found.size)
    return found, place_of.take(codes)
