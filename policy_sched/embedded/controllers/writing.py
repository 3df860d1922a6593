"""How controllers write: objects that may be refused, and status that is only written if new."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from policy_sched.client.apimachinery import SECOND, ApiError, Stored, timestamp
from policy_sched.embedded.store import DeleteOptions, Key, ObjectStore
from policy_sched.manifests import Plain

RETRY: Final = 10 * SECOND
"""After how long a controller tries again to create what was refused."""
BURST: Final = 100
"""Pods of a workload that come or go in one round; the others in the next."""
BURST_BYTES: Final = 1024 * 1024
"""Bytes of the templates of the pods that are made in one round."""
REPLACE_ENDED: Final = SECOND
"""After how long a pod that has ended by itself is replaced, lest pods that fail make a storm."""


def burst(owner: Stored) -> int:
    """Return how many pods of a workload are made in one round: few if each of them is large."""
    return max(1, min(BURST, BURST_BYTES // len(owner.raw)))


def create(store: ObjectStore, data: Mapping[str, Any]) -> Stored | None:
    """Create an object; None if the store refuses it (admission, a name that is taken)."""
    try:
        return store.create(data)
    except ApiError:
        return None


def remove(store: ObjectStore, stored: Stored) -> None:
    """Delete an object, unless it has gone or is going already."""
    present = store.find(stored.resource.key, *stored.place)
    if present is not None and present.uid == stored.uid and not present.deleting:
        key = Key(stored.resource.key, *stored.place)
        store.delete(key, DeleteOptions(uid=stored.uid))


def report(
    store: ObjectStore,
    stored: Stored,
    status: Mapping[str, Any],
    zeros: frozenset[str] = frozenset({"replicas"}),
) -> bool:
    """Write fields of a status; tell whether any was new.

    Fields that are 0 or empty are left out, but for `zeros`. The generation that was looked at is
    noted as observed.
    """
    data = stored.data
    old = data.get("status") or {}
    wanted: Plain = {"observedGeneration": data["metadata"].get("generation"), **status}
    new = {key: value for key, value in old.items() if key not in wanted}
    new |= {key: value for key, value in wanted.items() if value or key in zeros}
    if new == old:
        return False
    data["status"] = new
    store.revise(stored, data)
    return True


def condition(status: Plain, kind: str, value: str, reason: str, message: str, now: int) -> None:
    """Set a condition of a workload's status, in place."""
    wanted = {"type": kind, "status": value, "reason": reason, "message": message}
    others = []
    since = timestamp(now)
    for old in status.get("conditions") or ():
        if old.get("type") != kind:
            others.append(old)
        elif old.get("status") == value:
            since = old.get("lastTransitionTime", since)
    wanted |= {"lastTransitionTime": since}
    status["conditions"] = [*others, wanted]
