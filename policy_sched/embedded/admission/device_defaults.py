"""What the API server fills in where a claim to devices does not say it.

(The SetDefaults functions of resource.k8s.io/v1.) A scheduler that finds no allocation mode in a
request refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from policy_sched.manifests import Plain

KINDS: Final = frozenset({"ResourceClaim", "ResourceClaimTemplate"})
_EXACTLY: Final = "ExactCount"


def fill_in_claim(kind: str, spec: Plain) -> None:
    """Complete the specification of a claim, or of a template of claims, in place."""
    whole = spec.get("spec") if kind == "ResourceClaimTemplate" else spec
    devices = whole.get("devices") if isinstance(whole, dict) else None
    for request in _objects(devices, "requests"):
        for wanted in _wanted(request):
            wanted["allocationMode"] = wanted.get("allocationMode") or _EXACTLY
            if wanted["allocationMode"] == _EXACTLY:
                wanted["count"] = wanted.get("count") or 1
            for toleration in _objects(wanted, "tolerations"):
                toleration["operator"] = toleration.get("operator") or "Equal"


def _wanted(request: Plain) -> Iterator[Plain]:
    """Yield what one request asks for: one thing, or the first of several that there is."""
    exactly = request.get("exactly")
    if isinstance(exactly, dict):
        yield exactly
    yield from _objects(request, "firstAvailable")


def _objects(holder: Any, field: str) -> Iterator[Plain]:
    """Yield the objects of a list, as far as it is one."""
    found = holder.get(field) if isinstance(holder, dict) else None
    for one in found if isinstance(found, list) else ():
        if isinstance(one, dict):
            yield one
