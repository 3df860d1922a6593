"""Aggregates over pods, updated with every change of the tables.

Counts per node, per topology domain and per selector. A property test compares them with a
recount.
"""

from policy_sched.cluster.counts.counts import ROW, Counts, Domain, Domains
from policy_sched.cluster.counts.existing_terms import TermCounts
from policy_sched.cluster.counts.grouped_sums import Addend, GroupedSums
from policy_sched.cluster.counts.registry import PodCounts
from policy_sched.cluster.counts.selector_counts import Part, PodMatch, SelectorIndex

__all__ = [
    "ROW",
    "Addend",
    "Counts",
    "Domain",
    "Domains",
    "GroupedSums",
    "Part",
    "PodCounts",
    "PodMatch",
    "SelectorIndex",
    "TermCounts",
]
