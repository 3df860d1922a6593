"""How objects are taken apart: which lists are merged item by item, and what is one value.

From the listType, listMapKey, mapType and structType tags of the API's types; a field is known by
its name, and where one name means several things, by the kind or the field that it stands in. A
list that is not named here is one value, as any list of an unknown kind.

Objects as sets of fields: each field that holds a value, by its path.

A path is written in the elements of FieldsV1: ``f:NAME`` of a field, ``k:{KEYS}`` of an item of a
list, ``v:VALUE`` of an item that is its own key. An item is a field of its own, besides those in
it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

import msgspec

from policy_sched.client.apimachinery import bad_request, encoded
from policy_sched.embedded.apiserver.registry import too_large
from policy_sched.manifests import Plain

SET: Final = ("",)
"""Instead of keys: a set, whose values are their own keys."""

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
"""Defaults of keys that an item leaves out."""

Names = tuple[str, ...]
"""The fields on the way to a value, without keys of items."""


class Lists(Protocol):
    """How the objects of a kind are taken apart."""

    def keys_of(self, names: Names) -> tuple[str, ...] | None:
        """Return the key fields of a list's items, None if the list is atomic."""

    def atomic(self, names: Names) -> bool:
        """Return whether a map is one value."""


class KindLists:
    """The lists of a kind of the API's own; those of custom kinds are `schema.MergeRules`."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def keys_of(self, names: Names) -> tuple[str, ...] | None:
        """Return the key fields of a list's items, None if the list is atomic."""
        return _keys_of(self._kind, names)

    def atomic(self, names: Names) -> bool:
        """Return whether a map is one value; what is required of nodes is no map of terms."""
        return bool(names) and names[-1] in _ATOMIC


def _keys_of(kind: str, names: Names) -> tuple[str, ...] | None:
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


