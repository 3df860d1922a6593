"""Which fields a field selector may name, by kind."""

from __future__ import annotations

from typing import Final

from policy_sched.client.apimachinery import Match, bad_request, field_match
from policy_sched.embedded.apiserver.registry.resources import Served

_ALWAYS: Final = ("metadata.name", "metadata.namespace")
_ABOUT: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT: Final = ("reason", "type", "reportingController")
SELECTABLE: Final[dict[str, frozenset[str]]] = {
    "Pod": frozenset({
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName",
    }),
    "Node": frozenset({"spec.unschedulable"}),
    "Namespace": frozenset({"status.phase"}),
    "Secret": frozenset({"type"}),
    "Service": frozenset({"spec.clusterIP", "spec.type"}),
    "ReplicaSet": frozenset({"status.replicas"}),
    "ReplicationController": frozenset({"status.replicas"}),
    "Job": frozenset({"status.succeeded"}),
    "Event": frozenset({*(f"regarding.{name}" for name in _ABOUT), *_EVENT,
                        "deprecatedSource.component"}),
}  # fmt: skip
"""Besides name and namespace; by their names in the store."""
_RENAMED: Final = {
    "deprecatedSource": "deprecatedSource.component",
    "status.successful": "status.succeeded",
}


def field_selector(served: Served, text: str) -> Match:
    """Return a test of the fields that a selector names. Raises ApiError if it may not."""
    parts = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        cut = min((place for place in (part.find("="), part.find("!")) if place >= 0), default=-1)
        if cut < 0:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        shown, value = part[:cut].strip(), part[cut:]
        path = served.form.field(shown)
        path = _RENAMED.get(path, path)
        if path not in _ALWAYS and path not in SELECTABLE.get(served.kind, ()):
            raise bad_request(_unknown(served, shown))
        parts.append(path + value)
    return field_match(",".join(parts))


def _unknown(served: Served, path: str) -> str:
    if served.kind in SELECTABLE:
        return f"field label not supported: {path}"
    known = ", ".join(f'"{name}"' for name in _ALWAYS)
    return f'"{path}" is not a known field selector: only {known}'
