"""Consistency checks of tables and counts, for tests and SIGUSR2.

Each function recomputes from scratch and returns differences.
"""

from policy_sched.cluster.debug.consistency import (
    count_differences as count_differences,
    differences as differences,
)
