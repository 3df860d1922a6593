"""Differences between two policies, two simulations, or a shadow and a scheduler.

Compares the results of `simulate` for two sets of policies, and summarises shadow logs. The texts
of policy files are compared in profiles/format.
"""

from policy_sched.diff.page import (
    diff_page as diff_page,
    moves_tables as moves_tables,
    shadow_page as shadow_page,
)
from policy_sched.diff.placement_diff import (
    PLACED as PLACED,
    EachSeed as EachSeed,
    MeasureChange as MeasureChange,
    Move as Move,
    PlacementDiff as PlacementDiff,
    SeedsDiff as SeedsDiff,
    Values as Values,
    compare_placements as compare_placements,
    compare_seeds as compare_seeds,
    measure_changes as measure_changes,
    move_counts as move_counts,
)
from policy_sched.diff.policy_diff import PolicyDiff as PolicyDiff
from policy_sched.diff.policy_rewrites import (
    Rewrite as Rewrite,
    proven_alike as proven_alike,
    rewrites as rewrites,
)
from policy_sched.diff.report import (
    measure_document as measure_document,
    measure_row as measure_row,
    move_lines as move_lines,
    seeds_table as seeds_table,
    seeds_text as seeds_text,
)
from policy_sched.diff.shadow import read_decision_log as read_decision_log, summarize as summarize
