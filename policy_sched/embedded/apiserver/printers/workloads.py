"""How workloads look in a table: deployments, sets, jobs, services, budgets."""

from __future__ import annotations

from typing import Any, Final

from policy_sched.client.apimachinery import SECOND, parsed
from policy_sched.manifests import Plain

UNKNOWN: Final = "<unknown>"


def age(text: object, now: int) -> str:
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


_CONTENTS: Final = "|Containers*|Images*|Selector*"
DEPLOYMENT: Final = "Name|Ready|Up-to-date:integer|Available:integer|Age" + _CONTENTS
REPLICAS: Final = "Name|Desired:integer|Current:integer|Ready:integer|Age" + _CONTENTS
STATEFUL: Final = "Name|Ready|Age|Containers*|Images*"
DAEMONS: Final = (
    "Name|Desired:integer|Current:integer|Ready:integer|Up-to-date:integer|Available:integer"
    "|Node Selector|Age" + _CONTENTS
)
_DAEMON_COUNTS: Final = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
)
JOB: Final = "Name|Status|Completions|Duration|Age" + _CONTENTS
CRON_JOB: Final = "Name|Schedule|Timezone|Suspend:boolean|Active:integer|Last Schedule|Age"
SERVICE: Final = "Name|Type|Cluster-IP|External-IP|Port(s)|Age|Selector*"
BUDGET: Final = "Name|Min Available|Max Unavailable|Allowed Disruptions:integer|Age"


def selector_text(selector: Any) -> str:
    """Return a label selector in its text form."""
    if not isinstance(selector, dict):
        return NONE
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for one in selector.get("matchExpressions") or ():
        key, operator, values = one.get("key"), one.get("operator"), one.get("values") or ()
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


def _pairs(spec: Plain) -> list[str]:
    """Return the names and the images of a template's containers."""
    pod = (spec.get("template") or {}).get("spec") or {}
    given = pod.get("containers") or ()
    return [",".join(str(one.get(field) or "") for one in given) for field in ("name", "image")]


def _count(source: Plain, field: str) -> int:
    return int(source.get(field) or 0)


def _wanted(spec: Plain) -> int:
    wanted = spec.get("replicas")
    return 1 if wanted is None else int(wanted)


def _parts(data: Plain, now: int) -> tuple[str, Plain, Plain, str]:
    meta = data["metadata"]
    born = age(meta.get("creationTimestamp"), now)
    return meta["name"], data.get("spec") or {}, data.get("status") or {}, born


def deployment(data: Plain, now: int) -> list[Any]:
    """Return the cells of a deployment."""
    name, spec, status, born = _parts(data, now)
    ready = f"{_count(status, 'readyReplicas')}/{_wanted(spec)}"
    updated, available = _count(status, "updatedReplicas"), _count(status, "availableReplicas")
    return [
        name,
        ready,
        updated,
        available,
        born,
        *_pairs(spec),
        selector_text(spec.get("selector")),
    ]


def replicas(data: Plain, now: int) -> list[Any]:
    """Return the cells of a replica set or a replication controller."""
    name, spec, status, born = _parts(data, now)
    counts = [_wanted(spec), _count(status, "replicas"), _count(status, "readyReplicas")]
    selector = spec.get("selector")
    old = data["kind"] == "ReplicationController"
    text = labels_text(selector) if old else selector_text(selector)
    return [name, *counts, born, *_pairs(spec), text]


def stateful(data: Plain, now: int) -> list[Any]:
    """Return the cells of a stateful set."""
    name, spec, status, born = _parts(data, now)
    return [name, f"{_count(status, 'readyReplicas')}/{_wanted(spec)}", born, *_pairs(spec)]


def daemons(data: Plain, now: int) -> list[Any]:
    """Return the cells of a daemon set."""
    name, spec, status, born = _parts(data, now)
    template = (spec.get("template") or {}).get("spec") or {}
    counts = [_count(status, field) for field in _DAEMON_COUNTS]
    nodes = labels_text(template.get("nodeSelector"))
    return [name, *counts, nodes, born, *_pairs(spec), selector_text(spec.get("selector"))]


def job(data: Plain, now: int) -> list[Any]:
    """Return the cells of a job."""
    name, spec, status, born = _parts(data, now)
    done, wanted = _count(status, "succeeded"), spec.get("completions")
    if wanted is None:
        most = spec.get("parallelism") or 0
        completions = f"{done}/1 of {most}" if most > 1 else f"{done}/1"
    else:
        completions = f"{done}/{wanted}"
    took = ""
    if status.get("startTime"):
        end = status.get("completionTime")
        until = parsed(end) if end else now
        took = span((until - parsed(status["startTime"])) // SECOND)
    rest = [*_pairs(spec), selector_text(spec.get("selector"))]
    return [name, _job_state(data, status), completions, took, born, *rest]


def _job_state(data: Plain, status: Plain) -> str:
    conditions = status.get("conditions") or ()
    true = {one.get("type") for one in conditions if one.get("status") == "True"}
    for condition, word in (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ):
        if condition in true:
            return word
    return "Terminating" if data["metadata"].get("deletionTimestamp") else "Running"


def cron_job(data: Plain, now: int) -> list[Any]:
    """Return the cells of a cron job."""
    name, spec, status, born = _parts(data, now)
    last = status.get("lastScheduleTime")
    when = age(last, now) if last else NONE
    zone, active = spec.get("timeZone") or NONE, len(status.get("active") or ())
    return [name, spec.get("schedule") or "", zone, bool(spec.get("suspend")), active, when, born]


def service(data: Plain, now: int) -> list[Any]:
    """Return the cells of a service."""
    name, spec, _, born = _parts(data, now)
    outside = ",".join(spec.get("externalIPs") or ()) or NONE
    ports = ",".join(_port(one) for one in spec.get("ports") or ()) or NONE
    address = spec.get("clusterIP") or NONE
    kind = spec.get("type") or "ClusterIP"
    return [name, kind, address, outside, ports, born, labels_text(spec.get("selector"))]


def _port(port: Plain) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node}/{port.get('protocol') or 'TCP'}"


def budget(data: Plain, now: int) -> list[Any]:
    """Return the cells of a disruption budget."""
    name, spec, status, born = _parts(data, now)
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    bounds = ["N/A" if bound is None else str(bound) for bound in (least, most)]
    return [name, *bounds, _count(status, "disruptionsAllowed"), born]
