"""Snapshots: all that deciding reads of a cluster, in one compressed file.

What is read of a live cluster, or of manifests, is reduced to the fields of `model` that decisions
depend on. Names may be replaced by pseudonyms under which the same decisions are made.
"""

from policy_sched.snapshot.collect import SELECTIONS, Collected, collect
from policy_sched.snapshot.file import SUFFIX, check_path, summary, write_names, write_objects
from policy_sched.snapshot.pseudonyms import Pseudonyms
from policy_sched.snapshot.reduce import reduced
from policy_sched.snapshot.rename import renamed

__all__ = [
    "SELECTIONS",
    "SUFFIX",
    "Collected",
    "Pseudonyms",
    "check_path",
    "collect",
    "reduced",
    "renamed",
    "summary",
    "write_names",
    "write_objects",
]
