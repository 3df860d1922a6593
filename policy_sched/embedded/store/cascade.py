"""What goes with an object: those that it owns, and everything in a namespace.

An API server leaves this to controllers that come later; here it is part of the same change, so
that nothing is left over, whenever the process ends. (The garbage collector's background mode.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from policy_sched.client.apimachinery import NAMESPACE, Stored, seal
from policy_sched.embedded.store.deletion import DeleteOptions, deletion
from policy_sched.embedded.store.watch_history import DELETED, UPDATED, Change
from policy_sched.model import Kind

Find = Callable[[Kind, str, str], Stored | None]
Dependents = Callable[[Stored], Iterable[Stored]]


def deletion_changes(
    stored: Stored, options: DeleteOptions, version: int, now: int
) -> list[Change]:
    """Return what a deletion changes of the object itself; `version` is the last one."""
    result = deletion(stored, options, now)
    changes, last = [], stored
    if result.marked is not None:
        last = seal(stored.resource, result.marked, version + 1)
        changes.append(Change(UPDATED, 0, last, stored))
    if result.gone:
        gone = seal(stored.resource, last.data, version + len(changes) + 1)
        changes.append(Change(DELETED, 0, gone, last))
    return changes


def cascade(
    gone: Stored, dependents: Dependents, find: Find, version: int, now: int
) -> Iterator[Change]:
    """Yield the changes that follow from an object's end; `version` is that of its deletion."""
    ends = [gone]
    reached = {gone.uid}
    for end in ends:
        # What was in a namespace cannot wait there for its end.
        grace = DeleteOptions(grace_seconds=0 if end.resource.key == NAMESPACE else None)
        for one in dependents(end):
            if one.uid in reached or _kept(one, reached, find):
                continue
            reached.add(one.uid)
            for change in deletion_changes(one, grace, version, now):
                version = change.new.version
                yield change
                if change.type == DELETED:
                    ends.append(change.new)


def _kept(one: Stored, gone: set[str], find: Find) -> bool:
    """Return whether an object has another owner left."""
    for owner in one.typed.metadata.owner_references:
        if owner.uid not in gone:
            found = find((owner.api_version, owner.kind), one.namespace, owner.name)
            if found is not None and found.uid == owner.uid:
                return True
    return False


def orphaned(dependents: Iterable[Stored], owner: str, version: int) -> Iterator[Change]:
    """Yield the changes that remove a deleted owner's references from its dependents."""
    for one in dependents:
        data = one.data
        meta = data["metadata"]
        left = [reference for reference in meta["ownerReferences"] if reference["uid"] != owner]
        if left:
            meta["ownerReferences"] = left
        else:
            del meta["ownerReferences"]
        version += 1
        yield Change(UPDATED, 0, seal(one.resource, data, version), one)
