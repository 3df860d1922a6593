"""Snapshots and recordings of a live cluster: all that deciding reads of it, read from outside.

A snapshot is one compressed file, also of manifests; `Following` watches a cluster and has
`recording` write what changes. Objects have the reduced form of `recording`.
"""

from policy_sched.snapshot.collect import (
    SELECTIONS as SELECTIONS,
    Collected as Collected,
    check_file as check_file,
    check_path as check_path,
    collect as collect,
    summary as summary,
    write_names as write_names,
    write_objects as write_objects,
)
from policy_sched.snapshot.follow import Following as Following
