"""Functions of one row, generated for the filters and scores of a pipeline that run together.

Theory of operation. A rule that reads only the pod and the row exists as a function of both
(`RowRule`). For each set of plugins that take part, one module is generated: ``passes`` calls the
rules of all filters until one rejects the row, ``scores`` those of all score plugins. Neither
handles errors: where a rule fails, the Evaluator calls the plugins one by one, which return why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from policy_sched.framework import RowRule
from policy_sched.framework.runtime import Hook, Runner
from policy_sched.model import PodInfo

Passes: TypeAlias = Callable[[PodInfo, int], bool]
"""Whether every filter accepts a row; False also where one fails."""
RowScores: TypeAlias = Callable[[PodInfo, int], tuple[int, ...] | None]
"""The raw scores of a row, one per score plugin; None where one fails."""


class RowFunctions(msgspec.Struct, frozen=True):
    """The functions of one set of plugins.

    ``metered``: rules count their steps, and one evaluation has a limit for all rows together.
    """

    passes: Passes
    scores: RowScores
    metered: bool


class RowFunctionCache:
    """The generated functions of one pipeline, by filters and score plugins that take part."""

    def __init__(self, runner: Runner) -> None:
        signatures = runner.pipeline.signatures
        self._filters = {name: one.row_filter for name, one in signatures.items()}
        self._scores = {name: one.row_score for name, one in signatures.items()}
        self._made: dict[tuple[tuple[Hook, ...], tuple[Hook, ...]], RowFunctions | None] = {}

    def of(self, filters: Sequence[Hook], scores: Sequence[Hook]) -> RowFunctions | None:
        """Return the functions of plugins that read the pods of a node.

        None if one of them has no function of a row.
        """
        key = tuple(filters), tuple(scores)
        if key not in self._made:
            self._made[key] = self._generate(*key)
        return self._made[key]

    def _generate(self, filters: tuple[Hook, ...], scores: tuple[Hook, ...]) -> RowFunctions | None:
        filtering = [self._filters.get(hook.plugin) for hook in filters]
        scoring = [self._scores.get(hook.plugin) for hook in scores]
        rules = [rule for rule in (*filtering, *scoring) if rule is not None]
        if len(rules) < len(filters) + len(scores):
            return None
        lines = [*_passes(rules[: len(filters)]), "def scores(pod, row):"]
        values = []
        for number, rule in enumerate(rules[len(filters) :], start=len(filters)):
            lines += _call(number, rule, "None")
            lines.append(f"    score_{number} = {rule.value}")
            values.append(f"score_{number}, ")
        lines.append(f"    return ({''.join(values)})")
        namespace = _defined(lines, rules)
        metered = any(rule.metered for rule in rules)
        return RowFunctions(namespace["passes"], namespace["scores"], metered)


def passes_of(rules: Sequence[RowRule]) -> Passes:
    """Return the function that calls filters until one rejects the row."""
    passes: Passes = _defined(_passes(rules), rules)["passes"]
    return passes


def _defined(lines: Sequence[str], rules: Sequence[RowRule]) -> dict[str, Any]:
    """Return what lines define that call the rules by number."""
    namespace: dict[str, Any] = {}
    for number, rule in enumerate(rules):
        namespace |= {f"rule_{number}": rule.function, f"cycle_{number}": rule.cycle}
    text = "\n".join(lines)
    exec(compile(text, "<row functions>", "exec"), namespace)  # noqa: S102  # our own text
    return namespace


def _passes(rules: Sequence[RowRule]) -> list[str]:
    lines = ["def passes(pod, row):"]
    for number, rule in enumerate(rules):
        lines += _call(number, rule, "False")
    return [*lines, "    return True"]


def _call(number: int, rule: RowRule, otherwise: str) -> list[str]:
    """Return the lines that call a rule, and return ``otherwise`` where it does not hold."""
    lines = [f"    out = rule_{number}(pod, cycle_{number}, row)"]
    if rule.holds != ALWAYS:
        lines += [f"    if not ({rule.holds}):", f"        return {otherwise}"]
    return lines


ALWAYS: Final = "True"
"""The test of a rule that cannot fail."""
