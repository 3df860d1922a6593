"""Snapshots: all that deciding reads of a cluster, in one compressed file.

What is read of a live cluster, or of manifests, is reduced to the fields of `model` that decisions
depend on. Names may be replaced by pseudonyms under which the same decisions are made.
"""

from policy_sched.snapshot.collect import (
    SELECTIONS as SELECTIONS,
    Collected as Collected,
    check_path as check_path,
    collect as collect,
    reduced as reduced,
    summary as summary,
    write_names as write_names,
    write_objects as write_objects,
)
from policy_sched.snapshot.rename import Pseudonyms as Pseudonyms, renamed as renamed
