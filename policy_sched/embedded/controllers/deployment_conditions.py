"""Conditions of deployments: whether enough pods are there, and whether a roll-out gets on.

(The deployment controller's progress.go and sync.go.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from policy_sched.client.apimachinery import SECOND, readable, timestamp
from policy_sched.manifests import Plain, replicas_of

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
    found = {
        str(one["type"]): {**_BLANK, **one}
        for one in (written if isinstance(written, list) else ())
        if isinstance(one, dict) and "type" in one
    }
    enough = status["availableReplicas"] >= replicas_of(deployment) - unavailable
    words = "has" if enough else "does not have"
    reason = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
    message = f"Deployment {words} minimum availability."
    _set(found, _condition(AVAILABLE, str(enough), reason, message), now)
    _progress(found, deployment, status, new_set, now)
    return list(found.values())


def deadline(deployment: Plain, found: list[Plain]) -> int | None:
    """Return when a roll-out has taken too long (ns since 1970), None if it has no such time."""
    seconds = deployment["spec"].get("progressDeadlineSeconds")
    present = next((one for one in found if one["type"] == PROGRESSING), None)
    if not isinstance(seconds, int) or present is None:
        return None
    if present["reason"] not in (_CREATED, _UPDATED):
        return None
    updated = readable(present["lastUpdateTime"])
    return None if updated is None else updated + seconds * SECOND


def _progress(
    found: dict[str, Plain],
    deployment: Plain,
    status: Mapping[str, int],
    new_set: str,
    now: int,
) -> None:
    """Set or leave the condition that tells of a roll-out."""
    spec, present = deployment["spec"], found.get(PROGRESSING)
    if spec.get("progressDeadlineSeconds") is None:
        found.pop(PROGRESSING, None)
        return
    reason = present["reason"] if present else ""
    if spec.get("paused"):
        if reason not in (_PAUSED, _TIMED_OUT):
            message = "Deployment is paused"
            _set(found, _condition(PROGRESSING, "Unknown", _PAUSED, message), now)
        return
    if reason == _PAUSED:
        message = "Deployment is resumed"
        _set(found, _condition(PROGRESSING, "Unknown", _RESUMED, message), now)
        reason = _RESUMED
    what = f'ReplicaSet "{new_set}"'
    wanted, old = replicas_of(deployment), deployment.get("status") or {}
    another = present is None or (reason in _OF_ONE_SET and what not in str(present["message"]))
    if reason == _DONE and not another and status["replicas"] == status["updatedReplicas"]:
        return
    if another:
        message = f'Created new replica set "{new_set}"'
        _set(found, _condition(PROGRESSING, "True", _CREATED, message), now)
    counts = ("updatedReplicas", "replicas", "availableReplicas")
    if all(status[count] == wanted for count in counts):
        message = f"{what} has successfully progressed."
        _set(found, _condition(PROGRESSING, "True", _DONE, message), now)
    elif _got_on(old, status):
        message = f"{what} is progressing."
        _set(found, _condition(PROGRESSING, "True", _UPDATED, message), now, always=True)
    else:
        due = deadline(deployment, [found[PROGRESSING]])
        if due is not None and now >= due:
            message = f"{what} has timed out progressing."
            _set(found, _condition(PROGRESSING, "False", _TIMED_OUT, message), now)


def _got_on(old: Plain, status: Mapping[str, int]) -> bool:
    before = {name: n if isinstance(n := old.get(name), int) else 0 for name in status}
    outdated = status["replicas"] - status["updatedReplicas"]
    risen = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return outdated < before["replicas"] - before["updatedReplicas"] or any(
        status[name] > before[name] for name in risen
    )


def _condition(kind: str, status: str, reason: str, message: str) -> Plain:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def _set(found: dict[str, Plain], wanted: Plain, now: int, *, always: bool = False) -> None:
    """Put a condition in its place. ``always``: although status and reason stay the same."""
    old = found.get(wanted["type"])
    same = old is not None and old["status"] == wanted["status"]
    if same and old is not None and old["reason"] == wanted["reason"] and not always:
        return
    time = timestamp(now)
    since = old["lastTransitionTime"] if same and old is not None else time
    wanted = {**wanted, "lastUpdateTime": time, "lastTransitionTime": since}
    found.pop(wanted["type"], None)  # the newest comes last
    found[wanted["type"]] = wanted
