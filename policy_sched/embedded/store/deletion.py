"""What a deletion does to an object: at once, after a grace period, or when finalizers are gone.

(apiserver's rest.BeforeDelete and the pod strategy's CheckGracefulDelete.)

What goes with an object: those that it owns, and everything in a namespace.

An API server leaves this to controllers that come later; here it is part of the same change, so
that nothing is left over, whenever the process ends. (The garbage collector's background mode.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from policy_sched.client.apimachinery import NAMESPACE, SECOND, Stored, parsed, seal, timestamp
from policy_sched.embedded.admission import conflict
from policy_sched.embedded.store.watch_history import DELETED, UPDATED, Change
from policy_sched.manifests import Plain
from policy_sched.model import Kind, Pod

DEFAULT_GRACE: Final = 30
"""Seconds that a pod has to end, where neither it nor the deletion says otherwise."""
FOREGROUND: Final = "foregroundDeletion"
"""The finalizer of an object that waits until what it owns has gone."""
ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete. ``uid`` and ``version`` are preconditions; None leaves it open.

    ``orphan``: what the object owns stays; otherwise it goes too. ``foreground``: it goes first.
    """

    grace_seconds: int | None = None
    uid: str | None = None
    version: str | None = None
    orphan: bool = False
    foreground: bool = False
    finalize: bool = False
    """Whether the finalizers of a namespace's specification hold it."""

    @classmethod
    def settled(cls, given: DeleteOptions | None, *, owner: bool) -> DeleteOptions:
        """Return options as they are for an object that owns others, or none."""
        options = given or cls()
        return options if owner or not options.foreground else replace(options, foreground=False)


@dataclass(frozen=True, slots=True)
class Deletion:
    """What comes of it: the object's next state (None: as it is), and whether it goes."""

    marked: Plain | None
    gone: bool


def check_preconditions(stored: Stored, options: DeleteOptions) -> None:
    """Raise ApiError if another object, or another version of it, was meant."""
    uid, version = stored.uid, str(stored.version)
    if options.uid is not None and options.uid != uid:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid})."
            " The object might have been deleted and then recreated"
        )
        raise conflict(stored.resource, stored.name, why)
    if options.version is not None and options.version != version:
        why = (
            f"the ResourceVersion in the precondition ({options.version}) does not match the"
            f" ResourceVersion in record ({version}). The object might have been modified"
        )
        raise conflict(stored.resource, stored.name, why)


def deletion(stored: Stored, options: DeleteOptions, now: int) -> Deletion:
    """Return what a deletion at `now` does to an object."""
    data = stored.data
    meta = data["metadata"]
    if options.foreground and not stored.deleting:
        meta["finalizers"] = [*(meta.get("finalizers") or ()), FOREGROUND]
    held = bool(meta.get("finalizers")) or (options.finalize and awaits_finalize(data))
    if not isinstance(stored.typed, Pod):
        if stored.deleting:
            return Deletion(None, gone=not held)
        if not held:
            return Deletion(None, gone=True)
        return Deletion(_marked(data, now, 0), gone=False)
    grace = _grace(stored.typed, options)
    if stored.deleting:
        given = meta.get("deletionGracePeriodSeconds")
        if given is not None and (options.grace_seconds is None or grace >= given):
            return Deletion(None, gone=False)
        since = parsed(meta["deletionTimestamp"]) - (given or 0) * SECOND
        meta["deletionTimestamp"] = timestamp(since + grace * SECOND)
        meta["deletionGracePeriodSeconds"] = grace
        return Deletion(data, gone=grace == 0 and not held)
    return Deletion(_marked(data, now, grace), gone=grace == 0 and not held)


def _grace(pod: Pod, options: DeleteOptions) -> int:
    if not pod.spec.node_name or pod.status.phase in ENDED:
        return 0  # nothing runs that could end in good order
    grace = options.grace_seconds
    if grace is None:
        grace = pod.spec.termination_grace_period_seconds
    if grace is None:
        grace = DEFAULT_GRACE
    return 1 if grace < 0 else grace


def _marked(data: Plain, now: int, grace: int) -> Plain:
    meta = data["metadata"]
    meta["deletionTimestamp"] = timestamp(now + grace * SECOND)
    meta["deletionGracePeriodSeconds"] = grace
    if data.get("kind") == "Namespace":
        data["status"] = {**(data.get("status") or {}), "phase": "Terminating"}
    if meta.get("generation"):
        meta["generation"] += 1
    return data


def awaits_finalize(data: Plain) -> bool:
    """Tell whether an object is a namespace with finalizers in its specification."""
    return data.get("kind") == "Namespace" and bool((data.get("spec") or {}).get("finalizers"))


def released(data: Plain) -> bool:
    """Tell whether an object that was marked before has nothing left that holds it."""
    meta = data["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers"):
        return False
    return not meta.get("deletionGracePeriodSeconds")


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
