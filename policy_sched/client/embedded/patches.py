"""Patches of plain data: JSON merge patch, strategic merge patch, JSON patch.

Of the strategic merge only the lists below are merged by key; every other list is replaced, as in
a merge patch. (RFC 7386, RFC 6902, and the patchMergeKey tags of the API's types.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from policy_sched.client.embedded.api_error import ApiError, bad_request
from policy_sched.client.embedded.stored import copied, encoded
from policy_sched.model.expansion import Plain

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
"""By which field the items of a list are told apart; taints and tolerations are replaced whole."""
_SETS: Final = frozenset({"finalizers", "podCIDRs"})
_ORDER: Final = "$setElementOrder/"
_RETAIN: Final = "$retainKeys"
_DIRECTIVE: Final = "$patch"
COPIED: Final = 3 * 1024 * 1024
"""Bytes that an object may have after a copy: a copy into itself doubles it every time."""


def key_of(field: str, items: Any) -> str | None:
    """Return by which field the items of a list are told apart, None if it is replaced whole.

    Ports are told apart by their number, which containers and services call differently.
    """
    if field != "ports":
        return KEYS.get(field)
    if not isinstance(items, list) or not all(isinstance(one, dict) for one in items):
        return None
    for key in ("containerPort", "port"):
        if items and all(key in one for one in items):
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
            result[name] = [item for item in result.get(name) or () if item not in value]
        elif key.startswith("$"):
            continue  # the order of items, and which keys stay: below
        elif value is None:
            result.pop(key, None)
        elif key in _SETS and isinstance(value, list):
            old = result.get(key) or []
            result[key] = [*old, *(item for item in value if item not in old)]
        elif isinstance(value, list) and (name := key_of(key, value)):
            result[key] = _merged_list(result.get(key) or [], value, name)
        else:
            result[key] = strategic(result.get(key), value)
    return _arranged(result, patch)


def _arranged(result: Plain, patch: Plain) -> Plain:
    """Put the items of lists in the order that a patch wants, and drop what it does not retain."""
    for key, wanted in patch.items():
        field = key.removeprefix(_ORDER)
        items = result.get(field)
        if field == key or not isinstance(items, list) or not isinstance(wanted, list):
            continue
        name = key_of(field, wanted)
        marks = [one.get(name) if name and isinstance(one, dict) else one for one in wanted]

        def place(item: Any, name: str | None = name, marks: list[Any] = marks) -> int:
            mark = item.get(name) if name and isinstance(item, dict) else item
            return marks.index(mark) if mark in marks else len(marks)

        result[field] = sorted(items, key=place)
    retained = patch.get(_RETAIN)
    if isinstance(retained, list):
        return {key: value for key, value in result.items() if key in retained}
    return result


def _merged_list(target: list[Any], patch: list[Any], key: str) -> list[Any]:
    if any(isinstance(item, dict) and item.get(_DIRECTIVE) == "replace" for item in patch):
        return [item for item in patch if item.get(_DIRECTIVE) != "replace"]
    result = list(target)
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise bad_request(f"map: {item!r} does not contain declared merge key: {key}")
        places = [i for i, old in enumerate(result) if old.get(key) == item[key]]
        if item.get(_DIRECTIVE) == "delete":
            result = [old for i, old in enumerate(result) if i not in places]
        elif places:
            result[places[0]] = strategic(result[places[0]], item)
        else:
            result.append(item)
    return result


def json_patch(target: Plain, operations: list[Plain]) -> Plain:
    """Return a JSON patch applied. Raises ApiError if an operation cannot be."""
    document: Any = copied(target)
    for operation in operations:
        try:
            document = _operate(document, operation)
            if operation["op"] == "copy" and len(encoded(document)) > COPIED:
                text = "Request entity too large: the copies of the JSON patch exceed the limit"
                raise ApiError(413, "RequestEntityTooLarge", f"{text} of {COPIED}")
        except (KeyError, IndexError, ValueError, TypeError, AttributeError):
            text = "the server rejected our request due to an error in our request"
            raise ApiError(422, "Invalid", text) from None
    result: Plain = document
    return result


def _operate(document: Any, operation: Plain) -> Any:
    path = _steps(operation["path"])
    match operation["op"]:
        case "add":
            return _add(document, path, operation["value"])
        case "remove":
            return _removed(document, path)
        case "replace":
            return _add(_removed(document, path), path, operation["value"])
        case "test":
            if _at(document, path) != operation["value"]:
                raise ValueError("the test failed")
            return document
        case "copy":
            return _add(document, path, copied(_at(document, _steps(operation["from"]))))
        case "move":
            start = _steps(operation["from"])
            return _add(_removed(document, start), path, _at(document, start))
    raise ValueError("no such operation")


def _steps(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise ValueError("no JSON pointer")
    return [s.replace("~1", "/").replace("~0", "~") for s in pointer.split("/")[1:]]


def _at(document: Any, path: list[str]) -> Any:
    for step in path:
        document = document[int(step) if isinstance(document, list) else step]
    return document


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value

    def change(parent: Any, step: str) -> None:
        if isinstance(parent, list):
            parent.insert(len(parent) if step == "-" else int(step), value)
        else:
            parent[step] = value

    return _changed(document, path, change)


def _removed(document: Any, path: list[str]) -> Any:
    if not path:
        return None

    def change(parent: Any, step: str) -> None:
        del parent[int(step) if isinstance(parent, list) else step]

    return _changed(document, path, change)


def _changed(document: Any, path: list[str], change: Callable[[Any, str], None]) -> Any:
    """Return a copy of the document in which the parent of the path was changed."""
    result = copied(document)
    change(_at(result, path[:-1]), path[-1])
    return result


PATCHES: Final[dict[str, Callable[[Any, Any], Any]]] = {
    MERGE: merge,
    STRATEGIC: strategic,
    JSON: json_patch,
}
"""The patch types, by content type."""
