"""Incremental updates of the results for one pod, without a look at all rows.

Theory of operation. Each part keeps to the counts that PreFilter and PreScore found. Which counts
these are follows from the terms that pods on nodes carry and from the labels of the namespaces;
``version`` rises when that changes, and then the plugin is called again.
"""

from __future__ import annotations

from collections.abc import Sequence

from policy_sched.cluster.counts import PodCounts
from policy_sched.framework import (
    SAME_CODES,
    CycleState,
    Feasible,
    GroupedScores,
    Refiltered,
    Rescored,
)
from policy_sched.plugins.interpodaffinity.filtering import TopologyPairCounts, changed_codes
from policy_sched.plugins.interpodaffinity.scoring import AffinityScores, PreferredTerms


class AffinityUpdates:
    """What updates the results for one pod; either part is None where the plugin skips."""

    __slots__ = ("_counts", "_filter", "_preferred", "_score", "_version", "scores")

    def __init__(
        self,
        counts: PodCounts,
        filtering: TopologyPairCounts | None,
        preferred: PreferredTerms | None,
        scoring: AffinityScores | None,
    ) -> None:
        self._counts = counts
        self._version = counts.version
        self._filter = filtering
        self._preferred = preferred
        self._score = scoring
        self.scores: GroupedScores | None = None if scoring is None else scoring.scores

    @staticmethod
    def of(state: CycleState, counts: PodCounts) -> AffinityUpdates | None:
        """Return what updates the results that belong to a state; None if nothing does."""
        filtering, preferred = state.read(TopologyPairCounts), state.read(PreferredTerms)
        if filtering is not None and not filtering.in_domains:
            return None
        feasible, scoring = state.read(Feasible), None
        if preferred is not None and preferred.tables and feasible is not None:
            scoring = AffinityScores.of(preferred, feasible)
            if scoring is None:
                return None
        return AffinityUpdates(counts, filtering, preferred, scoring)

    def holds(self) -> bool:
        """Return whether PreFilter and PreScore would find the same counts, or skip again."""
        if self._version != self._counts.version:
            return False
        preferred = self._preferred
        return preferred is None or preferred.same_counts()

    def filter(self, state: CycleState, rows: Sequence[int]) -> Refiltered | None:
        """Return the rows of domains whose code is another one."""
        del state
        found = self._filter
        return SAME_CODES if found is None else changed_codes(found, rows)

    def score(self, state: CycleState, rows: Sequence[int]) -> Rescored | None:
        """Update the scores of groups of rows."""
        feasible = state.read(Feasible)
        if self._score is None or feasible is None:
            return None
        return self._score.update(rows, feasible)
