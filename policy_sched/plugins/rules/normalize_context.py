"""What a normalize expression sees: the cycle, a node's raw score, and statistics over them all."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Final

import numpy as np

from policy_sched.language.runtime import Activation, RawScores

_OF_THE_CYCLE: Final = tuple(one.name for one in fields(Activation))


@dataclass(frozen=True, slots=True)
class Scored(Activation):
    """A cycle with the least, the greatest, the total, the average and the number of raw scores.

    ``score``: the raw scores, one for each node under evaluation. The numbers are doubles where
    the raw scores are.
    """

    min: float = 0
    max: float = 0
    sum: float = 0
    mean: float = 0.0
    count: int = 0
    score: RawScores = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def scores(self) -> Scored:
        """The statistics, by the name that an expression has for them."""
        return self

    @classmethod
    def of(cls, scores: RawScores, cycle: Activation) -> Scored:
        """Return what is seen of raw scores in a cycle."""
        known = {name: getattr(cycle, name) for name in _OF_THE_CYCLE}
        if not len(scores):
            return cls(**known, score=scores)
        values = scores.tolist()
        total = math.fsum(values) if scores.dtype == np.float64 else sum(values)
        count = len(values)
        return cls(
            **known,
            min=min(values),
            max=max(values),
            sum=total,
            mean=total / count,
            count=count,
            score=scores,
        )
