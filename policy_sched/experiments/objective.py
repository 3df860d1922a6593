"""The objective of a search: an expression of the rule language over the measures of a run."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import Diagnostic, PolicyError
from policy_sched.language import compile_expression
from policy_sched.language.check import check_beside, diagnostic
from policy_sched.language.diagnostics import PolicySource, Problem, Text
from policy_sched.language.lower import Refusal
from policy_sched.language.runtime import Activation
from policy_sched.language.values import one_evaluation, types
from policy_sched.model import Pod, PodInfo
from policy_sched.profiles.models import WRONG_TYPE

FILE: Final = "--objective"
_NAME: Final = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|(?<![\w.])([A-Za-z_]\w*)""")


class Objective:
    """An expression over measures, which are doubles; greater values are better.

    Raises PolicyError with what is wrong with the expression.
    """

    def __init__(self, text: str, measures: Sequence[str]) -> None:
        self.text = text
        self._shifts: list[tuple[int, int]] = []
        self._measures = tuple(measures)
        self._rule = self._with_params(text)
        self._evaluated(dict.fromkeys(measures, 1.0))

    def __call__(self, values: Mapping[str, float | None]) -> float | None:
        """Return the value for a run's measures; None if one of them, or it, has none."""
        given = {name: values.get(name) for name in self._measures}
        known = {name: value for name, value in given.items() if value is not None}
        if len(known) < len(given) and any(given[n] is None for n in self._names(self.text)):
            return None
        return self._evaluated({name: known.get(name, 0.0) for name in self._measures})

    def _names(self, text: str) -> set[str]:
        return {found[2] for found in _NAME.finditer(text) if found[2] in self._measures}

    def _with_params(self, text: str) -> str:
        """Return the expression with params.NAME for the name of a measure."""

        def put_in(found: re.Match[str]) -> str:
            if found[2] is None or found[2] not in self._measures:
                return found[0]
            self._shifts.append((found.start(), len("params.")))
            return f"params.{found[2]}"

        return _NAME.sub(put_in, text)

    def _evaluated(self, values: Mapping[str, float]) -> float | None:
        source = PolicySource("", dict(values))
        policy, problems = check_beside(Text(self._rule, FILE), "any", source)
        if policy is None:
            raise PolicyError(self._as_written(one) for one in problems)
        core = policy.match_conditions[0].core
        if core.type not in (types.DOUBLE, types.INT):
            message = f"an objective is a number, and this is {core.type}"
            measures = ", ".join(self._measures)
            raise PolicyError([self._diagnostic(WRONG_TYPE, message, f"measures: {measures}")])
        try:
            with one_evaluation():
                expression = compile_expression(core, policy.params, policy.params_type)
                bound = expression.bind(NodeTable())
                value, error = bound.scalar(PodInfo.of(Pod()), Activation(), 0)
        except Refusal as refusal:
            span = refusal.span
            problem = Problem(span.start, span.end, refusal.code, refusal.message, refusal.hint)
            found = diagnostic(problem, policy.match_conditions[0].text)
            raise PolicyError([self._as_written(found)]) from None
        return None if error or not math.isfinite(value) else float(value)

    def _diagnostic(self, code: str, message: str, hint: str) -> Diagnostic:
        width = len(self.text)
        return Diagnostic(FILE, 1, 1, code, message, hint, width=width, source_line=self.text)

    def _as_written(self, one: Diagnostic) -> Diagnostic:
        """Return a problem with its place in the text that was given."""
        column, before = one.column, 0
        for start, length in self._shifts:
            if start + before < one.column - 1:
                column -= length
                before += length
        hint = one.hint.replace("params.", "") or f"measures: {', '.join(self._measures)}"
        return Diagnostic(
            FILE,
            one.line,
            max(1, column),
            one.code,
            one.message.replace("params.", ""),
            hint,
            severity=one.severity,
            width=one.width,
            source_line=self.text,
        )
