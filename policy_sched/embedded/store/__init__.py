"""The object store: versions, history for watches, patches, deletion, SQLite.

The counterpart of etcd and the registry's storage layer.
"""

from policy_sched.client.apimachinery import Key as Key
from policy_sched.embedded.store.deletion import (
    ENDED as ENDED,
    FOREGROUND as FOREGROUND,
    ORPHAN as ORPHAN,
    DeleteOptions as DeleteOptions,
    awaits_finalize as awaits_finalize,
)
from policy_sched.embedded.store.evictions import evict as evict
from policy_sched.embedded.store.patch import (
    JSON as JSON,
    LAST_APPLIED as LAST_APPLIED,
    MERGE as MERGE,
    PATCHES as PATCHES,
    STRATEGIC as STRATEGIC,
    annotated as annotated,
    merge as merge,
    patch_of as patch_of,
)
from policy_sched.embedded.store.sqlite import SqliteStorage as SqliteStorage
from policy_sched.embedded.store.store import (
    HISTORY as HISTORY,
    STATUS as STATUS,
    ObjectStore as ObjectStore,
)
from policy_sched.embedded.store.watch_history import (
    ADDED as ADDED,
    DELETED as DELETED,
    UPDATED as UPDATED,
    Filter as Filter,
    StoreChange as StoreChange,
    Watch as Watch,
)
