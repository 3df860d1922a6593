"""How workloads look in a table: deployments, sets, jobs, services, budgets."""

from __future__ import annotations

from typing import Any, Final

from policy_sched.client.apimachinery import SECOND, parsed
from policy_sched.embedded.apiserver.printers.ages import age, span
from policy_sched.embedded.apiserver.printers.pods import NONE
from policy_sched.manifests import Plain

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
