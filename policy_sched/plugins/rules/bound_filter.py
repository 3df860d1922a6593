"""The filter rules of a policy over a view of the nodes: codes, and why rows were rejected."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from policy_sched import thresholds
from policy_sched.cluster.tables import NodeView
from policy_sched.framework import ByRow, RowRule
from policy_sched.language import BoundUnit, FilterRule, Sections
from policy_sched.language.codegen import Marks
from policy_sched.language.runtime import Activation, Runtime
from policy_sched.language.values import Failure, LimitError, one_evaluation
from policy_sched.model import PodInfo
from policy_sched.plugins.rules import equivalence_classes
from policy_sched.plugins.rules.kept_rows import KeptRows

Codes = npt.NDArray[np.int16]
Rows = npt.NDArray[np.intp] | None

#: The code of a row of which the rules together take too much work: an error of the first.
_EXHAUSTED: Final = 2


def filter_codes(
    codes: Codes | None, values: Any, errors: Any, rule: FilterRule, number: int, n: int
) -> Codes | None:
    """Return ``codes`` with what rule ``number`` adds for rows that passed so far."""
    own: Any = None
    if errors is not None and (errors.any() if isinstance(errors, np.ndarray) else errors):
        failed = np.not_equal(errors, 0)
        wrong = 0 if rule.on_error == "Allow" else 2 * number + 2
        own = np.where(failed, wrong, np.where(values, 0, 2 * number + 1))
    elif isinstance(values, np.ndarray) and values.ndim:
        if not values.size or values.item(values.argmin()):  # a quarter of the time of all()
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


class Explanation(msgspec.Struct, frozen=True):
    """Why a node was rejected, and whether removing pods may help."""

    resolvable: bool
    reasons: tuple[str, ...]


def _classes(rule: FilterRule, runtime: Runtime) -> Marks | None:
    """Return what tells rows apart that the rule rejects for different reasons."""
    explain = rule.explain
    return None if explain is None or explain.classes is None else explain.classes.bind(runtime)


class BoundFilter:
    """The filter rules of a policy over the node table or an overlay of it.

    ``rows`` is an intp array of row numbers, or None for all rows [0, nodes.n); results for
    dead rows are undefined.
    """

    def __init__(self, sections: Sections, nodes: NodeView, runtime: Runtime) -> None:
        self.nodes = nodes
        self._unit = None if sections.filter is None else BoundUnit(sections.filter, runtime)
        self._rules = [
            (rule, None if rule.explain is None else BoundUnit(rule.explain, runtime))
            for rule in sections.rules
        ]
        self._classes = [_classes(rule, runtime) for rule in sections.rules]
        self.kept: KeptRows | None = None
        """Codes by row, where pods on the nodes change none."""

    def codes(self, pod: PodInfo, cycle: Activation, rows: Rows = None) -> Codes | None:
        """Return a code per row; None if every row passes.

        0 passes; 2 * i + 1 was rejected by rule i, 2 * i + 2 met an error in rule i.
        """
        bound = self._unit
        if bound is None:
            return None
        if rows is not None and len(rows) <= thresholds.LOOP_ROWS:
            return self._row_by_row(pod, cycle, rows.tolist())
        if self.kept is None:
            return self._fresh(bound, pod, cycle, rows)
        codes = self.kept.of_rows(pod, rows, lambda new: self._fresh(bound, pod, cycle, new))
        return codes if codes.any() else None

    def _fresh(self, bound: BoundUnit, pod: PodInfo, cycle: Activation, rows: Rows) -> Codes | None:
        """Do as `codes`, whatever is kept."""
        n = self.nodes.n if rows is None else len(rows)
        try:
            out = bound.vector(pod, cycle, rows, n)
        except LimitError as error:
            if error.whole:
                raise
            each = range(n) if rows is None else rows.tolist()
            with one_evaluation():
                return np.array(
                    [self._fresh_code(bound, pod, cycle, row) for row in each], np.int16
                )
        return self.codes_of(out, n)

    @property
    def only_value(self) -> int | None:
        """The place of the values of the only rule, among those of the roots, if it cannot fail."""
        roots = () if self._unit is None else self._unit.unit.roots
        return roots[0].value if len(roots) == 1 and roots[0].error is None else None

    def codes_of(self, out: Sequence[Any], n: int) -> Codes | None:
        """Return what `codes` does, of the values of the rules' roots for ``n`` rows."""
        assert self._unit is not None, "there are rules"
        codes: Codes | None = None
        for i, (root, (rule, _)) in enumerate(zip(self._unit.unit.roots, self._rules, strict=True)):
            errors = None if root.error is None else out[root.error]
            codes = filter_codes(codes, out[root.value], errors, rule, i, n)
        return codes

    def flags(self, pod: PodInfo, cycle: Activation) -> npt.NDArray[np.bool_] | bool:
        """Return by row whether all rules pass; a bool is that of all rows."""
        bound = self._unit
        if bound is None:
            return True
        out = bound.vector(pod, cycle, None, self.nodes.n)
        flags: Any = True
        for root, (rule, _) in zip(bound.unit.roots, self._rules, strict=True):
            passed = out[root.value]
            if root.error is not None:
                errors = out[root.error]
                if rule.on_error == "Allow":
                    passed = np.logical_or(passed, np.not_equal(errors, 0))
                else:
                    passed = np.logical_and(passed, np.equal(errors, 0))
            flags = passed if flags is True else np.logical_and(flags, passed)
        return flags if isinstance(flags, np.ndarray) and flags.ndim else bool(flags)

    @property
    def metered(self) -> bool:
        """Whether the rules count their steps."""
        return self._unit is not None and self._unit.unit.program.metered

    def row_rule(self, cycle: Activation) -> RowRule | None:
        """Return the filter as a function of one row; None if there is none."""
        if self._unit is None:
            return None
        return RowRule(
            lambda pod, row: self.code(pod, cycle, row), one_evaluation if self.metered else None
        )

    def by_rule(
        self, pod: PodInfo, cycle: Activation, rows: Rows = None
    ) -> list[tuple[str, Codes | None]]:
        """Return each filter rule's name and its own codes over the rows, as if it were alone."""
        bound = self._unit
        if bound is None:
            return []
        n = self.nodes.n if rows is None else len(rows)
        try:
            out = bound.vector(pod, cycle, rows, n)
        except LimitError:
            codes = self.codes(pod, cycle, rows)
            return [(rule.name, codes) for rule, _ in self._rules]
        by_rule = []
        for i, (root, (rule, _)) in enumerate(zip(bound.unit.roots, self._rules, strict=True)):
            errors = None if root.error is None else out[root.error]
            by_rule.append((rule.name, filter_codes(None, out[root.value], errors, rule, i, n)))
        return by_rule

    def _row_by_row(self, pod: PodInfo, cycle: Activation, rows: Iterable[int]) -> Codes | None:
        """Return what `codes` does, one row after the other."""
        with one_evaluation():
            codes = [self.code(pod, cycle, row) for row in rows]
        if not any(codes):
            return None
        return np.array(codes, dtype=np.int16)

    def code(self, pod: PodInfo, cycle: Activation, row: int) -> int:
        """Return the code of one row, 0 if it passes."""
        bound = self._unit
        if bound is None:
            return 0
        if self.kept is not None:
            return self.kept.of_row(pod, row, lambda: self._fresh_code(bound, pod, cycle, row))
        return self._fresh_code(bound, pod, cycle, row)

    def _fresh_code(self, bound: BoundUnit, pod: PodInfo, cycle: Activation, row: int) -> int:
        """Do as `code`, whatever is kept."""
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
    ) -> ByRow[Explanation]:
        """Return why rows were rejected, given the codes (none is 0) that `codes` gave them."""
        first = codes.item(0)
        if codes.size == 1:
            return ByRow([self.explain_row(pod, cycle, rows.item(0), first)], np.zeros(1, np.intp))
        if (codes == first).all():
            return self._explain_code(pod, cycle, rows, first)
        distinct: list[Explanation] = []
        places = np.zeros(len(rows), np.intp)
        for code in np.unique(codes).tolist():
            own = np.flatnonzero(codes == code)
            explained = self._explain_code(pod, cycle, rows[own], code)
            places[own] = explained.places + len(distinct)
            distinct += explained.distinct
        return ByRow(distinct, places)

    def explain_masked(
        self, pod: PodInfo, cycle: Activation, mask: npt.NDArray[np.bool_], codes: Codes
    ) -> list[tuple[npt.NDArray[np.bool_], Explanation]] | None:
        """Return why the flagged rows were rejected, with the flags of each explanation's rows.

        ``mask``, ``codes``: over all rows of the table. None if the rows of a code are not alike,
        and no few conditions tell them apart.
        """
        explained: list[tuple[npt.NDArray[np.bool_], Explanation]] = []
        highest = int(codes.max(initial=0))
        for code in range(1, highest + 1):
            own = mask if highest == 1 else mask & (codes == code)
            if highest > 1 and not np.count_nonzero(own):
                continue
            number = (code - 1) // 2
            alike: list[npt.NDArray[np.bool_]] | None = [own]
            if code % 2 == 0:
                return None
            if self._rules[number][1] is not None:
                alike = self._alike(pod, cycle, number, own)
            if alike is None:
                return None
            explained += [(a, self.explain_row(pod, cycle, int(a.argmax()), code)) for a in alike]
        return explained

    def _alike(
        self, pod: PodInfo, cycle: Activation, number: int, mask: npt.NDArray[np.bool_]
    ) -> list[npt.NDArray[np.bool_]] | None:
        """Return the flagged rows in groups that no mark of a rule tells apart."""
        classes, n = self._classes[number], self.nodes.n
        if classes is None:
            return None
        try:
            marks = classes(pod, cycle, slice(0, n), n)
        except (LimitError, OverflowError):
            return None  # row by row less may be computed
        return equivalence_classes.masks_of_classes(marks, mask)

    def _explain_code(
        self, pod: PodInfo, cycle: Activation, rows: npt.NDArray[np.intp], code: int
    ) -> ByRow[Explanation]:
        """Return why rows were rejected that all have the same code."""
        number = (code - 1) // 2
        _, bound = self._rules[number]
        if code % 2 and bound is None:
            only = self.explain_row(pod, cycle, int(rows[0]), code)
            return ByRow([only], np.zeros(len(rows), np.intp))
        unit = bound if code % 2 else self._unit
        assert unit is not None, "a filter rejected the rows"
        classes = self._classes[number] if code % 2 else None
        if classes is not None and rows.size >= thresholds.FEW_ROWS:
            n = self.nodes.n
            most = 2 * rows.size > n  # what is read of all rows need not be gathered
            try:
                marks = classes(pod, cycle, slice(0, n) if most else rows, n if most else rows.size)
            except (LimitError, OverflowError):
                pass  # row by row less may be computed
            else:
                return equivalence_classes.of_classes(
                    marks, rows, lambda row: self.explain_row(pod, cycle, row, code), whole=most
                )
        return equivalence_classes.each(
            self.nodes,
            unit.unit.reads,
            rows,
            lambda row: self.explain_row(pod, cycle, row, code),
        )

    def explain_row(self, pod: PodInfo, cycle: Activation, row: int, code: int) -> Explanation:
        """Return why a row was rejected with a code."""
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
            resolvable = bound.value_of(roots.pop(0), out)
        words: Any = bound.value_of(roots[0], out) if roots else rule.message
        if isinstance(words, Failure):
            words = rule.message or f"rule {rule.name}: {words.message}"
            return Explanation(resolvable is True, (words,))
        reasons = tuple(words) if rule.listed else (str(words),)
        return Explanation(resolvable is True, reasons)

    def _explain_error(
        self, rule: FilterRule, number: int, pod: PodInfo, cycle: Activation, row: int
    ) -> Explanation:
        assert self._unit is not None
        error = self._unit.evaluate(number, pod, cycle, row)
        words = error.message if isinstance(error, Failure) else "error"
        return Explanation(False, (f"rule {rule.name}: {words}",))
