"""How bindings of roles, accounts, quotas and ingresses look in a table."""

from __future__ import annotations

from typing import Any, Final

from policy_sched.embedded.apiserver.printers.ages import age
from policy_sched.embedded.apiserver.printers.pods import NONE
from policy_sched.manifests import Plain

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


def _name(data: Plain) -> str:
    return str(data["metadata"].get("name") or "")


def _born(data: Plain, now: int) -> str:
    return age(data["metadata"].get("creationTimestamp"), now)
