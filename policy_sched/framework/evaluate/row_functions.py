"""Functions of a few rows, generated for the filters and scores of a pipeline that run together.

Theory of operation. A rule that reads only the pod and the row exists as a function of both
(`RowRule`). For each set of plugins that take part, one module is generated: ``rejections`` calls
the rules of all filters, row by row, until one rejects the row, ``scores`` those of all score
plugins. Where a rule fails or only the filter knows its code, the plugins are called one by one,
which return why. A set that is in use for long is fused (`Fusable.fused_rows`): rules that plugins
have recorded become one function, ``update``, in which each column of a row is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from policy_sched.framework import Codes, RowRule
from policy_sched.framework.runtime import Hook, Runner
from policy_sched.model import PodInfo

Numbered: TypeAlias = tuple[tuple[int, Hook], ...]
Rejection: TypeAlias = tuple[int, int] | None
"""Which filter rejects a row, and its code there (NO_CODE: only it can tell); None if none does."""
FirstRejection: TypeAlias = Callable[[PodInfo, int], Rejection]
"""The first rejection of a row."""
Rejections: TypeAlias = Callable[[PodInfo, list[int], Codes], Sequence[Rejection] | None]
"""A rejection for each row; none if all rows were feasible and are; None where a rule fails.

The third argument holds 0 for each row that was feasible.
"""
RowScores: TypeAlias = Callable[[PodInfo, Sequence[int]], Sequence[tuple[int, ...]] | None]
"""The raw scores of each row, one per score plugin; None where one fails."""
Update: TypeAlias = Callable[
    [PodInfo, list[int], Codes],
    tuple[Sequence[Rejection] | None, Sequence[tuple[int, ...]] | None],
]
"""Rejections, and the raw scores of the rows that are not rejected."""
NO_CODE: Final = -1
ALWAYS: Final = "True"
"""The test of a rule that cannot fail."""


#: Plugins are fused, over all rows or a few, once they would have run together so often.
FUSE_AFTER: Final = 50


class RowFunctions:
    """The functions of one set of plugins.

    ``scores`` is None where a score plugin has no function of a row. ``update`` does both for rows
    that may have changed: it returns the scores of the rows that are not rejected, or None where
    ``scores`` may have them. ``fuse`` returns all three; None where nothing can be fused.
    """

    __slots__ = ("_fuse", "_waits", "rejections", "scores", "update")

    def __init__(
        self,
        rejections: Rejections,
        scores: RowScores | None,
        fuse: Callable[[], tuple[Update, Rejections, RowScores | None]] | None,
        fuse_after: int,
    ) -> None:
        self.rejections = rejections
        self.scores = scores
        self.update: Update = self._update
        self._fuse = fuse
        self._waits = fuse_after

    def _update(
        self, pod: PodInfo, rows: list[int], first: Codes
    ) -> tuple[Sequence[Rejection] | None, Sequence[tuple[int, ...]] | None]:
        """Call the rules one by one until they are fused."""
        if self._waits or self._fuse is None:
            self._waits -= 1
            return self.rejections(pod, rows, first), None
        self.update, self.rejections, self.scores = self._fuse()
        return self.update(pod, rows, first)


class RowFunctionCache:
    """The generated functions of one pipeline, by filters and score plugins that take part."""

    def __init__(self, runner: Runner, fuse_after: int = FUSE_AFTER) -> None:
        self._fuse_after = fuse_after
        signatures = self._signatures = runner.pipeline.signatures
        self._filters = {name: one.row_filter for name, one in signatures.items()}
        self._scores = {name: one.row_score for name, one in signatures.items()}
        self._made: dict[tuple[Numbered, tuple[Hook, ...] | None], RowFunctions | None] = {}

    def of(
        self, filters: Sequence[tuple[int, Hook]], scores: Sequence[Hook] | None
    ) -> RowFunctions | None:
        """Return the functions of numbered filters, and of score plugins if there are any to run.

        None if a filter has no function of a row.
        """
        key = tuple(filters), None if scores is None else tuple(scores)
        if key not in self._made:
            self._made[key] = self._generate(*key)
        return self._made[key]

    def _generate(self, filters: Numbered, scores: tuple[Hook, ...] | None) -> RowFunctions | None:
        filtering = [
            (number, rule)
            for number, hook in filters
            if (rule := self._filters.get(hook.plugin)) is not None
        ]
        if len(filtering) < len(filters):
            return None
        scoring = [r for hook in scores or () if (r := self._scores.get(hook.plugin)) is not None]
        given: list[RowRule] = []
        filters_body = ["still = still and not first[row]"]
        for number, rule in filtering:
            reject = ["still = False", f"found.append(({number}, {rule.value or NO_CODE}))"]
            filters_body += _call(rule, given, [*reject, "continue"])
        filters_body.append("found.append(None)")
        scores_body, values = list[str](), list[str]()
        for rule in scoring:
            scores_body += _call(rule, given, ["return None"])
            scores_body.append(f"score_{len(given)} = {rule.value}")
            values.append(f"score_{len(given)}, ")
        scores_body.append(f"found.append(({''.join(values)}))")
        rules = [rule for _, rule in filtering]
        returned = "() if still else found"
        text = _function("rejections(pod, rows, first)", rules, filters_body, returned)
        text += _function("scores(pod, rows)", scoring, scores_body, "found")
        namespace = _defined(text, given)
        rated = scores is not None and len(scoring) == len(scores)
        one_by_one = namespace["rejections"], namespace["scores"] if rated else None
        plugins = [hook.plugin for hook in (*(hook for _, hook in filters), *(scores or ()))]
        recorded = any(rule.recording is not None for rule in given)
        fusable = [one for p in plugins if (one := self._signatures[p].fusable) is not None]
        fuse = None
        if recorded and fusable:
            fuse = partial(fusable[0].fused_rows, filtering, scoring if rated else None)
        return RowFunctions(*one_by_one, fuse, self._fuse_after)


def first_rejection_of(rules: Sequence[tuple[int, RowRule]]) -> FirstRejection:
    """Return the function that calls numbered filters until one rejects the row."""
    lines, given = ["def rejection(pod, row):"], list[RowRule]()
    for number, rule in rules:
        reject = [f"return {number}, {rule.value or NO_CODE}"]
        lines += [f"  {line}" for line in _call(rule, given, reject)]
    text = "\n".join([*lines, "  return None"])
    rejection: FirstRejection = _defined(text, given)["rejection"]
    return rejection


def _defined(text: str, rules: Sequence[RowRule]) -> dict[str, Any]:
    """Return what a text defines that calls the rules by their places."""
    namespace: dict[str, Any] = {}
    for place, rule in enumerate(rules):
        namespace |= {f"rule_{place}": rule.function, f"cycle_{place}": rule.cycle}
        if rule.limited is not None:
            namespace["limited"] = rule.limited
    exec(compile(text, "<row functions>", "exec"), namespace)  # noqa: S102  # our own text
    return namespace


def _function(head: str, rules: Sequence[RowRule], body: Sequence[str], found: str) -> str:
    """Return a function over rows, which share what one evaluation may take."""
    metered = any(rule.metered for rule in rules)
    lines = [
        f"def {head}:",
        "  still, found = True, []",
        "  try:",
        f"    {'with limited()' if metered else 'if True'}:",
        "      for row in rows:",
        *(f"        {line}" for line in body),
        "  except Exception:",
        "    return None",
        f"  return {found}",
    ]
    return "\n".join(lines) + "\n"


def _call(rule: RowRule, given: list[RowRule], otherwise: Sequence[str]) -> list[str]:
    """Return the lines that call the next rule, and do ``otherwise`` if it does not hold."""
    place = len(given)
    given.append(rule)
    lines = [f"out = rule_{place}(pod, cycle_{place}, row)"]
    if rule.holds != ALWAYS:
        lines += [f"if not ({rule.holds}):", *(f"    {line}" for line in otherwise)]
    return lines