def key_values(item: Any, keys: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the keys of an item with their values, None if it has them not."""
    if not isinstance(item, dict):
        return None
    values = {key: item.get(key, _DEFAULTS.get(key)) for key in sorted(keys)}
    if any(value is None or isinstance(value, dict | list) for value in values.values()):
        return None
    return values


Path = tuple[str, ...]
Fields = dict[Path, Any]
"""Values of an object's fields by path; `ITEM` for an item itself."""
ITEM: Final = object()
ELEMENTS: Final = 60_000
"""Elements that the paths of an object may have together."""
DEEP: Final = 100
"""Elements that a path may have; no kind of the API's own has as many."""
_ITSELF: Final = "."


def fields_of(lists: Lists, data: Plain, *, strict: bool = False) -> Fields:
    """Return the fields of an object that hold values.

    A list whose items have equal keys is atomic; with ``strict`` ApiError is raised, as it
    is if the paths are too long together.
    """
    fields = _BoundedFields()
    if data:
        _walk(lists, data, ((), ()), fields, strict=strict)
    return fields


class _BoundedFields(dict[Path, Any]):
    """Fields, which raise ApiError when their paths become too long together."""

    def __init__(self) -> None:
        super().__init__()
        self._room = ELEMENTS

    def __setitem__(self, path: Path, value: Any) -> None:
        self._room -= len(path)
        if self._room < 0:
            raise too_large("the object has too many fields to note their managers")
        super().__setitem__(path, value)


def _walk(
    lists: Lists, value: Any, prefix: tuple[Path, Names], fields: Fields, *, strict: bool
) -> None:
    path, names = prefix
    if isinstance(value, dict) and value and not lists.atomic(names) and len(path) < DEEP:
        for key, inner in value.items():
            _walk(lists, inner, ((*path, f"f:{key}"), (*names, key)), fields, strict=strict)
        return
    keys = lists.keys_of(names) if isinstance(value, list) and value else None
    items = elements(value, keys) if keys else None
    if keys and items is None and strict:
        raise bad_request(
            f"failed to create typed patch object: {text(path)}: associative list with keys has an"
            " element that omits a key field or appears twice"
        )
    if items is None:
        fields[path] = value
        return
    for element, item in items.items():
        fields[*path, element] = ITEM
        if isinstance(item, dict):
            _walk(lists, item, ((*path, element), names), fields, strict=strict)


def elements(items: Iterable[Any], keys: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the items of a list by their path elements, None if two have the same."""
    by_element: dict[str, Any] = {}
    for item in items:
        if keys == SET:
            element = f"v:{encoded(item).decode()}" if not isinstance(item, dict | list) else None
        else:
            values = key_values(item, keys)
            element = None if values is None else f"k:{encoded(values).decode()}"
        if element is None or element in by_element:
            return None
        by_element[element] = item
    return by_element


def text(path: Path) -> str:
    """Return a path as messages have it: ``.spec.containers[name="c"].image``."""
    parts = []
    for element in path:
        form, _, rest = element.partition(":")
        if form == "f":
            parts.append(f".{rest}")
        elif form == "k":
            values = msgspec.json.decode(rest).items()
            parts.append(f"[{','.join(f'{k}={encoded(v).decode()}' for k, v in values)}]")
        else:
            parts.append(f"[={rest}]")
    return "".join(parts)


def as_fields_v1(paths: Iterable[Path]) -> Plain:
    """Return a set of paths as FieldsV1."""
    root: Plain = {}
    for path in sorted(paths):
        at = root
        for element in path:
            at = at.setdefault(element, {})
        if path[-1][0] != "f":
            at[_ITSELF] = {}
    for path in paths:  # a field that holds a value beside fields in it
        at = root
        for element in path:
            at = at[element]
        if at:
            at[_ITSELF] = {}
    return root


def from_fields_v1(data: Any) -> frozenset[Path]:
    """Return the paths of FieldsV1; what is none is left out."""
    paths = _BoundedFields()

    def walk(at: Any, path: Path) -> None:
        if len(path) > DEEP or not isinstance(at, dict):
            return
        if path and (not at or _ITSELF in at):
            paths[path] = ITEM
        for element, inner in at.items():
            if _is_element(element):
                walk(inner, (*path, element))

    walk(data, ())
    return frozenset(paths)


def _is_element(text: str) -> bool:
    if text[:2] == "f:":
        return True
    if text[:2] not in ("k:", "v:"):
        return False
    try:
        value = msgspec.json.decode(text[2:])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return isinstance(value, dict) is (text[:2] == "k:")


_Tree = dict[str, Any]
"""Paths by their elements; `_HERE` where one ends."""
_HERE: Final = ""


def merged(lists: Lists, live: Any, applied: Any, names: Names = ()) -> Any:
    """Return a value with another one written over it; the arguments stay as they are."""
    if isinstance(live, dict) and isinstance(applied, dict) and not lists.atomic(names):
        result = dict(live)
        for key, value in applied.items():
            result[key] = merged(lists, live.get(key), value, (*names, key))
        return result
    keys = lists.keys_of(names) if isinstance(applied, list) else None
    if keys and isinstance(live, list):
        old, new = elements(live, keys), elements(applied, keys)
        if old is not None and new is not None:
            if keys == SET:
                return list((old | new).values())
            both = {e: merged(lists, old[e], new[e], names) if e in old else new[e] for e in new}
            return list((old | both).values())
    return applied


def without(lists: Lists, data: Plain, paths: Iterable[Path]) -> Plain:
    """Return an object without some fields and items; what is empty then goes with them.

    The keys of an item stay as long as the item.
    """
    gone: _Tree = {}
    for path in paths:
        if len(path) > 1 and _is_key(path[-1], path[-2]):
            continue
        at = gone
        for element in path[:-1]:
            at = at.setdefault(element, {})
        at.setdefault(path[-1], {})[_HERE] = {}
    result: Plain = _removed(lists, data, gone, ())
    return result


def _is_key(field: str, item: str) -> bool:
    return item.startswith("k:") and field[2:] in msgspec.json.decode(item[2:])


def _removed(lists: Lists, value: Any, gone: _Tree, names: Names) -> Any:
    """Return a value without what paths, as a tree, lead to; None if nothing is left of it."""
    if isinstance(value, dict):
        result = dict(value)
        for element, inner in gone.items():
            name = element.removeprefix("f:")
            if element[:2] == "f:" and name in result:
                _shrink(lists, result, (name, inner), (*names, name))
        return result or (None if names else result)
    keys = lists.keys_of(names)
    items = elements(value, keys) if keys and isinstance(value, list) else None
    if items is None:
        return value
    for element, inner in gone.items():
        if element in items:
            _shrink(lists, items, (element, inner), names)
    return list(items.values()) or None


def _shrink(lists: Lists, values: Plain, gone: tuple[str, _Tree], names: Names) -> None:
    """Remove fields from a value, in place; the whole value if it is named itself."""
    name, tree = gone
    left = None if _HERE in tree else _removed(lists, values[name], tree, names)
    if left is None:
        del values[name]
    else:
        values[name] = left
