"""How kinds that are looked at now and then look in a table: columns, and what fills them."""

from __future__ import annotations

from typing import Any, Final

from policy_sched.embedded.apiserver.printers.workloads import NONE, UNKNOWN, age
from policy_sched.manifests import Plain

UNSET: Final = "<unset>"
_SHOWN: Final = 2
"""Metrics of an autoscaler that are shown."""


def autoscaler(data: Plain, now: int) -> list[Any]:
    """Return the cells of a horizontal pod autoscaler."""
    spec, status = data["spec"], data.get("status") or {}
    target = spec["scaleTargetRef"]
    least = spec.get("minReplicas")
    return [
        _name(data),
        f"{target['kind']}/{target['name']}",
        _targets(spec, status),
        UNSET if least is None else str(least),
        str(spec["maxReplicas"]),
        status.get("currentReplicas") or 0,
        _born(data, now),
    ]


def _targets(spec: Plain, status: Plain) -> str:
    metrics, current = spec.get("metrics") or [], status.get("currentMetrics") or []
    texts = []
    for place, one in enumerate(metrics):
        source = next(one[key] for key in one if key != "type")
        name = source.get("name") or (source.get("metric") or {}).get("name") or ""
        reached = _amount(_inside(current[place], "current")) if place < len(current) else UNKNOWN
        texts.append(f"{name}: {reached}/{_amount(source['target'])}")
    more = f" + {len(texts) - _SHOWN} more..." if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more or NONE


def _inside(metric: Plain, field: str) -> Plain:
    found: Plain = next(metric[key] for key in metric if key != "type")[field]
    return found


def _amount(value: Plain) -> str:
    if (share := value.get("averageUtilization")) is not None:
        return f"{share}%"
    if "averageValue" in value:
        return f"{value['averageValue']} (avg)" if "value" in value else str(value["averageValue"])
    return str(value.get("value", UNKNOWN))


def scale(data: Plain, now: int) -> list[Any]:
    """Return the cells of a scale."""
    wanted, found = data["spec"].get("replicas") or 0, data["status"].get("replicas") or 0
    return [_name(data), wanted, found, _born(data, now)]


def revision(data: Plain, now: int) -> list[Any]:
    """Return the cells of a controller revision."""
    owner = next(
        (one for one in data["metadata"].get("ownerReferences") or () if one.get("controller")),
        None,
    )
    controller = NONE
    if owner is not None:
        group = owner["apiVersion"].rpartition("/")[0]
        kind = owner["kind"].lower()
        controller = f"{kind}.{group}/{owner['name']}" if group else f"{kind}/{owner['name']}"
    return [_name(data), controller, data.get("revision") or 0, _born(data, now)]


def runtime_class(data: Plain, now: int) -> list[Any]:
    """Return the cells of a runtime class."""
    return [_name(data), data.get("handler") or "", _born(data, now)]


def driver(data: Plain, now: int) -> list[Any]:
    """Return the cells of a CSI driver."""
    spec = data.get("spec") or {}
    audiences = [one.get("audience") or "" for one in spec.get("tokenRequests") or ()]
    return [
        _name(data),
        spec.get("attachRequired", True),
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        ",".join(audiences) or UNSET,
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ("Persistent",)),
        _born(data, now),
    ]


def attachment(data: Plain, now: int) -> list[Any]:
    """Return the cells of a volume attachment."""
    spec = data.get("spec") or {}
    volume = (spec.get("source") or {}).get("persistentVolumeName") or ""
    attached = bool((data.get("status") or {}).get("attached"))
    place = spec.get("nodeName") or ""
    return [_name(data), spec.get("attacher") or "", volume, place, attached, _born(data, now)]


def capacity(data: Plain, now: int) -> list[Any]:  # noqa: ARG001 - one signature for all
    """Return the cells of a storage capacity."""
    return [_name(data), data.get("storageClassName") or "", str(data.get("capacity") or UNSET)]


def ingress_class(data: Plain, now: int) -> list[Any]:
    """Return the cells of an ingress class."""
    spec = data.get("spec") or {}
    given = spec.get("parameters")
    parameters = NONE
    if given:
        group = f".{given['apiGroup']}" if given.get("apiGroup") else ""
        parameters = f"{given['kind']}{group}/{given['name']}"
    return [_name(data), spec.get("controller") or "", parameters, _born(data, now)]


