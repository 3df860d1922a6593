"""Apply: an object becomes what a file says, as kubectl's client-side apply works it out.

What the file said last time is kept in an annotation. What it has dropped since is removed, what
it says is written, and what others have written besides stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from policy_sched.client.apimachinery import Stored, copied, encoded
from policy_sched.embedded.store.patch import key_of
from policy_sched.manifests import Plain

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_NOT_APPLIED: Final = ("resourceVersion", "uid", "creationTimestamp", "generation", "managedFields")


def annotated(given: Mapping[str, Any]) -> Plain:
    """Return what a file says, with the annotation that remembers it; status is no part of it."""
    data = copied(given)
    annotations = (data.get("metadata") or {}).get("annotations") or {}
    annotations.pop(LAST_APPLIED, None)
    said = {key: value for key, value in data.items() if key != "status"}
    meta = data["metadata"] = data.get("metadata") or {}
    said["metadata"] = {key: meta[key] for key in meta if key not in _NOT_APPLIED}
    text = encoded(said).decode()
    meta["annotations"] = {**annotations, LAST_APPLIED: text}
    return data


def patch_of(stored: Stored, wanted: Plain) -> Plain:
    """Return the strategic merge patch that makes an object what `wanted` (`annotated`) says."""
    text = stored.typed.metadata.annotations.get(LAST_APPLIED)
    before = _remembered(text)
    said = {key: value for key, value in wanted.items() if key != "status"}
    meta = {key: value for key, value in said["metadata"].items() if key not in _NOT_APPLIED}
    said["metadata"] = meta
    patch = _patch(before, said)
    patch["metadata"] = patch.get("metadata") or {}
    for field in ("name", "namespace"):
        patch["metadata"].pop(field, None)
    return patch


def _remembered(text: str | None) -> Any:
    """Return what the annotation says; nothing if others have written it and it cannot be read."""
    try:
        return msgspec.json.decode(text) if text else {}
    except (msgspec.DecodeError, RecursionError):
        return {}


def _patch(before: Any, after: Plain) -> Plain:
    """Return the patch that writes `after` and removes what only `before` says."""
    patch: Plain = {}
    if isinstance(before, dict):
        patch |= dict.fromkeys(key for key in before if key not in after)
    else:
        before = {}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, dict):
            patch[key] = _patch(old, value)
        elif isinstance(value, list) and isinstance(old, list) and (name := key_of(key, value)):
            patch[key] = _items(old, value, name)
        else:
            patch[key] = value
    return patch


def _items(before: list[Any], after: list[Any], key: str) -> list[Any]:
    names = [item.get(key) for item in after]
    known = {
        item[key]: item
        for item in before
        if isinstance(item, dict) and isinstance(item.get(key), str | int)
    }
    gone = [{"$patch": "delete", key: name} for name in known if name not in names]
    return [_patch(known.get(item.get(key)), item) for item in after] + gone
