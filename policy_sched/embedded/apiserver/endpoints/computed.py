"""Objects that follow from the server itself: parts of the control plane, and API groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy_sched.client.apimachinery import Stored, encoded, read
from policy_sched.embedded.apiserver.registry import VERSIONS, ServedResource
from policy_sched.embedded.store import ObjectStore
from policy_sched.manifests import Plain

DEPRECATED: Final = {"ComponentStatus": "v1 ComponentStatus is deprecated in v1.19+"}
"""The warning that a response carries, by kind."""
_STORE: Final = "etcd-0"
_BESIDE: Final = ("controller-manager", "scheduler")
"""What runs in the server's process: it lives where that responds."""
_HIGHEST: Final = 18_000
_STEP: Final = 100
_AUTOMANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"


def computed(served: ServedResource, store: ObjectStore) -> list[Stored]:
    """Return the objects of a kind, by name."""
    documents = _components(store) if served.kind == "ComponentStatus" else _api_services()
    head = {"kind": served.kind, "apiVersion": served.group_version}
    raws = [encoded({**head, **document}) for document in sorted(documents, key=_name)]
    return [Stored(served.resource, store.version, r, read(served.resource, r)) for r in raws]


def _name(data: Plain) -> str:
    name: str = data["metadata"]["name"]
    return name


def _components(store: ObjectStore) -> Iterator[Plain]:
    """Yield the health of each part; that of the store is whether it can be written to."""
    for name in (*_BESIDE, _STORE):
        trouble = store.trouble() if name == _STORE else ""
        said = {"error": trouble} if trouble else {"message": "ok"}
        condition = {"type": "Healthy", "status": str(not trouble), **said}
        yield {"metadata": {"name": name}, "conditions": [condition]}


def _api_services() -> Iterator[Plain]:
    """Yield each version of each group; all are this server's own."""
    available = {
        "type": "Available",
        "status": "True",
        "reason": "Local",
        "message": "Local APIServices are always available",
    }
    for place, (group, versions) in enumerate(VERSIONS.items()):
        for later, version in enumerate(versions):
            spec = {
                "version": version,
                "groupPriorityMinimum": _HIGHEST - _STEP * place,
                "versionPriority": len(versions) - later,
            }
            yield {
                "metadata": {"name": f"{version}.{group}", "labels": {_AUTOMANAGED: "onstart"}},
                "spec": {**({"group": group} if group else {}), **spec},
                "status": {"conditions": [available]},
            }