def slice_of_endpoints(data: Plain, now: int) -> list[Any]:
    """Return the cells of an endpoint slice."""
    ports = [str(one.get("port") or "*") for one in data.get("ports") or ()]
    places = [place for one in data.get("endpoints") or () for place in one.get("addresses") or ()]
    kind = data.get("addressType") or ""
    return [
        _name(data),
        kind,
        ",".join(ports) or UNSET,
        ",".join(places) or UNSET,
        _born(data, now),
    ]


def claim(data: Plain, now: int) -> list[Any]:
    """Return the cells of a resource claim."""
    status = data.get("status") or {}
    states = ["deleted"] if data["metadata"].get("deletionTimestamp") else []
    states += ["allocated"] if status.get("allocation") else [] if states else ["pending"]
    states += ["reserved"] if status.get("reservedFor") else []
    return [_name(data), ",".join(states), _born(data, now)]


def resources(data: Plain, now: int) -> list[Any]:
    """Return the cells of a resource slice."""
    spec = data.get("spec") or {}
    place = spec.get("nodeName") or ("<all>" if spec.get("allNodes") else "<node selector>")
    pool = (spec.get("pool") or {}).get("name") or ""
    return [_name(data), place, spec.get("driver") or "", pool, _born(data, now)]


def flow_schema(data: Plain, now: int) -> list[Any]:
    """Return the cells of a flow schema."""
    spec = data.get("spec") or {}
    level = (spec.get("priorityLevelConfiguration") or {}).get("name") or NONE
    method = (spec.get("distinguisherMethod") or {}).get("type") or NONE
    precedence = spec.get("matchingPrecedence") or 0
    return [_name(data), level, precedence, method, _born(data, now), "?"]


def born(data: Plain, now: int) -> list[Any]:
    """Return the cells of what has a name and an age."""
    return [_name(data), _born(data, now)]


def _name(data: Plain) -> str:
    return str(data["metadata"].get("name") or "")


def _born(data: Plain, now: int) -> str:
    return age(data["metadata"].get("creationTimestamp"), now)


BINDING: Final = "Name|Role|Age|Users*|Groups*|ServiceAccounts*"
ACCOUNT: Final = "Name|Secrets|Age"
QUOTA: Final = "Name|Request|Limit|Age"
INGRESS: Final = "Name|Class|Hosts|Address|Ports|Age"


def binding(data: Plain, now: int) -> list[Any]:
    """Return the cells of a binding."""
    ref = data["roleRef"]
    named: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for one in data.get("subjects") or ():
        place = f"{one.get('namespace', '')}/" if one["kind"] == "ServiceAccount" else ""
        named[one["kind"]].append(f"{place}{one['name']}")
    role = f"{ref['kind']}/{ref['name']}"
    return [_name(data), role, _born(data, now), *(", ".join(one) for one in named.values())]


def account(data: Plain, now: int) -> list[Any]:
    """Return the cells of a service account."""
    return [_name(data), str(len(data.get("secrets") or ())), _born(data, now)]


def quota(data: Plain, now: int) -> list[Any]:
    """Return the cells of a quota: what is used of what there is."""
    status, spec = data.get("status") or {}, data.get("spec") or {}
    used, hard = status.get("used") or {}, status.get("hard") or spec.get("hard") or {}
    parts: dict[bool, list[str]] = {False: [], True: []}
    for name in sorted(hard):
        text = f"{name}: {used.get(name, '0')}/{hard[name]}"
        parts[name.startswith("limits.")].append(text)
    return [_name(data), ", ".join(parts[False]), ", ".join(parts[True]), _born(data, now)]


def ingress(data: Plain, now: int) -> list[Any]:
    """Return the cells of an ingress."""
    spec, status = data.get("spec") or {}, data.get("status") or {}
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    found = (status.get("loadBalancer") or {}).get("ingress") or ()
    address = ",".join(str(one.get("ip") or one.get("hostname") or "") for one in found)
    ports = "80, 443" if spec.get("tls") else "80"
    klass = spec.get("ingressClassName") or NONE
    return [_name(data), klass, ",".join(hosts) or "*", address, ports, _born(data, now)]
