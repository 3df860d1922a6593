"""Differences between two policies, two simulations, or a shadow and a scheduler.

Compares what `simulate` returns for two sets of policies, and summarises shadow logs. Differences
of meaning between policy files are in profiles/format.
"""

from policy_sched.diff.placement_diff import (
    PLACED,
    PlacementDiff,
    SeedsDiff,
    compare_placements,
    compare_seeds,
)
from policy_sched.diff.policy_diff import PolicyDiff
from policy_sched.diff.shadow import summarize

__all__ = [
    "PLACED",
    "PlacementDiff",
    "PolicyDiff",
    "SeedsDiff",
    "compare_placements",
    "compare_seeds",
    "summarize",
]
