"""Snapshots: all that deciding reads of a cluster, in one compressed file.

What is read of a live cluster, or of manifests, is written in the reduced form of `recording`.
"""

from policy_sched.snapshot.collect import (
    SELECTIONS as SELECTIONS,
    Collected as Collected,
    check_path as check_path,
    collect as collect,
    summary as summary,
    write_names as write_names,
    write_objects as write_objects,
)
