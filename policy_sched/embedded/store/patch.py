"""Patches of plain data: JSON merge patch, strategic merge patch, JSON patch, client-side apply.

Of the strategic merge only the lists below are merged by key; every other list is replaced, as in
a merge patch. (RFC 7386, RFC 6902, and the patchMergeKey tags of the API's types.)

Client-side apply, as by kubectl: an annotation keeps the former file. Fields that only the former
file has are removed; fields of the file are written; all others stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from policy_sched.client.apimachinery import ApiError, Stored, bad_request, copied, encoded
from policy_sched.manifests import Plain

MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON: Final = "application/json-patch+json"

KEYS: Final = {
    "addresses": "type",
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "reservedFor": "uid",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "secrets": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
    "webhooks": "name",
}
"""The merge key of a list's items; taints and tolerations are replaced whole."""
_SETS: Final = frozenset({"finalizers", "podCIDRs"})
_ORDER: Final = "$setElementOrder/"
_RETAIN: Final = "$retainKeys"
_DIRECTIVE: Final = "$patch"
_SHOWN: Final = 100
"""Bytes of an item that a refusal repeats."""
COPIED: Final = 3 * 1024 * 1024
"""Bytes that a JSON patch may copy (the API server's limit): a copy into itself doubles it."""
SHIFTED: Final = 50_000_000
"""Items of lists that a JSON patch may shift where it inserts and removes."""


def key_of(field: str, items: Any) -> str | None:
    """Return the merge key of a list's items, None if the list is replaced whole.

    The merge key of ports is their number, which containers and services call differently.
    """
    if field != "ports":
        return KEYS.get(field)
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        return None
    for key in ("containerPort", "port"):
        if items and all(key in item for item in items):
            return key
    return None


def merge(target: Any, patch: Any) -> Any:
    """Return a JSON merge patch applied; the arguments stay as they are."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def strategic(target: Any, patch: Any) -> Any:
    """Return a strategic merge patch applied; the arguments stay as they are."""
    if not isinstance(patch, dict):
        return patch
    if patch.get(_DIRECTIVE) == "replace":
        return {key: value for key, value in patch.items() if key != _DIRECTIVE}
    if patch.get(_DIRECTIVE) == "delete":
        return {}
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            gone = {encoded(item) for item in value}
            result[name] = [item for item in result.get(name) or () if encoded(item) not in gone]
        elif key.startswith("$"):
            continue  # the order of items, and which keys stay: below
        elif value is None:
            result.pop(key, None)
        elif key in _SETS and isinstance(value, list):
            items = [*(result.get(key) or ()), *value]
            result[key] = list({encoded(item): item for item in items}.values())
        elif isinstance(value, list) and (name := key_of(key, value)):
            result[key] = _merged_list(result.get(key) or [], value, name)
        else:
            result[key] = strategic(result.get(key), value)
    return _arranged(result, patch)


def _arranged(result: Plain, patch: Plain) -> Plain:
    """Order the items of lists as a patch demands, and drop what it does not retain."""
    for key, wanted in patch.items():
        field = key.removeprefix(_ORDER)
        items = result.get(field)
        if field == key or not isinstance(items, list) or not isinstance(wanted, list):
            continue
        name = key_of(field, wanted)
        order: dict[bytes, int] = {}
        for i, wanted_item in enumerate(wanted):
            order.setdefault(_mark(wanted_item, name), i)
        marks = [order.get(_mark(item, name), len(wanted)) for item in items]
        result[field] = [items[at] for at in sorted(range(len(items)), key=marks.__getitem__)]
    retained = patch.get(_RETAIN)
    if isinstance(retained, list):
        kept = set(map(str, retained))
        return {key: value for key, value in result.items() if key in kept}
    return result


def _mark(item: Any, name: str | None) -> bytes:
    """Return an item's key in a form that can be looked up."""
    return encoded(item.get(name) if name and isinstance(item, dict) else item)


def _merged_list(target: list[Any], patch: list[Any], key: str) -> list[Any]:
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in patch):
        return [item for item in patch if item.get(_DIRECTIVE) != "replace"]
    by_mark: dict[bytes, list[Any]] = {}
    for old in target:  # items of the same key stay together
        by_mark.setdefault(encoded(old.get(key)), []).append(old)
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            shown = encoded(item)[:_SHOWN].decode(errors="replace")
            raise bad_request(f"map: {shown} does not contain declared merge key: {key}")
        mark = encoded(item[key])
        if item.get(_DIRECTIVE) == "delete":
            by_mark.pop(mark, None)
        elif mark in by_mark:
            by_mark[mark][0] = strategic(by_mark[mark][0], item)
        else:
            by_mark[mark] = [item]
    return [item for items in by_mark.values() for item in items]


def json_patch(target: Plain, operations: list[Plain]) -> Plain:
    """Return a JSON patch applied. Raises ApiError if an operation cannot be."""
    return _JsonPatch(target).apply(operations)


