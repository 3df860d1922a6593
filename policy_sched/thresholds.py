"""Thresholds: from which size on another path is faster. Both paths give the same results.

``python -m tests.bench.thresholds NAME VALUE...`` runs the workloads below each constant with other
values in turns, and prints decisions per second of CPU. A new constant needs a pair of workloads in
which it is worth more than noise, which is about 3 %.
"""

from __future__ import annotations

from typing import Final

LOOP_ROWS: Final = 8
"""Up to so many rows a loop over them is faster than operations on arrays.

PreemptionBasic PreemptionAsync SchedulingPodAntiAffinity
"""
FEW_ROWS: Final = 32
"""Up to so many changed rows the functions of one row, row by row, are faster than what works on
all rows: filters and scores of compiled rules, their columns, groups of totals.

MixedSchedulingBasePod TopologySpreading Unschedulable
"""
REFRESH_ROWS: Final = 256
"""If more rows changed, and half of all, evaluating all rows is faster than a kept evaluation.

SchedulingBasic SchedulingDaemonset
"""
SPARSE: Final = 0.25
"""Below this share of feasible rows they are gathered first instead of scoring every row.

UnschedulableDistinct PreemptionBasic
"""
SEARCHES: Final = 32
"""Grouping rows by their totals costs as much as so many searches for the best ones.

SchedulingBasic TopologySpreading
"""
MOST_SEARCHES: Final = 1024
"""And the most searches before that, if groups were hardly read.

PreferredTopologySpreading DefaultTopologySpreading
"""
MOST_GROUPS: Final = 512
"""With more groups of rows with equal totals, or scores of a plugin, all rows are looked at.

DefaultTopologySpreading
"""
