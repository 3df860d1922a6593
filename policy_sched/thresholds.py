"""Thresholds: from which size on another path is faster. Both paths give the same results.

``python -m tests.bench.thresholds NAME VALUE...`` runs the workloads below each constant with other
values in turns, and prints decisions per second of CPU. Before the workloads stands what it showed
on 2 busy cores. A new constant needs a pair of workloads in which it is worth more than noise,
which is about 3 %.
"""

from __future__ import annotations

from typing import Final

LOOP_ROWS: Final = 8
"""Up to so many rows a loop over them is faster than operations on arrays.

``LOOP_ROWS 0 2 8 64``: PreemptionBasic 724, 2,093, 2,589, 2,583; PreemptionAsync 8,803, 9,542,
7,267, 6,536, of 2, 4 and 8 no other than noise; SchedulingPodAntiAffinity 14,577 to 15,552.

PreemptionBasic PreemptionAsync SchedulingPodAntiAffinity
"""
FEW_ROWS: Final = 32
"""Up to so many changed rows the functions of one row, row by row, are faster than what works on
all rows: filters and scores of compiled rules, their columns, groups of totals. The same holds for
domains, classes of rows and taints, which are looked at one by one.

``FEW_ROWS 0 1 8 32 256``: TopologySpreading 6,094, 12,029, 12,346, 12,366, 11,583;
MixedSchedulingBasePod from 1 on 21,521, 21,337, 21,583, 20,862; Unschedulable 16,630 to 15,625.

MixedSchedulingBasePod TopologySpreading Unschedulable
"""
ROWS_PER_CHANGE: Final = 64
"""In the time of following one change, so many rows are compared with what they were.

``ROWS_PER_CHANGE 1 64 100000``: SchedulingDaemonset 33,632, 35,885, 36,145; PreemptionAsync 6,593,
7,386, 7,009.

SchedulingDaemonset PreemptionAsync
"""
SPARSE: Final = 0.25
"""Below this share of all rows, or of all numbers there may be, gathering those that matter is
faster than working on all. A table of all numbers also takes memory.

``SPARSE 0 0.25 1``: PreemptionBasic 2,554, 2,554, 2,452; UnschedulableDistinct 5,074, 5,058, 4,985.

UnschedulableDistinct PreemptionBasic
"""
TABLE: Final = 1 << 14
"""Up to so many possible numbers a table of all of them stands for sorting those of the rows: it
bounds the memory.

``TABLE 1 16384 10000000``: UnschedulableDistinct 5,373, 5,356, 5,322; SchedulingDistinct 8,157,
8,203, 8,110.

UnschedulableDistinct SchedulingDistinct
"""
MISSES: Final = 32
"""After so many pods of which nothing was known, no evaluation is kept: they are all different, and
memory that is used again at once is faster.

``MISSES 2 32 100000``: UnschedulableDistinct 5,214, 5,110, 4,196; SchedulingDistinct 7,819, 7,764,
7,435.

SchedulingDistinct UnschedulableDistinct
"""
SEARCHES: Final = 32
"""Grouping rows by their totals costs as much as so many searches for the best ones.

``SEARCHES 2 32 1000000``: TopologySpreading 11,013, 12,584, 12,563; SchedulingBasic 22,831, 23,659,
22,091.

SchedulingBasic TopologySpreading
"""
MOST_GROUPS: Final = 512
"""With more groups of rows with equal totals, or scores of a plugin, or rows that change groups,
all rows are looked at: it bounds the loops over groups.

``MOST_GROUPS 8 512 8192``: DefaultTopologySpreading 13,441, 13,228, 13,245;
SchedulingPreferredPodAntiAffinity 15,823, 14,535, 14,728.

DefaultTopologySpreading SchedulingPreferredPodAntiAffinity
"""
