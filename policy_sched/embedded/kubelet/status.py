"""What kubelets write into the status of pods: that they run, have succeeded, or were rejected."""

from __future__ import annotations

from typing import Final

from policy_sched.client.apimachinery import timestamp
from policy_sched.embedded.admission import set_condition
from policy_sched.manifests import Plain

_READY: Final = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")


def running(data: Plain, now: int) -> Plain:
    """Return a pod's status once all of its containers run."""
    status = dict(data.get("status") or {})
    status |= {"phase": "Running", "startTime": timestamp(now)}
    written = timestamp(now)
    others = [c for c in status.get("conditions") or () if c.get("type") not in _READY]
    status["conditions"] = others + [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": written}
        for kind in _READY
    ]
    state = {"running": {"startedAt": timestamp(now)}}
    status["containerStatuses"] = _containers(data, state, ready=True)
    return status


def succeeded(data: Plain, now: int) -> Plain:
    """Return a pod's status once all of its containers have ended well."""
    status = dict(data.get("status") or {})
    status["phase"] = "Succeeded"
    for condition in _READY:
        ready = "True" if condition == "Initialized" else "False"
        reason = {} if condition == _READY[0] else {"reason": "PodCompleted"}
        set_condition(status, {"type": condition, "status": ready, **reason}, now)
    ended = {"exitCode": 0, "reason": "Completed", "finishedAt": timestamp(now)}
    started = status.get("startTime")
    state = {"terminated": ended | ({"startedAt": started} if started else {})}
    status["containerStatuses"] = _containers(data, state, ready=False)
    return status


def rejected(data: Plain, reason: str, message: str, now: int) -> Plain:
    """Return the status of a pod that its node does not take."""
    status = dict(data.get("status") or {})
    wanted = {"phase": "Failed", "reason": reason, "message": message}
    return status | wanted | {"startTime": timestamp(now)}


def _containers(data: Plain, state: Plain, *, ready: bool) -> list[Plain]:
    return [
        {
            "name": container.get("name", ""),
            "image": container.get("image", ""),
            "imageID": "",
            "ready": ready,
            "started": ready,
            "restartCount": 0,
            "state": state,
            "lastState": {},
        }
        for container in data["spec"].get("containers") or ()
    ]
