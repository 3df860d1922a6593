"""Scores that are sums over topology keys, by group of rows, as pods come to and leave some rows.

Theory of operation. An `Addend` is the amount in a row's domain of one key, times a weight. Rows
with the same addends have the same score, and are one group. Where a key has far fewer values than
there are rows, rows are grouped by their domain: another amount changes the scores of the groups
of a domain. Else, as by the host name, they are grouped by the amount in it: another amount moves
the rows of a domain to other groups. Either way a pod that comes or goes concerns one domain of
each key, and no row is looked at but those that move.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched import thresholds
from policy_sched.cluster.counts import Domain
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.results import Feasible

#: Stands for the amount of a row without the label, where that is not 0.
_ABSENT: Final = -1

GroupKey: TypeAlias = tuple[int, ...]
"""Of each addend the domain, or the amount in it, of a group's rows."""


class Formula(msgspec.Struct, frozen=True):
    """How a plugin makes scores of the sums."""

    weights: Callable[[NDArray[np.intp]], Sequence[tuple[float, int]]]
    """Returns of each addend a factor and what is added to the product, of the feasible rows."""
    normalized: Callable[[Sequence[int], Iterable[int], int, int], list[int]]
    """Takes the raw scores of groups, which groups are wanted, the lowest raw score and the highest
    of feasible rows that are not ignored; returns the normalised scores."""
    ignored: int | None = None
    """The raw score of rows that lack a label, normalised to 0; None: it adds nothing."""
    rounding: float = 0.0
    """What is added to a sum before its fraction is cut off."""


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
        "present",
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
        self.by_amount = domain.count * thresholds.LOOP_ROWS > domain.ids.size
        self.absent = None if present is None else _ABSENT if self.by_amount else domain.count
        """The number of rows without the label in the key of their group; None: it is as others."""
        self.groups: dict[int, list[int]] = {}
        """The groups in each domain, where rows are grouped by domain."""

    def column(self) -> NDArray[np.intp]:
        """Return of each row its number in the key of its group, shape (n,)."""
        ids = self.domain.ids
        if not self.by_amount:
            return ids
        column = np.asarray(self.amounts)[ids]
        if self.present is not None:
            column[~self.present] = _ABSENT
        return column

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
                    changed.append(number)
        return changed


class Rescored(msgspec.Struct, frozen=True, eq=False):
    """By how much normalised scores have risen.

    ``gains``: by group, None if no group's has changed. ``moved``: rows that belong to another
    group now, with the score that they had before; the gain of the group is not for them.
    """

    gains: list[int] | None
    moved: Sequence[tuple[int, int]]


_SAME_SCORES: Final = Rescored(None, ())


