"""The dry run on many nodes at once, where every filter looks at nothing but its own node.

Theory of operation: all possible victims are taken off all nodes, and the filters are asked once
which nodes would do. Then, line by line, the next victim of every such node is put back, the
filters are asked, and where the pod no longer fits it goes for good. A later, smaller pod can be
spared after a bigger one was not, so this is a sweep and no search for a prefix.
"""

from __future__ import annotations

import numpy as np

from policy_sched.cluster.what_if_rows import WhatIfRows
from policy_sched.preemption.attempt import Found, PreemptionAttempt, Victims, chosen


def search_all(attempt: PreemptionAttempt, victims: Victims) -> Found:
    """Return the candidates among nodes without rivals.

    Why a node is none is said only where no node is one.
    """
    pod, state, trial = attempt.pod, attempt.state, attempt.trial
    rows, block = victims.rows, victims.block
    gone = np.zeros(block.shape, np.bool_)
    if not rows.size:
        return chosen(attempt, victims, np.zeros(0, np.bool_), gone)
    with WhatIfRows(attempt.cache, rows, block) as what_if:
        what_if.remove_all()
        fits = trial.fits(state, pod, rows, whole=what_if.whole)
        open_places = np.flatnonzero(fits)
        if not open_places.size:
            found = trial.rejections(state, pod, rows)
            nothing = chosen(attempt, victims, fits, gone)
            return Found(nothing.candidates, {row: status for row, (_, status) in found.items()})
        for step in range(block.shape[0]):
            places = open_places[block[step, open_places] >= 0]
            if not places.size:
                break
            everywhere = places.size == rows.size
            what_if.put_back(step, None if everywhere else places)
            asked = rows if everywhere else rows[places]
            whole = everywhere and what_if.whole
            stays = trial.fits(state, pod, asked, whole=whole, moved=True)
            lost = places[~stays]
            if lost.size:
                what_if.remove(step, lost)
                gone[step, lost] = True
    return chosen(attempt, victims, fits, gone)
