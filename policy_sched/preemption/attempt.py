"""PreemptionAttempt: what a search for victims works with, and what it finds on a set of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.cache import Cache
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.nominations import Nominations, Promised
from policy_sched.framework.status import Code, Status
from policy_sched.framework.trial import Trial
from policy_sched.model.pod_info import PodInfo
from policy_sched.preemption.rules import Candidates

NO_VICTIMS: Final = Status(
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("No preemption victims found for incoming pod",)
)


@dataclass(frozen=True, slots=True)
class PreemptionAttempt:
    """A pod that fits nowhere, and how to ask about it.

    ``state`` is what the failed attempt's PreFilter plugins left; it is not changed. ``rivals``:
    nominated pods that come before the pod, by row.
    """

    pod: PodInfo
    state: CycleState
    trial: Trial
    cache: Cache
    nominations: Nominations
    rivals: Promised


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that may be evicted from each of some nodes.

    ``rows``: rows of the node table, shape (m,). ``block``: rows of the pod table, shape (depth,
    m), in the order in which they are spared, -1 below the last. ``violating``: how many of each
    column break a disruption budget; these come first. shape (m,).
    """

    rows: NDArray[np.intp]
    block: NDArray[np.intp]
    violating: NDArray[np.int64]

    def at(self, places: NDArray[np.intp]) -> Victims:
        """Return the victims on the nodes at some places."""
        return Victims(self.rows[places], self.block[:, places], self.violating[places])


@dataclass(frozen=True, slots=True)
class Found:
    """The candidates among some rows, in the rows' order, and why others are none.

    ``rejections`` may be empty where there are candidates: nobody asks for them then.
    """

    candidates: Candidates
    rejections: dict[int, Status]


def chosen(
    attempt: PreemptionAttempt,
    victims: Victims,
    fits: NDArray[np.bool_],
    gone: NDArray[np.bool_],
) -> Found:
    """Return what a dry run found.

    ``fits``: the pod fits without all victims, shape (m,). ``gone``: victims that could not be
    spared, shape (depth, m). Where all were spared the filters contradicted themselves.
    """
    some = gone.any(axis=0)
    block = np.where(gone, victims.block, -1)
    violations = victims.violating
    if violations.any():
        line = np.arange(block.shape[0])[:, np.newaxis]
        violations = (gone & (line < violations)).sum(axis=0)
    candidates = Candidates(victims.rows, block, violations)
    if not (fits & some).all():
        candidates = candidates.at(np.flatnonzero(fits & some))
    names = attempt.cache.nodes.names
    wrong = victims.rows[fits & ~some].tolist()
    texts = [f'expected at least one victim pod on node "{names[row]}"' for row in wrong]
    errors = [Status(Code.ERROR, (text,)) for text in texts]
    return Found(candidates, dict(zip(wrong, errors, strict=True)))
