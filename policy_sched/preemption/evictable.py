"""Rows on which pods of one kind may evict any pod at all, kept up to date row by row.

Most pods that fit nowhere are no more important than the pods that are in their way. What decides
that is a part of what decides a dry run, so pods that differ in other things share it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster import Cache, PodOrder
from policy_sched.cluster.tables import DYNAMIC
from policy_sched.language import RuleError
from policy_sched.model import PodInfo
from policy_sched.preemption.attempt import PreemptionAttempt
from policy_sched.preemption.rules import PreemptionRules

#: Kinds of pods of which it is kept.
_KINDS: Final = 64


class _Kind:
    """What is known for one kind of pods. ``has`` is None where a rule fails for some pod."""

    __slots__ = ("has", "version")

    def __init__(self) -> None:
        self.version = -1
        self.has: NDArray[np.bool_] | None = None


class EvictableRows:
    """The rows with possible victims, by what the choice of victims reads of the preemptor."""

    def __init__(
        self, cache: Cache, rules: PreemptionRules, order: Callable[[PodInfo], PodOrder]
    ) -> None:
        self._cache = cache
        self._rules = rules
        self._order = order
        self._kinds: OrderedDict[Hashable, _Kind] = OrderedDict()

    def of(self, attempt: PreemptionAttempt) -> NDArray[np.bool_] | None:
        """Return by row of the node table whether the pod may evict another one there.

        None if that is to be found out on the rows themselves. The array is not to be changed.
        """
        pod, rules = attempt.pod, self._rules
        if rules.key is None or rules.order_reads_pod or attempt.filter_dry_run.key is None:
            return None
        key = rules.key(pod)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _Kind()
            if len(self._kinds) > _KINDS:
                self._kinds.popitem(last=False)
        else:
            self._kinds.move_to_end(key)
        journal = self._cache.nodes.journal
        if kind.version != journal.version:
            self._refresh(kind, pod)
            kind.version = journal.version
        return kind.has

    def _refresh(self, kind: _Kind, pod: PodInfo) -> None:
        nodes = self._cache.nodes
        changes = nodes.journal.since(kind.version) if kind.version >= 0 else None
        try:
            if kind.has is None or changes is None or changes.kind & ~DYNAMIC:
                kind.has = self._evictable(pod, np.arange(nodes.n))
            elif changes.rows:
                rows = np.array(changes.rows, np.intp)
                kind.has[rows] = self._evictable(pod, rows)
        except RuleError:
            kind.has = None

    def _evictable(self, pod: PodInfo, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        block = self._order(pod).of(rows)
        evictable = self._rules.victim(pod, block)
        evictable &= block >= 0
        found: NDArray[np.bool_] = np.logical_or.reduce(evictable, axis=0)
        return found
