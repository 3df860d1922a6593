"""managedFields and server-side apply.

Field sets, owners and merging, as structured-merge-diff does for the kinds served here.
"""

from policy_sched.embedded.apiserver.managedfields.fields import (
    KindLists as KindLists,
    Lists as Lists,
)
from policy_sched.embedded.apiserver.managedfields.managers import (
    APPLY as APPLY,
    UPDATE as UPDATE,
    ManagedFieldsEntry as ManagedFieldsEntry,
    applied as applied,
    updated as updated,
)
