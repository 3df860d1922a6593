"""The dry run on many nodes at once, where every filter looks at nothing but its own node.

Theory of operation: all possible victims are removed from all nodes, and the filters run once
which nodes would do. Then, line by line, the next victim of every such node is put back, the
filters are asked, and where the pod no longer fits it goes for good. A later, smaller pod can be
spared after a bigger one was not, so this is a sweep and no search for a prefix. On nodes that
are promised to other pods the filters run twice, the second time with those pods added.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.overlay import WhatIfGuests, WhatIfRows
from policy_sched.framework import Status
from policy_sched.framework.evaluate import rejections_with_nominated_pods
from policy_sched.preemption.attempt import DryRunResult, PreemptionAttempt, Victims


def search_all(attempt: PreemptionAttempt, victims: Victims) -> DryRunResult:
    """Return what becomes of the pod on each node; why it does not fit is not asked."""
    gone = np.zeros(victims.block.shape, np.bool_)
    with WhatIfRows(attempt.cache, victims.rows, victims.block) as what_if:
        what_if.remove_all()
        asking = _Asking(attempt, what_if)
        fits = asking.fits(None)
        open_places = np.flatnonzero(fits)
        for step in range(victims.block.shape[0] if open_places.size else 0):
            places = open_places[victims.block[step, open_places] >= 0]
            if not places.size:
                break
            some = None if places.size == victims.rows.size else places
            what_if.put_back(step, some)
            lost = places[~asking.fits(some, moved=True)]
            if lost.size:
                what_if.remove(step, lost)
                gone[step, lost] = True
    return DryRunResult(fits, gone, {})


def why_not(attempt: PreemptionAttempt, victims: Victims) -> dict[int, Status]:
    """Return by row why the pod does not even fit without the victims, where it does not."""
    pod, state, filter_dry_run = attempt.pod, attempt.state, attempt.filter_dry_run
    rows = victims.rows
    with WhatIfRows(attempt.cache, rows, victims.block) as what_if:
        what_if.remove_all()
        promised = attempt.nominations.nominated_pods_on(pod, rows.tolist())
        found = rejections_with_nominated_pods(attempt.cache, filter_dry_run, state, pod, promised)
        rest = rows[~np.isin(rows, list(found))] if found else rows
        found |= filter_dry_run.rejections(state, pod, rest)
    return {row: status for row, (_, status) in found.items()}


class _Asking:
    """The filters, asked about nodes from which pods went, with and without promised pods."""

    def __init__(self, attempt: PreemptionAttempt, what_if: WhatIfRows) -> None:
        self._attempt = attempt
        self._what_if = what_if
        promised = attempt.nominations.nominated_pods_on(attempt.pod, what_if.rows.tolist())
        self._guests = WhatIfGuests(attempt.cache, promised) if promised else None
        if self._guests is not None:
            self._shared = np.array([row in promised for row in what_if.rows.tolist()])

    def fits(self, places: NDArray[np.intp] | None, *, moved: bool = False) -> NDArray[np.bool_]:
        """Return whether the pod fits at some places, or at all; see `FilterDryRun.fits`."""
        pod, state, filter_dry_run = (
            self._attempt.pod,
            self._attempt.state,
            self._attempt.filter_dry_run,
        )
        rows = self._what_if.rows if places is None else self._what_if.rows[places]
        whole = places is None and self._what_if.whole
        found = filter_dry_run.fits(state, pod, rows, whole=whole, moved=moved)
        if self._guests is None:
            return found
        again = np.flatnonzero(found & (self._shared if places is None else self._shared[places]))
        if again.size:
            with self._guests:
                found[again] = filter_dry_run.fits(state, pod, rows[again], moved=True)
        return found
