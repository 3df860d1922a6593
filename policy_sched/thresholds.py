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
all rows: filters and scores of compiled rules, their columns, nominations, groups of totals. The
same holds for domains, classes of rows and taints, which are looked at one by one.

MixedSchedulingBasePod TopologySpreading Unschedulable
"""
ROWS_PER_CHANGE: Final = 64
"""In the time of following one change, so many rows are compared with what they were.

SchedulingDaemonset PreemptionAsync
"""
REFRESH_ROWS: Final = 256
"""If more rows changed, and half of all, evaluating all rows is faster than a kept evaluation.

SchedulingBasic SchedulingDaemonset
"""
SPARSE: Final = 0.25
"""Below this share of all rows, or of all numbers there may be, gathering those that matter is
faster than working on all.

UnschedulableDistinct PreemptionBasic
"""
TABLE: Final = 1 << 14
"""Up to so many possible numbers a table of all of them is faster than sorting those of the rows.

UnschedulableDistinct SchedulingDistinct
"""
MISSES: Final = 32
"""After so many pods of which nothing was known, no evaluation is kept: they are all different, and
memory that is used again at once is faster.

SchedulingDistinct UnschedulableDistinct
"""
SEARCHES: Final = 32
"""Grouping rows by their totals costs as much as so many searches for the best ones.

SchedulingBasic TopologySpreading
"""
MOST_PATIENCE: Final = 32
"""So many times more searches come before that at most, if groups were hardly read.

PreferredTopologySpreading DefaultTopologySpreading
"""
MOST_GROUPS: Final = 512
"""With more groups of rows with equal totals, or scores of a plugin, all rows are looked at.

DefaultTopologySpreading SchedulingPreferredPodAntiAffinity
"""
