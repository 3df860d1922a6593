"""In which order victims are spared: those first that break a disruption budget."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from policy_sched.preemption.attempt import Victims
from policy_sched.preemption.budgets import Budgets, running_count


def in_order_of_sparing(
    rows: NDArray[np.intp],
    block: NDArray[np.intp],
    evictable: NDArray[np.bool_],
    budgets: Budgets,
) -> Victims:
    """Leave out pods that may not be evicted, and order those first that violate a budget.

    ``block``: the pods on the rows by importance, shape (depth, m). ``evictable``: pods that may be
    evicted.
    """
    breaking = budgets.violating(block, evictable)
    if breaking is None and evictable.all():
        return Victims(rows, block, np.zeros(rows.size, np.int64))
    if breaking is None:
        breaking = np.zeros(block.shape, np.bool_)
    violating, evicted = breaking.sum(axis=0), evictable.sum(axis=0)
    line = np.where(
        breaking,
        running_count(breaking) - 1,
        running_count(evictable ^ breaking) + (violating - 1),
    )
    if not evictable.all():
        stays = running_count(~evictable) + (evicted - 1)
        line, block = np.where(evictable, line, stays), np.where(evictable, block, -1)
    spared = np.empty(block.shape, np.intp)
    spared.reshape(-1)[line * rows.size + np.arange(rows.size)] = block
    return Victims(rows, spared[: int(evicted.max(initial=0))], violating)
