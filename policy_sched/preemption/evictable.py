"""Rows on which pods of one kind may evict any pod at all, kept up to date row by row.

Most pods that fit nowhere are no more important than the pods that are in their way. What decides
that is a part of what decides a dry run, so pods that differ in other things share it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster import Cache, PodOrder
from policy_sched.cluster.tables import DYNAMIC, PodRows
from policy_sched.language import RuleError
from policy_sched.lru import Lru
from policy_sched.model import PodInfo
from policy_sched.preemption.attempt import PreemptionAttempt
from policy_sched.preemption.rules import PreemptionRules

#: Kinds of pods of which it is kept.
_KINDS: Final = 64


class _Kind:
    """What is known for one kind of pods.

    ``has``: by row, whether a pod may be evicted; None where a rule fails for some pod. ``stale``:
    rows that changed since then, None: all. ``sure``: a row that has one, -1 if none was found.
    """

    __slots__ = ("has", "stale", "sure", "version")

    def __init__(self) -> None:
        self.version = -1
        self.has: NDArray[np.bool_] | None = None
        self.stale: set[int] | None = None
        self.sure = -1


class EvictableRows:
    """The rows with possible victims, by what the choice of victims reads of the preemptor.

    Rows that changed are looked at when a result depends on them: as long as one row is known to
    have a possible victim, and did not change, there is one somewhere.
    """

    def __init__(
        self, cache: Cache, rules: PreemptionRules, order: Callable[[PodInfo], PodOrder]
    ) -> None:
        self._cache = cache
        self._rules = rules
        self._order = order
        self._kinds: Lru[Hashable, _Kind] = Lru(_KINDS)
        # The attempt of the latest question and the journal's version then, with its kind.
        self._asked: tuple[PreemptionAttempt, int, _Kind] | None = None

    def anywhere(self, attempt: PreemptionAttempt) -> bool:
        """Return whether the pod may evict another one on any row; True if that is unknown."""
        kind = self._kind(attempt)
        if kind is None:
            return True
        if kind.sure < 0 or kind.stale is None or kind.sure in kind.stale:
            self._look(kind, attempt.pod)
        return kind.has is None or kind.sure >= 0

    def among(self, attempt: PreemptionAttempt, rows: NDArray[np.intp]) -> bool:
        """Return whether the pod may evict another one on one of the rows; True if unknown."""
        kind = self._kind(attempt)
        if kind is None:
            return True
        if kind.stale is None or kind.sure in kind.stale or not (rows == kind.sure).any():
            self._look(kind, attempt.pod)
        return kind.has is None or bool(kind.has[rows].any())

    def nothing_on(self, attempt: PreemptionAttempt) -> NDArray[np.bool_] | None:
        """Return the rows known to have no such pod; None if there is none of these."""
        kind = self._kind(attempt)
        if kind is None or kind.stale is None or kind.has is None or kind.has.all():
            return None
        none: NDArray[np.bool_] = ~kind.has
        none[list(kind.stale)] = False
        return none

    def _kind(self, attempt: PreemptionAttempt) -> _Kind | None:
        """Return what is known for the pod's kind, with the rows that changed as stale ones."""
        asked, journal = self._asked, self._cache.nodes.journal
        version = journal.version
        if asked is not None and asked[0] is attempt and asked[1] == version:
            return asked[2]
        rules = self._rules
        if rules.key is None or rules.order_reads_pod or attempt.key is None:
            return None
        key = rules.key(attempt.pod)
        kind = self._kinds.get(key)
        if kind is None:
            kind = _Kind()
            self._kinds.put(key, kind)
        if kind.version != version:
            changes = journal.since(kind.version) if kind.version >= 0 else None
            kind.version = version
            if kind.has is not None and changes is not None and not changes.kind & ~DYNAMIC:
                if kind.stale is not None:
                    kind.stale.update(changes.rows)
            else:
                kind.has = np.zeros(self._cache.nodes.n, np.bool_)
                kind.stale = None
                kind.sure = -1
        self._asked = attempt, version, kind
        return kind

    def _look(self, kind: _Kind, pod: PodInfo) -> None:
        """Find out about the stale rows."""
        stale, kind.stale = kind.stale, set()
        if kind.has is None or (stale is not None and not stale):
            return
        order = self._order(pod)
        try:
            if stale is None:
                kind.has = self._evictable(pod, order.every())
            else:
                rows = np.array(sorted(stale), np.intp)
                kind.has[rows] = self._evictable(pod, order.at(rows))
        except RuleError:
            kind.has, kind.sure = None, -1
            return
        best = int(kind.has.argmax()) if kind.has.size else 0
        kind.sure = best if kind.has.size and kind.has[best] else -1

    def _evictable(self, pod: PodInfo, pods: PodRows) -> NDArray[np.bool_]:
        evictable = self._rules.victim(pod, pods) & pods.there
        evictable_rows: NDArray[np.bool_] = np.logical_or.reduce(evictable, axis=0)
        return evictable_rows