class GroupedSums:
    """A plugin's scores of the rows of one node table.

    ``groups``: the group of each row, shape (n,). ``raw``, ``normalized``: the score of each group;
    that of a group without feasible rows may be anything. All three are updated in place.
    """

    __slots__ = (
        "_addends",
        "_extremes",
        "_feasible",
        "_formula",
        "_is_feasible",
        "_keys",
        "_members",
        "_numbers",
        "_scored",
        "_terms",
        "group_of",
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
        feasible: Feasible,
    ) -> None:
        self._addends, self._formula = addends, formula
        self.groups = groups
        self.raw: list[int] = []
        self.normalized: list[int] = []
        self.group_of: memoryview[int] = groups.data
        """The same numbers, which are read faster one by one."""
        self._keys: list[GroupKey] = []
        self._numbers: dict[GroupKey, int] = {}
        self._members: list[int] = []
        """How many feasible rows each group has."""
        self._scored: dict[int, int] = {}
        """The raw scores of groups with feasible rows, but for those that are ignored."""
        self._extremes: tuple[int, int] | None = None
        """The lowest and highest raw score by which scores were normalised the last time."""
        for key in keys:
            self._add_group(key)
        self._weigh(feasible)
        self._normalize((), ())

    @staticmethod
    def of(addends: Sequence[Addend], formula: Formula, feasible: Feasible) -> GroupedSums | None:
        """Return the scores; None if there are too many groups."""
        grouped = group_rows([addend.column() for addend in addends])
        return None if grouped is None else GroupedSums(addends, formula, *grouped, feasible)

    def update(self, state: CycleState, rows: Sequence[int]) -> Rescored | None:
        """Update the scores after a change of ``rows``; None if all rows must be scored.

        The state has the same object as before if the rows on which the pod can run are the same.
        """
        changed: list[int] = []
        moves: dict[int, GroupKey] = {}
        keys, groups = self._keys, self.group_of
        for position, addend in enumerate(self._addends):
            numbers = addend.recount(rows)
            if not numbers:
                continue
            if not addend.by_amount:
                for number in numbers:
                    changed += addend.groups.get(number, ())
                continue
            domain, amounts = addend.domain, addend.amounts
            moved = numbers if domain.in_order else domain.rows_of(numbers).tolist()
            if len(moved) > thresholds.MOST_GROUPS:
                return None
            for row in moved:
                key = moves.get(row) or keys[groups[row]]
                if key[position] != addend.absent:
                    moves[row] = (
                        *key[:position],
                        amounts[domain.id_view[row]],
                        *key[position + 1 :],
                    )
        feasible = state.read(Feasible)
        assert feasible is not None, "it is there from PreScore on"
        if feasible is not self._feasible:
            self._weigh(feasible)
        elif not changed and not moves:
            return _SAME_SCORES
        before, entered = self._move(moves) if moves else ((), ())
        if len(keys) > thresholds.MOST_GROUPS:
            return None
        rated = self._rate([*changed, *entered])
        return Rescored(self._normalize(rated, entered), before)

    def _add_group(self, key: GroupKey) -> int:
        number = self._numbers[key] = len(self._keys)
        self._keys.append(key)
        for addend, of_addend in zip(self._addends, key, strict=True):
            if not addend.by_amount:
                addend.groups.setdefault(of_addend, []).append(number)
        self.raw.append(self._formula.ignored or 0)
        self.normalized.append(0)
        self._members.append(0)
        return number

    def _weigh(self, feasible: Feasible) -> None:
        """Rate all groups, as of other feasible rows."""
        rows, groups = feasible.rows, self.groups
        self._feasible, self._extremes = feasible, None
        self._is_feasible = np.zeros(groups.size, np.bool_)
        self._is_feasible[rows] = True
        self._members = np.bincount(groups[rows], minlength=len(self._keys)).tolist()
        self._terms = [
            (addend.absent, None if addend.by_amount else addend.amounts, weight, more)
            for addend, (weight, more) in zip(
                self._addends, self._formula.weights(rows), strict=True
            )
        ]
        self._scored.clear()
        self._rate(range(len(self._keys)))

    def _rate(self, groups: Iterable[int]) -> list[int]:
        """Work out the raw scores of groups; return those of them that have feasible rows."""
        ignored, rounding, rated = self._formula.ignored, self._formula.rounding, list[int]()
        raw, members, keys, terms = self.raw, self._members, self._keys, self._terms
        for group in groups:
            total = 0.0
            for (absent, amounts, weight, more), number in zip(terms, keys[group], strict=True):
                if number != absent:
                    amount = number if amounts is None else amounts[number]
                    total += amount * weight + more
                elif ignored is not None:
                    break
            else:
                raw[group] = score = int(total + rounding)
                if members[group]:
                    self._scored[group] = score
                    rated.append(group)
        return rated

    def _move(self, moves: Mapping[int, GroupKey]) -> tuple[list[tuple[int, int]], set[int]]:
        """Put rows into the groups of these keys.

        Returns their normalised scores so far, and the groups without other feasible rows.
        """
        before, entered = list[tuple[int, int]](), set[int]()
        groups, members, normalized = self.group_of, self._members, self.normalized
        for row, key in moves.items():
            old, new = groups[row], self._numbers.get(key)
            if new is None:
                new = self._add_group(key)
            before.append((row, normalized[old]))
            groups[row] = new
            if not members[new]:
                entered.add(new)
            if self._is_feasible.item(row):
                members[new] += 1
                members[old] -= 1
                if not members[old]:
                    self._scored.pop(old, None)
        return before, entered

    def _normalize(self, changed: Iterable[int], entered: Container[int]) -> list[int] | None:
        """Normalise the scores of groups with feasible rows; return by how much they rose.

        None where no group's did. ``changed``: the groups with another raw score than before.
        ``entered``: those without rows that they had before.
        """
        raw, normalized, scored = self.raw, self.normalized, self._scored
        there = scored.values()
        extremes = lowest, highest = min(there, default=0), max(there, default=0)
        # With the same extremes the scores of other groups are as they were.
        groups = changed if extremes == self._extremes else scored
        self._extremes = extremes
        gains: list[int] | None = None
        after = self._formula.normalized(raw, groups, lowest, highest)
        for group, now in zip(groups, after, strict=True):
            if now != normalized[group]:
                if group not in entered:
                    gains = [0] * len(raw) if gains is None else gains
                    gains[group] = now - normalized[group]
                normalized[group] = now
        return gains


def group_rows(
    columns: Sequence[NDArray[np.intp]],
) -> tuple[NDArray[np.intp], list[GroupKey]] | None:
    """Return the group of each row, and what its rows have in common; None if these are too many.

    All columns have one number for each row, and there is at least one column.
    """
    groups, keys = np.zeros(columns[0].size, np.intp), list[GroupKey]([()])
    for column in columns:
        low = int(column.min(initial=0))
        size = int(column.max(initial=0)) - low + 1
        codes, groups = _numbered(groups * size + (column - low), len(keys) * size)
        if codes.size > thresholds.MOST_GROUPS:
            return None
        keys = [(*keys[code // size], code % size + low) for code in codes.tolist()]
    return groups, keys


def _numbered(codes: NDArray[np.intp], limit: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return which codes there are, and for each row the number of its code among them."""
    if codes.size < thresholds.SPARSE * limit:
        present, numbers = np.unique(codes, return_inverse=True)
        return present, numbers.astype(np.intp)
    present = np.bincount(codes, minlength=limit).nonzero()[0]
    number_of = np.zeros(limit, np.intp)
    number_of[present] = np.arange(present.size)
    return present, number_of.take(codes)
