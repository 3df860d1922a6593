"""What a normalize expression sees: a node's raw score, and statistics over all feasible nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stats:
    """The least, the greatest, the total, the average and the number of raw scores."""

    min: int
    max: int
    sum: int
    mean: float
    count: int
    score: Scores

    @property
    def scores(self) -> Stats:
        """The statistics, by the name that an expression has for them."""
        return self


def by_expression(scores: Scores) -> Stats:
    """Return the statistics of raw scores."""
    if not len(scores):
        return Stats(0, 0, 0, 0.0, 0, scores)
    values = scores.tolist()
    total = sum(values)
    return Stats(min(values), max(values), total, total / len(values), len(values), scores)
