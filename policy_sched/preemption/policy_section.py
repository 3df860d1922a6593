"""A policy's ``preemption`` section over one cluster's tables: the choices of a search for victims.

Whatever can be is computed for all victims or nodes at once; the rest, and everything in which an
error turned up, one by one. Both give the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from policy_sched.cluster.tables import NodeTable, PodRows, PodTable, Scope
from policy_sched.language import BoundUnit, Choice, ConditionPart, PreemptionChoices
from policy_sched.language.codegen import Rows, VictimScope
from policy_sched.language.ir import Reads
from policy_sched.language.runtime import Runtime
from policy_sched.language.values import INT_MAX, INT_MIN, Failure, RuleError
from policy_sched.model import NO_GROUP, GroupCounts, PodInfo

Keys: TypeAlias = npt.NDArray[Any]
"""One key of an order, int64 or float64; a smaller one comes first."""


Taken: TypeAlias = tuple[int, PodInfo, int]
"""A pod that goes: the number -1, the pod, and the row of its node."""


class Case(msgspec.Struct, frozen=True):
    """What a rule of the section sees besides the pod and the cluster. ``now`` is in ns."""

    now: int = 0
    victim: PodInfo | None = None
    victims: tuple[PodInfo, ...] = ()
    pdb_violations: int = 0
    pod_group: GroupCounts = NO_GROUP


class CandidateNodes(msgspec.Struct, frozen=True):
    """Nodes with their victims: m of them.

    ``rows``: rows of the node table. ``victims``: shape (depth, m). ``violations``: int64, shape
    (m,). ``listed`` gives the victims of one place, the most important first.
    """

    rows: Rows
    victims: PodRows
    violations: npt.NDArray[np.int64]
    listed: Callable[[int], tuple[PodInfo, ...]]


class BoundPreemption:
    """Preemption rules over one cluster's tables. Any method may raise RuleError."""

    def __init__(self, choices: PreemptionChoices, nodes: NodeTable, pods: PodTable) -> None:
        self._runtime = runtime = Runtime(nodes, pods)

        def bound(choice: Choice) -> _BoundChoice:
            return _BoundChoice(choice, pods, runtime)

        self.victim_reads: Reads = choices.victim.unit.reads
        """What decides whether a pod is a victim."""
        self.order_reads: Reads = reduce(
            or_, (choice.unit.reads for choice in choices.victim_order), Reads()
        )
        """What the importance of victims depends on."""
        self.stable_keys: frozenset[int] = frozenset(
            place for place, choice in enumerate(choices.node_order) if _is_stable(choice)
        )
        """The places in `node_keys` of keys that depend on nothing but a node and its victims."""
        self._pods = pods
        self._eligible = bound(choices.eligible)
        self._victim = bound(choices.victim)
        self._victim_order = [bound(choice) for choice in choices.victim_order]
        self._node_order = [bound(choice) for choice in choices.node_order]
        self._unit = None if choices.unit is None else bound(choices.unit)
        self._condition = choices.victim.condition

    def eligible(self, pod: PodInfo, now: int) -> bool:
        """Return whether the pod may evict others at all."""
        return bool(self._eligible.value(pod, Case(now), 0))

    def victim(self, pod: PodInfo, now: int, pods: PodRows) -> npt.NDArray[np.bool_]:
        """Return which pods may be evicted."""
        if "victimQuota" in self.victim_reads.node:
            return self._in_turn(pod, now, pods)
        return self._victim.of_pods(pod, now, pods).astype(np.bool_, copy=False)

    def _in_turn(self, pod: PodInfo, now: int, pods: PodRows) -> npt.NDArray[np.bool_]:
        """Return the same of columns of pods: each is asked for without those taken before it.

        The least important one, which is the last of its column, comes first.
        """
        rows, nodes = pods.rows, self._pods.node.values
        taken = np.zeros(rows.shape, np.bool_)
        if not rows.size:
            return taken
        columns = rows.reshape(rows.shape[0], -1)
        there = np.broadcast_to(pods.there, rows.shape).reshape(columns.shape)
        flags, runtime = taken.reshape(columns.shape), self._runtime
        try:
            for place in np.flatnonzero(there.any(axis=0)).tolist():
                victims: list[Taken] = []
                runtime.taken = victims
                for line in reversed(range(columns.shape[0])):
                    row = columns.item(line, place)
                    info = self._pods.infos[row] if there.item(line, place) else None
                    node = nodes.item(row)
                    if info is not None and self._victim.value(pod, Case(now, info), node):
                        victims.append((-1, info, node))
                        flags[line, place] = True
        finally:
            runtime.taken = ()
        return taken

    def takes(
        self, pod: PodInfo, now: int, unit: Sequence[tuple[PodInfo, int]], taken: list[Taken]
    ) -> bool:
        """Return whether all of some pods may be evicted; if so they join those taken before.

        ``unit``: pods and the rows of their nodes, the least important first.
        """
        before, self._runtime.taken = len(taken), taken
        try:
            for victim, node in unit:
                if not self._victim.value(pod, Case(now, victim), node):
                    del taken[before:]
                    return False
                taken.append((-1, victim, node))
        finally:
            self._runtime.taken = ()
        return True

    def false_part(
        self, pod: PodInfo, now: int, victim: tuple[PodInfo, int], taken: Sequence[Taken]
    ) -> str:
        """Return the part of the condition of victims that is false for one, or that fails.

        ``victim``: it and the row of its node. ``taken``: the pods that go before it.
        """
        part = self._condition
        if part is None:
            return ""
        case, row = Case(now, victim[0]), victim[1]

        def holds(part: ConditionPart) -> bool:
            value = BoundUnit(part.unit, self._runtime).evaluate(0, pod, case, row)
            return not isinstance(value, Failure) and bool(value)

        self._runtime.taken = taken
        try:
            while part.parts:
                if part.branches:
                    test, then, otherwise = part.parts
                    part = then if holds(test) else otherwise
                else:
                    part = next((inner for inner in part.parts if not holds(inner)), part.parts[-1])
        finally:
            self._runtime.taken = ()
        return part.text

    @property
    def units_are_groups(self) -> bool:
        """Whether pods without a group go by themselves, whatever they are."""
        unit = self._unit
        if unit is None or not unit.reads.pod <= {("podGroup",)}:
            return unit is None
        return not unit.value(None, Case(), 0)

    @property
    def unit(self) -> Callable[[PodInfo, GroupCounts], str] | None:
        """What names a pod's unit by the counts of its group; None: each pod goes by itself."""
        unit = self._unit
        if unit is None:
            return None
        return lambda pod, counts: str(unit.value(pod, Case(pod_group=counts), 0))

    def victim_order(self, pod: PodInfo | None, rows: Rows) -> tuple[Keys, ...]:
        """Return the keys of pods, shape (p,); the most important pod has the least."""
        pods = PodRows(self._pods, rows)
        return tuple(key.ordered(key.of_pods(pod, 0, pods)) for key in self._victim_order)

    @property
    def node_keys(self) -> tuple[Callable[[PodInfo, int, CandidateNodes], Keys], ...]:
        """The keys of nodes, the deciding one first: pod, time and nodes to keys, shape (m,)."""
        return tuple(key.node_key for key in self._node_order)


