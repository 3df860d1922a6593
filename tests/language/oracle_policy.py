"""The oracle's policies: verdicts and scores of a checked policy for one pod and one node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from policy_sched.language.check.definitions import Checked
from policy_sched.language.check.policy import CheckedPolicy
from policy_sched.language.diagnostics import Rule
from policy_sched.language.syntax import ast

from .oracle import Lazy, Oracle
from .oracle_values import OracleError, int_of_double, truncated_quotient


class AbortError(Exception):
    """A rule with ``onError: Abort`` failed."""


@dataclass(frozen=True, slots=True)
class PolicyOracle:
    """A policy over the names of one pod and one node; variables are read lazily."""

    policy: CheckedPolicy
    names: dict[str, object]

    def value(self, tree: ast.Core) -> Any:
        """Return the value of an expression of the policy."""
        names: dict[str, object] = {**self.names, "params": dict(self.policy.params)}
        oracle = Oracle(names, dict(self.policy.functions))
        for name, checked in self.policy.variables:
            names[f"variables.{name}"] = Lazy(partial(oracle.value, checked.core))
        return oracle.value(tree)

    def matches(self, conditions: Iterable[Any]) -> bool:
        """Tell whether every match condition holds."""
        return all(self.value(c.core) for c in conditions)

    def verdict(self) -> int:
        """Return 0 for a pass, 2i+1 where rule i refuses, 2i+2 where it fails and rejects."""
        for number, rule in enumerate(self.policy.filter):
            code = self._code(rule)
            if code:
                return 2 * number + code
        return 0

    def _code(self, rule: Rule[Checked]) -> int:
        try:
            return 0 if self.value(rule.expression.core) else 1
        except OracleError as error:
            if rule.on_error == "Abort":
                raise AbortError from error
            return 0 if rule.on_error == "Allow" else 2

    def score(self) -> int | None:
        """Return the raw score; None for an error that ``onError: Zero`` takes."""
        rule = self.policy.score
        assert rule is not None
        try:
            value = self.value(rule.expression.core)
            return int_of_double(value) if isinstance(value, float) else int(value)
        except OracleError as error:
            if rule.on_error == "Abort":
                raise AbortError from error
            return None


def normalized(kind: str, scores: Sequence[int | None]) -> list[int]:
    """Apply a normaliser to raw scores; failed ones become 0 and count for nothing."""
    known = [s for s in scores if s is not None]
    if not known:
        return [0 for _ in scores]
    low, high = min(known), max(known)

    def one(score: int) -> int:
        match kind:
            case "None":
                return score
            case "Max":
                return truncated_quotient(score * 100, high) if high else score
            case "MaxReverse":
                return 100 - truncated_quotient(score * 100, high) if high else 100
        share = int(100.0 * (float(score - low) / float(high - low))) if high != low else 0
        return share if kind == "MinMax" else 100 - share

    return [0 if s is None else one(s) for s in scores]
