"""What an API server does with requests about objects, for a cluster that is in memory."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol

import msgspec

from policy_sched.client.request import ObjectRequest
from policy_sched.client.volume_controllers import VolumeStore, complete_binding, provision
from policy_sched.errors import ClusterError
from policy_sched.model import ApiObject, PersistentVolume, PersistentVolumeClaim


class WritableStore(VolumeStore, Protocol):
    """Where objects can be deleted, too."""

    def remove(self, thing: ApiObject) -> None:
        """Drop an object if it is known."""


def carried_out(store: WritableStore, request: ObjectRequest) -> ApiObject | None:
    """Carry a request out and return the object; None if it was deleted. Raises ClusterError.

    Volumes and claims are bound at once: see `volume_controllers`.
    """
    if request.verb == "create":
        return _created(store, request)
    obj = store.named(request.kind, request.namespace, request.name)
    if obj is None:
        plural = f"{request.kind.__name__.lower()}s"
        group = request.api_kind[0].partition("/")[0]
        raise ClusterError(f'{plural}.{group} "{request.name}" not found')
    if request.verb == "get":
        return obj
    if request.verb == "delete":
        store.remove(obj)
        return None
    changed = patched(obj, request)
    if isinstance(changed, PersistentVolume):
        complete_binding(store, changed)
    elif isinstance(changed, PersistentVolumeClaim):
        provision(store, changed)
    else:
        store.put(changed)
    return changed


def patched(current: ApiObject, request: ObjectRequest) -> ApiObject:
    """Return an object after a patch: only the fields that the patch names are read and made."""
    parts: dict[str, Any] = {}
    for name, change in request.body.items():
        if change == {}:
            continue  # nothing in it changes
        field = _field_types(request.kind)[name]
        before = msgspec.to_builtins(getattr(current, field.name))
        merged = _merged({name: before}, {name: change}, strategic=request.strategic)
        parts[field.name] = msgspec.convert(merged.get(name, {}), field.type)
    return msgspec.structs.replace(current, **parts)


@cache
def _field_types(kind: type[ApiObject]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def _created(store: VolumeStore, request: ObjectRequest) -> ApiObject:
    body = msgspec.to_builtins(request.body)
    meta = body["metadata"] = {**body.get("metadata", {}), "namespace": request.namespace}
    prefix = meta.get("generateName", "")
    if not meta.get("name"):
        number = 0
        while store.named(request.kind, request.namespace, f"{prefix}{number:05d}") is not None:
            number += 1
        meta["name"] = f"{prefix}{number:05d}"
    meta["uid"] = f"{request.namespace}/{meta['name']}"
    version, kind = request.api_kind
    created: ApiObject = msgspec.convert(
        {"apiVersion": version, "kind": kind, **body}, request.kind
    )
    store.put(created)
    return created


def _merged(target: Any, patch: Mapping[str, Any], *, strategic: bool) -> Any:
    """Return a target after a merge patch; lists of a strategic one are matched by uid."""
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = _merged(result.get(name), value, strategic=strategic)
        elif strategic and isinstance(value, list | tuple):
            gone = {item.get("uid") for item in value if item.get("$patch") == "delete"}
            kept = [item for item in result.get(name, ()) if item.get("uid") not in gone]
            result[name] = kept + [item for item in value if item.get("$patch") != "delete"]
        else:
            result[name] = value
    return result
