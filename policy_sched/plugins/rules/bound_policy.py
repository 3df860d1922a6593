"""A policy bound to a node table: the evaluations of pod time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from policy_sched.cluster.tables import NodeTable, PodTable
from policy_sched.framework import RowRule
from policy_sched.language import (
    BoundUnit,
    CompiledPolicy,
    FilterRule,
    GateRule,
    Sections,
    Unit,
)
from policy_sched.language.runtime import Activation, RawScores, Runtime
from policy_sched.language.values import Failure, LimitError, RuleError, Some, one_evaluation
from policy_sched.model import NO_GROUP, GroupCounts, PodInfo, QueuedPod
from policy_sched.plugins.rules.bound_placement import BoundPlacement
from policy_sched.plugins.rules.bound_score import FEW_ROWS, BoundScore
from policy_sched.plugins.rules.equivalence_classes import each
from policy_sched.plugins.rules.life_cycle import BoundLifeCycle
from policy_sched.preemption import BoundPreemption

Codes = npt.NDArray[np.int16]


def filter_codes(
    codes: Codes | None, values: Any, errors: Any, rule: FilterRule, number: int, n: int
) -> Codes | None:
    """Return ``codes`` with what rule ``number`` adds for rows that passed so far."""
    own: Any = None
    if errors is not None and np.any(errors):
        failed = np.not_equal(errors, 0)
        wrong = 0 if rule.on_error == "Allow" else 2 * number + 2
        own = np.where(failed, wrong, np.where(values, 0, 2 * number + 1))
    elif isinstance(values, np.ndarray) and values.ndim:
        if values.all():
            return codes
        if number == 0:
            own = np.logical_not(values).astype(np.int16)
        else:
            own = np.where(values, 0, 2 * number + 1)
    elif values:
        return codes
    else:
        own = 2 * number + 1
    if not isinstance(own, np.ndarray) or own.ndim == 0:
        own = np.full(n, own, dtype=np.int16)
    own = own.astype(np.int16, copy=False)
    return own if codes is None else np.where(codes, codes, own)


class Reversed:
    """A string that sorts in descending order."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __lt__(self, other: Reversed) -> bool:
        return other.text < self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reversed) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


Rows = npt.NDArray[np.intp] | None
Scores = npt.NDArray[np.int64]

