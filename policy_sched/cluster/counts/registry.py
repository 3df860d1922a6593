"""Everything that is counted of pods by selector or term, in one place that the cache updates.

Theory of operation: only pods on live rows are counted. The cache says when a pod comes to or
leaves a row, when nodes come, go or change, and when a namespace's labels change.
"""

from __future__ import annotations

from collections.abc import Iterator

from policy_sched.cluster.counts.counts import Counts, Domains
from policy_sched.cluster.counts.existing_terms import CarriedTerms
from policy_sched.cluster.counts.selector_counts import SelectorCounts
from policy_sched.cluster.tables import NodeTable, PodTable
from policy_sched.model import PodInfo


class PodCounts:
    """``selected``: pods by selector; ``carried``: pods' own affinity terms; and the domains."""

    def __init__(self, nodes: NodeTable, pods: PodTable) -> None:
        self.domains = Domains(nodes)
        self.selected = SelectorCounts(pods)
        self.carried = CarriedTerms(nodes.namespaces)
        self.namespaces_version = 0
        """Rises when a namespace comes or goes or its labels change."""

    @property
    def version(self) -> int:
        """What rises when other counts may concern a pod than before, or some were dropped.

        Whether selected pods have come or gone is not in it.
        """
        carried = self.carried
        required = carried.anti_affinity.version + carried.affinity.version
        return self.selected.version + required + carried.preferred.version

    def add(self, row: int, pod: PodInfo) -> None:
        """Count a pod that has come to a live row."""
        if self.selected.by_match:
            self.selected.count(row, pod, 1)
        if pod.has_pod_affinity:
            self.carried.count(row, pod.affinity_terms, 1)

    def remove(self, row: int, pod: PodInfo) -> None:
        """Take away a pod, the very one that was added, that leaves its row."""
        if self.selected.by_match:
            self.selected.count(row, pod, -1)
        if pod.has_pod_affinity:
            self.carried.count(row, pod.affinity_terms, -1)

    def nodes_changed(self) -> None:
        """Drop the totals of domains that nodes have changed."""
        stale = self.domains.drop_stale()
        if stale:
            for counts in self.all_counts():
                counts.forget(stale)

    def namespaces_changed(self) -> None:
        """Look up anew which terms mean which pods."""
        self.namespaces_version += 1
        for kind in self.carried.kinds:
            kind.forget_meanings()

    def all_counts(self) -> Iterator[Counts]:
        """Yield every count that is kept."""
        for _, counts in self.selected:
            yield counts
        for kind in self.carried.kinds:
            for carried in kind:
                yield carried.counts
