"""Normalised scores as terms: what a normaliser makes of a score beside those of other nodes.

What is known of all scores is that one of them is this node's, so that what is proven holds for
any number of nodes. Examples are clusters with several.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import z3

from policy_sched.language.runtime import MAX_SCORE, SURE_SCORE
from policy_sched.prove.terms import (
    Double,
    Term,
    Terms,
    conjunction,
    disjunction,
    equal,
    implies,
    ite,
    reals,
)

_NOTE = "the scores of other nodes"


@dataclass(frozen=True, eq=False, slots=True)
class Scores:
    """The raw scores of all feasible nodes: ints, or doubles."""

    made: Terms
    least: Any
    most: Any
    total: Any
    count: Term
    wrapped: Term
    """The share of a score of which a hundred times as much is no int64."""

    def field(self, name: str) -> Any:
        """Return a field of `scores`; None where it has no term."""
        known = {"min": self.least, "max": self.most, "sum": self.total, "count": self.count}
        return known.get(name)

    def normalized(self, normalizer: str, score: Any) -> Any:
        """Return what one of kube-scheduler's normalisers makes of a score."""
        if normalizer == "None":
            return score
        made, low = self.made, self.least if normalizer.startswith("MinMax") else 0
        doubles = isinstance(score, Double)
        if doubles:
            low = low if isinstance(low, Double) else made.double(0.0)
            part, whole = made.subtract(score, low), made.subtract(self.most, low)
        elif normalizer.startswith("MinMax"):
            part, whole = made.of_int(score - low), made.of_int(self.most - low)
        else:
            share = ite(equal(self.most, 0), score, made.divided(score * MAX_SCORE, self.most))
            normalized = ite(self.most <= SURE_SCORE, share, self.wrapped)
            return self._turned(normalizer, normalized)
        share = made.multiply(made.double(float(MAX_SCORE)), made.divide(part, whole))
        if doubles:
            share = made.add(share, made.double(0.5))
        none = equal(*reals(whole.value, Fraction(0)))
        normalized = ite(none, 0, made.truncated(share))
        made.hint(conjunction(normalized >= 0, normalized <= MAX_SCORE))
        return self._turned(normalizer, normalized)

    @staticmethod
    def _turned(normalizer: str, normalized: Any) -> Any:
        return MAX_SCORE - normalized if normalizer.endswith("Reverse") else normalized


def _number(score: Any) -> Any:
    return score.value if isinstance(score, Double) else score


def scores_beside(made: Terms, score: Any) -> Scores:
    """Return the scores of all nodes, of which ``score`` is one and nothing else is known."""

    def number() -> Any:
        if not isinstance(score, Double):
            return made.fresh(z3.IntSort(), _NOTE)
        return Double(made.fresh(z3.RealSort(), _NOTE), True, score.most, score.whole)

    least, most, total = number(), number(), number()
    count = made.fresh(z3.IntSort(), _NOTE)
    a, b, s, t = (_number(n) for n in (least, most, score, total))
    if isinstance(score, Double):
        a, s = reals(a, s)
    else:
        made.fact(a >= -(2**63), b < 2**63)
    made.fact(count >= 1, a <= s, s <= b)
    made.fact(implies(count == 1, conjunction(a == b, t == s)))
    made.fact(implies(count == 2, disjunction(a == s, b == s)))
    wrapped = made.fresh(z3.IntSort(), "a score that wraps around")
    return Scores(made, least, most, total, count, wrapped)
