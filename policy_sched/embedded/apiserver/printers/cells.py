"""The cells of tables that are more than a field: states, ages, selectors, counts.

A function that columns.yaml names as ``cell`` takes an object, one that it names as ``as`` a value.
"""

from __future__ import annotations

from typing import Any, Final

from policy_sched.client.apimachinery import SECOND, parsed
from policy_sched.manifests import Plain

UNKNOWN: Final = "<unknown>"


def ago(text: object, now: int) -> str:
    """Return how long ago a timestamp is; ``now`` in ns since 1970."""
    if not isinstance(text, str) or not text:
        return UNKNOWN
    try:
        return span((now - parsed(text)) // SECOND)
    except ValueError:
        return UNKNOWN


def span(seconds: int) -> str:
    """Return a number of seconds in at most two units (duration.HumanDuration)."""
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    years = days // 365
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if years < 2:
        return f"{days}d"
    return _two(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _two(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first}{unit}{second}{smaller}" if second else f"{first}{unit}"


NONE: Final = "<none>"


def _spec(data: Plain) -> Plain:
    spec: Plain = data.get("spec") or {}
    return spec


def _status(data: Plain) -> Plain:
    status: Plain = data.get("status") or {}
    return status


def _true(status: Plain) -> set[Any]:
    """Return the types of the conditions that are true."""
    conditions = status.get("conditions") or ()
    return {condition.get("type") for condition in conditions if condition.get("status") == "True"}


def phase(data: Plain) -> str:
    """Return the phase of an object."""
    deleting = data["metadata"].get("deletionTimestamp")
    return "Terminating" if deleting else _status(data).get("phase") or ""


# Pods.


def ready_containers(pod: Plain) -> str:
    """Return how many containers of a pod are ready."""
    restartable = [c for c in _spec(pod).get("initContainers") or () if _restartable(c)]
    ready = sum(
        bool(container.get("ready")) for container in _status(pod).get("containerStatuses") or ()
    )
    return f"{ready}/{len(_spec(pod).get('containers') or ()) + len(restartable)}"


def restarts(pod: Plain) -> str:
    """Return how often containers of a pod were restarted."""
    states = _status(pod).get("containerStatuses") or ()
    return str(sum(state.get("restartCount") or 0 for state in states))


def readiness_gates(pod: Plain) -> str:
    """Return how many readiness gates of a pod are open."""
    gates = [gate.get("conditionType") for gate in _spec(pod).get("readinessGates") or ()]
    true = _true(_status(pod))
    return f"{sum(gate in true for gate in gates)}/{len(gates)}" if gates else NONE


def pod_status(pod: Plain) -> str:
    """Return a pod's state in one word (printPod of the API server's printers)."""
    status = pod.get("status") or {}
    reason = str(status.get("reason") or status.get("phase") or "")
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
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
    for container in reversed(status.get("containerStatuses") or []):
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended is not None:
            reason = ended.get("reason") or _exit(ended)
        elif container.get("ready") and state.get("running") is not None:
            runs = True
    if reason == "Completed" and runs:
        return "Running" if "Ready" in _true(status) else "NotReady"
    return reason


def _initialization(pod: Plain) -> str:
    """Return what the init containers say, "" once they are through."""
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    given = spec.get("initContainers") or []
    restartable = {c.get("name") for c in given if _restartable(c)}
    for index, container in enumerate(status.get("initContainerStatuses") or []):
        state = container.get("state") or {}
        ended, waiting = state.get("terminated"), state.get("waiting") or {}
        if ended is not None and not ended.get("exitCode"):
            continue
        if container.get("name") in restartable and container.get("started"):
            continue
        if ended is not None:
            return f"Init:{ended.get('reason') or _exit(ended)}"
        if waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{len(given)}"
    return ""


def _restartable(container: Plain) -> bool:
    return bool(container.get("restartPolicy") == "Always")


def _exit(ended: Plain) -> str:
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode') or 0}"


# Selectors.


_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def modes(given: Any) -> str:
    """Return access modes in their short form."""
    return ",".join(_MODES.get(mode, mode) for mode in given or ())


def selector_text(selector: Any) -> str:
    """Return a label selector in its text form."""
    if not isinstance(selector, dict):
        return NONE
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or ():
        key, operator, values = (
            expression.get("key"),
            expression.get("operator"),
            expression.get("values") or (),
        )
        match operator:
            case "Exists":
                parts.append(f"{key}")
            case "DoesNotExist":
                parts.append(f"!{key}")
            case _:
                parts.append(f"{key} {str(operator).lower()} ({','.join(sorted(values))})")
    return ",".join(parts) or NONE


def labels_text(labels: Any) -> str:
    """Return labels in their text form."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


# Workloads and services.


def ready_replicas(data: Plain) -> str:
    """Return how many replicas are ready, of those that are wanted."""
    wanted = _spec(data).get("replicas")
    return f"{int(_status(data).get('readyReplicas') or 0)}/{1 if wanted is None else int(wanted)}"


def completions(data: Plain) -> str:
    """Return how many completions of a job there are."""
    spec = _spec(data)
    done, wanted = int(_status(data).get("succeeded") or 0), spec.get("completions")
    most = spec.get("parallelism") or 0
    if wanted is None:
        return f"{done}/1 of {most}" if most > 1 else f"{done}/1"
    return f"{done}/{wanted}"


def job_status(data: Plain) -> str:
    """Return the state of a job."""
    true = _true(_status(data))
    for condition in ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition in true:
            return condition
    return "Terminating" if data["metadata"].get("deletionTimestamp") else "Running"


def service_ports(data: Plain) -> str:
    """Return the ports of a service."""
    return ",".join(_port(port) for port in _spec(data).get("ports") or ()) or NONE


def _port(port: Plain) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node}/{port.get('protocol') or 'TCP'}"


def ingress_ports(data: Plain) -> str:
    """Return the ports of an ingress."""
    return "80, 443" if _spec(data).get("tls") else "80"


# Nodes.

_ROLE: Final = "node-role.kubernetes.io/"


def node_status(data: Plain) -> str:
    """Return whether a node is ready, and takes pods."""
    ready = [c for c in _status(data).get("conditions") or () if c.get("type") == "Ready"]
    words = [("Ready" if c.get("status") == "True" else "NotReady") for c in ready] or ["Unknown"]
    if _spec(data).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def roles(data: Plain) -> str:
    """Return the roles of a node."""
    labels = data["metadata"].get("labels") or {}
    named = sorted(key[len(_ROLE) :] for key in labels if key.startswith(_ROLE))
    return ",".join(named) or NONE


# Storage and devices.


def claim_of_volume(data: Plain) -> str:
    """Return the claim of a volume."""
    claim = _spec(data).get("claimRef") or {}
    return f"{claim.get('namespace')}/{claim.get('name')}" if claim else ""


def storage_class_name(data: Plain) -> str:
    """Return the name of a storage class, and whether it is the default."""
    annotations = data["metadata"].get("annotations") or {}
    default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    return str(data["metadata"]["name"]) + (" (default)" if default else "")


def claim_state(data: Plain) -> str:
    """Return the state of a resource claim."""
    states = ["deleted"] if data["metadata"].get("deletionTimestamp") else []
    states += ["allocated"] if _status(data).get("allocation") else [] if states else ["pending"]
    states += ["reserved"] if _status(data).get("reservedFor") else []
    return ",".join(states)


def slice_node(data: Plain) -> str:
    """Return the nodes of a resource slice."""
    spec = _spec(data)
    return spec.get("nodeName") or ("<all>" if spec.get("allNodes") else "<node selector>")


# Configuration and rights.


def config_map_size(data: Plain) -> str:
    """Return how many values a config map has."""
    return str(len(data.get("data") or {}) + len(data.get("binaryData") or {}))


def role(data: Plain) -> str:
    """Return the role of a binding."""
    return f"{data['roleRef']['kind']}/{data['roleRef']['name']}"


def subjects(data: Plain, kind: str) -> str:
    """Return the subjects of a kind that a binding names."""
    named = (subject for subject in data.get("subjects") or () if subject["kind"] == kind)
    if kind != "ServiceAccount":
        return ", ".join(subject["name"] for subject in named)
    return ", ".join(f"{subject.get('namespace', '')}/{subject['name']}" for subject in named)


def quota(data: Plain, part: str) -> str:
    """Return what is used of a quota's limits, or of what is none."""
    used, hard = _status(data).get("used") or {}, _status(data).get("hard")
    hard = hard or _spec(data).get("hard") or {}
    names = [name for name in sorted(hard) if name.startswith("limits.") is (part == "limits")]
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


# Events.


def event_object(data: Plain) -> str:
    """Return the object of an event."""
    about = data.get("involvedObject") or data.get("regarding") or {}
    return f"{str(about.get('kind') or '').lower()}/{about.get('name') or ''}"


def health(state: Any) -> str:
    """Return whether a part of the control plane is healthy, by the status of its condition."""
    return {"True": "Healthy", "False": "Unhealthy"}.get(str(state), "Unknown")


FORMS: Final = {
    "modes": modes, "selector": selector_text, "labels": labels_text, "health": health,
}  # fmt: skip
"""How a value is written, by the name that columns.yaml gives it."""


def api_service(service: Plain) -> str:
    """Return what serves a version of a group."""
    other = _spec(service).get("service")
    return f"{other.get('namespace')}/{other.get('name')}" if other else "Local"