_NO_CYCLE: Final = Activation()
#: The code of a row of which the rules together take too much work: an error of the first.
_EXHAUSTED: Final = 2


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a node was rejected, and whether removing pods may help."""

    resolvable: bool
    reasons: tuple[str, ...]


class BoundPolicy:
    """A policy over one cluster's tables. Its answers are right for the tables as they are now.

    ``rows`` is an intp array of row numbers, or None for all rows [0, table.n); what is said of
    dead rows is of no use.
    """

    def __init__(self, sections: Sections, table: NodeTable, pods: PodTable | None = None) -> None:
        self._sections = sections
        self._table = table
        runtime = Runtime(table, pods)

        def bound(unit: Unit | None) -> BoundUnit | None:
            return None if unit is None else BoundUnit(unit, runtime)

        self._match = bound(sections.match)
        self._score_match = bound(sections.score_match)
        self._gates = [
            (gate, BoundUnit(gate.unit, runtime), bound(gate.explain))
            for gate in sections.pre_enqueue
        ]
        self._keys = bound(sections.queue_sort)
        self._names = bound(sections.node_names)
        self._filter = bound(sections.filter)
        self._rules = [(rule, bound(rule.explain)) for rule in sections.rules]
        self.aborting = frozenset(
            2 * i + 2 for i, rule in enumerate(sections.rules) if rule.on_error == "Abort"
        )
        """The codes of `filter` that end the attempt, unless the node is out anyway."""
        self._score = (
            None
            if sections.score is None
            else BoundScore(sections.name, sections.score, table, runtime)
        )
        self.preemption = (
            None
            if sections.preemption is None or pods is None
            else BoundPreemption(sections.preemption, table, pods)
        )
        """Which pods may preempt, which pods are victims, and which nodes are preferred."""
        self.placement = (
            None
            if sections.placement is None
            else BoundPlacement(sections.name, sections.placement, table)
        )
        """Which domain a node belongs to, and how good a domain is for a group."""
        self.life = BoundLifeCycle(sections.life, table)
        """What follows the choice of a node."""

    # Before nodes are looked at.

    def matches(self, pod: PodInfo, cycle: Activation) -> bool:
        """Return whether all matchConditions hold; RuleError if none is false but one fails."""
        return self._all(self._match, pod, cycle)

    def matches_score(self, pod: PodInfo, cycle: Activation) -> bool:
        """Return whether all matchConditions of the score hold; raises as `matches`."""
        return self._all(self._score_match, pod, cycle)

    def _all(self, bound: BoundUnit | None, pod: PodInfo, cycle: Activation) -> bool:
        if bound is None:
            return True
        try:
            out = bound.functions.scalar(pod, cycle, 0)
        except LimitError as error:
            raise RuleError(f"matchConditions: {error}") from None
        if not bound.unit.can_fail:
            return all(out)
        values = [bound.one(root, out) for root in bound.unit.roots]
        for i, value in enumerate(values):
            if isinstance(value, Failure) and all(isinstance(v, Failure) or v for v in values):
                raise RuleError(f"matchConditions[{i}]: {value.message}")
        return all(values)

    def pre_enqueue(self, pod: PodInfo, cycle: Activation) -> str | None:
        """Return why the pod may not enter the queue, or None if it may.

        Where a matchCondition fails, so does each rule.
        """
        try:
            if self._match is not None and not self.matches(pod, cycle):
                return None
        except RuleError as error:
            strict = (gate for gate, *_ in self._gates if gate.on_error != "Allow")
            return next((f"rule {gate.name}: {error}" for gate in strict), None)
        for gate, bound, explain in self._gates:
            passes = bound.answer(0, pod, cycle, 0)
            if isinstance(passes, Failure):
                if gate.on_error == "Allow":
                    continue
                return f"rule {gate.name}: {passes.message}"
            if not passes:
                return self._gate_message(gate, explain, pod, cycle)
        return None

    def _gate_message(
        self, gate: GateRule, explain: BoundUnit | None, pod: PodInfo, cycle: Activation
    ) -> str:
        if explain is None:
            return gate.message
        words = explain.answer(0, pod, cycle, 0)
        if isinstance(words, Failure):
            return gate.message or f"rule {gate.name}: {words.message}"
        return str(words)

    def queue_key(self, queued: QueuedPod, group: GroupCounts = NO_GROUP) -> tuple[Any, ...]:
        """Return the sort keys of a queued pod: less comes first.

        A key that fails is the zero of its type, one that is no number is below all numbers.
        """
        if self._keys is None:
            return ()
        cycle = Activation(queued=queued, pod_group=group)
        out = self._keys.scalar(queued.info, cycle, 0)
        keys = []
        roots = self._keys.unit.roots
        for root, descending in zip(roots, self._sections.descending, strict=True):
            value: Any
            if isinstance(out, Failure) or (root.error is not None and out[root.error]):
                value = root.zero
            else:
                value = out[root.value]
            if value != value:  # noqa: PLR0124  # NaN, which nothing is before or after
                value = -math.inf
            if descending:
                value = Reversed(value) if isinstance(value, str) else -value
            keys.append(value)
        return tuple(keys)

    def node_names(self, pod: PodInfo, cycle: Activation) -> frozenset[str] | None:
        """Return the only nodes to look at, by name, or None for all. May raise RuleError."""
        if self._names is None:
            return None
        value = self._names.answer(0, pod, cycle, 0)
        if isinstance(value, Failure):
            raise RuleError(f"preFilter.nodeNames: {value.message}")
        if isinstance(value, Some):
            value = value.value
        return None if value is None else frozenset(value)

    # Filter.

    def filter(self, pod: PodInfo, cycle: Activation, rows: Rows = None) -> Codes | None:
        """Return a code per row; None if every row passes.

        0 passes; 2 * i + 1 was rejected by rule i, 2 * i + 2 met an error in rule i.
        """
        bound = self._filter
        if bound is None:
            return None
        if rows is not None and len(rows) <= FEW_ROWS:
            return self._filter_few(bound, pod, cycle, rows)
        n = self._table.n if rows is None else len(rows)
        try:
            out = bound.vector(pod, cycle, rows, n)
        except LimitError as error:
            if error.whole:
                raise
            return self._filter_rows(bound, pod, cycle, range(n) if rows is None else rows.tolist())
        codes: Codes | None = None
        for i, (root, (rule, _)) in enumerate(zip(bound.unit.roots, self._rules, strict=True)):
            errors = None if root.error is None else out[root.error]
            codes = filter_codes(codes, out[root.value], errors, rule, i, n)
        return codes

    def row_filter(self, cycle: Activation) -> RowRule | None:
        """Return the filter as a function of one row; None if there is none."""
        bound = self._filter
        if bound is None:
            return None
        tests = []
        for root, (rule, _) in zip(bound.unit.roots, self._rules, strict=True):
            test = f"out[{root.value}]"
            if root.error is not None:
                failed = f"out[{root.error}]"
                allowed = rule.on_error == "Allow"
                test = f"({failed} or {test})" if allowed else f"not {failed} and {test}"
            tests.append(test)
        holds = " and ".join(tests)
        return RowRule(bound.functions.scalar, cycle, holds, metered=bound.unit.program.metered)

    def by_rule(
        self, pod: PodInfo, cycle: Activation, rows: Rows = None
    ) -> list[tuple[str, Codes | None]]:
        """Return each filter rule's name and its own codes over the rows, as if it were alone."""
        bound = self._filter
        if bound is None:
            return []
        n = self._table.n if rows is None else len(rows)
        try:
            out = bound.vector(pod, cycle, rows, n)
        except LimitError:
            codes = self.filter(pod, cycle, rows)
            return [(rule.name, codes) for rule, _ in self._rules]
        found = []
        for i, (root, (rule, _)) in enumerate(zip(bound.unit.roots, self._rules, strict=True)):
            errors = None if root.error is None else out[root.error]
            found.append((rule.name, filter_codes(None, out[root.value], errors, rule, i, n)))
        return found

    def _filter_few(
        self, bound: BoundUnit, pod: PodInfo, cycle: Activation, rows: npt.NDArray[np.intp]
    ) -> Codes | None:
        return self._filter_rows(bound, pod, cycle, rows.tolist())

    def _filter_rows(
        self, bound: BoundUnit, pod: PodInfo, cycle: Activation, rows: Iterable[int]
    ) -> Codes | None:
        """Return what `filter` does, one row after the other."""
        with one_evaluation():
            codes = [self._filter_one(bound, pod, cycle, row) for row in rows]
        if not any(codes):
            return None
        return np.array(codes, dtype=np.int16)

    def _filter_one(self, bound: BoundUnit, pod: PodInfo, cycle: Activation, row: int) -> int:
        try:
            out = bound.functions.scalar(pod, cycle, row)
        except LimitError as error:
            if error.whole:
                raise
            return _EXHAUSTED
        for i, root in enumerate(bound.unit.roots):
            if root.error is not None and out[root.error]:
                if self._rules[i][0].on_error != "Allow":
                    return 2 * i + 2
            elif not out[root.value]:
                return 2 * i + 1
        return 0

    def explain(
        self, pod: PodInfo, cycle: Activation, rows: npt.NDArray[np.intp], codes: Codes
    ) -> list[Explanation]:
        """Return why rows were rejected, given the codes (none is 0) that `filter` gave them."""
        result: list[Explanation | None] = [None] * len(rows)
        for code in np.unique(codes).tolist():
            places = np.flatnonzero(codes == code)
            for place, found in zip(
                places.tolist(), self._explain_code(pod, cycle, rows[places], code), strict=True
            ):
                result[place] = found
        return [found for found in result if found is not None]

    def _explain_code(
        self, pod: PodInfo, cycle: Activation, rows: npt.NDArray[np.intp], code: int
    ) -> list[Explanation]:
        """Return why rows were rejected that all have the same code."""
        _, bound = self._rules[(code - 1) // 2]
        if code % 2 and bound is None:
            return [self._explain_one(pod, cycle, int(rows[0]), code)] * len(rows)
        unit = bound if code % 2 else self._filter
        assert unit is not None, "a filter rejected the rows"
        return each(
            self._table,
            unit.unit.reads,
            rows,
            lambda row: self._explain_one(pod, cycle, row, code),
        )

    def _explain_one(self, pod: PodInfo, cycle: Activation, row: int, code: int) -> Explanation:
        number = (code - 1) // 2
        rule, bound = self._rules[number]
        if code % 2 == 0:
            return self._explain_error(rule, number, pod, cycle, row)
        if bound is None:
            return Explanation(bool(rule.resolvable), (rule.message,))
        out = bound.scalar(pod, cycle, row)
        roots = list(bound.unit.roots)
        resolvable: Any = rule.resolvable
        if resolvable is None:
            resolvable = bound.one(roots.pop(0), out)
        words: Any = bound.one(roots[0], out) if roots else rule.message
        if isinstance(words, Failure):
            words = rule.message or f"rule {rule.name}: {words.message}"
            return Explanation(resolvable is True, (words,))
        reasons = tuple(words) if rule.listed else (str(words),)
        return Explanation(resolvable is True, reasons)

    def _explain_error(
        self, rule: FilterRule, number: int, pod: PodInfo, cycle: Activation, row: int
    ) -> Explanation:
        assert self._filter is not None
        error = self._filter.answer(number, pod, cycle, row)
        words = error.message if isinstance(error, Failure) else "error"
        return Explanation(False, (f"rule {rule.name}: {words}",))

    # Score.

    def score(self, pod: PodInfo, cycle: Activation, rows: Rows = None) -> RawScores:
        """Return the raw score per row; where the rule failed, 0 or, if it matters, FAILED."""
        assert self._score is not None, "the policy has a score"
        return self._score.raw(pod, cycle, rows)

    def row_score(self, cycle: Activation) -> RowRule | None:
        """Return the score as a function of one row; None if there is none."""
        return None if self._score is None else self._score.row_rule(cycle)

    def score_failure(
        self, pod: PodInfo, cycle: Activation, scores: RawScores, rows: npt.NDArray[np.intp]
    ) -> str | None:
        """Return why raw scores of the feasible rows end the attempt; None if they do not."""
        assert self._score is not None, "the policy has a score"
        return self._score.failure(pod, cycle, scores, rows)

    def normalize(
        self,
        scores: RawScores,
        pod: PodInfo | None = None,
        cycle: Activation = _NO_CYCLE,
        rows: Rows = None,
    ) -> Scores:
        """Return the scores of the feasible rows (None: all) within 0..100; failed ones are 0.

        What is returned may be read-only. May raise RuleError.
        """
        assert self._score is not None, "the policy has a score"
        return self._score.normalize(scores, pod, cycle, rows)


def bind(policy: CompiledPolicy, nodes: NodeTable, pods: PodTable | None = None) -> BoundPolicy:
    """Return a policy over a cluster's tables; opens the columns that its rules read.

    Without ``pods`` there is no preemption.
    """
    return BoundPolicy(policy.sections, nodes, pods)
