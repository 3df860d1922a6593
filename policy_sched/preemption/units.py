"""Units of victims: which of a node's pods go together with which others, by a rule of the policy.

Theory of operation. Possible victims of a node are taken one after the other, the least important
first, and each with its unit: the pods of its group, on whatever node, that the rule gives the same
text, with the counts that the group has without the pods taken before. So a gang gives one pod
after the other as long as it has more than it needs, and then all the others together. A unit of
which one pod may not be evicted stays. What a gang gave before it went whole needs the whole:
it can only stay if the others do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import PodRows
from policy_sched.framework import Handle
from policy_sched.model import NO_GROUP, PodInfo
from policy_sched.preemption import dry_run
from policy_sched.preemption.budgets import Budgets
from policy_sched.preemption.policy_section import Taken
from policy_sched.preemption.rules import PreemptionRules


class NodeUnits(msgspec.Struct, frozen=True):
    """The units that may leave a node.

    ``rows``: all their pods, the most important first: rows of the pod table, shape (p,).
    ``breaking``: which of them break a disruption budget, shape (p,). ``units``: in order of
    reprieve. ``places``: by unit, where its pods are in ``rows``.
    """

    rows: NDArray[np.intp]
    breaking: NDArray[np.bool_]
    units: tuple[dry_run.Unit, ...]
    places: tuple[tuple[int, ...], ...]


class _Taken(msgspec.Struct):
    """A unit that is taken: rows of the pod table; ``needs``: units without which it goes."""

    rows: list[int]
    needs: list[int]


class VictimUnits:
    """Finds the units of one search; nothing may change meanwhile."""

    def __init__(
        self, handle: Handle, rules: PreemptionRules, budgets: Budgets, pod: PodInfo
    ) -> None:
        assert rules.unit is not None, "the policy has units"
        self._unit = rules.unit
        self._handle = handle
        self._cache = handle.cache
        self._rules = rules
        self._budgets = budgets
        self._pod = pod
        self._by_text: Mapping[tuple[str, str], list[int]] | None = None
        handle.budget.enter(handle.nodes.n, 0)

    def span(self, rows: NDArray[np.intp], column: Callable[[int], list[int]]) -> NDArray[np.bool_]:
        """Return of rows of the node table whether one of their pods may go with others.

        ``column`` returns the pods of a row.
        """
        if not self._rules.units_are_groups:
            return np.array([self._spans(column(row)) for row in rows.tolist()], np.bool_)
        groups, nodes = self._cache.groups, self._cache.pods.node.values
        pods = [self._cache.pod_row(uid) for key in list(groups.keys()) for uid in groups.pods(key)]
        self._handle.budget.spend(len(pods))
        of_groups = nodes[np.array([row for row in pods if row is not None], np.intp)]
        return np.isin(rows, of_groups)

    def _spans(self, column: list[int]) -> bool:
        return any(info.pod_group or self._text(info) for info in self._infos(column))

    def of_node(self, column: list[int]) -> NodeUnits | None:
        """Return the units that may leave a node, None if none may.

        ``column``: the node's pods, the most important first.
        """
        taken: list[_Taken] = []
        gone: dict[int, int] = {}
        victims: list[Taken] = []
        for row in reversed(column):
            if row in gone:
                continue
            rows, broken = self._members(row, gone)
            ordered = self._ordered(rows)
            nodes = self._cache.pods.node.values[ordered].tolist()
            unit = [*zip(self._infos(ordered), nodes, strict=True)]
            if self._rules.takes(self._pod, unit[::-1], victims):
                number = len(taken)
                taken.append(_Taken(ordered, []))
                for before in broken:
                    taken[before].needs.append(number)
                gone |= dict.fromkeys(ordered, number)
        return self._arranged(taken) if taken else None

    def _members(self, row: int, gone: Mapping[int, int]) -> tuple[list[int], set[int]]:
        """Return the pods of a pod's unit, and the units taken before that cannot do without it."""
        info = self._info(row)
        if not info.pod_group:
            text = self._text(info)
            if not text:
                return [row], set()
            return [r for r in self._named(info.namespace, text) if r not in gone], set()
        key = (info.namespace, info.pod_group)
        nodes, group = self._cache.pods.node.values, self._cache.groups.pods(key)
        self._handle.budget.spend(len(group))
        among = map(self._cache.pod_row, group)
        rows = [other for other in among if other is not None and nodes[other] >= 0]
        left = [self._info(row) for row in rows if row in gone]
        counts = self._handle.groups.counts_without(key, left)
        text = self._unit(info, counts)
        if text in ("", info.uid):
            return [row], set()
        together = [other for other in rows if self._unit(self._info(other), counts) == text]
        broken = {gone[other] for other in together if other in gone}
        return [other for other in together if other not in gone], broken

    def _text(self, info: PodInfo) -> str:
        """Return what names the unit of a pod without a group; empty if it goes by itself."""
        text = self._unit(info, NO_GROUP)
        return "" if text == info.uid else text

    def _named(self, namespace: str, text: str) -> list[int]:
        """Return the pods on nodes without a group that have a text."""
        by_text = self._by_text
        if by_text is None:
            pods, rows = self._cache.pods, dict[tuple[str, str], list[int]]()
            on_nodes = np.flatnonzero(pods.node.values[: pods.n] >= 0).tolist()
            for row in on_nodes:
                info = pods.infos[row]
                if info is not None and not info.pod_group:
                    rows.setdefault((info.namespace, self._text(info)), []).append(row)
            self._handle.budget.spend(len(on_nodes))
            self._by_text = by_text = rows
        return by_text[namespace, text]

    def _arranged(self, taken: list[_Taken]) -> NodeUnits:
        """Return units in order of reprieve, with what breaks a budget."""
        pods = self._cache.pods
        rows = self._ordered([row for unit in taken for row in unit.rows])
        place = {row: number for number, row in enumerate(rows)}
        self._handle.budget.spend(len(rows))  # they leave the node in the dry run, and return
        block = PodRows(pods, np.array(rows, np.intp)[:, np.newaxis])
        broken = self._budgets.violating(block) if self._budgets else None
        breaking = np.zeros(len(rows), np.bool_) if broken is None else broken[:, 0]
        places = [tuple(place[row] for row in unit.rows) for unit in taken]
        left = sorted(
            range(len(taken)), key=lambda unit: (not breaking[[*places[unit]]].any(), places[unit])
        )
        order: list[int] = []
        while left:
            ready = next(unit for unit in left if set(taken[unit].needs).issubset(order))
            left.remove(ready)
            order.append(ready)
        at = {unit: position for position, unit in enumerate(order)}
        nodes = pods.node.values
        units = [
            dry_run.Unit(
                tuple((nodes.item(row), self._info(row)) for row in taken[unit].rows),
                frozenset(at[other] for other in taken[unit].needs),
            )
            for unit in order
        ]
        return NodeUnits(
            block.rows[:, 0], breaking, tuple(units), tuple(places[unit] for unit in order)
        )

    def _ordered(self, rows: list[int]) -> list[int]:
        """Return pods, the most important first."""
        if len(rows) == 1:
            return rows
        among = np.array(rows, np.intp)
        ordered: list[int] = among[
            np.lexsort(self._rules.victim_order(self._pod)(among)[::-1])
        ].tolist()
        return ordered

    def _info(self, row: int) -> PodInfo:
        info = self._cache.pods.infos[row]
        assert info is not None, "only rows of pods are asked for"
        return info

    def _infos(self, rows: list[int]) -> Iterator[PodInfo]:
        return map(self._info, rows)