class _JsonPatch:
    """A document that operations change in place; what they copy and shift is counted."""

    def __init__(self, target: Plain) -> None:
        self._root: Plain = {"": copied(target)}
        self._copied = 0
        self._shifted = 0

    def apply(self, operations: list[Plain]) -> Plain:
        """Do the operations, one after the other; return the document."""
        for operation in operations:
            try:
                self._operate(operation)
            except (KeyError, IndexError, ValueError, TypeError, AttributeError, RecursionError):
                text = "the server rejected our request due to an error in our request"
                raise ApiError(422, "Invalid", text) from None
        result: Plain = self._root[""]
        return result

    def _operate(self, operation: Plain) -> None:
        path = _steps(operation["path"])
        match operation["op"]:
            case "add":
                self._add(path, operation["value"])
            case "remove":
                self._remove(path)
            case "replace":
                self._remove(path)
                self._add(path, operation["value"])
            case "test":
                if _at(self._root, path) != operation["value"]:
                    raise ValueError("the test failed")
            case "copy":
                self._add(path, self._copy(_at(self._root, _steps(operation["from"]))))
            case "move":
                start = _steps(operation["from"])
                if path != start and path[: len(start)] == start:
                    raise ValueError("a value cannot be moved into itself")
                value = _at(self._root, start)
                self._remove(start)
                self._add(path, value)
            case _:
                raise ValueError("no such operation")

    def _copy(self, value: Any) -> Any:
        raw = encoded(value)
        self._copied += len(raw)
        if self._copied > COPIED:
            text = "Request entity too large: the copies of the JSON patch exceed the limit"
            raise ApiError(413, "RequestEntityTooLarge", f"{text} of {COPIED}")
        return msgspec.json.decode(raw)

    def _add(self, path: list[str], value: Any) -> None:
        parent, step = _at(self._root, path[:-1]), path[-1]
        if isinstance(parent, list):
            at = len(parent) if step == "-" else int(step)
            if at > len(parent):
                raise IndexError
            self._shift(len(parent) - at)
            parent.insert(at, value)
        else:
            parent[step] = value

    def _remove(self, path: list[str]) -> None:
        parent, step = _at(self._root, path[:-1]), path[-1]
        if isinstance(parent, list):
            self._shift(len(parent) - int(step))
            del parent[int(step)]
        else:
            del parent[step]

    def _shift(self, items: int) -> None:
        """Count the items of a list that make room."""
        self._shifted += items
        if self._shifted > SHIFTED:
            text = "Request entity too large: the JSON patch shifts more items than the limit"
            raise ApiError(413, "RequestEntityTooLarge", f"{text} of {SHIFTED}")


def _steps(pointer: str) -> list[str]:
    """Return the steps of a JSON pointer from the root, which holds the document as ""."""
    if pointer and not pointer.startswith("/"):
        raise ValueError("no JSON pointer")
    return [s.replace("~1", "/").replace("~0", "~") for s in pointer.split("/")]


def _at(document: Any, path: list[str]) -> Any:
    for step in path:
        document = document[int(step) if isinstance(document, list) else step]
    return document


PATCHES: Final[dict[str, Callable[[Any, Any], Any]]] = {
    MERGE: merge,
    STRATEGIC: strategic,
    JSON: json_patch,
}
"""The patch types, by content type."""


LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_NOT_APPLIED: Final = ("resourceVersion", "uid", "creationTimestamp", "generation", "managedFields")


def annotated(given: Mapping[str, Any]) -> Plain:
    """Return a file's content, with itself in an annotation; status is no part of it."""
    data = copied(given)
    annotations = (data.get("metadata") or {}).get("annotations") or {}
    annotations.pop(LAST_APPLIED, None)
    config = {key: value for key, value in data.items() if key != "status"}
    meta = data["metadata"] = data.get("metadata") or {}
    config["metadata"] = {key: meta[key] for key in meta if key not in _NOT_APPLIED}
    text = encoded(config).decode()
    meta["annotations"] = {**annotations, LAST_APPLIED: text}
    return data


def patch_of(stored: Stored, wanted: Plain) -> Plain:
    """Return the strategic merge patch that makes an object what `wanted` (`annotated`) is.

    That of a custom object is a JSON merge patch: its lists are replaced.
    """
    text = stored.typed.metadata.annotations.get(LAST_APPLIED)
    before = _remembered(text)
    config = {key: value for key, value in wanted.items() if key != "status"}
    meta = {key: value for key, value in config["metadata"].items() if key not in _NOT_APPLIED}
    config["metadata"] = meta
    patch = _patch(before, config, whole=stored.resource.custom)
    patch["metadata"] = patch.get("metadata") or {}
    for field in ("name", "namespace"):
        patch["metadata"].pop(field, None)
    return patch


def _remembered(text: str | None) -> Any:
    """Return the annotation's value; nothing if others have written it and it cannot be read."""
    try:
        return msgspec.json.decode(text) if text else {}
    except (msgspec.DecodeError, RecursionError):
        return {}


def _patch(before: Any, after: Plain, *, whole: bool = False) -> Plain:
    """Return the patch that writes `after` and removes what only `before` has.

    ``whole``: lists are replaced.
    """
    patch: Plain = {}
    if isinstance(before, dict):
        patch |= dict.fromkeys(key for key in before if key not in after)
    else:
        before = {}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, dict):
            patch[key] = _patch(old, value, whole=whole)
        elif whole or not isinstance(value, list) or not isinstance(old, list):
            patch[key] = value
        elif name := key_of(key, value):
            patch[key] = _items(old, value, name)
        else:
            patch[key] = value
    return patch


def _items(before: list[Any], after: list[Any], key: str) -> list[Any]:
    names = [item.get(key) for item in after]
    before_by_key = {
        item[key]: item
        for item in before
        if isinstance(item, dict) and isinstance(item.get(key), str | int)
    }
    gone = [{"$patch": "delete", key: name} for name in before_by_key if name not in names]
    return [_patch(before_by_key.get(item.get(key)), item) for item in after] + gone
