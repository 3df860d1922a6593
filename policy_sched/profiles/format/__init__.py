"""`fmt` and the differences of meaning between policy files.

One canonical order of keys; comments are kept.
"""

from policy_sched.profiles.format.formatting import format_file as format_file
from policy_sched.profiles.format.policy_diff import (
    ValueDifference as ValueDifference,
    differences as differences,
)
