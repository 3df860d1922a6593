"""Aggregates over pods, updated with every change of the tables.

Counts per node, per topology domain and per selector. A property test compares them with a
recount.
"""

from policy_sched.cluster.counts.counts import Counts
from policy_sched.cluster.counts.existing_terms import TermCounts
from policy_sched.cluster.counts.registry import PodCounts
from policy_sched.cluster.counts.selector_counts import Part, PodMatch
from policy_sched.cluster.counts.selector_index import SelectorIndex
from policy_sched.cluster.counts.topology_domains import ROW, Domain, Domains

__all__ = [
    "ROW",
    "Counts",
    "Domain",
    "Domains",
    "Part",
    "PodCounts",
    "PodMatch",
    "SelectorIndex",
    "TermCounts",
]
