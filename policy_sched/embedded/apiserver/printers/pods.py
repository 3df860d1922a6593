"""How a pod looks in a table: its state in one word, as kubectl says it."""

from __future__ import annotations

from typing import Any, Final

from policy_sched.embedded.apiserver.printers.ages import age
from policy_sched.manifests import Plain

NONE: Final = "<none>"
COLUMNS: Final = "Name|Ready|Status|Restarts|Age|IP*|Node*|Nominated Node*|Readiness Gates*"


def cells(pod: Plain, now: int) -> list[Any]:
    """Return the cells of a pod."""
    meta, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    states = status.get("containerStatuses") or []
    restartable = [c for c in spec.get("initContainers") or () if _restartable(c)]
    ready = sum(1 for one in states if one.get("ready"))
    total = len(spec.get("containers") or ()) + len(restartable)
    restarts = sum(one.get("restartCount") or 0 for one in states)
    addresses = status.get("podIPs") or ()
    address = addresses[0].get("ip") if addresses else status.get("podIP")
    return [
        meta["name"],
        f"{ready}/{total}",
        state(pod),
        str(restarts),
        age(meta.get("creationTimestamp"), now),
        address or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(spec, status),
    ]


def _gates(spec: Plain, status: Plain) -> str:
    gates = [gate.get("conditionType") for gate in spec.get("readinessGates") or ()]
    if not gates:
        return NONE
    conditions = status.get("conditions") or ()
    true = {one.get("type") for one in conditions if one.get("status") == "True"}
    return f"{sum(gate in true for gate in gates)}/{len(gates)}"


def state(pod: Plain) -> str:
    """Return a pod's state in one word (printPod of the API server's printers)."""
    status = pod.get("status") or {}
    reason = str(status.get("reason") or status.get("phase") or "")
    for one in status.get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    reason = _initialization(pod) or _running(status, reason)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if status.get("phase") not in ("Succeeded", "Failed"):
            return "Terminating"
    return reason


def _running(status: Plain, reason: str) -> str:
    """Return what the containers say; the first one has the last word."""
    runs = False
    for one in reversed(status.get("containerStatuses") or []):
        found = one.get("state") or {}
        waiting, ended = found.get("waiting") or {}, found.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended is not None:
            reason = ended.get("reason") or _exit(ended)
        elif one.get("ready") and found.get("running") is not None:
            runs = True
    if reason == "Completed" and runs:
        conditions = status.get("conditions") or ()
        ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
        return "Running" if ready else "NotReady"
    return reason


def _initialization(pod: Plain) -> str:
    """Return what the init containers say, "" once they are through."""
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    given = spec.get("initContainers") or []
    restartable = {c.get("name") for c in given if _restartable(c)}
    for place, one in enumerate(status.get("initContainerStatuses") or []):
        found = one.get("state") or {}
        ended, waiting = found.get("terminated"), found.get("waiting") or {}
        if ended is not None and not ended.get("exitCode"):
            continue
        if one.get("name") in restartable and one.get("started"):
            continue
        if ended is not None:
            return f"Init:{ended.get('reason') or _exit(ended)}"
        if waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{place}/{len(given)}"
    return ""


def _restartable(container: Plain) -> bool:
    return bool(container.get("restartPolicy") == "Always")


def _exit(ended: Plain) -> str:
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode') or 0}"
