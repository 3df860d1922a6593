"""Variables of one evaluation that belong to the scheduling attempt, and normalisers of raw scores.

Normalisers of ints are kube-scheduler's, which truncate. Doubles are normalised as doubles and
rounded once, to the nearest int.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from policy_sched.language import values
from policy_sched.language.runtime.vector import quotient_rows
from policy_sched.model import NO_GROUP, GroupCounts, PodInfo, QueuedPod

Scores = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
RawScores = npt.NDArray[Any]
"""int64, or float64 where the rule is a double."""

MAX_SCORE: Final = 100
#: A hundred times as much fits int64.
SURE_SCORE: Final = values.INT_MAX // MAX_SCORE
#: The raw score of a node whose score rule failed; normalisation makes it 0. Of doubles: NaN.
FAILED: Final = -(2**63)


def by_max(scores: Scores) -> Scores:
    """Return 100 * s / max, as kube's DefaultNormalizeScore; all 0 stay 0.

    Above `SURE_SCORE` the product wraps around int64, as upstream's, and may leave 0..100.
    """
    top = int(scores.max(initial=0))
    if top > SURE_SCORE:  # a product may be negative, and Go truncates
        return quotient_rows(scores * MAX_SCORE, top)  # type: ignore[no-any-return]
    return scores if top == 0 else scores * MAX_SCORE // top


def by_max_reversed(scores: Scores) -> Scores:
    """Return 100 less `by_max`, as kube's DefaultNormalizeScore; all 0 become 100."""
    return MAX_SCORE - by_max(scores)


def by_span(scores: Scores) -> Scores:
    """Return int(100 * (s - min) / (max - min)), as kube's InterPodAffinity; 0 if all are equal."""
    if not len(scores):
        return scores
    least = int(np.minimum.reduce(scores))
    span = int(np.maximum.reduce(scores)) - least
    if span == 0:
        return np.zeros_like(scores)
    result: Scores = (100.0 * ((scores - least) / span)).astype(np.int64)
    return result


def by_span_reversed(scores: Scores) -> Scores:
    """Return 100 less `by_span`."""
    return MAX_SCORE - by_span(scores)


def rounded(scores: Doubles) -> Scores:
    """Return doubles from 0 to 100 as the nearest ints; halves are rounded up."""
    return np.floor(scores + 0.5).astype(np.int64)


def _of_max(scores: Doubles) -> Doubles:
    top = float(scores.max(initial=0.0))
    return np.zeros_like(scores) if top == 0 else MAX_SCORE * (scores / top)


def _of_span(scores: Doubles) -> Doubles:
    least, most = float(scores.min(initial=np.inf)), float(scores.max(initial=-np.inf))
    return MAX_SCORE * ((scores - least) / (most - least)) if most > least else 0.0 * scores


NORMALIZERS: Final[dict[str, Callable[[Scores], Scores]]] = {
    "Max": by_max,
    "MaxReverse": by_max_reversed,
    "MinMax": by_span,
    "MinMaxReverse": by_span_reversed,
}
_OF_DOUBLES: Final[dict[str, Callable[[Doubles], Doubles]]] = {
    "Max": _of_max,
    "MaxReverse": lambda scores: MAX_SCORE - _of_max(scores),
    "MinMax": _of_span,
    "MinMaxReverse": lambda scores: MAX_SCORE - _of_span(scores),
}
#: Those that are only defined for scores that are not negative.
NOT_NEGATIVE: Final = frozenset({"Max", "MaxReverse"})


def failures(scores: RawScores) -> npt.NDArray[np.bool_]:
    """Return which nodes the score rule failed for."""
    failed: npt.NDArray[np.bool_] = (
        np.isnan(scores) if scores.dtype == np.float64 else scores == FAILED
    )
    return failed


def normalized(name: str, scores: RawScores) -> Scores:
    """Apply a normaliser to the scores that have not failed; failed ones become 0."""
    if scores.dtype != np.float64 and len(scores) and int(np.minimum.reduce(scores)) != FAILED:
        return NORMALIZERS[name](scores)
    good = ~failures(scores)
    result = np.zeros(len(scores), np.int64)
    if scores.dtype == np.float64:
        result[good] = rounded(_OF_DOUBLES[name](scores[good]))
    else:
        result[good] = NORMALIZERS[name](scores[good])
    return result


class Event(msgspec.Struct, frozen=True):
    """A change in the cluster: its kind of object, what was done, and the object if it is known."""

    kind: str = ""
    action: str = ""
    old_node: values.NodeFacts | None = None
    new_node: values.NodeFacts | None = None
    old_pod: PodInfo | None = None
    new_pod: PodInfo | None = None
    extended_resources: tuple[str, ...] = ()


NOTHING: Final = Event()


Allocate: TypeAlias = Callable[[PodInfo, int], values.AllocationFacts]


def no_allocation(_pod: PodInfo, _row: int) -> values.AllocationFacts:
    """Return no devices: nothing allocates any."""
    return values.NO_ALLOCATION


class Activation(msgspec.Struct, frozen=True):
    """One attempt. ``now`` is in ns since 1970, and the same for every node.

    ``event`` is the event of a ``requeue`` hint, ``placement`` the domain that is scored.
    ``allocation`` returns what a pod's claims would get on a row.
    """

    now: int = 0
    queued: QueuedPod | None = None
    attempt: int = 0
    profile: str = ""
    feasible_nodes: int = 0
    preempting: bool = False
    pod_group: GroupCounts = NO_GROUP
    event: Event = NOTHING
    placement: values.PlacementFacts = values.NOWHERE
    allocation: Allocate = no_allocation
