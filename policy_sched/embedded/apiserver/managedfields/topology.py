"""How objects are taken apart: which lists are merged item by item, and what is one value.

From the listType, listMapKey, mapType and structType tags of the API's types; a field is told by
its name, and where one name means several things, by the kind or the field that it stands in. A
list that is not named here is one value, as any list of an unknown kind.
"""

from __future__ import annotations

from typing import Any, Final

SET: Final = ("",)
"""Instead of keys: a list of values that are told apart by themselves."""

_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "addresses": ("type",), "conditions": ("type",), "containers": ("name",),
    "drivers": ("name",), "env": ("name",), "ephemeralContainers": ("name",),
    "finalizers": SET, "hostAliases": ("ip",), "imagePullSecrets": ("name",),
    "initContainers": ("name",), "ownerReferences": ("uid",), "podCIDRs": SET,
    "podIPs": ("ip",), "resourceClaims": ("name",), "resourceClaimStatuses": ("name",),
    "schedulingGates": ("name",), "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeDevices": ("devicePath",), "volumeMounts": ("mountPath",), "volumes": ("name",),
    "webhooks": ("name",),
}  # fmt: skip
_PORTS: Final = {"containers": "containerPort", "initContainers": "containerPort"}
_ATOMIC: Final = frozenset({
    "claimRef", "configMapKeyRef", "dataSource", "dataSourceRef", "fieldRef", "involvedObject",
    "labelSelector", "namespaceSelector", "nodeSelector", "nodeSelectorTerms", "preference",
    "regarding", "related", "requiredDuringSchedulingIgnoredDuringExecution", "resourceFieldRef",
    "roleRef", "scopeSelector", "secretKeyRef", "selector",
})  # fmt: skip
"""Maps that are one value."""
_DEFAULTS: Final[dict[str, Any]] = {"protocol": "TCP"}
"""What a key is that an item does not name."""

Names = tuple[str, ...]
"""The fields on the way to a value, without keys of items."""


def keys_of(kind: str, names: Names) -> tuple[str, ...] | None:
    """Return by which fields a list's items are told apart, None if it is one value."""
    last = names[-1] if names else ""
    if last == "ports":
        holder = names[-2] if len(names) > 1 else ""
        number = _PORTS.get(holder)
        if kind == "Service" and holder == "spec":
            number = "port"
        return (number, "protocol") if number else None
    if last == "secrets":
        return ("name",) if kind == "ServiceAccount" else None
    if last == "claims" and names[-2:-1] == ("resources",):
        return ("name",)
    return _KEYS.get(last)


def atomic(names: Names) -> bool:
    """Tell whether a map is one value; what is required of nodes is no map of terms."""
    return bool(names) and names[-1] in _ATOMIC


def key_values(item: Any, keys: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the keys of an item with their values, None if it has them not."""
    if not isinstance(item, dict):
        return None
    found = {key: item.get(key, _DEFAULTS.get(key)) for key in sorted(keys)}
    if any(value is None or isinstance(value, dict | list) for value in found.values()):
        return None
    return found
