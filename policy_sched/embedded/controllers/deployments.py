"""Deployments: a replica set per template, and the way from the old ones to the new one.

A roll-out keeps to maxSurge and maxUnavailable, as the deployment controller's does (deployment/
rolling.go); Recreate waits until the old pods have gone. A paused deployment is scaled, no more.

Conditions of deployments: whether enough pods are there, and whether a roll-out gets on. (The
deployment controller's progress.go and sync.go.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from policy_sched.client import apimachinery
from policy_sched.embedded.controllers import pod_control
from policy_sched.embedded.controllers.workqueue import Controller
from policy_sched.embedded.store import Key, ObjectStore, StoreChange
from policy_sched.manifests import (
    TEMPLATE_HASH,
    Plain,
    replicas_of,
    workload_expansion as expansion,
)
from policy_sched.model import ReplicaSet

AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
_CREATED: Final = "NewReplicaSetCreated"
_UPDATED: Final = "ReplicaSetUpdated"
_DONE: Final = "NewReplicaSetAvailable"
_TIMED_OUT: Final = "ProgressDeadlineExceeded"
_OF_ONE_SET: Final = (_UPDATED, _DONE, _TIMED_OUT)
"""Reasons whose message names the replica set that they are about."""
_BLANK: Final = {
    "status": "", "reason": "", "message": "", "lastUpdateTime": "", "lastTransitionTime": "",
}  # fmt: skip
"""Defaults for the fields that a condition lacks, if another client wrote it."""
_PAUSED: Final = "DeploymentPaused"
_RESUMED: Final = "DeploymentResumed"


def conditions(
    deployment: Plain, status: Mapping[str, int], unavailable: int, new_set: str, now: int
) -> list[Plain]:
    """Return the conditions that follow from a deployment's next status.

    ``deployment`` has the present one; ``unavailable`` pods may be missing; ``new_set`` is the
    name of the replica set of its template, "" if that is not there.
    """
    written = (deployment.get("status") or {}).get("conditions")
    by_type = {
        str(condition["type"]): {**_BLANK, **condition}
        for condition in (written if isinstance(written, list) else ())
        if isinstance(condition, dict) and "type" in condition
    }
    enough = status["availableReplicas"] >= replicas_of(deployment) - unavailable
    words = "has" if enough else "does not have"
    reason = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
    message = f"Deployment {words} minimum availability."
    _set(by_type, _condition(AVAILABLE, str(enough), reason, message), now)
    _progress(by_type, deployment, status, new_set, now)
    return list(by_type.values())


def deadline(deployment: Plain, conditions: list[Plain]) -> int | None:
    """Return when a roll-out has taken too long (ns since 1970), None if it has no such time."""
    seconds = deployment["spec"].get("progressDeadlineSeconds")
    present = next((c for c in conditions if c["type"] == PROGRESSING), None)
    if not isinstance(seconds, int) or present is None:
        return None
    if present["reason"] not in (_CREATED, _UPDATED):
        return None
    updated = apimachinery.readable(present["lastUpdateTime"])
    return None if updated is None else updated + seconds * apimachinery.SECOND


def _progress(
    by_type: dict[str, Plain], deployment: Plain, status: Mapping[str, int], new_set: str, now: int
) -> None:
    """Set or leave the condition about the roll-out."""
    spec, present = deployment["spec"], by_type.get(PROGRESSING)
    if spec.get("progressDeadlineSeconds") is None:
        by_type.pop(PROGRESSING, None)
        return
    reason = present["reason"] if present else ""
    if spec.get("paused"):
        if reason not in (_PAUSED, _TIMED_OUT):
            message = "Deployment is paused"
            _set(by_type, _condition(PROGRESSING, "Unknown", _PAUSED, message), now)
        return
    if reason == _PAUSED:
        message = "Deployment is resumed"
        _set(by_type, _condition(PROGRESSING, "Unknown", _RESUMED, message), now)
        reason = _RESUMED
    what = f'ReplicaSet "{new_set}"'
    wanted, old = replicas_of(deployment), deployment.get("status") or {}
    another = present is None or (reason in _OF_ONE_SET and what not in str(present["message"]))
    if reason == _DONE and not another and status["replicas"] == status["updatedReplicas"]:
        return
    if another:
        message = f'Created new replica set "{new_set}"'
        _set(by_type, _condition(PROGRESSING, "True", _CREATED, message), now)
    counts = ("updatedReplicas", "replicas", "availableReplicas")
    if all(status[count] == wanted for count in counts):
        message = f"{what} has successfully progressed."
        _set(by_type, _condition(PROGRESSING, "True", _DONE, message), now)
    elif _progressed(old, status):
        message = f"{what} is progressing."
        _set(by_type, _condition(PROGRESSING, "True", _UPDATED, message), now, always=True)
    else:
        due = deadline(deployment, [by_type[PROGRESSING]])
        if due is not None and now >= due:
            message = f"{what} has timed out progressing."
            _set(by_type, _condition(PROGRESSING, "False", _TIMED_OUT, message), now)


def _progressed(old: Plain, status: Mapping[str, int]) -> bool:
    before = {name: n if isinstance(n := old.get(name), int) else 0 for name in status}
    outdated = status["replicas"] - status["updatedReplicas"]
    risen = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return outdated < before["replicas"] - before["updatedReplicas"] or any(
        status[name] > before[name] for name in risen
    )


def _condition(kind: str, status: str, reason: str, message: str) -> Plain:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def _set(by_type: dict[str, Plain], wanted: Plain, now: int, *, always: bool = False) -> None:
    """Set a condition. ``always``: even if status and reason are unchanged."""
    old = by_type.get(wanted["type"])
    same = old is not None and old["status"] == wanted["status"]
    if same and old is not None and old["reason"] == wanted["reason"] and not always:
        return
    time = apimachinery.timestamp(now)
    since = old["lastTransitionTime"] if same and old is not None else time
    wanted = {**wanted, "lastUpdateTime": time, "lastTransitionTime": since}
    by_type.pop(wanted["type"], None)  # the newest comes last
    by_type[wanted["type"]] = wanted


REVISION: Final = "deployment.kubernetes.io/revision"
"""Annotation of deployments and their replica sets: which template it is, by number."""
_QUARTER: Final = "25%"
_DIGITS: Final = 10
"""Digits of a percentage that is read."""
_REVISIONS: Final = 10
"""Old replica sets that are kept, unless the deployment has a limit."""


@dataclass(frozen=True, slots=True)
class _Set:
    """A replica set: what it wants, and the pods that it has."""

    stored: apimachinery.Stored
    wanted: int
    active: int
    ready: int
    leaving: int


class DeploymentController(Controller):
    """Makes and scales the replica sets of deployments."""

    kinds = frozenset({apimachinery.DEPLOYMENT, apimachinery.REPLICA_SET})
    name = "deployment"

    def __init__(self, store: ObjectStore, owned: pod_control.OwnedPods) -> None:
        super().__init__(store)
        self._owned = owned

    def observe(self, change: StoreChange) -> None:
        """Add a deployment that changed, or that of a replica set."""
        new = change.new
        if new.resource.key == apimachinery.DEPLOYMENT:
            self._queue.add(Key(apimachinery.DEPLOYMENT, *new.namespaced_name))
        elif new.resource.key == apimachinery.REPLICA_SET:
            owner = pod_control.controller_of(new)
            if owner is not None and (owner.api_version, owner.kind) == apimachinery.DEPLOYMENT:
                self._queue.add(pod_control.owner_key(new, owner))

    def sync(self, key: Key) -> bool:
        """Scale the replica sets of a deployment towards its template and its size."""
        stored = self._store.find(key.kind, key.namespace, key.name)
        return stored is not None and not stored.deleting and self._sync_sets(key, stored)

    def _sync_sets(self, key: Key, stored: apimachinery.Stored) -> bool:
        data = stored.data
        if not expansion.template_of(data):
            return False
        sets = [
            self._state_of(rs) for rs in self._store.owned_by(stored.uid, apimachinery.REPLICA_SET)
        ]
        new = next((rs for rs in sets if _same_template(rs.stored, data)), None)
        if new is None:
            if not data["spec"].get("paused"):
                wanted = _first_size(data, sets)
                if pod_control.create(self._store, expansion.replica_set_of(data, wanted)) is None:
                    self._queue.add_at(key, self._store.now() + pod_control.RETRY)
                    return False
                return True
            new = max(sets, key=lambda rs: rs.stored.version, default=None)
            if new is None:
                return False
        old = [rs for rs in sets if rs is not new]
        if _same_template(new.stored, data) and self._number(new, old, stored):
            return True
        acted = self._scale(new, old, data)
        acted = self._forget(old, data) or acted
        status = _status(new, sets)
        status["conditions"] = self._conditions(key, data, status, new)
        return pod_control.report(self._store, stored, status) or acted

    def _conditions(self, key: Key, data: Plain, status: Plain, new: _Set) -> list[Plain]:
        """Return the conditions, and look again when the roll-out would have taken too long."""
        now = self._store.now()
        _, unavailable = _limits(data, expansion.replicas_of(data))
        if _recreates(data):
            unavailable = 0
        written = conditions(data, status, unavailable, new.stored.name, now)
        if (due := deadline(data, written)) is not None:
            self._queue.add_at(key, due)
        return written

    def _number(self, new: _Set, old: Sequence[_Set], deployment: apimachinery.Stored) -> bool:
        """Write the number of the present latest; return whether it was another."""
        latest = max(_revision(new.stored), 1 + max((_revision(o.stored) for o in old), default=0))
        wrong = [stored for stored in (new.stored, deployment) if _revision(stored) != latest]
        for stored in wrong:
            data = stored.data
            annotations = data["metadata"].get("annotations") or {}
            data["metadata"]["annotations"] = {**annotations, REVISION: str(latest)}
            self._store.revise(stored, data)
        return bool(wrong)

    def _state_of(self, stored: apimachinery.Stored) -> _Set:
        typed, uid = stored.typed, stored.uid
        assert isinstance(typed, ReplicaSet)
        return _Set(
            stored,
            max(0, typed.spec.replicas),
            self._owned.active(uid),
            self._owned.count(uid, pod_control.Standing.READY),
            self._owned.count(uid, pod_control.Standing.LEAVING),
        )

    def _scale(self, new: _Set, old: Sequence[_Set], data: Plain) -> bool:
        desired = expansion.replicas_of(data)
        live = [rs for rs in old if rs.wanted or rs.active]
        # Recreate: as in rolloutRecreate, no new pod is created before all old ones have ended.
        if _recreates(data) and (live or any(rs.leaving for rs in old)):
            resized = [self._resize(rs, 0) for rs in live]
            return any(resized)
        if not live:
            return self._resize(new, desired)
        surge, unavailable = _limits(data, desired)
        total = new.wanted + sum(rs.wanted for rs in live)
        room = max(0, desired + surge - total)
        wanted = desired if new.wanted > desired else min(desired, new.wanted + room)
        return self._resize(new, wanted) or self._shrink(new, live, desired - unavailable)

    def _shrink(self, new: _Set, old: Sequence[_Set], keep: int) -> bool:
        """Scale old sets down as far as `keep` pods stay available; unready ones go first."""
        total = new.wanted + sum(rs.wanted for rs in old)
        spare = total - keep - (new.wanted - new.ready)
        acted = False
        left = {}
        # As in cleanupUnhealthyReplicas: deleting pods that are not ready costs no availability.
        for rs in old:
            cut = max(0, min(spare, rs.wanted - rs.ready))
            spare -= cut
            left[rs.stored.uid] = rs.wanted - cut
        # As in scaleDownOldReplicaSetsForRollingUpdate: then as many ready pods as may be missing.
        spare = min(spare, new.ready + sum(rs.ready for rs in old) - keep)
        for rs in old:
            cut = max(0, min(spare, left[rs.stored.uid]))
            spare -= cut
            acted = self._resize(rs, left[rs.stored.uid] - cut) or acted
        return acted

    def _resize(self, rs: _Set, wanted: int) -> bool:
        if rs.wanted == wanted:
            return False
        data = rs.stored.data
        data["spec"]["replicas"] = wanted
        data["metadata"]["generation"] = data["metadata"].get("generation", 0) + 1
        self._store.revise(rs.stored, data)
        return True

    def _forget(self, old: Sequence[_Set], data: Plain) -> bool:
        """Delete old sets without pods, beyond those that are kept."""
        limit = data["spec"].get("revisionHistoryLimit")
        kept = _REVISIONS if limit is None else int(limit)
        empty = [rs for rs in old if not (rs.wanted or rs.active or rs.leaving)]
        surplus = sorted(empty, key=lambda rs: rs.stored.version)[: max(0, len(empty) - kept)]
        for rs in surplus:
            pod_control.remove(self._store, rs.stored)
        return bool(surplus)


def _revision(stored: apimachinery.Stored) -> int:
    """Return the number of a revision, 0 if it has none."""
    text = stored.typed.metadata.annotations.get(REVISION, "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _first_size(data: Plain, old: Sequence[_Set]) -> int:
    """Return with how many replicas a new set begins."""
    desired = expansion.replicas_of(data)
    live = [rs for rs in old if rs.wanted or rs.active]
    if _recreates(data) and (live or any(rs.leaving for rs in old)):
        return 0
    if not live:
        return desired
    surge, _ = _limits(data, desired)
    return max(0, min(desired, desired + surge - sum(rs.wanted for rs in live)))


def _recreates(data: Plain) -> bool:
    return bool((data["spec"].get("strategy") or {}).get("type") == "Recreate")


def _limits(data: Plain, desired: int) -> tuple[int, int]:
    """Return maxSurge and maxUnavailable as numbers; not both of them are 0 (ResolveFenceposts)."""
    given = (data["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    surge = share(given.get("maxSurge", _QUARTER), desired, up=True)
    unavailable = share(given.get("maxUnavailable", _QUARTER), desired, up=False)
    return surge, max(unavailable, 0 if surge else 1)


def share(value: Any, whole: int, *, up: bool) -> int:
    """Return a number, or a percentage of a whole, rounded up or down; 0 for what is neither."""
    if isinstance(value, int):
        return value
    digits = str(value).removesuffix("%")
    if not digits.isdecimal() or len(digits) > _DIGITS:
        return 0
    part = int(digits) * whole
    return -(-part // 100) if up else part // 100


def _same_template(stored: apimachinery.Stored, deployment: Plain) -> bool:
    """Return whether a set is of a deployment's present template, but for the hash's label.

    What is empty is as good as what is not there.
    """
    own = _without_hash(expansion.template_of(stored.data))
    other = _without_hash(expansion.template_of(deployment))
    return own == other or bool(_not_empty(own) == _not_empty(other))


def _without_hash(template: Plain) -> Plain:
    meta = dict(template.get("metadata") or {})
    labels = {k: v for k, v in (meta.get("labels") or {}).items() if k != TEMPLATE_HASH}
    return {**template, "metadata": {**meta, "labels": labels}}


def _not_empty(value: Any) -> Any:
    """Return plain data without what is empty."""
    if isinstance(value, dict):
        pruned = {key: _not_empty(item) for key, item in value.items()}
        return {key: item for key, item in pruned.items() if item not in (None, "", {}, [])}
    return [_not_empty(item) for item in value] if isinstance(value, list) else value


def _status(new: _Set, sets: Sequence[_Set]) -> Plain:
    active, ready = sum(rs.active for rs in sets), sum(rs.ready for rs in sets)
    wanted = sum(rs.wanted for rs in sets)
    return {
        "replicas": active,
        "updatedReplicas": new.active,
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": max(0, wanted - ready),
        "terminatingReplicas": sum(rs.leaving for rs in sets),
    }
