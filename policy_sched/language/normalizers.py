"""Normalisers: raw scores of the feasible nodes to 0..100, exactly as kube-scheduler's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.int64]

MAX_SCORE: Final = 100
#: Stands for the score of a node whose score rule failed, until normalisation makes it 0.
FAILED: Final = -(2**63)


def by_max(scores: Scores) -> Scores:
    """Return 100 * s / max, as kube's DefaultNormalizeScore; all 0 stay 0."""
    top = int(scores.max(initial=0))
    return scores if top == 0 else scores * MAX_SCORE // top


def by_max_reversed(scores: Scores) -> Scores:
    """Return 100 - 100 * s / max, as kube's DefaultNormalizeScore; all 0 become 100."""
    top = int(scores.max(initial=0))
    return np.full_like(scores, MAX_SCORE) if top == 0 else MAX_SCORE - scores * MAX_SCORE // top


def by_span(scores: Scores) -> Scores:
    """Return int(100 * (s - min) / (max - min)), as kube's InterPodAffinity; 0 if all are equal."""
    if not len(scores):
        return scores
    least, span = int(scores.min()), int(scores.max()) - int(scores.min())
    if span == 0:
        return np.zeros_like(scores)
    result: Scores = (100.0 * ((scores - least) / span)).astype(np.int64)
    return result


def by_span_reversed(scores: Scores) -> Scores:
    """Return 100 less `by_span`."""
    return MAX_SCORE - by_span(scores)


NORMALIZERS: Final[dict[str, Callable[[Scores], Scores]]] = {
    "Max": by_max,
    "MaxReverse": by_max_reversed,
    "MinMax": by_span,
    "MinMaxReverse": by_span_reversed,
}
#: Those that are only defined for scores that are not negative.
NOT_NEGATIVE: Final = frozenset({"Max", "MaxReverse"})


def normalized(function: Callable[[Scores], Any], scores: Scores) -> Scores:
    """Apply a normaliser to the scores that have not failed; failed ones become 0."""
    if len(scores) and int(scores.min()) != FAILED:
        whole: Scores = function(scores)
        return whole
    failed = scores == FAILED
    result = np.zeros_like(scores)
    good = ~failed
    result[good] = function(scores[good])
    return result
