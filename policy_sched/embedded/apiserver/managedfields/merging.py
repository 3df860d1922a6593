"""Objects put together field by field, and fields taken out of them again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from policy_sched.embedded.apiserver.managedfields.paths import Path, elements
from policy_sched.embedded.apiserver.managedfields.topology import SET, Names, atomic, keys_of
from policy_sched.manifests import Plain

_Tree = dict[str, Any]
"""Paths by their elements; `_HERE` where one ends."""
_HERE: Final = ""


def merged(kind: str, live: Any, applied: Any, names: Names = ()) -> Any:
    """Return a value with another one written over it; the arguments stay as they are."""
    if isinstance(live, dict) and isinstance(applied, dict) and not atomic(names):
        result = dict(live)
        for key, value in applied.items():
            result[key] = merged(kind, live.get(key), value, (*names, key))
        return result
    keys = keys_of(kind, names) if isinstance(applied, list) else None
    if keys and isinstance(live, list):
        old, new = elements(live, keys), elements(applied, keys)
        if old is not None and new is not None:
            if keys == SET:
                return list((old | new).values())
            both = {e: merged(kind, old[e], new[e], names) if e in old else new[e] for e in new}
            return list((old | both).values())
    return applied


def without(kind: str, data: Plain, paths: Iterable[Path]) -> Plain:
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
    result: Plain = _removed(kind, data, gone, ())
    return result


def _is_key(field: str, item: str) -> bool:
    return item.startswith("k:") and field[2:] in msgspec.json.decode(item[2:])


def _removed(kind: str, value: Any, gone: _Tree, names: Names) -> Any:
    """Return a value without what paths, as a tree, lead to; None if nothing is left of it."""
    if isinstance(value, dict):
        result = dict(value)
        for element, inner in gone.items():
            name = element.removeprefix("f:")
            if element[:2] == "f:" and name in result:
                _shrink(kind, result, (name, inner), (*names, name))
        return result or (None if names else result)
    keys = keys_of(kind, names)
    items = elements(value, keys) if keys and isinstance(value, list) else None
    if items is None:
        return value
    for element, inner in gone.items():
        if element in items:
            _shrink(kind, items, (element, inner), names)
    return list(items.values()) or None


def _shrink(kind: str, values: Plain, gone: tuple[str, _Tree], names: Names) -> None:
    """Take out of one value, in place, what is gone; the whole value if it is named itself."""
    name, tree = gone
    left = None if _HERE in tree else _removed(kind, values[name], tree, names)
    if left is None:
        del values[name]
    else:
        values[name] = left


def present(value: Any) -> Any:
    """Return plain data without fields that are null."""
    if isinstance(value, dict):
        return {key: present(one) for key, one in value.items() if one is not None}
    return [present(one) for one in value] if isinstance(value, list) else value
