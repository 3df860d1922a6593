"""The object store: versions, history for watches, patches, deletion, SQLite.

The counterpart of etcd and the registry's storage layer.
"""

from policy_sched.client.apimachinery import Key
from policy_sched.embedded.store.deletion import (
    ENDED,
    FOREGROUND,
    ORPHAN,
    DeleteOptions,
    awaits_finalize,
)
from policy_sched.embedded.store.patch import (
    JSON,
    LAST_APPLIED,
    MERGE,
    PATCHES,
    STRATEGIC,
    annotated,
    merge,
    patch_of,
)
from policy_sched.embedded.store.sqlite import SqliteStorage
from policy_sched.embedded.store.store import HISTORY, STATUS, ObjectStore
from policy_sched.embedded.store.watch_history import ADDED, DELETED, UPDATED, Change, Filter, Watch

__all__ = [
    "ADDED",
    "DELETED",
    "ENDED",
    "FOREGROUND",
    "HISTORY",
    "JSON",
    "LAST_APPLIED",
    "MERGE",
    "ORPHAN",
    "PATCHES",
    "STATUS",
    "STRATEGIC",
    "UPDATED",
    "Change",
    "DeleteOptions",
    "Filter",
    "Key",
    "ObjectStore",
    "SqliteStorage",
    "Watch",
    "annotated",
    "awaits_finalize",
    "merge",
    "patch_of",
]
