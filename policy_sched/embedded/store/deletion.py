"""Deletion of an object: at once, after a grace period, or when its finalizers are gone.

(apiserver's rest.BeforeDelete and the pod strategy's CheckGracefulDelete.) Dependents and the
contents of a namespace are deleted by controllers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from policy_sched.client import apimachinery
from policy_sched.embedded.admission import conflict
from policy_sched.embedded.store.watch_history import DELETED, UPDATED, StoreChange
from policy_sched.manifests import Plain
from policy_sched.model import Pod

DEFAULT_GRACE: Final = 30
"""Seconds that a pod has to end, where neither it nor the deletion names a time."""
FOREGROUND: Final = "foregroundDeletion"
"""The finalizer of an object that waits until its dependents have gone."""
ORPHAN: Final = "orphan"
"""The finalizer of an object that waits until its dependents do not name it any more."""
ENDED: Final = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete. ``uid`` and ``version`` are preconditions; None leaves it open."""

    grace_seconds: int | None = None
    uid: str | None = None
    version: str | None = None
    orphan: bool = False
    """Whether the dependents stay; otherwise they are deleted, too."""
    foreground: bool = False
    """Whether the dependents are deleted first."""

    @classmethod
    def settled(cls, given: DeleteOptions | None, *, owner: bool) -> DeleteOptions:
        """Return options as they are for an object with or without dependents."""
        options = given or cls()
        return options if owner else replace(options, foreground=False, orphan=False)


@dataclass(frozen=True, slots=True)
class Deletion:
    """The result: the object's next state (None: unchanged), and whether it is removed."""

    marked: Plain | None
    gone: bool


def check_preconditions(stored: apimachinery.Stored, options: DeleteOptions) -> None:
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


def deletion(stored: apimachinery.Stored, options: DeleteOptions, now: int) -> Deletion:
    """Return what a deletion at `now` does to an object."""
    data = stored.data
    meta = data["metadata"]
    if (options.foreground or options.orphan) and not stored.deleting:
        added = ORPHAN if options.orphan else FOREGROUND
        meta["finalizers"] = [*(meta.get("finalizers") or ()), added]
    held = bool(meta.get("finalizers")) or awaits_finalize(data)
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
        since = apimachinery.parsed(meta["deletionTimestamp"]) - (given or 0) * apimachinery.SECOND
        meta["deletionTimestamp"] = apimachinery.timestamp(since + grace * apimachinery.SECOND)
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
    meta["deletionTimestamp"] = apimachinery.timestamp(now + grace * apimachinery.SECOND)
    meta["deletionGracePeriodSeconds"] = grace
    if _is_namespace(data):
        data["status"] = {**(data.get("status") or {}), "phase": "Terminating"}
    if meta.get("generation"):
        meta["generation"] += 1
    return data


def awaits_finalize(data: Plain) -> bool:
    """Return whether an object is a namespace with finalizers in its specification."""
    return _is_namespace(data) and bool((data.get("spec") or {}).get("finalizers"))


def _is_namespace(data: Plain) -> bool:
    return data.get("kind") == "Namespace" and data.get("apiVersion") == "v1"


def released(data: Plain) -> bool:
    """Return whether nothing holds a deleted object any more: no finalizers and no grace period."""
    meta = data["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers") or awaits_finalize(data):
        return False
    return not meta.get("deletionGracePeriodSeconds")


def deletion_changes(
    stored: apimachinery.Stored, options: DeleteOptions, version: int, now: int
) -> list[StoreChange]:
    """Return what a deletion changes of the object itself; `version` is the last one."""
    result = deletion(stored, options, now)
    changes, last = [], stored
    if result.marked is not None:
        last = apimachinery.seal(stored.resource, result.marked, version + 1)
        changes.append(StoreChange(UPDATED, 0, last, stored))
    if result.gone:
        gone = apimachinery.seal(stored.resource, last.data, version + len(changes) + 1)
        changes.append(StoreChange(DELETED, 0, gone, last))
    return changes