def _is_stable(choice: Choice) -> bool:
    """Return whether values follow from a node and its victims, for each node by itself."""
    reads, program = choice.unit.reads, choice.victims
    if program is None or program.rep == "s":  # texts are ranked among all that are compared
        return False
    return not reads.pod and not reads.clock and reads.scope <= Scope.NODE


class _BoundChoice:
    """One expression of the section."""

    def __init__(self, choice: Choice, pods: PodTable, runtime: Runtime) -> None:
        self._choice = choice
        self._pods = pods
        self._unit = BoundUnit(choice.unit, runtime)
        program = choice.victims
        self._together = None if program is None else program.bind(runtime)
        self._reads_nodes = program is not None and program.reads_nodes
        self._rep = "" if program is None else program.rep

    @property
    def reads(self) -> Reads:
        """What it reads."""
        return self._choice.unit.reads

    def value(self, pod: PodInfo | None, case: Case, row: int) -> Any:
        """Return the value for one victim or node."""
        value = self._unit.evaluate(0, pod, case, row)
        if isinstance(value, Failure):
            raise RuleError(f"{self._choice.name}: {value.message}")
        return value

    def of_pods(self, pod: PodInfo | None, now: int, pods: PodRows) -> Keys:
        """Return the values for pods."""
        of_rows, rows = self._pods.node.values, pods.rows
        if self._together is not None:
            scope = VictimScope(pods, of_rows[rows] if self._reads_nodes else rows)
            value, error = self._together(pod, Case(now), scope)
            if error is None or not np.any(pods.there & (error != 0)):
                return self._numbers(value, rows.shape)
        infos = self._pods.infos
        places = zip(
            rows.reshape(-1).tolist(),
            of_rows[rows].reshape(-1).tolist(),
            pods.there.reshape(-1).tolist(),
            strict=True,
        )
        keys = [
            self.value(pod, Case(now, infos[row]), node) if there else None
            for row, node, there in places
        ]
        return _array(keys).reshape(rows.shape)

    def node_key(self, pod: PodInfo, now: int, nodes: CandidateNodes) -> Keys:
        """Return the keys of nodes."""
        shape = nodes.rows.shape
        if self._together is not None:
            scope = VictimScope(nodes.victims, nodes.rows, nodes.violations)
            value, error = self._together(pod, Case(now), scope)
            if error is None or not np.any(error):
                return self.ordered(self._numbers(value, shape))
        keys = [
            self.value(pod, Case(now, None, nodes.listed(place), violations), row)
            for place, (row, violations) in enumerate(
                zip(nodes.rows.tolist(), nodes.violations.tolist(), strict=True)
            )
        ]
        return self.ordered(_array(keys))

    def _numbers(self, value: Any, shape: tuple[int, ...]) -> Keys:
        if self._rep == "s":
            strings = self._pods.strings
            codes = np.broadcast_to(strings.code(value) if isinstance(value, str) else value, shape)
            return _ranked([strings.text(code) for code in codes.reshape(-1).tolist()], shape)
        array = np.asarray(value)
        return array if array.shape == shape else np.full(shape, array)

    def ordered(self, values: Keys) -> Keys:
        """Return values as keys of which the least comes first."""
        if values.dtype == np.float64:
            if np.isnan(values).any():
                raise RuleError(f"{self._choice.name}: not finite")
            return -values if self._choice.descending else values
        whole = values.astype(np.int64, copy=False)
        return ~whole if self._choice.descending else whole


def _array(values: list[Any]) -> Keys:
    """Return values of one type as numbers that compare alike; None means no pod."""
    known = [value for value in values if value is not None]
    if any(isinstance(value, str) for value in known):
        return _ranked(values, (len(values),))
    if any(isinstance(value, float) for value in known):
        return np.array([0.0 if value is None else value for value in values], np.float64)
    whole = [min(max(int(value or 0), INT_MIN), INT_MAX) for value in values]
    return np.array(whole, np.int64)


def _ranked(texts: list[Any], shape: tuple[int, ...]) -> Keys:
    """Return the rank of each text in the order of code points."""
    ranks = {text: rank for rank, text in enumerate(sorted({t or "" for t in texts}))}
    return np.array([ranks[text or ""] for text in texts], np.int64).reshape(shape)
