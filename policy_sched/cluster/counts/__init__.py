"""Aggregates over pods, updated with every change of the tables.

Counts per node, per topology domain and per selector. A property test compares them with a
recount.
"""

from policy_sched.cluster.counts.counts import (
    ROW as ROW,
    Counts as Counts,
    Domain as Domain,
    Domains as Domains,
)
from policy_sched.cluster.counts.existing_terms import TermCounts as TermCounts
from policy_sched.cluster.counts.registry import PodCounts as PodCounts
from policy_sched.cluster.counts.selector_counts import (
    Part as Part,
    PodMatch as PodMatch,
    SelectorIndex as SelectorIndex,
)
